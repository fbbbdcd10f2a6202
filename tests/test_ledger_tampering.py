"""Tampering is refused before anything is charged: by triggers, by the sealed totals, by what a user saw last."""

import json
import os
import shutil
import stat
import warnings
from dataclasses import replace
from itertools import product

import pytest
import sqlalchemy as sa
from test_ledger import GUARANTEE, SYSTEM, key, lift, plan, sql
from test_ledger_audit import exported
from used_ledgers import DATABASES, UsedLedger, on_each
from worlds import asked_until_it_answers

from dpbo_core.accounting import audit, sealed_totals
from dpbo_core.accounting.budget import PrivacyBudget
from dpbo_core.accounting.history import links, unlike_totals
from dpbo_core.accounting.ledger import PrivacyLedger
from dpbo_core.accounting.nodes import Entry, Node, following, reach
from dpbo_core.accounting.recorded_in import standing_of
from dpbo_core.accounting.seen import Seen
from dpbo_core.accounting.store import LedgerStore
from dpbo_core.accounting.tables import METADATA
from dpbo_core.accounting.totals import Totals, replayed
from dpbo_core.errors import BudgetExceeded, LedgerDamaged
from dpbo_core.privacy.release import Release


@pytest.fixture(autouse=True)
def state(tmp_path_factory, monkeypatch):
    """A state folder of this test's own."""
    folder = tmp_path_factory.mktemp("state")
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder


def finish(book, name, dataset="d", epsilon=0.25):
    reservation = book.reserve(key(name, dataset), plan(epsilon), noise=SYSTEM)
    reservation.record(plan(epsilon).spends[0], lambda: {"draw": 7})
    return reservation.conclude(
        Release({"score": 1.0}, GUARANTEE, plan(epsilon).spends, name, "1", "grid", dataset)
    )


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
    assert json.loads(of_user.read_text()) == {"sequence": last.sequence, "hash": last.hash}  # as if used here
    return url


def use(ledger_url):
    book = PrivacyLedger(ledger_url)
    for dataset, epsilon in (("d", 1.0), ("other", 2.0)):
        book.set_budget(PrivacyBudget.of(dataset, epsilon=epsilon, delta=0.0))
    for name in "abc":
        finish(book, name)
        finish(book, f"other {name}", "other")
    return ledger_url


def admitted(url, epsilon=0.5, name="next", dataset="d"):
    """Whether a study is admitted; if not, nothing was written. One too expensive is refused for its price."""
    before = exported(url)
    try:
        asked_until_it_answers(lambda: PrivacyLedger(url).reserve(key(name, dataset), plan(epsilon), noise=SYSTEM))
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
    "facts": "name", "datasets": "name", "reservations": "id", "draws": "reservation", "releases": "reservation",
    "dataset_facts": "dataset", "history": "sequence",
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


def test_a_cap_was_raised_so_without_the_trigger(ledger_url):
    """The fault, planted: without it the words of the first report raise the cap, and the totals find it."""
    if ledger_url.startswith("postgresql"):
        pytest.skip("PostgreSQL has no INSERT OR REPLACE")
    PrivacyLedger(ledger_url).set_budget(PrivacyBudget.of("d", epsilon=1.0, delta=0.0))
    raised = (
        "INSERT OR REPLACE INTO datasets (name, public, epsilon_units, delta_units, relation, accepts, opened_at) "
        "SELECT name, public, epsilon_units * 1000, delta_units, relation, accepts, opened_at FROM datasets"
    )
    with pytest.raises(sa.exc.DBAPIError, match="append-only"):
        sql(ledger_url, raised)
    sql(ledger_url, "DROP TRIGGER datasets_no_replace", raised)
    assert sql(ledger_url, "SELECT epsilon_units FROM datasets") == [(10**15,)]
    assert admitted(ledger_url) is False


