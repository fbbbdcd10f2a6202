"""Charges: one private query by its key, its price, and the records that it will be asked of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from dpbo_core.ledger.accounting.account import LEARNED, PrivacyBudget
from dpbo_core.ledger.sources import Source
from dpbo_core.privacy.release import PrivacyPlan


class Caller(Enum):
    """The person who asks: the owner at the command or the notebook, or an operator, who starts runs by Prefect."""

    OWNER = "owner"
    OPERATOR = "operator"


@dataclass(frozen=True)
class QueryKey:
    """A private query's identity: `fingerprint`, a SHA-256 in hex; the rest is for people."""

    fingerprint: str
    dataset: str
    study: str
    edition: str
    method: str


@dataclass(frozen=True)
class WarmStart:
    """The earlier releases that an edition's search begins with, fixed in the transaction that charges it.

    A rerun, in another process or under another version, begins with the very same, whatever was released since.
    """

    series: str  # which editions are of one study, one score and one space; a SHA-256 in hex
    releases: tuple[str, ...]  # the ids of those it learns from, oldest first


def read_warm_start(value: Mapping[str, Any]) -> WarmStart:
    """Return the warm start (earlier releases that a search begins with) in the JSON that the ledger stores."""
    series, releases = value["series"], value["releases"]
    if not (isinstance(releases, list) and all(isinstance(text, str) for text in (series, *releases))):
        raise TypeError(LEARNED)
    return WarmStart(series, tuple(releases))


@dataclass(frozen=True, eq=False)
class Charge:
    """One private query as the ledger charges it."""

    key: QueryKey
    plan: PrivacyPlan
    sources: tuple[Source, ...] = ()  # of the records that it is asked of, and of what it reads as public
    # the cap to open if the dataset has none; it stays unopened if the plan is refused
    cap: PrivacyBudget | None = None
    max_records_per_person: int = 1  # k, which the dataset's first spend fixes for all
    warm_start: WarmStart | None = None  # what its search begins with, fixed in the same transaction
    # whether nothing is drawn once the release is recorded
    until_released: bool = field(default=False, kw_only=True)
    # what the study became beside its method's name, as JSON, for a rerun to go on with
    resolved: Mapping[str, Any] = field(default_factory=dict)
