"""A PostgreSQL ledger that is silent, stopped or held: a message within 15 seconds, nothing lost or paid twice.

No test races a clock: a wait that nothing ended would last for minutes, and the bound is 30 s.
"""

import hashlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from conftest import new_database
from test_ledger import SYSTEM, capped, entries, key, plan

from dpbo_core.errors import DpboError
from dpbo_core.ledger import address as patience
from dpbo_core.ledger.address import open_engine
from dpbo_core.ledger.charge import Charge
from dpbo_core.ledger.ledger import PrivacyLedger

BOUND = 90.0  # seconds, for a wait of 15 on a busy machine; before there were limits, 100 and more


@contextmanager
def within(bound=BOUND):
    begun = time.monotonic()
    yield
    assert time.monotonic() - begun < bound


@contextmanager
def accepting(answer=b""):
    """A server on the loopback that takes every connection, says `answer`, and then nothing: its port."""
    held, listener = [], socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            try:
                held.append(listener.accept()[0])
                if answer:
                    held[-1].sendall(answer)
            except OSError:
                return

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.close()
        for one in held:
            one.close()


def test_what_is_waited_for_ends_before_15_seconds():
    """The arithmetic of the waits, each alone; a queue's end is the server's to tell, before silence is counted."""
    assert max(patience.CONNECTING, patience.QUEUED, patience.SILENCE) < 15
    assert patience.QUEUED < patience.SILENCE
    assert patience.IDLE_TIMEOUT_S <= 60
    assert patience.CONNECTION_OPTIONS["tcp_user_timeout"] == 12_000
    probes = patience.CONNECTION_OPTIONS["keepalives_interval"] * patience.CONNECTION_OPTIONS["keepalives_count"]
    assert patience.CONNECTION_OPTIONS["keepalives_idle"] + probes < 15


def test_what_the_url_says_of_waiting_stays(here):
    engine, _ = open_engine("postgresql://ann@127.0.0.1/d?connect_timeout=77&keepalives=0")
    _, told = engine.dialect.create_connect_args(engine.url)
    assert (told["connect_timeout"], told["keepalives"]) == ("77", "0")
    assert told["tcp_user_timeout"] == "12000"
    plain, kept = open_engine("postgresql://ann@127.0.0.1/d")
    named = hashlib.sha256(b"postgresql://ann@127.0.0.1/d").hexdigest()[:16]
    assert kept.name == f"ledger-{named}.generation"  # as before there were limits: an old one is found again
    assert plain.url.query["connect_timeout"] == "5"


@pytest.mark.slow
@pytest.mark.parametrize("answer", [b"", b"N"], ids=["nothing", "no encryption, then nothing"])
def test_a_server_that_accepts_and_never_answers(here, answer):
    with accepting(answer) as port, within(), pytest.raises(DpboError, match="cannot be used now") as told:
        PrivacyLedger(f"postgresql://somebody:secret@127.0.0.1:{port}/people")
    assert "'people'" in str(told.value)
    assert "nothing is paid twice" in str(told.value)
    assert "secret" not in str(told.value)
    assert "Operational" not in str(told.value)
    assert told.value.__cause__ is None


@pytest.fixture
def server(here):
    """A PostgreSQL of the test's own, which may be stopped: (URL of an empty database, its processes)."""
    import psutil

    pgserver = pytest.importorskip("pgserver", reason="pgserver has no wheel for this Python")
    folder = tempfile.mkdtemp()
    own = pgserver.get_server(folder, cleanup_mode="stop")
    main = psutil.Process(int(Path(folder, "postmaster.pid").read_text().split()[0]))

    def processes():
        return [main.pid, *(child.pid for child in main.children())]

    yield new_database(own.get_uri("{}").replace("postgresql://", "postgresql+psycopg://")), processes
    own.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def stopped(processes):
    frozen = processes()
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)


