"""The Gaussian process against scikit-learn, extended precision, closed forms and its own definition."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk

from dpbo_core.errors import StudyInvalid
from dpbo_core.search.gp import (
    JITTER,
    KERNELS,
    GrowingCholesky,
    Kernel,
    Matern52,
    Posterior,
    SquaredExponential,
    kernel_named,
    typical_lengthscale,
)
from dpbo_core.search.likelihood import fit

QUIET = settings(deadline=None, database=None, derandomize=True, max_examples=40)


def theirs(name: str, lengthscale: float, variance: float = 1.0) -> sk.Kernel:
    shape = sk.RBF(lengthscale) if name == "se" else sk.Matern(lengthscale, nu=2.5)
    return sk.ConstantKernel(variance) * shape


def smooth(X: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.sin(5.0 * X.sum(axis=1)) + 0.3 * X[:, 0]


def observed(
    candidates: NDArray[np.float64],
    kernel: Kernel,
    noise_variance: float,
    indices: NDArray[np.int64],
    values: NDArray[np.float64],
    prior_mean: float | NDArray[np.float64] = 0.0,
) -> Posterior:
    posterior = Posterior(candidates, kernel, noise_variance, prior_mean)
    for index, value in zip(indices, values, strict=True):
        posterior.observe(int(index), float(value))
    return posterior


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("lengthscale", [0.01, 0.3, 4.0])
def test_kernels_are_scikit_learns(name: str, d: int, lengthscale: float) -> None:
    rng = np.random.default_rng(d)
    A, B = rng.random((300, d)), rng.random((400, d))
    ours = kernel_named(name, lengthscale, 1.7).matrix(A, B)
    np.testing.assert_allclose(ours, theirs(name, lengthscale, 1.7)(A, B), rtol=1e-11, atol=1e-300)
    for j in (0, 399):
        np.testing.assert_array_equal(kernel_named(name, lengthscale, 1.7).column(A, B[j]), ours[:, j])


@pytest.mark.parametrize("name", KERNELS)
def test_near_neighbours_keep_their_digits(name: str) -> None:
    a, b, lengthscale = [0.7, 0.9, 0.8], [0.7 + 1e-7, 0.9 - 3e-7, 0.8 + 2e-7], 1e-7
    with mpmath.workdps(40):
        r = mpmath.sqrt(sum((mpmath.mpf(x) - mpmath.mpf(y)) ** 2 for x, y in zip(a, b, strict=True)))
        u = mpmath.sqrt(5) * r / mpmath.mpf(lengthscale)
        truth = mpmath.exp(-(u**2) / 10) if name == "se" else (1 + u + u**2 / 3) * mpmath.exp(-u)
    ours = kernel_named(name, lengthscale).column(np.array([a]), np.array(b))[0]
    assert float(ours) == pytest.approx(float(truth), rel=1e-13)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("lengthscale", [1e-100, 1e-12, 1e12, 1e100])
def test_extreme_lengthscales_stay_finite(name: str, lengthscale: float) -> None:
    kernel = kernel_named(name, lengthscale)
    K = kernel.matrix(np.array([[0.0], [0.0], [1.0]]), np.array([[0.0], [1.0]]))
    far = 0.0 if lengthscale < 1.0 else 1.0
    np.testing.assert_allclose(K, [[1.0, far], [1.0, far], [far, 1.0]], rtol=3e-16, atol=0.0)


def test_a_space_of_one_point_has_no_distances() -> None:
    assert Matern52(0.3, 2.0).column(np.empty((3, 0)), np.empty(0)).tolist() == [2.0, 2.0, 2.0]


def test_kernels_refuse_in_messages() -> None:
    for bad in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(StudyInvalid, match="lengthscale"):
            SquaredExponential(bad)
        with pytest.raises(StudyInvalid, match="variance"):
            Matern52(0.3, bad)


@QUIET
@given(
    indices=st.lists(st.integers(0, 11), min_size=1, max_size=90),
    noise=st.sampled_from([0.0, 1e-8, 1e-2, 3.0]),
    name=st.sampled_from(list(KERNELS)),
)
def test_the_factor_is_that_of_the_whole_matrix(indices: list[int], noise: float, name: str) -> None:
    points = np.linspace(0.0, 1.0, 12)[:, None]
    kernel = kernel_named(name, 0.2)
    factor = GrowingCholesky(12, noise)
    rows, pivots = zip(
        *(factor.append(i, kernel.column(points, points[i]), np.empty(12)) for i in indices), strict=True
    )
    V, X = np.array(rows), points[indices]
    L = np.tril(V[:, indices].T, -1) + np.diag(pivots)
    whole = kernel.matrix(X, X) + max(noise, JITTER) * np.eye(len(indices))
    assert (np.diag(L) >= math.sqrt(max(noise, JITTER))).all()
    np.testing.assert_allclose(L @ L.T, whole, atol=1e-13)
    np.testing.assert_allclose(L @ V, kernel.matrix(X, points), atol=1e-13)
    if noise >= 1e-2:
        np.testing.assert_allclose(L, np.linalg.cholesky(whole), atol=1e-11)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(("d", "variance"), [(1, 1.0), (2, 2.5), (4, 1.0)])
def test_posterior_is_scikit_learns(name: str, d: int, variance: float) -> None:
    rng = np.random.default_rng(10 * d)
    candidates, noise = rng.random((5000, d)), 1e-2  # more than 4096: the short stacks
    indices = rng.integers(0, 5000, 40)
    indices[20:25] = indices[:5]
    values = smooth(candidates[indices]) + 0.1 * rng.normal(size=40)
    ours = observed(candidates, kernel_named(name, 0.3, variance), noise, indices, values)
    model = GaussianProcessRegressor(theirs(name, 0.3, variance), alpha=noise, optimizer=None)
    model.fit(candidates[indices], values)
    mean, std = model.predict(candidates, return_std=True)
    np.testing.assert_allclose(ours.mean, mean, atol=1e-10, rtol=0.0)
    np.testing.assert_allclose(ours.variance, std**2, atol=1e-10, rtol=0.0)
    np.testing.assert_array_equal(ours.std, np.sqrt(ours.variance))


@pytest.mark.parametrize("noise", [0.0, 1e-8, 0.25])
@pytest.mark.parametrize("times", [1, 2, 100])
def test_one_point_many_times_in_closed_form(noise: float, times: int) -> None:
    posterior = Posterior(np.array([[0.2], [0.9]]), SquaredExponential(0.5, 2.0), noise)
    values = np.linspace(0.3, 0.3 + noise, times)
    for value in values:
        posterior.observe(0, float(value))
    precision = times / max(noise, JITTER)
    assert posterior.variance[0] == pytest.approx(1.0 / (0.5 + precision), abs=1e-14)
    assert posterior.mean[0] == pytest.approx(values.mean() * precision / (0.5 + precision), abs=1e-9)
    assert len(posterior) == times


def test_a_prior_mean_is_a_shift() -> None:
    rng = np.random.default_rng(3)
    candidates, m = rng.random((50, 2)), rng.normal(size=50)
    indices, values = rng.integers(0, 50, 12), rng.normal(size=12)
    shifted = observed(candidates, Matern52(0.4), 0.1, indices, values, prior_mean=m)
    plain = observed(candidates, Matern52(0.4), 0.1, indices, values - m[indices])
    np.testing.assert_allclose(shifted.mean, m + plain.mean, atol=1e-13)
    np.testing.assert_array_equal(shifted.variance, plain.variance)
    np.testing.assert_array_equal(Posterior(candidates, Matern52(0.4), 0.1, 0.7).mean, np.full(50, 0.7))


def test_refusals_never_show_a_value() -> None:
    posterior = Posterior(np.array([[0.1], [0.5]]), Matern52(0.3), 0.1)
    for index, value in ((0, math.nan), (0, math.inf), (0, -math.inf), (2, 0.4711), (-1, 0.4711)):
        with pytest.raises(ValueError, match=r"not finite|is not one of") as caught:
            posterior.observe(index, value)
        assert not any(word in str(caught.value) for word in ("nan", "inf ", "-inf", "4711"))
    assert len(posterior) == 0
    np.testing.assert_array_equal(posterior.mean, 0.0)
    bad: list[tuple[object, object, object]] = [
        (np.array([0.1]), 0.1, 0.0),
        (np.empty((0, 1)), 0.1, 0.0),
        (np.array([[math.nan]]), 0.1, 0.0),
        (np.array([[0.1]]), -0.1, 0.0),
        (np.array([[0.1]]), math.nan, 0.0),
        (np.array([[0.1]]), 0.1, math.nan),
        (np.array([[0.1]]), 0.1, np.zeros(2)),
    ]
    for candidates, noise, m in bad:
        with pytest.raises(ValueError, match=r"candidates|noise_variance|prior_mean"):
            Posterior(candidates, Matern52(0.3), noise, m)  # type: ignore[arg-type]


def drawn(
    kernel: Kernel, d: int, t: int, noise: float, mean: float, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    rng = np.random.default_rng(seed)
    X = rng.random((t, d))
    L = np.linalg.cholesky(kernel.matrix(X, X) + noise * np.eye(t))
    return X, mean + L @ rng.normal(size=t)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(
    ("lengthscale", "variance"),
    [(0.15, 1.0), *(pytest.param(0.5, variance, marks=pytest.mark.slow) for variance in (0.5, 3.0))],
)
def test_fit_recovers_what_drew_the_data(name: str, lengthscale: float, variance: float) -> None:
    truth = kernel_named(name, lengthscale, variance)
    fits = [fit(*drawn(truth, 2, 60, 1e-2, 0.8, seed), 1e-2, name) for seed in range(8)]
    logs = np.log([[fitted.lengthscale, fitted.variance] for fitted in fits]).mean(axis=0)
    assert math.exp(logs[0]) == pytest.approx(lengthscale, rel=0.15)
    assert math.exp(logs[1]) == pytest.approx(variance, rel=0.5)
    assert np.mean([fitted.mean for fitted in fits]) == pytest.approx(0.8, abs=0.5)


Place = tuple[float, NDArray[np.float64], NDArray[np.float64]]  # a lengthscale, variances (V,), means (M,)


def objective(at: Place, X: NDArray[np.float64], y: NDArray[np.float64], noise: float, name: str) -> float:
    """The largest, over variances and means, of log N(y; m1, K + σ²I) and the priors' log density, less a constant.

    K = Q diag(λ) Qᵀ once for all of them; at one place against SciPy's density.
    """
    lengthscale, variances, means = at
    values, Q = np.linalg.eigh(kernel_named(name, lengthscale).matrix(X, X))
    spread = variances[:, None, None] * values + noise
    rest = (Q.T @ (y[:, None] - means)).T
    density = -0.5 * (rest**2 / spread + np.log(2.0 * math.pi * spread)).sum(axis=2)
    if density.size == 1:
        A = kernel_named(name, lengthscale, variances[0]).matrix(X, X) + noise * np.eye(len(X))
        assert density == pytest.approx(multivariate_normal(np.full(len(X), means[0]), A).logpdf(y), abs=1e-6)
    prior = math.log(lengthscale / typical_lengthscale(X.shape[1])) ** 2 + means**2 / 4.0
    return float((density - 0.5 * (prior + (np.log(variances)[:, None] / 1.5) ** 2)).max())


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(("t", "noise"), [(2, 1e-2), (8, 0.3), (50, 1e-3)])
def test_fit_beats_every_other_setting(name: str, t: int, noise: float) -> None:
    X, y = drawn(kernel_named(name, 0.3), 2, t, noise, 0.5, 7)
    best = fit(X, y, noise, name)

    def at(lengthscale: float, variances: object, means: object) -> float:
        return objective((lengthscale, np.atleast_1d(variances), np.atleast_1d(means)), X, y, noise, name)

    reached = at(best.lengthscale, best.variance, best.mean)
    for lengthscale in np.geomspace(0.03, 7.0, 25):
        assert at(lengthscale, np.geomspace(1e-3, 1e2, 13), [-1.0, 0.0, best.mean, 1.0]) <= reached + 1e-4
    for factor in (0.97, 1.03):  # stationary in each
        assert at(best.lengthscale * factor, best.variance, best.mean) <= reached
        assert at(best.lengthscale, best.variance * factor, best.mean) <= reached
        assert at(best.lengthscale, best.variance, best.mean * factor) <= reached


def test_the_mean_is_generalised_least_squares() -> None:
    X, y = drawn(Matern52(0.3), 1, 12, 0.1, 1.5, 3)
    best = fit(X, y, 0.1, "matern52")
    A = Matern52(best.lengthscale, best.variance).matrix(X, X) + 0.1 * np.eye(12)
    one = np.ones(12)
    expected = one @ np.linalg.solve(A, y) / (one @ np.linalg.solve(A, one) + 0.25)
    assert best.mean == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("noise", [0.0, 1e-6, 1.0])
@pytest.mark.parametrize(
    "values", [[0.3], [0.0, 0.0], [1.0, 1.0 + 1e-9], [2.0, -2.0], [0.1] * 12, [-2.0, 2.0] * 6], ids=str
)
def test_little_data_stays_tame(values: list[float], noise: float) -> None:
    X = np.linspace(0.4, 0.41, len(values))[:, None]
    fitted = fit(X, np.array(values), noise, "matern52")
    assert 0.02 <= fitted.lengthscale <= 5.0
    assert 1e-3 * 0.99 <= fitted.variance <= 1e2 * 1.01
    assert abs(fitted.mean) <= 2.0
    assert fit(X, np.array(values), noise, "matern52") == fitted
