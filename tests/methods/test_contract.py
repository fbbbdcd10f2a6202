"""One contract, every method. A method added to METHODS is tested by being there."""

import json
import math
import pickle
from dataclasses import fields, replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from of_features import merged, parts
from scipy import stats
from worlds import Memory, Named, NamedTrainer, Table, at_length, mostly_slow, problem, run, smooth_table

from dpbo_core.ledger.accounting.composition import Filter, compose
from dpbo_core.mechanisms.noise import InjectedNoise, Noise, OperatingSystemNoise
from dpbo_core.methods import METHODS, method_named
from dpbo_core.methods.contract import Method
from dpbo_core.methods.kusner_gp import ExactGP, NoisyGP
from dpbo_core.methods.lipschitz import Lipschitz
from dpbo_core.methods.private_grid import PrivateGrid
from dpbo_core.methods.private_trajectory import PrivateTrajectory
from dpbo_core.methods.problem import stated_kernel
from dpbo_core.models.scores.sigmoid import Sigmoid
from dpbo_core.privacy.amounts import spent_units
from dpbo_core.search.bo import BayesianSearch, acquisition_named
from dpbo_core.search.estimates import ScoreMap
from dpbo_core.search.gp import Posterior
from dpbo_core.theorems import kusner_2015

VARIANTS = {
    "lipschitz": Lipschitz(),
    "lipschitz path": Lipschitz(evaluate="path"),
    "lipschitz path, training in steps": Lipschitz(evaluate="path", train="step"),
    "trajectory": PrivateTrajectory(),
    "trajectory with a final choice": PrivateTrajectory(final_share=0.6, look_share=0.1),
    "trajectory with a public prior": PrivateTrajectory(prior="public"),
    "grid": PrivateGrid(),
    "grid on a Sobol subset": PrivateGrid(evaluate="sobol"),
    "grid without a score": PrivateGrid(score_share=0.0),
    "noisy GP": NoisyGP(),
    "noisy GP under the prior": NoisyGP(cap_at_range=False),
    "exact GP": ExactGP(rate_constant=1e3, decay_constant=0.01),
    "exact GP under the prior": ExactGP(rate_constant=1.0, decay_constant=1.0),
    "exact GP with a choice": ExactGP(rate_constant=1e3, decay_constant=0.01, outputs="both"),
    **merged("VARIANTS"),
    "grid on a public shortlist": PrivateGrid(evaluate="public_shortlist"),
    "grid from a base measure": PrivateGrid(evaluate="tried", base_measure="public"),
    "grid for twelve editions": PrivateGrid(editions=12),
    "grid of paired scores": PrivateGrid(evaluate="tried", base_measure="public", paired=True),
}
KNOWN = {type(variant) for variant in VARIANTS.values()}
VARIANTS |= {kind: cls() for kind, cls in METHODS.items() if cls not in KNOWN}  # a new method, as it is by default
HIDDEN = [name for name, variant in VARIANTS.items() if variant.hides_evaluations]
MANY_RUNS = mostly_slow(HIDDEN, *parts("QUICK_VARIANT"))  # of the others the loss is exact: test_exact_privacy.py
SCATTERED = mostly_slow(
    [name for name in VARIANTS if name != "grid without a score"], "trajectory", "grid", "noisy GP"
)
REPETITIONS = 200


@pytest.fixture(params=VARIANTS, ids=lambda name: name)
def method(request):
    return VARIANTS[request.param]


class BestOf:
    """|best of K standard Laplace draws|, K hidden: its law from the generating function of K."""

    def __init__(self, law):
        from scipy import integrate

        def below(x):
            rest, end = -math.log1p(-(1 - law.gamma) * stats.laplace.cdf(x)), -math.log(law.gamma)
            return rest / end if law.shape == 0 else math.expm1(law.shape * rest) / math.expm1(law.shape * end)

        def tail(x):
            return 1 - below(x) + below(-x)

        self._mean = integrate.quad(tail, 0, 60)[0]
        self._second = integrate.quad(lambda x: 2 * x * tail(x), 0, 60)[0]

    def mean(self):
        return self._mean

    def std(self):
        return math.sqrt(self._second - self._mean**2)


