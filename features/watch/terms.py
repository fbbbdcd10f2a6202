"""What a watch is opened with, what a look compares, and what the ledger knows the watch by.

The terms are fixed when the threshold's noise is recorded, and stay: a later version, or a changed study file,
looks on with them or is refused. So nothing but the edition, the model and whose people they are makes another
watch. A look compares how far today's table is below the reference, as an integer of known sensitivity:

| symbol | name here | meaning |
|---|---|---|
| m_t | `n` | records of the table of look t, at least `least_records`; or the stated number of persons |
| S_t | — | exact sum of the records' scores in steps of 2⁻²⁴·G, or of the persons' means |
| C₂, D | — | count of pairs ranked right, and of all pairs twice |
| r | `reference` | public, in units of the score |
| h | `unit` | score per step |
| Δ | `sensitivity` | most that one unit moves u_t, whatever the table |

A mean:  u_t = r/h − ⌊S_t/m_t⌋, h = G·2⁻²⁴, Δ = ⌈k·2²⁴/least_records⌉: k records move S_t by at most k·2²⁴.
An AUC:  u_t = −⌊2²⁴(C₂ − ⌊rD⌋)/m_t²⌋, whose Δ is ⌈2k·2²⁴/least_records⌉, since k records move C₂ − ⌊rD⌋ by at
most 2q(m_t − q), q = min(k, ⌊m_t/2⌋). A step of it is h = 2⁻²⁴/(2π(1 − π)) of AUC, π the PUBLIC share of positives:
the share of a table's own records is as private as they are.

Where a look reads w tables as one, m_t counts the records of all of them, and k is k_w, `rows`: the most that one
person has there. Who is in one table may be in all, so that is w times as many unless persons are distinguished.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from dpbo.features.watch import KIND, LOOK_PREFIX
from dpbo.features.watch.power import Noise
from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.charge import QueryKey
from dpbo_core.mechanisms.above_threshold import AboveThreshold, Fall
from dpbo_core.methods.problem import Problem
from dpbo_core.models.integer_sums import GRID
from dpbo_core.models.scores.kinds import PairScore
from dpbo_core.models.scoring.in_memory import ScorableModel, Scorer, shifted
from dpbo_core.privacy.amounts import allowed_units
from dpbo_core.privacy.certified import MEAN_RELATIONS, CertificateRules, DeclaredQuery, only_shows
from dpbo_core.privacy.release import Release
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.study import StudySpec, WatchSection
from dpbo_core.study.query import fingerprint_of

DEFAULT_POSITIVE_SHARE = 0.5  # share of positives at which pairs tell most, where nothing public says it
LOOKS_DRAW = "looks"  # the one priced draw
THRESHOLD_NOISE = "noise of the threshold"


def noise_of(name: str) -> str:
    """Return the ledger's name for the noise draw that begins the private check `name`."""
    return f"noise of {look_of(name)}"


def look_of(name: str) -> str:
    """Return the ledger's name for the yes or no that the private check `name` releases."""
    return f"{LOOK_PREFIX}{name}"