@pytest.mark.slow
def test_a_server_that_stops_after_the_connection(server):
    """SIGSTOP: its machine goes on acknowledging, so only the connection's own clock can tell."""
    url, processes = server
    book = capped(url)
    with stopped(processes), within(), pytest.raises(DpboError, match="cannot be used now"):
        book.reserve(Charge(key(), plan(0.25)), noise=SYSTEM)
    assert entries(book) == ()  # the same ledger, the server awake again
    claim = book.reserve(Charge(key(), plan(0.25)), noise=SYSTEM)
    drawn = []
    spend = plan(0.25).spends[0]

    def draw():
        drawn.append(len(drawn))
        return {"draw": len(drawn)}

    with stopped(processes), within(), pytest.raises(DpboError, match="cannot be used now"):
        claim.record(spend, draw)
    assert drawn == []  # nothing is drawn before the server let the writer in
    assert claim.record(spend, draw) == {"draw": 1}
    assert book.reserve(Charge(key(), plan(0.25)), noise=SYSTEM).record(spend, draw) == {"draw": 1}
    assert (len(drawn), len(entries(book))) == (1, 1)


@pytest.mark.slow
def test_a_server_that_stops_before_the_commit_loses_nothing_and_charges_once(server):
    """Whether the commit arrived nobody knows; the rerun finds the draw, or makes it, and pays once."""
    url, processes = server
    book = capped(url)
    claim, spend = book.reserve(Charge(key(), plan(0.25)), noise=SYSTEM), plan(0.25).spends[0]
    frozen = []

    def draw():
        frozen.extend(processes())
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        return {"draw": 7}

    try:
        with within(), pytest.raises(DpboError, match="nothing is paid twice"):
            claim.record(spend, draw)
    finally:
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)
    kept = claim.record(spend, lambda: {"draw": 8})
    assert kept in ({"draw": 7}, {"draw": 8})
    assert PrivacyLedger(url).reserve(Charge(key(), plan(0.25)), noise=SYSTEM).recorded("score") == kept
    assert len(entries(book)) == 1


WRITER = """
import sys
from dpbo_core.ledger.charge import Charge
from dpbo_core.ledger.ledger import PrivacyLedger
sys.path[:0] = {tests!r}
from test_ledger import SYSTEM, key, plan
claim = PrivacyLedger({url!r}).reserve(Charge(key(), plan(0.25)), noise=SYSTEM)
def draw():
    print("drawing", flush=True)
    sys.stdin.readline()
    return {{"draw": 1}}
try:
    print(claim.record(plan(0.25).spends[0], draw))
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.slow
def test_a_writer_that_stopped_blocks_the_others_for_seconds_alone(server):
    """It sleeps inside its transaction, the lock in hand: the server ends it, and its draw is nobody's."""
    url, _ = server
    book = capped(url)
    code = WRITER.format(tests=[str(folder) for folder in Path(__file__).parents[:2]], url=url)
    writer = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ
    )
    try:
        assert writer.stdout.readline() == "drawing\n"
        os.kill(writer.pid, signal.SIGSTOP)
        with within(), pytest.raises(DpboError, match="another process holds it"):
            book.reserve(Charge(key("other"), plan(0.25)), noise=SYSTEM)
        for _ in range(20):  # each waits for 10 s; the server lets go of the lock long before the last
            with suppress(DpboError):
                book.reserve(Charge(key("other"), plan(0.25)), noise=SYSTEM)
                break
        assert [entry.study for entry in entries(book)] == ["s", "other"]
        os.kill(writer.pid, signal.SIGCONT)
        said, _ = writer.communicate("\n", timeout=300)
    finally:
        writer.kill()
    assert said.startswith("DpboError")
    assert "nothing is paid twice" in said
    claim = book.reserve(Charge(key(), plan(0.25)), noise=SYSTEM)
    assert claim.recorded("score") is None
    assert claim.record(plan(0.25).spends[0], lambda: {"draw": 2}) == {"draw": 2}
    assert len(entries(book)) == 2
