"""OpenDP as it is used here: exact integer noise and noisy choices, imported when first asked for.

| symbol | name here | meaning | shape |
|---|---|---|---|
| b, σ, s | `scale` | of the noise, in integer steps | scalar > 0 |
| — | `size` | entries of the vector; None for any number of them | integer ≥ 1 |
| ε(Δ), ρ(Δ) | `measurement.map` | its own price at a sensitivity | scalar |
"""

from typing import Any, Literal


def discrete_laplace(scale: float, size: int | None = None) -> Any:
    """Laplace noise on vectors of integers that move in ℓ₁ by a whole number of steps; its price is ε."""
    distance = opendp().metrics.l1_distance(T="i64")
    return opendp().measurements.make_laplace(_integers(size), distance, scale=scale)


def discrete_gaussian(scale: float, size: int | None = None, *, moves: Literal["i64", "f64"]) -> Any:
    """Gaussian noise on vectors of integers that move in ℓ₂, by whole steps or not; its price is ρ."""
    distance = opendp().metrics.l2_distance(T=moves)
    return opendp().measurements.make_gaussian(_integers(size), distance, scale=scale)


def exponential_noisy_max(scale: float, size: int) -> Any:
    """The index of the largest of integers with exponential noise; its price is ε."""
    return _noisy_max(scale, size, opendp().measures.max_divergence())


def gumbel_noisy_max(scale: float, size: int) -> Any:
    """The index of the largest of integers with Gumbel noise; its price is ρ."""
    return _noisy_max(scale, size, opendp().measures.zero_concentrated_divergence())


def _noisy_max(scale: float, size: int, measure: Any) -> Any:
    distance = opendp().metrics.linf_distance(T="i64")
    return opendp().measurements.make_noisy_max(_integers(size), distance, measure, scale=scale)


def _integers(size: int | None) -> Any:
    domains = opendp().domains
    whole = domains.atom_domain(T="i64")
    return domains.vector_domain(whole) if size is None else domains.vector_domain(whole, size=size)


def opendp() -> Any:
    """OpenDP with its vetted measurements enabled; its prelude would import scikit-learn, pandas and Polars too."""
    import opendp.measurements

    opendp.mod.enable_features("contrib")
    return opendp
