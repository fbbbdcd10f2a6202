"""Papernot, Steinke: Hyperparameter Tuning with Rényi Differential Privacy. ICLR 2022.

Numbers as in arXiv 2110.03620v2. A random number K of trials, each private, and the best of them alone.

| symbol | name here | meaning | shape |
|---|---|---|---|
| η | `shape` | shape of the truncated negative binomial; 1 geometric, 0 logarithmic | scalar > −1 |
| γ | `gamma` | its other parameter; smaller means more trials | scalar in (0, 1) |
| μ | `mean` | E[K], or the mean of the Poisson distribution | scalar > 0 |
| α | `alpha` | Rényi order | scalar > 1 |

Definition 1: Pr[K = k] = (1−γ)^k/(γ^{−η} − 1) · ∏_{ℓ<k} (ℓ+η)/(ℓ+1); for η = 0, (1−γ)^k/(k log(1/γ)).
Theorems 2 and 6 are those of `wang_2023` at c = C = 1, where the densities do not adapt. Erratum: Theorem 6 as
printed, ε′ = ε + μδ̂ + log μ/(α−1), leaves out the outcome of K = 0, a fixed default: the cost of a trial that
reveals nothing is negative for μ < 1.
"""

import math

_NEARLY_ZERO = 1e-200  # |η| below which η log γ might underflow; expm1 is exact enough for every other


def negative_binomial_mean(*, shape: float, gamma: float) -> float:
    """The mean number of trials E[K] = η(1−γ)/(γ(1−γ^η)); for η = 0, (1/γ − 1)/log(1/γ). Source: Definition 1."""
    odds = (1.0 - gamma) / gamma
    if _is_logarithmic(shape, gamma):
        return odds / -math.log(gamma)
    return odds * shape / -math.expm1(shape * math.log(gamma))


def negative_binomial_gamma(*, shape: float, mean: float) -> float:
    """Return the γ at which the truncated negative binomial law has the mean `mean`; ValueError where none does.

    Raises:
        ValueError: η ≤ −1, a mean of 1 or less, or one that no γ above 1e-300 reaches (η near −1).
    """
    _check_shape(shape)
    low, high = math.log(1e-300), 0.0  # E[K] falls from its supremum to 1 as γ rises to 1
    if not (math.isfinite(mean) and mean > 1.0 and mean < negative_binomial_mean(shape=shape, gamma=1e-300)):
        raise ValueError("no γ gives this mean")
    while True:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            return math.exp(middle)
        if negative_binomial_mean(shape=shape, gamma=math.exp(middle)) > mean:
            low = middle
        else:
            high = middle


def negative_binomial_log_tail(k: int, *, shape: float, gamma: float) -> float:
    """Return the log of a bound on the probability of more than k trials, rounded up; 0 if it says nothing.

    Pr[K > k] ≤ Pr[K = k+1]/(1 − r), r = (1−γ)·max(1, (k+1+η)/(k+2)) the largest ratio of two masses from there on.
    Source: Definition 1.
    """
    ratio = (1.0 - gamma) * max(1.0, (k + 1.0 + shape) / (k + 2.0))
    rest = gamma if ratio == 1.0 - gamma else 1.0 - ratio * (1.0 + 1e-15)
    if rest <= 0.0:
        return 0.0
    k += 1
    if _is_logarithmic(shape, gamma):
        log_first = -math.log(k) - math.log(-math.log(gamma))
    else:
        log_product = math.lgamma(k + shape) - math.lgamma(1.0 + shape) - math.lgamma(k + 1.0)
        x = -shape * math.log(gamma)
        # e^x − 1 as e^x(1 − e^−x) where x > 0: e^x may be no number
        log_first = log_product + math.log(abs(shape)) - max(x, 0.0) - math.log(-math.expm1(-abs(x)))
    log_tail = k * math.log1p(-gamma) + log_first - math.log(rest)
    rounding = 1e-14 * (abs(math.lgamma(k + 1.0)) + k * gamma + 1.0)  # two log Γ of about this size cancel
    return min(0.0, log_tail + rounding)


def with_default(renyi: float, *, alpha: float, mean: float) -> float:
    """Return the Rényi cost once the default outcome of K = 0 is counted: log(e^{−μ} + e^{(α−1)ε′})/(α−1)."""
    larger = max(-mean, (alpha - 1.0) * renyi)
    return (larger + math.log1p(math.exp(min(-mean, (alpha - 1.0) * renyi) - larger))) / (alpha - 1.0)


def _is_logarithmic(shape: float, gamma: float) -> bool:
    """Return whether η is taken for 0, the logarithmic law; ValueError for an impossible η or γ."""
    _check_shape(shape)
    if not 0.0 < gamma < 1.0:
        raise ValueError("γ lies between 0 and 1")
    return abs(shape) < _NEARLY_ZERO


def _check_shape(shape: float) -> None:
    if not (math.isfinite(shape) and shape > -1.0):
        raise ValueError("η lies above −1")
