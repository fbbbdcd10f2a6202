"""What a few noisy values say of the scores: the mixture over kernel parameters, and the estimate of the choice.

The posterior averaged over kernel parameters, because few noisy observations do not determine them.

| symbol | name here | meaning | shape |
|---|---|---|---|
| u | — | different candidates observed | scalar ≥ 1 |
| X, ȳ | `points`, `values` | where, and the mean of what was observed there, on the prior's scale | (u, d), (u,) |
| S | `noise` | variance of each mean, σ²/(times observed), KNOWN | (u,) |
| h | `guess` | a public guess of the score, centred; zeros where there is none | (u,) |
| a | `trust` | how much of the guess is believed; 0 overrules it | scalar ≥ 0 |
| c | `offset` | constant of the prior mean, c ~ N(0, τ²), integrated out | scalar |
| ℓ, s² | `lengthscale`, `variance` | of the kernel s²R_ℓ | scalars > 0 |
| A | — | s²R_ℓ + τ²11ᵀ + diag(S) | (u, u) |
| w | `weights` | posterior probability of each (ℓ, s², a), ∝ prior · N(ȳ; a·h, A) | (C,) |

A posterior with one fitted (ℓ, s²) treats them as known and states too little uncertainty; the mixture does not.
The noise variance is known, so ȳ and S are sufficient statistics of the observations. Source: Rasmussen and
Williams (2006), equation 2.30; the integral over (ℓ, s², a) is a sum over a public grid.

The map between a score and the Gaussian process's units, and the final estimate of the chosen score.

| symbol | name here | meaning | shape |
|---|---|---|---|
| G | `top` | scores lie in [0, G] | scalar |
| — | `centre`, `scale` | the prior's mean and unit, in units of the score; public | scalars |
| y, σ | `observed`, `deviation` | a fresh look at the choice's score, and the deviation of its noise | scalars |
| m, s | `posterior` | mean and deviation of the choice's score by the noised path alone | scalars |
| τ² | `doubt` | how much further apart path and look are than their noise explains | scalar |

A look is one fresh noisy score of the chosen candidate, after the choice. Its noise does not depend on the earlier
scores (the path), so an interval about it covers the score with probability 0.9, whatever the model is. y ± 1.645σ,
cut to [0, G], would too, but it is empty or a point if y is far outside [0, G], which looks like certainty. The
interval of Feldman and Cousins is never empty, has the same coverage, and is y ± 1.645σ well inside the range.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from dpbo_core.search.gp import JITTER, kernel_named, squared_distance
from dpbo_core.theorems.feldman_cousins_1998 import CONFIDENCE_LEVEL, bounded_interval

NEGLIGIBLE_WEIGHT = 1e-3  # a component that weighs less is left out
MIN_RANGE_PROBABILITY = 1e-12  # components that give the score's range less probability are left out
MAX_ARRAY_ENTRIES = 2_000_000  # of the largest temporary array, 16 MB
N_GRID_STEPS = 7  # values of ℓ, and of s², over two prior standard deviations either way
TRUST_LEVELS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25)


@dataclass(frozen=True)
class Prior:
    """The public prior of a score: what is believed of its kernel and its mean before anything is observed."""

    kernel: str  # "matern52" or "se"
    lengthscale: float  # median of ℓ; log ℓ has standard deviation `lengthscale_spread`
    lengthscale_spread: float = 1.0  # ≥ 0; 0 fixes ℓ
    deviation: float = 0.4  # median of s; log s has standard deviation `deviation_spread`
    deviation_spread: float = 1.0  # ≥ 0
    offset_deviation: float = 1.2  # τ
    guessed: bool = False  # whether there is a guess whose trust is to be found


class Mixture(Protocol):
    """A posterior that is a weighted sum of Gaussian components."""

    @property
    def weights(self) -> NDArray[np.float64]:
        """The posterior probability of each component, (C,); they sum to 1."""

    def moments(
        self, candidates: NDArray[np.float64], guess: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return each component's mean and standard deviation of the scores of n candidates, (C, n) each."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Components(ABC):
    """A mixture of Gaussian processes, heaviest first, with what predictions at other candidates need."""

    prior: Prior
    weights: NDArray[np.float64]  # of each component, (C,)
    lengthscales: NDArray[np.float64]  # ℓ, (C,)
    variances: NDArray[np.float64]  # s², (C,)
    trusts: NDArray[np.float64]  # a, (C,)
    factors: NDArray[np.float64]  # L with LLᵀ = A, (C, u, u)
    whitened: NDArray[np.float64]  # L⁻¹(ȳ − a·h), (C, u)

    def moments(
        self, candidates: NDArray[np.float64], guess: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return each component's mean and standard deviation of n candidates' scores, as `Mixture.moments`."""
        C, n = len(self.weights), len(candidates)
        means, deviations = np.empty((C, n)), np.empty((C, n))
        rows = max(1, MAX_ARRAY_ENTRIES // max(1, C * self.factors.shape[1]))
        for block in (slice(start, start + rows) for start in range(0, n, rows)):
            V = self._solved(candidates[block])
            means[:, block] = self.trusts[:, None] * guess[block] + np.einsum("cu,cun->cn", self.whitened, V)
            # the prior variance less what the observations explain; rounding may make it slightly negative
            left = (self.variances + self._level_variance)[:, None] - (V * V).sum(axis=1)
            deviations[:, block] = np.sqrt(np.maximum(left, 0.0))
        return means, deviations

    def of(self, chosen: NDArray[np.int64]) -> Self:
        """Return the mixture of the components `chosen` alone, their weights unchanged."""
        return replace(self, **{name: getattr(self, name)[chosen] for name in self._by_component})

    def covariance(self, component: int, candidates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return covariance of the scores at (n, d) candidates under one component, (n, n)."""
        one = self.of(np.array([component]))
        V, R = one._solved(candidates)[0], correlations(self.prior.kernel, one.lengthscales, candidates, candidates)
        C: NDArray[np.float64] = one.variances[0] * R[0] + self._level_variance - V.T @ V
        return C

    def joint(
        self, candidates: NDArray[np.float64], guess: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the mean, (n,), and covariance, (n, n), of the scores at (n, d) candidates under the mixture.

        The covariance is that between the components' means plus the mean of their covariances.
        """
        means, _ = self.moments(candidates, guess)
        mean = self.weights @ means
        C = (self.weights[:, None] * (means - mean)).T @ (means - mean)
        for component, weight in enumerate(self.weights):
            C += weight * self.covariance(component, candidates)
        return mean, C

    _by_component: ClassVar[tuple[str, ...]] = (
        "weights",
        "lengthscales",
        "variances",
        "trusts",
        "factors",
        "whitened",
    )

    @property
    def _level_variance(self) -> float:
        return self.prior.offset_deviation**2

    @abstractmethod
    def _solved(self, candidates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the matrix L⁻¹ k(X, candidates) of each component, (C, u, n), from which moments follow."""


@dataclass(frozen=True, eq=False, kw_only=True)
class KernelMixture(Components):
    """The posterior over kernels (ℓ, s², a) given values at X."""

    points: NDArray[np.float64]
    log_evidence: float

    @property
    def offset(self) -> float:
        """The posterior mean of the constant c, the score's level, under the heaviest component."""
        one = np.linalg.solve(self.factors[0], np.ones(len(self.points)))
        return float(self.prior.offset_deviation**2 * one @ self.whitened[0])

    def _solved(self, candidates: NDArray[np.float64]) -> NDArray[np.float64]:
        R = correlations(self.prior.kernel, self.lengthscales, self.points, candidates)
        K = self.variances[:, None, None] * R + self._level_variance
        return np.asarray(np.linalg.solve(self.factors, K), dtype=np.float64)


def range_probability(
    weights: NDArray[np.float64],
    means: NDArray[np.float64],
    deviations: NDArray[np.float64],
    ends: tuple[float, float],
    level: float,
) -> tuple[float, tuple[float, float]]:
    """Return the mean and the central interval of probability `level` of one candidate's score.

    The score's distribution is a mixture of Gaussians, with `weights`, `means` and `deviations` of each component,
    (C,), truncated to [`ends[0]`, `ends[1]`].
    """
    from scipy.special import ndtr

    s = np.maximum(deviations, math.sqrt(JITTER))
    # A component below the range is mirrored (sign −1): Φ near 1 has no digits left for the difference of two of
    # them.
    sign = np.where(means < ends[0], -1.0, 1.0)
    low, high = (
        np.where(sign > 0, ends[0] - means, means - ends[1]) / s,
        np.where(sign > 0, ends[1] - means, means - ends[0]) / s,
    )
    inside: NDArray[np.float64] = ndtr(high) - ndtr(low)
    w: NDArray[np.float64] = weights * np.where(inside > MIN_RANGE_PROBABILITY, inside, 0.0)
    if w.sum() == 0.0:  # no component has probability inside the range: return the nearest end
        end = float(np.clip(weights @ means, *ends))
        return end, (end, end)
    w /= w.sum()
    possible = w > 0.0
    w, m, s, sign, low, high, inside = (x[possible] for x in (w, means, s, sign, low, high, inside))

    def cdf(x: float) -> float:
        below = ndtr((x - m) / s) - ndtr((ends[0] - m) / s)
        above = ndtr((m - x) / s) - ndtr((m - ends[1]) / s)
        return float(w @ np.where(sign > 0, below / inside, 1.0 - above / inside))

    shift = (np.exp(-0.5 * low**2) - np.exp(-0.5 * high**2)) / (math.sqrt(2.0 * math.pi) * inside)
    quantiles = [_quantile(cdf, ends, q) for q in ((1.0 - level) / 2.0, (1.0 + level) / 2.0)]
    return float(w @ np.clip(m + sign * s * shift, *ends)), (quantiles[0], quantiles[1])


def _quantile(cdf: Callable[[float], float], ends: tuple[float, float], q: float) -> float:
    low, high = ends
    for _ in range(34):  # to 10⁻¹⁰ of the range
        middle = 0.5 * (low + high)
        low, high = (middle, high) if cdf(middle) < q else (low, middle)
    return 0.5 * (low + high)


def average(
    points: NDArray[np.float64],
    values: NDArray[np.float64],
    noise: NDArray[np.float64],
    guess: NDArray[np.float64],
    prior: Prior,
) -> KernelMixture:
    """Return the posterior over kernels, a mixture, given mean scores of u different candidates.

    Each (ℓ, s², a) of the prior's grid is weighted by its posterior probability; negligible ones are left out. It
    costs O(C·u³), 4 ms at u = 20.
    """
    lengthscales, deviations, log_prior = grid_of(prior)
    trusts = np.array(TRUST_LEVELS) if prior.guessed else np.zeros(1)
    R = correlations(prior.kernel, lengthscales, points, points)
    S = np.diag(np.maximum(noise, JITTER)) + prior.offset_deviation**2
    A = deviations[None, :, None, None] ** 2 * R[:, None] + S
    L = np.asarray(np.linalg.cholesky(A), dtype=np.float64)  # (ℓ, s, u, u)
    residuals = values[:, None] - guess[:, None] * trusts  # (u, a)
    repeated = np.broadcast_to(residuals, (*L.shape[:2], *residuals.shape))
    Z = np.asarray(np.linalg.solve(L, repeated), dtype=np.float64)  # (ℓ, s, u, a)
    log_det = np.log(np.diagonal(L, axis1=-2, axis2=-1)).sum(axis=-1)
    log_w = log_prior[..., None] - 0.5 * (Z * Z).sum(axis=2) - log_det[..., None]
    weights = np.exp(log_w - log_w.max())
    order = np.argsort(-weights, axis=None, kind="stable")
    order = order[weights.flat[order] >= NEGLIGIBLE_WEIGHT * weights.sum()]
    i, j, k = np.unravel_index(order, weights.shape)
    heaviest = weights[i, j, k]
    return KernelMixture(
        prior=prior,
        points=points,
        weights=heaviest / heaviest.sum(),
        lengthscales=lengthscales[i],
        variances=deviations[j] ** 2,
        trusts=trusts[k],
        factors=L[i, j],
        whitened=Z[i, j, :, k],
        log_evidence=float(log_w.max() + np.log(weights.mean(axis=2).sum())),
    )


def grid_of(prior: Prior) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the grid's lengthscales ℓ, its deviations s, and each pair's log prior probability, (n_ℓ, n_s)."""
    lengthscales = _spread(prior.lengthscale, prior.lengthscale_spread)
    deviations = _spread(prior.deviation, prior.deviation_spread)
    log_prior = _log_weight(lengthscales, prior.lengthscale, prior.lengthscale_spread)[:, None]
    log_prior = log_prior + _log_weight(deviations, prior.deviation, prior.deviation_spread)
    return lengthscales, deviations, log_prior - np.log(np.exp(log_prior).sum())


def correlations(
    kernel: str, lengthscales: NDArray[np.float64], A: NDArray[np.float64], B: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the correlation matrix R_ℓ for each ℓ, computed once for equal ones: (n, d), (m, d) → (C, n, m)."""
    squared = squared_distance(A[:, None, :], B)
    lengths, which = np.unique(lengthscales, return_inverse=True)
    return np.stack([kernel_named(kernel, float(length)).at(squared.copy()) for length in lengths])[which]


def _spread(median: float, spread: float) -> NDArray[np.float64]:
    """Return `N_GRID_STEPS` values, two standard deviations of the logarithm either side of `median`.

    `spread` is that standard deviation; if it is 0, the parameter is fixed, and `median` is the only value.
    """
    if spread == 0.0:
        return np.array([median])
    return median * np.exp(spread * np.linspace(-2.0, 2.0, N_GRID_STEPS))


def _log_weight(values: NDArray[np.float64], median: float, spread: float) -> NDArray[np.float64]:
    """Return the log prior probability of grid values, log-normal about `median`, up to a constant."""
    return np.zeros(1) if spread == 0.0 else -0.5 * (np.log(values / median) / spread) ** 2


NORMAL_90 = 1.6448536269514722  # a normal variable lies within so many deviations with probability 0.9
CENTRE, SPREAD = 0.5, 0.25  # the prior's default mean and unit, as shares of G

ScoreInterval = tuple[float, tuple[float, float]]  # a score and its interval


@dataclass(frozen=True)
class ScoreMap:
    """The affine map between a score and the Gaussian process's units: score = centre + scale · unit."""

    centre: float
    scale: float
    top: float

    def mapped(self, score: float) -> float:
        """Return the score in the Gaussian process prior's units, (score − centre)/scale, not clamped."""
        return (score - self.centre) / self.scale

    def unmapped(self, value: float) -> float:
        """Return the score that a value in the prior's units stands for."""
        return self.centre + self.scale * value

    def posterior(
        self, mixture: Mixture, means: NDArray[np.float64], deviations: NDArray[np.float64]
    ) -> ScoreInterval:
        """Return the mean and central 90% interval of one candidate's score, which lies in [0, G], as scores."""
        ends = (self.mapped(0.0), self.mapped(self.top))
        mean, (low, high) = range_probability(mixture.weights, means, deviations, ends, CONFIDENCE_LEVEL)
        return self.unmapped(mean), (self.unmapped(low), self.unmapped(high))

    def with_look(
        self,
        observed: float,
        deviation: float,
        posterior: ScoreInterval,
        interval: tuple[float, float] | None = None,
    ) -> ScoreInterval:
        """Return the estimate of the chosen candidate's score, and its 90% interval, after one fresh noisy score.

        The estimate combines the fresh score and the posterior, weighted by their precisions. If they differ by
        more than noise explains in nine cases of ten, the posterior's variance is increased by the excess τ² =
        max(0, (m − y)² − 1.645²·(s² + σ²)), so that a wrong model has little weight. The result is the mean of that
        normal distribution truncated to the interval.
        """
        low, high = interval or bounded_interval(observed, deviation, self.top)
        mean, ends = posterior
        s2, noise = ((ends[1] - ends[0]) / (2.0 * NORMAL_90)) ** 2, deviation**2
        doubt = max(0.0, (mean - observed) ** 2 - NORMAL_90**2 * (s2 + noise))
        trust = noise / (noise + s2 + doubt)
        combined, spread = trust * mean + (1.0 - trust) * observed, math.sqrt(trust * (s2 + doubt))
        return _mean_inside(combined, spread, low, high), (low, high)


def _mean_inside(mean: float, deviation: float, low: float, high: float) -> float:
    """Return the mean of N(mean, deviation²) truncated to [low, high]; the nearest end if it has no mass there."""
    if deviation <= 0.0:
        return min(max(mean, low), high)
    a, b = (low - mean) / deviation, (high - mean) / deviation
    inside = 0.5 * (math.erf(b / math.sqrt(2.0)) - math.erf(a / math.sqrt(2.0)))
    if inside < 1e-9:
        return min(max(mean, low), high)
    shift = (math.exp(-0.5 * a * a) - math.exp(-0.5 * b * b)) / (math.sqrt(2.0 * math.pi) * inside)
    return min(max(mean + deviation * shift, low), high)
