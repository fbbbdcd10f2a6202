"""What methods share that can search by a count of pairs: its draws, and what is stated about them.

| symbol | name here | meaning | shape |
|---|---|---|---|
| C₂, D | — | pairs ranked right, and all pairs, in half pairs (`models.integer_sums`) | integers |
| D̂ | `drawn` | D with noise | integer |
| r | `beside` | a PUBLIC guess of the AUC, to the nearest 2⁻¹⁶ | scalar |
| B | — | C₂ − ⌊rD⌋, which is what is drawn for a score | integer |
| A | `Unit.score` | r + B̂/D̂; nothing where D̂ does not clearly stand out of its noise (`pair_bounds`) | scalar |

The three have one sensitivity. A's error is the noise of B over D, and the relative error of D̂ times A − r: so most
of a score's budget goes to B, and a share of it to D, drawn once. No public share of positives enters A: where the
public set misleads about it, a guess of D would keep A at r.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpbo_core.errors import StudyInvalid
from dpbo_core.mechanisms.gaussian import DiscreteGaussian
from dpbo_core.mechanisms.laplace import DiscreteLaplace
from dpbo_core.mechanisms.noise import Mechanism, Noise
from dpbo_core.methods.pair_bounds import NoiseTail, auc_interval, bounds_of_count, bounds_of_pairs
from dpbo_core.methods.problem import Problem
from dpbo_core.models.integer_sums import LEAST_NOISE_SHARE, PairCount
from dpbo_core.models.scores.union import SCORES
from dpbo_core.models.scoring.in_memory import SHARES_PER_MODEL, shifted
from dpbo_core.privacy.certified import MEAN_RELATIONS, counted_of_one, one_record_moves
from dpbo_core.privacy.guarantee import NeighboringRelation
from dpbo_core.privacy.release import ALL_PAIRS, COUNTS, NO_SCORE, PAIRS, Release, Spend
from dpbo_core.privacy.sensitive import Sensitive, attempted
from dpbo_core.theorems.feldman_cousins_1998 import bounded_laplace_interval

Drawn = tuple[Spend, DiscreteLaplace, Sensitive[int]]  # what was planned, with which mechanism, of what

SHARE_OF_PAIRS = 0.25  # of a score's ε, for D: benchmarks/rankings.py
SHARE_OF_PAIRS_RHO = 0.1  # of the ρ of a path, or of scores for a loop, for D
SURELY, WIDE = 0.95, 0.1  # chance that a score is stated, and half an interval, of which the plan does not warn
DEFAULT_PUBLIC_SCORE = 0.75  # r where nothing public says better: halfway between a guess and no error


@dataclass(frozen=True)
class Unit:
    """The map from a draw to a score: score = offset + draw · per_step."""

    per_step: float  # score per step of the draw; 1/D̂ of pairs
    offset: float = 0.0  # r; 0 of a mean
    pairs: tuple[float, float] | None = None  # the ends of the interval of D; None of a mean
    stated: bool = True

    def score(self, draw: int) -> float:
        """Return the score that a noised integer (draw) corresponds to."""
        return self.offset + draw * self.per_step

    def shown(self, draw: int) -> float | None:
        """Return the score that a noised integer corresponds to; None if the noise forbids stating scores."""
        return self.score(draw) if self.stated else None

    def interval(self, draws: Sequence[int], tail: NoiseTail, n_draws: int = 1) -> tuple[float, float]:
        """Return a 90% interval of an AUC from the noised counts `draws` of one candidate, which was chosen among
        `n_draws` counts.

        The intervals of all `n_draws` counts hold together, so the choice does not invalidate it.
        """
        if self.pairs is None:
            raise ValueError("a mean has no pairs")
        lows, highs = bounds_of_count(np.array(draws, dtype=np.float64), tail, n_draws)
        low, high = lows.max(), highs.min()
        ends = (min(low, high), max(low, high))  # they cross where one is outside
        least, greatest = auc_interval(
            (np.array(ends[0]), np.array(ends[1])), (np.array(self.pairs[0]), np.array(self.pairs[1])), self.offset
        )
        return float(least), float(greatest)


def in_pairs(problem: Problem) -> PairCount | None:
    """Return the study's count of pairs, with its sensitivity and bounds; None if the score is a mean."""
    return problem.aggregate if isinstance(problem.aggregate, PairCount) else None


def unit_of(problem: Problem) -> Unit:
    """Return the linear map from a noised integer to a mean score; of pairs, at the public share of positives."""
    return Unit(problem.metric_per_step)


def unit_drawn(pairs: PairCount, drawn: int, number: DiscreteLaplace | DiscreteGaussian, beside: float) -> Unit:
    """Return the map from a noised count to an AUC, once D̂ = `drawn` is known; `beside` is the public score r."""
    tail = NoiseTail.of(number)
    stated, low, high = bounds_of_pairs(np.array(drawn, dtype=np.float64), tail, pairs.range_steps)
    n_pairs = min(max(float(drawn), tail.least_shown, 1.0), float(pairs.range_steps))
    return Unit(1.0 / n_pairs, beside, (float(low), float(high)), bool(stated))


def pairs_released(unit: Unit, problem: Problem) -> dict[str, Any]:
    """What a release says of the number of pairs: itself with noise, where halves would make 1; or why nothing."""
    if unit.stated:
        return {PAIRS: problem.score_per_step / unit.per_step}
    return {PAIRS: None, NO_SCORE: f"too few positives for {name_of(problem)} at this ε, or too few negatives"}


def chance_of_score(pairs: PairCount, number: DiscreteLaplace | DiscreteGaussian) -> float:
    """Return the probability that an AUC can be stated, at the public share of positives (½ if unknown)."""
    tail = NoiseTail.of(number)
    return float(tail.above(np.array(tail.least_shown - pairs.expected)))


