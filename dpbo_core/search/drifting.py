"""The posterior of a score that drifts from edition to edition and may change suddenly, from their observations.

| symbol | name here | meaning | shape |
|---|---|---|---|
| u | — | observations, each of one candidate in one edition | scalar ≥ 1 |
| X, ȳ, S | `points`, `values`, `noise` | where, the mean observed there, its KNOWN variance | (u, d), (u,), (u,) |
| e | `ages` | how many editions ago; 0 is the present | (u,) of integers |
| h | `guess` | a public guess of the score, centred | (u,) |
| ℓ, s², a | — | of the kernel, and the trust in the guess, as in `estimates` | scalars |
| q | `DRIFTS` | drift: two editions n apart correlate by e^(−qn) | scalar > 0 |
| b | `changes` | a change: editions of age b and more have nothing to do with younger ones | integer ≥ 2 |
| τ², υ² | `offset_deviation`, `LEVEL_DEVIATION` | of the shared level, and of each edition | scalars |
| A | — | s²·R_ℓ·e^(−q·abs(e − e′))·[no change between] + τ²11ᵀ + υ²[e = e′] + diag(S) | (u, u) |
| w | `weights` | posterior probability of each (ℓ, s², a, q, b) | (C,) |

Each (ℓ, s², a, q, b) of a public grid is weighted by the probability of the observations under it. The grid does
not include b = 1, a present unrelated to the past. `learning` weighs that case, a search without a past, against
these. Source: a kernel times a drift in time is that of Bogunovic, Scarlett and Cevher (2016); a change at an
unknown time that of Adams and MacKay (2007).
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpbo_core.search.estimates import TRUST_LEVELS, Components, Prior, correlations, grid_of
from dpbo_core.search.gp import JITTER

DRIFTS = (0.003, 0.02, 0.08, 0.3)
LEVEL_DEVIATION = 0.1  # υ, on the prior's scale: a fortieth of the score's range
CHANGE_PROBABILITY = 0.05  # probability of a change between two editions
MAX_COMPONENTS, NEGLIGIBLE_WEIGHT = 48, 1e-3  # only the most probable components of the grid are kept


@dataclass(frozen=True, eq=False)
class Observations:
    """Noisy scores, each of one candidate in one edition, at points in the unit cube, on the prior's scale."""

    points: NDArray[np.float64]
    ages: NDArray[np.int64]
    values: NDArray[np.float64]
    noise: NDArray[np.float64]
    guess: NDArray[np.float64]

    def followed_by(self, other: "Observations") -> "Observations":
        """Return these observations (noisy scores) and then the others, as one."""
        pairs = (
            (getattr(self, name), getattr(other, name)) for name in ("points", "ages", "values", "noise", "guess")
        )
        return Observations(*(np.concatenate(pair) for pair in pairs))


@dataclass(frozen=True, eq=False, kw_only=True)
class Drifting(Components):
    """A mixture of drifting Gaussian processes (ℓ, s², a, q, b) given some observations; of the present score."""

    observations: Observations  # what they were fitted to
    drifts: NDArray[np.float64]  # q and b of each component, (C,) each
    changes: NDArray[np.int64]  # q and b of each component, (C,) each

    _by_component: ClassVar[tuple[str, ...]] = (*Components._by_component, "drifts", "changes")

    @property
    def log_likelihoods(self) -> NDArray[np.float64]:
        """The log-likelihood log N(ȳ; a·h, A) of each mixture component, without u/2·log 2π, (C,)."""
        return _log_likelihood(self.factors, self.whitened)

    def conditioned_on(self, observations: Observations) -> "Drifting":
        """Return the same components with the same weights, conditioned on other `observations`.

        The weights are not updated here. The caller multiplies them by the likelihood of the new observations given
        the old ones, the difference of the two `log_likelihoods`.
        """
        R = correlations(self.prior.kernel, self.lengthscales, observations.points, observations.points)
        A = self.variances[:, None, None] * R
        A *= _edition_correlation(self.drifts, self.changes, observations.ages, observations.ages)
        L = np.asarray(np.linalg.cholesky(A + _shared(self.prior, observations)), dtype=np.float64)
        Z = np.asarray(
            np.linalg.solve(L, (observations.values - self.trusts[:, None] * observations.guess)[..., None])[..., 0]
        )
        return replace(self, observations=observations, factors=L, whitened=Z)

    @property
    def _level_variance(self) -> float:
        return self.prior.offset_deviation**2 + LEVEL_DEVIATION**2

    def _solved(self, candidates: NDArray[np.float64]) -> NDArray[np.float64]:
        now = np.zeros(len(candidates), dtype=np.int64)  # candidates are predicted at age 0, the present
        K = self.variances[:, None, None] * correlations(
            self.prior.kernel, self.lengthscales, self.observations.points, candidates
        )
        K *= _edition_correlation(self.drifts, self.changes, self.observations.ages, now)
        K += self.prior.offset_deviation**2 + LEVEL_DEVIATION**2 * (self.observations.ages == 0)[:, None]
        return np.asarray(np.linalg.solve(self.factors, K), dtype=np.float64)


