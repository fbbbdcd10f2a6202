"""The price of n private scores, and of a choice among what was asked: MATH §7.1.

| symbol | name here | meaning | shape |
|---|---|---|---|
| n | `n_scores` | scores that are reserved, asked for in any order | scalar |
| s | `choice_share` | share of ρ* kept for a choice on exact scores | scalar in [0, 1) |
| ρ* | `total` | the largest ρ that the study's (ε, δ) holds | integer of 10⁻¹² |
| Δ | `Problem.record_steps` | most one unit moves an exact score, in whole steps | integer |
| σ | `DiscreteGaussian.scale` | of score t: σ² = nΔ²/(2(1 − s)ρ*), rounded up | scalar |
| — | `number` | by a count of pairs: of their number, drawn before the first score, a share of (1 − s)ρ* | — |

Score t is the exact integer of the model that is asked about plus discrete Gaussian noise. Whoever asks sees
released scores alone, so whatever it asks next is adaptive composition: n draws of ρ*(1 − s)/n are within ρ*, and
with a choice by permute-and-flip within α*ρ* at the one order α* that (ε, δ) fixes (`methods.final_choice`).
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.accounting.composition import largest_rho
from dpbo_core.mechanisms.exponential import PERMUTE_AND_FLIP, PrivateSelection
from dpbo_core.mechanisms.gaussian import DiscreteGaussian
from dpbo_core.mechanisms.noise import Mechanism
from dpbo_core.methods.advice import verdict_of
from dpbo_core.methods.contract import Draws, Scope, gaussian_noise, guarantee_of
from dpbo_core.methods.final_choice import MIXED_EVIDENCE, selection
from dpbo_core.methods.pair_bounds import NoiseTail
from dpbo_core.methods.pair_draws import (
    SHARE_OF_PAIRS_RHO,
    Unit,
    auc_caption,
    chance_of_score,
    expected_interval,
    in_pairs,
    one_unit_moves,
    relations_of,
)
from dpbo_core.methods.problem import Problem
from dpbo_core.privacy.certified import CertificateRules, DeclaredQuery, only_shows, stated_steps
from dpbo_core.privacy.guarantee import PUBLIC_QUESTIONS, ROWWISE_PREDICTIONS, Evidence, Standing
from dpbo_core.privacy.release import ALL_PAIRS, COUNTS, NO_SCORE, PAIRS, PrivacyPlan, Release, Spend
from dpbo_core.study import StudySpec
from dpbo_core.study.resolve import planning_problem
from dpbo_core.theorems.feldman_cousins_1998 import bounded_interval

CHOICE_DRAW = "choice among what was asked"
EVIDENCE = Evidence(
    Standing.STANDARD,
    "discrete Gaussian (Canonne, Kamath, Steinke 2020) composed adaptively in zCDP; whoever asks post-processes",
)


@dataclass(frozen=True)
class ObjectivePrice:
    """The noise draws of n private scores and, with s > 0, of a private choice among the scored hyperparameters."""

    problem: Problem  # with the study's (ε, δ) and its public facts
    n_scores: int  # n
    choice_share: float = 0.0  # s
    # what the guarantee assumes beside, of models and predictions that are handed in, by name
    submitted: tuple[str, ...] = ()

    def scores(self) -> tuple[DiscreteGaussian, ...]:
        """Return the noise mechanism of each of the n scores, in the order in which they are drawn."""
        total = self._total_rho()
        for_scores = total - self._rho_of_choice(total) - self._rho_of_number(total)
        return gaussian_noise(self.problem, for_scores, self.n_scores)

    def number(self) -> DiscreteGaussian | None:
        """Return the noise mechanism of the number of pairs; None if the score is a mean."""
        if in_pairs(self.problem) is None:
            return None
        return gaussian_noise(self.problem, self._rho_of_number(self._total_rho()))[0]

    def choice(self) -> PrivateSelection | None:
        """The mechanism that draws the best hyperparameters at the end; None if the released scores choose."""
        if self.choice_share == 0.0:
            return None
        return selection(self.problem, self._rho_of_choice(self._total_rho()))

    def draws(self) -> Draws:
        """Every noise draw that is priced, with its mechanism: the number of pairs, the scores, the choice."""
        number, choice = self.number(), self.choice()
        drawn: list[tuple[Spend, Mechanism[Any]]] = []
        if number is not None:
            drawn.append((number.spend(ALL_PAIRS), number))
        drawn += [(mechanism.spend(score_name(t)), mechanism) for t, mechanism in enumerate(self.scores(), 1)]
        return tuple(drawn) if choice is None else (*drawn, (choice.spend(CHOICE_DRAW), choice))

    def plan(self) -> PrivacyPlan:
        """Return the price of all n scores and the choice; what is asked may depend on releases alone."""
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
        """Why the scores would be mere noise, as text from public facts alone; "" where they would not."""
        scale, spread = self.scores()[0].spend(score_name(1)).noise_scale, self.problem.aggregate.spread
        pairs, number = in_pairs(self.problem), self.number()
        if pairs is not None and number is not None and chance_of_score(pairs, number) < 0.5:
            return f"these scores would be useless: {expected_interval(self.problem, self.draws())}"
        if verdict_of(scale, 0.0, spread) != "useless":
            return ""
        return (
            f"these scores would be useless: each has noise of scale {scale:.2g}, and they differ by {spread:.2g}"
        )

    def _total_rho(self) -> int:
        """Return the zCDP cost ρ, in 10⁻¹², that all draws together may have within (ε, δ); refused at δ = 0."""
        if self.problem.delta == 0.0:
            raise StudyInvalid(
                "scores for a search of your own need δ > 0, and delta = 0",
                cause="their noise is Gaussian, which has no pure ε",
                remedy="set delta = 1e-6",
            )
        return largest_rho(self.problem.epsilon, self.problem.delta)

    def _rho_of_number(self, total: int) -> int:
        """The part of `total` ρ, in integer units, that the number of pairs costs; 0 if the score is a mean."""
        left = total - self._rho_of_choice(total)
        return 0 if in_pairs(self.problem) is None else math.floor(left * SHARE_OF_PAIRS_RHO)

    def _rho_of_choice(self, total: int) -> int:
        """Return the part of `total` ρ, in integer units, that the final choice costs."""
        return math.floor(total * self.choice_share)


def score_name(number: int) -> str:
    """Return the name in the ledger of score `number`, 1 … n."""
    return f"score {number}"


def objective_shown(release: Release) -> CertificateRules:
    """Return what a certificate must state of a private objective (its draws); raises if the release shows more."""
    n, scores = stated_steps(release), release.value["trajectory"]
    complete = only_shows(release, "hyperparameters", "score", "interval", "trajectory", PAIRS, NO_SCORE)
    if not complete or [score["step"] for score in scores] != list(range(1, len(scores) + 1)) or len(scores) > n:
        raise ValueError("value")
    if n > len(release.spends):  # a stated number is compared before anything is made in that number
        raise ValueError("steps")
    draws = {score_name(t): tuple(DiscreteGaussian.WORTH) for t in range(1, n + 1)}
    if COUNTS in release.facts:
        if [spend.what for spend in release.spends].count(ALL_PAIRS) != 1:
            raise ValueError(ALL_PAIRS)
        draws[ALL_PAIRS] = tuple(DiscreteGaussian.WORTH)
    if release.facts["choice_share"] != 0.0:
        draws[CHOICE_DRAW] = (PERMUTE_AND_FLIP,)
    return CertificateRules(
        draws, one_unit_moves(release), assumptions=(PUBLIC_QUESTIONS.name,), relations=relations_of(release)
    )


def expected_scores(spec: StudySpec, folder: Path) -> str:
    """Return what the scores of a study's [objective] cost and how noisy they are, in a sentence."""
    section, problem = spec.objective, planning_problem(spec, folder)
    if section is None:
        return ""
    price = ObjectivePrice(problem, section.scores, section.choice_share)
    scale = price.scores()[0].spend(score_name(1)).noise_scale
    each = f"{section.scores:,} scores for a search of your own, noise of scale {scale:.2g} on each"
    total = f"ε = {problem.epsilon:g} and δ = {problem.delta:g} in all, by PrivateObjective.from_study"
    return f"{each}; {total}" + (f". {price.useless}" if price.useless else "")


