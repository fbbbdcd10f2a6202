"""The last draw of a trajectory that asks for one: a choice among what was visited, on the exact scores.

| symbol | name here | meaning | shape |
|---|---|---|---|
| s | `share` | part of ρ* that the choice may cost | integer of 10⁻¹² |
| ε_c | `PrivateSelection.epsilon_units` | pure ε of the choice | integer of 10⁻¹² |
| α* | `order` | the order at which the study's (ε, δ) holds the most ρ | scalar > 1 |
| r_c | `draw_units` | Rényi divergence of an ε_c-DP draw at α*, over α* | integer of 10⁻¹² |

The exponential mechanism is priced in zCDP, ε_c²/8 ≤ s. Permute-and-flip, which errs less at the same ε_c, would
cost ε_c²/2 there; but a pure draw's Rényi divergence at any order is at most ε_c. α* is a function of (ε, δ), so
fixed before the first draw; at one order divergences add up, also of draws chosen after earlier ones, and
Σρ_t + r_c ≤ ρ* says that all of them are within α*ρ*, which is (ε, δ) (Canonne, Kamath, Steinke 2020, Proposition
12). The ledger charges r_c at its cap's order by the same rule (`renyi_filter`), so such a study fits a cap of its
own guarantee.
"""

import math
from bisect import bisect_right
from collections.abc import Mapping
from typing import Literal

from dpbo_core.accounting.renyi_filter import draw_units, order
from dpbo_core.errors import StudyInvalid
from dpbo_core.mechanisms.exponential import EXPONENTIAL, PERMUTE_AND_FLIP, PrivateSelection, SelectionKind
from dpbo_core.methods.pricing import too_small
from dpbo_core.privacy.amounts import UNITS_PER_ONE, allowed_units, from_units
from dpbo_core.privacy.guarantee import Evidence, Standing
from dpbo_core.problem.problem import Problem
from dpbo_core.problem.search import USUAL_STEPS

FinalChoice = Literal["exponential", "permute_and_flip"]
KINDS: Mapping[FinalChoice, SelectionKind] = {"exponential": EXPONENTIAL, "permute_and_flip": PERMUTE_AND_FLIP}
USUAL_LOOK = 0.25
ENDS: Mapping[FinalChoice, tuple[float, float, int]] = {  # usual final share, look's share and steps
    "exponential": (0.0, USUAL_LOOK, USUAL_STEPS),
    "permute_and_flip": (0.8, 0.05, 40),  # most of it for the choice, which is better among more
}
MIXED_EVIDENCE = Evidence(
    Standing.STANDARD,
    "discrete Gaussian (Canonne, Kamath, Steinke 2020) and permute-and-flip (McKenna, Sheldon 2020), composed "
    "adaptively at one Rényi order that is fixed beforehand; the rest is post-processing",
)


def check_shares(final: float, look: float, by: FinalChoice) -> None:
    """Refuse a budget's shares for the final choice and the look at its score that leave the search's steps none,
    or are 0 for a paid final choice.

    Args:
        final: s.
        look: share of the fresh look at the choice's score.
        by: who makes the final choice.

    Raises:
        StudyInvalid: they are such.
    """
    if not (min(final, look) >= 0.0 and final + look < 1.0):
        raise StudyInvalid(
            f"method.look_share = {look}, final_share = {final}",
            cause="they are shares of one budget, and the path needs the rest",
            remedy="choose 0 or more for each, together below 1; 0.25 and 0 are usual",
        )
    if by == "permute_and_flip" and final == 0.0:
        raise StudyInvalid(
            'method.final_choice = "permute_and_flip", and final_share = 0',
            cause="a choice on exact scores has to be paid for",
            remedy="leave final_share out; 0.8, with look_share = 0.05, is usual",
        )


def selection(problem: Problem, share: int, by: FinalChoice) -> PrivateSelection:
    """The mechanism of the final private choice, at the largest ε that `share` (ρ in 10⁻¹²) pays for, else refused.

    Args:
        problem: with the study's (ε, δ).
        share: s.
        by: which mechanism.

    Raises:
        StudyInvalid: the share is too small for the ledger's unit.
    """
    alpha = order(allowed_units(problem.epsilon), problem.delta)

    def made(epsilon: int) -> PrivateSelection:
        return PrivateSelection(problem.record_steps, epsilon, problem.score_per_step, KINDS[by])

    def price(epsilon: int) -> int:
        rho = made(epsilon).spend("").rho_units
        return rho if by == "exponential" else draw_units((epsilon, rho), alpha)

    if by == "exponential":
        epsilon = math.floor(math.sqrt(8.0 * from_units(share)) * UNITS_PER_ONE)
    else:
        epsilon = bisect_right(range(1, allowed_units(problem.epsilon) + 1), share, key=price)
    while epsilon > 0:
        if price(epsilon) <= share:
            return made(epsilon)
        epsilon -= max(1, epsilon // 10**11)
    raise too_small(problem)
