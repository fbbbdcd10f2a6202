"""Recovery of spends that an exported history has and this ledger lacks: `dpbo budget recover FILE`.

An old copy is accepted (`dpbo budget verify FILE --accept-restored` does both at once), studies are charged to it,
and only then is the export found: now there are two histories that began as one. Or a folder's own ledger was used
before its team had one: two ledgers are two budgets for the same people. What the export has and the ledger has not
is written again at the ledger's end. It is only ever added, never taken for something that is there, since every
draw was seen by somebody:

| lost entry | what is written |
|---|---|
| a cap | the cap; where the dataset has another one by now, the smaller of the two holds from now on |
| a reservation that took over another | a charge of its own price: the other may have been opened here since |
| a reservation | a charge; under its own fingerprint if that is free: its study is shown its release again |
| a draw of a reservation that is here | the draw; a charge of its own if the study has drawn it again since |
| any other draw, a release | with its reservation |

Asked twice it adds nothing: the hash of each entry that was recovered is kept among the dataset's facts. The files
that a dataset of another ledger was scored on are recorded again by the next study, under the rules that hold here.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from dpbo_core.errors import LedgerDamaged, PolicyRefused
from dpbo_core.ledger.accounting.account import TAKEN_OVER
from dpbo_core.ledger.accounting.composition import compose
from dpbo_core.ledger.accounts import cap_of
from dpbo_core.ledger.address import LEDGER_SETTING, STATE_FOLDER
from dpbo_core.ledger.history import (
    RESTORATION,
    Link,
    Place,
    Writer,
    broken_links,
    changed_error,
    links,
    row_decoding,
    unlike_tables,
    utc_now,
)
from dpbo_core.ledger.policy import ALLOWED, CAP, CODE, RECOVERED, SCORE, SOURCE, facts_about, write_fact
from dpbo_core.ledger.reservation import RECOVERY_NOTE, TAKES_OVER
from dpbo_core.ledger.schema import DATASET_FACTS, DATASETS, DRAWS, RELEASES, RESERVATIONS
from dpbo_core.ledger.store import LedgerStore
from dpbo_core.privacy.release import Spend

Row = Mapping[str, Any]


@dataclass
class Recovered:
    """The charges (reservations and repeated draws), draws and releases added, and the caps made smaller."""

    charges: int = 0
    draws: int = 0
    releases: int = 0
    smaller_caps: list[str] = field(default_factory=list)


def accept(url: str, copy: tuple[Link, ...] = ()) -> Recovered | None:
    """Accept a ledger that is older than its rollback guard, and return what an exported history added to it.

    The acceptance becomes an entry of the history. None if the ledger was sound; one changed otherwise is refused.
    """
    from dpbo_core.ledger.audit import opened, unsound_copy, unsound_error, verify

    try:
        verify(url, copy)
    except LedgerDamaged:  # older, or without its record; what is more is refused below
        store = opened(url)
    else:
        return None
    records: dict[str, Place | None] = {"beside": None, "of_user": store.guard.of_user()}
    with suppress(LedgerDamaged):  # of the file beside the ledger: a person said to go on
        records["beside"] = max((place for place, _ in store.guard.entries()), key=lambda place: place.sequence)
    with store.writing() as writer, row_decoding():
        history = links(writer.connection)
        problems = unsound_error(history, unlike_tables(history, writer.connection)) + unsound_copy(copy)
        if problems or copy[:1] not in ((), (history[0],)):
            raise changed_error(problems or ["the exported copy is another ledger's"])
        expected = {name: None if place is None else asdict(place) for name, place in records.items()}
        writer.note(RESTORATION, {"accepted_at": utc_now(), "expected": expected, "found": asdict(writer.last)})
        return _add_missing(writer, history, copy)


def recover(url: str, copy: tuple[Link, ...]) -> Recovered:
    """Add the entries of an exported history that the ledger at `url` lacks; return them. Refuses a broken copy."""
    from dpbo_core.ledger.audit import unsound_copy

    store = LedgerStore(url)
    with store.writing() as writer, row_decoding():
        history = links(writer.connection)
        problems = [*broken_links(history), *unsound_copy(copy)]
        if problems or not copy:
            raise changed_error(problems or ["the exported copy is empty"])
        return _add_missing(writer, history, copy)


def _add_missing(writer: Writer, history: list[Link], copy: tuple[Link, ...]) -> Recovered:
    ours = copy[:1] == (history[0],)
    work = _Recovery(writer, frozenset(link.hash for link in history))
    for link in copy:
        row = json.loads(link.row)
        # What another ledger's owner allowed is allowed there alone; what was published is public everywhere.
        if ours or row.get("about") not in (SOURCE, SCORE, CODE, ALLOWED):
            work.add(link, row)
    if work.added != Recovered():
        writer.note(RECOVERY_NOTE, {"recovered_at": utc_now(), "copy": copy[-1].hash, **asdict(work.added)})
    return work.added


def check_recovered(connection: sa.Connection, url: str, dataset: str) -> None:
    """Refuse a charge while the team's ledger at `url` lacks spends of the dataset that ./mlruns/ledger.db records.

    A SQLite ledger is a team's if DPBO_LEDGER_URL names it; one that a program names is that program's business.
    """
    place, address = STATE_FOLDER.resolve() / "ledger.db", sa.engine.make_url(url)
    if address.get_backend_name() == "sqlite":
        named = os.environ.get(LEDGER_SETTING) == url and address.database
        if not named or Path(str(address.database)).resolve() == place:
            return
    if not place.is_file():
        return
    with LedgerStore(f"sqlite:///{place}").reading() as local, row_decoding():
        charges = {link.hash for link in links(local) if (link.about, link.dataset) == (RESERVATIONS.name, dataset)}
    missing = charges - facts_about(connection, dataset, RECOVERED).keys()
    if missing:
        raise PolicyRefused(
            f"dataset {dataset!r} has {len(missing)} spends in ./mlruns/ledger.db that the team's ledger does "
            "not know",
            cause="it was used here before the team had one ledger, and the same people would get a second budget",
            remedy="export that ledger (DPBO_LEDGER_URL=sqlite:///mlruns/ledger.db dpbo budget export --out "
            "local.jsonl) and add it to the team's (dpbo budget recover local.jsonl)",
        )


@dataclass
class _Recovery:
    """A running recovery, inside one writing transaction; `present` holds the ledger's own hashes."""

    writer: Writer
    present: frozenset[str]
    added: Recovered = field(default_factory=Recovered)
    numbers: dict[int, tuple[str, int]] = field(default_factory=dict)  # in the copy → dataset, and number here
    plans: dict[str, list[Any]] = field(default_factory=dict)  # spends of what took a charge over, by that charge's

    def add(self, link: Link, row: Row) -> None:
        """Add the exported entry `link`, whose content is `row`, unless the ledger has it."""
        missing = link.hash not in self.present
        if row.get("about") == TAKEN_OVER:
            self.plans[row["item"]] = row["value"]["spends"]
        if link.about == RESERVATIONS.name:
            number = self._charge(link, row) if missing else row["id"]
            self.numbers[row["id"]] = (row["dataset"], number)
        elif missing and link.about == DATASETS.name:
            self._recover_cap(link, row)
        elif missing and link.about == DATASET_FACTS.name and row["about"] not in (RECOVERED, TAKEN_OVER):
            if row["item"] not in facts_about(self.writer.connection, row["dataset"], row["about"]):
                self.writer.write(DATASET_FACTS, row)
        elif missing and link.about == DRAWS.name:
            self._recover_draw(link, row)
        elif missing and link.about == RELEASES.name:
            _, number = self.numbers[row["reservation"]]
            released = sa.select(RELEASES.c.reservation).where(RELEASES.c.reservation == number)
            if self.writer.connection.scalar(released) is None:
                self.writer.write(RELEASES, {**row, "reservation": number})
                self.added.releases += 1

    def _recover_cap(self, link: Link, row: Row) -> None:
        """Add a lost cap; if the dataset has another one by now, a fact by which the smaller of them applies."""
        here = cap_of(self.writer.connection, row["name"])
        if here is None:
            self.writer.write(DATASETS, row)
            return
        same = (here.relation.value, sorted(here.accepts)) == (row["relation"], sorted(row["accepts"]))
        limited = same and not row["public"]
        amounts = {name: row[name] if limited else 0 for name in ("epsilon_units", "delta_units")}
        lost = (row["epsilon_units"], row["delta_units"], row["public"])
        if same and (row["public"] or lost == (here.epsilon_units, here.delta_units, here.public)):
            return
        if write_fact(self.writer, row["name"], CAP, link.hash, amounts):
            self.added.smaller_caps.append(row["name"])

    def _recover_draw(self, link: Link, row: Row) -> None:
        """Add a lost noise draw to its charge; to one of its own if it was drawn again since: both were seen."""
        dataset, number = self.numbers[row["reservation"]]
        if link.hash in facts_about(self.writer.connection, dataset, RECOVERED):
            return
        drawn = sa.select(DRAWS.c.what).where(DRAWS.c.reservation == number, DRAWS.c.what == row["what"])
        if self.writer.connection.scalar(drawn) is not None:  # drawn again since: seen twice, paid twice
            study = sa.select(RESERVATIONS).where(RESERVATIONS.c.id == number)
            first = dict(self.writer.connection.execute(study).mappings().one())
            total = compose((Spend.from_json(row["spend"]),))
            number = self._charge(link, first | {"spends": [row["spend"]]} | asdict(total))
        else:
            write_fact(self.writer, dataset, RECOVERED, link.hash, {"reservation": number})
        self.writer.write(DRAWS, {**row, "reservation": number})
        self.added.draws += 1

    def _charge(self, link: Link, row: Row) -> int:
        """Return the number of a lost charge, added unless it was; renamed if its study was charged again since."""
        earlier = facts_about(self.writer.connection, row["dataset"], RECOVERED).get(link.hash)
        if earlier is not None:
            return int(earlier["reservation"])
        taken = sa.select(RESERVATIONS.c.id).where(RESERVATIONS.c.fingerprint == row["fingerprint"])
        written = {name: cell for name, cell in row.items() if name != "id"}
        if row["resolved"].get(TAKES_OVER) is not None and not row["spends"]:
            spends = self.plans[row["resolved"][TAKES_OVER]]  # what it took over may have been opened here since
            written |= {"spends": spends} | asdict(compose(map(Spend.from_json, spends)))
        if self.writer.connection.scalar(taken) is not None:
            written["fingerprint"] = hashlib.sha256(f"recovered\n{link.hash}".encode()).hexdigest()
        number = self.writer.write(RESERVATIONS, written)
        write_fact(self.writer, row["dataset"], RECOVERED, link.hash, {"reservation": number})
        self.added.charges += 1
        return number
