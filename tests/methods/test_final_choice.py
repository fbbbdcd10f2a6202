"""The permute-and-flip at the end of a trajectory: its price beside the Gaussian path, its law, its account."""

import math
from ast import literal_eval
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from replay import record
from test_exact_privacy import cost, selection_chances
from test_ledger import GUARANTEE, SYSTEM, key
from worlds import problem, smooth_table

from dpbo_core.errors import BudgetExceeded, StudyInvalid
from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.accounting.composition import compose, draw_units, largest_rho, order
from dpbo_core.ledger.charge import Charge
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.mechanisms.exponential import PERMUTE_AND_FLIP
from dpbo_core.mechanisms.gaussian import DiscreteGaussian
from dpbo_core.methods.private_trajectory import PrivateTrajectory
from dpbo_core.privacy.amounts import from_units, spent_units
from dpbo_core.privacy.release import PrivacyPlan


def flipped(share=0.6, look=0.1):
    return PrivateTrajectory(final_share=share, look_share=look)


def draws(plan):
    return [(spend.epsilon_units, spend.rho_units) for spend in plan.spends]


@pytest.mark.parametrize("share", [0.05, 0.6, 0.95])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 7.3])
def test_it_pays_its_share_at_the_one_order_and_the_whole_is_the_guarantee(epsilon, share):
    delta = 1e-6
    plan = flipped(share, 0.04).plan(problem(epsilon=epsilon, delta=delta))
    (choice,) = (spend for spend in plan.spends if spend.what == "final choice")
    alpha, whole = order(spent_units(epsilon), delta), largest_rho(epsilon, delta)
    assert choice.mechanism == PERMUTE_AND_FLIP
    paid = draw_units((choice.epsilon_units, choice.rho_units), alpha)
    assert paid <= share * whole
    assert paid == pytest.approx(share * whole, rel=1e-6, abs=2)
    total = sum(draw_units(draw, alpha) for draw in draws(plan))
    assert whole * (1 - 1e-6) <= total <= whole
    assert choice.epsilon_units < spent_units(epsilon)
    assert plan.guarantee.epsilon == epsilon
    assert "permute-and-flip" in plan.guarantee.evidence.note
    assert choice.rho_units > paid or share == 0.05  # by ε²/2 it would not have fitted


def test_most_of_the_budget_buys_about_half_of_epsilon():
    plan = flipped(0.8).plan(problem())
    assert plan.spends[-2].epsilon == pytest.approx(0.451, abs=0.001)


def test_one_word_asks_for_a_choice_with_its_usual_look_and_steps():
    chooses, shows = PrivateTrajectory(final_share=0.8), PrivateTrajectory()
    assert chooses.draws(problem(steps=None)) == flipped(0.8, look=0.05).draws(problem(steps=40))
    assert shows.draws(problem(steps=None)) == PrivateTrajectory(look_share=0.25).draws(problem(steps=20))
    assert chooses.n_steps(problem(steps=7)) == 7
    for shares in ({"final_share": -0.1}, {"final_share": 1.0}, {"final_share": 0.8, "look_share": 0.2}):
        with pytest.raises(StudyInvalid, match="the path needs the rest"):
            PrivateTrajectory(**shares)


def divergence(rho, epsilon_c, epsilon, utilities, moves):
    """The exact δ(ε) of two discrete Gaussians of ρ/2 each, moved by Δ = 3, and a choice whose utilities move."""
    sensitivity = 3
    sigma, scale = DiscreteGaussian(sensitivity, round(rho / 2 * 1e12), 1.0).scale, 2 * sensitivity / epsilon_c
    here, there = (
        np.array([float(p) for p in selection_chances(PERMUTE_AND_FLIP, u, scale)])
        for u in (utilities, tuple(u + d for u, d in zip(utilities, moves, strict=True)))
    )
    z = np.arange(-math.ceil(14 * sigma), math.ceil(14 * sigma) + 1)
    one = np.exp(-(z**2) / (2 * sigma**2))
    mass = np.convolve(one / one.sum(), one / one.sum())
    s = np.arange(len(mass)) - len(mass) // 2
    path = (2 * sensitivity * s + 2 * sensitivity**2) / (2 * sigma**2)  # log P(s)/P(s + 2Δ)
    losses = path[None, :] + np.log(here / there)[:, None]
    return float((here[:, None] * mass * np.clip(-np.expm1(epsilon - losses), 0.0, None)).sum())


