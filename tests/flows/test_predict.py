"""Serving: `dpbo predict`, and the line that asks a registered model."""

import csv
import json
import shlex
from datetime import timedelta
from pathlib import Path

import mlflow
import pandas as pd
import pytest
import tomli_w
from test_preflight import FOREIGN, LINEAR, but, folder, without

from dpbo.flows.cli.budget import _duration
from dpbo.flows.cli.release_screen import print_next
from dpbo.flows.stores import Stores
from dpbo.flows.terminal import spoken
from dpbo.tasks.reporting.document import Document

__all__ = ["folder"]


def test_a_number_follows_its_words_after_a_blank():
    assert spoken("a choice ≤0.008 below, ≥ 3") == "a choice at most 0.008 below, at least 3"


def test_what_to_do_next_is_a_command_with_the_studys_path_and_not_what_was_done(capsys):
    step = "dpbo evaluate STUDY.toml --repair recalibrates the model at no further ε"
    for repaired, words in ((False, "Next: dpbo evaluate 'my study.toml' --repair"), (True, "Next: dpbo predict")):
        print_next(Document("", "", next_step=step), "my study.toml", repaired=repaired)
        said = " ".join(capsys.readouterr().out.split())
        assert said.startswith(words)
        assert "STUDY.toml" not in said
        assert ("--repair" in said) is not repaired


@pytest.mark.parametrize(("every", "words"), [(364, "6.07 minutes"), (60, "60 seconds"), (7200, "2 hours")])
def test_an_interval_is_said_in_its_own_unit(every, words):
    assert _duration(timedelta(seconds=every)) == words


def test_the_help_of_the_budget_names_its_options(dpbo):
    told = dpbo("budget", "--help")[1]
    assert all(option in told for option in ("--forecast", "--json"))


@pytest.mark.parametrize("study", [LINEAR, FOREIGN], ids=["linear", "foreign"])
def test_predictions_are_the_served_models_and_the_line_asks_it(folder, dpbo, study, monkeypatch):
    """Fields that are empty or no number are predicted too, and nothing is charged."""
    Path("s.toml").write_text(tomli_w.dumps(without(but(study, "privacy", anyway=True), "evaluation")))
    new = ["0.5,1.2", "-2.0,0.1", ",0.3", "x,9.9"]
    Path("new.csv").write_text("\n".join(["a,b", *new]) + "\n")
    code, _, err = dpbo("predict", "s.toml", "new.csv")
    assert (code, "no ledger here" in err) == (2, True)
    code, out, _ = dpbo("tune", "s.toml", "--direct", "--register")
    assert code == 0
    words = shlex.split(out[out.index("curl ") :].splitlines()[0])
    body = json.loads(words[words.index("-d") + 1])["dataframe_split"]
    assert (body["columns"], len(body["data"])) == (["a", "b"], 1)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", Stores().tracking)
    served = mlflow.pyfunc.load_model(f"models:/{LINEAR['study']['name']}/1")
    assert len(served.predict(pd.DataFrame(body["data"], columns=body["columns"]))) == 1
    before = dpbo("budget", "--json")[1]
    code, out, _ = dpbo("predict", "s.toml", "new.csv")
    assert (code, out) == (0, "predictions.csv holds 4 predictions of y.\n")
    assert dpbo("budget", "--json")[1] == before
    header, *rows = csv.reader(Path("predictions.csv").read_text().splitlines())
    assert header == ["y"]
    table = pd.DataFrame([[0.5, 1.2], [-2.0, 0.1], [None, 0.3], [None, 9.9]], columns=["a", "b"])
    assert [float(value) for (value,) in rows] == [float(value) for value in served.predict(table)]
    assert dpbo("predict", "s.toml", "none.csv")[0] == 2
    Path("release.json").write_text(dpbo("show", "s.toml", "--json")[1])
    assert dpbo("verify", "release.json")[1].startswith("OK: trial, edition 1: ")
    Path("new.csv").write_text("a,c\n1,2\n")
    code, _, err = dpbo("predict", "s.toml", "new.csv", "out.csv")
    assert (code, "lacks the column 'b'" in err, Path("out.csv").exists()) == (2, True, False)
    code, _, err = dpbo("predict", "s.toml", "t.csv", "v.csv")
    assert (code, "v.csv" in err) == (2, True)  # what is there is not replaced
