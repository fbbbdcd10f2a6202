"""What admission uses of a dataset, in one small value that every entry of the history about it carries.

| what | from which rows |
|---|---|
| `cap` | its row in `datasets` |
| `charges`, `spent`, `units`, `person` | of the reservations: number, sums, units, the column of persons |
| `filter` | of the reservations' draws, at the order that the cap's row fixed |
| `facts` | SHA-256 of the sorted hashes of its rows in `dataset_facts`, without those about `LEARNED` |

An entry's totals follow from those of the dataset's entry before it and the row it writes. They are never read from
the tables, so that what somebody changed there is never sealed.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dpbo_core.accounting.budget import PrivacyBudget
from dpbo_core.accounting.composition import NOTHING, Total
from dpbo_core.accounting.renyi_filter import NOT_FILTERED, Filter, draws_in

CAP = ("accepts", "delta_units", "epsilon_units", "public", "relation")
LEARNED = "learned"  # facts of a study, not of its dataset: one an edition, and no charge depends on them
NO_DATASET = ""  # of an entry about the ledger itself


@dataclass(frozen=True)
class Totals:
    """A dataset's totals after an entry; the default is a dataset of which nothing was ever written."""

    cap: Mapping[str, Any] | None = None
    charges: int = 0
    spent: Total = NOTHING
    units: frozenset[str] = frozenset()
    person: str | None = None
    facts: str | None = None
    filter: Filter = NOT_FILTERED

    def text(self) -> str:
        """The totals as the history has them: amounts in 10⁻¹², units sorted."""
        return canonical(
            {
                "cap": None if self.cap is None else dict(self.cap),
                "charges": self.charges,
                "epsilon_units": self.spent.epsilon_units,
                "delta_units": self.spent.delta_units,
                "rho_units": self.spent.rho_units,
                "units": sorted(self.units),
                "person": self.person,
                "facts": self.facts,
                "filter": [self.filter.alpha, self.filter.units],
            }
        )

    @classmethod
    def from_text(cls, text: str) -> "Totals":
        """The inverse of `text`.

        Raises:
            ValueError, LookupError, TypeError: it is none.
        """
        data = json.loads(text)
        spent = Total(data["epsilon_units"], data["delta_units"], data["rho_units"])
        units, filtered = frozenset(data["units"]), Filter(*data["filter"])
        return cls(data["cap"], data["charges"], spent, units, data["person"], data["facts"], filtered)

    def after(self, about: str, row: Mapping[str, Any], facts: str | None = None) -> "Totals":
        """The totals once `row` was written into table `about`.

        Args:
            about: the table.
            row: what was written.
            facts: the hash of all the dataset's facts, `row` among them, if it is one.

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
                person=self.person if self.charges else row["guarantee"].get("person"),
                filter=self.filter.after(draws_in(row["spends"]), amounts),
            )
        if about == "dataset_facts" and row["about"] != LEARNED:
            return replace(self, facts=facts)
        return self


def canonical(row: Any) -> str:
    """The one way a row is written down: sorted keys, no spaces, no NaN."""
    return json.dumps(row, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def cap_in(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a row of `datasets` says of the cap."""
    return {name: row[name] for name in CAP}


def filter_of(cap: Mapping[str, Any]) -> Filter:
    """The empty filter of a dataset, from its cap's row or what the totals keep of it."""
    if cap["public"]:
        return NOT_FILTERED
    budget = PrivacyBudget("", cap["epsilon_units"], cap["delta_units"], accepts=tuple(cap["accepts"]))
    return Filter.of(budget.epsilon_units, budget.delta_conversion)


def facts_hash(rows: Iterable[str]) -> str | None:
    """One hash of a set of facts, in whatever order they are read; None of none.

    Args:
        rows: each as it is written down.
    """
    leaves = sorted(hashlib.sha256(row.encode()).hexdigest() for row in rows)
    return hashlib.sha256("".join(leaves).encode()).hexdigest() if leaves else None


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
    return NO_DATASET


def replayed(entries: Iterable[tuple[str, str]]) -> Iterator[tuple[str, Totals]]:
    """Whose totals each entry carries and which, from the rows of a whole history alone.

    Args:
        entries: (table, row as it is written down) of each.
    """
    newest: dict[str, Totals] = {}
    facts: dict[str, list[str]] = {}
    reserved: dict[int, str] = {}
    for about, text in entries:
        row = json.loads(text)
        dataset = dataset_of(about, row, reserved)
        if about == "reservations":
            reserved[row["id"]] = dataset
        together = None
        if about == "dataset_facts" and row["about"] != LEARNED:
            facts.setdefault(dataset, []).append(text)
            together = facts_hash(facts[dataset])
        newest[dataset] = newest.get(dataset, Totals()).after(about, row, together)
        yield dataset, newest[dataset]
