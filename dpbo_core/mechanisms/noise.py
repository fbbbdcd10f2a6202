"""Where noise comes from, and where every draw is written down before anyone sees it.

A mechanism asks a `NoiseSource` for its draw; a method asks `Noise` to make the draw inside the ledger's
transaction. `OperatingSystemNoise` is the only private source (`standing_of`). `InjectedNoise` exists for tests and
for reproducing papers; it marks what it touches, and the ledger refuses it for any finite budget.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dpbo_core.privacy.guarantee import INJECTED_NOISE, OPERATING_SYSTEM
from dpbo_core.privacy.release import Spend
from dpbo_core.privacy.sensitive import Opaque, Sensitive

T = TypeVar("T")
D = TypeVar("D")
Imitation = Callable[[np.random.Generator, float, int], NDArray[np.int64]]

_DRAWS_PER_BLOCK = 65_536  # draws made at once


class NoiseSource(Protocol):
    """Makes one draw: from OpenDP's `measurement`, or from an `imitation` given a generator and a factor."""

    def draw(
        self, measurement: Callable[[Any], D], value: Any, imitation: Callable[[np.random.Generator, float], D]
    ) -> D:
        """Return one draw of OpenDP's `measurement` at `value`, or in tests of its `imitation`."""

    def draw_many(self, measurement: Callable[[Any], Any], size: int, imitation: Imitation) -> NDArray[np.int64]:
        """`size` independent draws of OpenDP's `measurement` at zero, or in tests of its `imitation`."""


class OperatingSystemNoise:
    """Entropy of the operating system, through OpenDP. Cannot be seeded."""

    def draw(
        self, measurement: Callable[[Any], D], value: Any, imitation: Callable[[np.random.Generator, float], D]
    ) -> D:
        """Return one draw of OpenDP's `measurement` at `value`; the `imitation` for tests is not called."""
        del imitation
        return measurement(value)

    def draw_many(self, measurement: Callable[[Any], Any], size: int, imitation: Imitation) -> NDArray[np.int64]:
        """`size` independent draws of OpenDP's `measurement` at zero, made in blocks to save memory."""
        del imitation
        if size == 1:  # OpenDP reads a list of one sooner than an array
            return np.array(measurement([0]), dtype=np.int64)
        drawn = np.empty(size, dtype=np.int64)
        for start in range(0, size, _DRAWS_PER_BLOCK):
            block = drawn[start : start + _DRAWS_PER_BLOCK]
            block[:] = measurement(np.zeros(len(block), dtype=np.int64))
        return drawn


@dataclass(frozen=True)
class InjectedNoise:
    """Noise of `factor` times the planned scale from a seeded generator: not private. factor = 0 is no noise."""

    generator: np.random.Generator
    factor: float = 1.0

    def draw(
        self, measurement: Callable[[Any], D], value: Any, imitation: Callable[[np.random.Generator, float], D]
    ) -> D:
        """Not private: one draw of the `imitation` from a seeded generator; `measurement` is not called."""
        del measurement, value
        return imitation(self.generator, self.factor)

    def draw_many(self, measurement: Callable[[Any], Any], size: int, imitation: Imitation) -> NDArray[np.int64]:
        """Not private: `size` draws of the `imitation` from a seeded generator; `measurement` is not called."""
        del measurement
        return imitation(self.generator, self.factor, size)


def standing_of(source: NoiseSource) -> str:
    """Return the word "operating_system" for a source of exactly that class, "injected" for any other."""
    return OPERATING_SYSTEM if type(source) is OperatingSystemNoise else INJECTED_NOISE


class Mechanism(Protocol[T]):
    """A calibrated mechanism: what it costs, and how it draws."""

    def spend(self, what: str) -> Spend:
        """Return the price of one use of the mechanism, as a planned draw named `what`."""

    def prepare(self, spend: Spend, source: NoiseSource) -> Callable[[Sensitive[T]], Any]:
        """Check the price again and draw the noise; return a function that applies it to a sensitive value.

        A mechanism whose noise depends on the value draws inside that function. The function may be called once. It
        returns plain JSON: an integer, a table, or the digest of a table that is too large for the ledger.

        Raises:
            MechanismRefused: a privacy map above the price, and nothing was drawn; or, when it is applied, a value
                that is not one of exact integers in range.
        """


