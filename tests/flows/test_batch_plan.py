"""`dpbo plan` with several studies and an event: their prices add up as the ledger adds them up, and what fits."""

import json

import dp_accounting
import pytest

from dpbo_core import Budget, PrivacyLedger, run_study
from dpbo_core.study.spec import read_study

STUDY = """
[study]
name = "{name}"
method = "private_grid"
[privacy]
dataset = "clinic"
epsilon = {epsilon}
[data]
source = "breast_cancer"
[model]
estimator = "logistic"
score = "accuracy"
[space]
lambda = {{ low = 1e-4, high = 10.0, log = true, points = 2 }}
"""


@pytest.fixture
def clinic(dpbo, here):
    dpbo("budget", "set", "clinic", "--epsilon", 3, "--delta", "1e-5")
    for name, epsilon in (("a", 1.0), ("b", 0.5), ("c", 2.5)):
        (here / f"{name}.toml").write_text(STUDY.format(name=name, epsilon=epsilon))
    event = {"class_name": "GaussianDpEvent", "noise_multiplier": 20.0, "replaced_moves": 1.0}
    (here / "event.json").write_text(json.dumps(event))
    return here


def test_the_price_of_a_batch_is_what_is_charged(dpbo, clinic):
    code, out, _ = dpbo("plan", "a.toml", "b.toml", "--event", "event.json", "--json")
    planned = json.loads(out)
    assert (code, planned["fit"], [row["fits"] for row in planned["studies"]]) == (0, True, [True] * 3)
    ledger = PrivacyLedger(f"sqlite:///{clinic / 'mlruns' / 'ledger.db'}")
    assert ledger.accounts("clinic")[0].entries == ()  # nothing was charged
    lefts = []
    for name in ("a", "b"):
        run_study(read_study(clinic / f"{name}.toml"), ledger=ledger)
        lefts.append(ledger.accounts("clinic")[0].left)
    Budget("clinic", ledger.url).charge(
        event=dp_accounting.GaussianDpEvent(20.0), replaced_moves=1.0, what="elsewhere"
    )
    lefts.append(ledger.accounts("clinic")[0].left)
    assert [row["price"]["left"] for row in planned["studies"]] == pytest.approx(lefts, abs=1e-9)


def test_what_does_not_fit_after_the_others_is_said(dpbo, clinic):
    code, out, _ = dpbo("plan", "a.toml", "c.toml", "b.toml")
    assert code == 3
    assert [line.split()[-3:] for line in out.splitlines() if "c:1" in line] == [["does", "not", "fit"]]
    rows = json.loads(dpbo("plan", "a.toml", "c.toml", "b.toml", "--json")[1])["studies"]
    assert [row["fits"] for row in rows] == [True, False, True]
    assert "limit" in rows[1]["refused"]
