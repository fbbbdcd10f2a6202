"""The noisy maximum of exact integer utilities, released with its lead over the runner-up.

| symbol | name here | meaning | shape |
|---|---|---|---|
| u | `value` | integer utilities, larger is better | (n,) |
| Δ | `sensitivity` | most any one utility moves, in either direction | integer ≥ 1 |
| ε | `epsilon_units` | pure differential privacy of the index and the lead together, in 10⁻¹² | integer ≥ 1 |
| s | `scale` | s = 2Δ/ε; the noise is geometric on 0, 1, … of ratio ρ = e^(−1/s) | scalar |
| v | `noisy` | u + noise; i is the index of the largest, the lowest among equals | (n,) |
| G | the lead | v_i − max over j ≠ i of (v_j + [j < i]) | integer ≥ 0 |
| h | `unit` | score per integer step | scalar |

The lead costs no privacy. Proof: 2Δ steps that each raise the utilities in a set S by 1 lead to any neighbour,
since a common shift changes nothing, and for the same reason i may lie outside S. Such a step must cost a factor of
1/ρ at most. Pr[i, G] is proportional to B = Σ_{x ≥ x₀} ρ^(x − x₀)·f(x), where f is the law of the largest
v_j + [j < i] and x₀ = u_i − G. Downwards: that largest rises by at most 1. Upwards: let A_j be the part of f where
j is the largest; A_j(x) = (1 − ρ)·ρ^(x − u_j)·(a nondecreasing function), so raising j adds at most
A_j(x₀ − 1)/(1 + ρ), while B ≥ ρ/(1 − ρ²)·ΣA_j(x₀ − 1). Without [j < i] the lead costs up to 2ε: three candidates
show it.

By the noise's lack of memory, Pr[G ≥ t and u_i leads the others by less than G − t] ≤ ρ^t, for any utilities.
Sources: Ding, Wang, Zhang, Kifer (2019), for continuous noise; the ties and the proof on integers are ours. For
Δ ≫ 1 the law of the index is that of permute-and-flip (Ding et al. 2021). Sampled by OpenDP: a discrete Laplace of
the same scale, redrawn until it is not negative.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from dpbo_core.mechanisms.drawing import MAX_NOISE, check_price, check_scale, check_table, rounded
from dpbo_core.mechanisms.laplace import DiscreteLaplace
from dpbo_core.mechanisms.noise import NoiseSource
from dpbo_core.mechanisms.opendp_library import discrete_laplace
from dpbo_core.privacy.amounts import from_units
from dpbo_core.privacy.certified import Worth, ratio
from dpbo_core.privacy.release import Spend
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.theorems.mckenna_sheldon_2020 import selection_scale

NOISY_MAX: Final = "noisy maximum with its lead"
Outcome = tuple[int, int | None]  # the index and its lead, None of one candidate


@dataclass(frozen=True)
class NoisyMax:
    """ε-DP choice of one of `size` indices together with its noisy lead over the runner-up, in integer steps."""

    WORTH: ClassVar = {NOISY_MAX: Worth(lambda spend: (2.0 * ratio(spend), (2.0 * ratio(spend)) ** 2 / 2.0))}

    sensitivity: int
    epsilon_units: int
    unit: float
    size: int

    def __post_init__(self) -> None:
        check_scale(self.scale, self.sensitivity)

    @property
    def scale(self) -> float:
        """The scale s of the noise on utilities in integer steps, rounded up (flatter choice)."""
        epsilon = from_units(self.epsilon_units)
        return selection_scale(sensitivity=float(self.sensitivity), epsilon=epsilon) * (1.0 + 1e-12)

    def spend(self, what: str) -> Spend:
        """Return the price of one private choice with its lead, named `what`: pure ε; ρ = ε²/2, rounded up."""
        one_entry = DiscreteLaplace(self.sensitivity, self.epsilon_units, self.unit).spend(what)
        return replace(one_entry, mechanism=NOISY_MAX, noise_scale=self.scale * self.unit)

    def prepare(self, spend: Spend, source: NoiseSource) -> Callable[[Sensitive[NDArray[np.int64]]], Outcome]:
        """Draw noise, refused above the price; return a function, to be called once, that chooses among utilities.

        The noise is geometric: discrete Laplace noise, redrawn while negative. The number of redraws does not
        depend on the noise that is kept, so it reveals nothing of it.
        """
        measurement = discrete_laplace(self.scale)
        check_price(measurement.map(2 * self.sensitivity), spend.epsilon_units)
        imitation = rounded(lambda rng, size: rng.laplace(scale=self.scale, size=size))
        noise = source.draw_many(measurement, self.size, imitation)
        while (negative := noise < 0).any():
            noise[negative] = source.draw_many(measurement, int(negative.sum()), imitation)
        drawn = Sensitive(np.minimum(noise, MAX_NOISE))
        return lambda value: _winner(check_table(value.expose(), (self.size,)) + drawn.expose())

    def certain_lead(self, lead: int, confidence: float) -> int | None:
        """Return a lower bound, with this confidence, on how far the chosen utility exceeds all others.

        `lead` is the released noisy lead, in integer steps. None if it is within the noise: the choice may then not
        be the best.
        """
        surely = lead - math.ceil(-math.log1p(-confidence) * self.scale)
        return surely if surely >= 0 else None


def _winner(noisy: NDArray[np.int64]) -> Outcome:
    """Return the index of the largest noisy utility and its lead over the runner-up; a lead of None if it is alone.

    A tie goes to the smaller index. So a runner-up of smaller index counts one step more: at a lead of 0 it would
    have been chosen.
    """
    first = int(np.argmax(noisy))
    others = noisy + (np.arange(len(noisy)) < first)
    rest = np.delete(others, first)
    return first, int(noisy[first]) - int(rest.max()) if rest.size else None
