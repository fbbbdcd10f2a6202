"""What methods, mechanisms and the private queries of features say of their own certificates.

No list of their names is kept elsewhere. `DeclaredQuery` is what the core asks about a feature's query, by its
name in the ledger.

| symbol | name here | meaning |
|---|---|---|
| Δ | `sensitivity` | the least that a draw may say one unit moves its query by; 0 if a theorem says less |
| — | `draws` | the names of exactly the draws that make such a release, with the mechanisms that may make each |
| ε, ρ | `Worth.of` | what a draw's printed noise is worth; no pure ε for a Gaussian |
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpbo_core.privacy.guarantee import NeighboringRelation, PrivacyUnit
from dpbo_core.privacy.named_parts import NamedParts
from dpbo_core.privacy.release import Release, Spend

RECORD_UNITS = (PrivacyUnit.VALIDATION_RECORD, PrivacyUnit.PERSON)
MEAN_RELATIONS = (
    NeighboringRelation.REPLACE_ONE,
    NeighboringRelation.REPLACE_ONE_PERSON,
)  # of records, or of persons' means


@dataclass(frozen=True)
class CertificateRules:
    """The draws, sensitivity and guarantee that the certificate of one release must state."""

    draws: Mapping[str, tuple[str, ...]]  # the name of every draw, and who may have made it: no other, none twice
    sensitivity: float  # of every draw, at least
    assumptions: tuple[str, ...] = ()  # names that the guarantee must state
    units: tuple[PrivacyUnit, ...] = RECORD_UNITS  # whom the method's guarantees can protect
    relations: tuple[NeighboringRelation, ...] = (NeighboringRelation.REPLACE_ONE,)  # what neighbours they mean
    score_bound: str = ""  # what a theorem says of the released score, from the printed noise; "" for nothing
    # whether what is shown follows from what was drawn; None if nothing of it can be computed again
    agrees: Callable[[Release], bool] | None = None
    figures: str = ""  # whether the figures shown are computed again; "" where they are the draws themselves

    def fits(self, release: Release) -> bool:
        """Whether a release's draws, unit, relation and assumptions are as the rules say; no amount is checked."""
        guarantee, names = release.guarantee, [spend.what for spend in release.spends]
        return (
            sorted(names) == sorted(self.draws)
            and all(spend.mechanism in self.draws[spend.what] for spend in release.spends)
            and guarantee.unit in self.units
            and guarantee.relation in self.relations
            and (guarantee.person is not None) in _PERSONS_NAMED[guarantee.unit]
            and _fits_averaging(release)
            and set(self.assumptions) <= set(guarantee.assumptions)
        )


_PERSONS_NAMED: Mapping[PrivacyUnit, tuple[bool, ...]] = {  # whether a guarantee names the column of persons
    PrivacyUnit.VALIDATION_RECORD: (False,),
    PrivacyUnit.PERSON: (True,),
    PrivacyUnit.TRAINING_RECORD: (False, True),
    PrivacyUnit.CANDIDATE_ROW: (False,),
}


@dataclass(frozen=True)
class Worth:
    """The privacy cost (ε, ρ) of a mechanism's noise, computed from a printed spend."""

    of: Callable[[Spend], tuple[float | None, float]]  # from the printed spend
    # whether it is the printed price itself, since its noise has no formula of scale and sensitivity
    by_price: bool = False


@dataclass(frozen=True)
class Declared:
    """The certificate rules of each kind of method and the cost of each mechanism; anything else is refused."""

    methods: Mapping[str, Callable[[Release], CertificateRules]]
    mechanisms: Mapping[str, Worth]


def ratio(spend: Spend) -> float:
    """Return Δ/s, a draw's sensitivity over its noise scale; the caller has checked that both are positive."""
    return spend.sensitivity / spend.noise_scale


def one_record_moves(release: Release) -> float:
    """By how much one unit can move a mean score, min(k, m)·G/m, or G/n_p for persons; raises if unstated."""
    if "n_persons" in release.facts:
        return score_range(release) / _positive_fact(release, "n_persons")
    return counted_of_one(release) * score_range(release) / _positive_fact(release, "n_validation")


def counted_of_one(release: Release) -> int:
    """How many records of one unit (person or record) count in the score at most, min(k, m); raises if unstated."""
    k, m = (_positive_fact(release, name) for name in ("max_records_per_person", "n_validation"))
    return min(k, m)


def score_range(release: Release) -> float:
    """Return the range G of the released score; raises unless it is stated and a finite number above 0."""
    G = release.facts["score_range"]
    if type(G) not in (int, float) or not 0.0 < G < math.inf:
        raise ValueError("score_range")
    return float(G)


def stated_steps(release: Release) -> int:
    """Return the number of steps that the release says its method took; raises unless a whole number from 1."""
    return _positive_fact(release, "steps")


def _positive_fact(release: Release, name: str) -> int:
    number = release.facts[name]
    if type(number) is not int or number < 1:
        raise ValueError(name)
    return number


def _fits_averaging(release: Release) -> bool:
    """Return whether a release states n_persons, and no count of records, just where one person is replaced."""
    if release.guarantee.relation is not NeighboringRelation.REPLACE_ONE_PERSON:
        return "n_persons" not in release.facts
    counts = {"n_validation", "max_records_per_person"} & set(release.facts)
    return "n_persons" in release.facts and not counts and release.guarantee.unit is PrivacyUnit.PERSON


def only_shows(release: Release, *names: str) -> bool:
    """Return whether the release's value has no parts but those named; a score's metric counts as its score."""
    return set(release.value) - ({"metric"} if "score" in names else set()) <= set(names)


@dataclass(frozen=True)
class DeclaredQuery:
    """A kind of private query of a feature."""

    # what one of its releases' certificate must show; KeyError, TypeError, ValueError where it is none of its kind
    certificate_rules: Callable[[Release], CertificateRules]
    # begins the name of each round that the ledger records before the release; "" for a query that releases once
    round_prefix: str = ""
    round_name: str = "look"  # what one such round is called
    alert: str = ""  # what a release of it calls for, in a sentence for whoever runs the model; "" if no alarm
    unreleased: tuple[str, str, str] = ("", "", "")  # why no release is there yet, the usual cause, what to do
    # what a study's section of its name costs and how noisy it is, in a sentence for `dpbo plan`; takes the study
    # and its folder, and refuses what cannot run
    expected: Callable[[Any, Path], str] | None = None

    def n_rounds(self, recorded: Iterable[str]) -> int:
        """Return how many rounds are among what the ledger recorded of a query."""
        return sum(name.startswith(self.round_prefix) for name in recorded)


QUERIES: Mapping[str, DeclaredQuery] = NamedParts(__name__, {}, group="dpbo.queries")


def rounds_of(kind: str) -> DeclaredQuery | None:
    """Return the declared query of this kind if it has many rounds at one price, else None."""
    query = QUERIES.get(kind)
    return query if query is not None and query.round_prefix else None
