"""Firings and editions, refusals by name, the alert, the doctor; the schedule itself is test_schedule."""

import asyncio
import json
import re
import tomllib
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from importlib import import_module
from importlib.metadata import requires
from pathlib import Path
from types import SimpleNamespace

import httpx
import newest
import prefect
import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st
from prefect import flow
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.context import FlowRunContext
from prefect.states import AwaitingRetry, Scheduled

from dpbo.flows import run_end, serve
from dpbo.flows.cli import doctor
from dpbo.flows.cli.doctor import examine
from dpbo.flows.cli.running import seconds
from dpbo.flows.private_flow import edition_at, refuse_fields
from dpbo.flows.serve import MISSED_STATE, OUTAGE_MESSAGE, tune_on_schedule
from dpbo.flows.stores import Stores
from dpbo.tasks.reporting.mlflow_store import Tracked
from dpbo_core.errors import BudgetExceeded, PolicyRefused, StudyInvalid
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.schema import SCHEMA
from dpbo_core.ledger.sources import TIME_FIELDS
from dpbo_core.study import StudySpec
from dpbo_core.study.preconditions import approve_study
from dpbo_core.study.spec import read_study
from dpbo_core.study.tuning import run_study

NOON = datetime(2026, 11, 21, 12, 0, 5, tzinfo=UTC)
MOMENTS = st.datetimes(datetime(1990, 1, 1), datetime(9000, 1, 1))  # noqa: DTZ001  each is made UTC


@pytest.fixture
def study(here, tables):
    tables["study"] |= {"name": "nightly", "method": "private_grid"}
    tables["space"]["lambda"]["points"] = 2
    (here / "nightly.toml").write_text(tomli_w.dumps(tables))
    stores = Stores()
    stores.make_folder()  # and what dpbo serve does at its owner's terminal before the first run
    approve_study(read_study("nightly.toml"), ledger=PrivacyLedger(stores.ledger), folder=here)
    return "nightly.toml"


def test_a_schedule_names_the_price_of_a_new_edition_though_the_files_own_is_paid(study):
    spec = read_study(study)
    run_study(spec, ledger=PrivacyLedger(Stores().ledger))
    price = serve.price_of_run(spec, Path())
    assert price.counted == pytest.approx(spec.privacy.epsilon)
    assert "costs nothing" not in price.afterwards


def spec(tables, **changes):
    for where, value in changes.items():
        table, _, key = where.partition("__")
        tables[table][key] = value
    return StudySpec.from_dict(tables)


FILES = {"training": "t.csv", "validation": "v-{month}.csv", "n_validation": 9, "target": "y"}


def test_an_edition_is_the_firings_time(tables):
    assert edition_at(spec(tables), NOON).edition == "2026-11-21T12:00:05Z"
    assert edition_at(spec(tables, study__edition="{week}"), NOON).edition == "2026-W47"
    assert edition_at(spec(tables, study__edition="v2 {date}"), NOON).edition == "v2 2026-11-21"


def test_a_monthly_dataset_comes_with_monthly_data_and_an_unknown_field_is_a_letter(tables):
    tables["data"] = FILES
    monthly = edition_at(spec(tables, privacy__dataset="visits {month}"), NOON)
    assert (monthly.privacy.dataset, monthly.data.validation) == ("visits 2026-11", "v-2026-11.csv")
    for data in (FILES | {"validation": "v.csv"}, {"source": "breast_cancer"}):
        tables["data"] = data
        with pytest.raises(StudyInvalid, match="new budget"):
            edition_at(spec(tables, privacy__dataset="visits {month}"), NOON)
    tables["privacy"]["dataset"] = "visits"
    with pytest.raises(StudyInvalid, match="did you mean 'month'"):
        edition_at(spec(tables, study__edition="{mont}"), NOON)
    with pytest.raises(StudyInvalid, match="dpbo serve"):
        refuse_fields(spec(tables, study__edition="{date}"))
    refuse_fields(spec(tables, study__edition="{anything else}"))


@settings(max_examples=50, deadline=None)
@given(MOMENTS, st.timedeltas(timedelta(seconds=1), timedelta(days=900)))
def test_two_firings_are_two_editions(moment, later):
    first, second = (m.replace(tzinfo=UTC).strftime(TIME_FIELDS["time"]) for m in (moment, moment + later))
    assert first != second


