"""The ledger's protocol, on SQLite and PostgreSQL: reserve first, record once, never refund, append only."""

import itertools
import multiprocessing
import os
import sqlite3
import stat
import threading
import time
from collections import Counter
from contextlib import closing, nullcontext, suppress
from dataclasses import replace
from functools import cache, partial

import pytest
import sqlalchemy as sa
from conftest import new_database
from worlds import asked_until_it_answers

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
from dpbo_core.ledger import audit
from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.accounting.composition import ZERO_TOTAL
from dpbo_core.ledger.charge import Charge, QueryKey
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.recovery import accept
from dpbo_core.mechanisms.laplace import DiscreteLaplace
from dpbo_core.privacy.amounts import spent_units
from dpbo_core.privacy.guarantee import Evidence, NeighboringRelation, PrivacyGuarantee, PrivacyUnit, Standing
from dpbo_core.privacy.release import PrivacyPlan, Release

SYSTEM = "operating_system"
GUARANTEE = PrivacyGuarantee(
    1.0, 0.0, PrivacyUnit.VALIDATION_RECORD, NeighboringRelation.REPLACE_ONE, (), Evidence(Standing.STANDARD, "")
)


@cache
def engine_of(url):
    return sa.create_engine(url, poolclass=sa.pool.NullPool)


def sql(url, *statements):
    """Run statements on the ledger's database, past everything dpbo does; the rows of the last one."""
    with engine_of(url).begin() as connection:
        for statement in statements:
            result = connection.exec_driver_sql(statement)
        return result.fetchall() if result.returns_rows else []


def lift(url, table, verb):
    """The words that take a trigger off."""
    return f"DROP TRIGGER {table}_no_{verb}" + (f" ON {table}" if url.startswith("postgresql") else "")


def plan(epsilon=1.0, **changes):
    spend = DiscreteLaplace(2**24, spent_units(epsilon), 1.0).spend("score")
    return PrivacyPlan(replace(GUARANTEE, epsilon=epsilon, **changes), (spend,))


def key(name="s", dataset="d"):
    return QueryKey(f"{name:0>64}", dataset, name, "1", "private_grid")


@pytest.fixture
def ledger(ledger_url):
    return capped(ledger_url)


@pytest.fixture
def of_file(url):
    """A ledger in a file, for rules that are decided whatever the database."""
    return capped(url)


def capped(url, epsilon=1.0, delta=1e-6):
    book = PrivacyLedger(url)
    book.set_budget(PrivacyBudget.of("d", epsilon=epsilon, delta=delta))
    return book


def entries(book, dataset="d"):
    return book.accounts(dataset)[0].entries


def test_without_a_cap_nothing_runs(url):
    book = PrivacyLedger(url)
    with pytest.raises(NoBudget, match="budget set d"):
        book.reserve(Charge(key(), plan()), noise=SYSTEM)
    assert book.accounts() == ()


def test_ten_tenths_fill_a_cap_and_the_eleventh_is_refused(ledger):
    for i in range(10):
        ledger.reserve(Charge(key(str(i)), plan(0.1)), noise=SYSTEM)
    with pytest.raises(BudgetExceeded, match=r"limit is ε = 1.*spent ε = 1;.*asks for ε = 0.1") as caught:
        ledger.reserve(Charge(key("eleventh"), plan(0.1)), noise=SYSTEM)
    assert caught.value.exit_code == 3
    assert len(entries(ledger)) == 10


def test_exactly_what_remains_is_admitted(of_file):
    of_file.reserve(Charge(key("a"), plan(0.7)), noise=SYSTEM)
    of_file.reserve(Charge(key("b"), plan(0.3)), noise=SYSTEM)
    with pytest.raises(BudgetExceeded):
        of_file.reserve(Charge(key("c"), plan(1e-6)), noise=SYSTEM)


def test_a_rerun_takes_over_and_never_pays_or_draws_twice(ledger, ledger_url):
    first = ledger.reserve(Charge(key(), plan()), noise=SYSTEM)
    spend = plan().spends[0]
    drawn = first.record(spend, lambda: {"draw": 41})
    again = PrivacyLedger(ledger_url).reserve(Charge(key(), plan()), noise=SYSTEM)
    assert again.recorded("score") == drawn
    assert again.record(spend, lambda: pytest.fail("drawn twice")) == {"draw": 41}
    assert len(entries(ledger)) == 1
    assert ledger.accounts("d")[0].spent.epsilon_units == spent_units(1.0)


def test_a_draw_that_fails_leaves_nothing(ledger):
    reservation = ledger.reserve(Charge(key(), plan()), noise=SYSTEM)

    def fails():
        raise RuntimeError

    with pytest.raises(RuntimeError):
        reservation.record(plan().spends[0], fails)
    assert reservation.recorded("score") is None


