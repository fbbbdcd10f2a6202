"""`dpbo alerts`: what a real server of Prefect's tells a webhook of a budget, a refused run and an alarm."""

import json
import time
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from answering import answering
from prefect import flow
from test_flow import terminal  # noqa: F401  fixtures

from dpbo.flows.cli import alerts as command
from dpbo.flows.prefect_runtime.automations import (
    ALERTS,
    BLOCK,
    notification,
    put_alerts,
    to_block,
    to_webhook,
    webhook_call,
)
from dpbo.flows.tune import tune_privately
from dpbo.flows.watch import _alarm
from dpbo_core.errors import BudgetRefused, StudyInvalid
from dpbo_core.study_file import StudySpec

pytestmark = pytest.mark.usefixtures("prefect_server")
LONGEST = 90.0  # seconds that a busy server may take to tell


@contextmanager
def receiver():
    """A web server on the loopback: its address, and what was sent to it, as objects."""
    got = []
    with answering(lambda method, headers, body: (200, got.append(json.loads(body)) or b"")) as port:
        yield f"http://127.0.0.1:{port}/told", got


def wait_for(got, n):
    end = time.monotonic() + LONGEST
    while len(got) < n and time.monotonic() < end:
        time.sleep(0.1)
    return got


@flow
def alarmed(study, looked):
    _alarm(study, looked)


@pytest.mark.slow
def test_a_webhook_is_told_of_a_budget_a_refusal_and_an_alarm(here, tables):
    from prefect.blocks.notifications import CustomWebhookNotificationBlock

    tables["budget"]["epsilon"] = 1.0
    tables["study"]["name"] = 'a "quoted" {{ study }}'
    with receiver() as (url, got):
        block = to_webhook(url)
        assert put_alerts(block, webhook_call) == tuple(alert.name for alert in ALERTS)
        assert put_alerts(to_webhook(url), webhook_call)  # anew, in the place of the others
        tune_privately(StudySpec.from_dict(tables))
        (budget,) = wait_for(got, 1)
        assert budget["event"] == "dpbo.budget.alert"
        spent = budget["payload"]["spent"]
        assert 0.8 < spent < 1.0
        assert budget["payload"] == {"spent": spent, "limit": 1.0, "remaining": pytest.approx(1.0 - spent)}
        assert budget["text"].startswith("dataset people: epsilon ")
        tables["study"]["edition"] = "2"
        tables["privacy"]["epsilon"] = 0.9
        study = StudySpec.from_dict(tables)
        with pytest.raises(BudgetRefused) as refused:
            tune_privately(study)
        told = wait_for(got, 2)[1]
        assert told["event"] == "dpbo.run.refused"
        assert told["payload"]["says"] == refused.value.message()
        assert told["text"] == f"study {study.name}, edition 2: refused, and nothing was charged"
        terms = SimpleNamespace(drop=0.02, epsilon=1.0)
        alarmed(study, SimpleNamespace(name="monday", number=3, terms=terms))
        told = wait_for(got, 3)[2]
        assert (told["event"], told["payload"]["look"]) == ("dpbo.watch.alarm", "monday")
        assert len(got) == 3
        CustomWebhookNotificationBlock(name="told", url=url, json_data={"mail": "{{body}}"}).save("told")
        put_alerts(to_block("custom-webhook/told"), notification)
        alarmed(study, SimpleNamespace(name="tuesday", number=4, terms=terms))
        assert "look tuesday: its score has fallen by about 0.02" in wait_for(got, 4)[3]["mail"]
    with pytest.raises(StudyInvalid, match="Prefect has no block"):
        to_block("custom-webhook/nobody")


@pytest.mark.slow
def test_what_is_no_address_is_refused_and_what_is_kept_is_a_secret(here):
    for wrong in ("ftp://host/x", "host", "https://host/ x", "https://host/\n"):
        with pytest.raises(StudyInvalid, match="no address"):
            to_webhook(wrong)
    assert "hook-of-mine" not in repr(to_webhook("https://example.invalid/hook-of-mine"))
    from prefect.blocks.webhook import Webhook

    assert "hook-of-mine" not in repr(Webhook.load(BLOCK))


def test_the_command_wants_one_place_and_says_what_it_made(dpbo, here, monkeypatch):
    code, _, err = dpbo("alerts")
    assert (code, "alerts go to one place" in err) == (2, True)
    assert dpbo("alerts", "--webhook", "https://h/", "--block", "a/b")[0] == 2
    monkeypatch.setattr(command, "put", lambda *_, **__: ("one", "two"))
    monkeypatch.setenv("DPBO_ALERT_WEBHOOK", "https://h/")
    code, out, _ = dpbo("alerts")
    assert (code, " ".join(out.split())) == (
        0,
        "Prefect calls the webhook from now on, by the automations 'one', 'two'.",
    )
