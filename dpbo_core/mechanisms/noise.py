"""Where noise comes from, and where every draw is written down before anyone sees it.

A mechanism asks a `NoiseSource` for its draw; a method asks `Noise` to make the draw inside the ledger's
transaction. `OperatingSystemNoise` is the only private source. `InjectedNoise` exists for tests and for
reproducing papers; it marks what it touches, and the ledger refuses it for any finite budget.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from dpbo_core.privacy.plan import Spend
from dpbo_core.privacy.sensitive import Sensitive

T = TypeVar("T")

OPERATING_SYSTEM = "operating_system"
INJECTED = "injected"


class NoiseSource(Protocol):
    """Makes one draw: from OpenDP's `measurement`, or from an `imitation` given a generator and a factor."""

    @property
    def standing(self) -> str:
        """Either "operating_system" or "injected"; written into the ledger and the release."""
        ...

    def draw(
        self,
        measurement: Callable[[Any], Any],
        value: Any,
        imitation: Callable[[np.random.Generator, float], int],
    ) -> int:
        """One draw at `value`."""
        ...


class OperatingSystemNoise:
    """Entropy of the operating system, through OpenDP. Cannot be seeded."""

    @property
    def standing(self) -> str:
        """Private."""
        return OPERATING_SYSTEM

    def draw(
        self,
        measurement: Callable[[Any], Any],
        value: Any,
        imitation: Callable[[np.random.Generator, float], int],
    ) -> int:
        """The measurement's own draw; the imitation is not called."""
        del imitation
        return int(measurement(value))


@dataclass(frozen=True)
class InjectedNoise:
    """Noise of `factor` times the planned scale from a seeded generator: not private. factor = 0 is no noise."""

    generator: np.random.Generator
    factor: float = 1.0

    @property
    def standing(self) -> str:
        """Not private."""
        return INJECTED

    def draw(
        self,
        measurement: Callable[[Any], Any],
        value: Any,
        imitation: Callable[[np.random.Generator, float], int],
    ) -> int:
        """The imitation's draw; the measurement, already checked by its door, is not called."""
        del measurement, value
        return int(imitation(self.generator, self.factor))


class Mechanism(Protocol[T]):
    """A calibrated mechanism: what it costs, and its one door."""

    def spend(self, what: str) -> Spend:
        """Its price, under the name of what it releases."""
        ...

    def prepare(self, spend: Spend, source: NoiseSource) -> Callable[[Sensitive[T]], int]:
        """The door: recheck the privacy map against `spend`, draw what can be drawn ahead, return how to apply it.

        What is returned serves once.
        """
        ...


class Recorder(Protocol):
    """Keeps draws: reads one back, or makes it and writes it durably, in one transaction."""

    def recorded(self, what: str) -> Mapping[str, Any] | None:
        """What was recorded under this name, if anything."""
        ...

    def record(self, spend: Spend, draw: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        """The recorded draw of this name; made now, by `draw`, only if there is none yet."""
        ...


class Noise:
    """The door a method is handed: every draw goes through the recorder, none is ever made twice.

    The time a draw takes tells something of the noise, so a run's draws are prepared `ahead`, in memory only, and
    applied inside the recording transaction: no step's duration holds a draw. A kill discards them unseen.
    """

    __slots__ = ("_ahead", "_recorder", "_source")

    def __init__(self, source: NoiseSource, recorder: Recorder) -> None:
        self._source, self._recorder = source, recorder
        self._ahead: dict[str, Callable[[Sensitive[Any]], int]] = {}

    def ahead(self, draws: Iterable[tuple[Spend, Mechanism[Any]]]) -> None:
        """Prepare the draws of a plan before the first step."""
        for spend, mechanism in draws:
            self._ahead[spend.what] = mechanism.prepare(spend, self._source)

    @property
    def standing(self) -> str:
        """The standing of the source."""
        return self._source.standing

    def unreleased(self, draw: Callable[[NoiseSource], T]) -> T:
        """Draws that stay in the curator's process: nothing is recorded, nothing is charged, a rerun draws anew."""
        return draw(self._source)

    def recorded(self, spend: Spend) -> Mapping[str, Any] | None:
        """What an earlier run drew for `spend`, with the public facts it wrote beside it."""
        return self._recorder.recorded(spend.what)

    def release(
        self, spend: Spend, mechanism: Mechanism[T], value: Sensitive[T], **public: int
    ) -> Mapping[str, Any]:
        """Draw once, record, and only then return {"draw": integer, **public}.

        Args:
            spend: the planned spend; its name is the key of the record.
            mechanism: calibrated as planned.
            value: the exact query result.
            public: integers that are already determined by earlier releases (the candidate asked about).
        """
        prepared = self._ahead.pop(spend.what, None) or mechanism.prepare(spend, self._source)
        return self._recorder.record(spend, lambda: {"draw": prepared(value), **public})
