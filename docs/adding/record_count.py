"""Count the records whose column is at least a public number, with discrete Laplace noise.

| symbol | name here | meaning | shape |
|---|---|---|---|
| u | `_exact` | number of records that satisfy the predicate; a broken record does not | integer |
| Δ | 1 | the most by which replacing a record changes u | integer |
| ε | `epsilon` | of the one draw | scalar > 0 |
"""

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from dpbo_core.data import read_header, read_table
from dpbo_core.data.header import SENSITIVE_FILE
from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.reservation import QueryKey
from dpbo_core.ledger.sources import file_source
from dpbo_core.mechanisms.laplace import DiscreteLaplace
from dpbo_core.privacy.amounts import allowed_units
from dpbo_core.privacy.certified import CertificateRules
from dpbo_core.privacy.guarantee import Evidence, NeighboringRelation, PrivacyGuarantee, PrivacyUnit, Standing
from dpbo_core.privacy.release import PrivacyPlan, Release
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.study.query import PrivateQuery, charged, fingerprint_of, replay
from dpbo_core.study.run import QueryContext

KIND, DRAW = "record_count", "how many"
EVIDENCE = Evidence(Standing.STANDARD, "the discrete Laplace mechanism on one count")


@dataclass(frozen=True)
class RecordCount:
    """The public facts of one count."""

    dataset: str
    column: str
    at_least: float
    epsilon: float
    edition: str = "1"

    @property
    def key(self) -> QueryKey:
        """Return the key, which contains every public choice and no record."""
        fingerprint = fingerprint_of([KIND, asdict(self)])
        return QueryKey(fingerprint, self.dataset, f"{self.column}/{KIND}", self.edition, KIND)

    def query(self, file: Path) -> PrivateQuery:
        """Return the query with its price and its draw."""
        mechanism = DiscreteLaplace(1, allowed_units(self.epsilon), 1.0)
        unit, relation = PrivacyUnit.VALIDATION_RECORD, NeighboringRelation.REPLACE_ONE
        spend = mechanism.spend(DRAW)
        plan = PrivacyPlan(PrivacyGuarantee(self.epsilon, 0.0, unit, relation, (), EVIDENCE), (spend,))
        return PrivateQuery(self.key, plan, (file_source(file),), draws=((spend, mechanism),))


def count_records(count: RecordCount, file: Path, run: QueryContext) -> Release:
    """Return the release of a count. The same count again is the same release, at no cost.

    Raises:
        StudyInvalid, BudgetRefused, PolicyRefused: nothing was charged.
        Sealed: something failed with records in hand; a rerun continues.
    """
    recorded = replay(count.key, run)
    if recorded is not None:
        return recorded
    header = read_header(file, mode=SENSITIVE_FILE, display_name=file.name)
    if count.column not in header.columns:
        raise StudyInvalid(f"{file.name} has no column {count.column!r}", remedy="name one of its columns")
    query = count.query(file)
    charge = charged(query, run)
    ((spend, mechanism),) = query.draws
    outcome = charge.draw(spend, mechanism, lambda: _exact(count, file))
    facts = {"n_validation": header.n_records, "max_records_per_person": 1}
    return charge.conclude(query.release({"count": outcome["draw"]}, charge.standing, facts))


def _exact(count: RecordCount, file: Path) -> Sensitive[int]:
    table = read_table(file, mode=SENSITIVE_FILE, display_name=file.name)
    cells = np.array([cell if isinstance(cell, float) else np.nan for cell in table.columns[count.column].tolist()])
    return Sensitive(int(np.count_nonzero((cells >= count.at_least) & ~table.broken)))


def count_shown(_: Release) -> CertificateRules:
    """Return what its certificate must list: one draw with sensitivity 1."""
    return CertificateRules({DRAW: tuple(DiscreteLaplace.WORTH)}, 1.0)