@dataclass(frozen=True)
class MeanMeasure:
    """Of a mean of bounded scores."""

    counted: int  # k, records of one person
    score_range: float  # G

    @property
    def unit(self) -> float:
        """How much of a mean score one integer step of a private check stands for: G·2⁻²⁴."""
        return self.score_range / GRID

    @property
    def per_record(self) -> float:
        """The range G of one record's score."""
        return self.score_range

    def sensitivity(self, least_records: int) -> int:
        """The sensitivity of a mean of `least_records` to one person's k records: ⌈k·2²⁴/least_records⌉ steps."""
        return -((-min(self.counted, least_records) * GRID) // least_records)

    def fall(self, reference: float, n: int) -> Fall:
        """Return the map from the exact sum of n scores to how far, in steps, its mean is below the reference."""
        return Fall(start=round(reference / self.unit), times=1, over=n)

    def value(self, table: Scorer, model: ScorableModel, reference: float) -> Sensitive[int]:
        """Return the exact sum of the table's scores under the model, sealed; `reference` is not used."""
        del reference
        return table.evaluate(model)

    def sampling(self, n: int, spread: float, reference: float) -> float:
        """Return the standard deviation of a mean of n scores: one record's over √n."""
        del reference
        return spread / math.sqrt(n)


@dataclass(frozen=True)
class PairMeasure:
    """Of an AUC, or of balanced accuracy, by the count of pairs."""

    counted: int  # k, records of one person
    share: float  # π, PUBLIC share of positives

    @property
    def unit(self) -> float:
        """How much AUC one integer step of a private check stands for, by the public share of positives."""
        return 1.0 / (2.0 * self.share * (1.0 - self.share) * GRID)

    @property
    def per_record(self) -> float:
        """The AUC's counterpart of one record's score range, 1/(π(1 − π)): a record is in many pairs."""
        return 2.0 * GRID * self.unit

    def sensitivity(self, least_records: int) -> int:
        """The sensitivity of a count of pairs to one person's k records: ⌈2k·2²⁴/least_records⌉, twice a mean's."""
        return -((-2 * min(self.counted, least_records) * GRID) // least_records)

    def fall(self, reference: float, n: int) -> Fall:
        """The map from a count of pairs, less the reference's share, to how far in steps the AUC is below it."""
        del reference
        return Fall(start=0, times=GRID, over=n * n)

    def value(self, table: Scorer, model: ScorableModel, reference: float) -> Sensitive[int]:
        """Return the exact count of pairs ranked right, less the share `reference` of all pairs, sealed."""
        if not 0.0 <= reference <= 1.0:  # one record would move this by more than is charged
            raise StudyInvalid("the watch's reference is no share of pairs", remedy="open another watch")
        return shifted(table.evaluate(model), table.pairs(), reference)

    def sampling(self, n: int, spread: float, reference: float) -> float:
        """Return the standard deviation of an AUC of `reference` on n records (Hanley, McNeil 1982)."""
        del spread
        a = min(max(reference, 0.5), 1.0)
        positives, negatives = max(1.0, n * self.share), max(1.0, n * (1.0 - self.share))
        one, other = a / (2.0 - a), 2.0 * a * a / (1.0 + a)
        variance = a * (1.0 - a) + (positives - 1.0) * (one - a * a) + (negatives - 1.0) * (other - a * a)
        return math.sqrt(max(0.0, variance) / (positives * negatives))


def measure_of(problem: Problem, k: int) -> MeanMeasure | PairMeasure:
    """What a watch compares: pairs if the study's score counts pairs, else a mean; k records a person at most."""
    if isinstance(problem.score, PairScore):
        share = problem.positives if problem.positives is not None else DEFAULT_POSITIVE_SHARE
        least = 1.0 / (problem.n_training if problem.trainer is not None else 2)
        return PairMeasure(k, min(max(share, least), 1.0 - least))
    return MeanMeasure(k, problem.score_range)


@dataclass(frozen=True)
class Terms:
    """Everything that is fixed for all looks of one watch."""

    drop: float  # the fall that is to be seen, in units of the score
    epsilon: float  # of all looks together
    least_records: int  # the fewest records, or persons, of a table
    reference: float  # in units of the score, greater is better
    rows: int  # k_w, the most records of one person that count in what one look reads
    pool: int = 1  # w, how many tables a look reads as one
    threshold: int | None = None  # θ in steps; None until it is chosen

    def mechanism(self, measure: MeanMeasure | PairMeasure) -> AboveThreshold:
        """Return the above-threshold mechanism of all private checks, at the watch's price."""
        return AboveThreshold(measure.sensitivity(self.least_records), allowed_units(self.epsilon), measure.unit)

    def noise(self, measure: MeanMeasure | PairMeasure, n: int, spread: float) -> Noise:
        """Return the noise in a measured fall, in units of the score: what is drawn, and that of sampling n."""
        made, h = self.mechanism(measure), measure.unit
        sampling = measure.sampling(n, spread, self.reference)
        return Noise(made.of_threshold.scale * h, made.of_comparison.scale * h, sampling, self.pool)

    def to_json(self) -> dict[str, Any]:
        """Return the terms as plain JSON, recorded with the threshold."""
        terms = asdict(self)
        terms["theta"] = terms.pop("threshold")
        return terms

    @classmethod
    def from_json(cls, terms: Mapping[str, Any]) -> "Terms":
        """Return the terms in a mapping that `to_json` made; other keys are ignored."""
        names = ("drop", "epsilon", "least_records", "reference", "rows", "pool", "theta")
        return cls(*(terms[name] for name in names))


def asked_terms(section: WatchSection, *, least_records: int, reference: float, rows: int) -> Terms:
    """Return the terms of a new watch; `rows` is k_w. It is refused if no drop or no ε is stated."""
    for name, value in (("drop", section.drop), ("epsilon", section.epsilon)):
        if value is None:
            raise StudyInvalid(
                f"the watch states no {name}",
                cause="how far the score may fall, and what all looks cost together, is yours to say",
                remedy="give --drop 0.02 --epsilon 1, or the same under [watch]",
            )
    drop, epsilon = float(section.drop or 0.0), float(section.epsilon or 0.0)
    return Terms(drop, epsilon, section.least_records or least_records, reference, rows, section.pool or 1)


def check_terms(section: WatchSection, open_: Terms, reference: float | None) -> None:
    """Refuse a [watch] that states other terms than the watch was opened with; what it does not state passes."""
    for name, asked, fixed in (
        ("drop", section.drop, open_.drop),
        ("epsilon", section.epsilon, open_.epsilon),
        ("least_records", section.least_records, open_.least_records),
        ("reference", reference, open_.reference),
        ("pool", section.pool, open_.pool),
    ):
        if asked is not None and asked != fixed:
            raise StudyInvalid(
                f"this watch was opened with {name} = {fixed:g}, and {asked:g} is asked for",
                cause="its terms were fixed with its secret threshold, before its first look",
                remedy="leave it as it was, or open another watch: a new edition in [watch], which spends "
                "budget again",
            )


def watch_key(spec: StudySpec, model: str, counted: str, edition: str) -> QueryKey:
    """The watch's key in the ledger: the study, the digest of its model, the records `counted`, and the edition."""
    identity = {"dataset": spec.privacy.dataset, "model": model, "edition": edition, "counted": counted}
    name = spec.edition if edition == "1" else f"{spec.edition}.{edition}"
    return QueryKey(fingerprint_of([KIND, identity]), spec.privacy.dataset, f"{spec.name}/{KIND}", name, KIND)


def watch_shown(release: Release) -> CertificateRules:
    """What a certificate must state of a watch (one draw, its sensitivity); raises unless it shows one alarm."""
    if not only_shows(release, "alarm", "look", "looks") or release.value["alarm"] is not True:
        raise ValueError("value")
    per_record, k, least = (release.facts[name] for name in ("per_record", "rows", "least_records"))
    if not (type(k) is type(least) is int and k >= 1 and least >= 1 and float(per_record) > 0.0):
        raise ValueError("facts")
    sensitivity = float(per_record) * min(k, least) / least
    return CertificateRules({LOOKS_DRAW: tuple(AboveThreshold.WORTH)}, sensitivity, relations=MEAN_RELATIONS)


QUERY = DeclaredQuery(
    watch_shown,
    round_prefix=LOOK_PREFIX,
    alert="the model's score has fallen: tune again before you rely on it",
    unreleased=(
        "no look has raised the alarm, which is its release",
        "a watch releases a bit a look, and ends with the first alarm",
        "dpbo ui shows its timeline; dpbo watch STUDY.toml --once looks again, at no new price",
    ),
)
