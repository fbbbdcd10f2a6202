"""What one private trial costs: its Rényi curve, and its loss profile where one prices more tightly.

| symbol | name here | meaning | shape |
|---|---|---|---|
| ε(α) | `curve` | Rényi cost of the trial at every order | curve |
| μ² | `gaussian` | the squared mean of the Gaussian pair that dominates all its Gaussian noise | scalar |
| ρ | `zcdp` | the part of the curve's ρ that no Gaussian pair covers | scalar |
| (σ, q, T) | `sampled` | T steps of a Poisson-sampled Gaussian, one record replaced | numbers or None |

A discrete Gaussian of scale σ over integers is dominated by the continuous one of variance σ² − τ² up to a factor
e^(±3ξ) a coordinate, ξ = 2Σ_j e^(−2π²τ²j²), as `theorems.sampled_gaussian` proves. At τ = 3/2 this is 1 ± 10⁻¹⁸,
and at τ = 3 it is 1 ± 10⁻⁶⁴ for 2⁴⁰ coordinates.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

from dpbo_core.privacy.renyi import RenyiCurve
from dpbo_core.theorems.loss_profile import LossProfile

TAU, VECTOR_TAU = 1.5, 3.0  # for one coordinate, and for as many as memory holds
_N_CELLS = 1000  # of the grid of losses, in a standard deviation of the loss
_MIN_STEP, _MAX_STEP = 1e-4, 1e-3  # steps of the grid where a sampled step is composed with itself


@dataclass(frozen=True)
class TrialCost:
    """The cost of one trial under replace-one, for one kind of pair of neighbours."""

    curve: RenyiCurve
    gaussian: float = 0.0
    zcdp: float = 0.0
    sampled: tuple[float, float, int] | None = None

    def __add__(self, other: "TrialCost") -> "TrialCost":
        if self.curve.table and other.curve.table:
            raise ValueError("one trial has one sampled training")
        return TrialCost(
            self.curve + other.curve,
            self.gaussian + other.gaussian,
            self.zcdp + other.zcdp,
            self.sampled or other.sampled,
        )

    @property
    def profile(self) -> LossProfile:
        """The loss profile of the trial, rounded up."""
        return _profile(self)


def gaussian_cost(*, rho: float, sensitivity: float, scale: float, tau: float = TAU) -> TrialCost:
    """Return the cost of discrete Gaussian noise of scale σ = `scale` on integers of ℓ₂ sensitivity `sensitivity`.

    The bound that relates it to the continuous Gaussian needs σ well above τ. Below 2τ it is priced by ρ alone.
    """
    rest = (scale**2 - tau**2) * (1.0 - 1e-12)
    if scale <= 2.0 * tau:
        return TrialCost(RenyiCurve(rho=rho), zcdp=rho)
    return TrialCost(RenyiCurve(rho=rho), sensitivity**2 / rest)


@lru_cache(maxsize=32)  # a study is planned several times
def _profile(cost: TrialCost) -> LossProfile:
    import dp_accounting

    parts, step = [], _MAX_STEP
    if cost.curve.epsilon > 0.0:
        parts.append(LossProfile.of_epsilon_delta(cost.curve.epsilon))
    if cost.gaussian > 0.0:
        mu = math.sqrt(cost.gaussian)
        event, step = dp_accounting.GaussianDpEvent(1.0 / mu), min(step, mu / _N_CELLS)
        parts.append(LossProfile.of_event(event, step=step))
    if cost.zcdp > 0.0:
        parts.append(LossProfile.of_zcdp(cost.zcdp))
    if cost.sampled is not None:
        sigma, rate, steps = cost.sampled
        deviation = 2.0 * rate * math.sqrt(steps * math.expm1(min(20.0, 1.0 / sigma**2)))
        step = max(_MIN_STEP, min(step, deviation / _N_CELLS))
        sampled = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(sigma))
        event = dp_accounting.SelfComposedDpEvent(sampled, steps)
        parts.append(LossProfile.of_event(event, neighbours="replace_one", replaced_moves=2.0, step=step))
    elif cost.curve.table:
        orders = [order for order, _ in cost.curve.table]
        parts.append(LossProfile.of_renyi(orders, [value for _, value in cost.curve.table]))
    profile = parts[0] if parts else LossProfile.of_epsilon_delta(0.0)
    for part in parts[1:]:
        profile = profile.compose(part, step)
    return profile