def quiet(factor=0.0, seed=0):
    return Noise(InjectedNoise(np.random.default_rng(seed), factor), Memory())


def real():
    return Noise(OperatingSystemNoise(), Memory())


def test_every_member_is_covered_and_whole():
    assert {type(variant) for variant in VARIANTS.values()} == set(METHODS.values())
    for kind, cls in METHODS.items():
        assert cls().kind == kind
        assert fields(cls)[-1].name == "kind"
        assert cls.__dataclass_params__.frozen
        assert isinstance(cls(), Method)
        assert [other for other in METHODS.values() if issubclass(cls, other)] == [cls]  # none is another's heir
        assert all((cls.wants, cls.gives, cls.needs, cls.delta_range, cls.trainings, cls.observable))
        assert method_named(kind, {}) == cls()


def test_planning_needs_no_data_and_is_deterministic(method):
    world = replace(problem(), trainer=None)
    assert method.plan(world) == method.plan(world)
    assert method.outlook(world) == method.outlook(world)
    assert method.n_steps(world) >= 1


def test_the_release_promises_what_was_planned(method):
    world = problem()
    plan = method.plan(world)
    release = run(method, world, smooth_table(world, best=4), real())
    assert release.guarantee == plan.guarantee
    assert release.spends == plan.spends
    assert release.noise == "operating_system"
    json.dumps(release.to_json(), allow_nan=False)


def test_the_promise_is_the_composition_of_the_spends(method):
    for epsilon in (0.1, 1.0, 3.0):
        plan = method.plan(problem(epsilon=epsilon))
        total = compose(plan.spends)
        composed, delta = total.epsilon(plan.guarantee.delta)
        if getattr(method, "final_share", 0.0):  # as the ledger adds them, at one order
            draws = [(spend.epsilon_units, spend.rho_units) for spend in plan.spends]
            filtered = Filter.of(spent_units(epsilon), delta).after(draws, total)
            composed = filtered.epsilon(delta)
            assert filtered.fits(spent_units(epsilon), delta)
        assert composed <= plan.guarantee.epsilon == epsilon
        assert composed == pytest.approx(epsilon, rel=1e-6)
        assert delta <= plan.guarantee.delta
        if plan.guarantee.delta == 0.0:
            assert total.epsilon_units == spent_units(epsilon)  # the parts sum exactly
            assert plan.guarantee.delta == 0.0


def test_more_privacy_budget_never_means_more_noise(method):
    scales = [
        [spend.noise_scale for spend in method.plan(problem(epsilon=epsilon)).spends]
        for epsilon in (0.1, 0.5, 1.0, 2.0, 8.0)
    ]
    for tighter, looser in pairwise(scales):
        assert all(a > b for a, b in zip(tighter, looser, strict=True))


def test_more_records_a_person_never_means_less_noise(method):
    one, three = (method.plan(problem(k=k)).spends for k in (1, 3))
    assert all(b.noise_scale >= a.noise_scale for a, b in zip(one, three, strict=True))
    if method.public_path:  # of a private path the score's range may be the smaller bound
        assert three[0].sensitivity == pytest.approx(3 * one[0].sensitivity)


@pytest.mark.parametrize("best", mostly_slow((0, 5, 11), 0, 5))  # both ends are alike
def test_without_noise_it_finds_the_best_of_a_small_table(method, best):
    steps = 100 if method.trials(problem()) else 40  # these are drawn at random from Λ
    world = problem(steps=steps, n_validation=2000, epsilon=500.0)
    table = smooth_table(world, best=best)
    release = run(method, world, table, quiet())
    exact = table.scores.mean(axis=1)
    best = max(method.choices(world), key=exact.__getitem__)  # which may be from a part of Λ
    if "hyperparameters" in release.value:
        found = [point["lambda"] for point in world.candidates.points].index(
            release.value["hyperparameters"]["lambda"]
        )
        assert exact[best] - exact[found] <= 0.005
    if method != VARIANTS["grid without a score"]:
        assert release.value["score"] == pytest.approx(exact[best], abs=0.02)