def test_durations():
    assert [seconds(text) for text in ("5s", "30m", "6h", "1d")] == [5, 1800, 21600, 86400]
    for text in ("", "5", "0s", "-1h", "1w", "1.5h", "5 s", "9999999s"):
        with pytest.raises(StudyInvalid):
            seconds(text)


def fire(study, moment, monkeypatch):
    """One run in this process: its final state."""
    monkeypatch.setattr(serve, "fired_at", lambda: moment)
    return tune_on_schedule(study, return_state=True)


def test_a_retry_returns_the_release_and_the_next_firing_is_a_new_spend(
    prefect_server, study, monkeypatch, caplog, capsys
):
    """And from 80 percent on an event says so, that an automation can listen to: not at ε = 1 of 3 and 2 of 3.

    A firing that is skipped spends nothing.
    """
    with monkeypatch.context() as late:
        late.setattr(serve, "overtaken", lambda fired: True)
        before = {path.name for path in Path("mlruns").iterdir()}
        skipped = fire(study, NOON, monkeypatch)
        assert (skipped.name, skipped.type.value) == (MISSED_STATE, "CANCELLED")
        assert {path.name for path in Path("mlruns").iterdir()} == before
        assert [len(account.entries) for account in PrivacyLedger(Stores().ledger).accounts()] == [0]
    said = []
    monkeypatch.setattr("prefect.events.emit_event", lambda **event: said.append(event))
    kept = set()  # as Prefect keeps events: by their ids
    monkeypatch.setattr("dpbo.flows.run_end._has_event", lambda one: one in kept or kept.add(one))
    shown = Tracked("people", "0", "#/experiments/1/runs/0")
    for name, made in (("run_end.train", None), ("run_end.publish", shown),
                       ("tune.wait_until_recorded", None)):  # fmt: skip
        monkeypatch.setattr(f"dpbo.flows.{name}", lambda *_, made=made: made)  # what MLflow shows has other tests
    first = fire(study, NOON, monkeypatch)
    kept_of(first)
    again = fire(study, NOON, monkeypatch)
    assert first.is_completed()
    assert "released before" in again.message
    assert again.message.startswith(first.message)
    second = fire(study, NOON + timedelta(days=1), monkeypatch)
    assert second.is_completed()
    left = [event["payload"]["left"] for event in said]
    assert ({event["event"] for event in said}, left) == ({"dpbo.release"}, pytest.approx([2.0, 1.0]))
    told = said[0]["payload"]
    assert (told["study"], told["edition"], told["low"] <= told["score"] <= told["high"]) == (
        "nightly", "2026-11-21T12:00:05Z", True
    )  # fmt: skip
    said.clear()
    fire(study, NOON + timedelta(days=2), monkeypatch)
    _, event = said
    assert event["event"] == "dpbo.budget.alert"
    assert event["resource"]["prefect.resource.id"] == "dpbo.dataset.people"
    names = {"study": "nightly", "edition": "2026-11-23T12:00:05Z"}
    assert {name: event["payload"].pop(name) for name in names} == names
    assert event["payload"] == pytest.approx({"spent": 3.0, "limit": 3.0, "remaining": 0.0})
    refused = fire(study, NOON + timedelta(days=3), monkeypatch)
    assert (refused.name, refused.type.value) == (run_end.BUDGET, "CANCELLED")
    assert "the limit is ε = 3" in refused.message
    assert (said[2]["event"], said[2]["payload"]["says"]) == ("dpbo.run.refused", refused.message)
    watched = [
        line for line in capsys.readouterr().out.splitlines() if line.startswith(("edition ", run_end.BUDGET))
    ]
    assert watched[:3] == [state.message for state in (first, again, second)]
    assert watched[-1] == f"{run_end.BUDGET}. {refused.message}"
    (account,) = PrivacyLedger(Stores().ledger).accounts("people")
    assert len(account.entries) == 3
    logged = [record.getMessage() for record in caplog.records if "is spent" in record.getMessage()]
    assert len(logged) == 1
    assert "is spent (100%)" in logged[0]


