"""Srinivas, Krause, Kakade, Seeger: Gaussian Process Optimization in the Bandit Setting. ICML 2010.

Numbers as in arXiv 0912.3995v4.

| symbol | name here | meaning | shape |
|---|---|---|---|
| D, N | `n_candidates` | the finite set searched (Λ elsewhere in this project) and its size | scalar ≥ 1 |
| t, T | `step`, `n_steps` | a step; all of them, fixed in advance | scalar ≥ 1 |
| δ | `delta` | failure probability, over the draw of f and of the noise | scalar in (0, 1) |
| σ² | `noise_variance` | variance of the noise in one observation | scalar > 0 |
| k, K | `gram` | prior covariance on D | (N, N), or a function: index → column (N,) |
| β_t | `beta` | width of the confidence bounds: μ_{t−1} ± √β_t·σ_{t−1} | scalar |
| γ_T | `information_gain_bound` | most that T observations can tell about f, in nats | scalar |
| n | `counts` | observations of each candidate, real numbers allowed, Σn = T | (N,) |
| F(n) | — | ½ log det(I + σ⁻² N^½ K N^½), N = diag(n): the information gain | scalar |
| s² | `variances` | posterior variance at every candidate after the observations n | (N,) |
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Gram = NDArray[np.float64] | Callable[[int], NDArray[np.float64]]

_ROUNDS, _INNER = 8, 30  # passes over all candidates; multiplicative steps on the support in each
_CLOSE = 1.28  # times greedy's gain, which is below γ_T: near enough where a pass costs as much as the search
_CLOSER, _SMALL = 1.04, 4096  # and on so few candidates, where it costs nothing
_HOPELESS = 3.0  # times the other bound: a dual bound this far above it is left alone
_BLOCK = 8192  # candidates whose variances are computed at once


def beta(*, n_candidates: int, step: int, delta: float) -> float:
    """β_t = 2 log(N t² π²/(6δ)): |f − μ_{t−1}| ≤ √β_t·σ_{t−1} on all of D and at all t, with probability 1 − δ.

    Holds when: f is a draw of the Gaussian process whose kernel is used (taken on by the caller).
    Neighbours: none; not a privacy statement. Source: Theorem 1; Lemma 5.1 with π_t = π²t²/6. Erratum: none.
    """
    return 2.0 * math.log(n_candidates * step**2 * math.pi**2 / (6.0 * delta))


def regret_constant(*, noise_variance: float) -> float:
    """C₁ = 8/log(1 + σ⁻²): R_T ≤ √(C₁ T β_T γ_T) with probability 1 − δ.

    Holds when: as for `beta`, k(λ, λ) ≤ 1, and the acquisition is UCB with that β_t (verified by code).
    Neighbours: none; not a privacy statement. Source: Theorem 1. Erratum: none.
    """
    return 8.0 / math.log1p(1.0 / noise_variance)


def information_gain_bound(*, gram: Gram, n_steps: int, noise_variance: float) -> float:
    """An upper bound on γ_T = max F(n) over whole numbers n ≥ 0 with Σn = T, rounded up.

    Greedy observes T times where the posterior variance is largest, repeats allowed; F_t is its gain after t
    observations and δ_t = F_t − F_{t−1}. The smaller of
      · min over t < T of F_t + T·δ_{t+1}: at t = 0 this is T·½log(1 + σ⁻² max k(λ, λ)), and the minimum is never
        above F_T/(1 − 1/e), which is proved from it;
      · min over several real n of F(n) + (T·max s² − Σ n s²)/(2σ²): F is concave with gradient s²/(2σ²).
    The first wins where T observations cannot cover D, the second, within a few per cent of γ_T, where they can.

    Holds when: K is positive semidefinite; where `gram` is a function, k(λ, λ) is one constant (verified at every
        column asked for).
    Neighbours: none; a function of public quantities alone. Source: section 2, "Information Gain & Experimental
        Design", and Nemhauser et al. (1978), whose proof gives the first bound; the second is convex duality.
    Erratum: printed as a maximum over sets A ⊂ D. On a finite D the search may revisit, so it runs over multisets,
        to which submodularity and the greedy bound carry over (D with T copies of each candidate).

    Args:
        gram: K, (N, N), or a function from an index to that column of K, (N,). O(N·T) memory either way.
        n_steps: T ≥ 0.
        noise_variance: σ² > 0.

    Returns:
        The bound, in nats.

    Raises:
        ValueError: the diagonal is not constant though `gram` is a function.
    """
    if n_steps == 0:
        return 0.0
    T, prior, column = n_steps, _prior_variances(gram), _columns(gram)
    picks, gains, variances = _greedy(prior, column, T, noise_variance)
    before = np.cumsum(gains) - gains
    submodular = float((before + T * gains).min())
    dual = _dual_bound(prior, column, picks, float(gains.sum()), variances, noise_variance, submodular)
    best = min(submodular, dual)
    # Products and Cholesky are off by a few hundred ε of the largest k(λ, λ) at the most.
    return best * (1.0 + 1e-12) + 1e-13 * T * float(prior.max()) / noise_variance


def _greedy(
    prior: NDArray[np.float64], column: Callable[[int], NDArray[np.float64]], T: int, sigma2: float
) -> tuple[list[int], NDArray[np.float64], NDArray[np.float64]]:
    """T candidates, each where the posterior variance is then largest; what each adds to F, (T,); s² after them."""
    variances, picks, gains = prior.copy(), [], np.empty(T)
    V = np.empty((T, len(prior)))  # rows of L⁻¹K(picks, D), L Lᵀ = K(picks, picks) + σ²I
    for t in range(T):
        i = int(np.argmax(variances))
        picks.append(i)
        gains[t] = 0.5 * math.log1p(float(variances[i]) / sigma2)
        np.subtract(column(i), V[:t, i].copy() @ V[:t], out=V[t])
        V[t] /= math.sqrt(float(variances[i]) + sigma2)
        variances -= V[t] ** 2
        np.maximum(variances, 0.0, out=variances)
    return picks, gains, variances


def _dual_bound(
    prior: NDArray[np.float64],
    column: Callable[[int], NDArray[np.float64]],
    picks: list[int],
    gain: float,
    variances: NDArray[np.float64],
    sigma2: float,
    other: float,
) -> float:
    """The least F(n) + (T·max s² − Σ n s²)/(2σ²) over several n, from greedy's on; of use if below `other`.

    Greedy has found its own F and s², so a bound that is good or hopeless there costs nothing more.
    """
    T, support = len(picks), sorted(set(picks))
    counts = np.array([picks.count(i) for i in support], dtype=float)
    K_S, best, enough = np.empty((0, len(prior))), math.inf, gain * (_CLOSE if len(prior) > _SMALL else _CLOSER)
    for rounds_left in reversed(range(_ROUNDS)):
        gap = max(0.0, (T * float(variances.max()) - float(counts @ variances[support])) / (2.0 * sigma2))
        best = min(best, gain + gap)
        if rounds_left == 0 or min(best, other) <= enough or best > _HOPELESS * other:
            break
        if len(K_S) == 0:
            K_S = np.array([column(i) for i in support])
            _, G = _gain(K_S[:, support], counts, sigma2)
        # Frank–Wolfe: move mass to where the variance is largest, to T places at once, then level it.
        mass = T / (len(support) + T)
        added, _, _ = _greedy(variances, _posterior_columns(column, K_S, G), T, sigma2 / mass)
        fresh = sorted(set(added) - set(support))
        if fresh:
            support = support + fresh
            counts = np.append(counts, np.full(len(fresh), mass))
            K_S = np.concatenate([K_S, [column(i) for i in fresh]])
        counts = _rebalanced(K_S[:, support], counts * (T / float(counts.sum())), sigma2)
        gain, G = _gain(K_S[:, support], counts, sigma2)
        variances = _posterior_variances(prior, K_S, G)
    return best


def _rebalanced(K_SS: NDArray[np.float64], counts: NDArray[np.float64], sigma2: float) -> NDArray[np.float64]:
    """Multiplicative steps n ← n·s², rescaled to the same total: at a maximum of F on the support, s² is level."""
    T = float(counts.sum())
    for _ in range(_INNER):
        _, G = _gain(K_SS, counts, sigma2)
        counts = counts * _posterior_variances(np.diag(K_SS), K_SS, G)
        counts *= T / float(counts.sum())
    return counts


def _gain(
    K_SS: NDArray[np.float64], counts: NDArray[np.float64], sigma2: float
) -> tuple[float, NDArray[np.float64]]:
    """F(n), and G with s²(λ) = k(λ, λ) − ‖G K(S, λ)‖²."""
    root = np.sqrt(counts / sigma2)
    L = np.linalg.cholesky(np.eye(len(counts)) + root[:, None] * K_SS * root)
    return float(np.log(np.diag(L)).sum()), np.linalg.solve(L, np.diag(root))


def _posterior_variances(
    prior: NDArray[np.float64], K_S: NDArray[np.float64], G: NDArray[np.float64]
) -> NDArray[np.float64]:
    """s², shape (N,), a block of candidates at a time."""
    variances = prior.copy()
    for start in range(0, len(prior), _BLOCK):
        block = slice(start, start + _BLOCK)
        variances[block] -= ((G @ K_S[:, block]) ** 2).sum(axis=0)
    return np.maximum(variances, 0.0, out=variances)


def _posterior_columns(
    column: Callable[[int], NDArray[np.float64]], K_S: NDArray[np.float64], G: NDArray[np.float64]
) -> Callable[[int], NDArray[np.float64]]:
    """Columns of the posterior covariance, which is what is left for `_greedy` to explain."""
    P = G.T @ G
    return lambda i: column(i) - (P @ K_S[:, i]) @ K_S


def _prior_variances(gram: Gram) -> NDArray[np.float64]:
    if callable(gram):
        first = gram(0)
        return np.full(len(first), float(first[0]))
    return np.diag(gram).astype(float)


def _columns(gram: Gram) -> Callable[[int], NDArray[np.float64]]:
    if not callable(gram):
        return lambda i: gram[:, i]
    constant = float(gram(0)[0])

    def checked(i: int) -> NDArray[np.float64]:
        column = gram(i)
        if abs(float(column[i]) - constant) > 1e-12 * constant:
            raise ValueError("k(λ, λ) is not the same at every candidate; give the whole matrix")
        return column

    return checked
