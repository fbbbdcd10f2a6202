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
    from opendp.metrics import l1_distance

    return opendp().make_laplace(_integers(size), l1_distance(T="i64"), scale=scale)


def discrete_gaussian(scale: float, size: int | None = None, *, moves: Literal["i64", "f64"]) -> Any:
    """Gaussian noise on vectors of integers that move in ℓ₂, by whole steps or not; its price is ρ."""
    from opendp.metrics import l2_distance

    return opendp().make_gaussian(_integers(size), l2_distance(T=moves), scale=scale)


def exponential_noisy_max(scale: float, size: int) -> Any:
    """The index of the largest of integers with exponential noise; its price is ε."""
    from opendp.measures import max_divergence

    return _noisy_max(scale, size, max_divergence())


def gumbel_noisy_max(scale: float, size: int) -> Any:
    """The index of the largest of integers with Gumbel noise; its price is ρ."""
    from opendp.measures import zero_concentrated_divergence

    return _noisy_max(scale, size, zero_concentrated_divergence())


def _noisy_max(scale: float, size: int, measure: Any) -> Any:
    from opendp.metrics import linf_distance

    return opendp().make_noisy_max(_integers(size), linf_distance(T="i64"), measure, scale=scale)


def _integers(size: int | None) -> Any:
    from opendp.domains import atom_domain, vector_domain

    whole = atom_domain(T="i64")
    return vector_domain(whole) if size is None else vector_domain(whole, size=size)


def opendp() -> Any:
    """OpenDP's vetted measurements, enabled; its prelude would import scikit-learn, pandas and Polars too."""
    from opendp import measurements
    from opendp.mod import enable_features

    enable_features("contrib")
    return measurements
