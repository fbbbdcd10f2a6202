"""One record replaced under the Poisson-sampled Gaussian. Proved here, by a pair that dominates in any dimension.

| symbol | name here | meaning | shape |
|---|---|---|---|
| q | `rate` | probability that a record joins, one coin a record | scalar in [0, 1] |
| σ | `noise_multiplier` | noise over C, the most one record adds (ℓ₂) | scalar > 0 |
| α | `alpha` | Rényi order | scalar > 1 |
| τ | `tau` | part of the noise that makes integers of the continuous rest | scalar > 0, steps |

Statement. Noise N(0, σ²C²I) on a sum of vectors of norm ≤ C over a sample: replacing one record costs at most what
P = (1−q)N(0, σ²) + qN(1, σ²) against Q = (1−q)N(0, σ²) + qN(−1, σ²) costs, at every order, under composition too.

Proof. H_t (hockey-stick) is jointly convex, so fix the others' sample: φ₀ without the record, φ_a and φ_b with its
two versions. For t ≥ 1, H_t = q·E_{φ_a}[(1 − t·φ_b/φ_a − c·φ₀/φ_a)₊], c = (1−q)(t−1)/q ≥ 0. Both ratios are
lognormal of mean 1, and grow in convex order with ‖b−a‖ ≤ 2C and ‖a‖ ≤ C; a sum is largest in that order when
comonotone, (1−x)₊ is convex, and a = Ce, b = −Ce attains all of it at once. For t < 1 take 1 − t + t·H_{1/t}(Q‖P).

Holds when: ONE record is replaced, not several of a person; its coin is its own; empty batches have their noise;
what is divided by is public. A smaller q or a larger σ costs less: both are post-processing.
"""

import math

import numpy as np

_REACH_DEVIATIONS = 12.0  # R: deviations beyond the last point where the integrand can still rise
_DECAY = 38.0  # 2πa/h: the trapezoidal rule is off by e^−38 relative
_MAX_POINTS = 300_000
_ROUND_UP = 2.0**-50


def replace_one_renyi(*, alpha: float, rate: float, noise_multiplier: float) -> float:
    """Return the Rényi cost D_α(P‖Q) = D_α(Q‖P) of one DP-SGD step with the CONTINUOUS Gaussian, rounded up.

    By the trapezoidal rule on f = P^α Q^{1−α}, in units of σ, s = 1/σ. In the strip |Im x| ≤ a, as ≤ α^−½, a ≤ 1,
    |1 − q + qe^{w+iθ}| is at most its value at θ = 0 and at least cos(θ/2) of it, so the rule is off by at most
    2∫f·e^{a²/2} cos(as/2)^{1−α}/(e^{2πa/h} − 1) ≤ 4e^{−38}∫f. Beyond the ends |f′/f| ≥ R, since
    −x ≤ f′/f ≤ −x + (2α−1)s, and what is left is at most f(end)/R. Never more than q = 1, which costs 2α/σ².

    Sources: the file's statement; Trefethen, Weideman (2014), Theorem 5.1.
    """
    s = 1.0 / noise_multiplier
    whole = 2.0 * alpha * s * s * (1.0 + 1e-12)
    if rate == 0.0:
        return 0.0
    end = (2.0 * alpha - 1.0) * s + _REACH_DEVIATIONS
    h = 2.0 * math.pi * min(1.0, 1.0 / (s * math.sqrt(alpha))) / _DECAY
    if rate == 1.0 or (end + _REACH_DEVIATIONS) / h > _MAX_POINTS:
        return whole
    x = np.arange(-_REACH_DEVIATIONS, end + h, h)
    absent, joined = math.log1p(-rate), math.log(rate) - 0.5 * s * s
    log_P, log_Q = np.logaddexp(absent, joined + s * x), np.logaddexp(absent, joined - s * x)
    log_f = alpha * log_P + (1.0 - alpha) * log_Q - 0.5 * x * x
    largest = float(log_f.max())
    f = np.exp(log_f - largest)
    total = (float(f.sum()) * h + float(f[0] + f[-1]) / _REACH_DEVIATIONS) * (1.0 + 8.0 * math.exp(-_DECAY))
    rounding = _ROUND_UP * (2.0 * alpha * (1.0 + s * end - math.log(rate) + s * s) + end * end)
    log_integral = math.log(total / math.sqrt(2.0 * math.pi)) + largest + rounding
    return min(whole, max(0.0, log_integral) / (alpha - 1.0))


def discrete_replace_one_renyi(
    *, alpha: float, rate: float, noise_multiplier: float, sensitivity: float, coordinates: float, tau: float = 3.0
) -> float:
    """Rényi cost, rounded up, of a DP-SGD step; DISCRETE Gaussian noise of σ·`sensitivity` grid steps, ∞ if ≤ τ.

    For it the pair is false (σ = 0.7, q = 0.01, α = 3: .0021831, where the pair has .0021811). With X of variance
    σ² − τ² about an integer and z given X ∝ exp(−(z−X)²/2τ²) on ℤ, which is post-processing, z has the discrete
    Gaussian's law up to e^{±3ξ} a coordinate, ξ = 2Σ_{j≥1} e^{−2π²τ²j²}: both normalisers are within 1 ± ξ of the
    continuous ones. So the pair's curve at √(σ² − τ²), and (2α−1)·3dξ/(α−1) more.

    Args:
        alpha: α.
        rate: q.
        noise_multiplier: σ, noise over the most one record moves the sum of integers.
        sensitivity: at most what one record moves it, in grid steps; a smaller one costs more.
        coordinates: d, or more.
        tau: τ in grid steps.
    """
    rest = noise_multiplier**2 * (1.0 - 1e-15) - (tau / sensitivity) ** 2
    if rest <= 0.0:
        return math.inf
    xi = 2.0 * math.exp(-2.0 * (math.pi * tau) ** 2) / (1.0 - math.exp(-2.0 * (math.pi * tau) ** 2))
    excess = (2.0 * alpha - 1.0) * 3.0 * coordinates * xi / (alpha - 1.0)
    return replace_one_renyi(alpha=alpha, rate=rate, noise_multiplier=math.sqrt(rest)) + excess