QUERY = DeclaredQuery(
    objective_shown,
    round_prefix=score_name(0).removesuffix("0"),
    round_name="score",
    unreleased=(
        "its scores were returned as they were asked for, and close() was not called",
        "scores can still be asked for, or the search ended without close()",
        "call close() on the objective: it records all scores as one release, at no further cost",
    ),
    expected=expected_scores,
)


@dataclass(frozen=True)
class Score:
    """A released score.

    Attributes:
        value: as it was drawn; larger is better. Not clamped. None if the records have too few of one class for
            an AUC at this ε, as the noised number of pairs has it.
        noise: standard deviation of the noise in it; None likewise.
        interval: of the exact score on these records, 90%: the noise is all that it allows for; None likewise.
    """

    value: float | None
    noise: float | None
    interval: tuple[float, float] | None


def score_of_draw(price: ObjectivePrice, unit: Unit, number: int, draw: int) -> Score:
    """Return the score, with its noise and interval, that the noisy integer `draw` of score `number` gives."""
    if not unit.stated:
        return Score(None, None, None)
    mechanism = price.scores()[number - 1]
    value, noise = unit.score(draw), mechanism.scale * unit.per_step
    if unit.pairs is None:
        return Score(value, noise, bounded_interval(value, noise, price.problem.score_range))
    return Score(value, noise, unit.interval([draw], NoiseTail.of(mechanism)))


def best_caption(
    price: ObjectivePrice, unit: Unit, draw: int, score: float, interval: tuple[float, float], n_draws: int
) -> dict[str, Any]:
    """Return what a release says of the best candidate: score, interval and metric; of pairs also their number."""
    problem = price.problem
    caption: dict[str, Any] = {"score": score, "interval": list(interval)}
    if unit.pairs is not None:
        ends = unit.interval([draw], NoiseTail.of(price.scores()[0]), n_draws)
        caption = auc_caption(problem, unit, score, ends)
    natural, name = problem.score.natural_unit, problem.model.score_name
    return {**caption, "metric": natural.metric(name, caption["score"], caption["interval"])}
