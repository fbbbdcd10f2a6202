"""Every method on thousands of neighbouring files, its mechanisms' outputs frozen: nothing else may differ."""

import random
from collections import Counter
from itertools import islice
from types import SimpleNamespace

import faults
import pytest
from audit.replays import RANKINGS, VARIANTS, WORLDS, cases
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from neighbours import CELLS, HONEST, LINES, climb, line, make_world
from replay import DOORS, compare, record, replayed

from dpbo_core.methods import METHODS
from dpbo_core.methods.private_grid import PrivateGrid


def in_short(*rests):
    """Every case, of which those with these rests by six are in the short run."""
    return [
        pytest.param(
            *case,
            id=" ".join((case[0].kind, str(place), case[1])),
            marks=[pytest.mark.slow] * (place % 6 not in rests),
        )
        for place, case in enumerate(cases())
    ]


# Each variant is attacked in three or four worlds by the short run, each world with a third of them: half of these
# by nasty neighbours and half by the adversary.
NASTY, CLIMBED = in_short(0), in_short(3)
THOROUGH = 1  # pairs of each case whose lines are compared too, ten times slower


@pytest.fixture
def tries(request):
    """How many pairs of this case, by the generator and by the adversary; Hypothesis adds its own."""
    slow = request.node.get_closest_marker("slow") is not None
    return SimpleNamespace(pairs=16, rounds=25) if slow else SimpleNamespace(pairs=10, rounds=15)


TRIED = Counter()
ELSEWHERE = {  # one hidden draw of a whole search, and two parties' tables: each is told apart where it is tested
    "hidden trials": {"RepeatAndSelect"},  # test_replay_training.py, test_dp_hypo.py
    "outsourced": {"GaussianRows", "StoredRows", "RandomProjection"},  # test_outsourced_curator.py, _attack.py
    "evaluation": {"LaplaceHistogram"},  # test_evaluation.py, test_evaluation_cells.py
}


@pytest.fixture(scope="module")
def worlds(tmp_path_factory):
    return {
        name: make_world(tmp_path_factory.mktemp("world"), **wanted) for name, wanted in (WORLDS | RANKINGS).items()
    }


def pair_in(world, method, one, other, seed=0, *, thorough=False):
    TRIED[method.kind] += 1
    objectives = world.objective(one), world.objective(other)
    return replayed(method, world.problem, *objectives, seed=seed, thorough=thorough)


def test_every_method_is_attacked():
    assert set(METHODS) - set(VARIANTS) == {kind for kind, cls in METHODS.items() if cls.hides_evaluations}
    for kind, (methods, _) in VARIANTS.items():
        assert {type(method) for method in methods} == {METHODS[kind]}


@pytest.mark.parametrize(("method", "name"), NASTY)
def test_on_nasty_neighbours_nothing_differs_but_the_queries(worlds, method, name, tries):
    world, rng = worlds[name], random.Random(f"{method} {name}")
    for seed, (one, other) in enumerate(islice(world.pairs(rng), tries.pairs)):
        result = pair_in(world, method, one, other, seed, thorough=seed < THOROUGH)
        assert result.findings == (), (one, other)
        assert result.reach <= 1.0


