"""What is said when a command is stopped: what was charged, and what to type next."""

import sys
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dpbo_core.errors import DpboError

if TYPE_CHECKING:
    from dpbo_core.ledger.accounting.account import Entry

CODE = 130  # of a process that an interrupt ended
AGAIN = "run the same command again"


def stopped(words: Sequence[str]) -> DpboError:
    """The error of an interrupted command: what the ledger charged its study, and whether it released.

    Args:
        words: of the command.
    """
    error = DpboError("stopped", remedy=f"{AGAIN}; it continues, and nothing is paid twice")
    with suppress(Exception, KeyboardInterrupt):  # whatever cannot be looked up is not said
        error = _study_stopped(next(Path(word) for word in words if word.endswith(".toml")))
    error.exit_code = CODE
    return error


def _study_stopped(path: Path) -> DpboError:
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    name, edition = tables["study"]["name"], tables["study"].get("edition", "1")
    entries = _entries(tables["privacy"]["dataset"], name, edition)
    if not entries:
        return DpboError(f"stopped; nothing was charged for {name!r}", remedy=f"{AGAIN} whenever you like")
    unfinished = [entry for entry in entries if entry.released_at is None]
    if unfinished:
        paid = ", ".join(f"{entry.study} (ε = {entry.epsilon:g})" for entry in unfinished)
        return DpboError(
            f"stopped; charged and not released yet: {paid}",
            remedy=f"{AGAIN}: it continues, and pays nothing twice",
        )
    return DpboError(
        f"stopped; what {name!r} was charged for is released",
        remedy=f"dpbo show {path} prints it; {AGAIN} to publish what is not shown yet, at no price",
    )


def _entries(dataset: str, name: str, edition: str) -> "list[Entry]":
    if "dpbo.flows.cli.running" not in sys.modules:  # no library is loaded to say that nothing began
        return []
    from dpbo.flows.cli.running import accounts_here

    return [
        entry
        for account in accounts_here(dataset)
        for entry in account.entries
        if entry.study.partition("/")[0] == name and entry.edition.partition(".")[0] == edition.partition(".")[0]
    ]
