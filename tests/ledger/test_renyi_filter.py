"""Pure and Gaussian spends in one account: costs by multi-precision, soundness against every adaptive adversary."""

import math
from collections import Counter
from functools import cache

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from worlds import at_length

from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.accounting.composition import (
    ZERO_TOTAL,
    Filter,
    Total,
    compose,
    compose_all,
    draw_units,
    draws_in,
    largest_rho,
    most_units,
)
from dpbo_core.mechanisms.exponential import PrivateSelection
from dpbo_core.mechanisms.gaussian import DiscreteGaussian
from dpbo_core.mechanisms.laplace import DiscreteLaplace
from dpbo_core.privacy.amounts import UNITS_PER_ONE, from_units, spent_units
from dpbo_core.theorems.canonne_kamath_steinke_2020 import proposition_12_epsilon

CAP = PrivacyBudget.of("d", epsilon=5.0, delta=1e-5)
EMPTY = Filter.of(CAP.epsilon_units, CAP.delta_conversion)


def pure(epsilon):
    return spent_units(epsilon), spent_units(epsilon**2 / 2)


def gaussian(epsilon, delta):
    return None, largest_rho(epsilon, delta)


GRID, TRAJECTORY = (pure(0.75), pure(0.25)), (gaussian(1.0, 1e-6),)


def rho_of(budget):
    """ρ* of a cap."""
    return largest_rho(from_units(budget.epsilon_units), budget.delta_conversion)


def total(draws):
    epsilon = None if any(e is None for e, _ in draws) else sum(e for e, _ in draws)
    return Total(epsilon, 0, sum(rho for _, rho in draws))


def admitted(draws, *, before=(), budget=CAP, filtered=True):
    """How many more plans of these draws the cap takes after `before`."""
    spent, account = total(before), Filter.of(budget.epsilon_units, budget.delta_conversion)
    account, n = account.after(before, spent), 0
    while True:
        spent, account = spent + total(draws), account.after(draws, total(draws))
        if not budget.admits(spent, None, account if filtered else Filter(account.alpha, spent.rho_units)):
            return n
        n += 1


def test_the_order_and_the_costs_of_the_usual_cap():
    """MATH's example: α* = 5.2300, α*ρ* = 2.8816, ε = 1 costs 0.9260 of it; an exponential mechanism less."""
    assert EMPTY.alpha == pytest.approx(5.2300, abs=5e-5)
    assert EMPTY.alpha * from_units(rho_of(CAP)) == pytest.approx(2.8816, abs=5e-5)
    assert EMPTY.alpha * from_units(draw_units(pure(1.0), EMPTY.alpha)) == pytest.approx(0.9260, abs=5e-5)
    gumbel = PrivateSelection(10, spent_units(1.0), 1.0, "exponential mechanism").spend("")
    (draw,) = draws_in([gumbel.to_json()])
    assert draw_units(draw, EMPTY.alpha) == gumbel.rho_units == pytest.approx(UNITS_PER_ONE / 8, rel=1e-9)


def test_what_fits_under_the_usual_cap():
    """Trajectories of (1, 1e-6) after 0 to 4 grids of ε = 1: 22, 16, 10, 3, 0; by Σρ alone 22, 9, 0, 0, 0.

    (16, 11, 6, 2 would fit by the best order over each list of draws, which is chosen afterwards and proves none.)
    """
    assert [admitted(TRAJECTORY, before=GRID * n) for n in range(5)] == [22, 16, 10, 3, 0]
    assert [admitted(TRAJECTORY, before=GRID * n, filtered=False) for n in range(5)] == [22, 9, 0, 0, 0]
    afterwards = []
    for grids in range(1, 5):
        n = 0
        while compose_all(Counter(GRID * grids + TRAJECTORY * (n + 1)), 0, CAP.delta_conversion)[0] <= 5.0:
            n += 1
        afterwards.append(n)
    assert afterwards == [16, 11, 6, 2]
    assert (admitted([pure(0.1)]), admitted([pure(0.1)], filtered=False)) == (114, 110)
    assert compose_all(Counter((*GRID, *TRAJECTORY)), 0, CAP.delta_conversion)[0] == pytest.approx(1.83, abs=0.005)


