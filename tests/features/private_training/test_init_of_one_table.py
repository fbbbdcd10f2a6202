"""A study that `dpbo init ONE.csv --sensitive` wrote, filled in: priced, trained privately and released."""

import json
import random
import warnings
from pathlib import Path

import pytest
import tomli_w

from dpbo.tasks.reporting.release_document import next_step
from dpbo_core import PrivacyLedger
from dpbo_core.report.study_price import price_of
from dpbo_core.study.resolve import resolve
from dpbo_core.study.spec import read_study
from dpbo_core.study.tuning import run_study


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
    assert (code, told["price"]["epsilon"], told["price"]["more"]) == (0, 4.0, 1)


def test_an_unknown_base_is_named_and_nothing_is_blamed_on_the_records(here, dpbo):
    study = {
        "study": {"name": "trial", "method": "dp_hypo"},
        "privacy": {"dataset": "digits", "epsilon": 4.0, "delta": 1e-5},
        "budget": {"epsilon": 4.0, "delta": 1e-5},
        "data": {"source": "digits", "validation_share": 0.3, "sensitive": "training"},
        "model": {"estimator": "softmax"},
        "space": {"epochs": {"values": [40]}},
        "method": {"base": "nosy_gradient"},
    }
    Path("s.toml").write_text(tomli_w.dumps(study))
    code, out, err = dpbo("plan", "s.toml")
    assert (code, "records" in out.partition("read")[2], "noise" in out) == (2, False, False)
    assert "method.base = 'nosy_gradient' is not known" in err


def test_as_many_more_editions_are_promised_before_the_first_as_after_it(here, dpbo):
    """A training's δ is spent too, whatever the account held before; and what comes next is no report."""
    write(400)
    assert dpbo("init", "one.csv", "--sensitive", "--target", "ill")[0] == 0
    filled()
    Path("study.toml").write_text(Path("study.toml").read_text().replace("[30, 100]", "[1]"))
    spec, ledger = read_study("study.toml"), PrivacyLedger("sqlite:///ledger.db")
    promised = price_of(resolve(spec), None).more
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of so few records the answer is noise
        released = run_study(spec, ledger=ledger).release
    (account,) = ledger.accounts(spec.privacy.dataset)
    assert promised == account.editions[spec.name] == 1
    assert "dpbo evaluate" not in next_step(released)


@pytest.mark.slow
def test_what_is_filled_in_is_released_with_its_model(here, dpbo):
    write(2000)
    dpbo("init", "one.csv", "--sensitive", "--target", "ill")
    filled()
    code, out, _ = dpbo("tune", "study.toml", "--direct", "--anyway", "--json")
    assert (code, {"hyperparameters", "model", "score"} <= set(json.loads(out)["value"])) == (0, True)
