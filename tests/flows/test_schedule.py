"""A scheduled day, for real: five-second runs, a killed server, the cap; and no secret in any store of it."""

import pytest
import tomli_w
from audit import schedule
from audit.leaks import make_world
from canary import search
from worlds import with_method

from dpbo.flows import run_end
from dpbo.flows.serve import MISSED_STATE
from dpbo_core.ledger.ledger import PrivacyLedger

pytestmark = pytest.mark.slow


def test_a_scheduled_day(tables, tmp_path):
    world = make_world(tables, tmp_path)
    with_method(tables, "private_trajectory")["study"]["name"] = "nightly"
    tables["privacy"] |= {"dataset": "nights", "epsilon": 1.0}
    tables["budget"] |= {"epsilon": 2.4, "delta": 1e-5}
    (world.run / "nightly.toml").write_text(tomli_w.dumps(tables))

    def over(found):
        states = [run.state for run in found]
        return states.count("Completed") >= 5 and states.count(run_end.BUDGET) >= 1

    day = schedule.day(world.run, "nightly.toml", kill_after=2, until=over)
    released, refused = day.named("Completed"), day.named(run_end.BUDGET)
    assert len(released) >= 5
    assert len(day.runs) > day.before_kill + 2  # it went on after its server was killed
    assert {run.kind for run in refused} == {"CANCELLED"}
    assert all("the limit is" in run.message for run in refused)
    (account,) = PrivacyLedger(f"sqlite:///{world.run / 'mlruns' / 'ledger.db'}").accounts("nights")
    finished = [entry.edition for entry in account.entries if entry.released_at]
    assert len(set(finished)) == len(finished) == len(released)
    unfinished = [run for run in day.runs if run.state not in ("Completed", run_end.BUDGET, MISSED_STATE)]
    assert len(account.entries) - len(finished) <= len(unfinished)  # only what the kill cut short
    assert account.budget.admits(account.spent, account.unit, account.filtered)
    assert day.left_running == ()
    assert day.paused  # as it says it does, when it is stopped
    assert b"Traceback" not in b"".join(day.streams)
    for store in ("prefect/prefect.db", "mlruns/mlflow.db", "mlruns/ledger.db"):
        assert (world.run / store).stat().st_size > 0
    assert (world.run / "mlruns" / "prefect-server.log").is_file()  # empty where the server had nothing to warn of
    kinds = {path.name for path in (world.run / "mlruns" / "artifacts").rglob("*") if path.is_file()}
    assert {"release.html", "release.json", "posterior.png", "budget.png", "model.json"} <= kinds
    assert search(world.run, world.secrets, dict(zip(("stdout", "stderr"), day.streams, strict=True))) == set()
