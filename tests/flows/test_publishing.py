"""Whatever fails beside a release, whoever paid gets it and is told what to do; the next run publishes it."""

import json
import os
from types import SimpleNamespace

import httpx
import pytest
import tomli_w
from answering import answering
from test_evaluate_flow import client
from test_flow import terminal  # noqa: F401  a fixture
from test_ledger_silent import accepting, server, stopped, within  # noqa: F401  a fixture

from dpbo.flows.cli.show import recorded_release
from dpbo.flows.stores import Stores
from dpbo.flows.tune import tune_privately
from dpbo.tasks.reporting import mlflow_store
from dpbo.tasks.reporting.mlflow_store import open_store
from dpbo.tasks.tuning import publish
from dpbo_core.errors import DpboError
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.mechanisms.noise import OperatingSystemNoise
from dpbo_core.study import StudySpec

pytestmark = pytest.mark.usefixtures("prefect_server")


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(publish, "retry_delay_seconds", [0, 0, 0])


@pytest.fixture
def study(here, tables):
    """A study of two draws: its spec, under another edition if asked."""
    tables["study"]["method"] = "private_grid"
    tables["privacy"]["epsilon"] = 0.5
    tables["space"]["lambda"]["points"] = 4

    def spec(edition="1", **more):
        tables["study"]["edition"] = edition
        for where, value in more.items():
            tables[where] |= value
        (here / "study.toml").write_text(tomli_w.dumps(tables))
        return StudySpec.from_dict(tables)

    return spec


def delete_experiment(name="people"):
    client().delete_experiment(client().get_experiment_by_name(name).experiment_id)


def spent():
    (account,) = PrivacyLedger(Stores().ledger).accounts("people")
    return account.spent_epsilon[0], len(account.entries)


def no_draw(*_):
    raise AssertionError("a recorded release was drawn again")


FAILURES = {
    "MLflow": ("dpbo.flows.run_end.find_release", "MLflow does not show it"),
    "the door": ("dpbo.tasks.tuning.log_release", "MLflow does not show it"),
    "Prefect's page": ("dpbo.flows.run_end.announce", "Prefect's page does not show"),
    "Prefect's record": ("dpbo.flows.tune.wait_until_recorded", "Prefect's record"),
    "the final model": ("dpbo.tasks.tuning.FinalModel.of_release", "without the final model"),
    "the model's file": ("dpbo.tasks.reporting.mlflow_run.put_model", "without the final model"),
    "a picture": ("dpbo.tasks.reporting.pictures.draw_noise", "without the picture noise"),
}


@pytest.mark.parametrize(
    "failure", [pytest.param(name, marks=[pytest.mark.slow] * (name != "MLflow")) for name in FAILURES]
)
def test_the_release_arrives_whatever_fails_and_the_next_run_publishes(failure, study, monkeypatch):
    where, said = FAILURES[failure]
    spec = study()
    with monkeypatch.context() as broken:
        broken.setattr(where, lambda *_, **__: 1 / 0)
        first = tune_privately(spec)
    assert not first.result.replayed
    assert any(said in line for line in first.warnings)
    assert not any("division" in line for line in first.warnings)  # an error's own words stay where they are
    assert (first.tracked is None) == ("MLflow does not show" in said)
    before = spent()
    for door in ("draw", "draw_many"):
        monkeypatch.setattr(OperatingSystemNoise, door, no_draw)
    again = tune_privately(spec)
    assert (again.result.replayed, again.result.release, again.warnings) == (True, first.result.release, ())
    assert spent() == before == (pytest.approx(0.5), 1)
    run = client().get_run(again.tracked.run_id)
    assert run.info.status == "FINISHED"
    shown = min(max(first.result.release.value["score"], 0.0), 1.0)
    assert run.data.metrics["sigmoid"] == float(f"{shown:.4g}")
    assert len(client().get_metric_history(run.info.run_id, "sigmoid")) == 1  # published again, written once
    names = {item.path for item in client().list_artifacts(run.info.run_id)}
    assert names == {"release.json", "release.html", "plots", "model"}
    assert len(client().list_artifacts(run.info.run_id, "plots")) == 3
    runs = client().search_runs([run.info.experiment_id])
    assert sorted(item.data.tags["dpbo.kind"] for item in runs) == ["edition", "study"]
    for item in runs:
        points = client().get_metric_history(item.info.run_id, "budget/left")
        assert len(points) == (item.data.tags["dpbo.kind"] == "edition")  # a chart of one edition would be a dot


