"""Composition and admission: sound sums, exact fills, and no Gaussian in the basic sum."""

import math
from dataclasses import replace

import pytest
from dp_accounting import GaussianDpEvent
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import at_length

from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.accounting.composition import ZERO_TOTAL, Filter, Total, compose, largest_rho
from dpbo_core.mechanisms.exponential import PrivateSelection
from dpbo_core.mechanisms.gaussian import DiscreteGaussian
from dpbo_core.mechanisms.laplace import DiscreteLaplace
from dpbo_core.privacy.amounts import from_units, spent_units
from dpbo_core.theorems.canonne_kamath_steinke_2020 import proposition_12_epsilon

LAPLACE = DiscreteLaplace(10, spent_units(0.5), 1.0)
GAUSS = DiscreteGaussian(10, spent_units(0.002), 1.0)
FLIP = PrivateSelection(10, spent_units(0.5), 1.0, "permute-and-flip")
GUMBEL = PrivateSelection(10, spent_units(0.5), 1.0, "exponential mechanism")
ALL = [LAPLACE, GAUSS, FLIP, GUMBEL]


@pytest.mark.parametrize("mechanism", ALL, ids=lambda m: m.spend("").mechanism)
def test_composing_n_times_is_n_times_the_cost(mechanism):
    spends = [mechanism.spend(str(i)) for i in range(7)]
    total, one = compose(spends), spends[0]
    assert total.rho_units == 7 * one.rho_units
    assert total.epsilon_units == (None if one.epsilon_units is None else 7 * one.epsilon_units)


def test_prices_by_hand():
    assert from_units(LAPLACE.spend("").rho_units) == pytest.approx(0.125, abs=1e-11)
    assert from_units(FLIP.spend("").rho_units) == pytest.approx(0.125, abs=1e-11)
    assert from_units(GUMBEL.spend("").rho_units) == pytest.approx(0.25 / 8, abs=1e-11)
    assert all(from_units(m.spend("").rho_units) >= 0.25 / 8 for m in (LAPLACE, FLIP, GUMBEL))  # rounded up
    assert GAUSS.spend("").epsilon == math.inf


def test_a_gaussian_makes_the_pure_sum_infinite():
    total = compose([LAPLACE.spend("a"), GAUSS.spend("b")])
    assert total.epsilon_units is None
    epsilon, delta = total.epsilon(1e-6)
    assert epsilon == proposition_12_epsilon(rho=from_units(total.rho_units), delta=1e-6)
    assert delta == 1e-6


def test_thirty_gaussians_cost_what_the_accounting_library_says():
    spends = [GAUSS.spend(str(i)) for i in range(30)]
    epsilon, _ = compose(spends).epsilon(1e-5)
    accountant = RdpAccountant()
    accountant.compose(GaussianDpEvent(1 / math.sqrt(2 * 0.002)), 30)
    assert epsilon == pytest.approx(accountant.get_epsilon(1e-5), rel=5e-3)
    assert epsilon < 30 * proposition_12_epsilon(rho=0.002, delta=1e-5) / 3


def test_the_smaller_route_is_shown():
    one = compose([LAPLACE.spend("a")])
    assert one.epsilon(1e-6) == (0.5, 0.0)
    many = compose([LAPLACE.spend(str(i)) for i in range(200)])
    epsilon, delta = many.epsilon(1e-6)
    assert epsilon < 100
    assert delta == 1e-6


def admits(budget, total):
    """Whether the cap admits `total` by its sums alone: each draw at its ρ."""
    return budget.admits(
        total, None, replace(Filter.of(budget.epsilon_units, budget.delta_conversion), units=total.rho_units)
    )


@settings(max_examples=at_length(100))
@given(st.lists(st.sampled_from(ALL), max_size=40), st.floats(0.1, 20), st.sampled_from([0.0, 1e-9, 1e-5]))
def test_admission_never_passes_the_cap(mechanisms, epsilon, delta):
    """Whatever is admitted stays under (ε, δ) by one sound route, whatever the order and the choice."""
    budget = PrivacyBudget.of("d", epsilon=epsilon, delta=delta)
    spent = ZERO_TOTAL
    for i, mechanism in enumerate(mechanisms):
        asked = compose([mechanism.spend(str(i))])
        if admits(budget, spent + asked):
            spent += asked
    pure = spent.epsilon_units is not None and spent.epsilon_units <= budget.epsilon_units
    assert pure or proposition_12_epsilon(rho=from_units(spent.rho_units), delta=delta) <= epsilon


def test_only_delta_spends_are_refused_unless_the_cap_was_opened_for_them():
    only = Total(spent_units(0.1), 1, spent_units(0.005))
    plain = PrivacyBudget.of("d", epsilon=5.0, delta=1e-5)
    assert plain.delta_only_units == 0
    assert not admits(plain, only)
    assuming = PrivacyBudget.of("d", epsilon=5.0, delta=1e-5, accepts=("gp_prior",))
    assert assuming.delta_only_units == spent_units(5e-6)
    assert assuming.delta_conversion == 5e-6
    assert admits(assuming, only)


def test_a_cap_without_delta_holds_no_gaussian():
    assert largest_rho(5.0, 0.0) == 0
    budget = PrivacyBudget.of("d", epsilon=5.0, delta=0.0)
    assert not admits(budget, compose([GAUSS.spend("a")]))
    assert admits(budget, compose([LAPLACE.spend(str(i)) for i in range(10)]))
    assert not admits(budget, compose([LAPLACE.spend(str(i)) for i in range(11)]))
