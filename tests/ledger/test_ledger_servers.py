"""A PostgreSQL ledger on servers that are set up otherwise: isolation, durability, a pooler of connections."""

from itertools import count
from threading import Barrier, Thread

import pytest
import sqlalchemy as sa
from conftest import new_database
from test_ledger import SYSTEM, capped, entries, key, plan, sql

from dpbo_core.errors import BudgetExceeded, DpboError, LedgerDamaged, StudyInvalid
from dpbo_core.ledger import audit
from dpbo_core.ledger.address import team_address
from dpbo_core.ledger.charge import Charge
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.policy import SCORE, write_fact
from dpbo_core.ledger.schema import DRAWS
from dpbo_core.ledger.store import LedgerStore

CANARY = "2718281828459"


def with_settings(postgresql, *settings):
    """The URL of a new database with other defaults."""
    url = new_database(postgresql)
    name = sa.make_url(url).database
    sql(url, *(f"ALTER DATABASE {name} SET {setting}" for setting in settings))
    return url


def at_once(*works):
    """What each of `works` returns or raises, all begun together."""
    barrier, outcomes = Barrier(len(works)), [None] * len(works)

    def go(i, work):
        barrier.wait()
        try:
            outcomes[i] = work()
        except BudgetExceeded as error:
            outcomes[i] = error

    threads = [Thread(target=go, args=each) for each in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


@pytest.mark.parametrize(
    "settings",
    [
        ("default_transaction_isolation = 'serializable'", "default_transaction_deferrable = on"),
        ("default_transaction_isolation = 'repeatable read'", "synchronous_commit = off"),
        ("default_transaction_isolation = 'read uncommitted'",),
    ],
)
def test_whatever_isolation_a_server_begins_with_a_cap_holds_and_a_draw_is_made_once(postgresql, here, settings):
    url, drawn = with_settings(postgresql, *settings), count(1)
    book = capped(url)

    def draw():
        reservation = PrivacyLedger(url).reserve(Charge(key("same"), plan(0.25)), noise=SYSTEM)
        return reservation.record(plan(0.25).spends[0], lambda: {"draw": next(drawn)})

    assert at_once(draw, draw, draw) == [{"draw": 1}] * 3
    works = [lambda i=i: PrivacyLedger(url).reserve(Charge(key(str(i)), plan(0.5)), noise=SYSTEM) for i in range(3)]
    assert sum(isinstance(one, BudgetExceeded) for one in at_once(*works)) == 2
    assert len(entries(book)) == 2
    assert audit.verify(url)


def test_a_server_that_takes_no_writes_is_a_message(postgresql, here):
    url = new_database(postgresql)
    capped(url)
    sql(url, f"ALTER DATABASE {sa.make_url(url).database} SET default_transaction_read_only = on")
    with pytest.raises(DpboError, match="may only be read"):
        PrivacyLedger(url).reserve(Charge(key(), plan(0.25)), noise=SYSTEM)


def test_nothing_is_prepared_on_a_server(postgresql, here):
    """A pooler gives the server's connection to somebody else, whose statements have the same names."""
    url = new_database(postgresql)
    capped(url)
    with LedgerStore(url).writing() as writer:
        for item in map(str, range(9)):
            write_fact(writer, "d", SCORE, item, {})
        assert writer.connection.exec_driver_sql("SELECT name FROM pg_prepared_statements").all() == []


def test_a_row_that_is_refused_does_not_say_what_was_drawn(ledger_url):
    """The draw is discarded, and drawn again by a rerun: whoever saw it would have seen two."""
    capped(ledger_url).reserve(Charge(key(), plan()), noise=SYSTEM)
    row = {"reservation": 1, "what": "score", "spend": {}, "outcome": {"draw": CANARY}, "drawn_at": ""}
    with LedgerStore(ledger_url).writing() as writer:
        writer.write(DRAWS, row)
        with pytest.raises(sa.exc.IntegrityError) as caught:
            writer.write(DRAWS, row)
        writer.connection.rollback()
    assert CANARY not in str(caught.value)


def test_an_older_copy_is_noticed_under_any_spelling_of_the_server(postgresql, here):
    """Also where the user's record is lost: a machine keeps what it knows by the ledger's identity too."""
    url = new_database(postgresql)
    capped(url)
    older = new_database(postgresql, of=sa.make_url(url).database)
    PrivacyLedger(url).reserve(Charge(key(), plan(0.5)), noise=SYSTEM)
    LedgerStore(url).guard.path_of_user.unlink()
    with pytest.raises(LedgerDamaged, match="older than it was"):
        PrivacyLedger(older)
    assert audit.verify(url)


@pytest.mark.parametrize("url", [
    "postgresql://curator:p@ss/w:rd%#?x@127.0.0.1:5499/dpbo", "postgresql://curator:p@ss@127.0.0.1/dpbo",
    "postgresql://curator:s:s#p@ss/d@127.0.0.1/dpbo",
])  # fmt: skip
def test_a_password_that_is_not_escaped_is_named_and_nothing_of_the_url_is_shown(url):
    for opened in (PrivacyLedger, team_address):
        with pytest.raises(StudyInvalid) as refused:
            opened(url)
        said = refused.value.message()
        assert not any(part in said for part in ("p@", "w:rd", "127.0", "curator"))
    team_address("postgresql://curator%40server:p%40ss@127.0.0.1:5432/dpbo")


@pytest.mark.parametrize(("code", "words", "says"), [
    ("28P01", "", "refuses the role or its password"),
    (None, 'password authentication failed for user "curator"', "refuses the role or its password"),
    (None, "server does not support SSL, but SSL was required", "refuses an encrypted connection"),
    ("25006", "cannot execute INSERT in a read-only transaction", "may only be read"),
    ("3D000", 'database "dpbo" does not exist', "does not exist on that server"),
    (None, "connection refused by hunter2", "cannot be used now"),
])  # fmt: skip
def test_each_reason_of_a_server_has_its_own_sentence(code, words, says):
    """The driver's words, which may hold parts of the URL, are not repeated."""
    store = object.__new__(LedgerStore)
    store.server, store._name = True, "the ledger, database 'team',"
    original = Exception(f"{words}: postgresql://curator:hunter2@db")
    original.sqlstate = code
    message = store._message(sa.exc.OperationalError("SELECT 1", {}, original)).message()
    assert message.startswith(f"the ledger, database 'team', {says}")
    assert not any(part in message for part in ("hunter2", "curator"))