@pytest.mark.parametrize("name", sorted(VARIANTS.keys() - set(HIDDEN)))
def test_each_step_trains_once(name):
    """Once, or its chunk where all of Λ is trained in no more steps.

    (A method that hides its evaluations hides how often it trains.)
    """
    method = VARIANTS[name]
    world = problem(steps=9)
    trainer = NamedTrainer([point["lambda"] for point in world.candidates.points])
    world = replace(world, trainer=trainer)
    search, noise, table = method.start(world, method.plan(world)), real(), smooth_table(world, best=3)
    begun = len(trainer.asked)
    chunked = method.public_path and len(method.fixed_path(world)) > method.n_steps(world)
    assert begun == (name == "grid of paired scores")  # the public best, before anything is charged
    for step in range(1, method.n_steps(world) + 1):
        search.step(table, noise)
        assert len(trainer.asked) == begun + (step + min(step, 3) if chunked else step)  # 12 candidates in 9 steps
    assert len(set(trainer.asked)) == len(trainer.asked) or not chunked


@pytest.mark.parametrize("train", ["ahead", "step"])
@pytest.mark.parametrize("acquisition", ["ucb", "ei"])
def test_a_path_of_lipschitz_scores_the_largest_acquisition_of_all_of_lambda(train, acquisition):
    """Kusner et al., equation 3, from the first step on; a step asks for one model, the one that it scores."""
    paths, method = [], Lipschitz("path", train=train)
    for best in (0, 11):
        world = problem(steps=8, acquisition=acquisition)
        lambdas = [point["lambda"] for point in world.candidates.points]
        world = replace(world, trainer=(trainer := NamedTrainer(lambdas)))
        search, table = method.start(world, method.plan(world)), smooth_table(world, best=best)
        posterior = Posterior(world.candidates.encoded, stated_kernel(world), 1e-6, expected=8)
        own, scale = BayesianSearch(posterior, acquisition_named(acquisition)), ScoreMap(0.5, 0.25, 1.0)
        for step in range(8):
            index = own.ask()
            search.step(table, real())
            assert trainer.asked[step:] == [lambdas[index]]
            own.tell(index, scale.mapped(table.evaluate(Named(index)).expose() / world.range_steps))
        paths.append(trainer.asked)
    assert paths[0] != paths[1]  # which is private


@pytest.mark.parametrize("method", SCATTERED, indirect=True)
def test_two_hundred_runs_scatter_as_the_noise_scale_says(method):
    """The mean of |noise|/scale over 200 runs, within five standard errors: false alarm below 1e-6."""
    world = problem(steps=3, n_validation=1000)
    table = Table(np.full((12, 1000), 0.5))  # every candidate alike: the score is noise alone
    plan, scores = method.plan(world), []
    for _ in range(REPETITIONS):
        search, noise = method.start(world, plan), real()
        shown = search.step(table, noise)
        if shown is not None:  # a step that shows its score says all: the others' noise is drawn alike
            scores.append(shown["score"])
            scale, law = plan.spends[0].noise_scale, stats.halfnorm
            continue
        for _ in range(1, method.n_steps(world)):
            search.step(table, noise)
        scores.append(search.finish(noise).value["score"])
        scale, law = plan.spends[-1].noise_scale, stats.expon
    if (trials := method.trials(world)) is not None:
        law = BestOf(trials)
    spread = float(np.mean(np.abs(np.array(scores) - 0.5))) / scale
    tolerance = 5 * law.std() / math.sqrt(REPETITIONS)
    assert abs(spread - law.mean()) < tolerance
    assert abs(spread / 2 - law.mean()) > tolerance  # half the noise is caught


