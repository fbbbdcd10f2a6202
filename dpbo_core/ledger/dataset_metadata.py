"""A dataset's metadata in the ledger: append-only facts beside its cap, each under a heading and an item.

| about | item | value |
|---|---|---|
| `max_records_per_person` | k, as text | {}: of its first spend, or of one that was recovered |
| `answers` | the publication | {"public": true}, or the range and the price of the noise |
| `recovered` | hash of a lost entry | {"reservation": number}, under which it was written again |
| `cap` | hash of a lost entry | {"epsilon_units", "delta_units"}: another cap it once had; the smaller holds |
| `source` | hash of what follows | {"dataset", "kind", "name", "role", "mark", "path"}: what it may be scored on |
| `shares_people` | another dataset | {}: the owner said that the people of a file pay both |
| `member` | another name | {}: this dataset's cap pays for its studies |
| `largest_epsilon` | 10⁻¹², as text | {}: of a study that Prefect starts; the smallest holds |
| `a_day` | 10⁻¹², as text | {}: of all charges of 24 hours, where Prefect starts the last; the smallest holds |
| `allowed` | as of a source | as of a source: a training file or a saved model that Prefect's runs may read |
| `code` | an import path | {}: an estimator that Prefect's runs may import |
| `score` | an import path | {}: a function that the dataset's studies may be scored by |
| `validation_size` | share and number of rows | {"share", "rows"}: how one table was divided by position |
| `public` | as of a source | as of a source: a file that was read as public |
| `published` | as of a source | as of a source: a file that is public, says the owner |
| `learned` | a study's fingerprint | {"series", "releases"}: what its search begins with, fixed with its charge |
| `asked_by` | a study's fingerprint | {"by": text}: who charged it |

A fact is written once. Rules that need to know something of a dataset put it here.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from dpbo_core.errors import PolicyRefused
from dpbo_core.ledger.history import row_decoding
from dpbo_core.ledger.name_patterns import is_pattern, values_in
from dpbo_core.ledger.schema import DATASET_FACTS, DATASETS
from dpbo_core.ledger.writer import Writer, utc_now
from dpbo_core.privacy.amounts import from_units

RECORDS, ANSWERS, RECOVERED, CAP = "max_records_per_person", "answers", "recovered", "cap"
SOURCE, SHARES, MEMBER, LARGEST, SCORE = "source", "shares_people", "member", "largest_epsilon", "score"
VALIDATION_SIZE, READ_AS_PUBLIC, PUBLISHED = "validation_size", "public", "published"
A_DAY, ALLOWED, CODE = "a_day", "allowed", "code"

# Built once: building a statement takes longer than running it, and a reservation is made while others wait.
ABOUT = sa.select(DATASET_FACTS.c.item, DATASET_FACTS.c.value).where(
    DATASET_FACTS.c.dataset == sa.bindparam("dataset"), DATASET_FACTS.c.about == sa.bindparam("about")
)

WRITTEN = sa.select(DATASET_FACTS.c.item).where(
    *(DATASET_FACTS.c[name] == sa.bindparam(name) for name in ("dataset", "about", "item"))
)
ACCOUNT = sa.select(DATASET_FACTS.c.dataset).where(
    DATASET_FACTS.c.about == MEMBER, DATASET_FACTS.c.item == sa.bindparam("name")
)
NAMES = sa.union_all(
    sa.select(DATASETS.c.name), sa.select(DATASET_FACTS.c.item).where(DATASET_FACTS.c.about == MEMBER)
)


@dataclass(frozen=True)
class Dataset:
    """A dataset by the name that studies give it.

    Attributes:
        name: of the study's [privacy].
        account: the dataset whose cap pays; another one than `name` for a member of a group.
    """

    name: str
    account: str


@row_decoding()
def facts_about(connection: sa.Connection, dataset: str, about: str) -> dict[str, Mapping[str, Any]]:
    """The facts recorded for the dataset under a heading: item → value."""
    rows = connection.execute(ABOUT, {"dataset": dataset, "about": about})
    facts = {row.item: row.value for row in rows}
    if not all(isinstance(value, Mapping) for value in facts.values()):
        raise TypeError
    return facts


@row_decoding()
def records_of(connection: sa.Connection, dataset: str) -> tuple[int, ...]:
    """Every limit k of records per person that the dataset's spends assumed, ascending."""
    return tuple(sorted(int(item) for item in facts_about(connection, dataset, RECORDS)))


def write_fact(writer: Writer, dataset: str, about: str, item: str, value: Mapping[str, Any]) -> bool:
    """Add a fact unless its item has one already; True if it was added."""
    key = {"dataset": dataset, "about": about, "item": item}
    if writer.connection.scalar(WRITTEN, key) is not None:
        return False
    writer.write(DATASET_FACTS, key | {"value": dict(value), "written_at": utc_now()})
    return True


def account_named(connection: sa.Connection, name: str) -> str:
    """The dataset whose cap pays for studies of this name: itself, unless it is a member of a group."""
    group: str | None = connection.scalar(ACCOUNT, {"name": name})
    return name if group is None else group


def names_of(connection: sa.Connection) -> tuple[str, ...]:
    """Every dataset name that studies may use: datasets, and members of groups."""
    return tuple(connection.scalars(NAMES).all())


def add_members(writer: Writer, account: str, members: Set[str]) -> None:
    """Add names of datasets whose studies the dataset's cap pays for.

    Raises:
        PolicyRefused: a name has a cap of its own, or is another group's.
    """
    new = members - facts_about(writer.connection, account, MEMBER).keys()
    name = min(new & set(names_of(writer.connection)), default=None)
    if name is not None:
        payer = account_named(writer.connection, name)
        own = "has a cap of its own" if payer == name else f"is in the group {payer!r}"
        raise PolicyRefused(
            f"dataset {name!r} {own} and cannot join {account!r}",
            cause="a group is opened before any of its members; what was spent stays where it was spent",
            remedy="open the group under names that are new",
        )
    for name in sorted(new):
        write_fact(writer, account, MEMBER, name, {})


@row_decoding()
def largest_of(connection: sa.Connection, account: str, about: str = LARGEST) -> int | None:
    """The largest ε, in 10⁻¹², that the owner allows a study started by Prefect, or one day (`A_DAY`).

    The smallest that was ever set, for the account or for a template that its name is of; None before any.
    """
    names = account, *(name for name in filter(is_pattern, names_of(connection)) if values_in(name, account))
    return min((int(item) for name in names for item in facts_about(connection, name, about)), default=None)


def set_largest(writer: Writer, account: str, units: int, about: str = LARGEST) -> None:
    """Set or lower the largest ε, in 10⁻¹², of a study started by Prefect, or of a day.

    Raises:
        PolicyRefused: it would be raised.
    """
    current = largest_of(writer.connection, account, about)
    if current is not None and units > current:
        what, option = {LARGEST: ("one", "--largest-epsilon"), A_DAY: ("a day of them", "--a-day")}[about]
        raise PolicyRefused(
            f"of studies of dataset {account!r} that Prefect starts {what} may ask for {from_units(current):g}, "
            "which is never raised",
            cause=f"{option} was set lower before",
            remedy="let its owner run larger studies with dpbo tune",
        )
    write_fact(writer, account, about, str(units), {})
