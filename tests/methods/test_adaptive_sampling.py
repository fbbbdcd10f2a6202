"""Projections onto bounded densities: optimality conditions, and the sampler's bounds."""

import math

import numpy as np
import pytest

from dpbo_core.search.adaptive_sampling import (
    GaussianProcessSampler,
    UniformSampler,
    project,
    project_by_divergence,
    softmax,
)
from dpbo_core.search.gp import Posterior, kernel_named


def example(n, seed, spread=4.0, uniform=False):
    rng = np.random.default_rng(seed)
    prior = np.full(n, 1 / n) if uniform else rng.dirichlet(np.full(n, 3.0)) * 0.9 + 0.1 / n
    return softmax(rng.normal(size=n) * spread, inverse_temperature=1.0), prior


def violation(f, density, prior, lower, upper):
    """The largest violation of feasibility and of stationarity: f = clip(π − ν, …) for ONE ν."""
    low, high = lower * prior, upper * prior
    feasible = max(abs(math.fsum(f) - 1), float((low - f).max()), float((f - high).max()), 0.0)
    nu = density - f
    inside = (f > low) & (f < high)
    at_low, at_high = f <= low, f >= high
    # ν ≥ π − low where f rests below, ν ≤ π − high where it rests above, and ν is one number inside
    floor = max([*nu[inside], *(nu[at_low & ~at_high])], default=-math.inf)
    ceiling = min([*nu[inside], *(nu[at_high & ~at_low])], default=math.inf)
    return max(feasible, floor - ceiling)


@pytest.mark.parametrize("n", [1, 2, 320, 2500])
@pytest.mark.parametrize("bounds", [(0.75, 2.0), (0.8, 1.25), (0.001, 100.0), (1.0, 1.0), (1.0, 3.0), (0.4, 1.0)])
def test_optimality_conditions_hold_to_twelve_digits(n, bounds):
    for seed in range(5):
        density, prior = example(n, seed, spread=(0.01, 1.0, 4.0, 20.0, 200.0)[seed])
        f = project(density, prior=prior, lower=bounds[0], upper=bounds[1])
        if 1.0 in bounds:
            np.testing.assert_allclose(f, prior, atol=1e-15)  # one bound at 1 leaves nothing but π₀
        assert violation(f, density, prior, *bounds) <= 1e-12


@pytest.mark.parametrize("bounds", [(0.75, 2.0), (0.001, 100.0), (1.0, 3.0)])
def test_the_projection_by_divergence_is_the_nearest_either_way(bounds):
    """One factor inside the bounds, no mass lost, and no feasible density nearer, among 400 in its direction."""
    rng = np.random.default_rng(0)
    for seed in range(5):
        density, prior = example(40, seed, spread=(0.01, 1.0, 4.0, 20.0, 2000.0)[seed])
        low, high = bounds[0] * prior, bounds[1] * prior
        f = project_by_divergence(density, prior=prior, lower=bounds[0], upper=bounds[1])
        assert abs(math.fsum(f) - 1.0) <= 1e-12
        assert ((low <= f) & (f <= high)).all()
        inside = (f > low) & (f < high)
        factors = f[inside] / np.maximum(density, 1e-250 * density.max())[inside]
        assert inside.sum() < 2 or np.ptp(factors) <= 1e-9 * factors.max()
        if not density.min() > 0.0:
            continue
        for _ in range(400):
            other = project(rng.dirichlet(np.ones(40)), prior=prior, lower=bounds[0], upper=bounds[1])
            mixed = f + rng.random() * (other - f)
            for of, to in ((mixed, density), (density, mixed)):
                nearest = (f, density) if of is mixed else (density, f)
                assert divergence(*nearest) <= divergence(of, to) + 1e-12


def divergence(p, q):
    return float((p * np.log(p / q)).sum())


def test_a_wrong_projection_is_caught():
    density, prior = example(320, 0)
    clipped = np.clip(density, 0.75 * prior, 2 * prior)
    assert violation(clipped / clipped.sum(), density, prior, 0.75, 2.0) > 1e-4


def test_bounds_that_hold_no_density_are_refused():
    density, prior = example(5, 0)
    for lower, upper in ((0.0, 2.0), (1.2, 2.0), (0.5, 0.9), (math.nan, 2.0)):
        with pytest.raises(ValueError, match="C"):
            project(density, prior=prior, lower=lower, upper=upper)
    with pytest.raises(ValueError, match="prior"):
        project(density, prior=np.zeros(5), lower=0.5, upper=2.0)


def sampler(n=40, **changes):
    encoded = np.linspace(0, 1, n)[:, None]
    settings = {"exploration": 0.1, "inverse_temperature": 20.0} | changes
    return GaussianProcessSampler(
        Posterior(encoded, kernel_named("matern52", 0.2), 0.01, 0.5),
        prior=np.full(n, 1 / n),
        bounds=(0.75, 2.0),
        **settings,
    )


def test_the_sampler_projects_as_it_is_told():
    near, far = sampler(), sampler(projection="divergence")
    for it in (near, far):
        it.tell(7, 1.0)
    densities = [it.density() for it in (near, far)]
    assert np.abs(densities[0] - densities[1]).max() > 1e-4
    for density in densities:
        assert (density >= 0.75 / 40 - 1e-15).all()
        assert (density <= 2.0 / 40 + 1e-15).all()


def test_the_sampler_leans_towards_what_was_good_and_keeps_its_bounds():
    search = sampler()
    np.testing.assert_allclose(search.density(), 1 / 40)
    for index in range(0, 40, 4):
        search.tell(index, 1.0 if 18 <= index <= 24 else 0.2)
        f = search.density() * 40
        assert f.min() >= 0.75 - 1e-12
        assert f.max() <= 2.0 + 1e-12
        assert f.sum() == pytest.approx(40)
    assert f[20] > 1.5
    assert f[2] < 0.9
    steady = UniformSampler(np.full(4, 0.25))
    steady.tell(1, 1.0)
    np.testing.assert_array_equal(steady.density(), np.full(4, 0.25))


def test_the_prior_weighs_the_softmax_which_is_the_papers_density_where_it_is_uniform():
    """Equal scores give back any prior, within its bounds; of a uniform one the product is the softmax alone."""
    n, bounds = 40, {"lower": 0.75, "upper": 2.0}
    informed = np.linspace(1.0, 3.0, n) / np.linspace(1.0, 3.0, n).sum()
    for prior, beta in ((informed, 0.0), (informed, 20.0), (np.full(n, 1 / n), 20.0)):
        posterior = Posterior(np.linspace(0, 1, n)[:, None], kernel_named("matern52", 0.2), 0.01, 0.5)
        search = GaussianProcessSampler(
            posterior, prior=prior, bounds=(0.75, 2.0), exploration=0.1, inverse_temperature=beta
        )
        search.tell(7, 1.0)
        f, alone = search.density(), softmax(posterior.mean + 0.1 * posterior.std, inverse_temperature=beta)
        assert (f >= 0.75 * prior - 1e-15).all()
        assert (f <= 2.0 * prior + 1e-15).all()
        if beta == 0.0:
            np.testing.assert_allclose(f, prior, rtol=1e-12)
        elif prior is not informed:
            np.testing.assert_allclose(f, project(alone, prior=prior, **bounds), rtol=1e-12)
        else:  # ours, and not the paper's projection of the softmax alone
            assert np.abs(f - project(alone, prior=prior, **bounds)).max() > 1e-4
