"""Srinivas, Krause, Kakade, Seeger: Gaussian Process Optimization in the Bandit Setting. ICML 2010.

Numbers as in arXiv 0912.3995v4.

| symbol | name here | meaning | shape |
|---|---|---|---|
| D, N | `n_candidates` | the finite set searched (Λ elsewhere in this project) and its size | scalar ≥ 1 |
| t, T | `step`, `n_steps` | a step; all of them, fixed in advance | scalar ≥ 1 |
| δ | `delta` | failure probability, over the draw of f and of the noise | scalar in (0, 1) |
| σ² | `noise_variance` | variance of the noise in one observation | scalar > 0 |
| k, K | `gram` | prior covariance on D, whole or column by column | (N, N), or a function: index → (N,) |
| β_t | `beta` | width of the confidence bounds: μ_{t−1} ± √β_t·σ_{t−1} | scalar |
| γ_T | `information_gain_bound` | most that T observations can tell about f, in nats | scalar |
| n | — | observations of each candidate, real numbers allowed | (N,) |
| F(n) | — | ½ log det(I + σ⁻² N^½ K N^½), N = diag(n): the information gain | scalar |
| s² | `variances` | posterior variance at every candidate after the observations n | (N,) |
"""

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

Column = Callable[[int], NDArray[np.float64]]
Gram = NDArray[np.float64] | Column

_CLOSE_RATIO = (
    1.28  # times greedy's gain, which is below γ_T: near enough where going on costs more than the search
)
_CLOSER_RATIO, _MAX_GREEDY_CANDIDATES = 1.04, 4096  # and on so few candidates, where it costs milliseconds
_PLACEMENT_SHARES = (0.5, 0.25)  # of an observation, that greedy may place at once
_BEYOND_RATIO = 1.5  # times T, where the second bound has passed its least value
_HOPELESS_RATIO = 3.0  # times the first bound: a second one this far above it is left alone
_MAX_ENTRIES = 2**26  # entries of V, half a gigabyte


def beta(*, n_candidates: int, step: int, delta: float) -> float:
    """The weight β_t = 2 log(N t² π²/(6δ)): |f − μ_{t−1}| ≤ √β_t·σ_{t−1} on D at all t, with probability 1 − δ.

    Holds when: f is a draw of the Gaussian process whose kernel is used (taken on by the caller).
    Neighbours: none; not a privacy statement. Source: Theorem 1; Lemma 5.1 with π_t = π²t²/6. Erratum: none.
    """
    return 2.0 * math.log(n_candidates * step**2 * math.pi**2 / (6.0 * delta))


def regret_constant(*, noise_variance: float) -> float:
    """Return the constant C₁ = 8/log(1 + σ⁻²) of the regret bound R_T ≤ √(C₁ T β_T γ_T), with probability 1 − δ.

    Holds when: as for `beta`, k(λ, λ) ≤ 1, and the acquisition is UCB with that β_t (verified by code).
    Neighbours: none; not a privacy statement. Source: Theorem 1. Erratum: none.
    """
    return 8.0 / math.log1p(1.0 / noise_variance)


def information_gain_bound(*, gram: Gram, n_steps: int, noise_variance: float) -> float:
    """An upper bound, rounded up, on γ_T = max F(n) over whole n ≥ 0 with Σn = T; ValueError where k(λ, λ) varies.

    Greedy observes where the posterior variance is largest, repeats allowed; F_t is its gain after t observations
    and δ_t = F_t − F_{t−1}. The smallest of
      · F_t + T·δ_{t+1} for t < T: at t = 0 this is T·½log(1 + σ⁻² max k(λ, λ)), and the smallest is never above
        F_T/(1 − 1/e), which is proved from it;
      · F(n) + (T·max s² − Σ n s²)/(2σ²) for real n ≥ 0 of any total: F is concave with gradient s²/(2σ²). The n
        are greedy's own after each step, and where these are not close, those of a greedy that places a half or a
        quarter of an observation at a time.
    The first wins where T observations cannot cover D, the second, within a few per cent of γ_T, where they can.

    Holds when: K is positive semidefinite, and k(λ, λ) is one constant (verified at every column asked for).
    Neighbours: none; a function of public quantities alone. Source: section 2, "Information Gain & Experimental
        Design", and Nemhauser et al. (1978), whose proof gives the first bound; the second is convex duality.
    Erratum: printed as a maximum over sets A ⊂ D. On a finite D the search may revisit, so it runs over multisets,
        to which submodularity and the greedy bound carry over (D with T copies of each candidate).

    Args:
        gram: K, (N, N); or a function from an index to that column of K, (N,), so that a large N fits.
        n_steps: T ≥ 0.
        noise_variance: σ² > 0.

    Returns:
        The bound, in nats.

    Raises:
        ValueError: the diagonal is not constant.
    """
    if n_steps == 0:
        return 0.0
    column: Column = gram if callable(gram) else np.asarray(gram, dtype=np.float64).__getitem__
    T, first = n_steps, column(0)
    prior = np.full(len(first), float(first[0]))
    best = dual = math.inf
    F = 0.0
    for gain, largest, explained in _greedy(prior, column, T, noise_variance, share=1.0):
        submodular, F = F + T * gain, F + gain
        dual = F + (T * largest - explained) / (2.0 * noise_variance)
        best = min(best, submodular, dual)
    enough = F * (_CLOSER_RATIO if len(prior) <= _MAX_GREEDY_CANDIDATES else _CLOSE_RATIO)
    hopeless = dual > _HOPELESS_RATIO * best
    for share in _PLACEMENT_SHARES:
        picks = math.ceil(_BEYOND_RATIO * T / share)
        if hopeless or picks * len(prior) > _MAX_ENTRIES:
            break
        F = 0.0
        for gain, largest, explained in _greedy(prior, column, picks, noise_variance, share=share):
            if best <= enough:
                break
            F += gain
            best = min(best, F + (T * largest - explained) / (2.0 * noise_variance))
    # Products and Cholesky are off by a few hundred ε of the largest k(λ, λ) at the most.
    return best * (1.0 + 1e-12) + 1e-13 * T * float(prior.max()) / noise_variance


def _greedy(
    prior: NDArray[np.float64], column: Column, picks: int, sigma2: float, *, share: float
) -> Iterator[tuple[float, float, float]]:
    """Observe, a `share` at a time, where the variance is largest; yields (gain in F, max s², Σ n s²) after each.

    Each observation is a share of a whole one.
    """
    noise, variances, chosen = sigma2 / share, prior.copy(), []
    V = np.empty((picks, len(prior)))  # rows of L⁻¹K(chosen, D), L Lᵀ = K(chosen, chosen) + noise·I
    i = int(np.argmax(variances))
    for t in range(picks):
        gain = 0.5 * math.log1p(float(variances[i]) / noise)
        of_i = column(i)
        if abs(float(of_i[i]) - float(prior[i])) > 1e-12 * float(prior[i]):
            raise ValueError("k(λ, λ) is not the same at every candidate")
        np.subtract(of_i, V[:t, i].copy() @ V[:t], out=V[t])
        V[t] /= math.sqrt(float(variances[i]) + noise)
        variances -= V[t] ** 2
        np.maximum(variances, 0.0, out=variances)
        chosen.append(i)
        i = int(np.argmax(variances))
        yield gain, float(variances[i]), share * float(variances[chosen].sum())
