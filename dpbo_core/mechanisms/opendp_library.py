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
    dp = opendp()
    return dp.m.make_laplace(_integers(dp, size), dp.l1_distance(T="i64"), scale=scale)


def discrete_gaussian(scale: float, size: int | None = None, *, moves: Literal["i64", "f64"]) -> Any:
    """Gaussian noise on vectors of integers that move in ℓ₂, by whole steps or not; its price is ρ."""
    dp = opendp()
    return dp.m.make_gaussian(_integers(dp, size), dp.l2_distance(T=moves), scale=scale)


def noisy_max(scale: float, size: int, *, pure: bool) -> Any:
    """The index of the largest of integers with exponential noise (its price is ε), or with Gumbel noise (ρ)."""
    dp = opendp()
    measure = dp.max_divergence() if pure else dp.zero_concentrated_divergence()
    return dp.m.make_noisy_max(_integers(dp, size), dp.linf_distance(T="i64"), measure, scale=scale)


def _integers(dp: Any, size: int | None) -> Any:
    whole = dp.atom_domain(T="i64")
    return dp.vector_domain(whole) if size is None else dp.vector_domain(whole, size=size)


def opendp() -> Any:
    """OpenDP itself, its vetted measurements enabled."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return dp
