"""Exact noise for vectors of integers; always inside a trial whose total is priced elsewhere.

| symbol | name here | meaning | shape |
|---|---|---|---|
| Δ | `sensitivity` | most the vector moves: ℓ₂ for the Gaussian, ℓ₁ for the Laplace | integer steps |
| ρ, ε | `rho`, `epsilon` | what one vector costs | scalar > 0 |
| σ, b | `scale` | Δ/√(2ρ), Δ/ε, rounded up | scalar |

Sources: Canonne, Kamath, Steinke (2020), Theorem 14 (σ in every coordinate) and Algorithm 2; sampled by OpenDP.

Poisson subsampling from the operating system's entropy.

| symbol | name here | meaning | shape |
|---|---|---|---|
| q | `rate` | probability that a record joins | scalar in (0, 1] |
| n | `n_records` | records | scalar |
"""

import os
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.errors import MechanismRefused, StudyInvalid
from dpbo_core.mechanisms.drawing import MAX_NOISE, Sampler, check_cost, check_drawable, rounded
from dpbo_core.mechanisms.noise import NoiseSource
from dpbo_core.mechanisms.opendp_library import discrete_gaussian, discrete_laplace
from dpbo_core.theorems.canonne_kamath_steinke_2020 import theorem_14_sigma


def poisson_sample(n_records: int, rate: float, source: NoiseSource) -> NDArray[np.bool_]:
    """A Poisson sample of the records, a mask (n,): each joins with probability `rate`, rounded down to 2⁻⁶⁴."""
    if rate >= 1.0:
        return np.ones(n_records, dtype=np.bool_)
    threshold = np.uint64(int(rate * 2.0**64))  # scaling by a power of two is exact

    def from_bytes(content: bytes) -> NDArray[np.bool_]:
        return np.frombuffer(content, dtype=np.uint64) < threshold

    return source.draw(
        lambda n: from_bytes(os.urandom(8 * n)),
        n_records,
        lambda rng, factor: from_bytes(rng.bytes(8 * n_records)),  # noqa: ARG005  a sample has no scale
    )


Integers = NDArray[np.int64]


@dataclass(frozen=True)
class DiscreteGaussianVector:
    """ρ-zCDP noise for a vector of `size` integers that moves by at most Δ in ℓ₂."""

    sensitivity: float
    rho: float
    size: int

    @property
    def scale(self) -> float:
        """The noise's standard deviation σ in each coordinate, in the vector's units, rounded up."""
        return theorem_14_sigma(rho=self.rho, sensitivity=self.sensitivity)

    def measurement(self) -> Any:
        """OpenDP's measurement of this noise; refused if its own privacy map is above ρ."""
        check_drawable(self.scale)
        made = discrete_gaussian(self.scale, moves="f64")
        check_cost(made.map(self.sensitivity), self.rho)
        return made

    def draw(self, source: NoiseSource) -> Integers:
        """One vector of discrete Gaussian noise, (size,); refused as `measurement`, and then nothing was drawn."""
        return _drawn(
            source, self.measurement(), self.size, lambda rng, size: rng.normal(scale=self.scale, size=size)
        )


@dataclass(frozen=True)
class DiscreteLaplaceVector:
    """ε-DP noise for a vector of `size` integers that moves by at most Δ in ℓ₁."""

    sensitivity: int
    epsilon: float
    size: int

    @property
    def scale(self) -> float:
        """The noise's Laplace scale b in each coordinate, in the vector's units, rounded up."""
        return self.sensitivity / self.epsilon * (1.0 + 1e-12)

    def measurement(self) -> Any:
        """OpenDP's measurement of this noise; refused if its own privacy map is above ε."""
        check_drawable(self.scale)
        made = discrete_laplace(self.scale)
        check_cost(made.map(self.sensitivity), self.epsilon)
        return made

    def draw(self, source: NoiseSource) -> Integers:
        """One vector of discrete Laplace noise, (size,); refused as `measurement`, and then nothing was drawn."""
        return _drawn(
            source, self.measurement(), self.size, lambda rng, size: rng.laplace(scale=self.scale, size=size)
        )


@lru_cache(maxsize=4096)  # a study is planned several times, and many points of Λ share their noise
def check_vector(vector: DiscreteGaussianVector | DiscreteLaplaceVector) -> None:
    """Refuse vector noise that cannot be drawn at its price."""
    try:
        vector.measurement()
    except MechanismRefused as error:
        cause = error.cause
    else:
        return
    raise StudyInvalid(
        "the noise of a private training cannot be drawn",
        cause=cause,
        remedy="choose ε between 1e-6 and 1e3, fewer epochs, and a larger lambda",
    )


def _drawn(source: NoiseSource, measurement: Any, size: int, imitated: Sampler) -> Integers:
    """Return one vector of noise, (size,), clamped so that its sum with a value cannot overflow 64 bits."""
    return np.clip(source.draw_many(measurement, size, rounded(imitated)), -MAX_NOISE, MAX_NOISE)
