"""Whether a method is worth its price on a study: good, poor or useless, by what there is to choose between."""

from bisect import bisect_left
from contextlib import suppress
from dataclasses import replace
from typing import Literal

from dpbo_core.advice.expected_loss import Expected, expected
from dpbo_core.errors import DpboError
from dpbo_core.methods import AnyMethod
from dpbo_core.problem import Problem

Verdict = Literal["good", "poor", "useless", "refused"]
POOR, USELESS = 0.1, 0.25  # expected error as a share of the score's range
DOUBTED, LOST = 0.15, 0.5  # the same of what there is to gain over one answer for every record


def verdict_of(noise_scale: float, expected_error: float, score_range: float, gain: float | None = None) -> Verdict:
    """By the range of the score; and by what there is to gain over one answer for all, where that is known."""
    if expected_error >= USELESS * score_range or noise_scale >= score_range:
        return "useless"
    if gain is not None and expected_error >= LOST * gain:
        return "useless"
    if gain is not None and expected_error >= DOUBTED * gain:
        return "poor"
    return "poor" if expected_error >= POOR * score_range else "good"


def beside_spread(verdict: Verdict, regret: float, spread: float) -> tuple[Verdict, str]:
    """The verdict where it is known what there is to choose between, and that in words."""
    told = f"the best public score is {one_digit(spread):g} above that of a middling candidate"
    if regret >= spread:
        worst: Verdict = "poor" if verdict == "good" else verdict
        return worst, f"{told}, and a choice that loses as much is no better than a candidate taken blindly"
    return verdict, f"{told}, of which the choice keeps about {1.0 - regret / spread:.0%}"


def useful_from(method: AnyMethod, problem: Problem) -> int | None:
    """The least number of records, to two digits, for which this method's verdict would be good; None for none."""

    def useful(n_records: int) -> bool:
        asked = replace(problem, n_validation=n_records)
        with suppress(DpboError):
            outlook, found = method.outlook(asked), expected(method, asked)
            error = outlook.expected_error if found is None else whole_error(found)
            return verdict_of(outlook.noise_scale, error, asked.aggregate.spread) == "good"
        return False

    ladder = [digits * 10**power for power in range(1, 8) for digits in range(10, 100)]
    place = bisect_left(ladder, x=True, key=useful)
    return ladder[place] if place < len(ladder) else None


def useful_in_words(problem: Problem, least: int | None) -> str:
    """The least number of records for a count of pairs, as a clause for the reader."""
    share = problem.positives
    where = "with as many positives as negatives, and later the rarer one of them is"
    if share is not None:
        where = f"at the public share of positives, {share:.1%}"
    if least is None:
        return f"counting pairs is useful for no number of records {where}"
    return f"counting pairs is useful from about {least:,} records {where}"


def whole_error(found: Expected) -> float:
    """Between what is released and the best score of Λ."""
    return one_digit(found.regret + found.score_error)


def one_digit(value: float) -> float:
    """A number of a simulation, to the one digit that it knows."""
    return float(f"{value:.1g}")