def kept_of(state):
    """What Prefect keeps of a first firing says what was released, and links to MLflow."""
    from prefect.artifacts import Artifact

    artifact = Artifact.get("release-nightly")
    plain = re.sub(r"\\(.)", r"\1", artifact.data)
    answers = re.findall(r"^\| (.+?) \| \*\*(.+?)\*\*", plain, re.MULTILINE)
    assert state.message.endswith(", ".join(f"{name} {text}" for name, text in answers))
    assert len(answers) == 3
    assert "ε 1 of 3 spent, 2 left" in artifact.data
    assert "differentially private" in plain
    assert "](<http://127.0.0.1:5000/#/experiments/" in artifact.data
    assert "What nightly, edition" in artifact.description


@pytest.mark.parametrize("how", [{"cron": "0 2 * * *"}, {"every": "6h"}])
def test_a_schedule_is_served_in_utc_one_firing_at_a_time(study, served, how):
    from dpbo.flows.cli import tune as command

    words = {"cron": None, "every": None, "port": 1, "register": False}
    command.serve(Path(study), **words | how)
    ((deployment, options),) = served
    (schedule,) = [item.schedule for item in deployment.schedules]
    assert options["limit"] == 1
    assert deployment.parameters == {"study": "nightly.toml", "register": False}
    assert (schedule.timezone or "UTC") == "UTC"
    assert getattr(schedule, "cron", None) == how.get("cron")
    assert getattr(schedule, "interval", None) == (timedelta(hours=6) if "every" in how else None)
    for wrong in ({}, {"cron": "0 2 * * *", "every": "6h"}):
        with pytest.raises(StudyInvalid, match="not both"):
            command.serve(Path(study), **words | wrong)


def test_of_missed_firings_only_the_last_runs(prefect_server, monkeypatch):
    """Four are due, as after a night without a server: the first one's process ends the two in the middle."""
    with get_client(sync_client=True) as client:
        deployment = client.create_deployment(client.create_flow(tune_on_schedule), "missed")
        now = datetime.now(UTC)
        due = [Scheduled(scheduled_time=now - timedelta(minutes=minutes)) for minutes in (40, 30, 20, 10)]
        made = [client.create_flow_run_from_deployment(deployment, state=state) for state in due]
        known = {run.id: run for run in (client.read_flow_run(run.id) for run in made)}
    runs = [run.model_copy(update={"auto_scheduled": True}) for run in known.values()]
    asked = SyncPrefectClient.read_flow_runs

    def as_scheduled(self, **filters):
        """The server's own answer, with the mark that its scheduler would have given."""
        return [run.model_copy(update={"auto_scheduled": True}) for run in asked(self, **filters)]

    monkeypatch.setattr(SyncPrefectClient, "read_flow_runs", as_scheduled)
    found = []

    @flow
    def as_the_first_and_the_last():
        for run in (runs[0], runs[-1]):
            FlowRunContext.get().flow_run = run
            found.append(serve.overtaken(serve.fired_at()))

    as_the_first_and_the_last()
    assert found == [True, False]
    with get_client(sync_client=True) as client:
        names = [client.read_flow_run(run.id).state.name for run in runs]
    assert names == ["Scheduled", MISSED_STATE, MISSED_STATE, "Scheduled"]


@pytest.mark.parametrize(("error", "lasting", "paused"), [
    (BudgetExceeded("none is left"), True, True), (BudgetExceeded("none is left"), False, False),
    (PolicyRefused("another's file"), True, False), (StudyInvalid("misspelt"), True, False),
])  # fmt: skip
def test_a_schedule_is_paused_after_a_budget_refusal(monkeypatch, capsys, error, lasting, paused):
    """Not where each month has a dataset of its own, and not after a mistake that can be mended."""
    run, asked = SimpleNamespace(deployment_id="d", auto_scheduled=True), []
    monkeypatch.setattr(serve, "current_flow_run", lambda: run)
    monkeypatch.setattr(serve, "failed_run", lambda *_: None)
    client = SimpleNamespace(pause_deployment=asked.append)
    monkeypatch.setattr(serve, "get_client", lambda **_: nullcontext(client))
    serve.failure_line(error, "nightly", lasting=lasting)
    assert asked == ["d"] * paused
    assert capsys.readouterr().out.count("The schedule is paused") == paused