@settings(max_examples=at_length(100))
@given(st.floats(1e-3, 20.0), st.floats(1.01, 60.0))
def test_a_pure_draw_costs_what_randomised_response_does_rounded_up(epsilon, alpha):
    """Its Rényi divergence by the definition, at 60 digits; never more than ε²/2."""
    mpmath.mp.dps = 60
    draw = pure(epsilon)
    e, a = mpmath.mpf(from_units(draw[0])), mpmath.mpf(alpha)
    p = mpmath.exp(e) / (1 + mpmath.exp(e))
    exact = mpmath.log(p**a * (1 - p) ** (1 - a) + (1 - p) ** a * p ** (1 - a)) / (a - 1) / a
    cost = from_units(draw_units(draw, alpha))
    assert cost >= float(exact) * (1 - 1e-12) - 1e-15
    assert cost <= min(float(exact) * (1 + 1e-6) + 1e-9, from_units(draw[1]))


@settings(max_examples=at_length(100))
@given(st.floats(0.05, 20.0), st.sampled_from([1e-9, 1e-5, 1e-2]), st.integers(1, 40))
def test_gaussian_draws_alone_are_admitted_as_before(epsilon, delta, n):
    """Σr_i is Σρ_i, under the same ρ*: to the last unit."""
    budget = PrivacyBudget.of("d", epsilon=epsilon, delta=delta)
    part = rho_of(budget) // n
    draws = [(None, part)] * (n - 1) + [(None, rho_of(budget) - part * (n - 1))]
    account = Filter.of(budget.epsilon_units, delta).after(draws, total(draws))
    assert account.units == rho_of(budget)
    assert budget.admits(total(draws), None, account)
    one_more = [*draws, (None, 1)]
    assert not budget.admits(total(one_more), None, account.after([(None, 1)], total([(None, 1)])))


def test_pure_draws_alone_fit_no_fewer():
    for epsilon in (0.05, 0.1, 0.3, 1.0, 2.5):
        more, before = admitted([pure(epsilon)]), admitted([pure(epsilon)], filtered=False)
        assert more >= before >= math.floor(5.0 / epsilon + 1e-9)


def test_a_smaller_cap_holds_at_the_order_that_was_fixed():
    """Where entries of two caps were recovered the smaller holds; at the other's order it holds less than ρ*."""
    small = PrivacyBudget.of("d", epsilon=3.0, delta=1e-5)
    most = most_units(EMPTY.alpha, small.epsilon_units, small.delta_conversion)
    assert 0 < most < rho_of(small)
    epsilon = EMPTY.alpha * from_units(most) + math.log1p(-1 / EMPTY.alpha)
    epsilon -= math.log(EMPTY.alpha * 1e-5) / (EMPTY.alpha - 1)
    assert epsilon == pytest.approx(3.0, abs=1e-9)
    assert epsilon <= 3.0
    assert not Filter(EMPTY.alpha, 1).fits(spent_units(0.5), 1e-12)  # nothing of it is worth so little


def test_draws_that_do_not_add_up_to_their_row_cost_the_rows_own_sum():
    draws, row = [pure(0.5)], total([pure(0.5), pure(0.5)])
    assert EMPTY.after(draws, row).units == row.rho_units
    assert EMPTY.after([*draws, *draws], row).units < row.rho_units


def test_a_row_is_read_back_as_it_was_planned():
    spends = [
        DiscreteLaplace(10, spent_units(0.123456789012), 1.0).spend("a"),
        DiscreteGaussian(10, spent_units(0.002), 1.0).spend("b"),
    ]
    draws = draws_in([spend.to_json() for spend in spends])
    assert draws == tuple((spend.epsilon_units, spend.rho_units) for spend in spends)
    assert EMPTY.after(draws, compose(spends)).units < compose(spends).rho_units
    assert total([]) == ZERO_TOTAL


# What follows is a game: an adversary who sees each outcome chooses the next draw, of those that the rule admits.


def response(epsilon):
    p = 1 / (1 + math.exp(-epsilon))
    return pure(epsilon), [(p, 1 - p), (1 - p, p)]


def binned(rho, n=4):
    """A Gaussian draw of cost ρ whose outcome is told as one of n bins, which is no more than the outcome."""
    mu = math.sqrt(2 * rho)
    edges = np.array([-math.inf, *np.linspace(mu / 2 - 2.2, mu / 2 + 2.2, n - 1), math.inf])
    P, Q = np.diff(norm.cdf(edges)), np.diff(norm.cdf(edges - mu))
    return (None, spent_units(rho)), list(zip(P.tolist(), Q.tolist(), strict=True))


