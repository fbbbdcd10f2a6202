"""What an old copy lost, added to the ledger that went on from it: `dpbo budget recover FILE`.

An old copy is accepted, studies are charged to it, and only then is the export found: now there are two histories
that began as one. What the export has and the ledger has not is written again at the ledger's end. It is only ever
added, never taken for something that is there, since every draw was seen by somebody:

| lost entry | what is written |
|---|---|
| a cap | the cap; where the dataset has another one by now, the smaller of the two holds from now on |
| a reservation | a charge; under its own fingerprint if that is free: its study is shown its release again |
| a draw of a reservation that is here | the draw; a charge of its own if the study has drawn it anew since |
| any other draw, a release | with its reservation |

Asked twice it adds nothing: the hash of each entry that was recovered is kept among the dataset's facts.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from dpbo_core.accounting.accounts import cap_of
from dpbo_core.accounting.audit import damaged, unsound_copy
from dpbo_core.accounting.composition import compose
from dpbo_core.accounting.facts import CAP, RECOVERED, facts_about, write_fact
from dpbo_core.accounting.history import Link, broken_links, links
from dpbo_core.accounting.legible import legible
from dpbo_core.accounting.pen import Pen
from dpbo_core.accounting.store import LedgerStore
from dpbo_core.accounting.tables import DATASET_FACTS, DATASETS, DRAWS, RELEASES, RESERVATIONS
from dpbo_core.privacy.plan import Spend

RECOVERY = "recoveries"  # a note in the history alone
Row = Mapping[str, Any]


@dataclass
class Recovered:
    """What was added: charges (reservations and repeated draws), draws, releases, and caps that became smaller."""

    charges: int = 0
    draws: int = 0
    releases: int = 0
    smaller_caps: list[str] = field(default_factory=list)


def recover(url: str, copy: tuple[Link, ...]) -> Recovered:
    """Add what an exported copy of this ledger has and the ledger lacks.

    Args:
        url: the ledger's; it must be whole.
        copy: an exported history that began as this ledger's.

    Raises:
        LedgerDamaged: the copy is another ledger's, is broken or holds what cannot be; nothing was added.
    """
    store = LedgerStore(url)
    with store.writing() as pen, legible():
        history = links(pen.connection)
        problems = [*broken_links(history), *unsound_copy(copy, store.keys(), strangers=True)]
        if not copy or copy[0] != history[0]:
            problems.append("the exported copy is another ledger's")
        if problems:
            raise damaged(problems)
        return _added(pen, history, copy, RECOVERY)


def add(url: str, copy: tuple[Link, ...], *, what: str) -> Recovered:
    """Add what another ledger's whole history has and this one lacks.

    Args:
        url: the ledger's; it must be whole.
        copy: the other history, verified.
        what: the note's heading in the history.

    Raises:
        LedgerDamaged: this ledger is not whole; nothing was added.
    """
    with LedgerStore(url).writing() as pen, legible():
        history = links(pen.connection)
        problems = list(broken_links(history))
        if problems:
            raise damaged(problems)
        return _added(pen, history, copy, what)


def _added(pen: Pen, history: list[Link], copy: tuple[Link, ...], what: str) -> Recovered:
    work = _Recovery(pen, history, copy)
    work.run()
    if work.found != Recovered():
        now = datetime.now(UTC).isoformat(timespec="seconds")
        pen.note(what, {"recovered_at": now, "copy": copy[-1].hash, **asdict(work.found)})
    return work.found


class _Recovery:
    """One recovery under way, inside one writing transaction."""

    def __init__(self, pen: Pen, history: list[Link], copy: tuple[Link, ...]) -> None:
        self._pen, self.found = pen, Recovered()
        self._known = {link.hash for link in history}
        self._copy = copy
        self._numbers: dict[int, int] = {}  # of a reservation in the copy → here
        self._datasets: dict[int, str] = {}
        for link in copy:
            if link.about == RESERVATIONS.name:
                row = json.loads(link.row)
                self._datasets[row["id"]] = row["dataset"]
                if link.hash in self._known:
                    self._numbers[row["id"]] = row["id"]
        self._done = {
            (dataset, item): value
            for dataset in set(self._datasets.values())
            for item, value in facts_about(pen.connection, dataset, RECOVERED).items()
        }

    def run(self) -> None:
        """Every entry that the ledger lacks, in the copy's order."""
        each = {
            DATASETS.name: self._cap,
            DATASET_FACTS.name: self._fact,
            RESERVATIONS.name: self._reservation,
            DRAWS.name: self._draw,
            RELEASES.name: self._release,
        }
        for link in self._copy:
            if link.hash not in self._known and link.about in each:
                each[link.about](link, json.loads(link.row))

    def _cap(self, link: Link, row: Row) -> None:
        here = cap_of(self._pen.connection, row["name"])
        if here is None:
            self._pen.write(DATASETS, row)
            return
        same = (here.relation.value, sorted(here.accepts)) == (row["relation"], sorted(row["accepts"]))
        amounts = {
            name: row[name] if same and not row["public"] else 0 for name in ("epsilon_units", "delta_units")
        }
        told = (row["epsilon_units"], row["delta_units"], row["public"])
        if same and told == (here.epsilon_units, here.delta_units, here.public):
            return
        if same and row["public"]:  # the cap that protects is the one that is here
            return
        if link.hash not in facts_about(self._pen.connection, row["name"], CAP):
            write_fact(self._pen, row["name"], CAP, link.hash, amounts)
            self.found.smaller_caps.append(row["name"])

    def _fact(self, link: Link, row: Row) -> None:  # noqa: ARG002  a fact is known by what it says
        dataset, about, item = row["dataset"], row["about"], row["item"]
        if about == RECOVERED or item in facts_about(self._pen.connection, dataset, about):
            return
        self._pen.write(DATASET_FACTS, row)

    def _reservation(self, link: Link, row: Row) -> None:
        key = (row["dataset"], link.hash)
        if key in self._done:
            self._numbers[row["id"]] = number = int(self._done[key]["reservation"])
            self._check_charged(link, row["dataset"], number, row["spends"])
            return
        self._numbers[row["id"]] = self._charge(link, row)

    def _draw(self, link: Link, row: Row) -> None:
        dataset, number = self._datasets[row["reservation"]], self._numbers.get(row["reservation"])
        if number is None:
            return
        if (dataset, link.hash) in self._done:
            number = int(self._done[dataset, link.hash]["reservation"])
            told = sa.select(DRAWS.c.spend, DRAWS.c.outcome)
            told = told.where(DRAWS.c.reservation == number, DRAWS.c.what == row["what"])
            if [tuple(cells) for cells in self._pen.connection.execute(told)] != [(row["spend"], row["outcome"])]:
                raise self._unrecovered(link)
            return
        drawn = sa.select(DRAWS.c.what).where(DRAWS.c.reservation == number, DRAWS.c.what == row["what"])
        if (
            self._pen.connection.scalar(drawn) is not None
        ):  # the study ran on, and drew it anew: seen twice, paid twice
            study = sa.select(RESERVATIONS).where(RESERVATIONS.c.id == number)
            first = dict(self._pen.connection.execute(study).mappings().one())
            total = compose((Spend.from_json(row["spend"]),))
            number = self._charge(link, first | {"spends": [row["spend"]]} | asdict(total))
        else:
            self._note(dataset, link, number)
        self._pen.write(DRAWS, {**row, "reservation": number})
        self.found.draws += 1

    def _release(self, link: Link, row: Row) -> None:  # noqa: ARG002  one release a reservation
        number = self._numbers.get(row["reservation"])
        released = sa.select(RELEASES.c.reservation).where(RELEASES.c.reservation == number)
        if number is None or self._pen.connection.scalar(released) is not None:
            return
        self._pen.write(RELEASES, {**row, "reservation": number})
        self.found.releases += 1

    def _check_charged(self, link: Link, dataset: str, number: int, spends: list[Row]) -> None:
        """That an entry was recovered is believed where its price was charged.

        Raises:
            LedgerDamaged: the reservation named is of another dataset or has another price.
        """
        charged = sa.select(RESERVATIONS.c.dataset, RESERVATIONS.c.spends).where(RESERVATIONS.c.id == number)
        if [tuple(cells) for cells in self._pen.connection.execute(charged)] != [(dataset, spends)]:
            raise self._unrecovered(link)

    @staticmethod
    def _unrecovered(link: Link) -> Exception:
        return damaged([f"it says that entry {link.sequence} of the copy was recovered, and does not have it"])

    def _charge(self, link: Link, row: Row) -> int:
        """A reservation at the ledger's end; under a name of its own where its study was charged again since."""
        taken = sa.select(RESERVATIONS.c.id).where(RESERVATIONS.c.fingerprint == row["fingerprint"])
        written = {name: cell for name, cell in row.items() if name != "id"}
        if self._pen.connection.scalar(taken) is not None:
            written["fingerprint"] = hashlib.sha256(f"recovered\n{link.hash}".encode()).hexdigest()
        number = self._pen.reserve(written)
        self._note(row["dataset"], link, number)
        self.found.charges += 1
        return number

    def _note(self, dataset: str, link: Link, number: int) -> None:
        fact = {"reservation": number}
        write_fact(self._pen, dataset, RECOVERED, link.hash, fact)
        self._done[dataset, link.hash] = fact
