"""Answers in seconds: what a command needs not it does not load, and a replay reads the ledger and stops."""

import copy
import json
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import tomli_w
from conftest import STUDY
from test_evaluation import files, of_files

from dpbo.flows.cli.evaluate import reported
from dpbo.flows.cli.tune import print_tuned, replayed
from dpbo.flows.prefect_runtime.flow_runs import QUIET_SETTINGS, prefect_home, prefect_is_configured
from dpbo.flows.stores import Stores
from dpbo.tasks.reporting.mlflow_run import find_release, log_release
from dpbo.tasks.reporting.mlflow_store import published_in, shown_before
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.report.evaluation import run_and_evaluate
from dpbo_core.study import StudySpec, data_split
from dpbo_core.study.data_files import study_fingerprint, training_digest
from dpbo_core.study.query import QueryContext
from dpbo_core.study.resolve import resolve
from dpbo_core.study.run import Run
from dpbo_core.study.tuning import run_study

TYPED = """
import contextlib, io, json, os, sys
answers, events = [], []
sys.addaudithook(lambda event, _: events.append(event) if event in WATCHED else None)
from dpbo.flows.cli import main
for words, around in json.loads(sys.argv[1]):
    sys.argv, code, out, err = ['dpbo', *words], 0, io.StringIO(), io.StringIO()
    os.environ.update(around)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
    for name in around:
        del os.environ[name]
    answers.append((code, out.getvalue(), err.getvalue(), sorted(HEAVY & sys.modules.keys()), events[:]))
    events.clear()
print(json.dumps(answers))
"""
ALONE = {"subprocess.Popen", "os.fork", "os.posix_spawn", "socket.connect", "socket.bind"}
LIGHT = {"pyarrow", "httpx", "joblib"}
HEAVY = {"prefect", "mlflow", "sklearn", "scipy", "pandas", "opendp", "matplotlib"} | LIGHT


