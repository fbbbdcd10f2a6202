"""Record and replay: a method runs on V and on a neighbour V′ while its mechanisms give the same outputs to both.

Then everything a bystander could see must be equal (draws, spends, trainings, what steps return, what is said, the
lines that run), and at every draw the query may have moved by no more than the sensitivity that its noise was
calibrated to. Nothing here is statistical: one differing line is a finding.
"""

import io
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import opendp.measurements  # noqa: F401  imported while lines are traced, it would take seconds
from worlds import Memory

from dpbo_core.mechanisms.exponential import PrivateSelection
from dpbo_core.mechanisms.gaussian import DiscreteGaussian
from dpbo_core.mechanisms.laplace import DiscreteLaplace
from dpbo_core.mechanisms.noise import InjectedNoise, Noise
from dpbo_core.mechanisms.noisy_max import NoisyMax

DOORS = (
    DiscreteLaplace,
    DiscreteGaussian,
    PrivateSelection,
    NoisyMax,
)  # their sensitivity bounds every coordinate of the query
KEPT = "opendp_library.py"  # what it makes for a scale, which is public, it makes once a process
TRACED = ("dpbo_core/methods/", "dpbo_core/mechanisms/", "dpbo_core/models/scoring/in_memory.py", "tests/faults.py")


@dataclass(frozen=True)
class Draw:
    """One draw: what it was asked for, at what sensitivity, on which query, with which output."""

    what: str
    mechanism: str
    sensitivity: int
    scale: float
    query: tuple[int, ...]
    output: int | tuple[int, int | None]  # of a noisy maximum the index and its lead


@dataclass
class Transcript:
    """A run as a bystander could follow it, and the queries that nobody sees."""

    draws: list[Draw] = field(default_factory=list)
    asked: list[tuple[str, ...]] = field(default_factory=list)  # by step: the points trained
    shown: list[str] = field(default_factory=list)  # by step: what it returned; last the release
    said: str = ""
    raised: str = ""
    planned: tuple[str, ...] = ()
    lines: list[tuple[str, int]] = field(default_factory=list)


class Asked:
    """A trainer that notes every request."""

    def __init__(self, trainer):
        self._trainer, self.since = trainer, []

    def train(self, point):
        self.since.append(repr(sorted(point.items())))
        return self._trainer.train(point)

    @property
    def n_records(self):
        return self._trainer.n_records

    def public_score(self, point, *, seed):
        self.since.append(f"public {sorted(point.items())}")
        return self._trainer.public_score(point, seed=seed)

    def public_steps(self, point, *, seed):
        self.since.append(f"public steps {sorted(point.items())}")
        return self._trainer.public_steps(point, seed=seed)


def record(method, problem, objective, *, seed=0, frozen=None, thorough=True):
    """The transcript of one run.

    Args:
        method: of METHODS, or a faulty one.
        problem: with a trainer.
        objective: the sensitive half.
        seed: of the outputs.
        frozen: an earlier transcript, whose outputs every draw must repeat.
        thorough: through the real doors, and with the lines that run; ten times slower.
    """
    transcript, asked, said = Transcript(), Asked(problem.trainer), io.StringIO()
    problem = replace(problem, trainer=asked)
    rng = np.random.default_rng(seed)
    with _taped(transcript, frozen, rng, thorough), _heard(said), _traced(transcript.lines, thorough):
        try:
            noise = Noise(InjectedNoise(rng), Memory())
            plan = method.plan(problem)
            transcript.planned = tuple(spend.what for spend in plan.spends)
            noise.prepare_draws(method.draws(problem))
            search = method.start(problem, plan)
            for _ in range(method.n_steps(problem)):
                asked.since = []
                transcript.shown.append(repr(search.step(objective, noise)))
                transcript.asked.append(tuple(asked.since))
            transcript.shown.append(repr(search.finish(noise)))
        except Exception as error:  # noqa: BLE001  a bystander sees that it failed
            transcript.raised = type(error).__name__
    transcript.said = said.getvalue()
    return transcript


@dataclass(frozen=True)
class Finding:
    """What differed between V and V′, in words without values."""

    what: str


@dataclass(frozen=True)
class Compared:
    """The findings of one pair, and how much of its declared sensitivity the most moved query used."""

    findings: tuple[Finding, ...]
    reach: float


