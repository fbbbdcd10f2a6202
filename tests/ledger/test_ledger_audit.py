"""Tampering, truncation and old copies of the ledger, through raw SQL and raw files, on both databases."""

import json
import os
import shutil
import stat
from dataclasses import replace

import pytest
import sqlalchemy as sa
from conftest import new_database
from spend_kills import killed_at
from test_ledger import GUARANTEE, SYSTEM, capped, key, lift, plan, sql
from used_ledgers import DATABASES, UsedLedger, generation_of, on_each
from worlds import asked_until_it_answers

from dpbo_core.errors import DpboError, LedgerDamaged, StudyInvalid
from dpbo_core.ledger import audit
from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.charge import Charge
from dpbo_core.ledger.history import Place
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.recovery import Recovered, accept, recover
from dpbo_core.ledger.rollback_guard import OverwritePolicy, Record, RollbackGuard
from dpbo_core.ledger.schema import METADATA
from dpbo_core.privacy.release import Release

OPEN = PrivacyBudget.of("d", epsilon=1.0, delta=0.0)


def spend(book, name, epsilon=0.1, dataset="d"):
    reservation, spends = (
        book.reserve(Charge(key(name, dataset), plan(epsilon)), noise=SYSTEM),
        plan(epsilon).spends,
    )
    reservation.record(spends[0], lambda: {"draw": 7, "shown": 0.25})
    return reservation.conclude(Release({"score": 0.25}, GUARANTEE, spends, name, "1", "private_grid", dataset))


@pytest.fixture(scope="module")
def used_once(tmp_path_factory):
    def use(url):
        book = capped(url, 1.0, 0.0)
        for name in "abc":
            spend(book, name)

    return UsedLedger(use, tmp_path_factory.mktemp("used"))


@pytest.fixture(params=DATABASES)
def used(request, here, used_once):
    """A ledger with one cap and three finished studies: 1 + 1 + 9 entries, and the k of the first."""
    server = request.getfixturevalue("postgresql") if request.param == "postgresql" else None
    return used_once.copy(here, server)


# what is compared in Python, or kept outside, whatever the database
ON_SQLITE = pytest.mark.parametrize("used", ["sqlite"], indirect=True)


def exported(url):
    return audit.read_export(audit.export(url))


def test_an_honest_ledger_is_whole(used):
    assert audit.verify(used).sequence == 12
    audit.verify(used, exported(used))
    before = exported(used)
    spend(PrivacyLedger(used), "later")
    assert audit.verify(used, before).sequence == 15
    told = ["reservations", "draws", "releases"]
    assert [link.about for link in before] == ["ledger", "datasets", told[0], "dataset_facts", *told[1:], *told * 2]


@ON_SQLITE
def test_an_export_can_be_checked_with_nothing_but_sha_256(used):
    import hashlib

    def text(value):
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    last = "0" * 64
    for line in audit.export(used):
        entry = json.loads(line)
        lines = (last, str(entry["sequence"]), entry["about"], json.dumps(entry["dataset"]))
        lines += (text(entry["row"]), text(entry["totals"]))
        last = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        assert entry["hash"] == last


TOLD = [
    ([("reservations", "update", "epsilon_units = 1 WHERE id = 2")], r"row 2 of reservations .*: epsilon_units"),
    ([("datasets", "update", "epsilon_units = 9000000000000")], r"row d of datasets was changed: epsilon_units"),
    ([("draws", "update", "outcome = '{\"draw\": 8}'")], r"row 1, score of draws was changed: outcome"),
    ([("releases", "update", "released_at = 'x' WHERE reservation = 3")], r"row 3 of releases was changed"),
    ([("ledger", "update", "identity = 'x'")], r"row \w+ of ledger was removed \(entry 1"),
    ([("releases", "delete", "reservation = 1")], r"row 1 of releases was removed \(entry 6"),
    ([("history", "delete", "sequence = 7")], r"entry 7 of the history is missing"),
    ([("history", "delete", "sequence > 9")], r"row 3, score of draws is not in the history"),
    ([("history", "update", "content = '{}' WHERE sequence = 2")], r"entry 2 .*\(datasets\) is not what was"),
    (
        [("history", "update", f"sequence = {to} WHERE sequence = {of}") for of, to in ((4, -1), (7, 4), (-1, 7))],
        r"entry 4 of the history .*entry 7 of the history",
    ),
    (
        [
            ("releases", "update", f"reservation = {to} WHERE reservation = {of}")
            for of, to in ((1, 99), (2, 1), (99, 2))
        ],
        r"row 1 of releases was changed.*row 2 of releases was changed",
    ),
]


@pytest.mark.parametrize(("used", "which"), on_each(range(len(TOLD)), 0), indirect=["used"])
def test_what_was_tampered_with_is_told(used, which):
    tampering, verdict = TOLD[which]
    statements = []
    for table, verb in {(table, verb) for table, verb, _ in tampering}:
        statements.append(lift(used, table, verb))
    if used.startswith("postgresql"):
        statements += ["SET session_replication_role = replica"]  # past the foreign keys too
    for table, verb, rest in tampering:
        statements.append(f"UPDATE {table} SET {rest}" if verb == "update" else f"DELETE FROM {table} WHERE {rest}")
    sql(used, *statements)
    with pytest.raises(LedgerDamaged, match=verdict) as caught:
        audit.verify(used)
    assert caught.value.exit_code == 1
    with pytest.raises(LedgerDamaged, match=verdict):
        accept(used)  # a person answers for an old copy, not for a forged one


