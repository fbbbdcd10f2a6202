"""The averaged posterior: against scikit-learn, against brute-force integration, and on draws of its own prior."""

import math

import numpy as np
import pytest
from scipy import stats

from dpbo_core.search.bo import UCB, AveragedSearch, SearchDomain, prior_of
from dpbo_core.search.estimates import KernelMixture, Prior, ScoreMap, average, range_probability
from dpbo_core.search.gp import kernel_named
from dpbo_core.theorems.feldman_cousins_1998 import CONFIDENCE_LEVEL, bounded_interval, bounded_laplace_interval

LINE = np.linspace(0.0, 1.0, 25)[:, None]


def fixed(**changes):
    """A prior with nothing left to find."""
    settled = {"lengthscale_spread": 0.0, "deviation_spread": 0.0}
    return Prior(**{"kernel": "matern52", "lengthscale": 0.3, **settled, **changes})


def test_with_one_kernel_it_is_scikit_learn_s_posterior():
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern

    rng = np.random.default_rng(0)
    X, noise = LINE[[2, 9, 17, 24]], np.array([0.1, 0.2, 0.05, 0.3])
    y = rng.normal(size=4)
    found = average(X, y, noise, np.zeros(4), fixed(deviation=0.7, offset_deviation=1.2))
    kernel = ConstantKernel(0.49) * Matern(0.3, nu=2.5) + ConstantKernel(1.44)
    theirs = GaussianProcessRegressor(kernel, alpha=noise, optimizer=None).fit(X, y)
    mean, std = theirs.predict(LINE, return_std=True)
    means, deviations = found.moments(LINE, np.zeros(25))
    assert found.weights == pytest.approx([1.0])
    assert means[0] == pytest.approx(mean, abs=1e-10)
    assert deviations[0] == pytest.approx(std, abs=1e-8)


def test_the_weights_are_the_marginal_likelihoods_times_the_prior():
    rng = np.random.default_rng(1)
    X, y, h, noise = LINE[::6], rng.normal(size=5), rng.normal(size=5), np.full(5, 0.2)
    prior = Prior(kernel="se", lengthscale=0.3, guessed=True)
    found = average(X, y, noise, h, prior)
    log_w = []
    for length, variance, trust in zip(found.lengthscales, found.variances, found.trusts, strict=True):
        A = kernel_named("se", length, variance).matrix(X, X) + 1.44 + np.diag(noise)
        density = stats.multivariate_normal(trust * h, A).logpdf(y)
        log_w.append(
            density - 0.5 * math.log(length / 0.3) ** 2 - 0.5 * math.log(math.sqrt(variance) / prior.deviation) ** 2
        )
    weights = np.exp(np.array(log_w) - max(log_w))
    assert found.weights == pytest.approx(weights / weights.sum(), rel=1e-9)
    assert (np.diff(found.weights) <= 0).all()


def mixed(weights, means, deviations):
    rest = dict.fromkeys(("lengthscales", "variances", "trusts", "factors", "whitened"), np.zeros(0))
    mixture = KernelMixture(prior=fixed(), points=LINE[:1], weights=np.array(weights), log_evidence=0.0, **rest)
    return mixture, np.array(means), np.array(deviations)


@pytest.mark.parametrize(
    ("weights", "means", "deviations"),
    [
        ([1.0], [0.3], [0.5]),
        ([0.7, 0.3], [0.9, 1.4], [0.3, 0.2]),
        ([1.0], [1.5], [0.2]),
        ([1.0], [-0.8], [0.15]),
        ([0.5, 0.5], [0.5, 30.0], [0.1, 0.1]),
    ],
)
def test_the_interval_of_a_truncated_mixture_is_scipy_s(weights, means, deviations):
    found, m, s = mixed(weights, means, deviations)
    mean, (low, high) = range_probability(found.weights, m, s, (0.0, 1.0), 0.9)
    parts = [stats.truncnorm((0 - a) / b, (1 - a) / b, loc=a, scale=b) for a, b in zip(m, s, strict=True)]
    inside = np.array([stats.norm(a, b).cdf(1) - stats.norm(a, b).cdf(0) for a, b in zip(m, s, strict=True)])
    w = found.weights * np.maximum(inside, 0.0)
    w = np.where(inside > 1e-12, w, 0.0) / w[inside > 1e-12].sum()

    def cdf(x):
        return sum(c * part.cdf(x) for c, part in zip(w, parts, strict=True) if c > 0)

    assert cdf(low) == pytest.approx(0.05, abs=1e-6)
    assert cdf(high) == pytest.approx(0.95, abs=1e-6)
    assert mean == pytest.approx(sum(c * part.mean() for c, part in zip(w, parts, strict=True) if c > 0), abs=1e-6)


