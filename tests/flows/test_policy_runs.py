"""The owner's policy where studies are run: the command, Prefect, a served study, a notebook, a second ledger."""

import hashlib
import json
import re
from functools import partial, wraps
from pathlib import Path

import numpy as np
import pytest
import tomli_w
from prefect import flow
from sklearn.linear_model import LogisticRegression
from test_serve import NOON, fire

from dpbo.flows import run_end
from dpbo.flows.private_flow import PrivateFlow, at_the_terminal, owners_terminal, study_of
from dpbo.flows.serve import STUDY_DIGEST_VARIABLE, tune_on_schedule
from dpbo.flows.stores import Stores
from dpbo.flows.tune import tune, tune_privately
from dpbo_core import PrivateSearch, Real
from dpbo_core.errors import PolicyRefused
from dpbo_core.ledger import audit
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.study import StudySpec
from dpbo_core.study.preconditions import approve_study
from dpbo_core.study.run import Run
from dpbo_core.study.spec import read_study, study_digest
from dpbo_core.study.tuning import run_study


@pytest.fixture
def folder(here, monkeypatch):
    """A public file and two sensitive ones of 60 records; MLflow's page of what is released has other tests."""
    for name in ("publish_release", "wait_until_recorded"):
        monkeypatch.setattr(f"dpbo.flows.tune.{name}", lambda *_: None)
    rng = np.random.default_rng(0)
    for name in ("train", "v", "w"):
        x = rng.normal(size=(60, 2))
        rows = [f"{a:.6f},{b:.6f},{int(a + b > 0)}" for a, b in x]
        (here / f"{name}.csv").write_text("\n".join(["a,b,y", *rows]) + "\n")
    return here


def tuned(spec):
    """The story of `tune_privately`, in the run that is under way."""
    flow = PrivateFlow.begin(".")
    return tune(flow, Run.of(spec, flow.context))


@pytest.fixture
def study(folder, tables):
    """A study of a file, written and read: `study(edition, dataset, validation, **privacy)`."""

    def write(edition="1", dataset="clinic", validation="v.csv", *, model=None, data=(), **privacy):
        files = {"training": "train.csv", "validation": validation, "n_validation": 60, "target": "y"}
        made = tables | {
            "study": {"name": "trial", "method": "private_grid", "edition": edition},
            "privacy": {"dataset": dataset, "epsilon": 0.5, "anyway": True, **privacy},
            "data": files | dict(data),
            "space": {"lambda": {"low": 1e-3, "high": 1.0, "log": True, "points": 2}},
        }
        if model is not None:
            made |= {"model": {"estimator": model}, "space": {"C": {"values": [0.1, 1.0]}}}
        (folder / "study.toml").write_text(tomli_w.dumps(made))
        return StudySpec.from_dict(made)

    return write


def ledger():
    stores = Stores()
    stores.make_folder()
    return PrivacyLedger(stores.ledger)


# Prefect


@flow
def team(work, *given):
    """Some team's flow, which does this."""
    return work(*given)


def in_a_run(test):
    """A test that Prefect runs, as it does what somebody who may start runs sends."""

    @wraps(test)
    def wrapped(**fixtures):
        team(partial(test, **fixtures))

    return wrapped


@in_a_run
def test_whoever_may_start_runs_reads_no_record_of_somebody_elses(prefect_server, study):
    """What an operator did: two fresh names, ε = 4000 under a cap of 10⁶, one file. Nothing is charged."""
    study()
    sent = json.loads(json.dumps({**study("1", "mine", epsilon=4000.0).to_dict(), "budget": {"epsilon": 1e6}}))
    with pytest.raises(PolicyRefused, match=r"cannot open one.*--file VALIDATION") as refused:
        tune_privately(sent)
    assert refused.value.exit_code == 3
    sent["privacy"]["dataset"] = "mine too"
    with pytest.raises(PolicyRefused, match="cannot open one"):
        tuned(StudySpec.from_dict(sent))
    assert ledger().accounts() == ()
    run_study(study(), ledger=ledger())  # at its owner's terminal: the cap is open, the file recorded
    for dataset, file in (("mine", "v.csv"), ("clinic", "w.csv")):
        with pytest.raises(PolicyRefused):
            tuned(study("2", dataset, file))
    assert [len(account.entries) for account in ledger().accounts()] == [1]
    assert not tuned(study("2")).result.replayed
    ledger().set_budget(ledger().budget("clinic"), largest_epsilon=0.25)
    with pytest.raises(PolicyRefused, match=r"0\.25"):
        tuned(study("3"))
    assert tuned(study("2")).result.replayed  # shown before anything is refused
    scored = study("4").to_dict()
    scored["model"] = {"estimator": "sklearn.linear_model.LogisticRegression", "score": "joblib.load"}
    scored["model"] |= {"score_low": 0.0, "score_high": 1.0}
    scored["space"] = {"C": {"values": [0.1, 1.0]}}
    with pytest.raises(PolicyRefused, match="did not allow") as no_function:
        tuned(study_of(scored))
    assert no_function.value.exit_code == 3