def test_a_row_added_past_the_history_is_told(used):
    columns = "name, public, epsilon_units, delta_units, relation, accepts, opened_at"
    row = columns.replace("name", "'extra'")
    sql(used, f"INSERT INTO datasets ({columns}) SELECT {row} FROM datasets")
    with pytest.raises(LedgerDamaged, match="row extra of datasets is not in the history"):
        audit.verify(used)


@ON_SQLITE
def test_a_truncated_tail_is_told_by_the_generation_and_by_an_export(used):
    """The last study is taken out of everything, so that the chain and the tables are whole by themselves."""
    copy = exported(used)
    tables = ("history", "releases", "draws", "reservations")
    gone = ("sequence > 9", "reservation = 3", "reservation = 3", "id = 3")
    sql(used, *(lift(used, table, "delete") for table in tables))
    sql(used, *(f"DELETE FROM {table} WHERE {which}" for table, which in zip(tables, gone, strict=True)))
    for look in (lambda: PrivacyLedger(used), lambda: audit.verify(used)):
        with pytest.raises(LedgerDamaged, match=r"older than it was: entry 12 .*--accept-restored"):
            look()
    with pytest.raises(LedgerDamaged, match="entries 10 to 12 of the exported copy are missing"):
        audit.verify(used, copy)
    assert accept(used) == Recovered()
    entry = exported(used)[-1]
    assert entry.about == "restorations"
    row = json.loads(entry.row)
    assert row["expected"]["beside"] == row["expected"]["of_user"] == {"sequence": 12, "hash": copy[-1].hash}
    assert row["found"] == {"sequence": 9, "hash": copy[8].hash}
    spend(PrivacyLedger(used), "d")
    audit.verify(used)


@ON_SQLITE
def test_a_user_who_never_saw_the_ledger_verifies_it(used, here, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(here / "new"))
    audit.verify(used)
    assert accept(used) is None


def test_what_an_export_still_has_is_written_again_and_counts_as_spent(used):
    copy = exported(used)
    tables = ("history", "releases", "draws", "reservations")
    sql(used, *(lift(used, table, "delete") for table in tables))
    gone = ("sequence > 5", "reservation > 0", "reservation > 1", "id > 1")
    sql(used, *(f"DELETE FROM {table} WHERE {which}" for table, which in zip(tables, gone, strict=True)))
    with pytest.raises(LedgerDamaged, match="of the exported copy are missing"):
        audit.verify(used, copy)
    assert accept(used, copy) == Recovered(charges=2, draws=2, releases=3)
    book = PrivacyLedger(used)
    (account,) = book.accounts("d")
    assert account.spent.epsilon_units == 3 * 10**11
    assert [entry.study for entry in account.entries] == ["a", "b", "c"]
    assert all(book.release_of(key(name).fingerprint) for name in "abc")
    spend(book, "e")
    assert [entry.study for entry in book.accounts("d")[0].entries] == ["a", "b", "c", "e"]
    audit.verify(used)
    assert recover(used, copy) == Recovered()


@ON_SQLITE
def test_another_history_is_not_continued(used, here):
    other = f"sqlite:///{here / 'other.db'}"
    PrivacyLedger(other)
    with pytest.raises(LedgerDamaged, match="entry 1 of the history is not the exported copy's"):
        audit.verify(other, exported(used))
    forged = list(exported(used))
    forged[3] = replace(forged[3], row='{"reservation":1}')
    with pytest.raises(LedgerDamaged, match=r"entry 4 .*in the exported copy"):
        audit.verify(used, tuple(forged))
    with pytest.raises(LedgerDamaged, match="line 2 of the exported copy"):
        audit.read_export([*list(audit.export(used))[:1], "{not json"])


def test_an_old_file_put_back_is_refused_by_a_ledger_already_open(here):
    url = f"sqlite:///{here / 'ledger.db'}"
    book = capped(url, 1.0, 0.0)
    spend(book, "a", 0.5)
    shutil.copy(here / "ledger.db", here / "old.db")
    spend(book, "b", 0.5)
    shutil.copy(here / "old.db", here / "ledger.db")
    for write in (lambda: spend(book, "b", 0.5), lambda: PrivacyLedger(url).accounts()):
        with pytest.raises(LedgerDamaged, match="older than it was"):
            write()
    (here / "ledger.db").unlink()
    with pytest.raises(LedgerDamaged, match="older than it was"):
        PrivacyLedger(url)


