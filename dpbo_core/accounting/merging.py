"""What was spent on this machine before its team had one ledger, charged to the team's: `dpbo budget merge`.

Two ledgers are two budgets for the same people. A ledger that a setting names (the team's) therefore refuses a
dataset on which ./mlruns/ledger.db has spends that it does not know, until they are added to it as charges. They
are added as a lost entry is recovered: by its hash, once, with its draws and its release; the smaller cap holds.
"""

import json
import os
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

import sqlalchemy as sa

from dpbo_core.accounting import audit
from dpbo_core.accounting.address import LEDGER_SETTING, STATE
from dpbo_core.accounting.approvals import account_named, names_of
from dpbo_core.accounting.facts import MARK, MEMBER, RECOVERED, SOURCE, facts_about
from dpbo_core.accounting.history import Link, links
from dpbo_core.accounting.legible import legible
from dpbo_core.accounting.recovery import Recovered, add
from dpbo_core.accounting.store import LedgerStore
from dpbo_core.accounting.tables import DATASET_FACTS, DATASETS, RESERVATIONS
from dpbo_core.errors import PolicyRefused, StudyInvalid


def local_ledger(url: str) -> str | None:
    """URL of the current folder's ledger where it is another one than the team's at `url`; None if there is none.

    A SQLite ledger is a team's if DPBO_LEDGER_URL names it; one that a program names is that program's business.
    """
    place = STATE.resolve() / "ledger.db"
    address = sa.engine.make_url(url)
    if address.get_backend_name() == "sqlite":
        named = os.environ.get(LEDGER_SETTING) == url and address.database
        if not named or Path(str(address.database)).resolve() == place:
            return None
    return f"sqlite:///{place}" if place.is_file() else None


def spends_on(url: str, names: Collection[str]) -> frozenset[str]:
    """The hashes of a ledger's charges to whatever pays for studies of these names."""
    with LedgerStore(url).reading() as connection, legible():
        datasets = {*names, *(account_named(connection, name) for name in names)}
        return frozenset(
            link.hash
            for link in links(connection)
            if link.about == RESERVATIONS.name and json.loads(link.row)["dataset"] in datasets
        )


def check_merged(connection: sa.Connection, url: str, *, dataset: str, account: str) -> None:
    """The team's ledger knows every spend of the local one on this name, and on all that one cap pays for.

    Args:
        connection: to the team's ledger.
        url: the team's.
        dataset: the study's.
        account: whose cap pays for it.

    Raises:
        PolicyRefused: it does not.
        LedgerDamaged: the local ledger is older than it was.
    """
    local = local_ledger(url)
    if local is None:
        return
    names = {dataset, account, *facts_about(connection, account, MEMBER)}
    missing = spends_on(local, names) - facts_about(connection, account, RECOVERED).keys()
    if missing:
        raise PolicyRefused(
            f"dataset {dataset!r} has {len(missing)} spends in ./mlruns/ledger.db that the team's ledger does "
            "not know",
            cause="it was used here before the team had one ledger, and the same people would get a second budget",
            remedy="run dpbo budget merge, which charges them to the team's ledger",
        )


def merge(url: str) -> Recovered:
    """Charge to the team's ledger everything that was spent in the current folder's; what was added.

    Raises:
        StudyInvalid: there is one ledger only.
        LedgerDamaged: the local ledger is not whole; nothing was added.
    """
    local = local_ledger(url)
    if local is None:
        raise StudyInvalid(
            "there is nothing to merge: one ledger is used here",
            cause="no team's ledger is set, or ./mlruns/ledger.db is not in this folder",
            remedy="set DPBO_DATABASE_URL or DPBO_LEDGER_URL, and run it where the studies ran",
        )
    audit.verify(local)
    with LedgerStore(local).reading() as connection, legible():
        history = tuple(links(connection))
    with LedgerStore(url).reading() as connection, legible():
        ours = tuple(_as_ours(connection, history))
    return add(url, ours, what="merges")


def _as_ours(connection: sa.Connection, history: tuple[Link, ...]) -> Iterator[Link]:
    """The local entries that are added, each to the account that pays for its name here.

    Not its sources: the next study at the owner's terminal records them, under the rules that hold here; nor a
    member of a local group whose name is known here.
    """
    known = names_of(connection)
    for link in history:
        row = json.loads(link.row)
        if link.about == DATASETS.name:
            if account_named(connection, row["name"]) != row["name"]:
                continue
        elif link.about in (RESERVATIONS.name, DATASET_FACTS.name):
            taken = row.get("about") == MEMBER and row["item"] in known
            if taken or row.get("about") in (SOURCE, MARK):
                continue
            row["dataset"] = account_named(connection, row["dataset"])
        yield replace(link, row=json.dumps(row))
