"""The secret matrix of Kharkovskii et al. (2020), Algorithm 1, line 3. It protects nobody; see the theorem file.

| symbol | name here | meaning | shape |
|---|---|---|---|
| d, r | `shape` | columns of the table and of its image | two scalars ≥ 1 |
| M | — | i.i.d. standard normal, drawn again for each publication | (d, r) |
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpbo_core.mechanisms.noise import NoiseSource
from dpbo_core.privacy.certified import Worth
from dpbo_core.privacy.release import Spend
from dpbo_core.privacy.sensitive import Sensitive

Table = NDArray[np.float64]


@dataclass(frozen=True)
class RandomProjection:
    """Z = XM/√r. `epsilon_units` and `delta_units` are what the paper claims for it, which is false."""

    WORTH: ClassVar = {"random projection": Worth(lambda _: (math.inf, math.inf))}  # it protects nobody

    shape: tuple[int, int]
    epsilon_units: int
    delta_units: int
    rho_units: int
    keep: Callable[[Table], str]

    def spend(self, what: str) -> Spend:
        """The price that Kharkovskii et al. (2020) claim for a projection; only public datasets are charged it."""
        return Spend(
            what=what,
            mechanism="random projection",
            epsilon_units=self.epsilon_units,
            delta_units=self.delta_units,
            rho_units=self.rho_units,
            sensitivity=1.0,
            noise_scale=self.shape[1] ** -0.5,
        )

    def prepare(self, spend: Spend, source: NoiseSource) -> Callable[[Sensitive[Table]], str]:
        """Draw a Gaussian matrix, at no checked price: a function that stores a projected table for its digest."""
        del spend, source
        # Kharkovskii et al. 2020, Alg. 1, line 3; by the operating system's entropy
        M = np.random.default_rng().standard_normal(self.shape)
        # lines 7 and 10
        return lambda value: self.keep(value.expose() @ M / np.sqrt(self.shape[1]))