class Game:
    """One cap, the draws there are, and at most `depth` of them."""

    def __init__(self, epsilon, delta, shares, depth=5):
        self.budget, self.depth = PrivacyBudget.of("d", epsilon=epsilon, delta=delta), depth
        self.epsilon, self.delta, rho = epsilon, delta, from_units(largest_rho(epsilon, delta))
        own = from_units(largest_rho(1e-3, delta))  # a Gaussian that is worth next to nothing at δ
        responses, gaussians = shares
        self.mechanisms = [response(epsilon * f) for f in responses]
        self.mechanisms += [binned(rho * f) for f in gaussians] + [binned(own)]

    def draws(self, chosen):
        return [self.mechanisms[i][0] for i in chosen]

    def delta_of(self, rule):
        """The most Σ max(0, P − e^ε Q) over transcripts, for whoever plays best under the rule."""
        admits = cache(lambda chosen: rule(self, self.draws(chosen)))

        @cache
        def worth(chosen, loss, left):
            best = max(0.0, 1 - math.exp(self.epsilon - loss))
            for i, (_, outcomes) in enumerate(self.mechanisms if left else []):
                if admits(more := tuple(sorted((*chosen, i)))):
                    told = ((p, round(loss + math.log(p / q), 9)) for p, q in outcomes)
                    best = max(best, sum(p * worth(more, after, left - 1) for p, after in told))
            return best

        return worth((), 0.0, self.depth)

    def provable(self, rule):
        """The least δ that the Rényi divergence at any ONE order shows, for whoever plays worst for that order."""
        admits = cache(lambda chosen: rule(self, self.draws(chosen)))

        def shown(alpha):
            @cache
            def moment(chosen, left):
                best = 1.0
                for i, (_, outcomes) in enumerate(self.mechanisms if left else []):
                    if admits(more := tuple(sorted((*chosen, i)))):
                        own = sum(p**alpha * q ** (1 - alpha) for p, q in outcomes)
                        best = max(best, own * moment(more, left - 1))
                return best

            log_delta = math.log(moment((), self.depth)) + (alpha - 1) * (math.log1p(-1 / alpha) - self.epsilon)
            return math.exp(log_delta) / alpha

        return min(shown(1 + math.exp(x)) for x in np.linspace(-1.5, 4.5, 40))


def ours(game, draws):
    budget = game.budget
    account = Filter.of(budget.epsilon_units, budget.delta_conversion).after(draws, total(draws))
    return budget.admits(total(draws), None, account)


def one_order(game, draws):
    """Ours, without the route of basic composition."""
    budget = game.budget
    account = Filter.of(budget.epsilon_units, budget.delta_conversion).after(draws, total(draws))
    return account.fits(budget.epsilon_units, budget.delta_conversion)


def afterwards(game, draws):
    """Unsound: the order is chosen for the list of draws."""
    return compose_all(Counter(draws), 0, game.delta)[0] <= game.epsilon


def gaussian_by_its_own(game, draws):
    """Unsound: a Gaussian enters the basic sum by its own ε at the cap's δ."""
    told = [from_units(e) if e is not None else proposition_12_epsilon(rho=from_units(r), delta=game.delta)
            for e, r in draws]  # fmt: skip
    return ours(game, draws) or sum(told) <= game.epsilon * (1 + 1e-9)


def apart(game, draws):
    """Unsound: pure and Gaussian draws in an account each."""
    pure_part, rho = [d for d in draws if d[0] is not None], sum(r for e, r in draws if e is None)
    return sum(e for e, _ in pure_part) <= game.budget.epsilon_units and rho <= rho_of(game.budget)


SHARES = [((1, 0.5, 0.25), (1, 0.5)), ((0.65, 0.35, 0.17), (0.68, 0.18)), ((0.58, 0.42), (0.4, 0.25))]
GAMES = [(epsilon, delta, shares) for epsilon, delta in ((1.0, 0.01), (0.3, 0.2), (1.0, 0.1)) for shares in SHARES]


@pytest.mark.parametrize(("epsilon", "delta", "shares"), GAMES)
def test_no_adversary_passes_the_cap(epsilon, delta, shares):
    game = Game(epsilon, delta, shares)
    assert 0.1 * delta < game.delta_of(ours) <= delta
    assert game.provable(one_order) <= delta * (1 + 1e-9)


def test_rules_that_are_unsound_are_caught():
    """Two by an adversary who passes the cap; one by what no order proves of it."""
    assert Game(0.3, 0.2, SHARES[0], depth=6).delta_of(gaussian_by_its_own) > 0.2
    assert Game(1.0, 0.1, SHARES[0]).delta_of(apart) > 0.1
    assert Game(1.0, 0.01, SHARES[2]).provable(afterwards) > 0.01
