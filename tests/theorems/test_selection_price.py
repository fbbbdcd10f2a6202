"""Selection prices: exact small worlds, the library, closed formulas, and the published settings."""

import doctest
import math

import dp_accounting as dp
import mpmath
import numpy as np
import pytest
import selection_worlds as worlds

import dpbo
from dpbo_core.theorems import event_price, events, loss_profile
from dpbo_core.theorems.event_price import calibrate, price
from dpbo_core.theorems.loss_profile import LossProfile
from dpbo_core.theorems.selection_price import (
    pure_selection_epsilon,
    pure_threshold_epsilon,
    renyi_selection_cost,
    renyi_threshold_cost,
    selection_delta,
    selection_epsilon,
    threshold_delta,
    threshold_epsilon,
)
from dpbo_core.theorems.trial_counts import Binomial, CappedCount, Fixed, Poisson, TruncatedNegativeBinomial

GEOMETRIC = TruncatedNegativeBinomial(1.0, 10.0)
# Noise multiplier, sampling rate, steps, E[K] and δ, with the ε of a geometric number under add-or-remove.
SETTINGS = [
    (2.0, 0.05, 1000, 10, 1e-5, 5.424),
    (4.0, 0.1, 1000, 10, 1e-5, 5.092),
    (1.0, 0.01, 1000, 10, 1e-5, 2.684),
    (0.7, 0.01, 200, 5, 1e-5, 3.447),
    (0.7, 0.01, 1000, 10, 1e-5, 6.372),
    (0.8, 0.02, 500, 10, 1e-6, 7.232),
    (1.0, 0.01, 5000, 20, 1e-6, 7.147),
    (1.0, 0.05, 500, 10, 1e-5, 10.448),
    (1.5, 0.02, 2000, 10, 1e-6, 4.582),
    (2.0, 0.1, 1000, 30, 1e-6, 13.980),
    (3.0, 0.05, 3000, 20, 1e-5, 6.601),
    (4.0, 0.1, 5000, 30, 1e-6, 14.811),
]


def dp_sgd(sigma, rate, steps):
    return dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(sigma)), steps)


@pytest.mark.parametrize(
    "setting", [*SETTINGS[:3], *(pytest.param(s, marks=pytest.mark.slow) for s in SETTINGS[3:])]
)
def test_the_published_settings_to_three_digits(setting):
    sigma, rate, steps, mean, delta, want = setting
    law = TruncatedNegativeBinomial(1.0, float(mean))
    assert price(dp_sgd(sigma, rate, steps), law, delta) == pytest.approx(want, abs=0.002)


@pytest.mark.parametrize("neighbours", ["add_or_remove", "replace_one"])
def test_one_trial_costs_what_the_library_says(neighbours):
    relation = dp.NeighboringRelation[{"add_or_remove": "ADD_OR_REMOVE_ONE"}.get(neighbours, "REPLACE_ONE")]
    event = dp_sgd(1.3, 0.05, 100)
    theirs = dp.pld.PLDAccountant(relation).compose(event).get_epsilon(1e-5)
    ours = price(event, 1, 1e-5, neighbours=neighbours, replaced_moves=2.0)
    assert theirs <= ours + 1e-9 <= theirs + 1e-6


def _selection_worlds(count):
    rng = np.random.default_rng(20260)
    # a world that costs .05 more than a price whose g is taken from the other direction
    made = [(np.array([0.4, 0.25, 0.35]), np.array([0.2, 0.33, 0.47]), Fixed(2), 1.0)]
    for _ in range(count):
        pair = worlds.random_pair(rng, int(rng.integers(2, 7)))
        made.append((*pair, worlds.random_law(rng), float(rng.choice([0.0, 0.1, 0.5, 1.0, 3.0]))))
    for p, q, law, epsilon in made:
        exact = max(
            worlds.delta_of(a, b, epsilon)
            for pair in [(worlds.winner(p, law), worlds.winner(q, law))]
            for a, b in (pair, pair[::-1])
        )
        yield exact - selection_delta(worlds.profile_of_pair(p, q), law, epsilon)