@pytest.mark.parametrize("method", MANY_RUNS, indirect=True)
def test_on_neighbouring_tables_the_measured_loss_stays_under_the_promise(method):
    """The event a score above the middle of what would be released without noise, on V and V′ as far apart as one
    record can move them.

    Clopper–Pearson at 99.99% on each side: a method that honours ε fails once in 5,000 runs of this test, and
    one that draws no noise is caught. How much of ε a method really loses, `make audit` measures.
    """
    world = problem(steps=2, n_candidates=2, n_validation=4, epsilon=2.0)
    of_twelve = [name for name, option in vars(method).items() if isinstance(option, tuple) and len(option) == 12]
    method = replace(method, **{name: getattr(method, name)[:2] for name in of_twelve})  # a number a candidate
    low = np.tile(np.array([0.5, 0.5, 0.5, 0.0]), (2, 1))
    high = low.copy()
    high[:, 3] = 1.0

    def score(scores, noise):
        return run(method, world, Table(scores), noise, plan=plan).value["score"]

    plan = method.plan(world)
    n, delta = 100, plan.guarantee.delta
    exact = [score(scores, quiet()) for scores in (low, high)]
    above = [sum(score(scores, real()) > np.mean(exact) for _ in range(n)) for scores in (low, high)]
    assert proved_loss(*above, n, delta) <= world.epsilon
    assert proved_loss(*(n * (exact > np.mean(exact))), n, delta) > world.epsilon


def proved_loss(below, above, n, delta, level=1e-4):
    """What `below` and `above` times of n, on V and on V′, prove of ε at 1 − 2·level."""
    upper = stats.beta.ppf(1 - level, below + 1, n - below) if below < n else 1.0
    lower = stats.beta.ppf(level, max(above, 1), n - above + 1)
    return math.log(max(lower - delta, 1e-12) / upper)


def test_a_killed_search_continues_with_the_same_draws(method):
    world, memory = problem(steps=6), Memory()
    table = smooth_table(world, best=7)
    plan = method.plan(world)
    for killed_after in range(method.n_steps(world)):
        search = method.start(world, plan)
        for _ in range(killed_after):
            search.step(table, Noise(OperatingSystemNoise(), memory))
    kept = dict(memory.kept)
    first = run(method, world, table, Noise(OperatingSystemNoise(), memory))
    again = run(method, world, table, Noise(OperatingSystemNoise(), memory))
    assert first == again
    assert {what: memory.kept[what] for what in kept} == kept
    assert set(memory.kept) == {spend.what for spend in plan.spends}


def test_a_search_shows_and_carries_nothing(method):
    world = problem(steps=4)
    table = Table(np.full((12, 50), 0.7391))
    search, noise = method.start(world, method.plan(world)), real()
    shown = [search.step(table, noise) for _ in range(3)]
    if method.shows_all:
        assert all(set(step) == {"step", "hyperparameters", "score"} for step in shown)
    else:
        assert shown == [None] * 3
    assert repr(search) == f"<{type(search).__name__}>"
    with pytest.raises(TypeError):
        pickle.dumps(search)
    assert not hasattr(search, "__dict__")


def test_the_grid_splits_its_budget_exactly():
    select, score = PrivateGrid(score_share=0.3).plan(problem(epsilon=0.7)).spends
    assert select.epsilon_units + score.epsilon_units == spent_units(0.7)
    assert score.epsilon == pytest.approx(0.21)
    assert score.noise_scale == pytest.approx(1 / 50 / 0.21)
    assert select.noise_scale == pytest.approx(2 / 50 / 0.49)


def test_the_grid_says_how_far_its_choice_leads():
    """Without noise the lead is the exact one; what it supports is less by the noise and the public head start."""
    world = problem(epsilon=40.0)
    table = smooth_table(world, best=4)
    first, second = sorted((table.evaluate(world.train(i)).expose() for i in range(12)), reverse=True)[:2]
    plain, based = VARIANTS["grid"], VARIANTS["grid from a base measure"]
    lead = run(plain, world, table, quiet()).value["lead"]
    selection = dict(plain.draws(world))[plain.plan(world).spends[0]]
    assert lead["value"] == pytest.approx((first - second) * world.score_per_step)
    surely = math.floor(first - second - math.log(20) * selection.scale) * world.score_per_step
    assert lead["at_least"] == pytest.approx(max(surely, 0.0), abs=2 * world.score_per_step)
    noise = run(plain, replace(world, epsilon=0.1), table, quiet()).value["lead"]
    assert noise["at_least"] is None
    shifted = run(based, world, table, quiet()).value["lead"]
    _, _, start = based.subset(world)
    utilities = np.array([table.evaluate(world.train(i)).expose() for i in range(12)]) + start
    best = int(np.argmax(utilities))
    given = int(start[best] - np.delete(start, best).min())  # by the public scores, which the lead does not count
    surely = int(np.sort(utilities)[-1] - np.sort(utilities)[-2] - given) - math.ceil(
        math.log(20) * selection.scale
    )
    assert given > 0
    assert shifted["at_least"] == (None if surely < 0 else pytest.approx(surely * world.score_per_step))
    assert shifted["value"] > math.log(20) * selection.scale * world.score_per_step
    assert "lead" not in run(VARIANTS["grid for twelve editions"], world, table, quiet()).value