def typed(*commands):
    """Of each command, in one process: its exit code, both streams, what was loaded by its end, and whom it asked.

    A command is its words, and what stands in its environment.
    """
    code = TYPED.replace("WATCHED", repr(ALONE)).replace("HEAVY", repr(HEAVY | {"numpy", "sqlalchemy"}))
    words = [sys.executable, "-c", code, json.dumps(commands)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return [(*four, set(asked)) for *four, asked in json.loads(done.stdout)]


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """The folder in which a study of two draws was released and shown in MLflow, its spec, and its release."""
    folder, tables = tmp_path_factory.mktemp("shown"), small(copy.deepcopy(STUDY))
    (folder / "study.toml").write_text(tomli_w.dumps(tables))
    with pytest.MonkeyPatch.context() as patch:
        for name in ("DPBO_DATABASE_URL", "DPBO_LEDGER_URL", "MLFLOW_TRACKING_URI"):
            patch.delenv(name, raising=False)
        patch.chdir(folder)
        Stores().make_folder()
        spec, ledger = StudySpec.from_dict(tables), PrivacyLedger(Stores().ledger)
        release = run_study(spec, ledger=ledger).release
        (account,) = ledger.accounts("people")
        log_release(release, account, Stores().tracking)
    return folder, spec, release


def small(tables):
    """Two draws, of four candidates."""
    tables["study"]["method"] = "private_grid"
    tables["space"]["lambda"]["points"] = 4
    return tables


@pytest.fixture
def shown(here, tables, kept):
    """A copy of it in the current folder: its spec, and its release."""
    folder, spec, release = kept
    small(tables)
    shutil.copytree(folder, here, dirs_exist_ok=True)
    return spec, release


def completing(line):
    """What typer's own script for bash asks."""
    return {"_DPBO_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}


def contents():
    return {path: path.read_bytes() for path in Path("mlruns").rglob("*") if path.is_file()}


NEVER = (HEAVY | {"numpy", "sqlalchemy"}, HEAVY | {"numpy"}, HEAVY, (HEAVY | {"numpy"}) - LIGHT)
COMMANDS = (  # what it may never load, here or before
    (0, "--help", {}), (0, "", {}), (0, "", completing("dpbo ve")), (1, "budget", {}), (1, "show trial", {}),
    (2, "", completing("dpbo tune --ex")), (2, "budget status --json", {}), (2, "tune study.toml --json", {}),
    (3, "doctor", {}),  # in a process of its own
)  # fmt: skip


def test_no_command_loads_what_it_needs_not_and_a_replay_reads_the_ledger_and_stops(here, shown):
    """None starts a process or reaches anybody, but the doctor, who asks a port; and a shell completes at once."""
    _, release = shown
    before = contents()
    *most, last = ((words.split(), around) for _, words, around in COMMANDS)
    answers = typed(*most) + typed(last)
    for (row, words, _), (code, _, err, loaded, asked) in zip(COMMANDS, answers, strict=True):
        begun = "study.toml: reading the study\n" if "tune" in words else ""
        assert (code, err) == (0, begun), words
        assert not NEVER[row] & set(loaded), words
        assert asked <= ({"socket.connect"} if words == "doctor" else set()), words
    _, first, verbs, _, _, options, _, tuned, examined = (out for _, out, _, _, _ in answers)
    assert "dpbo ui" in first
    assert [set(out.split()) for out in (verbs, options)] == [{"verify"}, {"--example"}]
    assert "unchanged since dpbo wrote to it" in examined
    found = find_release(release, Stores().tracking)
    tracking = {"experiment": found.experiment, "run_id": found.run_id}
    assert json.loads(tuned) == json.loads(json.dumps(release.to_json() | {"replayed": True, "tracking": tracking}))
    after = contents()
    changed = {path.name for path in before | after if before.get(path) != after.get(path)}
    assert changed <= {"ledger.db-wal", "ledger.db-shm"}


def test_prefect_is_asked_only_where_its_settings_are_not_the_defaults(here, monkeypatch):
    for name in [name for name in os.environ if name.upper().startswith("PREFECT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(here))
    monkeypatch.setitem(sys.modules, "prefect", sys)
    assert prefect_is_configured()
    monkeypatch.delitem(sys.modules, "prefect")
    assert not prefect_is_configured()
    assert prefect_home() == here / ".prefect"
    for name in QUIET_SETTINGS:
        monkeypatch.setenv(name, "whatever")
    for name, place in (("", ".prefect"), ("beside", "beside"), (str(here / "prefect"), "prefect")):
        monkeypatch.setenv("PREFECT_HOME", name)
        assert (prefect_is_configured(), prefect_home()) == (False, here / place)
    for name, value in (("prefect_home", str(here / "theirs")), ("prefect_api_url", "http://127.0.0.1:9/api"),
                        ("PREFECT_PROFILE", "x"), ("PREFECT_RESULTS_PERSIST_BY_DEFAULT", "1")):  # fmt: skip
        with monkeypatch.context() as also:
            also.setenv(name, value)
            assert prefect_is_configured(), name
    (here / "prefect").mkdir()
    (here / "prefect" / "profiles.toml").touch()
    assert prefect_is_configured()


@pytest.fixture
def reported_on(here):
    """A study on files with a report by groups, its validation file gone since; what was released, and its spec."""
    files(here)
    tables = of_files()
    tables["evaluation"] |= {"group": "sex", "groups": ["f", "m"]}
    (here / "study.toml").write_text(tomli_w.dumps(tables))
    Stores().make_folder()
    spec, ledger = StudySpec.from_dict(tables), PrivacyLedger(Stores().ledger)
    tuned, evaluated = run_and_evaluate(spec, ledger=ledger)
    (account,) = ledger.accounts("clinic")
    for release in (tuned.release, evaluated.release):
        log_release(release, account, Stores().tracking)
    (here / tables["data"]["validation"]).unlink()
    return spec, tuned.release, evaluated.release


def run_of(spec):
    return Run.of(spec, QueryContext(PrivacyLedger(Stores().ledger)))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:this report will not be usable")
def test_a_report_that_was_released_is_read_from_the_ledger(here, dpbo, reported_on, monkeypatch, capsys):
    """By its command, and as a study's last step: nothing but the ledger and public files is needed."""
    spec, release, report = reported_on
    ((code, told_by_tune, err, loaded, asked),) = typed((["tune", "study.toml", "--json"], {}))
    assert (code, err, asked) == (0, "study.toml: reading the study\n", set())
    assert not set(loaded) & (HEAVY - {"scipy", "pyarrow", "joblib"})
    code, out, err = dpbo("evaluate", "study.toml", "--json")  # the same, where the slow test has a process for it
    assert (code, err) == (0, "")
    for text, told in ((out, report), (told_by_tune, release)):
        document = json.loads(text)
        assert document["replayed"]
        assert document["tracking"]["run_id"] == find_release(told, Stores().tracking).run_id
        assert document["release_id"] == told.release_id
    assert document["evaluation"]["release_id"] == report.release_id
    print_tuned(*replayed(run_of(spec)))
    out = capsys.readouterr().out
    assert 0 < out.index("nothing was drawn") < out.index("clinic/evaluation · edition 1")
    assert reported(run_of(spec), epsilon=0.25) is None  # another question
    other = spec.replace(evaluation=spec.evaluation.replace(edition="2"))
    assert reported(run_of(other)) is None
    assert replayed(run_of(other)) is None  # its last step is not there yet
    alone = spec.replace(evaluation=spec.evaluation.replace(group=None, groups=None))
    assert reported(run_of(alone)) is None
    monkeypatch.setattr("dpbo.flows.cli.running.shown_before", lambda *_: None)  # MLflow lost it: shown anew
    assert reported(run_of(spec)) is None


@contextmanager
def nothing_opened(monkeypatch):
    """Neither the sensitive half nor an encoding of the public one is made inside."""
    with monkeypatch.context() as watched:
        for name in ("sensitive_half", "validation_table", "public_half", "people_of"):
            watched.setattr(data_split, name, lambda *_, **__: pytest.fail("more than the ledger was read"))
        watched.setattr("dpbo_core.data.preprocessing.Preprocessing.fit", lambda *_, **__: pytest.fail("fitted"))
        yield


def test_what_mlflow_lost_is_no_replay(shown, monkeypatch):
    """Then the study runs as ever, which publishes it again."""
    from mlflow.tracking import MlflowClient

    spec, release = shown
    uri = Stores().tracking
    client = MlflowClient(tracking_uri=uri)
    with nothing_opened(monkeypatch):
        tuned, account = replayed(run_of(spec))
    assert (tuned.result.release, tuned.result.replayed, tuned.warnings) == (release, True, ())
    assert tuned.tracked == find_release(release, uri)
    assert account.budget.dataset == "people"
    run, experiment = tuned.tracked.run_id, client.get_experiment_by_name("people").experiment_id
    for lost, restored in (
        (lambda: client.set_terminated(run, "FAILED"), lambda: client.set_terminated(run, "FINISHED")),  # it lacks
        (lambda: client.delete_run(run), lambda: client.restore_run(run)),  # something, which the next run adds
        (lambda: client.delete_experiment(experiment), lambda: client.restore_experiment(experiment)),
    ):
        lost()
        assert replayed(run_of(spec)) is None
        restored()
        assert replayed(run_of(spec)) is None  # MLflow is asked again, since its store has changed
        log_release(release, account, uri)
        assert replayed(run_of(spec)) is not None
    assert shown_before(replace(release, release_id="0" * 16), uri) is None
    assert shown_before(replace(release, dataset="others"), uri) is None


def test_a_store_that_cannot_be_read_tells_nothing(shown, tmp_path):
    (tmp_path / "empty.db").touch()
    (tmp_path / "empty.published.json").write_text('{"state": "", "published": []}')
    (tmp_path / "other.db").write_bytes(b"no database at all, but long enough to be taken for one" * 99)
    _, release = shown
    for uri in (*(f"sqlite:///{tmp_path / name}.db" for name in ("empty", "other", "none")), "http://127.0.0.1:9"):
        assert shown_before(release, uri) is None
        assert published_in(uri) == {}
    assert not (tmp_path / "none.db").exists()


def test_only_the_very_same_study_is_a_replay(shown, tables, monkeypatch):
    spec, release = shown
    ledger = PrivacyLedger(Stores().ledger)

    def recorded(study):
        return Run.of(study, QueryContext(ledger)).recorded()

    assert recorded(spec) == release
    for section, key, value in (
        ("study", "edition", "2"), ("study", "name", "other"), ("privacy", "epsilon", 0.25), ("search", "seed", 7),
        ("data", "validation_share", 0.4), ("model", "steepness", 9.0),
    ):  # fmt: skip
        changed = {name: dict(table) for name, table in tables.items()}
        changed[section][key] = value
        assert recorded(StudySpec.from_dict(changed)) is None, (section, key)
    tables["study"]["name"] = "unheard"  # of which no file is read
    tables["data"] = {"training": "no.csv", "validation": "none.csv", "n_validation": 3, "target": "y"}
    assert recorded(StudySpec.from_dict(tables)) is None


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_the_key_is_the_one_that_the_run_had(here, tables, suffix):
    """Of files too, with columns that are no features; an edited training file is another study."""
    rows = [f"{i % 7},{i % 3},{i},{i % 2}" for i in range(40)]
    (here / "training.csv").write_text("\n".join(["a,b,who,y", *rows]) + "\n")
    (here / "validation.csv").write_text("\n".join(["a,b,who,y", *rows[:20]]) + "\n")
    if suffix == "parquet":
        import pandas as pd

        for name in ("training", "validation"):
            pd.read_csv(here / f"{name}.csv").to_parquet(here / f"{name}.parquet")
    tables["data"] = {
        "training": f"training.{suffix}", "validation": f"validation.{suffix}", "n_validation": 20, "target": "y",
        "ignore": ["b"],
    }  # fmt: skip
    tables["privacy"]["person"] = "who"
    spec = StudySpec.from_dict(tables)
    digest = training_digest(spec, here)
    assert digest == data_split.public_half(spec, here).fingerprint
    assert resolve(spec).key(digest).fingerprint == study_fingerprint(spec, digest)
    text = (here / "training.csv").read_text()
    (here / "training.csv").write_text(text.replace("\n0,0,0,0\n", "\n1,0,0,0\n"))
    if suffix == "csv":
        assert training_digest(spec, here) != digest