def test_a_retried_firing_keeps_its_time(prefect_server):
    with get_client(sync_client=True) as client:
        deployment = client.create_deployment(client.create_flow(tune_on_schedule), "retried")
        due = datetime.now(UTC) - timedelta(hours=1)
        run = client.create_flow_run_from_deployment(deployment, state=Scheduled(scheduled_time=due))
        client.set_flow_run_state(run.id, AwaitingRetry(scheduled_time=datetime.now(UTC)), force=True)
        assert abs(client.read_flow_run(run.id).expected_start_time - due) < timedelta(milliseconds=1)


def floors(name):
    """Our requirements as `make newest` has them, which goes beyond our upper bounds on purpose."""
    return [str(newest.unbounded(line)) for line in requires(name)]


def test_the_doctor_knows_which_prefect_is_ours(monkeypatch):
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    ours = [line for line in project["dependencies"] if line.startswith("prefect")]
    monkeypatch.setattr(doctor, "requires", lambda name: ours)
    for release, verdict in (("3.7.9", "wrong"), ("3.8.0", "fine"), ("3.9.1", "fine"), ("3.10.0", "wrong")):
        monkeypatch.setattr(doctor, "version", lambda name, release=release: release)
        _, finding = doctor._versions()
        assert finding.verdict == verdict
        assert verdict == "fine" or finding.observed == f"prefect {release}, wanted <3.10,>=3.8"


def test_the_doctor_looks_and_changes_nothing(here, monkeypatch):
    monkeypatch.setattr(doctor, "configured_api", lambda: None)  # this file's server asks nobody: rightly "wrong"
    monkeypatch.setattr(doctor, "requires", floors)
    findings = {finding.what: finding for finding in examine()}
    assert list(here.iterdir()) == []
    assert findings["versions"].verdict == "fine"
    assert findings["ledger"].verdict == "note"
    assert not [finding for finding in findings.values() if finding.verdict == "wrong"]


def test_the_doctor_finds_what_is_wrong(here, study):
    ledger = PrivacyLedger(Stores().ledger)
    for edition in ("a", "b", "c"):
        run_study(edition_at(read_study(study), NOON + timedelta(days=ord(edition))), ledger=ledger)
    findings = {finding.what: finding for finding in examine()}
    assert findings["budget of people"].verdict == "note"
    assert "100%" in findings["budget of people"].observed
    path = here / "mlruns" / "ledger.db.generation"
    path.write_text(json.dumps({"entries": 99, "hash": "0" * 64, "schema": SCHEMA}))
    findings = {finding.what: finding for finding in examine()}
    assert findings["ledger"].verdict == "wrong"
    assert "older" in findings["ledger"].observed


def test_a_schedule_outlives_its_server(study, served, monkeypatch, capsys):
    """Prefect's runner gives up after three polls without an answer; what else it raises is still raised."""
    endings = [
        ExceptionGroup("tasks", [RuntimeError("Service exceeded error threshold.")]),
        ExceptionGroup("tasks", [ExceptionGroup("poll", [httpx.ConnectError("refused")]), KeyError("later")]),
        None,
        ExceptionGroup("tasks", [ValueError("a fault")]),
    ]
    asked = []

    def runner(deployment, **_):
        if (ending := endings.pop(0)) is not None:
            raise ending

    monkeypatch.setattr(prefect, "serve", runner)
    waiting = "dpbo.flows.serve"
    monkeypatch.setattr(f"{waiting}.signal.signal", lambda *_: None)
    monkeypatch.setattr(f"{waiting}.POLL_INTERVAL_S", 0.0)
    monkeypatch.setattr(f"{waiting}.answers", lambda api: asked.append(api) or len(asked) % 2 == 0)
    schedule, words = serve.Schedule(None, 3600.0, 1, False), {"register": False}
    serve.serve(Path(study), schedule, **words)
    assert asked == ["http://127.0.0.1:1/api"] * 4  # twice no answer, twice one
    assert capsys.readouterr().out.count("the schedule goes on when one does") == 2
    with pytest.raises(ExceptionGroup, match="tasks"):
        serve.serve(Path(study), schedule, **words)
    capsys.readouterr()

    async def poll():
        raise httpx.ConnectError("refused")

    poller = import_module("prefect.runner._scheduled_run_poller")
    with pytest.raises(
        RuntimeError, match=OUTAGE_MESSAGE
    ):  # and what Prefect would print of it, a trace a poll, is not there
        asyncio.run(poller.critical_service_loop(poll, interval=0))
    assert capsys.readouterr() == ("", "")
