"""Margin scores g = φ(y·wᵀx), which a certified linear model is scored by.

| symbol | name here | meaning | shape |
|---|---|---|---|
| t | `margins` | y·wᵀx, one a record | (m,) |
| φ | `phi` | nondecreasing from 0 to G | (m,) → (m,) |
| s | `steepness` | slope of the score | scalar > 0 |
| L | `lipschitz` | Lipschitz constant of one record's score in w, for ‖x‖₂ ≤ 1 | scalar, ∞ for accuracy |
| G | `score_range` | range of one record's score | scalar, 1 here |
| φ(0) | `broken_score` | score of a record that was replaced by (x = 0, y = +1) | scalar |
| η | `rounding` | bound of what is lost in computing φ of a finite margin | scalar |
| R | `span(‖w‖)` | φ(‖w‖) − φ(−‖w‖), the range over all records at fixed w | scalar ≤ min(G, 2L‖w‖) |

A score never raises and never warns: what it would say could hold a record. A NaN margin scores φ(0).
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpbo_core.errors import StudyInvalid
from dpbo_core.models.scores.declared import NaturalUnit


def steep(margins: ArrayLike, steepness: float) -> NDArray[np.float64]:
    """Return margins times steepness, with overflow to ±∞ and NaN to 0, contiguous whatever the input's layout."""
    t = np.array(margins, dtype=np.float64, order="C")
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        t *= steepness
    np.copyto(t, 0.0, where=np.isnan(t))
    return t


@dataclass(frozen=True)
class Steep(ABC):
    """What the scores with a slope share: 0 to 1, and half of it at a margin of 0."""

    graded: ClassVar[bool] = True  # φ is continuous, so that near models give a record near scores
    score_range: ClassVar[float] = 1.0  # G: one record's scores lie in [0, G]
    broken_score: ClassVar[float] = 0.5  # φ(0): what a record that cannot be read scores
    natural_unit: ClassVar[NaturalUnit] = NaturalUnit()  # A margin score is its own unit
    slope: ClassVar[float]  # L at s = 1
    rounding: ClassVar[float]  # η: how far `phi` and `overwrite` may be from φ of a finite margin

    steepness: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.steepness) and self.steepness > 0.0):
            raise StudyInvalid(
                f"the score's steepness is {self.steepness:g}",
                cause="a score must rise with the margin",
                remedy="give a finite number above 0, such as 10",
            )

    @property
    def lipschitz(self) -> float:
        """The Lipschitz constant L of φ, and of one record's score in w, for ‖x‖₂ ≤ 1."""
        return self.slope * self.steepness

    @abstractmethod
    def phi(self, margins: ArrayLike) -> NDArray[np.float64]:
        """Return the score φ of each margin, (m,)."""

    @abstractmethod
    def span(self, norm: float) -> float:
        """Return the largest difference R of two records' scores at weights of this norm."""

    @abstractmethod
    def overwrite(self, margins: NDArray[np.float64]) -> None:
        """Replace finite margins, in an array of any shape, by the score φ of each, in place."""