def test_a_posterior_wholly_out_of_range_says_the_nearest_end():
    found, m, s = mixed([1.0], [60.0], [0.1])
    assert range_probability(found.weights, m, s, (0.0, 1.0), 0.9) == (1.0, (1.0, 1.0))


def told(search, values, noise, rng, steps):
    for _ in range(steps):
        index = search.ask()
        search.tell(index, float(values[index] + noise * rng.normal()))


def search_with(guess=None, noise=0.3, lengthscale=0.3):
    prior = prior_of(kernel="matern52", lengthscale=lengthscale, dimensions=1, guessed=guess is not None)
    domain = SearchDomain(LINE, prior, noise**2, np.zeros(25) if guess is None else guess)
    return AveragedSearch(domain, UCB(4.0))


@pytest.mark.slow
def test_on_draws_of_its_own_prior_the_interval_at_the_maximum_covers_nine_times_in_ten():
    """Selection does not spoil a Bayesian's interval where the prior is right.

    300 draws: a calibrated one lies outside 0.9 ± 4.2 standard errors (0.073) once in 40,000 runs.
    """
    rng, covered, plugged = np.random.default_rng(3), 0, 0
    repetitions = 300
    for _ in range(repetitions):
        length, deviation = 0.3 * math.exp(rng.normal() * 0.4), 0.4 * math.exp(rng.normal())
        K = kernel_named("matern52", length, deviation**2).matrix(LINE, LINE) + 1.44 + 1e-9 * np.eye(25)
        truth = np.linalg.cholesky(K) @ rng.normal(size=25)
        search = search_with()
        told(search, truth, 0.3, rng, 8)
        found = search.mixture()
        means, deviations = search.domain.moments(found, np.arange(25))
        best = int(np.argmax(found.weights @ means))
        _, (low, high) = range_probability(
            found.weights, means[:, best], deviations[:, best], (-50.0, 50.0), CONFIDENCE_LEVEL
        )
        covered += low <= truth[best] <= high
        plugged += abs(truth[best] - means[0, best]) <= 0.5 * 1.645 * deviations[0, best]
    assert abs(covered / repetitions - 0.9) < 0.073
    assert abs(plugged / repetitions - 0.9) > 0.073  # intervals half as wide are caught


def test_a_good_guess_is_trusted_and_a_misleading_one_overruled():
    rng = np.random.default_rng(5)
    truth = -((LINE[:, 0] - 0.7) ** 2) * 6.0
    for guess, trusted in ((truth - truth.mean(), True), (truth.mean() - truth, False)):
        search = search_with(guess, noise=0.2)
        told(search, truth, 0.2, rng, 25)
        found = search.mixture()
        trust = float(found.weights @ found.trusts)
        assert (trust > 0.7) if trusted else (trust < 0.2)
        means, _ = search.domain.moments(found, np.arange(25))
        assert truth.max() - truth[int(np.argmax(found.weights @ means))] < 0.15


def test_the_search_starts_where_the_guess_is_best_and_is_deterministic():
    guess = np.sin(5 * LINE[:, 0])
    assert search_with(guess).ask() == int(np.argmax(guess))
    one, two = search_with(guess), search_with(guess)
    for search in (one, two):
        told(search, guess, 0.3, np.random.default_rng(1), 24)
    assert one.ask() == two.ask()
    assert (one.mixture().weights == two.mixture().weights).all()


@pytest.mark.slow
def test_the_fresh_look_covers_whatever_the_path_and_the_score():
    """4,000 looks at each of 5 scores: 90% within 4.5 standard errors (0.0213), also at the ends of the range."""
    rng, the_map = np.random.default_rng(7), ScoreMap(0.5, 0.25, 1.0)
    for score in (0.0, 0.01, 0.5, 0.98, 1.0):
        looks = score + 0.05 * rng.normal(size=4_000)
        said = [the_map.with_look(float(seen), 0.05, (0.9, (0.85, 0.95))) for seen in looks]
        covered = np.mean([low <= score <= high for _, (low, high) in said])
        assert abs(covered - 0.9) < 0.0213
        assert all(0.0 <= low <= x <= high <= 1.0 for x, (low, high) in said)
        assert min(high - low for _, (low, high) in said) > 0.005


