"""`dpbo watch`, its flow and its schedule: a bit a look, a timeline, an event at an alarm, and what comes after."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from test_evaluate_flow import client, run  # noqa: F401  a fixture
from test_flow import flow_runs, logs, task_runs, terminal  # noqa: F401  fixtures
from test_watch import Place
from test_watch_command import entries, study  # noqa: F401  a fixture

from dpbo.features.watch import schedule_flow
from dpbo.features.watch.flow import watch_privately
from dpbo.features.watch.schedule_flow import ALARM_STATE, watch_on_schedule
from dpbo.flows import run_end, serve
from dpbo.flows.stores import Stores
from dpbo_core.errors import PolicyRefused, StudyInvalid
from dpbo_core.ledger.accounting.account import balances
from dpbo_core.ledger.charge import Caller
from dpbo_core.ledger.ledger import PrivacyLedger

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("prefect_server")]
NOON = datetime(2026, 11, 21, 12, 0, 5, tzinfo=UTC)


@pytest.fixture
def events(monkeypatch):
    said = []
    monkeypatch.setattr("prefect.events.emit_event", lambda **event: said.append(event))
    return said


def spoil():
    Place.spoil(SimpleNamespace(folder=Path()))


def test_looks_are_two_tasks_and_a_timeline_and_an_alarm_is_an_event(here, study, events):  # noqa: F811
    first = watch_privately(study, "monday")
    found = flow_runs("watch privately")[0]
    names = sorted(task.name.rsplit("-", 1)[0] for task in task_runs(found))
    assert names == ["look", "prepare look", "show the looks"]
    left = PrivacyLedger(Stores().ledger).accounts("clinic")[0].left
    assert found.name == f"clinic · 1 · look monday: holds, ε 20 ({left:.3g} left)"
    assert found.state.message == "look monday: holds, number 1"
    assert (first.look.alarm, first.warnings, events) == (False, (), [])
    spoil()
    second = watch_privately(study, "tuesday")
    assert (second.look.alarm, second.warnings) == (True, ())
    (event,) = events
    assert event["event"] == "dpbo.watch.alarm"
    assert event["resource"]["prefect.resource.id"] == "dpbo.study.clinic"
    payload = {"dataset": "clinic", "edition": "1", "look": "tuesday", "looks": 2, "drop": 0.2, "epsilon": 20.0}
    assert event["payload"] == payload
    assert second.tracked == first.tracked
    shown = client().get_run(second.tracked.run_id)
    assert shown.info.status == "FINISHED"
    assert shown.info.run_name.startswith("ALARM since 20")
    assert shown.data.tags["dpbo.watch"].startswith("ALARM since 20")
    assert set(shown.data.metrics) == {"watch/alarm"}
    points = client().get_metric_history(second.tracked.run_id, "watch/alarm")
    assert [(point.step, point.value) for point in points] == [(1, 0.0), (2, 1.0)]
    series = shown.data.tags["mlflow.parentRunId"]
    after = balances(*PrivacyLedger(Stores().ledger).accounts("clinic"))
    (balance,) = [item for item in after if item.position == 2]
    charted = [(point.step, point.value) for point in client().get_metric_history(series, "budget/spent")]
    assert (2, balance.spent) in charted  # what the watch cost, in its study's chart of the budget
    params = ("study", "edition", "method", "drop", "epsilon", "delta", "least_records", "reference")
    assert set(shown.data.params) == set(params)
    assert (shown.data.tags["dpbo.kind"], shown.data.tags["dpbo.study"]) == ("watch", "clinic")
    kept = next(Path("mlruns/artifacts").glob(f"*/{second.tracked.run_id}/artifacts/release.json"))
    assert json.loads(kept.read_text()) == second.look.release.to_json()
    again = watch_privately(study, "tuesday")
    assert (again.look, again.tracked) == (replace(second.look, replayed=True), second.tracked)
    assert len(client().get_metric_history(second.tracked.run_id, "watch/alarm")) == 2
    assert entries() == [("clinic", "1", 1.0), ("clinic/watch", "1", 20.0)]


def test_a_timeline_that_could_not_be_shown_is_shown_by_the_next_look(here, study, monkeypatch):  # noqa: F811
    with monkeypatch.context() as broken:
        broken.setattr("dpbo.features.watch.flow.log_looks", lambda *_: 1 / 0)
        broken.setattr("dpbo.tasks.policies.PUBLISHING_TASK_OPTIONS", {"retries": 0})
        broken.setattr("dpbo.features.watch.flow.publish_looks.retries", 0)
        first = watch_privately(study, "monday")
    assert first.tracked is None
    assert "the look is recorded, but MLflow does not show it" in first.warnings[0]
    second = watch_privately(study, "tuesday")
    points = client().get_metric_history(second.tracked.run_id, "watch/alarm")
    assert [(point.step, point.value) for point in points] == [(1, 0.0), (2, 0.0)]


# On a schedule


def look_at(moment, monkeypatch, **more):
    """One run in this process: its final state."""
    for place in (serve, schedule_flow):
        monkeypatch.setattr(place, "fired_at", lambda: moment)
    return watch_on_schedule("study.toml", **more, return_state=True)


def test_a_run_is_the_look_of_its_slot_and_a_retry_is_the_same(here, study, events, monkeypatch):  # noqa: F811
    first = look_at(NOON, monkeypatch)
    assert (first.name, first.message) == ("Completed", "look 2026-11-21T12:00:05Z: holds, number 1")
    assert look_at(NOON, monkeypatch).message == f"{first.message} (recorded before)"
    spoil()
    alarm = look_at(NOON + timedelta(days=1), monkeypatch)
    assert alarm.message == "look 2026-11-22T12:00:05Z: ALARM, number 2"
    over = look_at(NOON + timedelta(days=2), monkeypatch)
    assert (over.name, over.type.value) == (ALARM_STATE, "CANCELLED")
    refused = look_at(NOON, monkeypatch, wanted={"drop": 0.2, "epsilon": 200.0, "edition": "2"})
    assert (refused.name, refused.type.value) == (run_end.BUDGET, "CANCELLED")
    with pytest.raises(StudyInvalid, match="unknown key"):
        look_at(NOON, monkeypatch, wanted={"drops": 0.2}).result()


def test_a_missed_look_is_skipped_and_leaves_no_trace(here, study, monkeypatch):  # noqa: F811
    monkeypatch.setattr(schedule_flow, "overtaken", lambda _: True)
    assert look_at(NOON, monkeypatch).name == serve.MISSED_STATE
    assert entries() == [("clinic", "1", 1.0)]


def test_a_scheduled_look_may_ask_for_what_its_owner_allowed(here, study, monkeypatch):  # noqa: F811
    """Run by Prefect, not at its owner's terminal: another file than before is refused, whoever names it."""
    monkeypatch.setattr("dpbo.flows.private_flow.caller", lambda _: Caller.OPERATOR)
    monkeypatch.setattr("dpbo.flows.private_flow.refuse_job_variables", lambda: None)
    assert look_at(NOON, monkeypatch).is_completed()
    (here / "2026-11-22.csv").write_bytes((here / "validation.csv").read_bytes())
    elsewhere = {"drop": 0.2, "epsilon": 20.0, "table": "{date}.csv"}
    state = look_at(NOON + timedelta(days=1), monkeypatch, wanted=elsewhere)
    assert (state.name, state.type.value) == (run_end.POLICY, "FAILED")
    assert isinstance(state.result(raise_on_failure=False), PolicyRefused)


