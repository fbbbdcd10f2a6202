"""Runs of the nightly deployment: started by an operator, after each part was killed, and on a restored ledger."""

import os
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

from deployment.machine import CHECKOUT
from deployment.people import mlflow, prefect, rows, shell, until
from deployment.told import check, follow

UNITS = ("dpbo-postgresql", "dpbo-prefect", "dpbo-mlflow", "dpbo-worker")
OPERATE = "runuser -u dpbo-operator -- sudo -n -u dpbo-prefect /usr/local/bin/dpbo-operate"
ENDED = "'COMPLETED','FAILED','CRASHED','CANCELLED'"
ONE_RUN = "/api/2.0/mlflow/experiments/search?max_results=1"


def half_a_day_away():
    """Move the schedule's hour in the checkout: no run but those that are asked for begins during the trial."""
    page = CHECKOUT / "examples" / "deployment" / "prefect.yaml"
    written, later = page.read_text(), datetime.now(UTC) + timedelta(hours=12)
    moved = written.replace('cron: "0 2 * * *"', f'cron: "0 {later.hour} * * *"')
    check("the schedule's hour is half a day away", moved != written or later.hour == 2, written)
    page.write_text(moved)


def entries():
    """How many studies the ledger was charged."""
    return int(rows("dpbo", "SELECT count(*) FROM reservations")[0])


def runs():
    """The states of Prefect's runs that have ended, oldest first."""
    where = f"state_type IN ({ENDED}) AND deployment_id IS NOT NULL"
    return rows("dpbo_prefect", f"SELECT state_name FROM flow_run WHERE {where} ORDER BY created")


def operator_runs(what, state="Completed", charged=1):
    """A nightly run that an operator starts: it ends so, and the ledger is charged so."""
    before, paid = len(runs()), entries()
    shell(f"{OPERATE} run")
    ended = until(lambda: len(runs()) > before)
    seen = runs()[before:], entries() - paid
    check(what, ended and seen == ([state], charged), seen)


def answers(unit):
    """Whether the part does what it is there for."""
    if unit == "dpbo-postgresql":
        return rows("dpbo", "SELECT 1") == ["1"]
    if unit == "dpbo-prefect":
        return prefect("/flow_runs/filter", {}, "curator") == 200
    return unit == "dpbo-worker" or mlflow(ONE_RUN, known="viewer").status_code == 200


def parts_restart():
    """Each part's processes are killed; it comes back by itself, and the next run is charged once."""
    for unit in UNITS:
        place = Path(f"/run/units/{unit}.main")
        before = place.read_text()
        os.killpg(int(before), signal.SIGKILL)
        back = until(lambda at=place, was=before, part=unit: at.read_text() != was and answers(part))
        check(f"{unit} was killed, and answers again", back)
        operator_runs(f"a run after {unit} came back ends well, and is charged once")
    for unit in UNITS[1:]:
        shell(f"systemctl restart {unit}")
        check(f"{unit} restarts", until(lambda part=unit: answers(part)))


def restores(restore):
    """A dump that is older than what was spent: nothing runs on it, and no budget comes of it."""
    operator_runs("a run after the backup")
    total = entries()
    shell("dpbo-as curator dpbo budget export --out backup/newest.jsonl")
    follow(restore)
    said = shell("dpbo-as curator dpbo budget", code=1)
    check("the older copy is refused: nobody reads it or spends on it", "older than it was" in said, said)
    shell("systemctl start dpbo-worker")
    operator_runs("a nightly run on it fails, and is charged nothing", "Failed", 0)
    shell("dpbo-as curator dpbo budget verify backup/newest.jsonl --accept-restored")
    check("the newest export completes it", entries() == total, (entries(), total))
    operator_runs("the next nightly run ends well")
    seen = shell("dpbo-as operator dpbo budget")
    check("an operator reads the restored ledger", "breast-cancer" in seen, seen)


def recovers(restore):
    """An old copy that was accepted and used: what the lost one had spent is charged too."""
    total = entries()
    shell("dpbo-as curator dpbo budget export --out backup/newest.jsonl")
    shell("runuser -u postgres -- psql -q -h /run/dpbo-postgresql -c 'DROP DATABASE dpbo_lost'")
    for line in restore:
        shell(line)
    shell("dpbo-as curator dpbo budget verify backup/history.jsonl --accept-restored")
    shell("systemctl start dpbo-worker")
    operator_runs("an old copy was accepted, and used")
    shell("dpbo-as curator dpbo budget recover backup/newest.jsonl")
    check("what the lost copy had spent is charged beside it", entries() == total + 1, (entries(), total))
    check("the ledger is whole", "whole" in (said := shell("dpbo-as curator dpbo doctor", code=None)), said)
