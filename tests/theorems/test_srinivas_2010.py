"""Srinivas et al. (2010) against enumeration, closed forms and simulated regret."""

import math
from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpbo_core.search.gp import Matern52
from dpbo_core.theorems.srinivas_2010 import information_gain_bound, regret_constant

QUIET = settings(deadline=None, database=None, derandomize=True, max_examples=60)


def gain(K: NDArray[np.float64], picks: tuple[int, ...], sigma2: float) -> float:
    """½ log det(I + σ⁻² K_A) of a multiset A."""
    A = np.eye(len(picks)) + K[np.ix_(picks, picks)] / sigma2
    return 0.5 * float(np.linalg.slogdet(A)[1])


def largest_gain(K: NDArray[np.float64], T: int, sigma2: float) -> float:
    return max(gain(K, picks, sigma2) for picks in combinations_with_replacement(range(len(K)), T))


def correlations(seed: int, N: int, rank: int) -> NDArray[np.float64]:
    """A random positive semidefinite matrix with unit diagonal."""
    A = np.random.default_rng(seed).normal(size=(N, rank))
    A /= np.linalg.norm(A, axis=1, keepdims=True)
    K = A @ A.T
    np.fill_diagonal(K, 1.0)
    return K


def test_regret_constant_by_hand() -> None:
    assert regret_constant(noise_variance=1.0) == pytest.approx(8.0 / math.log(2.0), rel=1e-15)
    assert regret_constant(noise_variance=1.0 / (math.e - 1.0)) == pytest.approx(8.0, rel=1e-14)
    assert regret_constant(noise_variance=1e12) == pytest.approx(8e12, rel=1e-11)


@pytest.mark.parametrize("sigma2", [1e-2, 0.25, 4.0])
def test_independent_candidates(sigma2: float) -> None:
    assert information_gain_bound(gram=np.eye(9).__getitem__, n_steps=5, noise_variance=sigma2) == pytest.approx(
        2.5 * math.log1p(1.0 / sigma2), rel=1e-9
    )


@pytest.mark.parametrize("sigma2", [1e-2, 0.25, 4.0])
@pytest.mark.parametrize("T", [1, 7, 300])
def test_one_candidate_seen_again_and_again(sigma2: float, T: int) -> None:
    for gram in (np.ones((1, 1)), np.ones((20, 20))):
        bound = information_gain_bound(gram=gram.__getitem__, n_steps=T, noise_variance=sigma2)
        assert bound == pytest.approx(0.5 * math.log1p(T / sigma2), rel=1e-8)
        assert bound >= 0.5 * math.log1p(T / sigma2)


def test_no_steps_tell_nothing() -> None:
    assert information_gain_bound(gram=np.eye(3).__getitem__, n_steps=0, noise_variance=0.1) == 0.0


def test_two_pairs_of_twins() -> None:
    """Two independent scores, each under two names: 3 and 3 of 6 observations, ½·2·log(1 + 3/σ²)."""
    bound = information_gain_bound(
        gram=np.kron(np.eye(2), np.ones((2, 2))).__getitem__, n_steps=6, noise_variance=0.5
    )
    assert bound == pytest.approx(math.log(7.0), rel=1e-8)


@QUIET
@given(
    seed=st.integers(0, 10_000),
    rank=st.integers(1, 6),
    T=st.integers(1, 4),
    sigma2=st.sampled_from([1e-4, 1e-2, 0.3, 5.0]),
    scale=st.sampled_from([1.0, 0.2, 3.0]),
)
def test_no_multiset_of_six_candidates_tells_more(
    seed: int, rank: int, T: int, sigma2: float, scale: float
) -> None:
    K = scale * correlations(seed, 6, rank)
    truth = largest_gain(K, T, sigma2)
    greedy = greedy_by_variance(K, T, sigma2)
    bound = information_gain_bound(gram=K.__getitem__, n_steps=T, noise_variance=sigma2)
    assert truth <= bound
    assert bound <= greedy / (1.0 - 1.0 / math.e) * (1.0 + 1e-6)
    assert bound <= 0.5 * T * math.log1p(scale / sigma2) * (1.0 + 1e-6)


def test_an_uneven_diagonal_is_refused() -> None:
    K = np.diag([1.0, 4.0, 0.25])
    with pytest.raises(ValueError, match="not the same"):
        information_gain_bound(gram=K.__getitem__, n_steps=4, noise_variance=0.5)


@pytest.mark.parametrize("sigma2", [1e-1, 1e-2, 1e-4])
@pytest.mark.parametrize("T", [20, 50])
def test_far_below_the_classical_bound_where_steps_cover_the_set(sigma2: float, T: int) -> None:
    X = np.linspace(0.0, 1.0, 300)[:, None]
    K = Matern52(0.3).matrix(X, X)
    greedy = greedy_by_variance(K, T, sigma2)
    bound = information_gain_bound(gram=K.__getitem__, n_steps=T, noise_variance=sigma2)
    assert greedy <= bound <= 1.05 * greedy  # greedy/(1 − 1/e) is 1.58 of it


def greedy_by_variance(K: NDArray[np.float64], T: int, sigma2: float) -> float:
    """The gain of T observations where the variance is largest, from the whole posterior covariance."""
    C, total = K.copy(), 0.0
    for _ in range(T):
        i = int(np.argmax(np.diag(C)))
        total += 0.5 * math.log1p(C[i, i] / sigma2)
        C -= np.outer(C[:, i], C[:, i]) / (C[i, i] + sigma2)
    return total
