"""What a search has tried, in order."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Observation:
    """The score seen at one step.

    Attributes:
        step: t, from 1.
        index: which candidate, from 0.
        score: what was seen there, on whatever scale the search was told.
    """

    step: int
    index: int
    score: float

    def __post_init__(self) -> None:
        if self.step < 1 or self.index < 0 or not math.isfinite(self.score):
            raise ValueError("an observation needs a step from 1, an index from 0 and a finite score")


@dataclass(frozen=True)
class Trajectory:
    """Observations in the order of their steps; candidates are indices and may repeat."""

    observations: tuple[Observation, ...] = ()

    def __post_init__(self) -> None:
        steps = [observation.step for observation in self.observations]
        if any(later <= earlier for earlier, later in pairwise(steps)):
            raise ValueError("the steps of a trajectory increase")

    def __len__(self) -> int:
        return len(self.observations)

    def __iter__(self) -> Iterator[Observation]:
        return iter(self.observations)

    def append(self, observation: Observation) -> "Trajectory":
        """A new trajectory with one observation more; this one stays as it is."""
        return Trajectory((*self.observations, observation))

    def best(self) -> Observation:
        """The observation with the largest score, the earliest of equals.

        Raises:
            ValueError: nothing observed.
        """
        if not self.observations:
            raise ValueError("an empty trajectory has no best observation")
        return max(self.observations, key=lambda observation: observation.score)
