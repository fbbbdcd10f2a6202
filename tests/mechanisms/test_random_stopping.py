"""The law of K: exact at every boundary of the inverse, and as it should be over many draws."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from worlds import at_length, mostly_slow

from dpbo_core.mechanisms.noise import OperatingSystemNoise
from dpbo_core.mechanisms.random_stopping import (
    PRIOR_WEIGHT,
    RANDOM_BITS,
    NegativeBinomialStopping,
    PoissonStopping,
    bounded_weights,
    draw_index,
    prior_weights,
)
from dpbo_core.search.adaptive_sampling import project
from dpbo_core.theorems import papernot_steinke_2022 as ps

LAWS = [
    NegativeBinomialStopping(1.0, 10.0),
    NegativeBinomialStopping(0.0, 10.0),
    NegativeBinomialStopping(-0.5, 4.0),
    NegativeBinomialStopping(1e-30, 3.0),
    NegativeBinomialStopping(2.5, 7.0),
    PoissonStopping(3.0),
]
SYSTEM = OperatingSystemNoise()


def negative_binomial(shape, gamma):
    """Pr[K = k] from k = 1 on: Definition 1 of Papernot and Steinke (2022), in the working precision."""
    g, eta = mpmath.mpf(gamma), mpmath.mpf(shape)
    mass = (1 - g) * (eta / (g**-eta - 1) if eta else -1 / mpmath.log(g))
    for k in itertools.count(1):
        yield mass
        mass *= (1 - g) * (k + eta) / (k + 1)


def masses(law, n):
    """The least k, and the first n probabilities from there on."""
    with mpmath.workdps(200):
        if isinstance(law, PoissonStopping):
            mean = mpmath.mpf(law.mean)
            return 0, [mpmath.exp(-mean) * mean**k / mpmath.factorial(k) for k in range(n)]
        return 1, list(itertools.islice(negative_binomial(law.shape, law.gamma), n))


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_the_inverse_turns_at_the_exact_boundary(law):
    """Below Pr[K ≤ k]·2²⁵⁶ K is at most k, above it is more: the boundary from mpmath, to the last cell but two."""
    least, exact = masses(law, 6)
    with mpmath.workdps(200):
        for k, reached in enumerate(itertools.accumulate(exact), least):
            edge = int(reached * 2**RANDOM_BITS)
            assert law.quantile(edge - 2) == k
            assert law.quantile(edge + 2) == k + 1


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_draws_follow_the_law(law):
    """χ² over 3,000 draws; a right sampler fails once in 10⁶ runs."""
    drawn = np.array([law.draw(SYSTEM) for _ in range(3000)])
    least, exact = masses(law, 40)
    expected = {k: 3000 * float(mass) for k, mass in enumerate(exact, least) if mass * 3000 >= 20}
    counts = [int((drawn == k).sum()) for k in expected]
    counts.append(3000 - sum(counts))
    wanted = [*expected.values(), 3000 - sum(expected.values())]
    assert stats.chisquare(counts, wanted).pvalue > 1e-6
    shifted = [*counts[1:], counts[0]]  # a planted fault: the law moved by one
    assert stats.chisquare(shifted, wanted).pvalue < 1e-6


def test_a_mass_of_few_digits_is_never_drawn_by():
    """A price computes masses in 28 digits; a draw of the same law afterwards uses its own 150."""
    law = NegativeBinomialStopping(shape=1.25, mean=7.0)
    law.probabilities(5)
    with mpmath.workdps(200):
        edge = int(masses(law, 1)[1][0] * 2**RANDOM_BITS)
    assert (law.quantile(edge - 2), law.quantile(edge + 2)) == (1, 2)


def test_indices_are_drawn_by_exact_integer_weights():
    weights = bounded_weights([0.5, 0.25, 0.25], lower=0.5, upper=2.0, prior=[PRIOR_WEIGHT] * 3)
    assert weights == [3 * PRIOR_WEIGHT // 2, 3 * PRIOR_WEIGHT // 4, 3 * PRIOR_WEIGHT // 4]
    drawn = np.array([draw_index([1, 0, 3], SYSTEM) for _ in range(2000)])
    assert set(drawn) == {0, 2}
    assert abs((drawn == 2).mean() - 0.75) < 6 * np.sqrt(0.75 * 0.25 / 2000)


@pytest.mark.parametrize("boxes", mostly_slow((100, 3000), 100))
def test_weights_lie_in_the_box_exactly_whatever_the_density(boxes):
    """Exact fractions over so many boxes and densities, hostile ones among them; nothing is raised."""
    rng, worst = np.random.default_rng(7), 0.0
    for trial in range(boxes):
        N = int(rng.choice([1, 2, 3, 7, 64, 301]))
        c, C = 1.0 - 10.0 ** -rng.uniform(0.0, 17.0), 1.0 + 10.0 ** rng.uniform(-17.0, 6.0)
        c, C = (max(c, 1e-9) if trial % 7 else 1.0), (C if trial % 5 else 1.0)
        density = rng.dirichlet(np.full(N, rng.choice([0.01, 1.0, 100.0])))
        hostile = rng.integers(0, 8)
        if hostile == 0:
            density[rng.integers(N)] = rng.choice([np.nan, np.inf, -np.inf, 1e308, -3.0, 1e-320])
        elif hostile == 1:
            density *= rng.choice([0.0, 1e-300, 1e300])
        weights = bounded_weights(density.tolist(), lower=c, upper=C, prior=[PRIOR_WEIGHT] * N)
        assert sum(weights) == N * PRIOR_WEIGHT
        assert all(Fraction(c) <= Fraction(w, PRIOR_WEIGHT) <= Fraction(C) for w in weights)
        if c == 1.0 or C == 1.0:
            assert weights == [PRIOR_WEIGHT] * N
        elif hostile > 1:  # a density inside the box is drawn as it is, to the rounding of its sum
            inside = project(density, prior=np.full(N, 1.0 / N), lower=c, upper=C)
            weights = bounded_weights(inside.tolist(), lower=c, upper=C, prior=[PRIOR_WEIGHT] * N)
            worst = max(worst, float(np.abs(np.array([w / PRIOR_WEIGHT / N for w in weights]) - inside).max()))
    assert worst < 1e-12


def test_impossible_laws_are_refused():
    for mean in (0.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="mean"):
            PoissonStopping(mean)
    with pytest.raises(ValueError, match="mean"):
        NegativeBinomialStopping(1.0, 1.0)


@pytest.mark.parametrize("shape", [-0.8, -0.3, 0.0, 1.0, 3.5])
@pytest.mark.parametrize(("gamma", "k"), [(0.5, 3), (0.2, 40), (0.01, 900)])
def test_the_log_tail_is_above_the_exact_one_and_not_far(shape, gamma, k):
    """ps.negative_binomial_log_tail against the masses themselves, added up in high precision."""
    with mpmath.workdps(60):
        exact = float(mpmath.log(1 - mpmath.fsum(itertools.islice(negative_binomial(shape, gamma), k))))
    bound = ps.negative_binomial_log_tail(k, shape=shape, gamma=gamma)
    assert exact <= bound <= exact + 1.5


@given(st.data())
@settings(max_examples=at_length(60))
def test_an_informed_prior_is_kept_within_its_bounds_exactly(data):
    """Appendix D: every weight over the prior's own weight lies in [c, C], and all add up, whatever the density."""
    N = data.draw(st.integers(1, 12))
    raw = np.array(data.draw(st.lists(st.floats(1e-6, 1.0), min_size=N, max_size=N)))
    c, C = data.draw(st.floats(0.01, 1.0)), data.draw(st.floats(1.0, 50.0))
    prior = prior_weights((raw / raw.sum()).tolist())
    density = data.draw(st.lists(st.floats(0.0, 1.0) | st.just(math.nan), min_size=N, max_size=N))
    weights = bounded_weights(density, lower=c, upper=C, prior=prior)
    assert sum(weights) == sum(prior)
    assert all(Fraction(c) <= Fraction(w, p) <= Fraction(C) for w, p in zip(weights, prior, strict=True))
    if any(map(math.isnan, density)) or c == 1.0 or C == 1.0:
        assert weights == prior
    even = [1.0 / N] * N
    assert prior_weights(even) == [PRIOR_WEIGHT] * N