# sealed totals


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
ON_POSTGRESQL = ("a raised cap", "a row of nothing put in", "the first study hidden")


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
    if used.startswith("postgresql"):
        sql(used, "SET session_replication_role = replica", *TAMPERINGS[tampering](used))
    else:
        sql(used, *TAMPERINGS[tampering](used))
    for epsilon in (0.5, 0.125):
        assert admitted(used, epsilon) is False
    with pytest.raises(LedgerDamaged, match="budget verify"):
        book.reserve(key("next"), plan(0.125), noise=SYSTEM)
    with pytest.raises(LedgerDamaged, match="tampered"):
        audit.verify(used)


def test_an_honest_ledger_goes_on(used):
    assert admitted(used, 0.25)
    assert admitted(used, 0.25, "one more") is None
    assert admitted(used, 0.25, dataset="other")
    audit.verify(used)


ADMITTED = ["a raised cap", "a cap declared public", "the oldest spend zeroed", "a spend moved to another",
            "a row taken out"]  # fmt: skip


@pytest.mark.parametrize(("used", "tampering"), on_each(ADMITTED, ADMITTED[0]), indirect=["used"])
def test_without_the_check_the_spend_would_be_admitted(used, tampering, monkeypatch):
    """The planted fault: what the tests above refuse is admitted where nothing is compared."""
    if used.startswith("postgresql"):
        sql(used, "SET session_replication_role = replica", *TAMPERINGS[tampering](used))
    else:
        sql(used, *TAMPERINGS[tampering](used))
    monkeypatch.setattr(sealed_totals, "check", lambda *_: None)
    assert admitted(used)


def test_a_check_of_the_head_alone_would_miss_an_entry_that_hides(used, monkeypatch):
    """The planted fault: entries are found, and believed, whatever they hold."""
    url = used
    text = sql(url, "SELECT content, totals FROM history WHERE sequence = (SELECT max(sequence) - 3 FROM history)")
    assert json.loads(text[0][1])["of"] == "d"
    older = json.loads(text[0][1])
    older["totals"] |= {
        "charges": 2,
        "epsilon_units": 5 * 10**11,
        "rho_units": older["totals"]["rho_units"] * 2 // 3,
    }
    forged = json.dumps(older, sort_keys=True, separators=(",", ":"))
    number = "(SELECT max(sequence) - 3 FROM history)"
    sql(
        url,
        *change(url, "history", f"totals = '{forged}' WHERE sequence = {number}"),
        *change(url, "reservations", f"{ZEROED} WHERE id = 5"),
    )
    assert admitted(url) is False


def test_what_was_drawn_is_not_drawn_again_for_the_same_price(used):
    """A study's draws and release taken out: a rerun would take its reservation over and draw anew for nothing."""
    sql(used, *remove(used, "releases", "reservation = 1"), *remove(used, "draws", "reservation = 1"))
    with pytest.raises(LedgerDamaged, match=r"removed.*dpbo budget verify"):
        PrivacyLedger(used).reserve(key("a"), plan(0.25), noise=SYSTEM)


def test_the_sealed_totals_are_those_of_the_tables(used):
    """Of every dataset, from the newest entry of all; and by an independent count of the tables."""
    with LedgerStore(used).writing() as pen:
        for dataset, epsilon, charges in (("d", 75 * 10**10, 3), ("other", 75 * 10**10, 3)):
            totals = pen.totals_of(dataset)
            rows = sql(
                used, f"SELECT sum(epsilon_units), sum(rho_units) FROM reservations WHERE dataset = '{dataset}'"
            )
            assert (totals.spent.epsilon_units, totals.spent.rho_units) == tuple(map(int, rows[0]))
            assert (totals.spent.epsilon_units, totals.charges) == (epsilon, charges)
            assert totals.facts == pen.facts_hash(dataset)
        assert pen.totals_of("unknown") == Totals()


