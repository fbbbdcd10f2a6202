"""Axes, the unit cube, and the two kinds of candidate sets."""

import math

import numpy as np
import pytest
from scipy.stats import qmc

from dpbo_core.errors import StudyInvalid
from dpbo_core.search.search_space import Categorical, Integer, Real, SearchSpace, grid, sobol, sobol_subset


def test_a_log_grid_runs_from_end_to_end():
    points = grid(SearchSpace({"lambda": Real(1e-4, 10.0, log=True)}), {"lambda": 6}).points
    assert [p["lambda"] for p in points] == pytest.approx([1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0])
    assert points[0]["lambda"] == 1e-4
    assert points[-1]["lambda"] == 10.0


def test_integers_are_whole_and_all_there():
    axis = Integer(1, 5)
    assert axis.grid(10) == [1, 2, 3, 4, 5]
    assert axis.grid(3) == [1, 3, 5]
    assert {type(axis.at(u)) for u in np.linspace(0, 1, 9)} == {int}
    assert Integer(1, 1000, log=True).grid(4) == [1, 10, 100, 1000]


def test_categories_are_equally_far_apart():
    axis = Categorical(["a", "b", True, 1])
    vectors = [np.array(axis.encode(v)) for v in axis.values]
    distances = {round(float(np.linalg.norm(p - q)), 12) for p in vectors for q in vectors if p is not q}
    assert distances == {1.0}
    assert Categorical(["only"]).encode("only") == ()


def test_a_full_grid_is_the_product():
    space = SearchSpace(
        {"C": Real(0.1, 10, log=True), "depth": Integer(1, 3), "kernel": Categorical(["rbf", "poly"])}
    )
    candidates = grid(space, {"C": 4, "depth": 9})
    assert len(candidates) == 4 * 3 * 2
    assert candidates.encoded.shape == (24, 4)
    assert len({tuple(p.items()) for p in candidates.points}) == 24
    assert np.all((candidates.encoded >= 0) & (candidates.encoded <= 1))


SVC = SearchSpace(
    {
        "C": Real(0.1, 10, log=True),
        "kernel": Categorical(["linear", "rbf", "poly"]),
        "gamma": Real(1e-3, 1, log=True),
        "degree": Integer(2, 4),
        "shrink": Categorical(["a", "b"]),
    },
    {"gamma": ("kernel", ("rbf", "poly")), "degree": ("kernel", ("poly",))},
)


def test_a_conditional_axis_is_absent_where_it_does_not_exist():
    points = {"C": 4, "gamma": 5, "degree": 3}
    candidates = grid(SVC, points)
    assert len(candidates) == 4 * 2 * (1 + 5 + 5 * 3)  # shrink · (linear + rbf + poly)
    for point, place in zip(candidates.points, candidates.encoded, strict=True):
        assert ("gamma" in point) == (point["kernel"] != "linear")
        assert ("degree" in point) == (point["kernel"] == "poly")
        assert ("gamma" in point) or place[4] == 0.5
    assert len({tuple(p.items()) for p in candidates.points}) == len(candidates)
    assert len({tuple(u) for u in candidates.encoded}) == len(candidates)
    drawn = sobol(SVC, 256, seed=1)
    assert {("gamma" in p, "degree" in p, p["kernel"]) for p in drawn.points} == {
        (False, False, "linear"),
        (True, False, "rbf"),
        (True, True, "poly"),
    }
    assert len({tuple(p.items()) for p in drawn.points}) == len(drawn)


def test_sobol_points_fill_the_cube_better_than_chance():
    space = SearchSpace({"a": Real(0, 1), "b": Real(0, 1)})
    ours = qmc.discrepancy(sobol(space, 128, seed=3).encoded)
    chance = [qmc.discrepancy(np.random.default_rng(i).random((128, 2))) for i in range(20)]
    assert ours < min(chance)
    assert sobol(space, 100, seed=3).points == sobol(space, 100, seed=3).points
    assert len(sobol(SearchSpace({"n": Integer(1, 4)}), 64, seed=0)) == 4


def test_a_sobol_subset_is_distinct_and_spread():
    candidates = grid(SearchSpace({"a": Real(0, 1)}), {"a": 64})
    chosen = sobol_subset(candidates, 8, seed=1)
    assert len(set(chosen)) == 8
    assert max(np.diff(sorted(candidates.encoded[list(chosen), 0]))) < 0.3
    assert sobol_subset(candidates, 99, seed=1) == tuple(range(64))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Real(1, 1),
        lambda: Real(2, 1),
        lambda: Real(0, 1, log=True),
        lambda: Real(math.nan, 1),
        lambda: Real(0, math.inf),
        lambda: Integer(1.5, 3),
        lambda: Categorical([]),
        lambda: Categorical(["a", "a"]),
        lambda: grid(SearchSpace({"a": Real(0, 1)}), {"a": 0}),
        lambda: sobol(SearchSpace({"a": Real(0, 1)}), 0, seed=0),
        lambda: SearchSpace({"a": Real(0, 1), "b": Real(0, 1)}, {"b": ("a", (0.5,))}),
        lambda: SearchSpace({"a": Real(0, 1), "k": Categorical([1])}, {"a": ("k", (1,))}),
        lambda: SearchSpace({"k": Categorical([1, 2]), "a": Real(0, 1)}, {"a": ("k", (True,))}),
        lambda: SearchSpace({"k": Categorical([1, 2]), "a": Real(0, 1)}, {"a": ("k", ())}),
    ],
)
def test_impossible_spaces_are_messages(make):
    with pytest.raises(StudyInvalid):
        make()
