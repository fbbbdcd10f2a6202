"""After runs of all methods no store, log or stream holds a planted secret; a planted leak is found."""

import gzip

import numpy as np
import pytest
from audit.leaks import FEATURE, LABEL, LEAK, SCENARIOS, Scenario, make_world
from canary import forms_of_number, forms_of_text, search


@pytest.fixture
def world(tables, tmp_path):
    return make_world(tables, tmp_path)


def test_no_store_holds_a_planted_secret(world):
    streams = world.go(SCENARIOS["success and refusal"])
    for store in ("prefect/prefect.db", "mlruns/mlflow.db", "mlruns/ledger.db"):
        assert (world.run / store).stat().st_size > 10_000
    assert streams[0].count(b"differentially private") == 3
    assert b"limit is" in streams[1]
    assert b"Traceback" not in streams[1]
    assert world.found(streams) == set()
    assert search(world.run / "mlruns", {"tag": {b"mlflow.source.name", b"mlflow.source.git"}}) == set()


def test_a_failing_step_leaves_nothing_even_under_debug(world):
    streams = world.go(SCENARIOS["scoring fails, --debug"])
    assert b"a step on sensitive data failed" in streams[1]
    assert b"Traceback" in streams[1]
    assert world.found(streams) == set()


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_no_way_a_run_can_go_leaves_a_secret(world, name):
    streams = world.go(SCENARIOS[name])
    assert world.found(streams) == set()
    again = world.go(SCENARIOS["success and refusal"])  # the retry
    assert world.found(again) == set()


def test_a_planted_leak_is_found_in_the_store(world):
    world.go(Scenario(LEAK))
    assert any(where.startswith("prefect/") and which.startswith("score") for where, which in world.found())


def test_the_search_sees_each_form(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"xx" + np.float64(FEATURE).tobytes() + b"yy")
    (tmp_path / "b.gz").write_bytes(gzip.compress(LABEL.encode()))
    found = search(tmp_path, {"number": forms_of_number(FEATURE), "label": forms_of_text(LABEL)}, [b"73914.285714"])
    assert found == {("a.bin", "number"), ("b.gz", "label"), ("stream 0", "number")}