def test_no_small_world_costs_more_than_its_price():
    assert max(_selection_worlds(200)) <= 1e-12


@pytest.mark.slow
def test_no_small_world_of_many_costs_more_than_its_price():
    assert max(_selection_worlds(7500)) <= 1e-12


def _bad_order(law, mu=0.3, delta=1e-6):
    """ε of the worst of some orders of a Gaussian's outcomes: what D′ likes most is best, then the tail of D."""
    edges = np.linspace(-9.0, 9.0, 4001)
    cdf = np.array([0.5 * math.erfc(-x / math.sqrt(2.0)) for x in edges])
    shifted = np.array([0.5 * math.erfc(-(x - mu) / math.sqrt(2.0)) for x in edges])
    q, p = np.diff(cdf), np.diff(shifted)  # the loss of p over q rises with the place
    worst = 0.0
    for share in np.geomspace(1e-4, 0.5, 40):
        liked = int(np.searchsorted(np.cumsum(q), share))  # the first places, liked by q
        order = np.concatenate([np.arange(liked, len(p)), np.arange(liked)[::-1]])
        winners = [worlds.winner(side[order], law) for side in (p, q)]
        low, high = 0.0, 20.0
        while high - low > 1e-4:
            middle = 0.5 * (low + high)
            low, high = (low, middle) if worlds.delta_of(*winners, middle) <= delta else (middle, high)
        worst = max(worst, low)
    return worst, selection_epsilon(LossProfile.of_event(dp.GaussianDpEvent(1.0 / mu)), law, delta)


@pytest.mark.parametrize(("law", "below"), [(GEOMETRIC, 0.02), (Poisson(10.0), 0.034)])
def test_an_explicit_bad_order_comes_close_to_the_price(law, below):
    reached, stated = _bad_order(law)
    assert (1.0 - below) * stated <= reached <= stated


def test_adaptive_worlds_cost_no_more_than_their_price():
    assert max(_adaptive_worlds(40)) <= 1e-12


@pytest.mark.slow
def test_many_adaptive_worlds_cost_no_more_than_their_price():
    assert max(_adaptive_worlds(400)) <= 1e-12


def _adaptive_worlds(count):
    rng = np.random.default_rng(7)
    for seed in range(count):
        pairs = [worlds.random_pair(rng, 3) for _ in range(2)]
        pairs = pairs if seed % 3 < 2 else [(p, p) for p, _ in pairs]
        world = worlds.AdaptiveWorld(
            p=np.array([pair[0] for pair in pairs]),
            q=np.array([pair[1] for pair in pairs]),
            quality=rng.permutation(6).reshape(2, 3),
            prior=np.array([first := rng.uniform(0.2, 0.8), 1.0 - first]),
            low=float(rng.choice([0.5, 0.8, 1.0])),
            high=float(rng.choice([1.0, 1.25, 2.0])),
            seed=seed,
        )
        # a single trial shows the bounds on the densities alone
        law = CappedCount(Fixed(1) if seed % 3 else Poisson(float(rng.uniform(0.2, 2.0))), 3)
        masses, epsilon = law.probabilities(4), float(rng.choice([0.0, 0.3, 1.0]))
        pair = world.winner(0, masses), world.winner(1, masses)
        exact = max(worlds.delta_of(*pair, epsilon), worlds.delta_of(*pair[::-1], epsilon))
        yield exact - selection_delta(world.profile(), law, epsilon, world.low, world.high)


def _threshold_worlds(count):
    rng = np.random.default_rng(631)
    # a world that costs .1 more than a price whose default is counted inside the hockey stick
    made = [(np.array([0.6, 0.4]), np.array([0.8, 0.2]), np.array([False, True]), 0.01, 8, 1.0)]
    for _ in range(count):
        p, q = worlds.random_pair(rng, int(rng.integers(2, 6)))
        limit = None if rng.random() < 0.3 else int(rng.integers(1, 30))
        stop, epsilon = float(rng.choice([0.01, 0.1, 0.5, 1.0])), float(rng.choice([0.0, 0.2, 1.0]))
        made.append((p, q, rng.random(len(p)) < 0.5, stop, limit, epsilon))
    for p, q, reaching, stop, limit, epsilon in made:
        pair = [worlds.first_to_reach(side, reaching, stop, limit) for side in (p, q)]
        exact = max(worlds.delta_of(*pair, epsilon), worlds.delta_of(*pair[::-1], epsilon))
        yield exact - threshold_delta(worlds.profile_of_pair(p, q), stop, epsilon, limit)


