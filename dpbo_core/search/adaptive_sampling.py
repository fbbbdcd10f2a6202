"""Adaptive densities over Λ that stay within bounds of a prior: Wang et al. (2023), Sections 3.2, 4.1, D.

| symbol | name here | meaning | shape |
|---|---|---|---|
| π | `density` | what the search would like, a probability on Λ | (N,) |
| π₀ | `prior` | the prior probability, positive | (N,) |
| c, C | `lower`, `upper` | c ≤ f/π₀ ≤ C | scalars, 0 < c ≤ 1 ≤ C |
| f | result | the projection | (N,) |
| ν | — | multiplier of Σf = 1 | scalar |
| μ_λ, σ_λ | — | posterior mean and deviation on the trials so far | (N,) |
| τ, β | `exploration`, `inverse_temperature` | s = μ + τσ, π ∝ exp(βs) | scalars ≥ 0 |
"""

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpbo_core.search.gp import Posterior

Vector = NDArray[np.float64]
Projection = Literal["euclidean", "divergence"]

_MIN_WEIGHT_RATIO = 1e-250  # of the largest weight, instead of one that underflowed
_LOGARITHMIC_HALVINGS = 64
_STEPS, _HALVED = 400, 8  # every eighth step halves the bracket: enough for any two doubles


def project(density: Vector, *, prior: Vector, lower: float, upper: float) -> Vector:
    """Return the density f nearest to `density` π with c·prior ≤ f ≤ C·prior and Σf = 1: clip(π − ν, cπ₀, Cπ₀).

    ν is the root of Σ clip(π − ν, cπ₀, Cπ₀) − 1, which falls in ν. The sum is linear in ν as long as the same
    coordinates are clipped, so one Newton step then ends at the root. A bracket [left, right] of ν guarantees
    convergence: it is halved where a Newton step would leave it. Each step costs O(N), and about ten steps are
    needed; nothing is sorted. Source: equation (3.1), and Appendix D for any π₀.
    """
    low, high = _checked_bounds(density, prior, lower, upper)
    # at ν = left every coordinate is clipped to its upper bound, and at ν = right every one to its lower bound
    left, right = float((density - high).min()), float((density - low).max())
    nu, resting = min(max(0.0, left), right), None
    for step in range(1, _STEPS + 1):
        moved = density - nu
        f: Vector = np.minimum(np.maximum(moved, low), high)
        rests = np.concatenate([moved <= low, moved >= high])
        off = float(f.sum()) - 1.0
        if off == 0.0 or (resting is not None and np.array_equal(rests, resting)):
            break  # the Newton step stayed in one linear piece, so it ended at the root
        left, right = (nu, right) if off > 0.0 else (left, nu)
        free = int(np.count_nonzero((moved > low) & (moved < high)))
        newton = nu + off / free if free else math.nan
        inside = left < newton < right and step % _HALVED != 0
        nu, resting = (newton, rests) if inside else (0.5 * (left + right), None)
        if not left < nu < right:
            break  # two neighbouring doubles: f is within rounding of the root
    return f


def project_by_divergence(density: Vector, *, prior: Vector, lower: float, upper: float) -> Vector:
    """Return the density f nearest to `density` π in Kullback-Leibler divergence, as constrained in `project`.

    f = clip(κπ, cπ₀, Cπ₀), where κ is the number at which Σf = 1. KL(f‖π) and KL(π‖f) have the same minimiser. Σf
    grows in κ, so log κ is found by bisection. Source: Appendix C.1 as its weight ν of the divergence grows;
    `project` is its ν = 0.
    """
    low, high = _checked_bounds(density, prior, lower, upper)
    positive = np.maximum(density, _MIN_WEIGHT_RATIO * float(density.max()))  # log and the division need π > 0
    left, right = float(np.log(low / positive).min()), float(np.log(high / positive).max())
    for _ in range(_LOGARITHMIC_HALVINGS):
        middle = 0.5 * (left + right)
        enough = float(np.clip(math.exp(middle) * positive, low, high).sum()) >= 1.0
        left, right = (left, middle) if enough else (middle, right)
    return np.asarray(np.clip(math.exp(right) * positive, low, high), dtype=np.float64)


def softmax(scores: Vector, *, inverse_temperature: float) -> Vector:
    """Return the weights exp(βs)/Σexp(βs) of scores s, (N,), with β = `inverse_temperature` ≥ 0."""
    weights = np.exp(inverse_temperature * (scores - scores.max()))
    return np.asarray(weights / weights.sum(), dtype=np.float64)


class UniformSampler:
    """Algorithm 2: every trial is drawn from the prior π₀ (uniform in the paper), whatever came before."""

    def __init__(self, prior: Vector) -> None:
        self._prior = prior

    def density(self) -> Vector:
        """Return the density that every trial's candidate is drawn from, which is the prior π₀, (N,); sums to 1."""
        return self._prior

    def tell(self, index: int, quality: float) -> None:
        """Ignore a trial's quality: a uniform sampler learns nothing."""


class GaussianProcessSampler:
    """Algorithm 3: trials are drawn from a softmax of a Gaussian process's upper bound, projected.

    We multiply the softmax by the prior π₀, so that equal scores give back the prior. The paper projects the
    softmax alone, which is the same if π₀ is uniform. The proof does not change: Theorems 1 and 2 use only that c ≤
    π̃/π₀ ≤ C, and the projection of any target satisfies that.
    """

    def __init__(
        self,
        posterior: Posterior,
        *,
        prior: Vector,
        bounds: tuple[float, float],
        exploration: float,
        inverse_temperature: float,
        projection: Projection = "euclidean",
    ) -> None:
        self._project = project if projection == "euclidean" else project_by_divergence
        self._posterior, self._prior = posterior, prior
        self._lower, self._upper = bounds
        self._tau, self._beta = exploration, inverse_temperature

    def density(self) -> Vector:
        """Return the density π̃_j that the next trial's candidate is drawn from, within [c, C] times π₀, (N,)."""
        if len(self._posterior) == 0:
            return self._prior  # Alg. 3, statement 1: π⁽⁰⁾
        s = self._posterior.mean + self._tau * self._posterior.std  # statement 6
        target = softmax(s, inverse_temperature=self._beta) * self._prior  # statement 7
        target /= target.sum()
        return self._project(target, prior=self._prior, lower=self._lower, upper=self._upper)  # statement 4

    def tell(self, index: int, quality: float) -> None:
        """Add a trial's candidate and quality (its noised score) to the posterior."""
        self._posterior.observe(index, quality)


Sampler = UniformSampler | GaussianProcessSampler


def _checked_bounds(density: Vector, prior: Vector, lower: float, upper: float) -> tuple[Vector, Vector]:
    """Return the bounds (cπ₀, Cπ₀) on a density; ValueError unless 0 < c ≤ 1 ≤ C and both arrays have one shape."""
    if not (0.0 < lower <= 1.0 <= upper < math.inf):
        raise ValueError("0 < c ≤ 1 ≤ C")
    if density.shape != prior.shape or density.ndim != 1 or not (prior > 0.0).all():
        raise ValueError("a density and a positive prior on the same candidates")
    return lower * prior, upper * prior
