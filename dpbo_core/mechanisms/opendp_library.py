"""OpenDP as it is used here: exact integer noise and noisy choices, imported when first asked for, each made once.

| symbol | name here | meaning | shape |
|---|---|---|---|
| b, σ, s | `scale` | of the noise, in integer steps | scalar > 0 |
| — | `size` | entries of the vector; None for any number of them | integer ≥ 1 |
| ε(Δ), ρ(Δ) | `measurement.map` | its own price at a sensitivity | scalar |
"""

from functools import lru_cache
from typing import Any, Literal

_CACHE_SIZE = 256  # measurements: one takes longer to make than to draw from


class Measurement:
    """An OpenDP measurement whose public price at a sensitivity is asked for once: it takes as long as a draw."""

    __slots__ = ("_made", "map")

    def __init__(self, made: Any) -> None:
        self._made, self.map = made, lru_cache(_CACHE_SIZE, typed=True)(made.map)

    def __call__(self, value: Any) -> Any:
        """Return one draw at `value`."""
        return self._made(value)


@lru_cache(_CACHE_SIZE)
def discrete_laplace(scale: float) -> Measurement:
    """OpenDP's discrete Laplace measurement on integer vectors of integer ℓ₁ sensitivity; its price is ε."""
    distance = opendp().metrics.l1_distance(T="i64")
    return Measurement(opendp().measurements.make_laplace(_integer_domain(), distance, scale=scale))


@lru_cache(_CACHE_SIZE)
def discrete_gaussian(scale: float, *, moves: Literal["i64", "f64"]) -> Measurement:
    """OpenDP's discrete Gaussian measurement on integer vectors, priced in ρ; ℓ₂ distances are of type `moves`."""
    distance = opendp().metrics.l2_distance(T=moves)
    return Measurement(opendp().measurements.make_gaussian(_integer_domain(), distance, scale=scale))


@lru_cache(_CACHE_SIZE)
def exponential_noisy_max(scale: float, size: int) -> Measurement:
    """OpenDP's measurement of the index of the largest of `size` integers, with exponential noise; priced in ε."""
    return _noisy_max(scale, size, opendp().measures.max_divergence())


@lru_cache(_CACHE_SIZE)
def gumbel_noisy_max(scale: float, size: int) -> Measurement:
    """OpenDP's measurement of the index of the largest of `size` integers, with Gumbel noise; priced in ρ."""
    return _noisy_max(scale, size, opendp().measures.zero_concentrated_divergence())


def _noisy_max(scale: float, size: int, measure: Any) -> Measurement:
    distance = opendp().metrics.linf_distance(T="i64")
    return Measurement(opendp().measurements.make_noisy_max(_integer_domain(size), distance, measure, scale=scale))


def _integer_domain(size: int | None = None) -> Any:
    domains = opendp().domains
    whole = domains.atom_domain(T="i64")
    return domains.vector_domain(whole) if size is None else domains.vector_domain(whole, size=size)


def opendp() -> Any:
    """OpenDP with its vetted measurements enabled; its prelude would import scikit-learn, pandas and Polars too."""
    import opendp.measurements

    opendp.mod.enable_features("contrib")
    return opendp