def test_a_release_is_recorded_once(ledger):
    reservation = ledger.reserve(Charge(key(), plan()), noise=SYSTEM)
    release = Release({"score": 0.25}, GUARANTEE, plan().spends, "s", "1", "private_grid", "d")
    assert ledger.release_of(key().fingerprint) is None
    first = reservation.conclude(release)
    second = reservation.conclude(replace(release, value={"score": 99.0}))
    assert first == second == ledger.release_of(key().fingerprint)
    assert first.value == {"score": 0.25}
    assert first.release_id
    assert Release.from_json(first.to_json()) == first


def test_another_plan_under_the_same_fingerprint_is_refused(of_file):
    of_file.reserve(Charge(key(), plan(0.5)), noise=SYSTEM)
    with pytest.raises(StudyInvalid, match="another plan"):
        of_file.reserve(Charge(key(), plan(0.4)), noise=SYSTEM)


def test_a_cap_is_set_once(of_file):
    assert of_file.set_budget(PrivacyBudget.of("d", epsilon=1.0, delta=1e-6)) is False
    for other in (
        PrivacyBudget.of("d", epsilon=2.0, delta=1e-6),
        PrivacyBudget.of("d", epsilon=1.0, delta=1e-5),
        PrivacyBudget.of("d", epsilon=1.0, delta=1e-6, relation=NeighboringRelation.ADD_OR_REMOVE_ONE),
        PrivacyBudget.of("d", epsilon=1.0, delta=1e-6, accepts=("gp_prior",)),
        PrivacyBudget.without_limit("d"),
    ):
        with pytest.raises(StudyInvalid, match="never change"):
            of_file.set_budget(other)


def test_a_refused_plan_opens_no_cap(url):
    book = PrivacyLedger(url)
    with pytest.raises(BudgetExceeded):
        book.reserve(Charge(key(), plan(2.0), cap=PrivacyBudget.of("d", epsilon=1.0, delta=0.0)), noise=SYSTEM)
    assert book.budget("d") is None
    book.reserve(Charge(key(), plan(1.0), cap=PrivacyBudget.of("d", epsilon=1.0, delta=0.0)), noise=SYSTEM)
    with pytest.raises(StudyInvalid, match="never change"):
        book.reserve(Charge(key("z"), plan(0.1), cap=PrivacyBudget.of("d", epsilon=9.0, delta=0.0)), noise=SYSTEM)


def test_what_a_cap_does_not_promise_is_refused(of_file):
    with pytest.raises(EvidenceRefuted) as refuted:
        of_file.reserve(Charge(key(), plan(0.1, evidence=Evidence(Standing.REFUTED, "wrong"))), noise=SYSTEM)
    assert refuted.value.exit_code == 3
    with pytest.raises(NoiseNotPrivate):
        of_file.reserve(Charge(key(), plan(0.1)), noise="injected")
    with pytest.raises(BudgetRefused):
        of_file.reserve(Charge(key(), plan(0.1, relation=NeighboringRelation.ROW_MOVES_BY_ONE)), noise=SYSTEM)
    with pytest.raises(AssumptionNotAccepted) as assumed:
        of_file.reserve(Charge(key(), plan(0.1, assumptions=("gp_prior",))), noise=SYSTEM)
    assert assumed.value.exit_code == 4
    assert entries(of_file) == ()
    of_file.reserve(Charge(key("a"), plan(0.1)), noise=SYSTEM)
    with pytest.raises(BudgetRefused, match=r"about each record .* about each person"):
        of_file.reserve(Charge(key("b"), plan(0.1, unit=PrivacyUnit.PERSON)), noise=SYSTEM)


def test_a_public_dataset_takes_anything(url):
    book = PrivacyLedger(url)
    book.set_budget(PrivacyBudget.without_limit("d"))
    book.reserve(Charge(key("a"), plan(50.0)), noise="injected")
    book.reserve(Charge(key("b"), plan(0.1, evidence=Evidence(Standing.REFUTED, "wrong"))), noise=SYSTEM)
    assert len(entries(book)) == 2


def test_rows_are_only_ever_added(ledger, ledger_url):
    reservation = ledger.reserve(Charge(key(), plan()), noise=SYSTEM)
    reservation.record(plan().spends[0], lambda: {"draw": 1})
    reservation.conclude(Release({"score": 1.0}, GUARANTEE, plan().spends, "s", "1", "private_grid", "d"))
    columns = {"ledger": "identity", "datasets": "name", "reservations": "id", "history": "sequence"}
    columns |= {"draws": "reservation", "releases": "reservation"}
    before = {table: sql(ledger_url, f"SELECT * FROM {table}") for table in columns}
    assert all(before.values())
    for table, column in columns.items():
        for verb, statement in {
            "UPDATE": f"UPDATE {table} SET {column} = {column}",
            "DELETE": f"DELETE FROM {table}",
            "TRUNCATE": f"TRUNCATE {table} CASCADE",
        }.items():
            unknown = verb == "TRUNCATE" and ledger_url.startswith("sqlite")
            expected = "syntax" if unknown else "append-only"
            with pytest.raises(sa.exc.DBAPIError, match=expected):
                sql(ledger_url, statement)
        assert sql(ledger_url, f"SELECT * FROM {table}") == before[table]


