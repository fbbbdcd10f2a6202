"""An observer of another uid writes down everything that can be seen; neighbouring worlds look the same.

Every way of running and every planted leak, with repetitions, are a section of `make audit`.
"""

import numpy as np
import pytest
from audit import verdict
from observer import compare, houses
from observer.run import Seen, Stage, cannot
from observer.ways import WAYS

WORLDS = ("first", "other scores", "no numbers")


@pytest.fixture(scope="module")
def observed():
    """Where a second user can observe."""
    if (why := cannot()) is not None:
        pytest.skip(why)


def seen(**items):
    return Seen({channel: dict(keys) for channel, keys in items.items()}, {}, 0)


def test_worlds_are_neighbours_of_one_size():
    """One person's 16 records differ, all bytes wide as before, and sums lie on both sides of 2³⁰ steps."""
    first = houses.files("first")
    for world in WORLDS[1:]:
        other = houses.files(world)
        assert other["training.csv"] == first["training.csv"]
        lines, others = (files["validation.csv"].splitlines() for files in (first, other))
        assert len(lines) == len(others) == houses.M + 1
        assert sum(a != b for a, b in zip(lines, others, strict=True)) == houses.THEIRS
        assert [*map(len, lines)] == [*map(len, others)]
        sizes = [{name: len(raw) for name, raw in houses.files(it, parts=4).items()} for it in ("first", world)]
        assert sizes[0] == sizes[1]


def test_an_exact_item_may_not_vary_at_all():
    """Neither between worlds, nor between runs on one world unless the list says why."""
    a, b = seen(files={"x size": 1.0}), seen(files={"x size": 2.0})
    assert compare.exact([("first", a), ("other", a)]) == []
    (found,) = compare.exact([("first", a), ("other", b)])
    assert "differs" in found.told
    (found,) = compare.exact([("first", a), ("first", b), ("other", b)])
    assert "varies on one world" in found.told
    assert compare.exact([("first", a), ("other", seen(files={}))]) != []
    listed = seen(durations={"seconds": 1.0}), seen(durations={"seconds": 2.0})
    assert compare.exact([("first", listed[0]), ("other", listed[1])]) == []


def test_counted_items_are_told_apart_only_if_they_differ():
    """Six runs on each of two worlds: 924 ways to share them out. 200 times on 30 items of noise (seed 1) the test
    calls at 2/924 at most 6 times (chance of more: 1e-6); an item that lies apart is always called."""
    rng = np.random.default_rng(1)

    def runs(shift):
        return [
            seen(durations={f"item {i}": float(x) + (shift if i == 7 else 0.0) for i, x in enumerate(row)})
            for row in rng.normal(size=(6, 30))
        ]

    alarms = sum(compare.counted(runs(0.0), runs(0.0))[1] <= 2 / 924 for _ in range(200))
    assert alarms <= 6
    assert compare.counted(runs(0.0), runs(50.0))[1] <= 2 / 924
    assert compare.counted(runs(0.0), runs(50.0))[2] == "durations: item 7"
    assert compare.counted(runs(0.0)[:2], runs(50.0)[:2])[1] is None  # too few to say anything


@pytest.mark.slow
def test_a_plain_study_shows_what_was_planted_and_nothing_else(observed):
    """The fast form: one way, two worlds, two leaks; every other item of some hundreds is equal."""
    stage, faults = Stage(WAYS["plain"]), ("a file's size", "a line of the log")
    runs = [(world, stage.run(world, asks=True, faults=faults)) for world in WORLDS[:2]]
    found = {(item.channel, item.key) for item in compare.exact(runs)}
    assert found >= {("files", "/tmp/spill-<pid> size"), ("streams", "stderr")}
    assert {(channel, key.split()[0]) for channel, key in found} == {
        ("files", "/tmp/spill-<pid>"),
        ("streams", "stderr"),
    }
    assert {"files", "processes", "streams", "ledger"} <= set(runs[0][1].items)
    assert runs[0][1].size > 300


def test_the_audit_fails_on_a_difference_and_on_a_leak_that_is_missed():
    head = "| way of running | runs | differences |\n|---|---|---|\n"
    page = head + "| plain | 3 | {} |\n\nFlows made to leak.\n\n| leak | items |\n|---|---|\n| a file | {} |\n"
    assert verdict.broken("observer", page.format(0, 3)) == []
    assert verdict.broken("observer", page.format(1, 3)) == [["plain", "3", "1"]]
    assert verdict.broken("observer", page.format(0, 0)) == [["a file", "0"]]