@runtime_checkable
class Additive(Mechanism[T], Protocol[T]):
    """A mechanism whose draws do not wait for a value, so that many cost little more than one."""

    def prepare_each(self, spends: Sequence[Spend], source: NoiseSource) -> list[Callable[[Sensitive[T]], Any]]:
        """Draw noise for each price, refused above it; return functions that each add theirs to a value, once."""


class Recorder(Protocol):
    """Keeps draws: reads one back, or makes it and writes it durably, in one transaction."""

    def recorded(self, what: str) -> Mapping[str, Any] | None:
        """Return the recorded outcome of the noise draw named `what`; None if it was not drawn."""

    def record(self, spend: Spend, draw: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        """Return the recorded outcome of this priced draw; if there is none, that of `draw`, recorded first."""


class Noise(Opaque):
    """What a method draws through: every draw goes through the recorder, none is ever made twice.

    The time a draw takes tells something of the noise, so a run's draws are prepared first, in memory only, and
    applied inside the recording transaction: no step's duration holds a draw. A kill discards them unseen.
    """

    __slots__ = ("_prepared", "_recorder", "_source")

    def __init__(self, source: NoiseSource, recorder: Recorder) -> None:
        self._source, self._recorder = source, recorder
        self._prepared: dict[str, Callable[[Sensitive[Any]], Any]] = {}

    def prepare_draws(self, draws: Iterable[tuple[Spend, Mechanism[Any]]]) -> None:
        """Draw the noise of a whole plan and keep it in memory until `release` uses it; nothing is recorded yet."""
        for mechanism, run in groupby(draws, key=itemgetter(1)):
            spends = [spend for spend, _ in run]
            if isinstance(mechanism, Additive):
                prepared = mechanism.prepare_each(spends, self._source)
            else:
                prepared = [mechanism.prepare(spend, self._source) for spend in spends]
            self._prepared.update(zip((spend.what for spend in spends), prepared, strict=True))

    @property
    def standing(self) -> str:
        """The word "operating_system", or "injected" where the noise is another source's and not private."""
        return standing_of(self._source)

    def unreleased(self, draw: Callable[[NoiseSource], T]) -> T:
        """Return the result of a draw that is neither released nor recorded nor charged; a rerun draws again."""
        return draw(self._source)

    def recorded(self, spend: Spend) -> Mapping[str, Any] | None:
        """Return the recorded outcome of a priced draw, with the public facts beside it; None if there is none."""
        return self._recorder.recorded(spend.what)

    def rehearse(self, spend: Spend, mechanism: Mechanism[T], value: Sensitive[T]) -> None:
        """Make a slow noise draw, and keep its result in memory for `release`, which records it in a short
        transaction.

        Nothing is shown, and the result is lost if the process is killed. A draw that is recorded or rehearsed
        already is not made again.
        """
        if self.recorded(spend) is not None or isinstance(self._prepared.get(spend.what), _Rehearsed):
            return
        prepared = self._prepared.pop(spend.what, None) or mechanism.prepare(spend, self._source)
        self._prepared[spend.what] = _Rehearsed(Sensitive(prepared(value)))

    def release(
        self, spend: Spend, mechanism: Mechanism[T], value: Sensitive[T], **public: int | str
    ) -> Mapping[str, Any]:
        """Return the recorded outcome of a priced draw; if there is none, `value` is noised and recorded first:
        {"draw": the noised value, **public}.

        Args:
            spend: the planned spend; its name is the key of the record.
            mechanism: calibrated as planned.
            value: the exact query result.
            public: what is already determined by earlier releases (the candidate asked about).
        """
        prepared = self._prepared.pop(spend.what, None) or mechanism.prepare(spend, self._source)
        return self._recorder.record(spend, lambda: {"draw": prepared(value), **public})


def rehearse_draws(draws: Iterable[tuple[Spend, Mechanism[Any]]]) -> None:
    """Check, before any charge, that every draw of a plan can be made at its price; nothing is drawn.

    A library that is missing, a scale that it cannot sample and a price above the plan fail here, where it is free.
    """
    silent = InjectedNoise(np.random.default_rng(0), factor=0.0)
    for mechanism, run in groupby(draws, key=itemgetter(1)):
        mechanism.prepare(next(iter(run))[0], silent)


class _Rehearsed:
    """A mechanism whose draw is already made: it returns that outcome whatever value it is applied to."""

    __slots__ = ("_outcome",)

    def __init__(self, outcome: Sensitive[Any]) -> None:
        self._outcome = outcome

    def __call__(self, value: Sensitive[Any]) -> Any:
        del value
        return self._outcome.expose()