def test_what_is_said_together_is_the_dense_posteriors():
    """Mean and covariance of the mixture, against each component's posterior by the inverse of A."""
    rng, prior = np.random.default_rng(3), Prior("matern52", 0.3)
    points, values = LINE[[1, 8, 20]], rng.normal(size=3)
    found = average(points, values, np.full(3, 0.04), np.zeros(3), prior)
    means, covariances = [], []
    for length, variance in zip(found.lengthscales, found.variances, strict=True):
        kernel = kernel_named("matern52", float(length), float(variance))
        K, k, kk = (kernel.matrix(a, b) + prior.offset_deviation**2
                    for a, b in ((points, points), (LINE, points), (LINE, LINE)))  # fmt: skip
        A = np.linalg.inv(K + 0.04 * np.eye(3))
        means.append(k @ A @ values)
        covariances.append(kk - k @ A @ k.T)
    mean, covariance = found.joint(LINE, np.zeros(len(LINE)))
    whole = np.einsum("c,cij->ij", found.weights, covariances) + np.cov(
        np.transpose(means), aweights=found.weights, ddof=0
    )
    assert np.allclose(mean, found.weights @ means, atol=1e-8)
    assert np.allclose(covariance, whole, atol=1e-8)


@pytest.mark.parametrize(
    ("interval", "cdf", "top", "scale"),
    [
        pytest.param(bounded_laplace_interval, stats.laplace.cdf, 1.0, 0.002, marks=pytest.mark.slow),
        (bounded_laplace_interval, stats.laplace.cdf, 2.0, 0.3),
        (bounded_laplace_interval, stats.laplace.cdf, 1.0, 0.4),
        (bounded_interval, stats.norm.cdf, 1.0, 0.02),
        (bounded_interval, stats.norm.cdf, 1.0, 0.4),
    ],
)
def test_an_interval_of_a_fresh_draw_covers_nine_times_in_ten_and_is_never_a_point(interval, cdf, top, scale):
    """Its coverage by the distribution function over the looks' own grid, at every score: 90%.

    All, where Laplace noise is so wide that both bounds are within b·log 5. A choice that the draw did not see, by
    permute-and-flip, by a path or in public, changes nothing: each choice is one of these scores.
    """
    looks = np.linspace(-12 * scale, top + 12 * scale, 3_001 if scale > 0.01 else 6_001)
    ends = np.array([interval(float(y), scale, top) for y in looks])
    assert (ends[:, 1] - ends[:, 0]).min() > 0.05 * scale
    for f in np.linspace(0.0, top, 41):
        mass = np.diff(np.concatenate([[0.0], cdf(((looks[:-1] + looks[1:]) / 2 - f) / scale), [1.0]]))
        covered = mass[(ends[:, 0] <= f + 1e-9) & (f - 1e-9 <= ends[:, 1])].sum()
        wide = interval is bounded_laplace_interval and max(f, top - f) < scale * np.log(5.0)
        assert covered == pytest.approx(1.0 if wide else 0.9, abs=0.005)


def test_laplaces_interval_where_the_bounds_are_far_or_near():
    assert bounded_laplace_interval(0.5, 0.01, 1.0) == pytest.approx((0.5 - 0.0230259, 0.5 + 0.0230259), abs=1e-6)
    assert bounded_laplace_interval(7.0, 0.01, 1.0) == pytest.approx((1 - 0.0230259, 1.0), abs=1e-6)
    assert bounded_laplace_interval(0.5, 50.0, 1.0) == (0.0, 1.0)


def test_the_interval_is_feldman_and_cousins():
    """Their Table X at 90%, for a mean never negative, deviation 1; mirrored at the other bound."""
    table = {-3: (0.0, 0.26), -2: (0.0, 0.40), -1: (0.0, 0.81), 0: (0.0, 1.64), 1: (0.0, 2.64), 2: (0.58, 3.64),
             3: (1.37, 4.64)}  # fmt: skip
    for seen, ends in table.items():
        low, high = bounded_interval(float(seen), 1.0, 1e3)
        assert (low, high) == pytest.approx(ends, abs=0.0051)
        assert bounded_interval(1e3 - seen, 1.0, 1e3) == pytest.approx((1e3 - high, 1e3 - low), abs=1e-9)
    assert bounded_interval(0.5, 0.01, 1.0) == pytest.approx((0.5 - 0.0164485, 0.5 + 0.0164485), abs=1e-6)
    assert bounded_interval(0.3, 50.0, 1.0) == (0.0, 1.0)
