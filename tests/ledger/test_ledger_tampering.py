"""Tampering is refused before anything is charged: by triggers, by the sealed totals, by what a user saw last."""

import json
import os
import shutil
import warnings
from dataclasses import replace
from itertools import product

import pytest
import sqlalchemy as sa
from test_ledger import SYSTEM, capped, engine_of, key, lift, plan, sql
from test_ledger_audit import exported, spend
from used_ledgers import DATABASES, UsedLedger, on_each
from worlds import asked_until_it_answers

from dpbo_core.errors import BudgetExceeded, LedgerDamaged
from dpbo_core.ledger import audit
from dpbo_core.ledger.accounting.account import PrivacyBudget, canonical
from dpbo_core.ledger.charge import Charge
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.lookup import standing_of
from dpbo_core.ledger.recovery import Recovered, accept
from dpbo_core.ledger.schema import METADATA
from dpbo_core.ledger.store import LedgerStore
from dpbo_core.privacy.release import Release


@pytest.fixture(autouse=True)
def state(tmp_path_factory, monkeypatch):
    """A state folder of this test's own."""
    folder = tmp_path_factory.mktemp("state")
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder


@pytest.fixture(scope="module")
def used_once(tmp_path_factory):
    return UsedLedger(use, tmp_path_factory.mktemp("used"))


@pytest.fixture(params=DATABASES)
def used(request, here, used_once, state):
    """Two datasets, of ε = 1 and 2; of the first one 0.75 is spent, in three studies among the other's."""
    server = request.getfixturevalue("postgresql") if request.param == "postgresql" else None
    url = used_once.copy(here, server)
    (of_user,) = state.rglob("*.seen")
    last = exported(url)[-1]
    assert json.loads(of_user.read_text()) == {
        "entries": last.sequence,
        "hash": last.hash,
        "schema": 1,
    }  # as if used here
    return url


def use(ledger_url):
    book = PrivacyLedger(ledger_url)
    for dataset, epsilon in (("d", 1.0), ("other", 2.0)):
        book.set_budget(PrivacyBudget.of(dataset, epsilon=epsilon, delta=0.0))
    for name in "abc":
        spend(book, name, 0.25)
        spend(book, f"other {name}", 0.25, "other")
    return ledger_url


def admitted(url, epsilon=0.5):
    """Whether a study is admitted; if not, nothing was written. One too expensive is refused for its price."""
    before = exported(url)
    try:
        asked_until_it_answers(lambda: PrivacyLedger(url).reserve(Charge(key("next"), plan(epsilon)), noise=SYSTEM))
    except LedgerDamaged as refused:
        said = str(refused)
    except BudgetExceeded:
        assert exported(url) == before
        return None
    else:
        return True
    assert exported(url) == before
    assert "ledger" in said
    assert "dpbo budget verify" in said
    return False


# triggers

KEYS = {
    "ledger": "identity", "datasets": "name", "reservations": "id", "draws": "reservation",
    "releases": "reservation", "dataset_facts": "dataset", "history": "sequence",
}  # fmt: skip


def test_no_row_takes_the_place_of_another(used):
    assert set(KEYS) == set(METADATA.tables)
    for table in KEYS:
        check_that_no_row_is_replaced(used, table)


def check_that_no_row_is_replaced(used, table):
    before = sql(used, f"SELECT * FROM {table}")
    columns = ", ".join(METADATA.tables[table].c.keys())
    one = f"{table} WHERE {KEYS[table]} = (SELECT min({KEYS[table]}) FROM {table}) LIMIT 1"
    if used.startswith("postgresql"):
        keys = ", ".join(column.name for column in METADATA.tables[table].primary_key)
        end = f"ON CONFLICT ({keys}) DO UPDATE SET {KEYS[table]} = EXCLUDED.{KEYS[table]}"
        ways = [f"INSERT INTO {table} ({columns}) SELECT {columns} FROM {one} {end}"]
    else:
        ways = [
            f"INSERT OR REPLACE INTO {table} ({columns}) SELECT {columns} FROM {one}",
            f"REPLACE INTO {table} ({columns}) SELECT {columns} FROM {one}",
            f"INSERT OR IGNORE INTO {table} ({columns}) SELECT {columns} FROM {one}",
            f"INSERT INTO {table} ({columns}) SELECT {columns} FROM {one.replace('LIMIT 1', 'AND true LIMIT 1')} "
            f"ON CONFLICT DO UPDATE SET {KEYS[table]} = excluded.{KEYS[table]}",
        ]
        if table not in ("reservations", "releases"):  # whose rows' numbers are their keys
            named = columns.replace(KEYS[table], f"'new' || {KEYS[table]}", 1)
            ways.append(f"INSERT OR REPLACE INTO {table} (rowid, {columns}) SELECT rowid, {named} FROM {one}")
    for way in ways:
        with pytest.raises(sa.exc.DBAPIError, match="append-only"):
            sql(used, way)
        assert sql(used, f"SELECT * FROM {table}") == before, way