def test_published_calibration_is_marked_refuted():
    plan = Lipschitz(calibration="published").plan(problem())
    assert plan.guarantee.evidence.refuted
    assert plan.guarantee.epsilon == math.inf
    assert plan.spends[0].sensitivity == pytest.approx(
        min(1 / 50, 0.0125 / (50 * 0.5)) + 0.0125 * (2 - 1 / 8), rel=1e-6
    )


def test_all_of_a_path_costs_no_more_than_one_records_range():
    """Δ = kR/m: R = G for a steep score, 2L·sqrt(2 log 2/λ_min) for a flat one, a step of rounding above."""
    for k in (1, 3):
        world = problem(n_validation=285, k=k)
        steep = replace(world, score=Sigmoid(10.0))
        assert Lipschitz().plan(steep).spends[0].sensitivity == pytest.approx(k / 285, rel=1e-12)
        assert Lipschitz(evaluate="path").plan(steep).spends[0].sensitivity == 1.0
        flat = Lipschitz().plan(world).spends[0].sensitivity
        R = 2 * 0.0125 * math.sqrt(2 * math.log(2) / 0.5)
        assert flat == pytest.approx(k * R / 285, rel=1e-4)
        assert flat >= k * R / 285
        assert "may end at different models" in Lipschitz(evaluate="path").outlook(world).why
        assert "may end at different models" not in Lipschitz().outlook(world).why


@given(st.integers(1, 6), st.integers(1, 3), st.data())
@settings(max_examples=at_length(60))
def test_the_best_of_a_fixed_set_moves_by_its_sensitivity_at_most_and_by_all_of_it_somewhere(m, k, data):
    """Tables of a record's scores at 3 models within a range R of each other; k records are replaced."""
    g, R = 16, data.draw(st.integers(0, 16))
    low = data.draw(st.lists(st.integers(0, g - R), min_size=3, max_size=3))
    score = st.tuples(*(st.integers(floor, floor + R) for floor in low))
    V = data.draw(st.lists(score, min_size=m, max_size=m))
    other = [*data.draw(st.lists(score, min_size=min(k, m), max_size=min(k, m))), *V[min(k, m) :]]
    bound = kusner_2015.theorem_7_fixed_set_integer_sensitivity(
        n_validation=m, score_range=1.0, record_range=R / g, grid=g, max_records_per_person=k
    )
    best, moved = (max(sum(column) for column in zip(*rows, strict=True)) for rows in (V, other))
    assert abs(best - moved) <= bound
    highest, lowest = ([[floor + up for floor in low]] * m for up in (R, 0))
    replaced = [*lowest[: min(k, m)], *highest[min(k, m) :]]
    reached = max(map(sum, zip(*highest, strict=True))) - max(map(sum, zip(*replaced, strict=True)))
    assert bound - 2 * min(k, m) <= reached <= bound  # less the roundings of a record


def test_a_score_that_differs_between_records_at_zero_is_charged_its_whole_range():
    class OfTheLabel(Sigmoid):
        def span(self, norm):
            return self.score_range

    world = problem(n_candidates=4)
    world = replace(world, score=OfTheLabel(1e-9))
    (spend,) = Lipschitz("all").plan(world).spends
    assert spend.sensitivity == pytest.approx(world.score_range / world.n_averaged)