def expected_interval(problem: Problem, draws: Iterable[tuple[Spend, Mechanism[Any]]]) -> str:
    """Return a warning that a method's draws will give no AUC, or a vague one; "" if neither is expected.

    It rests on public facts alone: the public share of positives, or ½ if that is unknown.
    """
    pairs, named = in_pairs(problem), {spend.what: mechanism for spend, mechanism in draws}
    number = named.pop(ALL_PAIRS, None)
    scores = [one for one in named.values() if isinstance(one, DiscreteLaplace | DiscreteGaussian)]
    if pairs is None or not isinstance(number, DiscreteLaplace | DiscreteGaussian) or not scores:
        return ""
    share = LEAST_NOISE_SHARE if pairs.share is None else pairs.share
    assumed = "assuming as many positives as negatives"
    if pairs.share is not None:
        assumed = f"assuming {share:.1%} positives, the public share"
    tail, D, chance = NoiseTail.of(number), pairs.expected, chance_of_score(pairs, number)
    if chance < SURELY:
        often = "hardly ever" if chance < 0.01 else f"in {chance:.0%} of runs"
        return f"{often} a number: too few positives for {name_of(problem)} at this ε, {assumed}"
    _, low, _ = bounds_of_pairs(np.array(D), tail, pairs.range_steps)
    half = float(bounds_of_count(np.zeros(()), NoiseTail.of(scores[-1]))[1] / low)
    return f"a 90% interval of ± {half:.2g} or more, {assumed}" if half > WIDE else ""


def name_of(problem: Problem) -> str:
    """Return the name of the score of pairs, with its article, for messages."""
    return SCORES[problem.model.score_name].called


def shares_of(problem: Problem, whole: float) -> tuple[float, ...]:
    """Return the shares of ε for the draws: `whole`, or of pairs one for their number and one for the score."""
    if in_pairs(problem) is None:
        return (whole,)
    return whole * SHARE_OF_PAIRS, whole * (1.0 - SHARE_OF_PAIRS)


def score_caption(problem: Problem, noise: Noise, index: int, score: Drawn, number: Drawn | None) -> dict[str, Any]:
    """Draw and record the noised score of candidate `index`: score, interval and, if pairs are counted, their
    number. `number` is the draw of D, None of a mean; `score` that of the exact integer, C₂ of pairs.
    """
    spend, laplace, total = score
    pairs = in_pairs(problem)
    if pairs is None:
        unit = unit_of(problem)
        value = unit.score(noise.release(spend, laplace, total)["draw"])
        interval = bounded_laplace_interval(value, laplace.scale * unit.per_step, problem.score_range)
        return {"score": value, "interval": list(interval)}
    if number is None:
        raise ValueError("no pairs were counted")
    of_pairs, mechanism, all_pairs = number
    D = noise.release(of_pairs, mechanism, all_pairs)["draw"]
    share = beside(problem, index)
    drawn = noise.release(spend, laplace, shifted(total, all_pairs, share), beside=round(share * SHARES_PER_MODEL))
    unit = unit_drawn(pairs, D, mechanism, drawn["beside"] / SHARES_PER_MODEL)
    return auc_caption(
        problem, unit, unit.score(drawn["draw"]), unit.interval([drawn["draw"]], NoiseTail.of(laplace))
    )


def auc_caption(problem: Problem, unit: Unit, score: float, interval: tuple[float, float]) -> dict[str, Any]:
    """A score put inside its interval, the interval and the number of pairs; None, and why, if not stated."""
    low, high = interval
    ends = {"score": min(max(score, low), high), "interval": [low, high]}
    return {**(ends if unit.stated else dict.fromkeys(ends)), **pairs_released(unit, problem)}


def beside(problem: Problem, index: int) -> float:
    """Return r, the public score of a candidate, or 0.75: the error of D̂ matters little for an AUC near r."""
    public = attempted(lambda: problem.public_score(index), DEFAULT_PUBLIC_SCORE)
    return on_grid(min(max(public, 0.0), 1.0))


def on_grid(share: float) -> float:
    """Return the share rounded to the nearest 2⁻¹⁶."""
    return round(share * SHARES_PER_MODEL) / SHARES_PER_MODEL


def one_unit_moves(release: Release) -> float:
    """Return how far one record can move the released score: every draw must state at least this sensitivity."""
    score, counted = SCORES.get(release.facts["score"]), release.facts.get(COUNTS)
    if counted is None and (score is None or score.of_pairs is None or score.of_outcome is not None):
        return one_record_moves(release)
    if counted != PAIRS or score is None or score.of_pairs is None:
        raise ValueError(COUNTS)
    pairs = PairCount(release.facts["n_validation"], counted_of_one(release))
    return pairs.record_steps * pairs.score_per_step


def relations_of(release: Release) -> tuple[NeighboringRelation, ...]:
    """Return the neighbouring relations that a release can be about: replace_one alone where pairs are counted."""
    return (NeighboringRelation.REPLACE_ONE,) if COUNTS in release.facts else MEAN_RELATIONS


def check_unpaired(problem: Problem) -> None:
    """Refuse a choice by paired differences of records where the score counts pairs."""
    if in_pairs(problem) is not None:
        raise StudyInvalid(
            f"method.paired compares two candidates record by record, and {problem.model.score_name} counts pairs",
            cause="a record that is in many pairs has no score of its own",
            remedy="remove paired from [method], or choose by a score of single records",
        )


def refused(problem: Problem, methods: tuple[str, ...]) -> StudyInvalid:
    """Return the error of a method that needs a mean of record scores; it names `methods` that do not, if any."""
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