def test_a_second_key_takes_no_place_either(used):
    """A reservation with a number of its own and another's fingerprint; an entry with another's hash."""
    if used.startswith("postgresql"):
        pytest.skip("PostgreSQL has no INSERT OR REPLACE")
    for table, number in (("reservations", "id"), ("history", "sequence")):
        before = sql(used, f"SELECT * FROM {table}")
        columns = METADATA.tables[table].c.keys()
        changed = ", ".join(f"{name} + 100" if name == number else name for name in columns)
        with pytest.raises(sa.exc.DBAPIError, match="append-only"):
            sql(
                used, f"INSERT OR REPLACE INTO {table} ({', '.join(columns)}) SELECT {changed} FROM {table} LIMIT 1"
            )
        assert sql(used, f"SELECT * FROM {table}") == before


# sealed totals


def past_the_keys(url, *statements):
    """Run statements as somebody would whom no foreign key stops."""
    sql(url, *["SET session_replication_role = replica"] * url.startswith("postgresql"), *statements)


def change(url, table, rest):
    return [lift(url, table, "update"), f"UPDATE {table} SET {rest}"]


def remove(url, table, rest):
    return [lift(url, table, "delete"), f"DELETE FROM {table} WHERE {rest}"]


def insert(url, **changes):
    columns = METADATA.tables["reservations"].c.keys()
    cells = ", ".join(str(changes.get(name, name)) for name in columns)
    return [f"INSERT INTO reservations ({', '.join(columns)}) SELECT {cells} FROM reservations WHERE id = 1"]


def hide(url, which):
    """One study taken out of its tables and out of the history, whose later entries are numbered on."""
    gone = [
        statement
        for table, rest in (
            ("releases", f"reservation = {which}"),
            ("draws", f"reservation = {which}"),
            ("reservations", f"id = {which}"),
        )
        for statement in remove(url, table, rest)
    ]
    told = (link for link in exported(url) if link.about == "reservations")
    (entry,) = (link.sequence for link in told if json.loads(link.row)["id"] == which)
    return [*gone, *remove(url, "history", f"sequence = {entry}")]


ZEROED = "epsilon_units = 0, rho_units = 0"
NEW = {"id": 99, "fingerprint": "'new'"}
TAMPERINGS = {
    "a raised cap": lambda url: change(url, "datasets", "epsilon_units = 1000 * epsilon_units WHERE name = 'd'"),
    "a cap declared public": lambda url: change(url, "datasets", "public = TRUE WHERE name = 'd'"),
    "the oldest spend zeroed": lambda url: change(url, "reservations", f"{ZEROED} WHERE id = 1"),
    "the newest spend zeroed": lambda url: change(url, "reservations", f"{ZEROED} WHERE id = 5"),
    "a spend halved": lambda url: change(url, "reservations", "epsilon_units = epsilon_units / 2 WHERE id = 3"),
    "a spend moved to another": lambda url: change(url, "reservations", "dataset = 'other' WHERE id = 1"),
    "the unit exchanged": lambda url: change(url, "reservations", "unit = 'person' WHERE dataset = 'd'"),
    "a row put in": lambda url: insert(url, **NEW),
    "a row of nothing put in": lambda url: insert(url, **NEW, epsilon_units=0, rho_units=0),
    "a row taken out": lambda url: [
        *remove(url, "releases", "reservation = 1"),
        *remove(url, "draws", "reservation = 1"),
        *remove(url, "reservations", "id = 1"),
    ],
    "k taken out": lambda url: remove(url, "dataset_facts", "dataset = 'd'"),
    "k changed": lambda url: change(url, "dataset_facts", "item = '50' WHERE dataset = 'd'"),
    "the first study hidden": lambda url: hide(url, 1),
    "the newest study hidden": lambda url: hide(url, 5),
}


