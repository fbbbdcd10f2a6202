"""A dataset's metadata in the ledger: append-only facts beside its cap, each under a heading and an item.

| about | item | value |
|---|---|---|
| `max_records_per_person` | k, as text | {}: of its first spend, or of one that was recovered |
| `answers` | the publication | {"public": true}, or the range and the price of the noise |
| `recovered` | hash of a lost entry | {"reservation": number}, under which it was written again |
| `cap_set_by` | the account, in words | {}: who set the cap; none of old, or of a script that names nobody |
| `cap` | hash of a lost entry | {"epsilon_units", "delta_units"}: another cap it once had; the smaller holds |
| `source` | hash of what follows | {"kind", "name", "role", "mark", "path", "shared"}: what it may be scored on |
| `shares_people` | another dataset | {}: the owner said that the people of a file pay both |
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
| `opened` | a study's fingerprint | {}: sensitive bytes were about to be opened under its charge |
| `taken_over` | a study's fingerprint | {"by", "spends"}: the corrected study that it pays for, and its plan |

A fact is written once. Rules that need to know something of a dataset put it here.
"""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from dpbo_core.ledger.history import Writer, row_decoding, utc_now
from dpbo_core.ledger.name_patterns import is_pattern, values_in
from dpbo_core.ledger.schema import DATASET_FACTS, DATASETS

RECORDS, ANSWERS, RECOVERED, CAP = "max_records_per_person", "answers", "recovered", "cap"
SOURCE, SHARES, LARGEST_EPSILON, A_DAY = "source", "shares_people", "largest_epsilon", "a_day"
VALIDATION_SIZE, READ_AS_PUBLIC, PUBLISHED = "validation_size", "public", "published"
ALLOWED, CODE, SCORE, CAP_SET_BY = "allowed", "code", "score", "cap_set_by"
MAX_CALLER_LENGTH = 300  # characters of who asked, or set a cap

# Built once: building a statement takes longer than running it, and a reservation is made while others wait.
FACTS_QUERY = sa.select(DATASET_FACTS.c.item, DATASET_FACTS.c.value).where(
    DATASET_FACTS.c.dataset == sa.bindparam("dataset"), DATASET_FACTS.c.about == sa.bindparam("about")
)
WRITTEN_QUERY = sa.select(DATASET_FACTS.c.item).where(
    *(DATASET_FACTS.c[name] == sa.bindparam(name) for name in ("dataset", "about", "item"))
)
NAMES_QUERY = sa.select(DATASETS.c.name).order_by(DATASETS.c.name)


@row_decoding()
def facts_about(connection: sa.Connection, dataset: str, about: str) -> dict[str, Mapping[str, Any]]:
    """Return the dataset's facts under a heading such as "source" or "largest_epsilon": item → value.

    Raises:
        TypeError: a stored value is not a mapping, because the ledger is damaged.
    """
    rows = connection.execute(FACTS_QUERY, {"dataset": dataset, "about": about})
    facts = {row.item: row.value for row in rows}
    if not all(isinstance(value, Mapping) for value in facts.values()):
        raise TypeError
    return facts


@row_decoding()
def records_of(connection: sa.Connection, dataset: str) -> tuple[int, ...]:
    """Return every limit k of records per person that the dataset's charges assumed, ascending."""
    return tuple(sorted(int(item) for item in facts_about(connection, dataset, RECORDS)))


def write_fact(writer: Writer, dataset: str, about: str, item: str, value: Mapping[str, Any]) -> bool:
    """Record `value` for an `item` of the dataset under a heading, unless it has one; True if it was added."""
    key = {"dataset": dataset, "about": about, "item": item}
    if writer.connection.scalar(WRITTEN_QUERY, key) is not None:
        return False
    writer.write(DATASET_FACTS, key | {"value": dict(value), "written_at": utc_now()})
    return True


def templates_of(connection: sa.Connection, dataset: str) -> dict[str, Mapping[str, str]]:
    """Return the scheduled datasets' name patterns that this name fits, each with the values of its fields."""
    values = {name: values_in(name, dataset) for name in connection.scalars(NAMES_QUERY) if is_pattern(name)}
    return {name: fields for name, fields in values.items() if fields is not None}


@row_decoding()
def largest_epsilon(connection: sa.Connection, dataset: str, about: str = LARGEST_EPSILON) -> int | None:
    """The largest ε, in 10⁻¹², that the owner allows one run by Prefect, or a day (`A_DAY`); None for no limit.

    The smallest that was ever set, for the dataset or for a template that its name is of.
    """
    names = (dataset, *templates_of(connection, dataset))
    return min((int(item) for name in names for item in facts_about(connection, name, about)), default=None)