def test_no_small_world_with_a_threshold_costs_more_than_its_price():
    assert max(_threshold_worlds(150)) <= 1e-12


@pytest.mark.slow
def test_no_small_world_of_many_with_a_threshold_costs_more_than_its_price():
    assert max(_threshold_worlds(7500)) <= 1e-12


def _pure_pairs():
    """ε-DP pairs with an outcome of small mass that D likes, first what D′ likes most."""
    for epsilon in (0.2, 1.0, 2.0):
        top = math.exp(epsilon)
        p = np.array([1e-6 * top, top / (1.0 + top), 1.0 / (1.0 + top)])
        q = np.array([1e-6, 1.0 / (1.0 + top), top / (1.0 + top)])
        p[1] -= p[0]
        q[1] -= q[0]
        yield epsilon, p[[1, 0, 2]], q[[1, 0, 2]]


@pytest.mark.parametrize(
    "law", [GEOMETRIC, TruncatedNegativeBinomial(0.0, 5.0), TruncatedNegativeBinomial(2.0, 16.0), Poisson(3.0)]
)
def test_the_pure_price_is_approached(law):
    for epsilon, p, q in _pure_pairs():
        reached = float(np.log(worlds.winner(p, law)[:3] / worlds.winner(q, law)[:3]).max())
        stated = pure_selection_epsilon(epsilon, law)
        assert reached - 1e-8 <= stated <= reached + 1e-3
        if isinstance(law, TruncatedNegativeBinomial):
            g, top = mpmath.mpf(law.gamma), mpmath.exp(epsilon)
            exact = epsilon + (1 + law.shape) * mpmath.log((g + top) / (1 + g * top))
            assert exact - 1e-13 <= stated <= exact + 1e-10


@pytest.mark.parametrize("limit", [None, 12])
def test_the_pure_price_of_a_threshold_is_approached(limit):
    for epsilon, p, q in _pure_pairs():
        reaching = np.array([False, True, True])
        pair = [worlds.first_to_reach(side, reaching, 0.1, limit) for side in (p, q)]
        reached = max(abs(math.log(pair[0][place] / pair[1][place])) for place in (1, 3))
        assert reached - 1e-9 <= pure_threshold_epsilon(epsilon, 0.1, limit) <= reached + 4e-3


def test_a_profile_of_a_pure_trial_costs_no_more_than_the_pure_price():
    for law in (GEOMETRIC, Poisson(4.0), Fixed(3), Binomial(6, 0.4), CappedCount(GEOMETRIC, 25)):
        for low, high in ((1.0, 1.0), (0.8, 1.25)):
            pure = pure_selection_epsilon(1.0, law, low, high)
            profile = LossProfile.of_epsilon_delta(1.0)
            if math.isfinite(pure):
                assert selection_delta(profile, law, pure + 1e-9, low, high) <= 0.008 * law.expected * high


@pytest.mark.parametrize("alpha", [1.5, 3.0, 16.0])
def test_the_renyi_forms_cover_small_worlds(alpha):
    rng = np.random.default_rng(5)
    orders = 1.0 + np.geomspace(1e-2, 1e3, 60)
    for _ in range(60):
        p, q = worlds.random_pair(rng, 4)
        if not (q > 0).all():
            continue
        costs = [max(_renyi(p, q, a), _renyi(q, p, a)) for a in orders]
        at = max(_renyi(p, q, alpha), _renyi(q, p, alpha))
        law, reaching, limit = worlds.random_law(rng), rng.random(4) < 0.5, int(rng.integers(1, 20))
        stated = renyi_selection_cost(alpha, at, orders, costs, law)
        assert _renyi(worlds.winner(p, law), worlds.winner(q, law), alpha) <= stated + 1e-9
        for most in (None, limit):
            pair = [worlds.first_to_reach(side, reaching, 0.2, most) for side in (p, q)]
            assert _renyi(*pair, alpha) <= renyi_threshold_cost(alpha, at, orders, costs, 0.2, most) + 1e-9


