"""Papernot, Steinke: Hyperparameter Tuning with Rényi Differential Privacy. ICLR 2022.

Numbers as in arXiv 2110.03620v2. A random number K of trials, each private, and the best of them alone.

| symbol | name here | meaning | shape |
|---|---|---|---|
| η | `shape` | shape of the truncated negative binomial; 1 geometric, 0 logarithmic | scalar > −1 |
| γ | `gamma` | its other parameter; smaller means more trials | scalar in (0, 1) |
| μ | `mean` | E[K], or the mean of the Poisson distribution | scalar > 0 |
| f | `…_generating_function` | E[x^K] | scalar in [0, 1] |
| α, α̂ | `alpha`, `alpha_hat` | Rényi orders, the second one free | scalars > 1, ≥ 1 |
| ε, ε̂ | `base_epsilon`, `base_epsilon_hat` | Rényi cost of ONE trial at α, at α̂ | scalars ≥ 0 |
| δ̂ | `base_delta_hat` | a trial's δ at ε̂ = log(α/(α−1)) | scalar in [0, 1] |
"""

import math
from typing import Literal

Calibration = Literal["published", "corrected"]

_NEARLY_ZERO = 1e-200  # |η| below which η log γ might underflow; expm1 is exact enough for every other


def negative_binomial_mass(k: int, *, shape: float, gamma: float) -> float:
    """Pr[K = k], k ≥ 1.

    Pr[K = k] = (1−γ)^k/(γ^{−η} − 1) · ∏_{ℓ<k} (ℓ+η)/(ℓ+1); for η = 0, (1−γ)^k/(k log(1/γ)).
    Source: Definition 1.
    """
    if k < 1:
        return 0.0
    log_tail = k * math.log1p(-gamma)
    if _is_logarithmic(shape, gamma):
        return math.exp(log_tail) / (k * -math.log(gamma))
    # the first factor of the product is η; |η| keeps the logarithm real, and its sign is the denominator's
    log_product = math.lgamma(k + shape) - math.lgamma(1.0 + shape) - math.lgamma(k + 1.0)
    return math.exp(log_tail + log_product) * shape / math.expm1(-shape * math.log(gamma))


def negative_binomial_mean(*, shape: float, gamma: float) -> float:
    """E[K] = η(1−γ)/(γ(1−γ^η)); for η = 0, (1/γ − 1)/log(1/γ). Source: Definition 1."""
    odds = (1.0 - gamma) / gamma
    if _is_logarithmic(shape, gamma):
        return odds / -math.log(gamma)
    return odds * shape / -math.expm1(shape * math.log(gamma))


def negative_binomial_gamma(*, shape: float, mean: float) -> float:
    """The γ whose E[K] is `mean`, by bisection on log γ.

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


def negative_binomial_generating_function(x: float, *, shape: float, gamma: float) -> float:
    """E[x^K] = ((1−(1−γ)x)^{−η} − 1)/(γ^{−η} − 1); for η = 0, log(1−(1−γ)x)/log γ. Source: Definition 1."""
    log_rest = math.log1p(-(1.0 - gamma) * x)
    if _is_logarithmic(shape, gamma):
        return log_rest / math.log(gamma)
    return math.expm1(-shape * log_rest) / math.expm1(-shape * math.log(gamma))


def negative_binomial_log_tail(k: int, *, shape: float, gamma: float) -> float:
    """Log of a bound on Pr[K > k], rounded up; 0 where the bound says nothing.

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


def poisson_mass(k: int, *, mean: float) -> float:
    """Pr[K = k] = e^{−μ} μ^k/k!, k ≥ 0."""
    return math.exp(k * math.log(mean) - mean - math.lgamma(k + 1.0)) if k >= 0 else 0.0


def poisson_generating_function(x: float, *, mean: float) -> float:
    """The generating function E[x^K] = e^{μ(x−1)} of K ~ Poisson(μ), for 0 ≤ x ≤ 1."""
    return math.exp(mean * (x - 1.0))


def theorem_2_renyi(
    *,
    alpha: float,
    base_epsilon: float,
    alpha_hat: float,
    base_epsilon_hat: float,
    shape: float,
    gamma: float,
) -> float:
    """Rényi cost at α of the best of K ~ NegBin(η, γ) independent trials.

    ε′ = ε + (1+η)(1−1/α̂)ε̂ + (1+η) log(1/γ)/α̂ + log E[K]/(α−1).

    Holds when: every trial is (α, ε)- and (α̂, ε̂)-RDP, K is independent of the data and stays hidden.
    Neighbours: those of the trials. Source: Theorem 2.
    """
    log_mean = math.log(negative_binomial_mean(shape=shape, gamma=gamma))
    again = (1.0 - 1.0 / alpha_hat) * base_epsilon_hat - math.log(gamma) / alpha_hat
    return base_epsilon + (1.0 + shape) * again + log_mean / (alpha - 1.0)


def theorem_6_renyi(
    *, alpha: float, base_epsilon: float, base_delta_hat: float, mean: float, calibration: Calibration
) -> float:
    """Rényi cost at α of the best of K ~ Poisson(μ) independent trials.

    Published: ε′ = ε + μδ̂ + log μ/(α−1).
    Corrected: log(e^{−μ} + e^{(α−1)ε′})/(α−1): the outcome of K = 0, a fixed default, has mass too.

    Holds when: every trial is (α, ε)-RDP and (ε̂, δ̂)-DP at ε̂ = log(1 + 1/(α−1)), K hidden, and K = 0 gives a
    fixed default. Erratum: as printed the cost of a trial that reveals nothing is negative for μ < 1.
    Source: Theorem 6.
    """
    printed = base_epsilon + mean * base_delta_hat + math.log(mean) / (alpha - 1.0)
    return printed if calibration == "published" else with_default(printed, alpha=alpha, mean=mean)


def with_default(renyi: float, *, alpha: float, mean: float) -> float:
    """Log(e^{−μ} + e^{(α−1)ε′})/(α−1): the Rényi cost once the default outcome of K = 0 is counted."""
    larger = max(-mean, (alpha - 1.0) * renyi)
    return (larger + math.log1p(math.exp(min(-mean, (alpha - 1.0) * renyi) - larger))) / (alpha - 1.0)


def capped_delta(*, epsilon: float, tail: float) -> float:
    """(1 + e^ε)·Pr[K > cap]: what running at most `cap` trials adds to δ. infinite ε gives 1.

    Both runs are within `tail` of their uncapped forms in total variation: P(E) ≤ P̃(E) + tail ≤ e^ε P̃′(E) + tail
    ≤ e^ε (P′(E) + tail) + tail.
    """
    return min(1.0, (1.0 + math.exp(epsilon)) * tail) if epsilon < 700.0 else 1.0


def _is_logarithmic(shape: float, gamma: float) -> bool:
    _check_shape(shape)
    if not 0.0 < gamma < 1.0:
        raise ValueError("γ lies between 0 and 1")
    return abs(shape) < _NEARLY_ZERO


def _check_shape(shape: float) -> None:
    if not (math.isfinite(shape) and shape > -1.0):
        raise ValueError("η lies above −1")
