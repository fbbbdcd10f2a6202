"""A public base measure in a private choice: exactly as private, bounded however it misleads, and worth having."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_mechanisms import DISTRIBUTIONS, exponential_distribution, permute_and_flip_distribution
from test_public_search import Hill, on
from worlds import Memory, at_length, run

from dpbo_core.mechanisms.noise import InjectedNoise, Noise
from dpbo_core.methods.private_grid import PrivateGrid
from dpbo_core.methods.public import Public
from dpbo_core.methods.public_search import FLOOR, base_measure, public_differences, search_on_public_data
from dpbo_core.models.integer_sums import GRID
from dpbo_core.models.scores.accuracy import Correct
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.search.search_space import Real, SearchSpace, grid
from dpbo_core.theorems.mckenna_sheldon_2020 import selection_scale

LINE = SearchSpace({"x": Real(0.0, 1.0)})
FORM = PrivateGrid(evaluate="tried", base_measure="public")
EXACT = settings(deadline=None, database=None, derandomize=True, max_examples=at_length(150))


@pytest.mark.parametrize("law", DISTRIBUTIONS.values())
@EXACT
@given(
    u=st.lists(st.floats(0.0, 40.0), min_size=2, max_size=5),
    weights=st.lists(st.floats(1e-6, 1.0), min_size=5, max_size=5),
)
def test_whatever_the_measure_the_loss_keeps_its_bound(law, u, weights):
    """Enumerated, at s = 1: Pr[loss > log 1/π₀(best) + t] ≤ e^−t at every t where it steps, and so its mean."""
    u, measure = np.array(u), np.array(weights[: len(u)])
    measure /= measure.sum()
    best = int(np.argmax(u))
    chosen, losses = law(u + np.log(measure), 1.0), u.max() - u
    assert chosen.sum() == pytest.approx(1.0)
    for loss in losses:  # just below each step of the law
        t = loss + math.log(measure[best])
        assert chosen[losses >= loss].sum() <= math.exp(-t) + 1e-12
    assert chosen @ losses <= 1.0 - math.log(measure[best]) + 1e-12


def world_of(top=0.5, *, points=40, width=0.3, **changes):
    return replace(on(grid(LINE, {"x": points}), Hill(LINE, [top], width=width), steps=5), **changes)


def test_the_measure_is_the_formula():
    """π₀ ∝ (1 + ν(p⁺ − p)/4e²)⁻⁴, with a floor of 1/50 shared evenly; e² is half a standard error² plus .003²."""
    world = world_of()
    found = search_on_public_data(world, 256)
    p, places = found.mean, tuple(range(40))
    steps = np.array([world.public_steps(i) for i in places]) / GRID
    best = np.argsort(-p, kind="stable")[:16]
    variances = np.full(40, (steps[best[1:]] - steps[best[0]]).var(axis=1).mean())
    variances[best[1:]] = (steps[best[1:]] - steps[best[0]]).var(axis=1)
    right_or_wrong = replace(world, score=Correct())
    single = max(p.max() * (1 - p.max()), 1 / 400) * np.ones(40)
    for here, variance in ((world, variances), (right_or_wrong, single)):
        apart = public_differences(here, found)
        assert len(apart) == (15 if here is world else 0)
        for noise in (1e-4, 0.01, 1.0):
            e = np.sqrt(variance / (2 * world.n_training) + 0.003**2)
            weights = (1 + noise * (p.max() - p) / (4 * e**2)) ** -4.0
            measure = base_measure(here, places, found, noise, apart)
            assert measure == pytest.approx(0.98 * weights / weights.sum() + 0.02 / 40)
            assert measure.sum() == pytest.approx(1.0)
            assert measure.min() >= FLOOR / 40


@EXACT
@given(
    top=st.floats(0.0, 1.0),
    width=st.floats(0.02, 0.5),
    epsilon=st.floats(1e-3, 100.0),
    graded=st.booleans(),
    tables=st.lists(st.lists(st.integers(0, 2), min_size=3, max_size=3), min_size=3, max_size=4),
)
def test_on_all_neighbours_the_choice_keeps_its_epsilon_and_its_head_start_is_bounded(
    top, width, epsilon, graded, tables
):
    """Three candidates, records that score 0, ½ or 1 under each: every record replaced by every other one."""
    score = {} if graded else {"score": Correct()}
    world = world_of(top, points=3, width=width, epsilon=epsilon, n_validation=len(tables), **score)
    _, _, head = FORM.subset(world)
    ((spend, selection), _) = FORM.draws(world)
    assert (head.max(), head.dtype) == (0, np.int64)
    assert head.min() >= -selection.scale * math.log(3 / FLOOR) - 1
    records, others = np.array(tables) * (GRID // 2), list(product((0, GRID // 2, GRID), repeat=3))
    law = permute_and_flip_distribution(records.sum(axis=0) + head, selection.scale)
    for replaced, other in product(range(len(records)), others):
        neighbour = records.sum(axis=0) - records[replaced] + np.array(other)
        beside = permute_and_flip_distribution(neighbour + head, selection.scale)
        assert (law <= np.exp(spend.epsilon) * beside * (1 + 1e-12) + 1e-300).all()


class Sums:
    """An objective that is a list of sums; the model of a candidate is its place."""

    training = None

    def __init__(self, world, scores):
        self.sums = [round(score * world.n_validation * GRID) for score in scores]

    def evaluate(self, model):
        return Sensitive(self.sums[model])


class Places(Hill):
    def train(self, point):
        return round(point["x"] * (self.n - 1))


def regrets(world, method, scores, runs=20):
    trainer = Places(LINE, world.trainer.top, world.trainer.height, world.trainer.width)
    trainer.n = len(world.candidates)
    world = method.prepare(replace(world, trainer=trainer)) if hasattr(method, "prepare") else world
    lost = []
    for seed in range(runs):
        noise = Noise(InjectedNoise(np.random.default_rng(seed)), Memory())
        point = run(method, world, Sums(world, scores), noise).value["hyperparameters"]
        lost.append(scores.max() - scores[trainer.train(point)])
    return float(np.mean(lost))


def test_what_misleads_costs_little_and_what_is_right_helps():
    """Public and private tops at opposite ends, then at one place; m ε = 400 records."""
    x = np.linspace(0.0, 1.0, 40)
    elsewhere, alike = (0.6 + 0.3 * np.exp(-(((x - top) / 0.3) ** 2)) for top in (0.9, 0.1))
    world = world_of(0.1, n_validation=400)
    plain, public = PrivateGrid(), Public()
    misled = {method: regrets(world, method, elsewhere) for method in (FORM, plain, public)}
    right = {method: regrets(world, method, alike) for method in (FORM, plain, public)}
    assert misled[public] > 0.25
    assert misled[FORM] < 0.1 * misled[public]
    s = selection_scale(sensitivity=1 / 400, epsilon=0.75)
    assert misled[FORM] <= s * (math.log(40 / FLOOR) + 1)
    assert right[FORM] < 0.5 * right[plain]


def test_a_large_space_is_searched_in_public_and_what_was_tried_is_scored():
    world = world_of(points=300)
    method = replace(FORM, public_trials=40)
    listed, pair, head = method.subset(world)
    found = search_on_public_data(world, 40)
    assert method.n_steps(world) == 40 == len(listed)
    assert listed == tuple(sorted(found.tried))
    assert pair is None
    assert head.max() == 0
    ((_, selection), _) = method.draws(world)
    assert head.min() >= -selection.scale * (math.log(40) - math.log(FLOOR)) - 1
    assert method.fixed_path(world) == ()
    assert replace(FORM, public_trials=300).fixed_path(world) == tuple(range(300))


def test_for_many_editions_the_choice_is_priced_for_composition():
    """ε²/8 for ε²/2: at one total ρ its ε is twice as large, and that loses less (both laws enumerated)."""
    world = world_of()
    few, many = (replace(PrivateGrid(), editions=editions).plan(world).spends for editions in (5, 6))
    assert few == PrivateGrid().plan(world).spends
    assert few[0].mechanism != many[0].mechanism
    assert (few[0].epsilon, few[1]) == (many[0].epsilon, many[1])
    assert many[0].rho_units == pytest.approx(few[0].rho_units / 4, rel=1e-6)
    rng = np.random.default_rng(1)
    for scale in (0.3, 1.0, 3.0):
        lost = (
            np.array(
                [
                    (u.max() - u) @ law
                    for u in rng.uniform(0, 8, (60, 5))
                    for law in (permute_and_flip_distribution(u, scale), exponential_distribution(2 * u, scale))
                ]
            )
            .reshape(-1, 2)
            .mean(axis=0)
        )
        assert lost[1] < lost[0]


def test_the_public_choice_pays_for_its_score_alone():
    world = world_of(0.3, n_validation=400)
    ((spend, laplace),) = Public().draws(world)
    assert spend.what == "its score"
    assert spend.epsilon == world.epsilon
    assert laplace.scale * world.score_per_step == pytest.approx(1 / (400 * world.epsilon))
    p = search_on_public_data(world, 256).mean
    assert Public().choice(world) == int(np.argmax(p))
    scores = np.linspace(0.0, 0.5, 40)
    assert regrets(world, Public(), scores, runs=3) == pytest.approx(0.5 - scores[np.argmax(p)])
