"""The ledger's protocol: reserve first, record once, never refund, append only."""

import multiprocessing
import sqlite3
import stat
from dataclasses import replace

import pytest

from dpbo_core.accounting.budget import PrivacyBudget
from dpbo_core.accounting.ledger import PrivacyLedger, StudyKey
from dpbo_core.errors import (
    AssumptionNotAccepted,
    BudgetExceeded,
    BudgetRefused,
    DpboError,
    EvidenceRefuted,
    NoBudget,
    NoiseNotPrivate,
    StudyInvalid,
)
from dpbo_core.mechanisms.laplace import DiscreteLaplace
from dpbo_core.privacy.amounts import spent_units
from dpbo_core.privacy.guarantee import Evidence, PrivacyGuarantee, Standing
from dpbo_core.privacy.plan import PrivacyPlan
from dpbo_core.privacy.release import Release
from dpbo_core.privacy.unit import NeighboringRelation, PrivacyUnit

SYSTEM = "operating_system"
PROMISE = PrivacyGuarantee(
    1.0, 0.0, PrivacyUnit.VALIDATION_RECORD, NeighboringRelation.REPLACE_ONE, (), Evidence(Standing.STANDARD, "")
)


def url(folder):
    return f"sqlite:///{folder / 'ledger.db'}"


def plan(epsilon=1.0, **changes):
    spend = DiscreteLaplace(2**24, spent_units(epsilon), 1.0).spend("score")
    return PrivacyPlan(replace(PROMISE, epsilon=epsilon, **changes), (spend,))


def key(name="s", dataset="d"):
    return StudyKey(f"{name:0>64}", dataset, name, "1", "private_grid")


@pytest.fixture
def ledger(tmp_path):
    book = PrivacyLedger(url(tmp_path))
    book.set_budget(PrivacyBudget.of("d", epsilon=1.0, delta=1e-6))
    return book


def entries(book, dataset="d"):
    return book.accounts(dataset)[0].entries


def test_without_a_cap_nothing_runs(tmp_path):
    book = PrivacyLedger(url(tmp_path))
    with pytest.raises(NoBudget, match="budget set d"):
        book.reserve(key(), plan(), noise=SYSTEM)
    assert book.accounts() == ()


def test_ten_tenths_fill_a_cap_and_the_eleventh_is_refused(ledger):
    for i in range(10):
        ledger.reserve(key(str(i)), plan(0.1), noise=SYSTEM)
    with pytest.raises(BudgetExceeded, match=r"limit is ε = 1.*spent ε = 1;.*asks for ε = 0.1") as caught:
        ledger.reserve(key("eleventh"), plan(0.1), noise=SYSTEM)
    assert caught.value.exit_code == 3
    assert len(entries(ledger)) == 10


def test_exactly_what_remains_is_admitted(ledger):
    ledger.reserve(key("a"), plan(0.7), noise=SYSTEM)
    ledger.reserve(key("b"), plan(0.3), noise=SYSTEM)
    with pytest.raises(BudgetExceeded):
        ledger.reserve(key("c"), plan(1e-6), noise=SYSTEM)


def test_a_rerun_takes_over_and_never_pays_or_draws_twice(ledger, tmp_path):
    first = ledger.reserve(key(), plan(), noise=SYSTEM)
    spend = plan().spends[0]
    drawn = first.record(spend, lambda: {"draw": 41})
    again = PrivacyLedger(url(tmp_path)).reserve(key(), plan(), noise=SYSTEM)
    assert again.recorded("score") == drawn
    assert again.record(spend, lambda: pytest.fail("drawn twice")) == {"draw": 41}
    assert len(entries(ledger)) == 1
    assert ledger.accounts("d")[0].spent.epsilon_units == spent_units(1.0)


def test_a_draw_that_fails_leaves_nothing(ledger):
    reservation = ledger.reserve(key(), plan(), noise=SYSTEM)

    def fails():
        raise RuntimeError

    with pytest.raises(RuntimeError):
        reservation.record(plan().spends[0], fails)
    assert reservation.recorded("score") is None


def test_a_release_is_recorded_once(ledger):
    reservation = ledger.reserve(key(), plan(), noise=SYSTEM)
    release = Release({"score": 0.25}, PROMISE, plan().spends, "s", "1", "private_grid", "d")
    assert ledger.release_of(key().fingerprint) is None
    first = reservation.conclude(release)
    second = reservation.conclude(replace(release, value={"score": 99.0}))
    assert first == second == ledger.release_of(key().fingerprint)
    assert first.value == {"score": 0.25}
    assert first.release_id
    assert Release.from_json(first.to_json()) == first


def test_another_plan_under_the_same_fingerprint_is_refused(ledger):
    ledger.reserve(key(), plan(0.5), noise=SYSTEM)
    with pytest.raises(StudyInvalid, match="another plan"):
        ledger.reserve(key(), plan(0.4), noise=SYSTEM)


def test_a_cap_is_set_once(ledger):
    assert ledger.set_budget(PrivacyBudget.of("d", epsilon=1.0, delta=1e-6)) is False
    for other in (
        PrivacyBudget.of("d", epsilon=2.0, delta=1e-6),
        PrivacyBudget.of("d", epsilon=1.0, delta=1e-5),
        PrivacyBudget.of("d", epsilon=1.0, delta=1e-6, relation=NeighboringRelation.ADD_OR_REMOVE_ONE),
        PrivacyBudget.of("d", epsilon=1.0, delta=1e-6, accepts=("gp_prior",)),
        PrivacyBudget.without_limit("d"),
    ):
        with pytest.raises(StudyInvalid, match="never change"):
            ledger.set_budget(other)


