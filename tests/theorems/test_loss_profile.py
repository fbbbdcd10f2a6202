"""Loss profiles round up: against exact formulas, the library, and pairs small enough to be summed."""

import math

import dp_accounting as dp
import numpy as np
import pytest
import selection_worlds as worlds
from scipy.stats import norm

from dpbo_core.theorems.canonne_kamath_steinke_2020 import proposition_12_epsilon
from dpbo_core.theorems.loss_profile import LossProfile, renyi_rho

EPSILONS = (0.0, 0.1, 0.5, 1.0, 2.0, 4.0)


def gaussian_delta(mu, epsilon):
    return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


def test_of_epsilon_delta_is_the_line_between_its_two_points():
    profile = LossProfile.of_epsilon_delta(1.0, 1e-3)
    assert profile.delta(1.0) == pytest.approx(1e-3)
    assert profile.epsilon(1e-3) == pytest.approx(1.0, abs=1e-6)
    assert profile.epsilon(1e-4) == math.inf
    assert profile.delta(0.0) == pytest.approx(1e-3 + (1 - 1e-3) * math.tanh(0.5), abs=1e-12)


@pytest.mark.parametrize("rho", [0.005, 0.5, 4.0])
def test_of_zcdp_is_proposition_12(rho):
    profile = LossProfile.of_zcdp(rho)
    for delta in (1e-3, 1e-6, 1e-9):
        exact = proposition_12_epsilon(rho=rho, delta=delta)
        assert exact - 1e-6 <= profile.epsilon(delta) <= exact * 1.01 + 1e-3


def test_of_renyi_interpolates_between_orders():
    orders = [1.5, 2.0, 3.0, 5.0, 8.0, 16.0, 32.0]
    table = LossProfile.of_renyi(orders, [0.05 * a for a in orders])
    exact = proposition_12_epsilon(rho=0.05, delta=1e-5)
    assert exact - 1e-6 <= table.epsilon(1e-5) <= 1.02 * exact
    assert LossProfile.of_renyi([2.0], [math.inf]).epsilon(1e-5) == math.inf
    for wrong in (([1.0], [1.0]), ([3.0, 2.0], [1.0, 1.0]), ([2.0], [-1.0]), ([], [])):
        with pytest.raises(ValueError, match="Rényi"):
            LossProfile.of_renyi(*wrong)


@pytest.mark.parametrize(
    ("event", "neighbours", "moves", "mu"),
    [
        (dp.GaussianDpEvent(2.0), "add_or_remove", None, 0.5),
        (dp.GaussianDpEvent(2.0), "zero_out", None, 0.5),
        (dp.GaussianDpEvent(2.0), "replace_one", 1.0, 0.5),
        (dp.GaussianDpEvent(2.0), "replace_one", 2.0, 1.0),
        (dp.SelfComposedDpEvent(dp.GaussianDpEvent(2.0), 4), "add_or_remove", None, 1.0),
        (dp.ComposedDpEvent([dp.GaussianDpEvent(4.0), dp.NoOpDpEvent()]), "add_or_remove", None, 0.25),
    ],
)
def test_a_gaussian_event_has_the_gaussian_profile(event, neighbours, moves, mu):
    profile = LossProfile.of_event(event, neighbours=neighbours, replaced_moves=moves)
    for epsilon in EPSILONS:
        exact = gaussian_delta(mu, epsilon)
        assert exact - 1e-14 <= profile.delta(epsilon) <= exact * 1.001 + 1e-13


def test_composition_is_that_of_the_parts():
    one = LossProfile.of_event(dp.GaussianDpEvent(2.0))
    both = one.compose(LossProfile.of_event(dp.GaussianDpEvent(1.0)))
    for epsilon in EPSILONS:
        exact = gaussian_delta(math.sqrt(1.25), epsilon)
        assert exact - 1e-13 <= both.delta(epsilon) <= exact * 1.001 + 1e-12
    sampled = LossProfile.of_event(dp.PoissonSampledDpEvent(0.1, dp.GaussianDpEvent(1.0)))
    accountant = dp.pld.PLDAccountant().compose(dp.PoissonSampledDpEvent(0.1, dp.GaussianDpEvent(1.0)), 2)
    ours = sampled.compose(sampled).epsilon(1e-5)
    assert ours == pytest.approx(accountant.get_epsilon(1e-5), abs=1e-4)


def test_a_grid_and_a_composition_never_lie_below_the_exact_profile():
    rng = np.random.default_rng(3)
    t = np.exp(np.linspace(-3.0, 3.0, 61))
    for _ in range(60):
        p, q = worlds.random_pair(rng, 5)
        p2, q2 = worlds.random_pair(rng, 3)
        exact = worlds.law_of_pair(p, q)
        assert (exact.on_grid(0.01).hockey_stick(t) >= exact.hockey_stick(t) - 1e-12).all()
        both = worlds.law_of_pair(np.outer(p, p2).ravel(), np.outer(q, q2).ravel())
        composed = exact.compose(worlds.law_of_pair(p2, q2), 1e-3)
        assert (composed.hockey_stick(t) >= both.hockey_stick(t) - 1e-12).all()
        assert (composed.hockey_stick(t) <= both.hockey_stick(t) + 2e-3).all()