@pytest.mark.parametrize("born", ["with totals", "before"])
def test_any_number_of_datasets_is_reached_from_the_newest_entry(born):
    """The trie against a plain dictionary: 300 datasets, 2,000 entries; a path is about log₂ 300 long."""
    names = [f"dataset {i}" for i in range(300)]
    known = {} if born == "with totals" else {name: Totals(charges=1000 + i) for i, name in enumerate(names[::2])}
    entries, steps = {}, []

    def fetch(place):
        steps.append(place)
        return entries[place]

    head, longest = None, 0
    for sequence in range(2000):
        of = names[(sequence * sequence * 7 + 13 * sequence) % 300]
        totals = Totals(charges=sequence)
        if head is None:
            node = Node(of, totals, everything=dict(known))
        else:
            before, path = reach(head, of, fetch)
            assert before == known.get(of, Totals())
            node = following(head, of, totals, path)
        known[of] = totals
        longest = max(longest, len(node.path))
        place = (sequence, f"{sequence:064x}")
        head = entries[place] = Entry(place, Node.from_text(node.text()))
        assert head.node == node
        if sequence % 97 == 0:
            for name in names:
                assert reach(head, name, fetch)[0] == known.get(name, Totals())
    assert 4 <= longest <= 24
    steps.clear()
    for name in names:
        reach(head, name, fetch)
    assert len(steps) <= 300 * 12


# what came before, and exports


@pytest.fixture
def yesterday(here):
    """A ledger written by release 0.1.0."""
    from test_yesterday import STORE

    for name in ("ledger.db", "ledger.db.generation"):
        shutil.copy(STORE / name, here / name)
        (here / name).chmod(0o600)
    return f"sqlite:///{here / 'ledger.db'}"


def test_an_older_ledger_is_verified_once_and_sealed(yesterday):
    before = [json.loads(line) for line in audit.export(yesterday)]
    assert not [line for line in before[:-1] if "totals" in line]
    sealed = before[-1]
    assert sealed["about"] == "migrations"
    (account, *_) = PrivacyLedger(yesterday).accounts("wards")
    totals = sealed["totals"]["all"]["wards"]
    assert (totals["rho_units"], totals["charges"]) == (account.spent.rho_units, len(account.entries))
    assert admitted(yesterday, 0.01, dataset="wards")
    audit.verify(yesterday)
    sql(yesterday, *change(yesterday, "reservations", f"{ZEROED} WHERE dataset = 'wards'"))
    assert admitted(yesterday, 0.01, "another", "wards") is False


def test_an_older_ledger_that_was_tampered_with_is_sealed_by_nobody(yesterday):
    sql(yesterday, *change(yesterday, "reservations", f"{ZEROED} WHERE id = 1"))
    for _ in range(2):
        assert admitted(yesterday, 0.01, dataset="wards") is False
    assert "totals" not in json.loads(list(audit.export(yesterday))[-1])
    with pytest.raises(LedgerDamaged, match="row 1 of reservations was changed"):
        audit.verify(yesterday)


def test_totals_that_do_not_follow_are_told(used):
    history = list(exported(used))
    assert list(unlike_totals(history)) == []
    for place in (3, 7, len(history) - 1):
        told = json.loads(history[place].totals)
        told["totals"]["rho_units"] += 1
        forged = [*history]
        forged[place] = replace(history[place], totals=json.dumps(told))
        assert f"entry {place + 1} of the history" in next(unlike_totals(forged))
    with LedgerStore(used).reading() as connection:
        assert [link.totals for link in links(connection)] == [link.totals for link in history]
    *_, (of, totals) = replayed((link.about, json.loads(link.row)) for link in history)
    assert Node.from_text(history[-1].totals).totals == totals
    assert of == "other"


def test_an_entry_written_on_without_totals_makes_the_next_writer_verify_all(ledger_url):
    """As an older version would write it; here it says what is not so, in its table and in the history."""
    from test_ledger_meaning import continued

    book = PrivacyLedger(ledger_url)
    book.set_budget(PrivacyBudget.of("d", epsilon=1.0, delta=0.0))
    *_, link = continued(exported(ledger_url), "notes", {"said": 1})
    row = f"({link.sequence}, '{link.about}', '{link.row}', '{link.hash}')"
    sql(ledger_url, f"INSERT INTO history (sequence, about, content, hash) VALUES {row}")
    if ledger_url.startswith("sqlite"):  # nobody without the key
        assert admitted(ledger_url, 0.25) is False
        return
    assert admitted(ledger_url, 0.25)
    assert "all" in json.loads(exported(ledger_url)[3].totals)
    audit.verify(ledger_url)


