"""Private selection on exact integer utilities: permute-and-flip, and the exponential mechanism.

| symbol | name here | meaning | shape |
|---|---|---|---|
| u | `value` | integer utilities, larger is better | (n,) |
| Δ | `sensitivity` | most any one utility moves, in either direction | integer ≥ 1 |
| ε | `epsilon_units` | pure differential privacy, in 10⁻¹² | integer ≥ 1 |
| s | `scale` | s = 2Δ/ε; a candidate weighs exp(u/s) | scalar |
| h | `unit` | score per integer step | scalar |

Sources: McKenna, Sheldon (2020), Algorithm 1; McSherry, Talwar (2007). OpenDP's noisy maximum draws
permute-and-flip under the max divergence and the exponential mechanism (Gumbel noise) under zero-concentrated
divergence.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

import numpy as np
from numpy.typing import NDArray

from dpbo_core.mechanisms.drawing import check_price, check_scale, check_table
from dpbo_core.mechanisms.noise import InjectedNoise, NoiseSource
from dpbo_core.mechanisms.opendp_library import exponential_noisy_max, gumbel_noisy_max
from dpbo_core.privacy.amounts import from_units, spent_units
from dpbo_core.privacy.certified import Worth, ratio
from dpbo_core.privacy.release import Spend
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.theorems.mckenna_sheldon_2020 import selection_scale

PERMUTE_AND_FLIP: Final = "permute-and-flip"
EXPONENTIAL: Final = "exponential mechanism"
SelectionKind = Literal["permute-and-flip", "exponential mechanism"]
SELECTION_PAUSE_S = 0.05  # seconds; far longer than a draw over thousands of candidates differs from another


@dataclass(frozen=True)
class PrivateSelection:
    """ε-DP choice of one index. `kind` fixes the zCDP price: ε²/2 for permute-and-flip, ε²/8 for the other."""

    WORTH: ClassVar = {
        PERMUTE_AND_FLIP: Worth(lambda spend: (2.0 * ratio(spend), (2.0 * ratio(spend)) ** 2 / 2.0)),
        EXPONENTIAL: Worth(lambda spend: (2.0 * ratio(spend), (2.0 * ratio(spend)) ** 2 / 8.0)),
    }

    sensitivity: int
    epsilon_units: int
    unit: float
    kind: SelectionKind

    def __post_init__(self) -> None:
        check_scale(self.scale, self.sensitivity)

    @property
    def scale(self) -> float:
        """The scale s of the noise on utilities in integer steps, rounded up (flatter choice)."""
        epsilon = from_units(self.epsilon_units)
        return selection_scale(sensitivity=float(self.sensitivity), epsilon=epsilon) * (1.0 + 1e-12)

    def spend(self, what: str) -> Spend:
        """Return the price of one private choice, named `what`: pure ε, and ρ rounded up.

        ρ is ε²/8 for the exponential mechanism, whose range is bounded, and ε²/2 for any pure ε; the factor 1 +
        1e-12 covers the rounding of the division.
        """
        divisor = 2.0 if self.kind == PERMUTE_AND_FLIP else 8.0
        return Spend(
            what=what,
            mechanism=self.kind,
            epsilon_units=self.epsilon_units,
            delta_units=0,
            rho_units=spent_units(from_units(self.epsilon_units) ** 2 / divisor * (1.0 + 1e-12)),
            sensitivity=self.sensitivity * self.unit,
            noise_scale=self.scale * self.unit,
        )

    def prepare(self, spend: Spend, source: NoiseSource) -> Callable[[Sensitive[NDArray[np.int64]]], int]:
        """Check the price `spend`; return a function that privately chooses the index of a large entry among
        utilities.

        This noise cannot be drawn ahead of the utilities, and the time it takes may depend on them. So the function
        waits until a whole number of `SELECTION_PAUSE_S` seconds has passed.
        """
        flip = self.kind == PERMUTE_AND_FLIP
        planned = spend.epsilon_units if flip else spend.rho_units
        check_price(2.0 * self.sensitivity / self.scale, spend.epsilon_units)
        check_price(self._measurement(1).map(self.sensitivity), planned)

        def choose(value: Sensitive[NDArray[np.int64]]) -> int:
            begun = time.monotonic()
            utilities = value.expose()
            check_table(utilities, (max(1, utilities.size),))

            def imitation(rng: np.random.Generator, factor: float) -> int:
                if factor == 0.0:
                    return int(np.argmax(utilities))
                noise = rng.exponential if flip else rng.gumbel
                return int(np.argmax(utilities + noise(scale=factor * self.scale, size=utilities.size)))

            chosen = int(source.draw(self._measurement(utilities.size), utilities.tolist(), imitation))
            if not isinstance(source, InjectedNoise):  # injected noise guarantees nothing that its time could break
                time.sleep(SELECTION_PAUSE_S - (time.monotonic() - begun) % SELECTION_PAUSE_S)
            return chosen

        return choose

    def _measurement(self, size: int) -> Any:
        """OpenDP's noisy maximum of `size` utilities: exponential noise for permute-and-flip, else Gumbel noise."""
        made = exponential_noisy_max if self.kind == PERMUTE_AND_FLIP else gumbel_noisy_max
        return made(self.scale, size)
