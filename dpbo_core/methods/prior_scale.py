"""What the two Gaussian-process methods of Kusner et al. share: the prior's scale, the cap, and priced draws.

| symbol | name here | meaning | shape |
|---|---|---|---|
| z | `to_prior` | the score on the prior's scale, z = (f/G − center)/spread | scalar |
| [a, b] | `low`, `width` | the range that z can have: a = −center/spread, b − a = 1/spread | scalars |
| h | `width`/2²⁴ | grid on which a real utility is rounded before a draw; G/2²⁴ in units of the score | scalar |
| Δ | `sensitivity` | a theorem's bound, on the prior's scale | scalar |
| Δ_int | `sensitivity_steps` | min(⌈Δ/h⌉ + 1, 2²⁴ where the range caps it) | integer |

The map's constants are public options of the study: they never come from V.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpbo_core.bo.score_map import ScoreMap
from dpbo_core.errors import StudyInvalid
from dpbo_core.models.scores.grid import GRID
from dpbo_core.privacy.amounts import from_units, spent_units
from dpbo_core.privacy.plan import Spend
from dpbo_core.problem import Problem
from dpbo_core.theorems import kusner_2015


@dataclass(frozen=True)
class PriorScale:
    """The public affine map of a mean score in [0, G] to a prior of zero mean and unit variance, and its grid.

    Attributes:
        center: the score expected before any is seen, as a share of G.
        spread: one prior standard deviation, as a share of G.
        capped: clip to the range that scores can have, so that no utility moves by more than b − a.
    """

    center: float
    spread: float
    capped: bool

    def __post_init__(self) -> None:
        if not (0.0 <= self.center <= 1.0 and 0.0 < self.spread <= 1.0):
            raise StudyInvalid(
                f"the score is mapped with center {self.center:g} and spread {self.spread:g}",
                cause="both are shares of the score's range; the spread is positive",
                remedy="use score_center = 0.5 and score_spread = 0.25, or what public data suggests",
            )

    @property
    def low(self) -> float:
        """a: where a score of 0 lies on the prior's standard scale."""
        return -self.center / self.spread

    @property
    def width(self) -> float:
        """b − a: how wide the score's range is on the prior's standard scale."""
        return 1.0 / self.spread

    def to_prior(self, total: int, range_steps: int) -> float:
        """z of an exact integer sum."""
        return ScoreMap(self.center, self.spread, 1.0).mapped(total / range_steps)

    def to_steps(self, z: NDArray[np.float64]) -> NDArray[np.int64]:
        """Whole steps of h above a, shape of `z`; clipped to [0, 2²⁴] where the range caps."""
        steps = np.rint((z - self.low) / self.width * GRID)
        limits = (0.0, float(GRID)) if self.capped else (-(2.0**52), 2.0**52)
        return np.asarray(np.clip(steps, *limits), dtype=np.int64)

    def binds(self, sensitivity: float) -> bool:
        """Whether the range bounds the query at least as well as a theorem does."""
        return self.capped and sensitivity >= self.width

    def sensitivity_steps(self, sensitivity: float) -> int:
        """Δ_int: rounding can add one step, and the quotient is rounded up; the range is exact."""
        if self.binds(sensitivity):
            return GRID
        steps = sensitivity / self.width * GRID
        if not math.isfinite(steps) or steps > 2.0**52:
            raise StudyInvalid(
                "the theorem's sensitivity is too large to draw noise for",
                cause="it grows without bound as δ goes to 0",
                remedy="keep cap_at_range = true",
            )
        return math.ceil(steps) + 1

    def one_record(self, problem: Problem) -> float:
        """k·G/m on the prior's scale: what one person moves the score at a fixed λ, whatever the prior says."""
        return problem.record_steps / problem.range_steps / self.spread


def only_delta(spend: Spend, delta_units: int) -> Spend:
    """A spend whose ε holds up to δ: priced ε²/2 in zCDP (rounded up), with its δ beside it."""
    epsilon = from_units(spend.epsilon_units or 0)
    return replace(spend, delta_units=delta_units, rho_units=spent_units(0.5 * epsilon**2 * (1.0 + 1e-12)))


def of_best(problem: Problem, spend: Spend) -> str:
    """What Corollary 1's weights leave of a choice whose utilities all lie in the score's range, in words."""
    N = len(problem.candidates)
    utilities = np.where(np.arange(N) == 0, problem.score_range, 0.0)
    weights = kusner_2015.corollary_1_weights(
        utilities=utilities, sensitivity=spend.sensitivity, epsilon=spend.epsilon
    )
    return (
        f"no candidate is more than e^(ε/2) = {math.exp(spend.epsilon / 2.0):.3g} times as likely as another, and "
        f"the best of {N} is chosen with a probability of at most {weights[0]:.2g}: the choice is hardly better "
        "than a uniform draw"
    )


def check_prior(dataset_similarity: float, noise_variance: float) -> None:
    """The two constants of the prior that a study states.

    Raises:
        StudyInvalid: out of range.
    """
    if not 0.0 <= dataset_similarity <= 1.0:
        raise StudyInvalid(
            f"method.dataset_similarity = {dataset_similarity:g}",
            cause="it is a correlation between the scores of neighbouring data sets",
            remedy="choose a number from 0 to 1, 0.99 say",
        )
    if not 0.0 < noise_variance < float("inf"):
        raise StudyInvalid(
            f"method.noise_variance = {noise_variance:g}",
            cause="Algorithm 1 draws noise onto each observation",
            remedy="choose a positive variance on the prior's scale, 0.01 say",
        )
