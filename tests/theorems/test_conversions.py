"""zCDP and (ε, δ): against two accounting libraries and a fine grid of orders, and rounded towards privacy."""

import math

import pytest
from dp_accounting import ZCDpEvent
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from opendp import combinators, measurements
from opendp.domains import atom_domain
from opendp.metrics import absolute_distance
from opendp.mod import enable_features
from worlds import at_length

from dpbo_core.theorems import mckenna_sheldon_2020
from dpbo_core.theorems.canonne_kamath_steinke_2020 import (
    proposition_12_converted,
    proposition_12_cost,
    proposition_12_epsilon,
    proposition_12_rho,
    proposition_12_worth,
    theorem_14_sigma,
)

enable_features("contrib")


@pytest.mark.parametrize(("rho", "delta"), [(0.03, 1e-6), (0.01, 1e-5), (1.0, 1e-5), (10.0, 1e-9), (1e-4, 1e-3)])
def test_epsilon_agrees_with_opendp_and_the_accounting_library(rho, delta):
    ours = proposition_12_epsilon(rho=rho, delta=delta)
    gaussian = measurements.make_gaussian(
        atom_domain(T="i64"), absolute_distance(T="i64"), scale=1 / math.sqrt(2 * rho)
    )
    assert ours == pytest.approx(combinators.make_zCDP_to_approxDP(gaussian).map(1).epsilon(delta), rel=1e-6)
    accountant = RdpAccountant()
    accountant.compose(ZCDpEvent(rho))
    grid = accountant.get_epsilon(delta)  # its orders are a fixed grid: sound, a little larger
    assert ours <= grid * (1 + 1e-9)
    assert grid <= ours * 1.01 + 1e-3


@settings(max_examples=at_length(40))
@given(st.floats(1e-4, 50), st.floats(1e-12, 0.1))
def test_rho_is_the_largest_that_fits(epsilon, delta):
    rho = proposition_12_rho(epsilon=epsilon, delta=delta)
    assert proposition_12_epsilon(rho=rho, delta=delta) <= epsilon
    assert proposition_12_epsilon(rho=rho * (1 + 1e-6) + 1e-15, delta=delta) > epsilon * (1 - 1e-5)


@settings(max_examples=at_length(100))
@given(st.floats(1e-6, 1e2), st.floats(0.0, 5.0), st.floats(1e-12, 0.1))
def test_any_renyi_curve_converts_at_its_best_order_and_back(rho, pure, delta):
    """A Gaussian's cost and a constant: no order of a fine grid gives less, and (ε, δ) holds that cost there."""

    def cost(alpha):
        return alpha * rho + pure

    epsilon, alpha = proposition_12_converted(cost, delta=delta)
    orders = [1 + 2.0 ** (k / 8) for k in range(-80, 120)]
    grid = [cost(a) + math.log1p(-1 / a) - math.log(a * delta) / (a - 1) for a in orders]
    assert epsilon <= max(0.0, min(grid)) * (1 + 1e-9) + 1e-9
    if epsilon > 0.0:
        found = proposition_12_cost(alpha=alpha, epsilon=epsilon, delta=delta)
        assert found == pytest.approx(cost(alpha), rel=1e-6, abs=1e-9)
        assert proposition_12_cost(alpha=alpha, epsilon=epsilon * (1 - 1e-6), delta=delta) <= cost(alpha)
        worth = proposition_12_worth(alpha=alpha, cost=cost(alpha), delta=delta)
        assert epsilon * (1 - 1e-6) <= worth == pytest.approx(epsilon, rel=1e-6, abs=1e-9)
        assert proposition_12_worth(alpha=alpha * 1.5, cost=cost(alpha * 1.5), delta=delta) >= epsilon * (1 - 1e-9)
    assert proposition_12_converted(cost, delta=0.0) == (math.inf, math.inf)


def test_limits():
    assert proposition_12_epsilon(rho=0.0, delta=1e-6) == 0.0
    assert proposition_12_epsilon(rho=0.1, delta=0.0) == math.inf
    assert proposition_12_rho(epsilon=1.0, delta=0.0) == 0.0
    assert proposition_12_rho(epsilon=0.0, delta=1e-6) == proposition_12_rho(epsilon=-0.0, delta=1e-6) == 0.0
    assert theorem_14_sigma(rho=0.5, sensitivity=3.0) == pytest.approx(3.0)
    assert theorem_14_sigma(rho=0.5, sensitivity=3.0) > 3.0  # rounded up


def test_selection_scale_and_error():
    assert mckenna_sheldon_2020.selection_scale(sensitivity=0.1, epsilon=0.5) == pytest.approx(0.4)
    bound = mckenna_sheldon_2020.theorem_2_expected_error(n_candidates=8, sensitivity=0.1, epsilon=0.5)
    assert bound == pytest.approx(0.4 * math.log(8))
    for gaps in ([0.0] * 8, [0.0] + [1.0] * 7, [0.0, 0.1, 0.2, 0.5, 0.5, 0.6, 0.7, 0.9]):  # exact, enumerated
        weights = [math.exp(-gap / 0.4) for gap in gaps]
        assert sum(w * g for w, g in zip(weights, gaps, strict=True)) / sum(weights) <= bound