def past_observations(past: Observations, prior: Prior) -> Drifting:
    """Return the most probable drifting Gaussian processes, as a mixture, given the scores of earlier editions.

    Every observation of `past` has age 1 or more. Each cell of the grid (b, q, ℓ, s, a) is weighted by its prior
    times the likelihood of `past`; the `MAX_COMPONENTS` heaviest are kept, without those of negligible weight.
    """
    lengthscales, deviations, log_prior = grid_of(prior)
    trusts, drifts = np.array(TRUST_LEVELS) if prior.guessed else np.zeros(1), np.array(DRIFTS)
    oldest = int(past.ages.max())
    changes = np.arange(oldest + 1, 1, -1)  # the first, oldest + 1, is no change within the observations
    R = correlations(prior.kernel, lengthscales, past.points, past.points)
    shared, residuals = _shared(prior, past), past.values[:, None] - past.guess[:, None] * trusts
    log_weights = np.empty((len(changes), len(drifts), len(lengthscales), len(deviations), len(trusts)))
    for place in np.ndindex(log_weights.shape[:2]):
        b, q = changes[place[0]], drifts[place[1]]
        correlated = R * _edition_correlation(np.array([q]), np.array([b]), past.ages, past.ages)
        L = np.asarray(
            np.linalg.cholesky(deviations[None, :, None, None] ** 2 * correlated[:, None] + shared),
            dtype=np.float64,
        )
        Z = np.asarray(np.linalg.solve(L, np.broadcast_to(residuals, (*L.shape[:2], *residuals.shape))))
        log_weights[place] = _log_likelihood(L[:, :, None], np.moveaxis(Z, -1, 2)) + log_prior[:, :, None]
        log_weights[place] += 0.0 if b > oldest else math.log(CHANGE_PROBABILITY)  # prior of a change at age b
    weights = np.exp(log_weights - log_weights.max())
    order = np.argsort(-weights, axis=None, kind="stable")[:MAX_COMPONENTS]
    order = order[weights.flat[order] >= NEGLIGIBLE_WEIGHT * weights.sum()]
    c, d, i, j, k = np.unravel_index(order, weights.shape)
    heaviest = weights.flat[order]
    components = Drifting(
        prior=prior,
        observations=past,
        weights=heaviest / heaviest.sum(),
        lengthscales=lengthscales[i],
        variances=deviations[j] ** 2,
        trusts=trusts[k],
        drifts=drifts[d],
        changes=changes[c],
        factors=np.empty((0, 0)),  # these two are computed by `conditioned_on`
        whitened=np.empty((0, 0)),
    )
    return components.conditioned_on(past)


def _shared(prior: Prior, observations: Observations) -> NDArray[np.float64]:
    """Return the covariance, (u, u), that all mixture components share: that of the levels and of the noise."""
    same = LEVEL_DEVIATION**2 * (observations.ages[:, None] == observations.ages)
    shared: NDArray[np.float64] = prior.offset_deviation**2 + same + np.diag(np.maximum(observations.noise, JITTER))
    return shared


def _edition_correlation(
    drifts: NDArray[np.float64], changes: NDArray[np.int64], ages: NDArray[np.int64], others: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return each component's correlation of scores at two ages: (C,), (C,), (n,), (m,) → (C, n, m)."""
    apart = np.abs(ages[:, None] - others)
    older, others_older = ages >= changes[:, None], others >= changes[:, None]
    related = older[:, :, None] == others_older[:, None, :]
    return np.where(related, np.exp(-drifts[:, None, None] * apart), 0.0)


def _log_likelihood(factors: NDArray[np.float64], whitened: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the log-likelihood log N(ȳ; a·h, A) without u/2·log 2π, from L and L⁻¹(ȳ − a·h): (…, u, u), (…, u)."""
    log_det = np.log(np.diagonal(factors, axis1=-2, axis2=-1)).sum(axis=-1)
    log_likelihood: NDArray[np.float64] = -0.5 * (whitened * whitened).sum(axis=-1) - log_det
    return log_likelihood
