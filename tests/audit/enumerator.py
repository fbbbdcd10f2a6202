"""Every door on every small table: what can be seen of two neighbouring worlds is the same, whatever a cell holds.

A *world* is a sensitive table of a few units; a unit is one record, or all records of one person, who may have
none. Two worlds are neighbours if they differ in one unit. A *door* asks a private query of a world in a fresh
folder with a fresh ledger; whatever its mechanisms draw on the first world they give on all others (the outputs are
frozen, not the noise), so that nothing may differ but what nobody sees: the exact query, which moves by no more
than the sensitivity that its noise was made for.

| what is compared | name here |
|---|---|
| the exception, with its whole message | `raised` |
| entries of the ledger, with their price | `charged` |
| both streams, warnings and every logger's lines | `said` |
| releases and what else the door gives back | `shown` |
| every file that is there afterwards, with its size | `files` |
"""

import copy
import io
import itertools
import logging
import os
import random
import re
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import joblib
import numpy as np
import sqlalchemy as sa
from of_features import merged

from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.mechanisms.histogram import LaplaceHistogram
from dpbo_core.mechanisms.noise import Noise
from dpbo_core.models.prototype import Prototype
from dpbo_core.models.rowwise import check_rowwise
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.report.noised_table import report

Row = tuple[object, ...]
Unit = tuple[Row, ...]
World = tuple[Unit, ...]

UNSIZED = (  # files whose size may differ between neighbours, and why
    ("sensitive_rows", "the number of different rows: its folder is its owner's, who holds the key (row_marks)"),
)
MEMORY = Path("/dev/shm")  # a file system that waits for no disk
CLOCK = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(\+00:00|Z)?")
HEX = re.compile(r"\b[0-9a-f]{32,64}\b")


@dataclass(frozen=True)
class Place:
    """Where one world is asked: its folder, and the ledger in it."""

    folder: Path

    @property
    def url(self) -> str:
        return f"sqlite:///{self.folder / 'ledger.db'}"

    @property
    def ledger(self) -> PrivacyLedger:
        return PrivacyLedger(self.url)