def compare(one: Transcript, other: Transcript, *, public_path: bool) -> Compared:
    """What differs, and whether every spend of the plan was drawn, once and in order."""
    found = []
    for what, a, b in (
        ("it failed on one, or differently", one.raised, other.raised),
        ("what was drawn", [_seen(d) for d in one.draws], [_seen(d) for d in other.draws]),
        ("what steps returned", one.shown, other.shown),
        ("what was said", one.said, other.said),
        ("which lines ran", one.lines, other.lines),
        ("how often each step trained", [len(t) for t in one.asked], [len(t) for t in other.asked]),
        ("what a public path trained", *((one.asked, other.asked) if public_path else ((), ()))),
    ):
        if a != b:
            found.append(Finding(what))
    if one.raised or one.said:
        found.append(Finding("it failed, or said something"))
    if tuple(draw.what for draw in one.draws if draw.what in one.planned) != one.planned:
        found.append(Finding("not every planned draw was made, once and in order"))
    reach = 0.0
    for a, b in zip(one.draws, other.draws, strict=False):
        if len(a.query) != len(b.query):
            found.append(Finding("queries of different lengths"))
            continue
        moved = max(abs(x - y) for x, y in zip(a.query, b.query, strict=True))
        reach = max(reach, moved / a.sensitivity)
        if moved > a.sensitivity:
            found.append(Finding("a query moved by more than its declared sensitivity"))
    return Compared(tuple(found), reach)


def replayed(method, problem, one, other, *, seed=0, thorough=True):
    """Both runs and their comparison; `one` and `other` are objectives on neighbours."""
    first = record(method, problem, one, seed=seed, thorough=thorough)
    second = record(method, problem, other, seed=seed, frozen=first, thorough=thorough)
    return compare(first, second, public_path=method.public_path)


def _seen(draw: Draw) -> tuple[str, str, int, float]:
    return draw.what, draw.mechanism, draw.sensitivity, draw.scale


@contextmanager
def _taped(transcript, frozen, rng, thorough) -> Iterator[None]:
    """Every door writes its query down, and repeats the frozen output where there is one."""
    patches = [_patched(door, transcript, frozen, rng, thorough) for door in DOORS]
    patches.append(patch("dpbo_core.mechanisms.exponential.time.sleep", lambda seconds: None))
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in patches:
            each.stop()


def _patched(door, transcript, frozen, rng, thorough):
    """The one place where this mechanism draws: for many spends at once, or for one."""

    def recorded(mechanism, spend, apply):
        def applied(value):
            place, drawn = len(transcript.draws), apply(value)
            if frozen is not None and place < len(frozen.draws):
                drawn = frozen.draws[place].output
            transcript.draws.append(
                Draw(spend.what, spend.mechanism, mechanism.sensitivity, mechanism.scale, _query(value), drawn)
            )
            return drawn

        return applied

    name = "prepare_each" if hasattr(door, "prepare_each") else "prepare"
    honest = getattr(door, name)

    def prepare_each(mechanism, spends, source):
        applies = honest(mechanism, spends, source) if thorough else [_guessed(mechanism, rng)] * len(spends)
        return [recorded(mechanism, spend, apply) for spend, apply in zip(spends, applies, strict=True)]

    def prepare(mechanism, spend, source):
        apply = honest(mechanism, spend, source) if thorough else _guessed(mechanism, rng)
        return recorded(mechanism, spend, apply)

    return patch.object(door, name, prepare_each if name == "prepare_each" else prepare)


def _guessed(mechanism, rng):
    return lambda value: _output(mechanism, value, rng)


def _query(value) -> tuple[int, ...]:
    exact = value.expose()
    return tuple(map(int, exact)) if isinstance(exact, np.ndarray) else (exact,)


def _output(mechanism, value, rng):
    """An output this mechanism could give: any index, with a lead or none, or the query with noise of its scale."""
    query = _query(value)
    if isinstance(mechanism, NoisyMax):
        lead = abs(round(float(rng.exponential(scale=mechanism.scale))))
        return int(rng.integers(len(query))), lead if len(query) > 1 else None
    if isinstance(mechanism, PrivateSelection):
        return int(rng.integers(len(query)))
    return query[0] + round(float(rng.laplace(scale=mechanism.scale)))


@contextmanager
def _heard(said: io.StringIO) -> Iterator[None]:
    """Both streams, warnings, and every logger at every level."""
    handler, root = logging.StreamHandler(said), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        with redirect_stdout(said), redirect_stderr(said):
            yield
    finally:
        root.setLevel(level)
        root.removeHandler(handler)


@contextmanager
def _traced(lines: list[tuple[str, int]], wanted_at_all: bool) -> Iterator[None]:
    """The lines that run in the methods, the mechanisms and the objective, in order."""
    if not wanted_at_all:
        yield
        return
    wanted: dict[str, str | None] = {}

    def place(filename):
        if filename not in wanted:
            path = Path(filename).as_posix()
            parts = () if path.endswith(KEPT) else TRACED
            wanted[filename] = next((path[path.rindex(part) :] for part in parts if part in path), None)
        return wanted[filename]

    def entered(frame, event, arg):
        name = place(frame.f_code.co_filename)
        if name is None:
            return None

        def stepped(frame, event, arg):
            if event == "line":
                lines.append((name, frame.f_lineno))
            return stepped

        return stepped

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        yield
    finally:
        sys.settrace(before)
