"""The price of n private scores, and of a choice among what was asked: MATH §7.1.

| symbol | name here | meaning | shape |
|---|---|---|---|
| n | `n_scores` | scores that are reserved, asked for in any order | scalar |
| s | `choice_share` | share of ρ* kept for a choice on exact scores | scalar in [0, 1) |
| ρ* | `total` | the largest ρ that the study's (ε, δ) holds | integer of 10⁻¹² |
| Δ | `Problem.record_steps` | most one unit moves an exact score, in whole steps | integer |
| σ | `DiscreteGaussian.scale` | of score t: σ² = nΔ²/(2(1 − s)ρ*), rounded up | scalar |

Score t is the exact integer of the model that is asked about plus discrete Gaussian noise. Whoever asks sees
released scores alone, so whatever it asks next is adaptive composition: n draws of ρ*(1 − s)/n are within ρ*, and
with a choice by permute-and-flip within α*ρ* at the one order α* that (ε, δ) fixes (`methods.final_choice`).
"""

import math
from dataclasses import dataclass

from dpbo_core.accounting.composition import largest_rho
from dpbo_core.advice.advise import verdict_of
from dpbo_core.errors import StudyInvalid
from dpbo_core.mechanisms.exponential import PrivateSelection
from dpbo_core.mechanisms.gaussian import DiscreteGaussian
from dpbo_core.methods.contract import Draws
from dpbo_core.methods.final_choice import MIXED_EVIDENCE, selection
from dpbo_core.methods.pricing import Scope, guarantee_of, too_small
from dpbo_core.privacy.amounts import split_units
from dpbo_core.privacy.assumption import PUBLIC_QUESTIONS, ROWWISE_PREDICTIONS
from dpbo_core.privacy.guarantee import Evidence, Standing
from dpbo_core.privacy.plan import PrivacyPlan
from dpbo_core.problem.problem import Problem

CHOICE = "choice among what was asked"
EVIDENCE = Evidence(
    Standing.STANDARD,
    "discrete Gaussian (Canonne, Kamath, Steinke 2020) composed adaptively in zCDP; whoever asks post-processes",
)


@dataclass(frozen=True)
class ObjectivePrice:
    """The draws of n private scores and, with s > 0, of a choice among what was asked.

    Attributes:
        problem: with the study's (ε, δ) and its public facts.
        n_scores: n.
        choice_share: s.
        submitted: what the guarantee assumes beside, of models and predictions that are handed in, by name.
    """

    problem: Problem
    n_scores: int
    choice_share: float = 0.0
    submitted: tuple[str, ...] = ()

    def scores(self) -> tuple[DiscreteGaussian, ...]:
        """The noise mechanism of each of the n scores, in the order in which they are drawn.

        Raises:
            StudyInvalid: δ = 0, or an ε too small for the ledger's unit.
        """
        total = self._total_rho()
        try:
            parts = split_units(total - self._rho_of_choice(total), (1.0,) * self.n_scores)
        except ValueError:
            parts = ()
        if not parts or min(parts) < 1:
            raise too_small(self.problem)
        moves, unit = self.problem.record_steps, self.problem.score_per_step
        return tuple(DiscreteGaussian(moves, rho, unit) for rho in parts)

    def choice(self) -> PrivateSelection | None:
        """The mechanism that draws the best hyperparameters at the end; None where the released scores choose."""
        if self.choice_share == 0.0:
            return None
        return selection(self.problem, self._rho_of_choice(self._total_rho()), "permute_and_flip")

    def draws(self) -> Draws:
        """Every noise draw that is priced, with its mechanism: score 1 … score n, and the choice if any."""
        scores = [(mechanism.spend(score_name(t)), mechanism) for t, mechanism in enumerate(self.scores(), 1)]
        choice = self.choice()
        return tuple(scores) if choice is None else (*scores, (choice.spend(CHOICE), choice))

    def plan(self) -> PrivacyPlan:
        """The price of all n scores and the choice, if requests depend on releases and public facts alone."""
        own = () if self.problem.rowwise else (ROWWISE_PREDICTIONS.name,)
        guarantee = guarantee_of(
            self.problem,
            delta=self.problem.delta,
            evidence=EVIDENCE if self.choice_share == 0.0 else MIXED_EVIDENCE,
            scope=Scope.PAIRS,
            assumptions=(PUBLIC_QUESTIONS.name, *(name for name in self.submitted if name not in own)),
        )
        return PrivacyPlan(guarantee, tuple(spend for spend, _ in self.draws()))

    @property
    def useless(self) -> str:
        """Why the scores would be mere noise, in words from public facts alone; "" where they would not."""
        scale, spread = self.scores()[0].spend(score_name(1)).noise_scale, self.problem.aggregate.spread
        if verdict_of(scale, 0.0, spread) != "useless":
            return ""
        return (
            f"these scores would be useless: each has noise of scale {scale:.2g}, and they differ by {spread:.2g}"
        )

    def _total_rho(self) -> int:
        """The zCDP cost ρ that all noise draws together may have within the study's (ε, δ), in integer units;
        refused where δ = 0.
        """
        if self.problem.delta == 0.0:
            raise StudyInvalid(
                "scores for a search of your own need δ > 0, and delta = 0",
                cause="their noise is Gaussian, which has no pure ε",
                remedy="say delta = 1e-6",
            )
        return largest_rho(self.problem.epsilon, self.problem.delta)

    def _rho_of_choice(self, total: int) -> int:
        """The part of `total` ρ, in integer units, that the final choice costs."""
        return math.floor(total * self.choice_share)


def score_name(number: int) -> str:
    """The name in the ledger of score `number`, 1 … n."""
    return f"score {number}"
