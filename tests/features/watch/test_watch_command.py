"""What `dpbo watch` does without Prefect: what it says before anything is spent, and the schedule it serves."""

import json
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import tomli_w
from test_evaluate_flow import run  # noqa: F401  a fixture
from test_evaluation import files, of_files

from dpbo.features.watch import flow as watching
from dpbo.features.watch.looks import look_once, open_look
from dpbo.flows.cli.budget import print_accounts
from dpbo.flows.stores import Stores
from dpbo.flows.terminal import SCREEN_WIDTH
from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.study import StudySpec
from dpbo_core.study.tuning import run_study


@pytest.fixture
def study(here):
    """A study with a watch that no noise will ever disturb, tuned in the folder's own ledger."""
    files(here)
    tables = of_files(budget={"epsilon": 100.0}, method={"score_share": 0.9}, watch={"drop": 0.2, "epsilon": 20.0})
    del tables["evaluation"]
    (here / "study.toml").write_text(tomli_w.dumps(tables))
    Stores().make_folder()
    spec = StudySpec.from_dict(tables)
    run_study(spec, ledger=PrivacyLedger(Stores().ledger))
    return spec


def entries():
    (account,) = PrivacyLedger(Stores().ledger).accounts("clinic")
    return [(entry.study, entry.edition, entry.epsilon) for entry in account.entries]


def test_the_command_says_what_to_expect_without_paying(here, study, run):  # noqa: F811
    code, out, err = run("watch", "study.toml", "--plan", "--drop", "0.02", "--epsilon", "1")
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= SCREEN_WIDTH
    words = " ".join(out.split())
    assert "Nothing was charged" in words
    assert "verdict useless: at 300 records a fall of 0.02 drowns" in words
    Path("asks.toml").write_text(Path("study.toml").read_text().replace("anyway = true\n", ""))
    code, out, err = run("watch", "asks.toml", "--once", "--drop", "0.02", "--epsilon", "1")
    assert (code, out, err.count("\n")) == (3, "", 1)  # before a server starts or a line says that it looks
    assert "at 300 records a fall of 0.02 drowns" in err
    code, out, err = run("watch", "study.toml", "--plan", "--json")
    told = json.loads(out)
    assert (code, err) == (0, "")
    assert set(told) == {
        "verdict", "seen", "false_alarms_a_year", "smallest_drop", "threshold", "records",
        "spread", "sampling", "noise", "terms", "guarantee", "open", "compared", "advised_pool",
    }  # fmt: skip
    assert (told["records"], told["open"], len(told["seen"])) == (300, False, 5)
    assert 0.2 < told["spread"] < 0.5
    assert told["terms"]["drop"] == 0.2
    assert [*told["compared"]] == ["1", "7", "30"]
    assert str(told["advised_pool"]) in told["compared"]
    assert "pool 7" in words
    assert "rows_in_one_table" in words
    assert entries() == [("clinic", "1", 1.0)]


def test_a_run_waits_for_the_tasks_that_it_began(study, monkeypatch):
    """A look is three tasks; one that is read back is two, and nobody waits for a third that never comes."""
    waited = []
    of_prefect = {
        "prepare_look": lambda study, private_run, vaults, name, section: open_look(
            study, private_run, name=name, section=section, vaults=vaults
        ),
        "look": lambda opened, private_run, vaults: opened.finish(private_run, vaults),
        "publish_looks": lambda *_: None,
        "is_alive": lambda _: nullcontext(),
        "wait_until_recorded": waited.append,
    }
    for name, stands_for in of_prefect.items():
        monkeypatch.setattr(watching, name, stands_for)
    for replayed in (False, True):
        looked = watching.watch(study, "monday", ".", None).look
        assert looked.replayed is replayed
    assert waited == [3, 2]


@pytest.mark.parametrize("how", [{"cron": "0 6 * * *"}, {"every": "1d"}])
def test_a_watch_is_served_in_utc_one_look_at_a_time(study, served, how):
    from dpbo.features.watch import command

    words = {"drop": 0.1, "port": 1}
    command.watch(Path("study.toml"), **words | how)
    ((deployment, options),) = served
    (schedule,) = [item.schedule for item in deployment.schedules]
    assert options["limit"] == 1
    assert deployment.name == "watch-clinic"
    assert deployment.parameters["wanted"] == {"drop": 0.1, "epsilon": 20.0, "edition": "1"}
    assert getattr(schedule, "interval", None) == (timedelta(days=1) if "every" in how else None)
    for wrong in ({}, {"cron": "0 6 * * *", "every": "1d"}):
        with pytest.raises(StudyInvalid, match="when it looks"):
            command.watch(Path("study.toml"), **words | wrong)


def test_a_watch_that_goes_on_is_open_and_not_unfinished(here, study, run, monkeypatch, capsys):  # noqa: F811
    """On every screen that lists what was charged; of a study that was stopped it says what to do."""
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    ledger = PrivacyLedger(Stores().ledger)
    for name in ("monday", "tuesday"):
        assert not look_once(study, ledger=ledger, vaults=Stores().vaults, name=name).alarm
    assert "open, 2 looks" in run("budget")[1]
    assert "not finished" not in run("budget")[1]
    assert [entry.get("looks") for entry in json.loads(run("budget", "--json")[1])["datasets"][0]["entries"]] == [
        None,
        2,
    ]
    assert "clinic/watch:1  open since 20" in (status := run("budget", "status")[1])
    assert "run again" not in status
    assert "not finished" not in run("doctor")[1]
    (account,) = ledger.accounts("clinic")
    stopped = replace(account, entries=(replace(account.entries[0], released_at=None),))
    print_accounts((stopped,))
    told = " ".join(capsys.readouterr().out.split())
    assert "not finished clinic:1 was charged on 20" in told
    assert "run it again" in told
