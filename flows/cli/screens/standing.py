"""`dpbo status`: what runs and is due, what ran last, what is left of each budget."""

from typing import TYPE_CHECKING, Any

from dpbo.flows.cli.screens.account_tables import account_json, account_line, looks, n_looks
from dpbo.flows.cli.screens.terminal import Screen, named

if TYPE_CHECKING:
    from dpbo.flows.cli.status import Status
    from dpbo_core.accounting.accounts import Entry


def status_json(found: "Status") -> dict[str, Any]:
    """The object of `dpbo status --json`: what is left of each dataset is that of `dpbo budget --json`."""
    runs = None
    if found.runs is not None:
        runs = [{"name": run.name, "state": run.state, "at": run.at} for run in found.runs]
    left = ("name", "public", "limit", "spent", "remaining")
    return {
        "alive_here": found.alive,
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
            for dataset, entry in found.last
        ],
        "left": [{key: account_json(account)[key] for key in left} for account in found.accounts],
    }


def print_status(found: "Status") -> None:
    """Three parts; each says in a line where nothing is known."""
    screen = Screen()
    here = f"{found.alive} on this machine" if found.alive else "nothing on this machine"
    if found.runs is None:
        screen.say(f"[bold]Runs[/]: {here}; no Prefect server of yours answers here.")
    else:
        screen.say(f"[bold]Runs[/]: {here}; {'Prefect has' if found.runs else 'nothing is due in Prefect'}")
        screen.facts([(named(run.name), f"{named(run.state)}, {named(run.at)} UTC") for run in found.runs])
    if not found.accounts:
        screen.say("Nothing was charged here yet: dpbo tune --example, or dpbo init for your own two files.")
        return
    screen.say("\n[bold]Ran last[/]")
    rows = []
    for dataset, entry in found.last:
        what = f"{_when(entry)}: {named(entry.method)} on {named(dataset)}"
        rows.append((f"{named(entry.study)}:{named(entry.edition)}", what))
    screen.facts(rows)
    screen.say("\n[bold]Left[/]")
    for account in found.accounts:
        screen.say(f"  {account_line(account)}")
    screen.say("\ndpbo show STUDY:EDITION prints a release; dpbo budget has every entry; dpbo ui the pages.")


def _when(entry: "Entry") -> str:
    moment = (entry.released_at or entry.reserved_at)[:16].replace("T", " ")
    if entry.released_at is not None:
        return f"released {moment}"
    if (n := n_looks(entry)) is not None:
        return f"open since {moment}, {looks(n)}"
    return f"charged {moment}, not released (at work, or to be run again)"
