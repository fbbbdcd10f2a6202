"""A study that `dpbo init ONE.csv --sensitive` wrote, filled in: priced, trained privately and released."""

import json
import random
from pathlib import Path

import pytest


def write(n):
    draw = random.Random(1)
    rows = [f"{(x := draw.uniform(20, 90)):.1f},{draw.uniform(0, 5):.2f},{int(x > 55)}" for _ in range(n)]
    Path("one.csv").write_text("\n".join(["age,dose,ill", *rows]) + "\n")


def filled():
    """The study with the labels and bounds that its owner knows."""
    text = Path("study.toml").read_text()
    assert text.count("FILL IN") == 2
    text = text.replace("labels = []", "labels = [0, 1]").replace("age = []", "age = [0, 110]")
    Path("study.toml").write_text(text.replace("dose = []", "dose = [0, 10]"))


def test_plan_asks_for_what_is_to_fill_in_and_then_prices_it(here, dpbo):
    write(400)
    assert dpbo("init", "one.csv", "--sensitive", "--target", "ill")[0] == 0
    code, _, err = dpbo("plan", "study.toml")
    assert (code, "data.labels" in err) == (2, True)
    filled()
    code, out, _ = dpbo("plan", "study.toml", "--json")
    told = json.loads(out)
    assert (code, told["price"]["epsilon"], told["price"]["more"]) == (0, 4.0, 0)


@pytest.mark.slow
def test_what_is_filled_in_is_released_with_its_model(here, dpbo):
    write(2000)
    dpbo("init", "one.csv", "--sensitive", "--target", "ill")
    filled()
    code, out, _ = dpbo("tune", "study.toml", "--direct", "--anyway", "--json")
    assert (code, {"hyperparameters", "model", "score"} <= set(json.loads(out)["value"])) == (0, True)