SHORT = list(TAMPERINGS)[::2]
ON_POSTGRESQL = ("a raised cap", "a row of nothing put in")


@pytest.mark.parametrize(
    ("used", "tampering"),
    [
        *on_each(SHORT, *ON_POSTGRESQL),
        *(pytest.param(*of, marks=pytest.mark.slow) for of in product(DATABASES, list(TAMPERINGS)[1::2])),
    ],
    indirect=["used"],
)
def test_tampering_is_refused_before_anything_is_charged(used, tampering):
    book = PrivacyLedger(used)  # open already, as a server's would be
    assert admitted(used) is None  # 0.75 + 0.5 > 1
    past_the_keys(used, *TAMPERINGS[tampering](used))
    for epsilon in (0.5, 0.125):
        assert admitted(used, epsilon) is False
    with pytest.raises(LedgerDamaged, match="budget verify"):
        book.reserve(Charge(key("next"), plan(0.125)), noise=SYSTEM)
    with pytest.raises(LedgerDamaged, match="tampered"):
        audit.verify(used)


def test_what_was_drawn_is_not_drawn_again_for_the_same_price(used):
    """A study's draws and release taken out: a rerun would take its reservation over and draw anew for nothing."""
    sql(used, *remove(used, "releases", "reservation = 1"), *remove(used, "draws", "reservation = 1"))
    with pytest.raises(LedgerDamaged, match=r"removed.*dpbo budget verify"):
        PrivacyLedger(used).reserve(Charge(key("a"), plan(0.25)), noise=SYSTEM)


# the history


def forged(url, behind, **changes):
    """The newest entry but so many, with other totals."""
    number = f"(SELECT max(sequence) - {behind} FROM history)"
    ((dataset, text),) = sql(url, f"SELECT dataset, totals FROM history WHERE sequence = {number}")
    assert dataset == "d"
    totals = canonical(json.loads(text) | changes)
    return change(url, "history", f"totals = '{totals}' WHERE sequence = {number}")


HIDDEN = f"{ZEROED} WHERE id = 5"
IN_THE_HISTORY = {
    "totals that agree with an edited table": lambda url: [
        *forged(url, 3, epsilon_units=5 * 10**11, rho_units=2 * 31_250_000_000),
        *change(url, "reservations", HIDDEN),
    ],
    "an entry taken out": lambda url: remove(url, "history", "sequence = 21"),
    "a study given to another dataset in the history, and taken out of the tables": lambda url: [
        *change(url, "history", "dataset = 'other' WHERE dataset = 'd' AND sequence > 15"),
        *remove(url, "releases", "reservation = 5"),
        *remove(url, "draws", "reservation = 5"),
        *remove(url, "reservations", "id = 5"),
    ],
    "the newest of a dataset given to another": lambda url: change(
        url, "history", "dataset = 'other' WHERE dataset = 'd' AND sequence > 15"
    ),
    "a tail cut off": lambda url: remove(url, "history", "sequence > 18"),
    "the newest entry edited": lambda url: change(
        url, "history", "content = '{}' WHERE sequence = (SELECT max(sequence) FROM history WHERE dataset = 'd')"
    ),
}


@pytest.mark.parametrize(("used", "how"), on_each(IN_THE_HISTORY, "an entry taken out"), indirect=["used"])
def test_tampering_with_the_history_is_refused_before_anything_is_charged(used, how):
    past_the_keys(used, *IN_THE_HISTORY[how](used))
    assert admitted(used, 0.125) is False
    with pytest.raises(LedgerDamaged):
        audit.verify(used)


LATER = {
    "an old entry taken out": lambda url: remove(url, "history", "sequence = 6"),
    "the text of an old entry": lambda url: change(url, "history", "content = '{}' WHERE sequence = 6"),
    "two old entries exchanged": lambda url: [
        *change(url, "history", "sequence = -1 WHERE sequence = 6"),
        "UPDATE history SET sequence = 6 WHERE sequence = 9", "UPDATE history SET sequence = 9 WHERE sequence = -1",
    ],
    "a draw": lambda url: change(url, "draws", "outcome = '{}' WHERE reservation = 1"),
    "a release": lambda url: change(url, "releases", "released_at = 'x' WHERE reservation = 1"),
    "a release taken out": lambda url: remove(url, "releases", "reservation = 1"),
    "words of a reservation": lambda url: change(url, "reservations", "study = 'x' WHERE id = 1"),
    "another dataset's cap": lambda url: change(url, "datasets", "delta_units = 9 WHERE name = 'other'"),
    "another dataset's spend": lambda url: change(url, "reservations", f"{ZEROED} WHERE dataset = 'other'"),
}  # fmt: skip


