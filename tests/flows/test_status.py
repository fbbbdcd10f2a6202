"""`dpbo budget status`, `--explain`: what runs, ran last and is left; what each line means."""

import json
import subprocess
import sys

import pytest
from test_seconds import HEAVY, kept, shown  # noqa: F401  fixtures

from dpbo.flows.prefect_runtime.flow_runs import n_alive


def test_an_empty_folder_says_where_to_begin(dpbo, here):
    code, out, _ = dpbo("budget", "status")
    assert (code, list(here.iterdir())) == (0, [])
    assert "nothing on this machine" in out
    assert "dpbo tune --example" in out


def test_it_says_what_ran_last_and_what_is_left(dpbo, here, shown):  # noqa: F811
    _, release = shown
    code, out, _ = dpbo("budget", "status")
    assert code == 0
    assert f"trial:1  released {release.released_at[:10]}" in " ".join(out.split()).replace("trial:1 ", "trial:1  ")
    assert "people: ε 1 of 3 spent, 2 left" in out
    found = json.loads(dpbo("budget", "status", "--json")[1])
    assert found["alive_here"] == 0
    assert [(item["study"], item["edition"], item["method"]) for item in found["last"]] == [
        ("trial", "1", "private_grid")
    ]
    assert found["left"][0]["remaining"]["epsilon"] == pytest.approx(2.0)


def test_a_run_that_holds_its_lock_is_alive_and_a_dead_one_is_not(tmp_path):
    import fcntl

    for name in ("a", "b", ".c"):
        (tmp_path / name).touch()
    with (tmp_path / "a").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert n_alive(tmp_path) == 1
    assert n_alive(tmp_path) == 0
    assert (tmp_path / "b").exists()  # nothing is buried
    assert n_alive(tmp_path / "nowhere") == 0


def test_a_second_screen_explains_the_first(dpbo, here, shown):  # noqa: F811
    first = dpbo("show", "trial")[1]
    code, both, _ = dpbo("show", "trial", "--explain")
    assert (code, both.startswith(first)) == (0, True)
    said = " ".join(both.removeprefix(first).split())
    for title in ("The choice", "The score", "The noise", "The guarantee", "Evidence", "The budget", "Next"):
        assert f"{title}. " in said
    assert "in at most 73.1 of 100 cases" in said
    assert "people: ε 1 of 3 spent, 2 left, 2 more editions fit." in said
    assert max(len(line) for line in both.splitlines()) <= 80
    assert "\x1b" not in both


def test_a_tune_says_what_it_does_before_it_loads_anything(here):
    """In a pipe: its first line, and what was loaded by then; of the pages as of a study."""
    code = f"""
import os, sys
from dpbo.flows.cli import main
honest, heavy = sys.stderr.flush, {HEAVY | {"sqlalchemy", "numpy"}}
def told():
    sys.stderr.write(repr(sorted(heavy & sys.modules.keys())))
    honest()
    os._exit(0)
sys.stderr.flush, sys.argv[0] = told, "dpbo"
main()
"""
    for words, line in (
        (["tune", "--example"], "the bundled example: reading the study"),
        (["ui"], "MLflow: starting its server"),
    ):
        run = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=120)
        assert run.stderr.splitlines() == [line, "[]"]
