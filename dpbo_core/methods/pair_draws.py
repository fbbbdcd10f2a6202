"""What methods share that can search by a count of pairs: its draws, and what is said of them.

| symbol | name here | meaning | shape |
|---|---|---|---|
| C₂, D | — | pairs ranked right, and all pairs, in half pairs (`models.aggregates`) | integers |
| D̂ | `n_pairs` | D with noise, at least a quarter of what it is at the public share, at most m²/2 | integer |
| r | `beside` | a PUBLIC guess of the AUC, to the nearest 2⁻¹⁶ | scalar |
| B | — | C₂ − ⌊rD⌋, which is what is drawn for a score | integer |
| A | `Unit.said` | r + B̂/D̂ | scalar |

The three have one sensitivity. A's error is the noise of B over D, and the relative error of D̂ times A − r: so most
of a score's budget goes to B, and a share of it to D, drawn once.
"""

import math
from dataclasses import dataclass
from typing import Any

from dpbo_core.errors import StudyInvalid
from dpbo_core.mechanisms.laplace import DiscreteLaplace
from dpbo_core.mechanisms.noise import Noise
from dpbo_core.models.aggregates import PairCount
from dpbo_core.models.scores.union import SCORES
from dpbo_core.privacy.certified import MEANS, counted_of_one, one_record_moves
from dpbo_core.privacy.plan import Spend
from dpbo_core.privacy.release import COUNTS, PAIRS, Release
from dpbo_core.privacy.sealing import attempted
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.privacy.unit import NeighboringRelation
from dpbo_core.problem.problem import Problem
from dpbo_core.scoring.in_memory import SHARES, shifted
from dpbo_core.theorems.feldman_cousins_1998 import bounded_laplace_interval

Drawn = tuple[Spend, DiscreteLaplace, Sensitive[int]]  # what was planned, with which mechanism, of what

SHARE_OF_PAIRS = 0.15  # of a score's ε, for D: benchmarks/rankings.py
SHARE_OF_PAIRS_RHO = 0.05  # of a path's ρ, for D
USUAL = 0.75  # r where nothing public says better: halfway between a guess and no error


@dataclass(frozen=True)
class Unit:
    """The map from a draw to a score: score = offset + draw · per_step.

    Attributes:
        per_step: score per step of the draw; 1/D̂ of pairs.
        offset: r; 0 of a mean.
        error: relative error of `per_step`, as a standard deviation; 0 of a mean.
    """

    per_step: float
    offset: float = 0.0
    error: float = 0.0

    def score(self, draw: int) -> float:
        """The score that a noised integer (draw) stands for."""
        return self.offset + draw * self.per_step

    def deviation(self, scale: float, score: float) -> float:
        """The standard deviation of a score's noise, from its draw's noise in steps and the score itself."""
        return (
            math.hypot(scale * self.per_step, self.error * (score - self.offset))
            if self.error
            else scale * self.per_step
        )


def in_pairs(problem: Problem) -> PairCount | None:
    """The study's count of pairs, with its sensitivity and bounds; None where the score is a mean."""
    return problem.aggregate if isinstance(problem.aggregate, PairCount) else None


def unit_of(problem: Problem) -> Unit:
    """The linear map from a noised integer to a score, at the public share of positives for pairs."""
    return Unit(problem.metric_per_step)


def unit_drawn(pairs: PairCount, drawn: int, deviation: float, beside: float) -> Unit:
    """The map from noised integer to score, given a noised pair count `drawn` (clamped here), its `deviation`, and
    the public score `beside` that scores are counted from.
    """
    n_pairs = min(max(drawn, pairs.fewest_likely), pairs.range_steps)
    return Unit(1.0 / n_pairs, beside, deviation / n_pairs)


def shares_of(problem: Problem, whole: float) -> tuple[float, ...]:
    """The part `whole` of ε, split into one for the number of pairs and one for the score if pairs are counted."""
    if in_pairs(problem) is None:
        return (whole,)
    return whole * SHARE_OF_PAIRS, whole * (1.0 - SHARE_OF_PAIRS)


def score_caption(problem: Problem, noise: Noise, index: int, score: Drawn, number: Drawn | None) -> dict[str, Any]:
    """Draw and record a candidate's noised score: score, interval and, if pairs are counted, their number.

    Args:
        problem: whose candidate it is.
        noise: where it is drawn.
        index: of the candidate, into Λ.
        score: the draw of its exact integer, C₂ where pairs are counted.
        number: the draw of D; None of a mean.
    """
    spend, laplace, total = score
    pairs, unit, also = in_pairs(problem), unit_of(problem), {}
    if pairs is None:
        drawn = noise.release(spend, laplace, total)
    elif number is None:
        raise ValueError("no pairs were counted")
    else:
        of_pairs, mechanism, all_pairs = number
        D = noise.release(of_pairs, mechanism, all_pairs)["draw"]
        share = beside(problem, index)
        drawn = noise.release(spend, laplace, shifted(total, all_pairs, share), beside=round(share * SHARES))
        unit = unit_drawn(pairs, D, mechanism.scale, drawn["beside"] / SHARES)
        also = {PAIRS: problem.score_per_step / unit.per_step}
    value = unit.score(drawn["draw"])
    interval = bounded_laplace_interval(value, unit.deviation(laplace.scale, value), problem.score_range)
    return {"score": value, "interval": list(interval), **also}


def beside(problem: Problem, index: int) -> float:
    """The public score r of candidate `index`, 0.75 without one; r times the pairs' number is subtracted."""
    public = attempted(lambda: problem.public_score(index), USUAL)
    return on_grid(min(max(public, 0.0), 1.0))


def on_grid(share: float) -> float:
    """The share rounded to the nearest 2⁻¹⁶."""
    return round(share * SHARES) / SHARES


def one_unit_moves(release: Release) -> float:
    """What one record moves a released score by, in its units: the least sensitivity that its draws may state.

    Raises:
        KeyError, TypeError, ValueError: the facts do not say.
    """
    score, counted = SCORES.get(release.facts["score"]), release.facts.get(COUNTS)
    if counted is None and (score is None or score.of_pairs is None or score.of_outcome is not None):
        return one_record_moves(release)
    if counted != PAIRS or score is None or score.of_pairs is None:
        raise ValueError(COUNTS)
    pairs = PairCount(release.facts["n_validation"], counted_of_one(release))
    return pairs.record_steps * pairs.score_per_step


def relations_of(release: Release) -> tuple[NeighboringRelation, ...]:
    """The neighbouring relations that a release can be about: replace_one alone where pairs are counted."""
    return (NeighboringRelation.REPLACE_ONE,) if COUNTS in release.facts else MEANS


def check_unpaired(problem: Problem) -> None:
    """Refuse a choice by paired differences of records where the score counts pairs.

    Raises:
        StudyInvalid: pairs are counted.
    """
    if in_pairs(problem) is not None:
        raise StudyInvalid(
            f"method.paired compares two candidates record by record, and {problem.model.score_name} counts pairs",
            cause="a record that is in many pairs has no score of its own",
            remedy="remove paired from [method], or choose by a score of single records",
        )


def refused(problem: Problem, methods: tuple[str, ...]) -> StudyInvalid:
    """The error of a method that needs a mean of record scores; it names `methods` that do not, if any."""
    named = (
        f"method = {' or '.join(map(repr, methods))}"
        if methods
        else "a method that counts pairs (dpbo plan says which)"
    )
    return StudyInvalid(
        f"this method's noise is for a mean of record scores, and {problem.model.score_name} counts pairs",
        cause="one record is in as many pairs as there are records of the other class",
        remedy=f"use {named}, or a score of single records",
    )
