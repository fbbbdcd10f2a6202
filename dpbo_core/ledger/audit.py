"""Whether the ledger is what was written: its chain, its tables, its age, and an exported copy of it.

The copy is kept where the ledger's owner cannot change it. An entry holds only what dpbo can have written: no
amount is below 0, and a reservation's amounts are those of its own spends, composed. So nobody can write a row that
gives back.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from dpbo_core.ledger import schema
from dpbo_core.ledger.accounting.account import LEARNED, TAKEN_OVER
from dpbo_core.ledger.accounting.composition import compose
from dpbo_core.ledger.charge import read_warm_start
from dpbo_core.ledger.history import (
    CELL_ERRORS,
    Link,
    Place,
    broken_links,
    changed_error,
    links,
    row_decoding,
    unlike_tables,
    unlike_totals,
)
from dpbo_core.ledger.policy import CAP, RECORDS
from dpbo_core.ledger.reservation import unsound_takeovers
from dpbo_core.ledger.schema import HASHED_TABLES, METADATA
from dpbo_core.ledger.store import LedgerStore
from dpbo_core.privacy.amounts import count_of, text_of
from dpbo_core.privacy.guarantee import NeighboringRelation, PrivacyGuarantee, PrivacyUnit
from dpbo_core.privacy.release import Release, Spend

RESTORED_COPY_HINT = "; if an old copy was accepted before the export was found, run dpbo budget recover FILE"
MAX_INTEGER = 2**62  # of an amount or a number: the database keeps 64 bits
# relative, of a double that an amount was written as: a quarter of a unit below ε = 1,000
ROUNDING_ERROR = 2.0**-50
LIST_COLUMNS = ("accepts", "spends")  # of the columns that hold JSON; the others hold objects


def export(url: str) -> Iterator[str]:
    """Yield the history of the ledger at `url`, one entry a line as JSON, whatever the ledger's schema."""
    with LedgerStore(url, restored=True).reading() as connection, row_decoding():
        rows = connection.execute(sa.text("SELECT * FROM history ORDER BY sequence")).mappings()
        lines = []
        for row in rows:
            line = {name: cell for name, cell in row.items() if cell is not None}
            line["row"] = json.loads(line.pop("content"))
            if "totals" in line:  # of whatever schema
                line["totals"] = json.loads(line["totals"])
            lines.append(json.dumps(line, ensure_ascii=False, allow_nan=False))
    yield from lines


def read_export(lines: Iterable[str]) -> tuple[Link, ...]:
    """Return the history entries in lines that `export` wrote; another line is refused, and no hash checked."""
    entries: list[Link] = []
    for line in lines:
        try:
            entries.append(Link.from_json(json.loads(line)))
        except CELL_ERRORS:
            break
    else:
        return tuple(entries)
    raise changed_error([f"line {len(entries) + 1} of the exported copy is not a line of an export"])


def verify(url: str, copy: tuple[Link, ...] = ()) -> Place:
    """Refuse a ledger unlike its history, guards or exported `copy`; return its newest entry's number and hash."""
    store = opened(url)
    with store.reading() as connection, row_decoding():
        history = links(connection)
        problems = unsound_error(history, unlike_tables(history, connection))
    problems += unsound_copy(copy)
    problems += [
        f"entry {mine.sequence} of the history is not the exported copy's"
        for mine, theirs in zip(history, copy, strict=False)
        if mine != theirs
    ]
    lost = copy[len(history) :]
    if lost:
        problems.append(f"entries {lost[0].sequence} to {lost[-1].sequence} of the exported copy are missing")
    if problems:
        raise changed_error(problems, hint=RESTORED_COPY_HINT if copy and history[0] == copy[0] else "")
    LedgerStore(url)  # compares it with its two records
    return history[-1].place


def opened(url: str) -> LedgerStore:
    """Return the existing ledger at `url`, also one older than its rollback guard; another schema is refused."""
    store = LedgerStore(url, restored=True)
    if store.schema != schema.SCHEMA:
        raise schema.another_schema_error(store.schema)
    return store


def unsound_copy(copy: tuple[Link, ...]) -> list[str]:
    """Return the problems of an exported copy of a history by itself, as text; empty if there are none."""
    return [f"{problem} (in the exported copy)" for problem in unsound_error(copy)]


def unsound_error(history: Sequence[Link], differences: Iterable[str] = ()) -> list[str]:
    """Return the problems of a whole history in words, after `differences` from the tables; none if it is sound."""
    problems = [*broken_links(history), *differences]
    for link in history:
        try:
            _check(link.about, json.loads(link.row))
        except CELL_ERRORS:
            problems.append(
                f"entry {link.sequence} of the history ({link.about}) holds what cannot be, an amount below 0 say"
            )
    if not problems:
        problems += unsound_takeovers((link.sequence, link.about, json.loads(link.row)) for link in history)
    return [*problems, *(unlike_totals(history) if not problems else ())]


def _check(about: str, row: Mapping[str, Any]) -> None:
    table = METADATA.tables.get(about)
    if table is None:  # a note, in the history alone
        return
    if table not in HASHED_TABLES or set(row) != set(table.columns.keys()):
        raise ValueError("the history itself, or other columns")
    for name, column in table.columns.items():
        json_kind = list if name in LIST_COLUMNS else dict
        kind = json_kind if isinstance(column.type, sa.JSON) else column.type.python_type
        sound = column.nullable if row[name] is None else type(row[name]) is kind
        least = 0 if name.endswith("_units") else 1  # an amount; a row's number
        if not sound or (type(row[name]) is int and not least <= row[name] <= MAX_INTEGER):
            raise TypeError(name)
    match about:
        case "datasets":
            NeighboringRelation(row["relation"])
            list(map(text_of, row["accepts"]))
        case "reservations":
            if PrivacyGuarantee.from_json(row["guarantee"]).unit is not PrivacyUnit(row["unit"]):
                raise ValueError("unit")
            _check_composed(row)
        case "draws":
            Spend.from_json(row["spend"])
        case "releases":
            Release.from_json(row["release"])
        case "dataset_facts":
            if row["about"] == RECORDS and int(row["item"]) < 1:
                raise ValueError("k")
            if row["about"] == CAP:
                count_of(row["value"]["epsilon_units"]), count_of(row["value"]["delta_units"])
            if row["about"] == LEARNED:
                read_warm_start(row["value"])
            if row["about"] == TAKEN_OVER:
                text_of(row["value"]["by"])
                compose(map(Spend.from_json, row["value"]["spends"]))


def _check_composed(row: Mapping[str, Any]) -> None:
    """Raise unless the amounts of a charge are the sum of its priced draws, up to rounding of doubles."""
    for name, summed in asdict(compose(map(Spend.from_json, row["spends"]))).items():
        if None in (row[name], summed):
            sound = row[name] is summed
        else:
            sound = abs(row[name] - summed) <= len(row["spends"]) * ROUNDING_ERROR * summed
        if not sound:
            raise ValueError("an amount is not that of its spends")
