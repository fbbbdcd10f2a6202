"""What a row of the ledger may hold: checked where rows are verified, and where any come in from an export.

A row's amounts are those of its own spends, composed; none is below 0. So nobody can write a row that gives back.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from dpbo_core.accounting.composition import compose
from dpbo_core.ledger.dataset_metadata import CAP, LEARNED, RECORDS, RECOVERED
from dpbo_core.ledger.history import Link
from dpbo_core.ledger.tables import DATASET_FACTS, DRAWS, METADATA, RECORDED, RESERVATIONS
from dpbo_core.ledger.warm_start import read_warm_start
from dpbo_core.privacy.plan import Spend
from dpbo_core.privacy.release import Release
from dpbo_core.privacy.unit import NeighboringRelation, PrivacyUnit

LARGEST = 2**62  # of an amount or a number: the database keeps 64 bits
ROUNDING = 2.0**-50  # relative, of a double that an amount was written as: a quarter of a unit below ε = 1,000
LISTS = ("accepts", "spends")  # of the columns that hold JSON; the others hold objects


def faulty(history: Iterable[Link]) -> Iterator[str]:
    """Which entries dpbo cannot have written, in words."""
    entries = list(history)
    for place, link in enumerate(entries):
        try:
            row = json.loads(link.row)
            _check(link.about, row)
            if link.about == DATASET_FACTS.name:
                _check_fact(row, entries[max(place - 1, 0) : place + 2])
        except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError):
            yield f"entry {link.sequence} of the history ({link.about}) holds what cannot be, an amount below 0 say"


def _check(about: str, row: Mapping[str, Any]) -> None:
    """Types, signs, and that a reservation's amounts are those of its spends.

    Raises:
        ValueError, TypeError, LookupError, AttributeError: it is otherwise.
    """
    table = METADATA.tables.get(about)
    if table is None:  # a note, in the history alone
        return
    if table not in RECORDED:
        raise ValueError("the history has no entries about itself")
    if set(row) != {column.name for column in table.columns}:
        raise ValueError("other columns")
    for column in table.columns:
        if not _fits(column, row[column.name]):
            raise TypeError(column.name)
    if about == "datasets":
        NeighboringRelation(row["relation"])
        if not all(isinstance(name, str) for name in row["accepts"]):
            raise TypeError("accepts")
    if about == "reservations":
        _check_guarantee(row["guarantee"], PrivacyUnit(row["unit"]))
        _check_composed(row)
    if about == "draws":
        _spend(row["spend"])
    if about == "releases":
        Release.from_json(row["release"])


def _fits(column: sa.Column[Any], cell: Any) -> bool:
    """Whether a cell is of the type of its column: a number of a row from 1 on, an amount from 0 on."""
    if cell is None:
        return bool(column.nullable)
    if isinstance(column.type, sa.Boolean):
        return isinstance(cell, bool)
    if isinstance(column.type, sa.Integer):
        least = 0 if column.name.endswith("_units") else 1
        return type(cell) is int and least <= cell <= LARGEST
    if isinstance(column.type, sa.JSON):
        return isinstance(cell, list if column.name in LISTS else dict)
    return isinstance(cell, str)


def _check_guarantee(guarantee: Mapping[str, Any], unit: PrivacyUnit) -> None:
    """What an account reads of a guarantee, and that it protects whom the row says.

    Raises:
        ValueError, TypeError, LookupError: it is otherwise.
    """
    if guarantee.get("unit", unit) != unit:
        raise ValueError("unit")
    numbers = (0.0 if guarantee["epsilon"] is None else guarantee["epsilon"], guarantee["delta"])
    if not all(type(number) in (int, float) and 0 <= number < math.inf for number in numbers):
        raise TypeError("guarantee")
    if not isinstance(guarantee["assumptions"], list) or not all(
        isinstance(n, str) for n in guarantee["assumptions"]
    ):
        raise TypeError("assumptions")


def _check_fact(row: Mapping[str, Any], beside: Iterable[Link]) -> None:
    """What a fact says under a heading of ours; that something was recovered stands beside what was written for it.

    So a line that only says it, without the charge or the draw, is none of ours: it would hide a lost spend.

    Raises:
        ValueError, TypeError, LookupError: it is otherwise.
    """
    about, value = row["about"], row["value"]
    if about == RECORDS and not (row["item"].isascii() and row["item"].isdigit() and int(row["item"]) >= 1):
        raise ValueError("k")
    if about == CAP:
        for name in ("epsilon_units", "delta_units"):
            if not (type(value[name]) is int and 0 <= value[name] <= LARGEST):
                raise TypeError(name)
    if about == LEARNED:
        read_warm_start(value)
    if about == RECOVERED:
        number = value["reservation"]
        written = [(link.about, json.loads(link.row)) for link in beside]
        charged = any((table, told.get("id")) == (RESERVATIONS.name, number) for table, told in written)
        drawn = any((table, told.get("reservation")) == (DRAWS.name, number) for table, told in written)
        if type(number) is not int or not (charged or drawn):
            raise ValueError("nothing was recovered")


def _check_composed(row: Mapping[str, Any]) -> None:
    """Amounts are kept as integers and spends as decimals, so what doubles lose in between is allowed for.

    Raises:
        ValueError: an amount is not the sum of its spends'.
    """
    for name, summed in asdict(compose(map(_spend, row["spends"]))).items():
        amount = row[name]
        sound = amount is summed
        if amount is not None and summed is not None:
            sound = abs(amount - summed) <= len(row["spends"]) * ROUNDING * summed
        if not sound:
            raise ValueError("an amount is not that of its spends")


def _spend(written: Mapping[str, Any]) -> Spend:
    """One spend, its numbers finite and at least 0.

    Raises:
        ValueError, TypeError, LookupError: it is none.
    """
    spend = Spend.from_json(written)
    numbers = (spend.epsilon_units or 0, spend.delta_units, spend.rho_units, spend.sensitivity, spend.noise_scale)
    if not all(math.isfinite(number) and number >= 0 for number in numbers):
        raise ValueError("a number below 0")
    return spend