@ON_SQLITE
def test_a_kill_between_commit_and_generation_locks_nobody_out(used, monkeypatch):
    book = PrivacyLedger(used)
    with monkeypatch.context() as patch:
        patch.setattr(RollbackGuard, "keep", lambda *_, **__: pytest.fail("killed"))
        with pytest.raises(pytest.fail.Exception):
            book.reserve(Charge(key("late"), plan(0.1)), noise=SYSTEM)
    assert PrivacyLedger(used).accounts("d")[0].entries[-1].study == "late"
    spend(PrivacyLedger(used), "late")
    assert audit.verify(used).sequence == 15


def test_a_record_only_moves_on(here):
    record = Record(here / "g")
    assert record.read() == Place()
    for sequence in (2, 5, 3):
        record.keep(Place(sequence, str(sequence)), durably=True)
    assert record.read() == Place(5, "5")
    record.keep(Place(3, "3"), OverwritePolicy.ANYTHING, durably=True)
    assert record.read() == Place(3, "3")
    assert json.loads((here / "g").read_text()) == {"entries": 3, "hash": "3", "schema": 1}
    assert [item.name for item in here.iterdir()] == ["g"]
    assert stat.S_IMODE((here / "g").stat().st_mode) == 0o600


UNREADABLE = ["{", '{"entries": 1, "hash": "x", "schema": 99}', '{"sequence": 1, "hash": "x"}']


@pytest.mark.parametrize(
    ("used", "text"), [*(("sqlite", text) for text in UNREADABLE), ("postgresql", "{")], indirect=["used"]
)
def test_an_unreadable_generation_is_a_letter_and_can_be_accepted(used, text):
    place = generation_of(used)
    place.write_text(text)
    with pytest.raises(LedgerDamaged, match="cannot be read"):
        PrivacyLedger(used)
    assert accept(used) == Recovered()
    PrivacyLedger(used)


def test_the_generation_of_a_postgresql_ledger_lies_in_this_machines_state(here, postgresql):
    url = new_database(postgresql)
    PrivacyLedger(url).set_budget(OPEN)
    files = [*(here / "mlruns").iterdir()]  # by the URL, and by the ledger's identity
    assert len(files) == 2
    for file in files:
        assert file.suffix == ".generation"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE((here / "mlruns").stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "stride", [pytest.param(1, marks=pytest.mark.slow, id="everywhere"), pytest.param(11, id="every 11th place")]
)
def test_killed_anywhere_while_it_is_made_a_ledger_is_whole_or_not_there(ledger_url, stride):
    whole, empty, n = 0, 0, 0
    finished = False
    while not finished:
        n += stride
        finished = killed_at(n, lambda: PrivacyLedger(ledger_url))
        tables = set(sa.inspect(sa.create_engine(ledger_url, poolclass=sa.pool.NullPool)).get_table_names())
        assert tables in (set(), {*METADATA.tables}), n
        empty += not tables
        whole += bool(tables)
    assert empty * stride > 15
    assert whole >= 1
    PrivacyLedger(ledger_url).set_budget(OPEN)
    assert audit.verify(ledger_url).sequence == 2


def test_processes_may_make_the_same_ledger_at_once(ledger_url):
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                asked_until_it_answers(lambda: PrivacyLedger(ledger_url))
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 4
    assert audit.verify(ledger_url).sequence == 1


def test_the_command_exports_verifies_and_accepts(here, dpbo, monkeypatch):
    url = f"sqlite:///{here / 'ledger.db'}"
    monkeypatch.setenv("DPBO_LEDGER_URL", url)
    book = capped(url, 1.0, 0.0)
    shutil.copy(here / "ledger.db", here / "old.db")
    spend(book, "a")
    assert dpbo("budget", "export", "--out", "copy.jsonl")[0] == 0
    assert stat.S_IMODE((here / "copy.jsonl").stat().st_mode) == 0o600
    assert dpbo("budget", "export")[1] == (here / "copy.jsonl").read_text()
    code, out, err = dpbo("budget", "verify", "copy.jsonl")
    assert (code, err) == (0, "")
    assert "whole: 6 entries" in out
    shutil.copy(here / "old.db", here / "ledger.db")
    code, _, err = dpbo("budget", "set", "x", "--epsilon", "1")
    assert (code, err.count("\n")) == (1, 1)
    assert "older than it was" in err
    code, out, err = dpbo("budget", "verify", "copy.jsonl", "--accept-restored")
    assert code == 0, err
    assert "1 lost charges were added, with 1 draws and 1 releases" in " ".join(out.split())
    assert PrivacyLedger(url).accounts("d")[0].spent.epsilon_units == 10**11
    assert dpbo("budget", "verify", "nothing.jsonl")[0] == 2


@ON_SQLITE
def test_what_a_database_cannot_do_is_a_letter(used, monkeypatch):
    book = PrivacyLedger(used)

    def fails(*_):
        raise sa.exc.OperationalError("INSERT secret", {}, Exception("disk full of secrets"))

    monkeypatch.setattr("dpbo_core.ledger.accounts.check_sealed", fails)
    with pytest.raises(DpboError, match="cannot be used") as caught:
        book.reserve(Charge(key("z"), plan(0.1)), noise=SYSTEM)
    assert "secret" not in str(caught.value)
    assert not isinstance(caught.value, StudyInvalid)
