"""`dpbo status`: what runs, what ran last, what is left. From the ledger, and from Prefect where it answers."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpbo.flows.cli.budget import account_json, account_line, looks, n_looks
from dpbo.flows.cli.running import ledger_here
from dpbo.flows.cli.terminal import Screen, named, print_result
from dpbo.flows.prefect_runtime.liveness import n_alive
from dpbo.flows.prefect_runtime.loopback import ours_alone
from dpbo.flows.prefect_runtime.prefect_child import address_of
from dpbo.flows.prefect_runtime.server import NAME, credentials, password_in
from dpbo.flows.prefect_runtime.settings import Stores
from dpbo_core.accounting.account import Entry
from dpbo_core.ledger.accounts import DatasetAccount

LINES = 5  # of what ran last, and of what is due next
PATIENCE = 2.0  # seconds for Prefect's answer; without one the ledger's part is shown
PORT = 4200
DUE = {"state": {"type": {"any_": ["RUNNING", "PENDING", "SCHEDULED"]}}}


@dataclass(frozen=True)
class Run:
    """A flow run as Prefect has it: its public name, its state's name, and when it began or is due, UTC."""

    name: str
    state: str
    at: str


@dataclass(frozen=True)
class Status:
    """What `dpbo status` shows.

    Attributes:
        alive: how many runs hold their lock on this machine; more may run on others.
        runs: those that run or are due next, or None where no Prefect server answers.
        last: of the ledger's entries the newest, with their datasets.
        accounts: every dataset's.
    """

    alive: int
    runs: tuple[Run, ...] | None
    last: tuple[tuple[str, Entry], ...]
    accounts: tuple[DatasetAccount, ...]


def status() -> None:
    """Say what runs, what ran last and what is left. Opens no data, changes nothing."""
    standing = look()
    print_result(lambda: status_json(standing), lambda: print_status(standing))


def look() -> Status:
    """The status of this folder: its locks, its ledger, and Prefect's runs if a server answers."""
    ledger = ledger_here()
    accounts = () if ledger is None else ledger.accounts()
    entries = [(account.budget.dataset, entry) for account in accounts for entry in account.entries]
    newest = sorted(entries, key=lambda item: item[1].released_at or item[1].reserved_at, reverse=True)
    return Status(n_alive(Stores().running), _runs(), tuple(newest[:LINES]), accounts)


def _runs() -> tuple[Run, ...] | None:
    """The flow runs that Prefect has running or due; None where no server answers."""
    place = _server()
    if place is None:
        return None
    api, headers = place
    import httpx

    try:
        with httpx.Client(headers=headers, timeout=PATIENCE) as client:
            query = {"flow_runs": DUE, "sort": "EXPECTED_START_TIME_ASC", "limit": LINES}
            answer = client.post(f"{api}/flow_runs/filter", json=query)
            return tuple(_run(item) for item in answer.json()) if answer.status_code == 200 else None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError, AttributeError):
        return None


def _run(item: Mapping[str, Any]) -> Run:
    """A flow run from the JSON of Prefect's API."""
    moment = item.get("start_time") or item.get("expected_start_time") or ""
    return Run(str(item["name"]), str(item["state_name"]), str(moment)[:16].replace("T", " "))


def _server() -> tuple[str, dict[str, str]] | None:
    """The address of Prefect's API, from the environment or this user's own server, and the headers to send."""
    auth, api = os.environ.get("PREFECT_API_AUTH_STRING"), os.environ.get("PREFECT_API_URL")
    home = Path(os.environ.get("PREFECT_HOME", "~/.prefect")).expanduser()
    if api is None:
        if not ours_alone(PORT):
            return None
        api = address_of(PORT)
        if auth is None and (home / NAME).exists():
            auth = password_in(home)[0]
    return api.rstrip("/"), {} if auth is None else credentials(auth)


def status_json(standing: Status) -> dict[str, Any]:
    """The object of `dpbo status --json`; each account under `left` has five keys of `dpbo budget --json`'s."""
    runs = None
    if standing.runs is not None:
        runs = [{"name": run.name, "state": run.state, "at": run.at} for run in standing.runs]
    left = ("name", "public", "limit", "spent", "remaining")
    return {
        "alive_here": standing.alive,
        "prefect": runs,
        "last": [
            {
                "dataset": dataset,
                "study": entry.study,
                "edition": entry.edition,
                "method": entry.method,
                "reserved_at": entry.reserved_at,
                "released_at": entry.released_at,
            }
            for dataset, entry in standing.last
        ],
        "left": [{key: account_json(account)[key] for key in left} for account in standing.accounts],
    }


def print_status(standing: Status) -> None:
    """Print what runs, what ran last and the budgets left."""
    screen = Screen()
    here = f"{standing.alive} on this machine" if standing.alive else "nothing on this machine"
    if standing.runs is None:
        screen.say(f"[bold]Runs[/]: {here}; no Prefect server of yours answers here.")
    else:
        screen.say(f"[bold]Runs[/]: {here}; {'Prefect has' if standing.runs else 'nothing is due in Prefect'}")
        screen.facts([(named(run.name), f"{named(run.state)}, {named(run.at)} UTC") for run in standing.runs])
    if not standing.accounts:
        screen.say("Nothing was charged here yet: dpbo tune --example, or dpbo init for your own two files.")
        return
    screen.say("\n[bold]Ran last[/]")
    rows = []
    for dataset, entry in standing.last:
        what = f"{_time_in_words(entry)}: {named(entry.method)} on {named(dataset)}"
        rows.append((f"{named(entry.study)}:{named(entry.edition)}", what))
    screen.facts(rows)
    screen.say("\n[bold]Left[/]")
    for account in standing.accounts:
        screen.say(f"  {account_line(account)}")
    screen.say("\ndpbo show STUDY:EDITION prints a release; dpbo budget has every entry; dpbo ui the pages.")


def _time_in_words(entry: Entry) -> str:
    """When an entry was released, opened or charged, in words."""
    moment = (entry.released_at or entry.reserved_at)[:16].replace("T", " ")
    if entry.released_at is not None:
        return f"released {moment}"
    if (n := n_looks(entry)) is not None:
        return f"open since {moment}, {looks(n)}"
    return f"charged {moment}, not released (at work, or to be run again)"
