"""The ledger keeps Σr_i: it admits by it, and seals it."""

import math

import pytest
from test_ledger import GUARANTEE, SYSTEM, key

from dpbo_core.errors import BudgetExceeded
from dpbo_core.ledger import audit
from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.accounting.composition import Filter, draw_units, largest_rho, most_units
from dpbo_core.ledger.charge import Charge
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.store import LedgerStore
from dpbo_core.mechanisms.gaussian import DiscreteGaussian
from dpbo_core.mechanisms.laplace import DiscreteLaplace
from dpbo_core.privacy.amounts import spent_units
from dpbo_core.privacy.release import PrivacyPlan

GRID = PrivacyPlan(GUARANTEE, tuple(DiscreteLaplace(10, spent_units(e), 1.0).spend(str(e)) for e in (0.75, 0.25)))
TRAJECTORY = PrivacyPlan(GUARANTEE, (DiscreteGaussian(10, largest_rho(1.0, 1e-6), 1.0).spend("path"),))


def account(url):
    (found,) = PrivacyLedger(url).accounts("d")
    return found


def charged(url, plan, name):
    PrivacyLedger(url).reserve(Charge(key(name), plan), noise=SYSTEM)


def sealed(url):
    """The filter as the newest entry has it."""
    with LedgerStore(url).writing() as writer:
        return writer.totals_of("d").filter


@pytest.fixture
def capped(url):
    PrivacyLedger(url).set_budget(PrivacyBudget.of("d", epsilon=5.0, delta=1e-5))
    return url


def test_what_was_mixed_goes_on_as_far_as_the_order_says(capped):
    for grid in range(2):
        charged(capped, GRID, f"grid {grid}")
    assert account(capped).rooms == {"private_grid": 3}
    for n in range(10):
        charged(capped, TRAJECTORY, f"path {n}")
    with pytest.raises(BudgetExceeded, match="adds up at one order, where it is more"):
        charged(capped, TRAJECTORY, "path 10")
    assert account(capped).rooms == {"private_grid": 0}  # all of them are called so here
    alpha, units = sealed(capped).alpha, sealed(capped).units
    expected = sum(draw_units((s.epsilon_units, s.rho_units), alpha) for p in [GRID] * 2 + [TRAJECTORY] * 10
                   for s in p.spends)  # fmt: skip
    assert Filter(alpha, units) == account(capped).filtered == Filter(alpha, expected)
    audit.verify(capped)


def test_a_dataset_without_a_delta_adds_its_epsilons(url):
    PrivacyLedger(url).set_budget(PrivacyBudget.of("d", epsilon=2.0, delta=0.0))
    assert account(url).rooms == {}
    for n in range(2):
        charged(url, GRID, str(n))
    with pytest.raises(BudgetExceeded):
        charged(url, GRID, "3")
    assert sealed(url) == Filter(0.0, 0)


@pytest.mark.parametrize("plan", [GRID, TRAJECTORY], ids=["pure", "gaussian"])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 5.0])
def test_there_is_room_exactly_where_the_charge_would_be_admitted(url, plan, epsilon):
    """The first Gaussian study of a new dataset was refused: its cap had no order yet."""
    cap, ledger, outcomes = PrivacyBudget.of("d", epsilon=epsilon, delta=1e-5), PrivacyLedger(url), []
    for n in range(40):  # one more than fits
        if len(outcomes) > 1 and not any(outcomes[-1]):
            break
        charge = Charge(key(str(n)), plan, cap=cap)
        outcomes.append(
            (
                admitted(lambda: ledger.check_room(charge)),  # noqa: B023  called here
                admitted(lambda: ledger.reserve(charge, noise=SYSTEM)),  # noqa: B023
            )
        )
    assert all(room is charged for room, charged in outcomes)
    alpha = Filter.of(cap.epsilon_units, cap.delta_conversion).alpha
    cost = sum(draw_units((spend.epsilon_units, spend.rho_units), alpha) for spend in plan.spends)
    fits = max(math.floor(epsilon) if plan is GRID else 0, most_units(alpha, cap.epsilon_units, 1e-5) // cost)
    assert sum(charged for _, charged in outcomes) == min(fits, 40)


def admitted(ask):
    try:
        ask()
    except BudgetExceeded:
        return False
    return True
