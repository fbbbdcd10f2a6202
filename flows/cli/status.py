"""`dpbo status`: what runs, what ran last, what is left. From the ledger, and from Prefect where it answers."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpbo.flows.cli.words import AsJson, Debug

if TYPE_CHECKING:
    from dpbo_core.accounting.accounts import Account, Entry

SHOWN = 5  # of what ran last, and of what is due next
PATIENCE = 2.0  # seconds for Prefect's answer; without one the ledger's part is shown
PORT = 4200


@dataclass(frozen=True)
class Run:
    """A flow run as Prefect has it: its public name, its state's name, and when it began or is due, UTC."""

    name: str
    state: str
    at: str


@dataclass(frozen=True)
class Status:
    """What `dpbo status` knows.

    Attributes:
        alive: how many runs hold their lock on this machine; more may run on others.
        runs: those that run or are due next, or None where no Prefect server answers.
        last: of the ledger's entries the newest, with their datasets.
        accounts: every dataset's.
    """

    alive: int
    runs: tuple[Run, ...] | None
    last: "tuple[tuple[str, Entry], ...]"
    accounts: "tuple[Account, ...]"


def status(
    json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Say what runs, what ran last and what is left. Opens no data, changes nothing."""
    from dpbo.flows.cli.screens.standing import print_status, status_json
    from dpbo.flows.cli.screens.terminal import print_json

    found = look()
    print_json(status_json(found)) if json else print_status(found)


def look() -> Status:
    """Ask this folder's locks, the ledger if there is one, and Prefect if it answers."""
    from dpbo.flows.cli.show import is_there
    from dpbo.flows.prefect_runtime.liveness import n_alive
    from dpbo.flows.prefect_runtime.settings import Stores

    stores = Stores()
    accounts: tuple[Account, ...] = ()
    if is_there(stores.ledger):
        from dpbo_core.accounting.ledger import PrivacyLedger

        accounts = PrivacyLedger(stores.ledger).accounts()
    entries = [(account.budget.dataset, entry) for account in accounts for entry in account.entries]
    newest = sorted(entries, key=lambda item: item[1].released_at or item[1].reserved_at, reverse=True)
    return Status(n_alive(stores.running), _runs(), tuple(newest[:SHOWN]), accounts)


def _runs() -> tuple[Run, ...] | None:
    place = _server()
    if place is None:
        return None
    api, headers = place
    import httpx

    wanted = {"state": {"type": {"any_": ["RUNNING", "PENDING", "SCHEDULED"]}}}
    try:
        with httpx.Client(headers=headers, timeout=PATIENCE) as client:
            asked = {"flow_runs": wanted, "sort": "EXPECTED_START_TIME_ASC", "limit": SHOWN}
            found = client.post(f"{api}/flow_runs/filter", json=asked)
            return tuple(_run(item) for item in found.json()) if found.status_code == 200 else None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError, AttributeError):
        return None


def _run(item: Mapping[str, Any]) -> Run:
    moment = item.get("start_time") or item.get("expected_start_time") or ""
    return Run(str(item["name"]), str(item["state_name"]), str(moment)[:16].replace("T", " "))


def _server() -> tuple[str, dict[str, str]] | None:
    """The API that the environment names, or that of this user's own server here; and what it is to be told."""
    from dpbo.flows.prefect_runtime.loopback import ours_alone
    from dpbo.flows.prefect_runtime.prefect_child import address_of
    from dpbo.flows.prefect_runtime.server import NAME, credentials, password_in

    auth, api = os.environ.get("PREFECT_API_AUTH_STRING"), os.environ.get("PREFECT_API_URL")
    home = Path(os.environ.get("PREFECT_HOME", "~/.prefect")).expanduser()
    if api is None:
        if not ours_alone(PORT):
            return None
        api = address_of(PORT)
        if auth is None and (home / NAME).exists():
            auth = password_in(home)[0]
    return api.rstrip("/"), {} if auth is None else credentials(auth)
