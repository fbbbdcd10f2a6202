"""The noise on answers, and its price.

| symbol | name here | meaning | shape |
|---|---|---|---|
| y_i | `answer` | the answer of row i, a function of that row alone | scalar |
| [a, b] | `low`, `high` | public range that private answers are clipped to | two scalars |
| ρ_y | — | the largest zCDP that the answers' (ε, δ) holds, paid once for all rows | scalar |
| σ_y | `mechanism.scale` | (b − a)/√(2ρ_y), in grid steps of (b − a)/2²⁴ | scalar |

Neighbours differ in one row, so in one row of Z and one answer: the run costs ρ_Z + ρ_y however the modeller
chooses, as long as no row is noised twice.
"""

import math
from dataclasses import dataclass

from dpbo_core.accounting.composition import largest_rho
from dpbo_core.errors import StudyInvalid
from dpbo_core.mechanisms.gaussian import DiscreteGaussian
from dpbo_core.privacy.guarantee import Evidence, PrivacyGuarantee, Standing
from dpbo_core.privacy.plan import PrivacyPlan

STEPS = 2**24  # grid steps between a and b
ANSWERS = "one answer a row"
EVIDENCE = Evidence(
    Standing.STANDARD,
    "discrete Gaussian on each row's own answer, drawn once (Canonne, Kamath, Steinke 2020); neighbours differ in "
    "one row, so all answers cost what one does",
)


@dataclass(frozen=True)
class PrivateAnswers:
    """How answers are noised: clipped to [low, high], at (epsilon, delta) for all of them together."""

    low: float
    high: float
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and 1e-12 <= self.high - self.low <= 1e12):
            raise StudyInvalid(
                f"private answers between {self.low:g} and {self.high:g}",
                cause="the range is empty or not finite",
                remedy="give --private-answers LOW HIGH from public knowledge, LOW below HIGH",
            )
        if not (math.isfinite(self.epsilon) and self.epsilon > 0.0 and 0.0 < self.delta < 1.0):
            raise StudyInvalid(
                f"private answers at ε = {self.epsilon:g}, δ = {self.delta:g}",
                cause="Gaussian noise needs ε > 0 and δ between 0 and 1",
                remedy="give --epsilon 1 --delta 1e-6, say",
            )
        if largest_rho(self.epsilon, self.delta) < 1:
            raise StudyInvalid(
                f"ε = {self.epsilon:g} is too small for answers",
                cause="the ledger counts privacy in units of 1e-12",
                remedy="raise --epsilon",
            )

    @property
    def mechanism(self) -> DiscreteGaussian:
        """The noise on one answer, in grid steps of (b − a)/2²⁴."""
        return DiscreteGaussian(STEPS, largest_rho(self.epsilon, self.delta), (self.high - self.low) / STEPS)

    def plan(self, table: PrivacyGuarantee) -> PrivacyPlan:
        """The price of every answer there can be, under the relation of the table."""
        guarantee = PrivacyGuarantee(self.epsilon, self.delta, table.unit, table.relation, (), EVIDENCE)
        return PrivacyPlan(guarantee, (self.mechanism.spend(ANSWERS),))

    def steps(self, answer: float) -> int:
        """An answer on the grid; one that is no finite number counts as the middle."""
        if not math.isfinite(answer):
            return STEPS // 2
        clipped = min(max(answer, self.low), self.high)
        return min(STEPS, max(0, round((clipped - self.low) / (self.high - self.low) * STEPS)))

    def value(self, drawn: int) -> float:
        """The answer that a draw stands for."""
        return self.low + drawn * self.mechanism.unit