def test_the_owners_word_is_no_parameter_and_reaches_a_subflow(prefect_server, study):
    def looked(spec):
        return tune_privately(spec).result.replayed, at_the_terminal()

    with pytest.raises(PolicyRefused):
        team(looked, study())
    with owners_terminal():
        assert team(looked, study()) == (False, True)
    assert not at_the_terminal()


def begun_with(story, parameters, job_variables):
    """A run of a deployment of `story`, as somebody who may start runs begins one."""
    from prefect.client.orchestration import get_client
    from prefect.flow_engine import run_flow

    with get_client(sync_client=True) as client:
        flow_id = client.create_flow(story)
        made = client.create_deployment(flow_id=flow_id, name=f"{story.name} on request")
        run = client.create_flow_run_from_deployment(made, job_variables=job_variables)
    return run_flow(story, flow_run=run, parameters=parameters, return_type="state")


@pytest.mark.slow
def test_a_run_with_an_environment_of_its_own_is_refused(prefect_server, study, folder, monkeypatch):
    """DPBO_SERVED_STUDY of another study, DPBO_LEDGER_URL of another ledger: both come as job variables."""
    run_study(study(), ledger=ledger())
    spec, study_file = study("2"), folder / "study.toml"

    @flow
    def of_a_team(study):
        return tune_privately(study)

    sent = {"study": spec, "folder": ".", "register": False}
    for given, story, words in (
        ({"command": "true"}, tune_privately, sent),
        ({"env": {"DPBO_LEDGER_URL": "sqlite:////tmp/x.db"}}, of_a_team, {"study": spec}),
    ):
        with pytest.raises(PolicyRefused, match="job variables"):
            begun_with(story, words, given).result()
    monkeypatch.setenv(STUDY_DIGEST_VARIABLE, study_digest(study_file))  # as such a variable would
    fired = {"study": "study.toml", "register": False}
    state = begun_with(tune_on_schedule, fired, {"env": {STUDY_DIGEST_VARIABLE: study_digest(study_file)}})
    assert (state.name, "job variables" in state.message) == (run_end.POLICY, True)
    assert len(ledger().accounts("clinic")[0].entries) == 1
    assert begun_with(tune_privately, sent, {}).is_completed()
    assert len(ledger().accounts("clinic")[0].entries) == 2


def test_a_served_study_is_frozen(prefect_server, study, folder, monkeypatch):
    """By the sum of its file, so that a worker can be started with `DPBO_SERVED_STUDY=$(sha256sum …)`."""
    study(edition="{time}")
    assert study_digest("study.toml") == hashlib.sha256((folder / "study.toml").read_bytes()).hexdigest()
    approve_study(read_study("study.toml"), ledger=ledger(), folder=folder)
    monkeypatch.setenv(STUDY_DIGEST_VARIABLE, study_digest("study.toml"))
    assert fire("study.toml", NOON, monkeypatch).is_completed()
    study(edition="{time}", epsilon=2.0)
    changed = fire("study.toml", NOON, monkeypatch)
    assert (changed.name, changed.type.value) == (run_end.POLICY, "FAILED")
    assert "'study.toml' is not the one that was served" in changed.message
    study(edition="{time}")
    (folder / "other.toml").write_text((folder / "study.toml").read_text().replace("trial", "other"))
    assert "'other.toml' is not the one" in fire("other.toml", NOON, monkeypatch).message
    assert len(ledger().accounts("clinic")[0].entries) == 1


def test_serve_begins_with_the_owners_word(study, folder, served, monkeypatch):
    """The cap is open and the pattern recorded before the first run; the runs inherit the hash."""
    import os

    from dpbo.flows.cli import tune as command

    seen = []
    monkeypatch.setattr("prefect.serve", lambda *_, **__: seen.append(os.environ[STUDY_DIGEST_VARIABLE]))
    study("{date}", validation="v-{date}.csv")
    words = {"cron": None, "every": "6h", "port": 1, "register": False}
    command.serve(Path("study.toml"), **words)
    assert seen == [study_digest("study.toml")]
    assert STUDY_DIGEST_VARIABLE not in os.environ
    (source,) = ledger().accounts("clinic")[0].sources
    assert source.source.name == str(folder.resolve() / "v-{date}.csv")
    study("{date}", "ward", "v-{date}.csv")
    with pytest.raises(PolicyRefused, match="'clinic'"):
        command.serve(Path("study.toml"), **words)


def test_a_monthly_dataset_gets_its_cap_from_what_was_served(prefect_server, study, folder, monkeypatch):
    study("{time}", "visits {month}", "v-{month}.csv")
    approve_study(read_study("study.toml"), ledger=ledger(), folder=folder)
    (folder / "v.csv").rename(folder / "v-2026-11.csv")
    assert fire("study.toml", NOON, monkeypatch).is_completed()
    names = {account.budget.dataset: len(account.entries) for account in ledger().accounts()}
    assert names == {"visits 2026-11": 1, "visits {month}": 0}


