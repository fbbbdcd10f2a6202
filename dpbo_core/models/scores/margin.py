"""Margin scores g = φ(y·wᵀx), and their exact integer form.

| symbol | name here | meaning | shape |
|---|---|---|---|
| t | `margins` | y·wᵀx, one a record | (m,) |
| φ | `phi` | nondecreasing from 0 to G | (m,) → (m,) |
| s | `steepness` | slope of the score | scalar > 0 |
| L | `lipschitz` | Lipschitz constant of one record's score in w, for ‖x‖₂ ≤ 1 | scalar, ∞ for accuracy |
| G | `score_range` | range of one record's score | scalar, 1 here |
| φ(0) | `broken_score` | score of a record that was replaced by (x = 0, y = +1) | scalar |
| R | `span(‖w‖)` | φ(‖w‖) − φ(−‖w‖), the range over all records at fixed w | scalar ≤ min(G, 2L‖w‖) |

A score never raises and never warns: what it would say could hold a record. A NaN margin scores φ(0).
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpbo_core.errors import StudyInvalid

GRID = 2**24  # steps from 0 to G


@dataclass(frozen=True)
class Accuracy:
    """φ(t) = 1 where t > 0, else 0. It has no Lipschitz constant."""

    @property
    def lipschitz(self) -> float:
        """L = ∞: a step."""
        return math.inf

    @property
    def score_range(self) -> float:
        """G."""
        return 1.0

    @property
    def broken_score(self) -> float:
        """φ(0)."""
        return 0.0

    def phi(self, margins: ArrayLike) -> NDArray[np.float64]:
        """1.0 where the margin is above 0, else 0.0, (m,)."""
        return (np.asarray(margins, dtype=np.float64) > 0.0).astype(np.float64)

    def span(self, norm: float) -> float:
        """G, or 0 where w = 0: then every margin is 0."""
        return 0.0 if norm == 0.0 else 1.0


@dataclass(frozen=True)
class Ramp:
    """φ(t) = clip((1 + s·t)/2, 0, 1)."""

    steepness: float

    def __post_init__(self) -> None:
        _check_steepness(self.steepness)

    @property
    def lipschitz(self) -> float:
        """L = s/2."""
        return self.steepness / 2.0

    @property
    def score_range(self) -> float:
        """G."""
        return 1.0

    @property
    def broken_score(self) -> float:
        """φ(0)."""
        return 0.5

    def phi(self, margins: ArrayLike) -> NDArray[np.float64]:
        """φ of each margin, (m,)."""
        with np.errstate(under="ignore"):
            return np.clip(0.5 + 0.5 * _steep(margins, self.steepness), 0.0, 1.0)

    def span(self, norm: float) -> float:
        """min(1, s·‖w‖)."""
        reach = self.steepness * norm
        return reach if reach < 1.0 else 1.0


@dataclass(frozen=True)
class Sigmoid:
    """φ(t) = 1/(1 + e^(−s·t))."""

    steepness: float

    def __post_init__(self) -> None:
        _check_steepness(self.steepness)

    @property
    def lipschitz(self) -> float:
        """L = s/4."""
        return self.steepness / 4.0

    @property
    def score_range(self) -> float:
        """G."""
        return 1.0

    @property
    def broken_score(self) -> float:
        """φ(0)."""
        return 0.5

    def phi(self, margins: ArrayLike) -> NDArray[np.float64]:
        """φ of each margin, (m,); where e^(−s·t) overflows, 0."""
        t = _steep(margins, -self.steepness)
        with np.errstate(over="ignore", under="ignore"):
            np.exp(t, out=t)
            t += 1.0
            scores: NDArray[np.float64] = np.divide(1.0, t, out=t)
        return scores

    def span(self, norm: float) -> float:
        """φ(‖w‖) − φ(−‖w‖) = tanh(s·‖w‖/2), without the cancellation."""
        reach = 0.5 * self.steepness * norm
        return 1.0 if math.isnan(reach) else math.tanh(reach)


MarginScore = Accuracy | Ramp | Sigmoid


def score_named(name: str, steepness: float) -> MarginScore:
    """The score a study asks for by `"accuracy"` (which has no steepness), `"ramp"` or `"sigmoid"`.

    Raises:
        StudyInvalid: any other name, or a steepness that is not a finite number above 0.
    """
    match name:
        case "accuracy":
            return Accuracy()
        case "ramp":
            return Ramp(float(steepness))
        case "sigmoid":
            return Sigmoid(float(steepness))
    raise StudyInvalid(f"there is no score named {name!r}", remedy='write "sigmoid", "ramp" or "accuracy"')


def to_grid(scores: ArrayLike, score_range: float, *, broken_score: float) -> NDArray[np.int64]:
    """Each score as a whole number of steps of G/2²⁴, to the nearest, ties to even, in [0, 2²⁴].

    Args:
        scores: (m,), in [0, G]; anything outside is clipped.
        score_range: G > 0.
        broken_score: what a NaN counts as: φ(0) for a margin score, 0 for others. It is put in BEFORE the cast,
            since NaN as int64 is −9.2e18.

    Returns:
        (m,) int64. Their sums are exact for every m < 2³⁸, in any order.
    """
    steps = np.clip(np.asarray(scores, dtype=np.float64), 0.0, score_range)  # a copy; NaN stays NaN
    np.copyto(steps, float(broken_score), where=np.isnan(steps))
    if score_range != 1.0:
        steps /= score_range  # at most 1, so that no step is above 2²⁴
    steps *= GRID
    return np.rint(steps, out=steps).astype(np.int64)


def _steep(margins: ArrayLike, steepness: float) -> NDArray[np.float64]:
    """s·t with overflow to ±∞ and NaN to 0, contiguous: one code path, whatever the layout of the input."""
    t = np.array(margins, dtype=np.float64, order="C")
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        t *= steepness
    np.copyto(t, 0.0, where=np.isnan(t))
    return t


def _check_steepness(steepness: float) -> None:
    if not (math.isfinite(steepness) and steepness > 0.0):
        raise StudyInvalid(
            f"the score's steepness is {steepness:g}",
            cause="a score must rise with the margin",
            remedy="give a finite number above 0, such as 10",
        )