# The command


def test_the_command_looks_once_and_says_a_bit(here, study, run):  # noqa: F811
    code, out, err = run("watch", "study.toml", "--once", "--look", "monday")
    assert (code, [line.split(": ")[1].split(" ")[0] for line in err.splitlines()]) == (
        0, ["starting", "preparing", "looking", "the"]
    )  # fmt: skip
    words = " ".join(out.split())
    assert "score holds: no fall is seen" in words
    assert "clinic: ε 21 of 100 spent, 79 left" in words
    spoil()
    code, out, err = run("watch", "study.toml", "--once", "--look", "tuesday", "--json")
    told = json.loads(out)
    assert (code, "dpbo:" in err) == (0, False)
    assert (told["alarm"], told["look"], told["looks"], told["replayed"]) == (True, "tuesday", 2, False)
    assert told["spent"]["epsilon"] == 20.0
    assert told["tracking"]["experiment"] == "clinic"
    code, out, err = run("watch", "study.toml", "--once", "--look", "wednesday")
    assert code == 2
    assert "this watch is over" in err
    code, out, err = run("watch", "study.toml", "--once", "--look", "tuesday")
    assert (code, "dpbo:" in err) == (0, False)
    assert "ALARM" in out
    code, out, err = run("show", "clinic/watch")
    assert (code, err) == (0, "")
    assert "tuesday" in out
    code, out, err = run("watch", "study.toml")
    assert code == 2
    assert "--every, --cron or --once" in err
    kept = Path(next(Path("mlruns/artifacts").glob("*/*/artifacts/release.json")))
    code, out, err = run("verify", kept)
    assert (code, err) == (0, "")
    assert "1 draw costs ε = 20" in out