# The command


def test_allow_set_and_what_budget_shows(dpbo, study, folder):
    spec = study()
    run_study(spec, ledger=ledger())
    study("2", validation="w.csv")
    code, _, err = dpbo("tune", "study.toml")
    assert code == 3
    assert "dpbo budget allow clinic" in err
    code, out, _ = dpbo("budget", "allow", "clinic", "w.csv")
    assert (code, out.split()) == (0, f"clinic: may be scored on {folder.resolve()}/w.csv from now on.".split())
    assert "as before" in " ".join(dpbo("budget", "allow", "clinic", "w.csv")[1].split())
    assert dpbo("budget", "set", "ward", "--epsilon", "1", "--file", "v.csv")[0] == 3
    assert dpbo("budget", "set", "ward", "--epsilon", "1", "--largest-epsilon", "0.5")[0] == 0
    code, out, _ = dpbo("budget", "allow", "ward", "v.csv", "--as", "shared")
    assert "clinic too" in " ".join(out.split())
    assert dpbo("budget", "set", "ward", "--largest-epsilon", "0.25")[0] == 0
    assert dpbo("budget", "set", "ward", "--largest-epsilon", "0.5")[0] == 3
    assert dpbo("budget", "set", "ward", "--largest-epsilon", "-1")[0] == 2
    assert dpbo("budget", "set", "unknown", "--largest-epsilon", "1")[0] == 2
    for word in ("allow", "recover"):
        assert dpbo("budget", "set", word, "--epsilon", "1")[0] == 2
    shown = {item["name"]: item for item in json.loads(dpbo("budget", "--json")[1])["datasets"]}
    assert [source["name"] for source in shown["clinic"]["sources"]] == [
        f"{folder.resolve()}/{name}.csv" for name in ("v", "w")
    ]
    assert shown["clinic"]["shares_people_with"] == ["ward"]
    assert shown["ward"]["largest_epsilon"] == 0.25
    words = " ".join(dpbo("budget")[1].split())
    assert "the same people are also in clinic" in words
    audit.verify(Stores().ledger)


# A notebook


def test_a_notebook_is_not_bothered_at_first_use_and_told_when_it_matters(study, here):
    x = np.random.default_rng(1).normal(size=(80, 2))
    y = (x[:, 0] > 0).astype(int)
    url = f"sqlite:///{here / 'l.db'}"

    def fit(dataset, edition):
        search = PrivateSearch(
            LogisticRegression(), {"C": Real(0.1, 1.0)}, epsilon=0.5, delta=0.0, dataset=dataset,
            budget=(3.0, 1e-5), method="private_grid", n_candidates=2, edition=edition, ledger=url,
        )  # fmt: skip
        return search.fit(x[:40], y[:40], X_validation=x[40:], y_validation=y[40:])

    fit("mine", "1")
    fit("mine", "2")
    fit("another", "1")
    book = PrivacyLedger(url)
    run_study(study("1", "files"), ledger=book)
    with pytest.raises(PolicyRefused, match="dpbo budget allow files memory"):
        fit("files", "2")
    with pytest.raises(PolicyRefused, match=re.escape("tables in memory")):
        run_study(study("1", "mine", "w.csv"), ledger=book)


# A second ledger


def test_what_was_spent_here_is_recovered_before_the_teams_ledger_is_used(dpbo, study, folder, monkeypatch):
    local = run_study(study("2"), ledger=ledger())
    run_study(study("1", "elsewhere", "w.csv"), ledger=ledger())
    Path("local.jsonl").write_text(dpbo("budget", "export")[1])
    url = f"sqlite:///{folder / 'team.db'}"
    monkeypatch.setenv("DPBO_LEDGER_URL", url)
    with pytest.raises(PolicyRefused, match=r"1 spends in \./mlruns/ledger\.db.*budget recover"):
        run_study(study("3"), ledger=ledger())
    assert ledger().accounts() == ()
    code, out, _ = dpbo("budget", "recover", "local.jsonl")
    assert code == 0
    assert re.search(r"2 lost charges were added, with \d+ draws and 2 releases", " ".join(out.split()))
    assert "nothing was added" in " ".join(dpbo("budget", "recover", "local.jsonl")[1].split())
    spent = {account.budget.dataset: account.spent_epsilon[0] for account in ledger().accounts()}
    assert spent == pytest.approx({"clinic": 0.5, "elsewhere": 0.5})
    again = run_study(study("2"), ledger=ledger())
    assert (again.replayed, again.release) == (True, local.release)
    run_study(study("3"), ledger=ledger())
    audit.verify(url)
    monkeypatch.delenv("DPBO_LEDGER_URL")
    run_study(study("4"), ledger=ledger())  # here again, past the team's: the next look at the team's refuses
    monkeypatch.setenv("DPBO_LEDGER_URL", url)
    with pytest.raises(PolicyRefused, match="1 spends"):
        run_study(study("5"), ledger=ledger())
