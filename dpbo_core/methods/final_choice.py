"""The last draw of a trajectory that asks for one: a choice among what was visited, on the exact scores.

| symbol | name here | meaning | shape |
|---|---|---|---|
| s | `share` | part of ρ* that the choice may cost | integer of 10⁻¹² |
| ε_c | `PrivateSelection.epsilon_units` | pure ε of the choice | integer of 10⁻¹² |
| α* | `order` | the order at which the study's (ε, δ) holds the most ρ | scalar > 1 |
| r_c | `draw_units` | Rényi divergence of an ε_c-DP draw at α*, over α* | integer of 10⁻¹² |

Permute-and-flip would cost ε_c²/2 in zCDP; but a pure draw's Rényi divergence at any order is at most ε_c. α* is a
function of (ε, δ), so fixed before the first draw; at one order divergences add up, also of draws chosen after
earlier ones, and Σρ_t + r_c ≤ ρ* says that all of them are within α*ρ*, which is (ε, δ) (Canonne, Kamath, Steinke
2020, Proposition 12). The ledger charges r_c at its cap's order by the same rule (`Filter`), so such a study
fits a cap of its own guarantee.
"""

from bisect import bisect_right
from typing import TYPE_CHECKING

from dpbo_core.ledger.accounting.composition import draw_units, order
from dpbo_core.methods.contract import too_small
from dpbo_core.methods.problem import Problem
from dpbo_core.privacy.amounts import allowed_units
from dpbo_core.privacy.guarantee import Evidence, Standing

if TYPE_CHECKING:
    from dpbo_core.mechanisms.exponential import PrivateSelection

USUAL_LOOK, LOOK_AFTER_CHOICE = 0.25, 0.05  # share of the fresh look, without and with a final choice
STEPS_BEFORE_CHOICE = 40  # a choice is better among more
MIXED_EVIDENCE = Evidence(
    Standing.STANDARD,
    "discrete Gaussian (Canonne, Kamath, Steinke 2020) and permute-and-flip (McKenna, Sheldon 2020), composed "
    "adaptively at one Rényi order that is fixed beforehand; the rest is post-processing",
)


def selection(problem: Problem, share: int) -> "PrivateSelection":
    """The mechanism of the final choice, at the largest ε that `share` (ρ in 10⁻¹²) pays for, else refused."""
    alpha = order(allowed_units(problem.epsilon), problem.delta)

    from dpbo_core.mechanisms.exponential import PERMUTE_AND_FLIP, PrivateSelection

    def made(epsilon: int) -> "PrivateSelection":
        return PrivateSelection(problem.record_steps, epsilon, problem.score_per_step, PERMUTE_AND_FLIP)

    def price(epsilon: int) -> int:
        return draw_units((epsilon, made(epsilon).spend("").rho_units), alpha)

    epsilon = bisect_right(range(1, allowed_units(problem.epsilon) + 1), share, key=price)
    if epsilon == 0:
        raise too_small(problem)
    return made(epsilon)