@dataclass(frozen=True)
class Door:
    """One way to ask, and the worlds that it is asked about.

    Attributes:
        kind: what is asked, whatever library or form of file holds the records; as the table of the audit has it.
        form: that library, or form, and who asks.
        ask: of a place and a world; gives back all that the asker gets, as plain text by name.
        worlds: that it is asked about.
        held: a world as that library or form holds it: neighbours differ in one unit of what is held.
    """

    kind: str
    form: str
    ask: Callable[[Place, World], dict[str, str]]
    worlds: tuple[World, ...]
    held: Callable[[World], World] = lambda world: world

    @property
    def name(self) -> str:
        return f"{self.kind}, {self.form}"

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Numbers of neighbouring worlds."""
        assert len({*map(_spelt, self.worlds)}) == len(self.worlds), f"{self.name}: a world is there twice"
        numbers: dict[World, int] = {_spelt(self.held(world)): i for i, world in enumerate(self.worlds)}
        holes: dict[Any, list[int]] = {}
        for world, i in numbers.items():
            for place in range(len(world)):
                holes.setdefault((place, world[:place], world[place + 1 :]), []).append(i)
        for same in holes.values():
            yield from itertools.combinations(same, 2)


def _spelt(world: World) -> Any:
    """A world as something that can be compared: NaN is equal to itself, and 1 is not True."""
    return tuple(tuple(repr(row) for row in unit) for unit in world)


@dataclass
class Seen:
    """All that is seen of one world, and the exact queries that nobody sees."""

    raised: str = ""
    charged: str = ""
    said: str = ""
    shown: dict[str, str] = field(default_factory=dict)
    files: dict[str, int | None] = field(default_factory=dict)
    drawn: list[str] = field(default_factory=list)
    queries: list[tuple[float, bool, tuple[int, ...]]] = field(default_factory=list)


@dataclass(frozen=True)
class Difference:
    """What differs between two neighbours."""

    door: str
    what: str
    worlds: tuple[World, World]
    values: tuple[object, object]

    def __str__(self) -> str:
        one, other = self.values
        return f"{self.door}: {self.what}: {self.worlds[0]} {one!s:.900} | {self.worlds[1]} {other!s:.900}"


class Tape:
    """What was drawn at each place of the first world that came there, and is given on every later one.

    What took most of the time is done once for all worlds in which its arguments are the same, byte by byte: a
    statement of SQL is compiled, a public model is trained and checked to predict row by row, and a released table
    becomes a report.
    """

    def __init__(self) -> None:
        self.outputs: dict[tuple[int, str], Any] = {}
        self.done: dict[str, Any] = {}
        self.engine = partial(sa.create_engine, execution_options={"compiled_cache": {}})

    def once(self, work: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """What `work` gives of these arguments, which decide it alone, and what it warns of."""
        key = joblib.hash((work.__qualname__, args, named))
        if key not in self.done:
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                self.done[key] = work(*args, **named), warned
        given, warned = self.done[key]
        for one in warned:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
        return copy.deepcopy(given)

    @contextmanager
    def playing(self, seen: Seen) -> Iterator[None]:
        """Every mechanism's outputs frozen, and its queries written down."""

        def release(noise: Any, spend: Any, mechanism: Any, value: Any, **public: Any) -> Any:
            prepared = noise._prepared.pop(spend.what, None) or mechanism.prepare(spend, noise._source)

            def draw() -> dict[str, Any]:
                key = len(seen.drawn), spend.what
                seen.drawn.append(f"{spend.what} by {spend.mechanism}")
                seen.queries.append(_query(mechanism, value))
                return {"draw": self.outputs.setdefault(key, prepared(value)), **public}

            return noise._recorder.record(spend, draw)

        noises: list[float] = []  # a threshold's sensitivity, and twice that for each comparison with it

        def noised(mechanism: Any, _: Any) -> Sensitive[int]:
            noises.append(mechanism.sensitivity)
            return Sensitive(7)

        train = Prototype.train
        with ExitStack() as stack:
            for where, new in (
                *merged("frozen", seen, noises).items(),
                ("dpbo_core.mechanisms.above_threshold._drawn", noised),
                ("dpbo_core.mechanisms.exponential.SELECTION_PAUSE_S", 1e-6),
                ("os.fsync", lambda _: None),
                ("sqlalchemy.create_engine", self.engine),
                ("dpbo_core.report.evaluation.report", partial(self.once, report)),
                ("dpbo_core.models.estimator_trainer.check_rowwise", partial(self.once, check_rowwise)),
                ("dpbo_core.report.evaluated_model.check_rowwise", partial(self.once, check_rowwise)),
            ):
                stack.enter_context(patch(where, new))
            stack.enter_context(patch.object(Noise, "release", release))
            stack.enter_context(patch.object(Prototype, "train", lambda *a, **k: self.once(train, *a, **k)))
            yield


def _query(mechanism: Any, value: Any) -> tuple[float, bool, tuple[int, ...]]:
    """The sensitivity of a draw, whether it is that of the sum of all moves, and the exact query."""
    exact = value.expose()
    numbers = tuple(map(int, exact)) if isinstance(exact, np.ndarray | list | tuple) else (int(exact),)
    return float(mechanism.sensitivity), isinstance(mechanism, LaplaceHistogram), numbers


@contextmanager
def _heard(seen: Seen) -> Iterator[None]:
    """Both streams, warnings, and every logger at every level."""
    said, root = io.StringIO(), logging.getLogger()
    handler, level = logging.StreamHandler(said), root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        with redirect_stdout(said), redirect_stderr(said), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            yield
        for item in warned:
            if not issubclass(item.category, ResourceWarning):  # of the collector, by its clock
                said.write(f"{item.category.__name__}: {item.message}\n")
    finally:
        root.setLevel(level)
        root.removeHandler(handler)
        seen.said = said.getvalue()