def test_a_refused_plan_opens_no_cap(tmp_path):
    book = PrivacyLedger(url(tmp_path))
    with pytest.raises(BudgetExceeded):
        book.reserve(key(), plan(2.0), noise=SYSTEM, opening=PrivacyBudget.of("d", epsilon=1.0, delta=0.0))
    assert book.budget("d") is None
    book.reserve(key(), plan(1.0), noise=SYSTEM, opening=PrivacyBudget.of("d", epsilon=1.0, delta=0.0))
    with pytest.raises(StudyInvalid, match="never change"):
        book.reserve(key("z"), plan(0.1), noise=SYSTEM, opening=PrivacyBudget.of("d", epsilon=9.0, delta=0.0))


def test_what_a_cap_does_not_promise_is_refused(ledger):
    with pytest.raises(EvidenceRefuted) as refuted:
        ledger.reserve(key(), plan(0.1, evidence=Evidence(Standing.REFUTED, "wrong")), noise=SYSTEM)
    assert refuted.value.exit_code == 3
    with pytest.raises(NoiseNotPrivate):
        ledger.reserve(key(), plan(0.1), noise="injected")
    with pytest.raises(BudgetRefused):
        ledger.reserve(key(), plan(0.1, relation=NeighboringRelation.ROW_MOVES_BY_ONE), noise=SYSTEM)
    with pytest.raises(AssumptionNotAccepted) as assumed:
        ledger.reserve(key(), plan(0.1, assumptions=("gp_prior",)), noise=SYSTEM)
    assert assumed.value.exit_code == 4
    assert entries(ledger) == ()
    ledger.reserve(key("a"), plan(0.1), noise=SYSTEM)
    with pytest.raises(BudgetRefused, match="validation_record"):
        ledger.reserve(key("b"), plan(0.1, unit=PrivacyUnit.PERSON), noise=SYSTEM)


def test_a_public_dataset_takes_anything(tmp_path):
    book = PrivacyLedger(url(tmp_path))
    book.set_budget(PrivacyBudget.without_limit("d"))
    book.reserve(key("a"), plan(50.0), noise="injected")
    book.reserve(key("b"), plan(0.1, evidence=Evidence(Standing.REFUTED, "wrong")), noise=SYSTEM)
    assert len(entries(book)) == 2


@pytest.mark.parametrize("table", ["facts", "datasets", "reservations", "draws", "releases"])
@pytest.mark.parametrize("verb", ["UPDATE", "DELETE"])
def test_rows_are_only_ever_added(ledger, tmp_path, table, verb):
    reservation = ledger.reserve(key(), plan(), noise=SYSTEM)
    reservation.record(plan().spends[0], lambda: {"draw": 1})
    reservation.conclude(Release({"score": 1.0}, PROMISE, plan().spends, "s", "1", "private_grid", "d"))
    with sqlite3.connect(tmp_path / "ledger.db") as raw:
        column = raw.execute(f"SELECT name FROM pragma_table_info('{table}')").fetchone()[0]
        statement = {"UPDATE": f"UPDATE {table} SET {column} = {column}", "DELETE": f"DELETE FROM {table}"}[verb]
        assert raw.execute(f"SELECT count(*) FROM {table}").fetchone()[0] > 0
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            raw.execute(statement)


def test_the_file_is_its_owners(ledger, tmp_path):
    assert stat.S_IMODE((tmp_path / "ledger.db").stat().st_mode) == 0o600


def test_another_schema_is_not_touched(ledger, tmp_path):
    with sqlite3.connect(tmp_path / "ledger.db") as raw:
        raw.execute("DROP TRIGGER facts_no_update")
        raw.execute("UPDATE facts SET value = '99' WHERE name = 'schema'")
    with pytest.raises(DpboError, match="schema 99"):
        PrivacyLedger(url(tmp_path))


@pytest.mark.parametrize("bad", ["nonsense", "mysql://x/y", "sqlite://", "sqlite:////proc/nothing/here/ledger.db"])
def test_an_unusable_url_is_a_letter(bad):
    with pytest.raises(StudyInvalid, match="DPBO_LEDGER_URL"):
        PrivacyLedger(bad)


def reserve_many(folder, worker, outcomes):
    book = PrivacyLedger(url(folder))
    won = 0
    for i in range(10):
        try:
            book.reserve(key(f"{worker}-{i}"), plan(0.05), noise=SYSTEM)
            won += 1
        except BudgetExceeded:
            pass
    outcomes.put(won)


def test_processes_never_exceed_the_cap_together(ledger, tmp_path):
    context = multiprocessing.get_context("spawn")
    outcomes = context.Queue()
    workers = [context.Process(target=reserve_many, args=(tmp_path, n, outcomes)) for n in range(4)]
    for worker in workers:
        worker.start()
    won = sum(outcomes.get(timeout=120) for _ in workers)
    for worker in workers:
        worker.join()
    assert won == 20  # 40 asked for 0.05 of a cap of 1
    assert len(entries(ledger)) == 20