def _renyi(p, q, alpha):
    seen = p > 0
    terms = alpha * np.log(p[seen]) + (1.0 - alpha) * np.log(q[seen])
    return float(np.logaddexp.reduce(terms) / (alpha - 1.0))


def test_a_known_threshold_costs_less_than_the_best_of_many():
    profile = LossProfile.of_event(dp.GaussianDpEvent(1.0 / 0.3))
    assert threshold_epsilon(profile, 0.01, 1e-6) == pytest.approx(2.017, abs=0.002)
    assert selection_epsilon(profile, TruncatedNegativeBinomial(1.0, 100.0), 1e-6) == pytest.approx(
        2.473, abs=0.002
    )
    assert selection_epsilon(profile, TruncatedNegativeBinomial(0.0, 100.0), 1e-6) == pytest.approx(
        2.184, abs=0.002
    )


def test_always_running_thirty_trainings_hides_their_number_for_one_percent():
    profile = LossProfile.of_event(dp.GaussianDpEvent(1.0 / 0.3))
    assert selection_epsilon(profile, GEOMETRIC, 1e-6) == pytest.approx(1.897, abs=0.002)
    assert selection_epsilon(profile, CappedCount(GEOMETRIC, 30), 1e-6) == pytest.approx(1.903, abs=0.002)


def test_the_numbers_of_three_public_threads():
    one = dp_sgd(1.0, 0.01, 1000)
    assert price(one, 1, 1e-5) == pytest.approx(1.83, abs=0.005)
    assert 2.67 < price(one, GEOMETRIC, 1e-5) <= 2.69
    leak = dp_sgd(0.6435, 0.01, 2000)
    assert price(leak, 10, 1e-5) == pytest.approx(11.1, abs=0.06)


@pytest.mark.slow
def test_forty_trainings_that_all_leave_cost_their_composition():
    event = dp.SelfComposedDpEvent(dp_sgd(0.6435, 0.01, 2000), 40)
    assert price(event, 1, 1e-5) == pytest.approx(71.8, abs=0.1)


def test_the_examples_in_the_docstrings_are_true():
    assert doctest.testmod(event_price).failed == 0
    assert (dpbo.price, dpbo.calibrate) == (price, calibrate)


def test_calibrated_noise_has_the_price_and_little_less_has_more():
    noise = calibrate(dp.GaussianDpEvent, 1.0, GEOMETRIC, 1e-6)
    assert noise == pytest.approx(6.14, abs=0.02)
    assert price(dp.GaussianDpEvent(noise), GEOMETRIC, 1e-6) <= 1.0
    assert price(dp.GaussianDpEvent(noise * 0.998), GEOMETRIC, 1e-6) > 1.0
    with pytest.raises(ValueError, match="positive"):
        calibrate(dp.GaussianDpEvent, 0.0)


def test_laws_of_the_number_of_trials_by_summing_their_series():
    r = np.array([0.0, 1e-3, 0.3, 1.0])
    for law in (
        *(TruncatedNegativeBinomial(shape, 2.0) for shape in (-0.5, 0.0, 1.0, 2.5)),
        Poisson(4.0),
        Binomial(9, 0.3),
        Fixed(4),
        CappedCount(TruncatedNegativeBinomial(2.0, 4.0), 6),
    ):
        masses, k = law.probabilities(400), np.arange(400)
        assert masses.sum() == pytest.approx(1.0, abs=1e-12)
        assert law.expected == pytest.approx(float(k @ masses), rel=1e-10)
        series = [mpmath.fsum(m * mpmath.mpf(1 - x) ** int(j) for j, m in zip(k, masses, strict=True)) for x in r]
        assert np.allclose(law.generating(r), np.array(series, float), atol=1e-12)
        slopes = [float(sum(j * masses[j] * (1.0 - x) ** (j - 1) for j in range(1, 400))) for x in r]
        assert np.allclose(law.slope(r), slopes, rtol=1e-9, atol=1e-12)


