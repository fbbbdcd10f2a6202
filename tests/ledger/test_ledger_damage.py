"""A damaged ledger file, a generation that is a link to nothing, a NUL in a name: messages that name the ledger."""

import os
import random

import pytest
from test_ledger import SYSTEM, capped, key, plan
from worlds import mostly_slow

from dpbo_core.errors import DpboError, LedgerDamaged, StudyInvalid
from dpbo_core.ledger import audit
from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.charge import Charge
from dpbo_core.ledger.ledger import PrivacyLedger

PAGE = 4096
DRIVER = ("sqlite3", "sqlalchemy", "DatabaseError", "OperationalError", "malformed", "not a database", "Errno")


@pytest.fixture
def path(here):
    """A ledger with a spend and a draw, all of it in its one file."""
    book = capped(f"sqlite:///{here / 'ledger.db'}")
    book.reserve(Charge(key(), plan(0.25)), noise=SYSTEM).record(plan(0.25).spends[0], lambda: {"draw": 1})
    assert not (here / "ledger.db-wal").exists()  # the last connection's end writes it back
    return here / "ledger.db"


def uses(path):
    """Everything that a command does with a ledger."""
    url = f"sqlite:///{path}"
    yield lambda: PrivacyLedger(url).accounts()
    yield lambda: PrivacyLedger(url).reserve(Charge(key("z"), plan(0.125)), noise=SYSTEM)
    yield lambda: PrivacyLedger(url).reserve(Charge(key(), plan(0.25)), noise=SYSTEM).recorded("score")
    yield lambda: PrivacyLedger(url).recorded("s")
    yield lambda: PrivacyLedger(url).set_budget(PrivacyBudget.of("e", epsilon=1.0, delta=1e-6))
    yield lambda: audit.verify(url)
    yield lambda: list(audit.export(url))


def told(path):
    """What each use says of the ledger, None where it succeeded; a driver's error would come through."""
    said = []
    for use in uses(path):
        try:
            use()
        except DpboError as error:
            said.append(error)
        else:
            said.append(None)
    for error in filter(None, said):
        assert "ledger" in str(error)
        assert error.remedy
        assert not [word for word in DRIVER if word in str(error)]
    return said


@pytest.mark.parametrize("what", ["text", "zeros", "the header", "half a page"])
def test_a_file_that_is_no_database_is_damage_and_is_named(path, what):
    content = path.read_bytes()
    path.write_bytes({
        "text": b"this is a shopping list\n" * 200,
        "zeros": bytes(len(content)),
        "the header": b"\x00" * 100 + content[100:],
        "half a page": content[: PAGE // 2],
    }[what])  # fmt: skip
    said = told(path)
    assert all(said)
    assert any(isinstance(error, LedgerDamaged) and "ledger.db" in str(error) for error in said)


def test_a_truncated_file_is_never_a_driver_s_error(path):
    """Cut anywhere: the first page says how many there are."""
    content = path.read_bytes()
    for size in range(0, len(content), PAGE):
        path.write_bytes(content[:size] + content[size : size + PAGE // 2])
        said = told(path)
        assert all(said[:2]) or size + PAGE >= len(content), size  # of the last page half may be all there was
    path.write_bytes(b"")
    assert isinstance(told(path)[0], LedgerDamaged)  # not a new ledger: the generation beside it knows


@pytest.mark.parametrize("seed", mostly_slow(range(4), 0))
def test_pages_written_over_are_never_a_driver_s_error(path, seed):
    """Each page in turn: zeros, noise, or a few bytes changed. What is noticed at all is told as damage."""
    content, source = path.read_bytes(), random.Random(seed)
    for start in range(0, len(content), PAGE):
        page = bytearray(content[start : start + PAGE])
        if seed == 0:
            page = bytearray(PAGE)
        elif seed == 1:
            page = bytearray(source.randbytes(PAGE))
        else:
            for _ in range(20):
                page[source.randrange(PAGE)] = source.randrange(256)
        path.write_bytes(content[:start] + bytes(page) + content[start + PAGE :])
        for name in ("-wal", "-shm"):
            path.with_name(path.name + name).unlink(missing_ok=True)
        told(path)


@pytest.mark.parametrize("target", ["nowhere/ledger.db.generation", "gone"])
def test_a_generation_that_is_a_link_to_nothing_is_named_and_begins_nothing(path, here, target):
    generation = here / "ledger.db.generation"
    kept = generation.read_bytes()
    generation.unlink()
    generation.symlink_to(here / target)
    before = path.read_bytes()
    *said, exported = told(path)
    assert exported is None  # an export takes the ledger for what it is
    for error in said:
        assert isinstance(error, LedgerDamaged)
        assert "ledger.db.generation" in str(error)
        assert "link" in str(error)
    assert not (here / target).exists()
    assert path.read_bytes() == before
    (here / "elsewhere").write_bytes(kept)
    generation.unlink()
    generation.symlink_to(here / "elsewhere")
    assert told(path) == [None] * 7  # a link to the file is as good as the file


@pytest.mark.parametrize("kind", ["a folder", "a pipe"])
def test_a_generation_that_is_no_file_is_named(path, here, kind):
    generation = here / "ledger.db.generation"
    generation.unlink()
    generation.mkdir() if kind == "a folder" else os.mkfifo(generation)
    assert all(isinstance(error, LedgerDamaged) for error in told(path)[:-1])


@pytest.mark.parametrize(
    "url", ["sqlite:///led\0ger.db", "sqlite:///\0", "sqlite:///\ud800.db", "postgresql://a@127.0.0.1:1/led\0ger"]
)
def test_a_name_that_nothing_can_have_is_a_message(here, url):
    with pytest.raises(StudyInvalid, match="the ledger's URL") as refused:
        PrivacyLedger(url)
    assert str(refused.value).isprintable()
    assert list(here.iterdir()) == []


def test_the_command_says_it_in_one_line(path, dpbo, monkeypatch):
    """Also through `dpbo`: exit 1, nothing on standard output, the file's name and what to do."""
    path.write_bytes(b"this is a shopping list\n" * 200)
    monkeypatch.setenv("DPBO_LEDGER_URL", f"sqlite:///{path}")
    for words in (["budget"], ["budget", "verify"], ["show", "s"]):
        code, out, err = dpbo(*words)
        assert (code, out) == (1, "")
        assert err.count("\n") == 1
        assert "ledger.db" in err
        assert "What to do" in err
        assert "unexpected" not in err
