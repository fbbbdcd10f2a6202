"""Both parties of an outsourced search as Prefect flows."""

import multiprocessing
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from canary import forms_of_number, search
from exchanges import PRIVATE, world
from prefect.settings import get_current_settings
from test_flow import flow_runs, logs, task_runs

from dpbo.features.outsourced import flow as outsource
from dpbo.features.outsourced.box import REPLACE, Outsourced
from dpbo.features.outsourced.curator import Publication
from dpbo.flows.private_flow import owners_terminal
from dpbo_core.errors import BudgetRefused, DpboError

pytestmark = pytest.mark.usefixtures("prefect_server")


def in_threads(terms):
    """Both parties at once, each as in the process that is its own."""
    server = get_current_settings().api.url
    Path(terms.meeting).mkdir()
    with ThreadPoolExecutor(2) as threads:
        parties = [threads.submit(outsource._run, name, terms, server) for name in ("curate", "model")]
        for party in parties:
            party.result()
    return outsource.progress_text(terms.file(outsource.STATE_FILE))


IN_PROCESSES = pytest.param(outsource.outsource, marks=pytest.mark.slow)


@pytest.mark.parametrize("both", [in_threads, IN_PROCESSES], ids=lambda both: both.__name__)
def test_an_outsourced_search_is_two_flows(here, both, monkeypatch):
    """Private answers, two steps; each party's tasks are its own, and Prefect keeps nothing of the rows.

    The slow form starts an interpreter for each; that `outsource` does so and waits for both is the next test.
    """
    monkeypatch.setattr(outsource, "FILE_TIMEOUT_S", 300.0)  # where one fails, the other need not wait an hour
    (here / "mlruns").mkdir()
    world(here)
    feature, answer = 73914.285714285714, -48211.987654321
    for name, row in (("X.csv", f"{feature!r},0.1,0.2"), ("Y.csv", repr(answer))):
        lines = (here / name).read_text().splitlines()
        (here / name).write_text("\n".join([*lines[:5], row, *lines[6:]]) + "\n")
    (here / "ledger.db").rename(here / "mlruns" / "ledger.db")
    (here / "ledger.db.generation").rename(here / "mlruns" / "ledger.db.generation")
    publication = Publication(Outsourced(3.0, 1e-6, relation=REPLACE, norm_bound=4.0), "people")
    terms = outsource.Outsourcing(publication, "X.csv", "Y.csv", "meeting", 2, PRIVATE)
    found = both(terms)
    assert found.steps == 2
    parties = {name: flow_runs(name)[0] for name in ("curate", "model")}
    for name, tasks in (("curate", ["answer query"] * 2 + ["publish table"]), ("model", ["suggest row"] * 2)):
        run = parties[name]
        named = sorted(task.name.rsplit("-", 1)[0] for task in task_runs(run))
        assert [task for task in named if task != "take answer"] == tasks
        assert run.state.is_completed()
        outcome = {"curate": "2 answers, ε 3 (", "model": "2 rows asked"}[name]
        assert run.name.startswith(f"people · 1 · {name}: {outcome}")
        assert run.state.message.startswith(outcome)
    runs = list(parties.values())
    kept = [item.model_dump_json() for item in [*runs, *task_runs(*runs)]] + logs(*runs)
    assert len(kept) >= 9
    for name in ("X.csv", "Y.csv"):
        (here / name).unlink()
    (key,) = (path.read_bytes() for path in here.glob("mlruns/curator/*/key"))
    next(here.glob("mlruns/curator/*/key")).unlink()
    secrets = {"feature": forms_of_number(feature), "answer": forms_of_number(answer), "key": {key}}
    assert search(here, secrets, {"Prefect": "\n".join(kept).encode()}) == set()


def test_a_refused_table_ends_as_a_refused_tune_does(here):
    (here / "mlruns").mkdir()
    world(here)
    for name in ("ledger.db", "ledger.db.generation"):
        (here / name).rename(here / "mlruns" / name)
    publication = Publication(Outsourced(300.0, 1e-6, relation=REPLACE, norm_bound=4.0), "people")
    with owners_terminal(), pytest.raises(BudgetRefused):
        outsource.curate(outsource.Outsourcing(publication, "X.csv", "Y.csv", "meeting", 1, PRIVATE))
    run = flow_runs("curate")[0]
    assert (run.state.name, run.state.type.value) == ("Refused: budget", "CANCELLED")
    assert run.name == "people · 1 · curate: refused by the budget"


def test_a_party_that_stops_ends_the_others_process(here, monkeypatch):
    """What waits for the two; with flows of their own it is the slow test above."""

    def party(name, *_):
        if name == "curate":
            os._exit(3)
        time.sleep(600)

    def forked(kind, get=multiprocessing.get_context):
        assert kind == "spawn"  # nothing of one party's memory in the other's; here nothing is imported anew
        return get("fork")

    monkeypatch.setattr(outsource.multiprocessing, "get_context", forked)
    monkeypatch.setattr(outsource, "_run", party)
    handler = signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a fork would have the one that a command left here
    try:
        with pytest.raises(DpboError, match="'curate' stopped"):
            outsource.outsource(outsource.Outsourcing(None, "X.csv", "Y.csv", "meeting", 3))
    finally:
        signal.signal(signal.SIGTERM, handler)
    assert "model" not in [child.name for child in multiprocessing.active_children()]