def test_the_files_are_their_owners(here):
    path = here / "new" / "ledger.db"
    book = capped(f"sqlite:///{path}")
    with sa.create_engine(f"sqlite:///{path}").connect() as held:  # so that -wal and -shm stay
        held.exec_driver_sql("SELECT * FROM ledger").fetchall()
        book.reserve(Charge(key(), plan()), noise=SYSTEM)
        files = {item.name: stat.S_IMODE(item.stat().st_mode) for item in path.parent.iterdir()}
    names = ("ledger.db", "ledger.db-wal", "ledger.db-shm", "ledger.db.generation")
    assert files == dict.fromkeys(names, 0o600)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    path.chmod(0o644)
    PrivacyLedger(f"sqlite:///{path}")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_ledger_of_another_schema_is_refused_by_its_number_and_exported(ledger, ledger_url):
    """Also by a process that has it open; nothing in it is touched, and its history can be read."""
    ledger.reserve(Charge(key("before"), plan(0.1)), noise=SYSTEM)
    whole = list(audit.export(ledger_url))
    sql(ledger_url, lift(ledger_url, "ledger", "update"), "UPDATE ledger SET schema = 99")
    before = sql(ledger_url, "SELECT * FROM history")
    for use in (
        lambda: PrivacyLedger(ledger_url),
        lambda: ledger.reserve(Charge(key("after"), plan(0.1)), noise=SYSTEM),
        lambda: accept(ledger_url),
    ):
        with pytest.raises(DpboError, match=r"schema 99, .* schema 1 alone.*budget export"):
            use()
    assert sql(ledger_url, "SELECT * FROM history") == before
    assert list(audit.export(ledger_url)) == whole


@pytest.mark.parametrize(
    "bad",
    ["nonsense", "mysql://x/y", "postgresql://x:port/y", "sqlite://", "sqlite:////proc/nothing/here/ledger.db"],
)
def test_an_unusable_url_is_a_letter(bad):
    with pytest.raises(StudyInvalid, match="DPBO_LEDGER_URL"):
        PrivacyLedger(bad)


def test_a_database_out_of_reach_is_a_letter_without_its_address(here):
    with pytest.raises(DpboError, match="cannot be used") as caught:
        PrivacyLedger("postgresql://somebody:secret@127.0.0.1:1/there")
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


def reserve_many(ledger_url, worker, asked, share, outcomes):
    book = asked_until_it_answers(lambda: PrivacyLedger(ledger_url))
    won = []

    def ask(name):
        reservation = book.reserve(Charge(key(name, "pure"), plan(share)), noise=SYSTEM)
        reservation.record(plan(share).spends[0], lambda: {"draw": name})
        won.append(name)

    for i in range(asked):
        with suppress(BudgetExceeded):
            asked_until_it_answers(partial(ask, f"{worker}-{i}"))
    outcomes.put(won)