@settings(max_examples=30, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(
    case=st.sampled_from([case.values for case in NASTY]),
    one=st.lists(st.sampled_from(CELLS) | st.text(max_size=6) | st.floats().map(repr), min_size=4, max_size=4),
    other=st.lists(st.sampled_from(CELLS) | st.text(max_size=6) | st.floats().map(repr), min_size=0, max_size=6),
    raw=st.none() | st.binary(max_size=30).map(lambda raw: raw.replace(b"\n", b"")),
)
@example(case=(PrivateGrid(), "accuracy"), one=["1", "2", "red", "yes"], other=["1", "2", "red", "no"], raw=None)
def test_on_whatever_hypothesis_writes_nothing_differs(worlds, case, one, other, raw):
    method, name = case
    world = worlds[name]
    m, k = world.sizes
    others = list((HONEST * m)[: m - k])
    here = [line(one)] * k
    there = [line(other) if raw is None else raw] * k
    assert pair_in(world, method, world.lines(here, others), world.lines(there, others)).findings == ()


@pytest.mark.parametrize(("method", "name"), CLIMBED)
def test_a_climbing_adversary_stays_within_the_declared_sensitivity(worlds, method, name, tries):
    """And it gets there: at a fixed path accuracy uses the whole of it, so the bound is no slack."""
    world, rng = worlds[name], random.Random(1)

    def reach(one, other):
        result = pair_in(world, method, one, other)
        assert result.findings == ()
        return result.reach

    best, _ = climb(reach, world, rng, rounds=tries.rounds)
    assert best <= 1.0
    if method.public_path and name in ("accuracy", "a tree", "two records a person", "persons' means"):
        assert best == 1.0


def test_as_many_neighbours_were_tried_as_is_said(request):
    """Counts the pairs of this file's own tests, when all of them ran in this process: thousands, of which the
    short run has hundreds."""
    here = [item for item in request.session.items if item.fspath == request.node.fspath]
    if len(here) < len(NASTY) / 3:
        pytest.skip("only part of the file was asked for")
    all_of_them = len(here) > 2 * len(NASTY)
    assert sum(TRIED.values()) >= (3_200 if all_of_them else 400)
    assert min(TRIED[kind] for kind in VARIANTS) >= (120 if all_of_them else 8)


METHOD_FAULTS = {
    faults.Branches: "how often each step trained",
    faults.IfElse: "which lines ran",
    faults.SkipsQuietly: "what was drawn",
    faults.Talks: "what was said",
    faults.FollowsRawScores: "what a public path trained",
    faults.HalfSensitivity: "a query moved by more than its declared sensitivity",
    faults.ForgetsTheLastDraw: "not every planned draw was made, once and in order",
}


@pytest.mark.parametrize("fault", METHOD_FAULTS, ids=lambda fault: fault.__name__)
def test_a_faulty_method_is_caught(worlds, fault):
    world, rng = worlds["accuracy"], random.Random(3)
    tried = islice(world.pairs(rng), 30)  # until the first that tells
    assert any(
        METHOD_FAULTS[fault] in {it.what for it in pair_in(world, fault(), one, other, thorough=True).findings}
        for one, other in tried
    )


OBJECTIVE_FAULTS = {
    faults.DropsBroken: "a query moved by more than its declared sensitivity",
    faults.Raises: "it failed on one, or differently",
}


@pytest.mark.parametrize("fault", OBJECTIVE_FAULTS, ids=lambda fault: fault.__name__)
def test_a_faulty_objective_is_caught(worlds, fault):
    world, found = worlds["accuracy"], set()
    good, bad = b"1.5,-2,red,yes", LINES[1]
    for one, other in (([good] * 5, [bad, *[good] * 4]), ([bad] * 4 + [good], [bad] * 4 + [b"1.5,-2,red,no"])):
        result = replayed(PrivateGrid(score_share=0.5), world.problem, fault(world, one), fault(world, other))
        found |= {finding.what for finding in result.findings}
    assert OBJECTIVE_FAULTS[fault] in found


def test_the_same_data_twice_differ_in_nothing(worlds):
    """Else the comparison would be of clocks and dictionaries, and every finding worthless."""
    for name, world in worlds.items():
        for kind, (methods, where) in VARIANTS.items():
            if name in where[::2]:
                lines = list((HONEST * 2)[: world.problem.n_validation])
                one, other = (record(methods[0], world.problem, world.objective(lines)) for _ in range(2))
                assert compare(one, other, public_path=True).findings == (), kind


def test_every_door_with_a_sensitivity_is_recorded():
    """A mechanism of the project that draws through a door nobody records is not attacked at all."""
    import importlib
    import pkgutil

    from dpbo_core import mechanisms

    found = set()
    for module in pkgutil.iter_modules(mechanisms.__path__):
        loaded = importlib.import_module(f"dpbo_core.mechanisms.{module.name}")
        found |= {
            cls
            for cls in vars(loaded).values()
            if isinstance(cls, type) and cls.__module__ == loaded.__name__ and hasattr(cls, "prepare")
        }
    elsewhere = set().union(*ELSEWHERE.values())
    assert {cls.__name__ for cls in found} == {cls.__name__ for cls in DOORS} | {
        "Mechanism",
        "Additive",
    } | elsewhere