# what a user saw


def seen_file(state):
    (file,) = (state / "dpbo").iterdir()
    return file


def tables_of(url):
    engine = sa.create_engine(url, poolclass=sa.pool.NullPool)
    with engine.connect() as connection:
        return {
            table.name: connection.execute(sa.select(table)).mappings().all() for table in METADATA.sorted_tables
        }


def restore(url, tables):
    """Put an older copy of a PostgreSQL ledger back, row by row, as a backup's tool would."""
    engine = sa.create_engine(url, poolclass=sa.pool.NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql("SET session_replication_role = replica")
        for table in METADATA.tables.values():
            connection.exec_driver_sql(f"DELETE FROM {table.name}")
            if tables[table.name]:
                connection.execute(table.insert(), [dict(row) for row in tables[table.name]])


def test_a_restored_database_is_noticed_from_any_folder(postgresql, here, tmp_path_factory, monkeypatch, state):
    from conftest import new_database

    url = new_database(postgresql)
    book = PrivacyLedger(url)
    book.set_budget(PrivacyBudget.of("d", epsilon=1.0, delta=0.0))
    old = tables_of(url)
    finish(book, "a", epsilon=1.0)
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert admitted(url) is None
    restore(url, old)
    monkeypatch.chdir(tmp_path_factory.mktemp("a third"))
    for look in (lambda: PrivacyLedger(url).reserve(key("b"), plan(1.0), noise=SYSTEM), lambda: audit.verify(url)):
        with pytest.raises(LedgerDamaged, match=r"older than it was: entry 6 .*--accept-restored"):
            look()
    with (
        monkeypatch.context() as another
    ):  # who never saw the newer one: the planted fault, and what is not claimed
        another.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("another user")))
        assert admitted(url)
    with pytest.raises(LedgerDamaged, match="older than it was"):
        PrivacyLedger(url)
    assert audit.verify(url, accept=True).recovered == 0
    assert PrivacyLedger(url).accounts("d")[0].entries
    audit.verify(url)


def test_both_files_of_a_ledger_restored_are_noticed_by_what_the_user_saw(here, state):
    url = f"sqlite:///{here / 'ledger.db'}"
    book = PrivacyLedger(url)
    book.set_budget(PrivacyBudget.of("d", epsilon=1.0, delta=0.0))
    names = ("ledger.db", "ledger.db.generation")
    for name in names:
        shutil.copy(here / name, here / f"old {name}")
    finish(book, "a", epsilon=1.0)
    for name in names:
        shutil.copy(here / f"old {name}", here / name)
    for look in (lambda: PrivacyLedger(url), lambda: audit.verify(url)):
        with pytest.raises(LedgerDamaged, match=r"older than it was.*--accept-restored"):
            look()
    assert audit.verify(url, accept=True).recovered == 0
    assert admitted(url)


def test_an_older_head_is_no_refusal_and_others_writing_is_none(here, state, tmp_path_factory, monkeypatch):
    url = f"sqlite:///{here / 'ledger.db'}"
    book = PrivacyLedger(url)
    book.set_budget(PrivacyBudget.of("d", epsilon=1.0, delta=0.0))
    stale = seen_file(state).read_bytes()
    with monkeypatch.context() as another:
        another.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("another user")))
        finish(PrivacyLedger(url), "a")
    assert seen_file(state).read_bytes() == stale
    finish(book, "b")
    newer = seen_file(state).read_bytes()
    seen_file(state).write_bytes(stale)
    finish(PrivacyLedger(url), "c")
    assert seen_file(state).read_bytes() not in (stale, newer)


