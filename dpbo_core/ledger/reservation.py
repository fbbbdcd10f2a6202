"""A study's claim on its budget: a draw is recorded in the transaction that draws it, and the release once.

A corrected study takes over the budget of an unfinished one, under which no sensitive byte was opened.

    mark        a study that marks its opening says so in its charge (`MARKS_OPENING`); no other is ever taken over
    opened      written durably before the first sensitive byte is opened; refused once the charge was taken over
    taken over  written in the transaction that charges the corrected study; refused once the charge was opened

Both are made under the writers' lock, so one excludes the other, whichever process asks. The corrected study has
the same name and edition on the same dataset, and its guarantee the same unit, relation, persons and assumptions.
It costs nothing more: the earlier charge stays, whose amounts are at least its own by every rule of admission, and
its own row has no amounts. What a charge paid for is taken over once.

Refused where in doubt: a ledger that was restored from a copy or recovered may lack a mark.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from dpbo_core.errors import DpboError, LedgerDamaged, StudyInvalid
from dpbo_core.ledger.accounting.account import OPENED, TAKEN_OVER
from dpbo_core.ledger.accounting.composition import Filter, Total, compose, draws_in
from dpbo_core.ledger.charge import QueryKey, WarmStart
from dpbo_core.ledger.history import HASH_QUERY, RESTORATION, Place, Writer, row_decoding, utc_now
from dpbo_core.ledger.policy import as_published, facts_about, write_fact
from dpbo_core.ledger.schema import DATASET_FACTS, DRAWS, HISTORY, RELEASES, RESERVATIONS
from dpbo_core.ledger.store import LedgerStore
from dpbo_core.privacy.guarantee import PrivacyGuarantee
from dpbo_core.privacy.release import Release, Spend

MARKS_OPENING = "marks_opening"  # in what a study was resolved to: sensitive bytes are opened after a mark alone
TAKES_OVER = "takes_over"  # likewise: the fingerprint of the charge that pays for it
RECOVERY_NOTE = "recoveries"  # a note in the history alone

Rows = Sequence[Mapping[str, Any]]

STUDY_QUERY = sa.select(RESERVATIONS).where(
    *(RESERVATIONS.c[name] == sa.bindparam(name) for name in ("dataset", "study", "edition"))
)
FACT_QUERY = sa.select(DATASET_FACTS.c.value).where(
    *(DATASET_FACTS.c[name] == sa.bindparam(name) for name in ("dataset", "about", "item"))
)
DOUBT_QUERY = sa.select(HISTORY.c.sequence).where(HISTORY.c.about.in_((RESTORATION, RECOVERY_NOTE))).limit(1)
OUTCOME_QUERY = sa.select(DRAWS.c.outcome).where(
    DRAWS.c.reservation == sa.bindparam("reservation"), DRAWS.c.what == sa.bindparam("what")
)
RELEASE_QUERY = sa.select(RELEASES.c.release).where(RELEASES.c.reservation == sa.bindparam("reservation"))
DRAWS_QUERY = sa.select(DRAWS.c.what, DRAWS.c.outcome).where(DRAWS.c.reservation == sa.bindparam("reservation"))
Check = Callable[[Mapping[str, Mapping[str, Any]]], None]  # of every draw that was recorded, by name


@dataclass(frozen=True)
class TakeoverRequest:
    """What a charge that may take over another asks for."""

    key: QueryKey  # of the query
    guarantee: PrivacyGuarantee  # as it is recorded
    spends: Rows  # of its plan, as JSON
    noise: str  # standing of its noise source


def check_not_taken(connection: sa.Connection, key: QueryKey) -> None:
    """Refuse a study whose charge a corrected study took over."""
    taken = {"dataset": key.dataset, "about": TAKEN_OVER, "item": key.fingerprint}
    if connection.scalar(FACT_QUERY, taken) is not None:
        raise StudyInvalid(
            f"the charge of {key.study!r} (edition {key.edition}) was taken over by a corrected study",
            cause="this study was charged and opened nothing, and the study file was changed and run since",
            remedy="run the corrected study, or give this one a new edition, which spends budget again",
        )


@row_decoding()
def charge_to_take_over(writer: Writer, asked: TakeoverRequest, filtered: Filter) -> str | None:
    """Return the fingerprint of the newest charge that the query may take over; None if there is none."""
    connection, key = writer.connection, asked.key
    rows = connection.execute(STUDY_QUERY, {"dataset": key.dataset, "study": key.study, "edition": key.edition})
    fitting = [
        row
        for row in map(sa.Row._asdict, rows)
        if row["resolved"].get(MARKS_OPENING) is True and _pays_for(row, asked, filtered)
    ]
    if not fitting or connection.scalar(DOUBT_QUERY) is not None:
        return None
    marks = {*facts_about(connection, key.dataset, OPENED), *facts_about(connection, key.dataset, TAKEN_OVER)}
    free = [row for row in fitting if row["fingerprint"] not in marks and not _is_used(connection, row["id"])]
    if not free:
        return None
    writer.check_whole()
    return str(max(free, key=lambda row: int(row["id"]))["fingerprint"])


def take_over(writer: Writer, fingerprint: str, asked: TakeoverRequest) -> None:
    """Close the charge of this fingerprint for good, in the transaction that charges the query that it pays for."""
    value = {"by": asked.key.fingerprint, "spends": list(asked.spends)}
    write_fact(writer, asked.key.dataset, TAKEN_OVER, fingerprint, value)


@row_decoding()
def planned_spends(connection: sa.Connection, dataset: str, row: Any) -> Rows:
    """Return the spends of a charge's plan, as JSON: its own, or what it asked for when it took over another's."""
    taken = row.resolved.get(TAKES_OVER)
    if taken is None or row.spends:
        return list(row.spends)
    return list(facts_about(connection, dataset, TAKEN_OVER)[taken]["spends"])


def _is_used(connection: sa.Connection, number: int) -> bool:
    return any(
        connection.scalar(sa.select(table.c.reservation).where(table.c.reservation == number).limit(1)) is not None
        for table in (DRAWS, RELEASES)
    )


def _pays_for(row: Mapping[str, Any], asked: TakeoverRequest, filtered: Filter) -> bool:
    """Whether a charge is of the same kind as what is requested, and no rule of admission finds it smaller."""
    kind = [
        (one.unit, one.relation, one.person, one.assumptions)
        for one in (PrivacyGuarantee.from_json(row["guarantee"]), asked.guarantee)
    ]
    if kind[0] != kind[1] or row["noise"] != asked.noise or row["fingerprint"] == asked.key.fingerprint:
        return False
    paid, cost = (_total(spends) for spends in (row["spends"], asked.spends))
    if not covers(paid, cost) or not row["spends"]:
        return False
    at_order = [
        Filter(filtered.alpha).after(draws_in(spends), total).units
        for spends, total in ((row["spends"], paid), (asked.spends, cost))
    ]
    return at_order[1] <= at_order[0]


def _total(spends: Iterable[Mapping[str, Any]]) -> Total:
    return compose(map(Spend.from_json, spends))


def covers(paid: Total, cost: Total) -> bool:
    """Return whether a total is at least another in each of ε, δ and ρ; without a pure ε it covers any."""
    pure = paid.epsilon_units is None or (
        cost.epsilon_units is not None and cost.epsilon_units <= paid.epsilon_units
    )
    return pure and cost.delta_units <= paid.delta_units and cost.rho_units <= paid.rho_units


def unsound_takeovers(entries: Iterable[tuple[int, str, Mapping[str, Any]]]) -> Iterator[str]:
    """The takings over of a history (number, table, row of each entry) that dpbo cannot have made, as text."""
    charges: dict[str, Mapping[str, Any]] = {}
    numbers: dict[int, str] = {}
    used: set[str] = set()
    taken: dict[str, Mapping[str, Any]] = {}
    for number, about, row in entries:
        problem = False
        if about == RESERVATIONS.name:
            charges[row["fingerprint"]], numbers[row["id"]] = row, row["fingerprint"]
            earlier = row["resolved"].get(TAKES_OVER)
            if earlier is not None and not row["spends"]:
                problem = taken.get(earlier, {}).get("by") != row["fingerprint"]
        elif about in (DRAWS.name, RELEASES.name):
            fingerprint = numbers.get(row["reservation"], "")
            problem = fingerprint in taken
            used.add(fingerprint)
        elif about == DATASET_FACTS.name and row["about"] == OPENED:
            problem = row["item"] in taken
            used.add(row["item"])
        elif about == DATASET_FACTS.name and row["about"] == TAKEN_OVER:
            item, value = row["item"], row["value"]
            charge = charges.get(item)
            problem = (
                charge is None
                or item in used
                or item in taken
                or charge["dataset"] != row["dataset"]
                or charge["resolved"].get(MARKS_OPENING) is not True
                or not covers(_total(charge["spends"]), _total(value["spends"]))
            )
            taken[item] = value
        if problem:
            yield f"entry {number} of the history ({about}) is of a charge that was taken over as none can be"


def recorded_release(writer: Writer, identity: str, number: int, key: QueryKey, release: Release) -> Release:
    """Return the release of charge `number` in the ledger `identity`; `release`, recorded now, if it has none."""
    stored = writer.connection.scalar(RELEASE_QUERY, {"reservation": number})
    if stored is None:
        now = utc_now()
        release = replace(release, guarantee=as_published(writer.connection, key.dataset, release.guarantee))
        place = {"identity": identity, "head": writer.last.hash}
        final = replace(release, release_id=key.fingerprint[:16], released_at=now, ledger=place)
        stored = final.to_json()
        writer.write(RELEASES, {"reservation": number, "release": stored, "released_at": now})
    return Release.from_json(json.loads(json.dumps(stored)))


class Reservation:
    """A query's claim on its budget, and the record of its draws. This is the recorder a method draws through.

    A ledger may be restored or replaced while it lives, and its row's number is another query's there: every use
    asks for the entry `since`, which no other history has. `warm_start` is what its search begins with, as it was
    fixed with the charge; None if it begins afresh.
    """

    def __init__(
        self,
        store: LedgerStore,
        identity: int,
        key: QueryKey,
        noise: str,
        *,
        since: Place,
        warm_start: WarmStart | None = None,
        until_released: bool = False,
    ) -> None:
        self._store, self._id, self._key, self.noise, self.warm_start = store, identity, key, noise, warm_start
        self._since, self._until_released = since, until_released

    def recorded(self, what: str) -> Mapping[str, Any] | None:
        """Return the recorded outcome of the noise draw named `what`; None before it was drawn."""
        with self._reading() as connection:
            return self._outcome_of(connection, what)

    def record(
        self, spend: Spend, draw: Callable[[], Mapping[str, Any]], *, check: Check | None = None
    ) -> Mapping[str, Any]:
        """Return the recorded outcome of a priced draw; without one `draw` makes it and it is recorded, in one
        transaction that is never retried: if it fails, the draw is discarded unseen. `check` sees the study's
        earlier draws, by name, and refuses by raising.
        """
        with self._writing() as writer:
            outcome = self._outcome_of(writer.connection, spend.what)
            if outcome is None:
                if self._until_released and writer.connection.scalar(RELEASE_QUERY, {"reservation": self._id}):
                    raise DpboError(
                        "this query's release was recorded", remedy="ask again under a new edition, for a new spend"
                    )
                if check is not None:
                    check(self._draws_by_name(writer.connection))
                outcome = dict(draw())
                row = {"reservation": self._id, "what": spend.what, "spend": spend.to_json()}
                writer.write(DRAWS, row | {"outcome": outcome, "drawn_at": utc_now()})
        return outcome

    def open(self) -> None:
        """Record durably that sensitive bytes are about to be opened under the charge; refused if taken over."""
        with self._writing() as writer:
            check_not_taken(writer.connection, self._key)
            write_fact(writer, self._key.dataset, OPENED, self._key.fingerprint, {})

    def conclude(self, release: Release, *, check: Check | None = None) -> Release:
        """Record the finished release, unless one was: that one. `check` sees a new one's draws and may refuse."""
        with self._writing() as writer:
            stored = writer.connection.scalar(RELEASE_QUERY, {"reservation": self._id})
            if stored is None and check is not None:
                check(self._draws_by_name(writer.connection))
            return recorded_release(writer, self._store.identity, self._id, self._key, release)

    def assumed(self, guarantee: PrivacyGuarantee) -> PrivacyGuarantee:
        """Return the guarantee as a release states it: with `published_records` if the owner published any."""
        with self._reading() as connection:
            return as_published(connection, self._key.dataset, guarantee)

    @contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        with self._store.reading() as connection:
            self._check_same(connection)
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[Writer]:
        with self._store.writing() as writer:
            self._check_same(writer.connection)
            yield writer

    def _check_same(self, connection: sa.Connection) -> None:
        if connection.scalar(HASH_QUERY, {"sequence": self._since.sequence}) != self._since.hash:
            raise LedgerDamaged(
                "this is not the ledger in which the running query was charged",
                cause="a copy of the ledger was restored, or another was put in its place, while the query ran",
                remedy="run it again: it goes on from what the ledger has of it, or is charged anew",
            )

    @row_decoding()
    def _outcome_of(self, connection: sa.Connection, what: str) -> Mapping[str, Any] | None:
        place = {"reservation": self._id, "what": what}
        outcome: Mapping[str, Any] | None = connection.scalar(OUTCOME_QUERY, place)
        return outcome

    @row_decoding()
    def _draws_by_name(self, connection: sa.Connection) -> Mapping[str, Mapping[str, Any]]:
        rows = connection.execute(DRAWS_QUERY, {"reservation": self._id})
        return {str(row.what): dict(row.outcome) for row in rows}
