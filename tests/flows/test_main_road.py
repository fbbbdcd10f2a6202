"""The main road: of one `dpbo tune` each station is passed once, and nothing that was not asked for is priced."""

import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from dpbo.flows.cli import main
from dpbo_core import methods
from dpbo_core.methods.private_trajectory import PrivateTrajectory
from dpbo_core.preparation import preconditions, resolve, training_set
from dpbo_core.preparation.context import QueryContext
from dpbo_core.preparation.run import Run
from dpbo_core.study_file import toml_file

STUDY = """
[study]
name = "road"
method = "private_trajectory"
[privacy]
dataset = "people"
epsilon = 1.0
delta = 1e-6
anyway = true
[budget]
epsilon = 5.0
delta = 1e-5
[data]
training = "t.csv"
validation = "v.csv"
n_validation = 60
target = "y"
[model]
estimator = "logistic"
[space]
lambda = { low = 1e-3, high = 1.0, log = true, points = 4 }
[search]
steps = 3
"""
ASKED_FOR = "private_trajectory"
STATIONS = {
    toml_file.read_study: "read", resolve.resolve: "resolve", preconditions.check_policy: "ask the policy",
    training_set.training_table: "read the public table", PrivateTrajectory.plan: "price",
}  # fmt: skip


@pytest.fixture
def study(here):
    """A study of two files."""
    for name in ("t", "v"):
        rows = [f"{(i * 7) % 13 / 13:.3f},{int((i * 7) % 13 > 6)}" for i in range(60)]
        (here / f"{name}.csv").write_text("\n".join(["x,y", *rows]) + "\n")
    (here / "study.toml").write_text(STUDY)
    return here / "study.toml"


def test_each_station_is_passed_once_and_no_other_method_is_priced(study, monkeypatch, capsys):
    codes = {function.__code__: name for function, name in STATIONS.items()}
    others = {cls.plan.__code__: f"price {kind}" for kind, cls in methods.METHODS.items() if kind != ASKED_FOR}
    passed = Counter()

    def count(frame, event, _):
        name = (codes | others).get(frame.f_code)
        if event == "call" and name is not None:
            passed[name] += 1

    monkeypatch.setattr(sys, "argv", ["dpbo", "tune", study.name, "--direct", "--json"])
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        with suppress(SystemExit):
            main()
    finally:
        sys.setprofile(before)
    assert '"replayed": false' in capsys.readouterr().out
    assert passed == dict.fromkeys(STATIONS.values(), 1)


def test_a_run_says_nothing_of_itself_and_stays_in_its_process(study):
    import copy
    import pickle

    from dpbo_core import PrivacyLedger

    run = Run.of(toml_file.read_study(study), QueryContext(PrivacyLedger("sqlite:///l.db"), Path()))
    assert (repr(run), str(run)) == ("<Run>", "<Run>")
    for leave in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="stays in its process"):
            leave(run)