@pytest.mark.parametrize("how", LATER)
def test_what_no_admission_uses_is_told_by_verify(how, here, used_once, state):
    """What the threat model says is noticed later: a reservation goes on, and `dpbo budget verify` refuses."""
    url = used_once.copy(here)
    sql(url, *LATER[how](url))
    assert admitted(url, 0.125)
    with pytest.raises(LedgerDamaged):
        audit.verify(url)


def test_what_came_since_the_last_look_is_chained(here, used_once, state):
    """Somebody else's entries, written while this process has the ledger open: edited, they are refused."""
    url = used_once.copy(here)
    guard, book = LedgerStore(url).guard.records[0], PrivacyLedger(url)
    before = guard.path.read_bytes()
    spend(PrivacyLedger(url), "elsewhere", 0.125)
    guard.path.write_bytes(before)  # what this process verified last
    number = "(SELECT max(sequence) - 1 FROM history)"
    sql(url, *change(url, "history", f"content = '{{}}' WHERE sequence = {number}"))
    with pytest.raises(LedgerDamaged, match=r"entry \d+ of the history \(draws\) is not what was written"):
        book.reserve(Charge(key("next"), plan(0.125)), noise=SYSTEM)


def test_totals_that_do_not_follow_are_told(used):
    """By somebody past dpbo, so that the chain is right."""
    with LedgerStore(used).writing() as writer:
        totals = writer.totals_of("d")
        writer._append_entry("draws", "d", {"reservation": 1}, replace(totals, charges=totals.charges + 1))
    with pytest.raises(LedgerDamaged):
        audit.verify(used)
    assert admitted(used, 0.125) is False


# what a user saw


def seen_file(state):
    (file,) = (state / "dpbo").iterdir()
    return file


def tables_of(url):
    with engine_of(url).connect() as connection:
        return {
            table.name: connection.execute(sa.select(table)).mappings().all() for table in METADATA.sorted_tables
        }


def restore(url, tables):
    """Put an older copy of a PostgreSQL ledger back, row by row, as a backup's tool would."""
    with engine_of(url).begin() as connection:
        connection.exec_driver_sql("SET session_replication_role = replica")
        for table in METADATA.tables.values():
            connection.exec_driver_sql(f"DELETE FROM {table.name}")
            if tables[table.name]:
                connection.execute(table.insert(), [dict(row) for row in tables[table.name]])


def test_a_restored_database_is_noticed_from_any_folder(postgresql, here, tmp_path_factory, monkeypatch, state):
    from conftest import new_database

    url = new_database(postgresql)
    book = capped(url, 1.0, 0.0)
    old = tables_of(url)
    spend(book, "a", 1.0)
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert admitted(url) is None
    restore(url, old)
    monkeypatch.chdir(tmp_path_factory.mktemp("a third"))
    for look in (
        lambda: PrivacyLedger(url).reserve(Charge(key("b"), plan(1.0)), noise=SYSTEM),
        lambda: audit.verify(url),
    ):
        with pytest.raises(LedgerDamaged, match=r"older than it was: entry 6 .*--accept-restored"):
            look()
    # who never saw the newer one: the planted fault, and what is not claimed
    with monkeypatch.context() as another:
        another.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("another user")))
        assert admitted(url)
    with pytest.raises(LedgerDamaged, match="older than it was"):
        PrivacyLedger(url)
    assert accept(url) == Recovered()
    assert PrivacyLedger(url).accounts("d")[0].entries
    audit.verify(url)


FILES = ("ledger.db", "ledger.db.generation")


def copied(here, *, of="", to=""):
    """A ledger's two files under other names; or back, as a backup's tool would."""
    for name in FILES:
        shutil.copy(here / f"{of}{name}", here / f"{to}{name}")