def test_what_no_profile_supports_is_refused():
    profile = LossProfile.of_epsilon_delta(1.0)
    for call in (
        lambda: selection_epsilon(profile, GEOMETRIC, 1e-11),
        lambda: selection_epsilon(profile, GEOMETRIC, 1e-6, 0.0, 2.0),
        lambda: threshold_epsilon(profile, 0.0, 1e-6),
        lambda: CappedCount(GEOMETRIC, 0),
        lambda: TruncatedNegativeBinomial(-1.0, 10.0),
    ):
        with pytest.raises(ValueError, match=r"δ|c|γ|η|cap"):
            call()


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 50.0])
def test_the_least_noise_is_affordable_and_a_little_less_is_not(epsilon):
    """A price of 1/noise has the least noise 1/ε, inside the range that is searched."""
    noise = event_price.least_noise(lambda noise: 1.0 / noise, epsilon, precision=1e-3)
    assert 1.0 / epsilon <= noise <= 1.0011 / epsilon
    assert event_price.least_noise(lambda noise: 1.0 / noise, 1e9, lowest=0.5) == 0.5
    with pytest.raises(ValueError, match="no noise up to 10"):
        event_price.least_noise(lambda noise: 1.0 / noise, epsilon * 1e-4, highest=10.0)
    with pytest.raises(ValueError, match="positive"):
        event_price.least_noise(lambda noise: 1.0 / noise, 0.0)


def test_a_replaced_record_moves_a_gaussian_sum_by_as_much_as_is_stated():
    """By the analytic Gaussian profile (Balle and Wang 2018): Φ(a/2 − ε/a) − e^ε·Φ(−a/2 − ε/a), a = moves/σ."""
    event = dp.GaussianDpEvent(2.0)
    for neighbours, moves in (("add_or_remove", None), ("replace_one", 2.0), ("replace_one", 1.0)):
        profile = events.profile_of_event(event, neighbours=neighbours, replaced_moves=moves)
        a = (moves or 1.0) / 2.0
        exact = mpmath.ncdf(a / 2 - 1 / a) - mpmath.e * mpmath.ncdf(-a / 2 - 1 / a)
        assert exact <= profile.delta(1.0) <= float(exact) * 1.01
    with pytest.raises(ValueError, match="replaced"):
        events.profile_of_event(event, neighbours="replace_one", replaced_moves=None)


def test_an_event_of_unsampled_noise_costs_the_sums_by_hand():
    """A Laplace of scale 2 costs ε = ½, a Gaussian of σ = 2 costs ρ = 1/8, or ½ if a replaced record moves by 2."""
    laplace, gaussian = dp.LaplaceDpEvent(2.0), dp.GaussianDpEvent(2.0)
    both = dp.ComposedDpEvent([dp.SelfComposedDpEvent(laplace, 3), gaussian, dp.ZCDpEvent(0.25), dp.NoOpDpEvent()])
    assert events.exact_cost(both, neighbours="add_or_remove", replaced_moves=None) == (1.5, 0.375)
    assert events.exact_cost(gaussian, neighbours="replace_one", replaced_moves=2.0) == (0.0, 0.5)
    sampled = dp.PoissonSampledDpEvent(0.1, gaussian)
    assert events.exact_cost(sampled, neighbours="add_or_remove", replaced_moves=None) is None
    with pytest.raises(ValueError, match="positive scale"):
        events.exact_cost(dp.LaplaceDpEvent(0.0), neighbours="add_or_remove", replaced_moves=None)


def test_the_least_epsilon_is_the_upper_end_of_where_a_profile_meets_delta():
    """The profile e^(−ε) meets δ at log(1/δ), and a profile below δ everywhere costs nothing."""
    for delta in (1e-2, 1e-9):
        found = loss_profile.least_epsilon(lambda epsilon: math.exp(-epsilon), delta)
        assert math.log(1.0 / delta) <= found <= math.log(1.0 / delta) + 1e-3
    assert loss_profile.least_epsilon(lambda epsilon: 1e-12, 1e-9) <= 1e-3