def test_what_is_kept_is_a_number_and_a_hash_for_its_owner_alone(here, state):
    book = PrivacyLedger(f"sqlite:///{here / 'ledger.db'}")
    book.set_budget(PrivacyBudget.of("psychiatric ward", epsilon=1.0, delta=0.0))
    file = seen_file(state)
    kept = json.loads(file.read_text())
    assert kept.keys() == {"sequence", "hash"}
    assert kept["hash"] == exported(f"sqlite:///{here / 'ledger.db'}")[-1].hash
    assert "ledger" not in file.name
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


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
        book = PrivacyLedger(url)
        book.set_budget(PrivacyBudget.of("d", epsilon=1.0, delta=0.0))
        finish(book, "a")
    told = {str(item.message) for item in said if item.category is UserWarning}
    assert len(told) == 1
    assert "state folder" in told.pop()
    assert not (here / "relative").exists()


def test_a_reader_never_takes_a_writer_s_newest_entry_for_a_lost_one(used):
    """What was seen is read before the snapshot: a commit in between is newer than both."""
    store, order = LedgerStore(used), []
    read = Seen.read

    def noting(self):
        order.append("seen")
        return read(self)

    sa.event.listen(sa.Engine, "before_cursor_execute", lambda *words: order.append(words[2]))
    try:
        Seen.read = noting
        with store.reading() as connection:
            del order[:]  # BEGIN, and what a pool asks
            store._last(connection)
    finally:
        Seen.read = read
    assert order[0] == "seen"
    assert any("FROM history" in str(item) for item in order[1:])


# releases


def test_a_release_names_the_entry_before_it_and_an_old_copy_does_not_hold_it(here, state, monkeypatch, tmp_path):
    url = f"sqlite:///{here / 'ledger.db'}"
    book = PrivacyLedger(url)
    book.set_budget(PrivacyBudget.of("d", epsilon=1.0, delta=0.0))
    names = ("ledger.db", "ledger.db.generation")
    for name in names:
        shutil.copy(here / name, here / f"old {name}")
    release = finish(book, "a")
    history = exported(url)
    assert history[-1].about == "releases"
    assert release.ledger == {"identity": json.loads(history[0].row)["value"], "head": history[-2].hash}
    assert Release.from_json(json.loads(json.dumps(release.to_json()))).ledger == release.ledger
    assert standing_of(release, url) == "held"
    finish(book, "b")
    assert standing_of(release, url) == "held"
    assert standing_of(replace(release, ledger={}), url) == "another"
    assert standing_of(replace(release, ledger=release.ledger | {"identity": "0" * 32}), url) == "another"
    for name in names:
        shutil.copy(here / f"old {name}", here / name)
    with pytest.raises(LedgerDamaged, match="the entry that this release names is not in its history"):
        standing_of(release, url)
    audit.verify(url, accept=True)
    assert standing_of(release, url) == "accepted"


def test_the_command_says_that_a_certificate_s_entry_is_missing(dpbo, here, tables, monkeypatch):
    import tomli_w

    (here / "study.toml").write_text(tomli_w.dumps(tables))
    monkeypatch.setenv("DPBO_LEDGER_URL", f"sqlite:///{here / 'ledger.db'}")
    from dpbo_core.study.run import open_study
    from dpbo_core.study.study_file import read_study

    book = PrivacyLedger(os.environ["DPBO_LEDGER_URL"])
    book.set_budget(PrivacyBudget.of("people", epsilon=3.0, delta=1e-5))
    names = ("ledger.db", "ledger.db.generation")
    for name in names:
        shutil.copy(here / name, here / f"old {name}")
    run = open_study(read_study(here / "study.toml"), ledger=book, folder=here)
    for _ in range(run.n_steps):
        run.step()
    (here / "release.json").write_text(json.dumps(run.finish().release.to_json()))

    code, out, _ = dpbo("verify", "release.json")
    assert code == 0
    assert "ledger" not in out
    for name in names:
        shutil.copy(here / f"old {name}", here / name)
    code, _, err = dpbo("verify", "release.json")
    assert code == 1
    assert "the entry that this release names" in err
    for name in names:
        (here / name).unlink()
    assert dpbo("verify", "release.json")[0] == 0  # a certificate proves itself where there is no ledger
    assert not (here / "ledger.db").exists()