def test_a_deleted_experiment_is_refused_before_anything_is_paid(study):
    Stores().make_folder()
    open_store(Stores().tracking).experiment("people")
    delete_experiment()
    with pytest.raises(DpboError, match="was deleted") as refused:
        tune_privately(study())
    assert "mlflow experiments restore" in str(refused.value)
    assert PrivacyLedger(Stores().ledger).accounts() == ()
    experiment = client().get_experiment_by_name("people").experiment_id
    client().restore_experiment(experiment)
    assert tune_privately(study()).tracked is not None
    assert spent()[1] == 1


@pytest.mark.slow
def test_an_experiment_deleted_after_the_charge_costs_no_release(study, monkeypatch):
    """Neither a study in the middle nor a finished one is refused for it, however often it is run."""
    tune_privately(study())
    spec = study("2")
    with monkeypatch.context() as broken:
        broken.setattr("dpbo_core.study.tuning.StudyRun.finish", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            tune_privately(spec)
    assert spent()[1] == 2
    delete_experiment()
    first, again = tune_privately(spec), tune_privately(spec)
    assert (first.result.replayed, again.result.replayed) == (False, True)
    assert first.result.release == again.result.release
    for tuned in (first, again):
        assert tuned.tracked is None
        assert any("mlflow experiments restore" in line for line in tuned.warnings)
    assert spent()[1] == 2
    client().restore_experiment(client().get_experiment_by_name("people").experiment_id)
    assert tune_privately(spec).tracked is not None


@pytest.mark.parametrize(
    "broken", ["a damaged database", "a folder for a database", "a file for a folder", "no right"]
)
def test_a_local_store_that_takes_nothing_is_refused(here, monkeypatch, broken):
    """By what a flow asks before it pays."""
    (here / "mlruns").mkdir()
    if broken == "a damaged database":
        (here / "mlruns" / "mlflow.db").write_bytes(b"not a database " * 100)
    elif broken == "a folder for a database":
        (here / "mlruns" / "mlflow.db").mkdir()
    elif broken == "a file for a folder":
        (here / "mlruns" / "artifacts").write_text("")
    else:
        monkeypatch.setattr(mlflow_store, "os", SimpleNamespace(**vars(os) | {"access": lambda *_: False}))
    with pytest.raises(DpboError, match=r"MLflow's store cannot be.*What to do"):
        mlflow_store.check_target("people", Stores().tracking)


@pytest.mark.slow
def test_a_tracking_server_that_never_answers_is_told_before_and_holds_nothing_up(study, monkeypatch):
    with accepting() as port:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{port}")
        monkeypatch.setattr("dpbo.tasks.reporting.mlflow_store.ANSWER_TIMEOUT_S", 1.0)
        tuned = tune_privately(study())
    assert tuned.tracked is None
    assert "does not answer" in tuned.warnings[0]
    assert set(tuned.result.release.value) == {"hyperparameters", "score", "interval", "lead", "metric"}
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    assert tune_privately(study()).tracked is not None


def gone(*_, **__):
    raise httpx.ConnectError("the server is gone")


def test_a_tracking_server_that_asks_for_a_password_names_the_variables(study, monkeypatch):
    with answering(lambda *_: (401, b"who are you?")) as port:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://ann:s3cret@127.0.0.1:{port}")
        said = mlflow_store.check_target("people", Stores().tracking)
        page = Stores().mlflow_page
    assert "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD" in said
    assert page == f"http://127.0.0.1:{port}"
    assert "s3cret" not in said + page


def test_an_experiment_has_the_prefix_and_a_run_the_tags_that_are_set(study, monkeypatch):
    monkeypatch.setenv("DPBO_MLFLOW_EXPERIMENT_PREFIX", "risk/")
    monkeypatch.setenv("DPBO_MLFLOW_TAGS", '{"team": "risk", "dpbo.kind": "other"}')
    found = tune_privately(study()).tracked
    experiment = client().get_experiment_by_name("risk/people")
    assert (found.experiment, client().get_experiment_by_name("people")) == ("risk/people", None)
    runs = client().search_runs([experiment.experiment_id])
    assert {(run.data.tags["team"], run.data.tags["dpbo.kind"]) for run in runs} == {
        ("risk", "edition"),
        ("risk", "study"),
    }
    monkeypatch.setenv("DPBO_MLFLOW_TAGS", '{"team": 3}')
    with pytest.raises(DpboError, match="DPBO_MLFLOW_TAGS is no JSON object of texts"):
        tune_privately(study("2"))
    assert len(PrivacyLedger(Stores().ledger).accounts("people")[0].entries) == 1


def test_the_command_prints_the_release_and_a_warning(study, here, monkeypatch, dpbo):
    """Exit 0, one object on standard output with `tracking` null, one line a warning on standard error.

    An engine that dies after the release, in Prefect's own step after the flow: it says that it is recorded.
    Before, the message was of a broken installation.
    """
    study()
    monkeypatch.setattr("dpbo.flows.run_end.find_release", lambda *_: 1 / 0)
    with monkeypatch.context() as broken:
        broken.setattr("prefect.flow_engine.FlowRunEngine.handle_success", gone)
        code, out, err = dpbo("tune", "study.toml", "--json")
    assert (code, out) == (1, "")
    assert "is recorded, and Prefect failed after it (ConnectError)" in err
    assert "dpbo show trial:1 prints it" in err
    score = recorded_release("trial:1")[0].value["score"]
    for words in (["--json"], ["--plain"]):
        code, out, err = dpbo("tune", "study.toml", *words)
        (warned,) = [line for line in err.splitlines() if line.startswith("dpbo: warning: ")]
        assert (code, "dpbo show" in warned) == (0, True)
        if "--json" in words:
            document = json.loads(out)
            assert (document["tracking"], document["value"]["score"]) == (None, score)
        else:
            assert "dpbo show trial:1" in out
            assert "sigmoid: " in out


@pytest.mark.parametrize("uri", ["file:///tmp/runs", "./runs", "/tmp/runs"])
def test_a_folder_of_files_is_refused_with_what_to_name_instead(monkeypatch, uri):
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE", raising=False)
    with pytest.raises(DpboError, match="names a folder of files") as refused:
        mlflow_store.check_target("people", uri)
    assert "sqlite:///" in refused.value.remedy
    assert "damaged" not in refused.value.message()


@pytest.mark.slow
def test_a_database_of_mlflows_that_stops_holds_nothing_up(server):  # noqa: F811
    """SIGSTOP under a store that is open: its machine goes on acknowledging. The next look says so at once."""
    from dpbo.tasks.reporting.mlflow_store import StoreSilent

    url, processes = server
    store = open_store(url)
    assert store.client.get_experiment_by_name("people") is None
    with stopped(processes):
        with within(60.0), pytest.raises(Exception, match=r"(?s).*"):  # MLflow's own, after the wait's end
            store.client.get_experiment_by_name("people")
        with within(), pytest.raises(StoreSilent, match="does not answer"):
            open_store(url)
        with within():
            assert "does not answer" in mlflow_store.check_target("people", url)
    assert store.client.get_experiment_by_name("people") is None