@pytest.mark.parametrize(
    ("processes", "room"),
    [(4, 10), *(pytest.param(*many, marks=pytest.mark.slow) for many in ((6, 25), (16, 25), (64, 100)))],
)
def test_processes_never_exceed_the_cap_and_lose_no_entry(ledger, ledger_url, processes, room):
    """They ask twice as often as the cap has room for: exactly so many get it, and each is on record."""
    ledger.set_budget(PrivacyBudget.of("pure", epsilon=1.0, delta=0.0))  # where spends add up plainly
    context = multiprocessing.get_context("fork")  # 64 interpreters would take a minute to start
    outcomes = context.Queue()
    each, share = -(-2 * room // processes), 1.0 / room
    workers = [
        context.Process(target=reserve_many, args=(ledger_url, n, each, share, outcomes)) for n in range(processes)
    ]
    for worker in workers:
        worker.start()
    won = [name for _ in workers for name in outcomes.get(timeout=600)]
    for worker in workers:
        worker.join()
    assert len(won) == len(set(won)) == room
    assert {entry.study for entry in entries(ledger, "pure")} == set(won)
    assert ledger.accounts("pure")[0].spent.epsilon_units == spent_units(1.0)
    for name in won:
        taken_over = ledger.reserve(Charge(key(name, "pure"), plan(share)), noise=SYSTEM)
        assert taken_over.recorded("score") == {"draw": name}


def test_a_ledger_that_grows_while_it_is_opened_is_no_older_one(ledger, ledger_url):
    """Another process writes after the first, the second, … statement of the opening; the record is ahead then."""
    counts = {"until": 0, "seen": 0}

    def write(*_):
        counts["seen"] += 1
        if counts["seen"] == counts["until"]:
            ledger.reserve(Charge(key(f"study {counts['until']}"), plan(0.01)), noise=SYSTEM)

    for until in itertools.count(1):
        counts.update(until=until, seen=0)
        sa.event.listen(sa.Engine, "after_cursor_execute", write)
        try:
            PrivacyLedger(ledger_url)
        finally:
            sa.event.remove(sa.Engine, "after_cursor_execute", write)
        if counts["seen"] < until:
            break
    assert 4 < until < 40


def test_threads_share_one_ledger(ledger):
    from concurrent.futures import ThreadPoolExecutor

    def ask(name):
        try:
            asked_until_it_answers(lambda: ledger.reserve(Charge(key(str(name)), plan(0.05)), noise=SYSTEM))
        except BudgetExceeded:
            return 0
        return 1

    with ThreadPoolExecutor(32) as pool:
        assert sum(pool.map(ask, range(32))) == 22  # 20 by adding ε, 22 at the cap's order
    assert len(entries(ledger)) == 22


def test_a_forked_process_does_not_use_its_parents_connection(ledger):
    ledger.reserve(Charge(key("parent"), plan(0.1)), noise=SYSTEM)
    context = multiprocessing.get_context("fork")

    def reserve():
        ledger.reserve(Charge(key("child"), plan(0.1)), noise=SYSTEM)
        os._exit(0)  # without what other libraries of this process do at its end

    child = context.Process(target=reserve)
    child.start()
    ledger.reserve(Charge(key("meanwhile"), plan(0.1)), noise=SYSTEM)
    child.join()
    assert child.exitcode == 0
    assert {entry.study for entry in entries(ledger)} == {"parent", "child", "meanwhile"}


def test_a_connection_lost_between_steps_is_replaced(postgresql, here):
    url = new_database(postgresql)
    book = capped(url)
    sql(
        url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
        "AND pid <> pg_backend_pid()",
    )
    book.reserve(Charge(key(), plan(0.1)), noise=SYSTEM)
    assert len(entries(book)) == 1


@pytest.mark.parametrize("others_commit", [True, False])
def test_a_writer_waits_on_while_others_commit(here, monkeypatch, others_commit):
    """SQLite lets writers in by chance: of thirty at once some were turned away though each had its turn."""
    monkeypatch.setattr("dpbo_core.ledger.address.BUSY_TIMEOUT_S", 0.3)
    book = capped(f"sqlite:///{here / 'ledger.db'}", 5.0)
    waiting = threading.Event()

    def occupy():
        with closing(sqlite3.connect(here / "ledger.db", isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            waiting.set()
            for moment in range(8):  # 0.8 s
                time.sleep(0.1)
                if others_commit:  # as each does after its commit
                    os.utime(here / "ledger.db.generation", (moment, moment))
            connection.execute("ROLLBACK")

    others = threading.Thread(target=occupy)
    others.start()
    waiting.wait()
    refusal = pytest.raises(DpboError, match="cannot be used now")
    with nullcontext() if others_commit else refusal:
        book.reserve(Charge(key("a"), plan(0.1)), noise=SYSTEM)
    others.join()
    assert len(entries(book)) == others_commit


def test_an_account_has_the_studies_that_were_charged_when_it_was_read(ledger):
    """Studies are read when one is asked for; what is spent is known without them, by the same integers."""
    (empty,) = ledger.accounts("d")
    for name in ("a", "b"):
        ledger.reserve(Charge(key(name), plan(0.1)), noise=SYSTEM)
    (before,), (beside,) = ledger.accounts("d"), PrivacyLedger(ledger.url).accounts("d")
    ledger.reserve(Charge(key("c"), plan(0.2)), noise=SYSTEM)
    (after,) = ledger.accounts("d")
    assert [len(one.entries) for one in (empty, before, after)] == [0, 2, 3]
    assert [entry.study for entry in before.entries] == ["a", "b"]
    assert before.entries == after.entries[:2] == beside.entries
    assert beside.spent_epsilon == before.spent_epsilon
    for account in (before, after):
        assert account.spent == sum((entry.cost for entry in account.entries), ZERO_TOTAL)
        assert account.draws == Counter(draw for entry in account.entries for draw in entry.draws)
    (again,) = PrivacyLedger(ledger.url).accounts("d")
    assert again.draws == after.draws
    assert again.filtered == after.filtered
    assert "_entries" not in again.entries.__dict__
