"""What admission uses of a dataset, in one small value: it is sealed in every entry of the history.

| what | from which rows |
|---|---|
| `cap` | its row in `datasets` |
| `charges`, `spent`, `units`, `first` | of the reservations: number, sums, units, the first guarantee |
| `filter` | of the reservations' draws, at the order that the cap's row fixed; None where an older version sealed |
| `facts` | SHA-256 of the sorted hashes of its rows in `dataset_facts` |

Each entry's totals follow from those of the dataset's entry before it and the row it writes: they are never read
from the tables, so what somebody changed there is never sealed.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dpbo_core.accounting.budget import PrivacyBudget
from dpbo_core.accounting.composition import NOTHING, Total
from dpbo_core.accounting.renyi_filter import NOT_FILTERED, Filter, draws_in
from dpbo_core.accounting.writing import canonical

CAP = ("accepts", "delta_units", "epsilon_units", "public", "relation")
LEDGER = ""  # whose totals an entry about no dataset carries: none


@dataclass(frozen=True)
class Totals:
    """A dataset's totals after an entry; the default is a dataset of which nothing was ever written."""

    cap: Mapping[str, Any] | None = None
    charges: int = 0
    spent: Total = NOTHING
    units: frozenset[str] = frozenset()
    first: str | None = None
    facts: str | None = None
    filter: Filter | None = NOT_FILTERED

    def to_json(self) -> dict[str, Any]:
        """The totals as plain JSON: amounts in 10⁻¹², units sorted."""
        filtered = {} if self.filter is None else {"filter": [self.filter.alpha, self.filter.units]}
        return filtered | {
            "cap": None if self.cap is None else dict(self.cap),
            "charges": self.charges,
            "epsilon_units": self.spent.epsilon_units,
            "delta_units": self.spent.delta_units,
            "rho_units": self.spent.rho_units,
            "units": sorted(self.units),
            "first": self.first,
            "facts": self.facts,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Totals":
        """The inverse of `to_json`.

        Raises:
            LookupError, TypeError: it is none.
        """
        spent = Total(data["epsilon_units"], data["delta_units"], data["rho_units"])
        units = frozenset(data["units"])
        filtered = Filter(*data["filter"]) if "filter" in data else None
        return cls(data["cap"], data["charges"], spent, units, data["first"], data["facts"], filtered)

    def after(self, about: str, row: Mapping[str, Any], leaves: Iterable[str] = ()) -> "Totals":
        """The totals once `row` was written into table `about`.

        Args:
            about: the table.
            row: what was written.
            leaves: of all the dataset's facts, `row` among them, if it is one.

        Raises:
            ValueError, LookupError, TypeError: the row is none that follows.
        """
        if about == "datasets":
            if self.cap is not None:
                raise ValueError("a second cap")
            return replace(self, cap=cap_in(row), filter=filter_of(row))
        if about == "reservations":
            amounts = Total(row["epsilon_units"], row["delta_units"], row["rho_units"])
            return replace(
                self,
                charges=self.charges + 1,
                spent=self.spent + amounts,
                units=self.units | {str(row["unit"])},
                first=self.first or hashed(row["guarantee"]),
                filter=None if self.filter is None else self.filter.after(draws_in(row["spends"]), amounts),
            )
        if about == "dataset_facts":
            return replace(self, facts=together(leaves))
        return self


def cap_in(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a row of `datasets` says of the cap."""
    return {name: row[name] for name in CAP}


def filter_of(cap: Mapping[str, Any]) -> Filter:
    """The empty filter of a dataset, from its cap's row or what the totals keep of it."""
    if cap["public"]:
        return NOT_FILTERED
    budget = PrivacyBudget("", cap["epsilon_units"], cap["delta_units"], accepts=tuple(cap["accepts"]))
    return Filter.of(budget.epsilon_units, budget.delta_conversion)


def hashed(cell: Mapping[str, Any]) -> str:
    """SHA-256 of a cell or a row as it is written down."""
    return hashlib.sha256(canonical(cell).encode()).hexdigest()


def together(leaves: Iterable[str]) -> str | None:
    """One hash of a set of facts, in whatever order they are read; None of none."""
    ordered = sorted(leaves)
    return hashlib.sha256("".join(ordered).encode()).hexdigest() if ordered else None


def dataset_of(about: str, row: Mapping[str, Any], reserved: Mapping[int, str]) -> str:
    """Which dataset an entry is about.

    Args:
        about: the table, or the heading of a note.
        row: what was written.
        reserved: number of a reservation → its dataset.
    """
    if about == "datasets":
        return str(row["name"])
    if about in ("reservations", "dataset_facts"):
        return str(row["dataset"])
    if about in ("draws", "releases"):
        return reserved[row["reservation"]]
    return LEDGER


def replayed(rows: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[tuple[str, Totals]]:
    """Whose totals each entry carries and which, from the rows of a whole history alone."""
    known: dict[str, Totals] = {}
    leaves: dict[str, list[str]] = {}
    reserved: dict[int, str] = {}
    for about, row in rows:
        dataset = dataset_of(about, row, reserved)
        if about == "reservations":
            reserved[row["id"]] = dataset
        if about == "dataset_facts":
            leaves.setdefault(dataset, []).append(hashed(row))
        known[dataset] = known.get(dataset, Totals()).after(about, row, leaves.get(dataset, ()))
        yield dataset, known[dataset]
