"""Many comparisons with one secret threshold, for one price: one bit each, until the first that is above.

| symbol | name here | meaning | shape |
|---|---|---|---|
| u_t | `Fall.of(value)` | what is compared at look t, sensitive | integer |
| Δ | `sensitivity` | most any u_t moves between neighbours, in either direction | integer ≥ 1 |
| θ | `threshold` | public | integer |
| ε | `epsilon_units` | pure differential privacy of ALL bits up to the first alarm, in 10⁻¹² | integer ≥ 2 |
| z | `draw_threshold` | geometric of ratio e^{−ε₁/Δ}, drawn once and never released | integer ≥ 0 |
| ν_t | `draw_comparison` | geometric of ratio e^{−ε₂/2Δ}, for one look, never released | integer ≥ 0 |
| — | `alarm` | u_t + ν_t ≥ θ + z, the one bit that leaves | bool |

One-sided noise has √2 less deviation than two-sided at the same ε, and the same proof (MATH §7.3): bits that are no
alarm on D at z are none on D′ at z + Δ, Pr[z = j] = e^{ε₁} Pr[z = j + Δ], and Pr[ν ≥ x] ≤ e^{ε₂} Pr[ν ≥ x + 2Δ].
Noise of the other sign, of either, has an infinite loss.

It is ONE mechanism of price ε: neither z nor a ν_t is a release of its own, so nothing of it composes as two.
Whoever calls `alarm` again after it said True, or compares with one ν_t twice, has no guarantee: `noise_vault` and
the ledger keep that from happening.
Source: Dwork, Roth (2014), Algorithm 1; Lyu, Su, Li (2017), Algorithm 7; sampled by OpenDP:
a discrete Laplace of the same scale, redrawn until it is not negative (its absolute value is another law).
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from dpbo_core.errors import StudyInvalid
from dpbo_core.mechanisms.drawing import check_integer
from dpbo_core.mechanisms.laplace import DiscreteLaplace
from dpbo_core.mechanisms.noise import NoiseSource
from dpbo_core.privacy.amounts import from_units
from dpbo_core.privacy.certified import Worth
from dpbo_core.privacy.release import Spend
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.theorems.lyu_su_li_2017 import theorem_4_epsilon, theorem_4_epsilons


def _mechanism_cost(spend: Spend) -> tuple[float, float]:
    epsilon = theorem_4_epsilon(sensitivity=spend.sensitivity, comparison_scale=spend.noise_scale)
    return epsilon, epsilon**2 / 2.0


@dataclass(frozen=True)
class Fall:
    """How far an exact integer query has fallen: u = start − ⌊times·value/over⌋, by public integers.

    A value that moves by d moves it by at most ⌈times·d/over⌉.
    """

    start: int
    times: int
    over: int

    def of(self, value: int) -> int:
        """How far a query's exact `value` lies below `start`, in whole steps: a plain int, as sensitive as it."""
        return self.start - (self.times * value) // self.over


@dataclass(frozen=True)
class AboveThreshold:
    """ε-DP comparisons up to and including the first that is above. `unit` is score per integer step."""

    WORTH: ClassVar = {"above threshold": Worth(_mechanism_cost)}

    sensitivity: int
    epsilon_units: int
    unit: float

    def __post_init__(self) -> None:
        if min(theorem_4_epsilons(epsilon_units=self.epsilon_units)) < 1:
            raise StudyInvalid(
                f"ε = {from_units(self.epsilon_units):g} is below the ledger's unit", remedy="raise epsilon"
            )
        for part in (self.of_threshold, self.of_comparison):
            part.spend("")  # a scale that cannot be drawn is refused before anything is charged

    @property
    def of_threshold(self) -> DiscreteLaplace:
        """The discrete Laplace whose first non-negative draw is the threshold's noise z."""
        first, _ = theorem_4_epsilons(epsilon_units=self.epsilon_units)
        return DiscreteLaplace(self.sensitivity, first, self.unit)

    @property
    def of_comparison(self) -> DiscreteLaplace:
        """The discrete Laplace whose first non-negative draw is a comparison's noise ν_t."""
        _, second = theorem_4_epsilons(epsilon_units=self.epsilon_units)
        return DiscreteLaplace(2 * self.sensitivity, second, self.unit)

    def spend(self, what: str) -> Spend:
        """Return the price of all comparisons with one threshold together, named `what`: pure ε, and ρ = ε²/2."""
        whole = DiscreteLaplace(self.sensitivity, self.epsilon_units, self.unit).spend(what)
        return replace(whole, mechanism="above threshold", noise_scale=self.of_comparison.spend(what).noise_scale)

    def draw_threshold(self, source: NoiseSource) -> Sensitive[int]:
        """Draw the threshold's noise z, once for all comparisons with it."""
        return _drawn(self.of_threshold, source)

    def draw_comparison(self, source: NoiseSource) -> Sensitive[int]:
        """Draw the noise ν_t of one comparison with the threshold."""
        return _drawn(self.of_comparison, source)


def alarm(
    value: Sensitive[int], *, fall: Fall, threshold: int, of_threshold: Sensitive[int], of_look: Sensitive[int]
) -> bool:
    """Return whether the noisy fall of `value` reaches the noisy threshold, u_t + ν_t ≥ θ + z.

    It is what a look releases. `fall` maps the exact value to how far it is below the reference; `of_look` is ν_t
    and `of_threshold` is z.
    """
    u = fall.of(check_integer(value.expose()))
    return u + of_look.expose() >= threshold + of_threshold.expose()


def _drawn(mechanism: DiscreteLaplace, source: NoiseSource) -> Sensitive[int]:
    """Return a draw of geometric noise on 0, 1, 2, …: discrete Laplace noise, redrawn while it is negative.

    Given that it is not negative, discrete Laplace noise is geometric. The number of redraws does not depend on the
    noise that is kept, so it need not be secret.
    """
    noise = -1
    while noise < 0:
        noise = mechanism.prepare(mechanism.spend(""), source)(Sensitive(0))
    return Sensitive(noise)