def worst(rho, epsilon_c, epsilon):
    """Over three candidates, utilities that are near or far apart, and every way one record moves them by ±Δ."""
    levels = (0, 40, 400)
    return max(
        divergence(rho, epsilon_c, epsilon, (0, a, b), moves)
        for a, b in product(levels, levels)
        if a <= b
        for moves in product((-3, 3), repeat=3)
    )


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-3), (4.0, 1e-6)])
def test_path_and_choice_together_keep_epsilon_and_delta_exactly(epsilon, delta):
    """By enumerating every outcome; a choice that were charged as the exponential mechanism would not."""
    plan = flipped().plan(problem(epsilon=epsilon, delta=delta))
    rho = sum(from_units(spend.rho_units) for spend in plan.spends if spend.epsilon_units is None)
    (choice,) = (spend.epsilon for spend in plan.spends if spend.epsilon_units is not None)
    assert 0.0 < worst(rho, choice, epsilon) <= delta
    assert worst(from_units(largest_rho(epsilon, delta)), choice, epsilon) > delta  # the path takes all, and it too


def test_it_chooses_among_the_visited_by_their_exact_scores_and_its_loss_is_its_own():
    """Draw by draw on two neighbours: the query of the choice is the sums of what was visited, and no more."""
    world = problem(steps=5, n_validation=20)
    table = smooth_table(world, best=4)
    other = replace(table, scores=table.scores.copy())
    other.scores[:, 0] = 1.0 - np.rint(other.scores[:, 0])
    one = record(flipped(), world, table, thorough=False)
    two = record(flipped(), world, other, frozen=one, thorough=False)
    (here,), (there,) = ([d for d in run.draws if d.what == "final choice"] for run in (one, two))
    visited = sorted({world.candidates.points.index(dict(literal_eval(point))) for (point,) in one.asked[:5]})
    exact = [int(np.rint(table.scores[i] * 2**24).astype(np.int64).sum()) for i in visited]
    assert list(here.query) == exact
    assert max(abs(a - b) for a, b in zip(here.query, there.query, strict=True)) <= here.sensitivity
    loss, _ = cost(here, there)
    assert 0 < loss <= 2.0 * here.sensitivity / here.scale
    assert one.shown[:5] == two.shown[:5]


def test_it_fits_a_cap_of_its_own_guarantee_and_fills_it(url):
    ledger = PrivacyLedger(url)
    for name, epsilon in (("one ward", 0.3), ("another", 1.0), ("a third", 4.0)):
        plan = flipped().plan(problem(epsilon=epsilon))
        ledger.set_budget(PrivacyBudget.of(name, epsilon=epsilon, delta=1e-6))
        ledger.reserve(Charge(replace(key(name), dataset=name), plan), noise=SYSTEM)
        (account,) = ledger.accounts(name)
        assert account.spent_epsilon[0] <= epsilon
        more = PrivacyPlan(GUARANTEE, (DiscreteGaussian(1, largest_rho(epsilon, 1e-6) // 1000, 1.0).spend("one"),))
        with pytest.raises(BudgetExceeded):
            ledger.reserve(Charge(replace(key(f"{name} more"), dataset=name), more), noise=SYSTEM)


def test_in_an_account_of_many_studies_it_costs_several_times_a_path():
    """As docs/explanation/which_method.md says: of a cap (5, 1e-5), so many of (1, 1e-6) fit."""
    budget = PrivacyBudget.of("d", epsilon=5.0, delta=1e-5)
    alpha = order(budget.epsilon_units, 1e-5)
    counts = {
        name: largest_rho(5.0, 1e-5) // sum(draw_units(draw, alpha) for draw in draws(method.plan(problem())))
        for name, method in {"path": PrivateTrajectory(), "flipped": flipped(), "more": flipped(0.8, 0.05)}.items()
    }
    assert counts == {"path": 22, "flipped": 10, "more": 7}
    assert compose(flipped().plan(problem()).spends).rho_units > largest_rho(1.0, 1e-6)


def test_a_plan_expects_of_it_what_it_expects_of_the_path_alone_and_names_the_choice():
    world = replace(problem(), trainer=None)
    plain, own = PrivateTrajectory(), flipped(0.8, 0.0625)
    assert own.simulated(world).choice_records == pytest.approx(plain.simulated(world).choice_records)
    assert own.simulated(world).score_records == pytest.approx(plain.simulated(world).score_records / 2)
    assert "permute-and-flip chooses among what was visited, with ε = 0.452" in own.outlook(world).why
    assert "permute" not in plain.outlook(world).why