def observed(door: Door, world: World, tape: Tape) -> Seen:
    """A door asked about one world, in a fresh folder."""
    seen = Seen()
    with TemporaryDirectory(prefix="enumerated-", dir=MEMORY if MEMORY.is_dir() else None) as name:
        place = Place(Path(name).resolve())
        state = {"XDG_STATE_HOME": str(place.folder / "state"), "DPBO_PLAIN": ""}
        with patch.dict(os.environ, state), tape.playing(seen), _heard(seen):
            try:
                shown = door.ask(place, world)
            except Exception as error:  # noqa: BLE001  what anybody sees of it is compared
                shown = {}
                seen.raised = f"{type(error).__name__}: {error!s} {getattr(error, 'remedy', '')}"
            accounts = place.ledger.accounts() if (place.folder / "ledger.db").exists() else ()
        plain = _plainly(place.folder)
        seen.raised, seen.said = plain(seen.raised), plain(seen.said)
        seen.shown = {key: plain(value) for key, value in shown.items()}
        seen.charged = plain(repr([(account.spent, account.entries) for account in accounts]))
        unsized = {file for file, _ in UNSIZED}
        for path in sorted(place.folder.rglob("*")):
            relative = path.relative_to(place.folder)
            if path.is_file() and relative.parts[0] != "given":
                seen.files[HEX.sub("<hash>", str(relative))] = None if path.name in unsized else path.stat().st_size
    return seen


def _plainly(folder: Path) -> Callable[[str], str]:
    """A text without what is random and public: the folder's name, times, digests of a fresh ledger."""
    return lambda text: HEX.sub("<hash>", CLOCK.sub("<time>", text.replace(str(folder), "<folder>")))


def differences(door: Door, pair: tuple[int, int], seen: Sequence[Seen]) -> Iterator[Difference]:
    """What can be told apart of two neighbours, and queries that moved too far."""
    one, other = (seen[i] for i in pair)
    worlds = door.worlds[pair[0]], door.worlds[pair[1]]
    for what in ("raised", "charged", "said", "shown", "files", "drawn"):
        values = getattr(one, what), getattr(other, what)
        if values[0] != values[1]:
            if isinstance(values[0], dict):
                values = tuple(
                    {k: v for k, v in values[i].items() if values[1 - i].get(k, ...) != v} for i in (0, 1)
                )
            yield Difference(door.name, what, worlds, values)
    for (sensitivity, together, query), (_, _, moved) in zip(one.queries, other.queries, strict=False):
        if len(query) != len(moved):
            yield Difference(door.name, "size of a query", worlds, (len(query), len(moved)))
            continue
        moves = [abs(a - b) for a, b in zip(query, moved, strict=True)]
        if (sum(moves) if together else max(moves)) > sensitivity:
            yield Difference(door.name, f"a query moved by more than {sensitivity:g}", worlds, (query, moved))


@dataclass
class Figures:
    """What one door came to."""

    door: str
    worlds: int = 0
    pairs: int = 0
    released: int = 0
    seconds: float = 0.0
    found: list[Difference] = field(default_factory=list)


def enumerated(door: Door) -> Figures:
    """One door asked about all of its worlds, and all neighbours among them compared."""
    begun, tape = time.monotonic(), Tape()
    seen = [observed(door, world, tape) for world in door.worlds]
    figures = Figures(door.name, len(seen), released=sum(not each.raised for each in seen))
    for pair in door.pairs():
        figures.pairs += 1
        figures.found += differences(door, pair, seen)
    figures.seconds = time.monotonic() - begun
    return figures


def some(door: Door, n: int, *, of_interest: int = 6, seed: int = 0) -> Door:
    """The door with its first worlds, which are its neighbours most worth trying, and a seeded choice of others."""
    first, others = door.worlds[:of_interest], list(door.worlds[of_interest:])
    chosen = random.Random(f"{seed} {door.name}").sample(others, max(0, min(n - len(first), len(others))))
    return replace(door, worlds=(*first, *chosen))


def one_of_each(doors: Sequence[Door], seed: int = 0) -> tuple[Door, ...]:
    """Of the doors of each kind one, by the seed."""
    kinds: dict[str, list[Door]] = {}
    for door in doors:
        kinds.setdefault(door.kind, []).append(door)
    return tuple(random.Random(f"{seed} {kind}").choice(some) for kind, some in kinds.items())
