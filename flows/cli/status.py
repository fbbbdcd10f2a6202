"""`dpbo budget status`: what runs here, what ran last and what is left, from locks and the ledger."""

from typing import Any

from dpbo.flows.cli.budget import account_json, budget_app, looks, n_looks
from dpbo.flows.cli.running import accounts_here
from dpbo.flows.cli.terminal import Screen, named, print_json
from dpbo.flows.cli.words import AsJson
from dpbo.flows.prefect_runtime.liveness import n_alive
from dpbo.flows.stores import Stores
from dpbo.tasks.reporting.budget_alert import account_line
from dpbo_core.ledger.accounting.account import Entry
from dpbo_core.ledger.accounts import DatasetAccount

LINES = 5  # of what ran last


@budget_app.command()
def status(json: AsJson = False) -> None:
    """Say what runs, what ran last and what is left. Opens no data, changes nothing."""
    alive, accounts = n_alive(Stores().running), accounts_here()
    print_json(status_json(alive, accounts)) if json else print_status(alive, accounts)


def newest(accounts: tuple[DatasetAccount, ...]) -> list[tuple[str, Entry]]:
    """The newest five entries of these accounts, by release or charge, newest first, each with its dataset."""
    entries = [(account.budget.dataset, entry) for account in accounts for entry in account.entries]
    return sorted(entries, key=lambda item: item[1].released_at or item[1].reserved_at, reverse=True)[:LINES]


def status_json(alive: int, accounts: tuple[DatasetAccount, ...]) -> dict[str, Any]:
    """The object of `dpbo budget status --json`; each account under `left` is shortened."""
    left = ("name", "public", "limit", "spent", "remaining")
    return {
        "alive_here": alive,
        "last": [
            {
                "dataset": dataset,
                "study": entry.study,
                "edition": entry.edition,
                "method": entry.method,
                "reserved_at": entry.reserved_at,
                "released_at": entry.released_at,
            }
            for dataset, entry in newest(accounts)
        ],
        "left": [{key: account_json(account)[key] for key in left} for account in accounts],
    }


def print_status(alive: int, accounts: tuple[DatasetAccount, ...]) -> None:
    """Print how many runs are alive here, what ran last and the budgets left."""
    screen = Screen()
    here = f"{alive} on this machine" if alive else "nothing on this machine"
    screen.say(f"[bold]Runs[/]: {here}; Prefect's page shows those of other machines, and what is due.")
    if not accounts:
        screen.say("Nothing was charged here yet: dpbo tune --example, or dpbo init for your own two files.")
        return
    screen.say("\n[bold]Ran last[/]")
    rows = []
    for dataset, entry in newest(accounts):
        what = f"{_time_in_words(entry)}: {named(entry.method)} on {named(dataset)}"
        rows.append((f"{named(entry.study)}:{named(entry.edition)}", what))
    screen.facts(rows)
    screen.say("\n[bold]Left[/]")
    for account in accounts:
        screen.say(f"  {named(account_line(account))}")
    screen.say("\ndpbo show STUDY:EDITION prints a release; dpbo budget has every entry; dpbo ui the pages.")


def _time_in_words(entry: Entry) -> str:
    moment = (entry.released_at or entry.reserved_at)[:16].replace("T", " ")
    if entry.released_at is not None:
        return f"released {moment}"
    if (n := n_looks(entry)) is not None:
        return f"open since {moment}, {looks(n)}"
    return f"charged {moment}, not released (at work, or to be run again)"
