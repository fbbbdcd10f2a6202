"""The main road: of one `dpbo tune` each station is passed once, and nothing that was not asked for is priced."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

from benchmarks import main_road
from dpbo.flows.cli import main
from dpbo_core import methods
from dpbo_core.errors import StudyInvalid
from dpbo_core.study import data_files, preconditions, resolve
from dpbo_core.study import spec as study_file
from dpbo_core.study.query import QueryContext
from dpbo_core.study.run import Run

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
BUNDLED = STUDY.replace(
    """training = "t.csv"
validation = "v.csv"
n_validation = 60
target = "y"
""",
    """source = "breast_cancer"
validation_share = 0.5
""",
)
ASKED_FOR = "private_trajectory"
MOST_OF_THE_CORE, MOST_LOADED, MOST_EXECUTED = 155, 220, 170  # modules
STATIONS = {
    study_file.read_study: "read", resolve.resolve: "resolve", preconditions.check_policy: "ask the policy",
    data_files.training_table: "read the public table",
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
    plans = {cls.plan.__code__ for cls in methods.METHODS.values()}
    passed = Counter()

    def count(frame, event, _):
        if event == "call" and frame.f_code in plans:
            passed[f"price {frame.f_locals['self'].kind}"] += 1
        elif event == "call" and frame.f_code in codes:
            passed[codes[frame.f_code]] += 1

    monkeypatch.setattr(sys, "argv", ["dpbo", "tune", study.name, "--direct", "--json"])
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        with pytest.raises(SystemExit) as ended:
            main()
    finally:
        sys.setprofile(before)
    assert not ended.value.code
    assert '"replayed": false' in capsys.readouterr().out
    assert passed == dict.fromkeys([*STATIONS.values(), f"price {ASKED_FOR}"], 1)


UNASKED = (
    "dpbo_core.data.csv_file", "dpbo_core.data.fetched", "dpbo_core.data.parquet_file", "dpbo_core.data.people",
    "dpbo_core.methods.private_grid", "dpbo_core.models.estimators", "dpbo_core.models.scores.roc_auc",
    "dpbo.features.private_training", "dpbo_core.report.request", "dpbo.features.watch.looks",
)  # fmt: skip
TUNE = """
import sys
from dpbo_core import PrivacyLedger, read_study, run_study
run_study(read_study(sys.argv[1]), ledger=PrivacyLedger("sqlite:///ledger.db"))
print(*(name for name in sys.modules if name.startswith("dpbo_core")))
"""


def test_a_study_loads_only_what_it_names(here):
    (here / "study.toml").write_text(BUNDLED)
    command = [sys.executable, "-W", "ignore", "-c", TUNE, "study.toml"]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert {f"dpbo_core.methods.{ASKED_FOR}", "dpbo_core.models.linear.fit"} <= {*loaded}
    assert {*UNASKED} & {*loaded} == set()
    assert len(loaded) <= MOST_OF_THE_CORE


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("--direct",)])
def test_one_tune_loads_and_executes_no_more_modules_than_these(words):
    loaded, executed = main_road.counted(*words)
    assert (len(loaded) <= MOST_LOADED, len(executed) <= MOST_EXECUTED) == (True, True), (loaded, executed)


def test_a_run_says_nothing_of_itself_and_stays_in_its_process(study):
    import copy
    import pickle

    from dpbo_core import PrivacyLedger

    run = Run.of(study_file.read_study(study), QueryContext(PrivacyLedger("sqlite:///l.db"), Path()))
    assert (repr(run), str(run)) == ("<Run>", "<Run>")
    for leave in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="stays in its process"):
            leave(run)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_what_the_policy_was_not_asked_about_is_not_opened(study, suffix):
    """Another file is put under the public one's name in between: a dataset's records, say."""
    from dpbo_core import PrivacyLedger

    folder, spec = study.parent, study_file.read_study(study)
    if suffix == "parquet":
        for name in ("t", "v"):
            pd.read_csv(folder / f"{name}.csv").to_parquet(folder / f"{name}.parquet")
        spec = spec.replace(data=spec.data.replace(training="t.parquet", validation="v.parquet"))
    context = QueryContext(PrivacyLedger("sqlite:///l.db"), folder)
    assert Run.of(spec, context).public.preprocessing.feature_names == ("x",)
    run = Run.of(spec, context)
    (folder / f"v.{suffix}").rename(folder / f"t.{suffix}")
    for read in (lambda: run.public, lambda: run.key):
        with pytest.raises(StudyInvalid, match="is not the file that the owner's policy was asked about"):
            read()
