"""An observer of another uid writes down everything that can be seen; neighbouring worlds look the same.

The full form, with repetitions, is a section of `make audit`.
"""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from audit import verdict
from observer import compare, houses, kept
from observer.notes import Notes
from observer.run import Seen, Stage, cannot
from observer.text import parted, plain
from observer.ways import WAYS
from prefect import Task

from dpbo.tasks import precomputing, tuning

WORLDS = ("first", "other scores", "no numbers")
FIRST_SIGHT = {  # where each planted leak shows
    "a file's size": ("files", "size"),
    "a page's counter": ("answers of ports", "body"),
    "a line of the log": ("streams", "stderr"),
    "a process's arguments": ("processes", "title sleep"),
    "an event of Prefect's": ("Prefect", "order of events"),
    "a log line of Prefect's": ("Prefect", "order of log"),
}


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


def test_what_is_replaced_is_random_by_construction():
    said = "run 404188e0 of 127.0.0.1:4200 at 2026-11-22T09:00:00.5Z took 0.1138345678912345 of 1151"
    assert plain(said) == "run <id> of 127.0.0.1:<port> at <time> took 0.1138345678912345 of 1151"
    assert plain("sem.joblib-3-30mqtvko sem.SgNj20 etilqs_2b607e1141940be4") == (
        "sem.joblib-<random> sem.<random> etilqs_<random>"
    )
    assert parted("bytes_total 112, 2.5e3") == ("bytes_total #, #", [112.0, 2500.0])


def test_a_task_runs_random_end_is_replaced_whatever_its_task():
    """Of every task that `tune` may run; of others nothing is."""
    tasks = [vars(module).values() for module in (precomputing, tuning)]
    names = {found.name for values in tasks for found in values if isinstance(found, Task)}
    assert len(names) == 11
    assert [plain(f'"{name}-1f0"') for name in names] == [f'"{name}-<id>"' for name in names]
    assert plain("a step-1f0") == "a step-1f0"


def test_notes_keep_counts_apart_from_words():
    notes = Notes()
    notes.text("streams", "out", "112 steps")
    notes.text("streams", "out", "116 steps")
    notes.count("files", "x opened")
    told = notes.plainly()
    assert told == {"streams": {"out": ["# steps"], "out #0": 116.0}, "files": {"x opened": 1.0}}


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


def test_every_reason_on_the_list_is_a_sentence():
    assert all(len(why.split()) >= 4 for _, _, why in compare.COUNTED)


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


@pytest.mark.slow
@pytest.mark.parametrize("fault", FIRST_SIGHT)
def test_a_planted_leak_is_found(observed, fault):
    """One of each class, where it shows first."""
    stage = Stage(WAYS["flow" if "Prefect" in fault else "plain"])
    runs = [(world, stage.run(world, asks=True, faults=(fault,))) for world in WORLDS[:2]]
    channel, key = FIRST_SIGHT[fault]
    assert any(item.channel == channel and key in item.key for item in compare.exact(runs))


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_neighbours_look_the_same(observed, way):
    """Every way of running, on three worlds; dp_hypo's worlds differ in the number of trials too."""
    stage = Stage(WAYS[way])
    runs = [(world, stage.run(world, asks=True)) for world in WORLDS]
    assert [str(found) for found in compare.exact(runs)] == []


@pytest.mark.slow
def test_runs_are_kept_for_one_state_of_the_code_and_only_where_asked_for(tmp_path, monkeypatch):
    """Made anew without a folder, and after any file by which a run is made has changed."""
    made = []

    def make():
        made.append(len(made))
        return "{}", seen(files={"x size": float(made[-1])})

    monkeypatch.delenv(kept.KEEPS, raising=False)
    assert [kept.kept("a", make)[1].items["files"]["x size"] for _ in range(2)] == [0.0, 1.0]
    monkeypatch.setenv(kept.KEEPS, str(tmp_path / "runs"))
    assert [kept.kept("a", make)[1].items["files"]["x size"] for _ in range(2)] == [2.0, 2.0]
    assert kept.kept("b", make)[1] == seen(files={"x size": 3.0})
    monkeypatch.setattr(kept, "ROOT", tmp_path)
    (tmp_path / "flows").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "worlds.py").write_text("")
    before = kept.state()
    (tmp_path / "flows" / "x.py").write_text("pass")
    assert kept.state() != before


def test_who_cannot_observe_says_so(monkeypatch):
    cannot.cache_clear()
    monkeypatch.setattr("observer.run.os.geteuid", lambda: 1000)
    assert "only root" in cannot()
    cannot.cache_clear()
    monkeypatch.setattr("observer.run.os.geteuid", lambda: 0)
    monkeypatch.setattr("observer.run.subprocess.run", lambda *_, **__: SimpleNamespace(returncode=1))
    assert "namespaces" in cannot()
    cannot.cache_clear()
    monkeypatch.setattr("observer.run.subprocess.run", lambda *_, **__: SimpleNamespace(returncode=0))
    monkeypatch.setattr("observer.run.TESTS", Path("/tmp/clone/tests"))
    assert cannot() == "/tmp/clone/tests lies in /tmp, where a run has a folder of its own"
    cannot.cache_clear()


def test_the_audit_fails_on_a_difference_and_on_a_leak_that_is_missed():
    head = "| way of running | runs | differences |\n|---|---|---|\n"
    page = head + "| plain | 3 | {} |\n\nFlows made to leak.\n\n| leak | items |\n|---|---|\n| a file | {} |\n"
    assert verdict.broken("observer", page.format(0, 3)) == []
    assert verdict.broken("observer", page.format(1, 3)) == [["plain", "3", "1"]]
    assert verdict.broken("observer", page.format(0, 0)) == [["a file", "0"]]