def test_both_files_of_a_ledger_restored_are_noticed_by_what_the_user_saw(here, state):
    url = f"sqlite:///{here / 'ledger.db'}"
    book = capped(url, 1.0, 0.0)
    copied(here, to="old ")
    spend(book, "a", 1.0)
    copied(here, of="old ")
    for look in (lambda: PrivacyLedger(url), lambda: audit.verify(url)):
        with pytest.raises(LedgerDamaged, match=r"older than it was.*--accept-restored"):
            look()
    assert accept(url) == Recovered()
    assert admitted(url)


def test_an_older_head_is_no_refusal_and_others_writing_is_none(here, state, tmp_path_factory, monkeypatch):
    url = f"sqlite:///{here / 'ledger.db'}"
    book = capped(url, 1.0, 0.0)
    stale = seen_file(state).read_bytes()
    with monkeypatch.context() as another:
        another.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("another user")))
        spend(PrivacyLedger(url), "a")
    assert seen_file(state).read_bytes() == stale
    spend(book, "b")
    newer = seen_file(state).read_bytes()
    seen_file(state).write_bytes(stale)
    spend(PrivacyLedger(url), "c")
    assert seen_file(state).read_bytes() not in (stale, newer)


@pytest.mark.parametrize("how", ["a file in its place", "no home", "a damaged file"])
def test_a_state_folder_that_cannot_be_used_ends_no_study(here, state, how, monkeypatch):
    url = f"sqlite:///{here / 'ledger.db'}"
    if how == "a file in its place":
        (state / "dpbo").write_text("x")
    elif how == "no home":
        monkeypatch.setenv("XDG_STATE_HOME", "relative/is/ignored")
        monkeypatch.setattr("pathlib.Path.home", lambda: (_ for _ in ()).throw(RuntimeError()))
    else:
        PrivacyLedger(url)
        seen_file(state).write_text("{")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        book = capped(url, 1.0, 0.0)
        spend(book, "a")
    told = {str(item.message) for item in said if item.category is UserWarning}
    assert len(told) == 1
    assert "state folder" in told.pop()
    assert not (here / "relative").exists()


# releases


def test_a_release_names_the_entry_before_it_and_an_old_copy_does_not_hold_it(here, state, monkeypatch, tmp_path):
    url = f"sqlite:///{here / 'ledger.db'}"
    book = capped(url, 1.0, 0.0)
    copied(here, to="old ")
    release = spend(book, "a")
    history = exported(url)
    assert history[-1].about == "releases"
    assert release.ledger == {"identity": json.loads(history[0].row)["identity"], "head": history[-2].hash}
    assert Release.from_json(json.loads(json.dumps(release.to_json()))).ledger == release.ledger
    assert standing_of(release, url) == "held"
    spend(book, "b")
    assert standing_of(release, url) == "held"
    assert standing_of(replace(release, ledger={}), url) == "another"
    assert standing_of(replace(release, ledger=release.ledger | {"identity": "0" * 32}), url) == "another"
    copied(here, of="old ")
    with pytest.raises(LedgerDamaged, match="the entry that this release names is not in its history"):
        standing_of(release, url)
    accept(url)
    assert standing_of(release, url) == "accepted"


def test_the_command_says_that_a_certificate_s_entry_is_missing(dpbo, here, tables, monkeypatch):
    import tomli_w

    (here / "study.toml").write_text(tomli_w.dumps(tables))
    monkeypatch.setenv("DPBO_LEDGER_URL", f"sqlite:///{here / 'ledger.db'}")
    from dpbo_core.study.spec import read_study
    from dpbo_core.study.tuning import run_study

    book = PrivacyLedger(os.environ["DPBO_LEDGER_URL"])
    book.set_budget(PrivacyBudget.of("people", epsilon=3.0, delta=1e-5))
    copied(here, to="old ")
    release = run_study(read_study(here / "study.toml"), ledger=book, folder=here).release
    (here / "release.json").write_text(json.dumps(release.to_json()))

    code, out, _ = dpbo("verify", "release.json")
    assert code == 0
    assert "ledger" not in out
    copied(here, of="old ")
    code, _, err = dpbo("verify", "release.json")
    assert code == 1
    assert "the entry that this release names" in err
    for name in FILES:
        (here / name).unlink()
    assert dpbo("verify", "release.json")[0] == 0  # a certificate proves itself where there is no ledger
    assert not (here / "ledger.db").exists()
