"""What an edition's search begins with, written in the transaction that charges it and never changed.

The series that an edition belongs to, and the releases of it that its search learns from: a rerun, in another
process or under another version, begins with the very same, whatever was released since.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from dpbo_core.accounting.account import LEARNED
from dpbo_core.ledger.history import row_decoding
from dpbo_core.ledger.schema import DATASET_FACTS

OF_STUDY = sa.select(DATASET_FACTS.c.value).where(
    DATASET_FACTS.c.about == LEARNED, DATASET_FACTS.c.item == sa.bindparam("fingerprint")
)


@dataclass(frozen=True)
class WarmStart:
    """The earlier releases that an edition's search begins with.

    Attributes:
        series: which editions are of one study, one score and one space; a SHA-256 in hex.
        releases: the ids of those it learns from, oldest first.
    """

    series: str
    releases: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """As the ledger has it."""
        return {"series": self.series, "releases": list(self.releases)}


def read_warm_start(value: Mapping[str, Any]) -> WarmStart:
    """The inverse of `to_json`.

    Raises:
        TypeError, LookupError: it is none.
    """
    series, releases = value["series"], value["releases"]
    if not (isinstance(releases, list) and all(isinstance(text, str) for text in (series, *releases))):
        raise TypeError(LEARNED)
    return WarmStart(series, tuple(releases))


@row_decoding()
def warm_start_of(connection: sa.Connection, fingerprint: str) -> WarmStart | None:
    """What the study was charged to begin with; None where it begins afresh, or is not charged."""
    value = connection.scalar(OF_STUDY, {"fingerprint": fingerprint})
    return None if value is None else read_warm_start(value)
