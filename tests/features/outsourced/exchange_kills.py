"""Kill either party of an outsourced search at random moments of every command, and run the command again.

Afterwards a search that nobody kills, over the same table and the same recorded answers, must have taken the same
path; each row asked about must have been drawn once; and the budget must have paid the table and the answers once.
"""

import json
import os
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import opendp.measurements  # noqa: F401  the parent has imported everything: a child lives for a moment only
import pyarrow.parquet  # noqa: F401
import sqlalchemy as sa
from audit.kills import CONTEXT, added
from exchanges import PRIVATE, world

from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.accounting.composition import largest_rho


@dataclass(frozen=True)
class Figures:
    """What a campaign counted; all but the first three must be zero."""

    searches: int = 0
    exchanges: int = 0
    kills: int = 0
    other_states: int = 0
    drawn_twice_or_never: int = 0
    overspends: int = 0

    __add__ = added

    @property
    def clean(self) -> bool:
        return self.other_states == self.drawn_twice_or_never == self.overspends == 0


def killed(work: Callable[[], Any], life: float) -> bool:
    """Run `work` in a child and kill it after a random part of `life`; whether it was killed."""
    child = CONTEXT.Process(target=work)
    child.start()
    child.join(random.uniform(0.0, life))
    alive = child.is_alive()
    if alive:
        os.kill(child.pid, signal.SIGKILL)
    child.join()
    return alive


def quietly(work: Callable[[], Any]) -> None:
    """A repeated command may find its work done: the message says so."""
    try:
        work()
    except StudyInvalid as error:
        if "taken in already" not in error.what:
            raise


def until_done(work: Callable[[], Any], life: float) -> int:
    """How often it was killed before it ran to its end."""
    kills = 0
    while killed(lambda: quietly(work), life * 2.0**kills):
        kills += 1
    return kills


def one_search(folder: Path, exchanges: int, life: float, seed: int) -> Figures:
    """One table, one search with private answers, everybody killed; then the undisturbed one."""
    w = world(folder, seed=seed)

    def answer() -> None:
        w.answer(private=PRIVATE, accepts=())

    kills = until_done(w.publish, 5 * life)
    for _ in range(exchanges):
        kills += sum(until_done(command, life) for command in (w.suggest, answer, w.update))
    for _ in range(exchanges):
        w.exchange("undisturbed", private=PRIVATE, accepts=())
    told, calm = (json.loads((folder / state).read_text())["answers"] for state in ("S", "undisturbed"))
    with sa.create_engine(f"sqlite:///{folder / 'ledger.db'}").connect() as connection:
        draws = connection.execute(sa.text("SELECT count(*) FROM draws WHERE what LIKE 'answer of row %'")).scalar()
    (account,) = w.ledger.accounts("people")
    price = largest_rho(3.0, 1e-6) + largest_rho(PRIVATE.epsilon, PRIVATE.delta)
    return Figures(
        1,
        exchanges,
        kills,
        other_states=int(told != calm),
        drawn_twice_or_never=int(draws != len({one["row"] for one in told})),
        overspends=int(account.spent.rho_units != price),
    )


def campaign(folder: Path, *, searches: int, exchanges: int = 20, life: float = 0.05) -> Figures:
    """Several searches, each in a folder of its own."""
    total = Figures()
    for number in range(searches):
        place = folder / str(number)
        place.mkdir()
        total += one_search(place, exchanges, life, number)
    return total
