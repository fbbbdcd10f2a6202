"""What counts prove of a mechanism's ε, with a stated false-alarm rate.

| symbol | name here | meaning | shape |
|---|---|---|---|
| ℓ | `here`, `there` | log-likelihood ratios of transcripts of V and of V′; positive speaks for V | (n,) |
| p, p′ | — | Pr[ℓ in the event] on V and on V′, each bounded by Clopper and Pearson at `level` | scalars |
| μ | `separation` | Φ⁻¹(p) − Φ⁻¹(p′): for Gaussian noise, the distance of the two means in deviations | scalar |

Sources: Clopper, Pearson (1934); Nasr et al., "Tight Auditing of Differentially Private Machine Learning" (2023),
Section 5, for the bound through μ; Dong, Roth, Su (2022), Corollary 1, for ε(μ, δ). A false alarm has a probability
of at most 2·`level`: either of the two bounds fails.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import betaincinv, log_ndtr, ndtri

Values = NDArray[np.float64]
ALL_ROWS = 1e-3  # of a false alarm in any row of a run of the audit
N_ROWS = 20  # more than the audit has
LEVEL = ALL_ROWS / (2 * N_ROWS)
_THRESHOLDS = np.linspace(0.001, 0.999, 333)


def at_least(hits: NDArray[np.int64], n: int, level: float) -> Values:
    """The least probability under which so many hits are not rarer than `level`."""
    hits = np.asarray(hits, dtype=float)
    return np.where(hits > 0, betaincinv(np.maximum(hits, 1.0), n - hits + 1.0, level), 0.0)


def at_most(hits: NDArray[np.int64], n: int, level: float) -> Values:
    """The greatest probability under which so few hits are not rarer than `level`."""
    hits = np.asarray(hits, dtype=float)
    return np.where(hits < n, betaincinv(hits + 1.0, np.maximum(n - hits, 1.0), 1.0 - level), 1.0)


def by_events(here: Values, there: Values, *, level: float, threshold: float | None = None) -> float:
    """ε at δ = 0 by log(p/p′): {ℓ > t} or {ℓ ≤ t}, chosen on a fifth of the runs and tested on the rest.

    With a threshold the event is {ℓ > threshold}, and all runs test it.
    """
    if threshold is not None:
        one, other = (_hits(side, np.array([threshold]), above=True) for side in (here, there))
        return float(_ratio(one, other, len(here), level)[0])
    n = len(here)
    part = n // 5  # counted as if there were no more: an event that is rare by luck is not chosen
    best, chosen = -math.inf, (0.0, True, True)
    values = np.concatenate([here[:part], there[:part]])
    thresholds = np.unique(np.quantile(values, _THRESHOLDS, method="lower"))
    for above in (True, False):
        counts = [_hits(side[:part], thresholds, above=above) for side in (here, there)]
        for forward in (True, False):
            one, other = counts if forward else counts[::-1]
            found = _ratio(one, other, part, level)
            if found.max() > best:
                best, chosen = float(found.max()), (float(thresholds[found.argmax()]), above, forward)
    threshold, above, forward = chosen
    counts = [_hits(side[part:], np.array([threshold]), above=above) for side in (here, there)]
    one, other = counts if forward else counts[::-1]
    return float(_ratio(one, other, n - part, level)[0])


def separation(here: Values, there: Values, *, level: float) -> float:
    """A lower bound on Φ⁻¹(Pr[ℓ > 0 on V]) − Φ⁻¹(Pr[ℓ > 0 on V′])."""
    p = at_least(np.count_nonzero(here > 0.0), len(here), level)
    q = at_most(np.count_nonzero(there > 0.0), len(there), level)
    return float(ndtri(p) - ndtri(q)) if p > 0.0 and q < 1.0 else -math.inf


def gaussian_delta(mu: float, epsilon: float) -> float:
    """δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ), for an ε below 0 too."""
    first, second = float(log_ndtr(mu / 2.0 - epsilon / mu)), float(log_ndtr(-mu / 2.0 - epsilon / mu))
    return math.exp(first) * -math.expm1(min(0.0, epsilon + second - first))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The ε at δ of two Gaussians whose means are μ deviations apart; 0 where there is none."""
    if mu <= 0.0 or gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    return float(brentq(lambda e: gaussian_delta(mu, e) - delta, 0.0, mu * mu + 40.0 * mu))


def _hits(values: Values, thresholds: Values, *, above: bool) -> NDArray[np.int64]:
    up_to = np.searchsorted(np.sort(values), thresholds, side="right")
    return len(values) - up_to if above else up_to


def _ratio(one: NDArray[np.int64], other: NDArray[np.int64], n: int, level: float) -> Values:
    with np.errstate(divide="ignore"):
        return np.log(at_least(one, n, level)) - np.log(at_most(other, n, level))
