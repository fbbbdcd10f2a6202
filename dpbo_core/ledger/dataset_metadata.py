"""A dataset's metadata in the ledger: append-only facts beside its cap, each under a heading and an item.

| about | item | value |
|---|---|---|
| `max_records_per_person` | k, as text | {}: of its first spend, or of one that was recovered |
| `answers` | the publication | {"public": true}, or the range and the price of the noise |
| `recovered` | hash of a lost entry | {"reservation": number}, under which it was written again |
| `cap` | hash of a lost entry | {"epsilon_units", "delta_units"}: another cap it once had; the smaller holds |
| `source` | hash of what follows | {"dataset", "kind", "name", "role"}: what it may be scored on |
| `mark` | device, inode and time of a source's file | {"source": its item, "name"}: it is found again so |
| `shares_people` | another dataset | {}: the owner said that the people of a file pay both |
| `member` | another name | {}: this dataset's cap pays for its studies |
| `largest_epsilon` | 10⁻¹², as text | {}: of a study that Prefect starts; the smallest holds |
| `score` | an import path | {}: a function that the dataset's studies may be scored by |
| `validation_size` | share and number of rows | {"share", "rows"}: how one table was divided by position |
| `public` | hash of what follows | {"dataset", "name", "marks"}: a file that was read as public |
| `published` | hash of what follows | {"dataset", "name", "marks"}: a file that is public, says the owner |
| `learned` | a study's fingerprint | {"series", "releases"}: what its search begins with, fixed with its charge |

A fact is written once. Rules that need to know something of a dataset put it here.
"""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from dpbo_core.ledger.history import row_decoding
from dpbo_core.ledger.schema import DATASET_FACTS
from dpbo_core.ledger.writer import Writer, utc_now

RECORDS, ANSWERS, RECOVERED, CAP = "max_records_per_person", "answers", "recovered", "cap"
SOURCE, MARK, SHARES, MEMBER, LARGEST = "source", "mark", "shares_people", "member", "largest_epsilon"
SCORE = "score"
VALIDATION_SIZE, READ_AS_PUBLIC, PUBLISHED = "validation_size", "public", "published"

# Built once: building a statement takes longer than running it, and a reservation is made while others wait.
ABOUT = sa.select(DATASET_FACTS.c.item, DATASET_FACTS.c.value).where(
    DATASET_FACTS.c.dataset == sa.bindparam("dataset"), DATASET_FACTS.c.about == sa.bindparam("about")
)

WRITTEN = sa.select(DATASET_FACTS.c.item).where(
    *(DATASET_FACTS.c[name] == sa.bindparam(name) for name in ("dataset", "about", "item"))
)


@row_decoding()
def facts_about(connection: sa.Connection, dataset: str, about: str) -> dict[str, Mapping[str, Any]]:
    """item → value of every fact about the dataset under this heading."""
    rows = connection.execute(ABOUT, {"dataset": dataset, "about": about})
    facts = {row.item: row.value for row in rows}
    if not all(isinstance(value, Mapping) for value in facts.values()):
        raise TypeError
    return facts


@row_decoding()
def records_of(connection: sa.Connection, dataset: str) -> tuple[int, ...]:
    """Every k that the dataset's spends were made under, ascending; empty before the first."""
    return tuple(sorted(int(item) for item in facts_about(connection, dataset, RECORDS)))


def write_fact(writer: Writer, dataset: str, about: str, item: str, value: Mapping[str, Any]) -> bool:
    """Add a fact, unless there is one under the item already; whether it is new."""
    key = {"dataset": dataset, "about": about, "item": item}
    if writer.connection.scalar(WRITTEN, key) is not None:
        return False
    writer.write(DATASET_FACTS, key | {"value": dict(value), "written_at": utc_now()})
    return True