def test_a_mean_over_candidates_is_linear():
    profiles = [LossProfile.of_event(dp.GaussianDpEvent(s)) for s in (0.8, 1.0, 1.3, 1.7)]
    weights = [0.4, 0.3, 0.2, 0.1]
    mean = LossProfile.mean(profiles, weights)
    for epsilon in EPSILONS:
        parts = [w * p.removed.hockey_stick(np.exp([epsilon]))[0] for w, p in zip(weights, profiles, strict=True)]
        assert mean.delta(epsilon) == pytest.approx(sum(parts), rel=1e-9)
    assert mean.epsilon(1e-5) < profiles[0].epsilon(1e-5)
    with pytest.raises(ValueError, match="weights"):
        LossProfile.mean(profiles, [0.4, 0.3, 0.2, 0.2])


def test_replace_one_covers_a_record_removed_and_another_added():
    rng = np.random.default_rng(11)
    for _ in range(12):
        p, q = worlds.random_pair(rng, 4)
        r = rng.dirichlet(np.ones(4))
        removed, added = worlds.law_of_pair(p, q), worlds.law_of_pair(q, r)
        profile = LossProfile(removed, added).replace_one()
        exact = worlds.law_of_pair(p, r)
        for epsilon in EPSILONS:
            assert profile.delta(epsilon) >= float(exact.hockey_stick(np.exp([epsilon]))[0]) - 1e-12
    halves = LossProfile.of_event(dp.GaussianDpEvent(2.0)).replace_one()
    assert gaussian_delta(1.0, 1.0) <= halves.delta(1.0) <= 3.0 * gaussian_delta(1.0, 1.0)


def test_a_cut_loss_costs_its_rho_at_every_order():
    rng = np.random.default_rng(21)
    alphas = 1.0 + np.geomspace(1e-4, 1e5, 300)
    for _ in range(60):
        p, q = worlds.random_pair(rng, 6)
        delta = float(rng.choice([1e-9, 0.01, 0.1]))
        rho = worlds.profile_of_pair(p, q).cut_rho(delta)
        for law in (worlds.law_of_pair(p, q), worlds.law_of_pair(q, p)):
            order = np.argsort(law.losses)[::-1]
            dropped = law.infinite + np.cumsum(law.masses[order]) <= delta
            losses, masses = law.losses[order][~dropped], law.masses[order][~dropped]
            if law.infinite > delta:
                assert rho == math.inf
                continue
            for alpha in alphas if len(losses) else ():
                moment = float(np.logaddexp.reduce(np.log(masses) + (alpha - 1.0) * losses))
                assert moment <= alpha * (alpha - 1.0) * rho + 1e-9
    gaussian = LossProfile.of_event(dp.GaussianDpEvent(2.0))
    assert 0.98 * 0.125 < gaussian.cut_rho(1e-9) < 1.02 * 0.125
    orders = 1.0 + np.geomspace(0.05, 100.0, 60)
    assert 0.125 <= renyi_rho(orders, 0.125 * orders, 1e-9) < 0.125 * 1.1


@pytest.mark.parametrize(
    ("event", "neighbours", "moves", "named"),
    [
        (dp.GaussianDpEvent(1.0), "replace_one", None, "GaussianDpEvent under replace_one needs replaced_moves"),
        (dp.PoissonSampledDpEvent(0.1, dp.GaussianDpEvent(1.0)), "replace_one", None, "replaced_moves"),
        (dp.PoissonSampledDpEvent(0.1, dp.LaplaceDpEvent(1.0)), "replace_one", 2.0, "LaplaceDpEvent"),
        (dp.NonPrivateDpEvent(), "add_or_remove", None, "NonPrivateDpEvent is not an event"),
        (dp.SampledWithoutReplacementDpEvent(9, 3, dp.GaussianDpEvent(1.0)), "add_or_remove", None, "Sampled"),
        (dp.GaussianDpEvent(0.0), "add_or_remove", None, "positive scale"),
        (dp.ZCDpEvent(0.1, xi=0.1), "add_or_remove", None, "ξ"),
        (dp.SelfComposedDpEvent(dp.GaussianDpEvent(1.0), 1.5), "add_or_remove", None, "whole number"),
        (object(), "add_or_remove", None, "object is not an event"),
        (dp.GaussianDpEvent(1.0), "swap", None, "neighbours"),
    ],
)
def test_an_event_that_is_not_listed_is_refused_by_name(event, neighbours, moves, named):
    with pytest.raises(ValueError, match=named):
        LossProfile.of_event(event, neighbours=neighbours, replaced_moves=moves)
