"""A price before purchase, and what leaves: plans, their spends, releases and the metric that they show."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dpbo_core.errors import without_hash
from dpbo_core.privacy.amounts import UNITS_PER_ONE, amount_of, from_units, list_of, text_of
from dpbo_core.privacy.guarantee import OPERATING_SYSTEM, PrivacyGuarantee


@dataclass(frozen=True)
class Spend:
    """The price of one draw of noise: its ε, δ and ρ, its sensitivity and its scale.

    Attributes:
        what: what the draw releases, unique within a plan.
        mechanism: its name in the literature.
        epsilon_units: pure ε in 10⁻¹², or None if the mechanism has no pure ε (a Gaussian).
        delta_units: δ in 10⁻¹², 0 unless the draw is only (ε, δ).
        rho_units: zCDP cost in 10⁻¹².
        sensitivity: the most one unit can move the query, in units of the score.
        noise_scale: Laplace b, Gaussian σ, or 2Δ/ε for a selection, in units of the score.
    """

    what: str
    mechanism: str
    epsilon_units: int | None
    delta_units: int
    rho_units: int
    sensitivity: float
    noise_scale: float

    @property
    def epsilon(self) -> float:
        """The noise draw's pure ε; infinite if it has none."""
        return math.inf if self.epsilon_units is None else from_units(self.epsilon_units)

    @property
    def delta(self) -> float:
        """The noise draw's own δ, 0 if it has none."""
        return from_units(self.delta_units)

    @property
    def rho(self) -> float:
        """The noise draw's price ρ in zCDP."""
        return from_units(self.rho_units)

    def to_json(self) -> dict[str, Any]:
        """Return the priced noise draw as plain JSON; an infinite ε is null."""
        return {
            "what": self.what,
            "mechanism": self.mechanism,
            "epsilon": None if self.epsilon_units is None else self.epsilon,
            "delta": self.delta,
            "rho": self.rho,
            "sensitivity": self.sensitivity,
            "noise_scale": self.noise_scale,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Spend":
        """Return the priced noise draw that `to_json` wrote."""

        def units(amount: object) -> int:
            return round(amount_of(amount) * UNITS_PER_ONE)

        return cls(
            what=text_of(data["what"]),
            mechanism=text_of(data["mechanism"]),
            epsilon_units=None if data["epsilon"] is None else units(data["epsilon"]),
            delta_units=units(data["delta"]),
            rho_units=units(data["rho"]),
            sensitivity=amount_of(data["sensitivity"]),
            noise_scale=amount_of(data["noise_scale"]),
        )


@dataclass(frozen=True)
class PrivacyPlan:
    """The guarantee that a study will state and every draw it will make, priced without any data."""

    guarantee: PrivacyGuarantee
    spends: tuple[Spend, ...]

    def __post_init__(self) -> None:
        if len({spend.what for spend in self.spends}) != len(self.spends):
            raise ValueError("two spends of a plan share a name")


def step_score(step: int) -> str:
    """Return the name of the spend on the score that step number `step`, from 1, releases."""
    return f"score of step {step}"


COUNTS, PAIRS = "counts", "pairs"  # the fact of what was counted where it is no mean, and of a value their number

NO_SCORE = "no_score"  # of a value whose score is None: why

ALL_PAIRS = "number of pairs"  # the draw of that number
LEARNED_FROM = "learned_from"  # the fact of which editions a search began with, oldest first


_TEXTS = ("study", "edition", "method", "dataset", "noise", "release_id", "released_at")  # of a release


@dataclass(frozen=True)
class Release:
    """The value that leaves one edition of a study, with the guarantee and the draws that it was made under.

    Attributes:
        value: plain JSON, by method (hyperparameters, score, interval, trajectory).
        guarantee: the guarantee.
        spends: every draw that was made, as planned.
        study: the study's name.
        edition: the study's edition.
        method: the method's kind.
        dataset: the budget's name.
        facts: public facts a reader needs: calibration, score range, number of records, library version.
        noise: "operating_system", or "injected" for a run that is not private at all.
        release_id: the ledger's number for it; empty until it is recorded.
        released_at: UTC date of recording; empty until then.
        ledger: which ledger recorded it ("identity"), and the hash of the entry before it ("head"), which that
            ledger's history holds for ever; empty until then, and in what an older version recorded.
    """

    value: Mapping[str, Any]
    guarantee: PrivacyGuarantee
    spends: tuple[Spend, ...]
    study: str
    edition: str
    method: str
    dataset: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    noise: str = OPERATING_SYSTEM
    release_id: str = ""
    released_at: str = ""
    ledger: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def score_per_unit(self) -> float:
        """Return the score per unit of the noise draws: 1, or for pairs 1 over their noised number, if stated."""
        pairs = self.value[PAIRS] if COUNTS in self.facts else 1.0
        return 1.0 if pairs is None else 1.0 / float(pairs)

    @property
    def noise_of_one(self) -> float:
        """Return the noise scale of the first draw, without that of the number of pairs, in units of the score."""
        spend = next(spend for spend in self.spends if spend.what != ALL_PAIRS)
        return spend.noise_scale * self.score_per_unit

    def to_json(self) -> dict[str, Any]:
        """Return the release as plain JSON: no NaN, no Infinity."""
        document = {
            "release_id": self.release_id,
            "released_at": self.released_at,
            "study": self.study,
            "edition": self.edition,
            "method": self.method,
            "dataset": self.dataset,
            "value": dict(self.value),
            "guarantee": self.guarantee.to_json(),
            "spends": [spend.to_json() for spend in self.spends],
            "facts": dict(self.facts),
            "noise": self.noise,
        }
        return document | ({"ledger": dict(self.ledger)} if self.ledger else {})

    @classmethod
    def from_json(cls, data: Any) -> "Release":
        """Return the release in a dict of decoded JSON, as `to_json` wrote it.

        Raises:
            ValueError, TypeError, LookupError, AttributeError: it is none.
        """
        value, facts = data["value"], data["facts"]
        if type(value) is not dict or type(facts) is not dict:
            raise TypeError("value, facts")
        return cls(
            value=value,
            guarantee=PrivacyGuarantee.from_json(data["guarantee"]),
            spends=tuple(Spend.from_json(spend) for spend in list_of(data["spends"])),
            facts=facts,
            **{name: text_of(data[name]) for name in _TEXTS},
            ledger={text_of(name): text_of(text) for name, text in data.get("ledger", {}).items()},
        )


def bounded_score(release: Release) -> float | None:
    """Return the released score clipped to its range [0, G], for display; None if none is stated."""
    score, top = release.value.get("score"), release.facts.get("score_range")
    return score if score is None or top is None else min(max(score, 0.0), float(top))


def score_interval(release: Release) -> tuple[float, float] | None:
    """Return the 90% interval of the released score, low before high; None if none is stated."""
    ends = release.value.get("interval")
    return None if ends is None else (ends[0], ends[1])


@dataclass(frozen=True)
class StudyResult:
    """A release, and whether it had been released before: then nothing was drawn or spent this time."""

    release: Release
    replayed: bool


PUBLIC_SET, ELSEWHERE = "the public records", "; it may differ on the sensitive ones"
UNIT_SUFFIXES = {"persons": ", each person once", "records": ", record by record"}


@dataclass(frozen=True)
class DisplayedMetric:
    """One metric of a release in its own unit, clipped to its range for people to read."""

    name: str  # "score" in a release that named none
    value: float  # in its range
    interval: tuple[float, float] | None  # the 90% interval, low before high
    outside: bool  # whether the noise had taken it out of its range
    greater_is_better: bool  # false for a loss
    baseline: float | None  # what saying the same of every record gives on the public training set, if known
    baseline_set: str  # that set in words, what counts once in it (of a mean over persons), and a warning
    ends: tuple[float, float]  # of the metric's range, low before high; 0 and 1 where the release has none


def displayed_metric(release: Release) -> DisplayedMetric | None:
    """Return the released score in its metric's own terms, clipped to its range; None if none is released."""
    if release.value.get("score") is None:
        return None
    score, ends = release.value["score"], release.value.get("interval")
    unnamed = {"name": "score", "value": score, "greater_is_better": True, "interval": ends}
    metric = release.value.get("metric", unnamed)
    value, more, top = metric["value"], metric["greater_is_better"], release.facts.get("score_range")
    zero, width = (value - score if more else value + score), 1.0 if top is None else float(top)
    low, high = sorted((zero, zero + width if more else zero - width))
    displayed = value if top is None else min(max(value, low), high)
    interval = metric["interval"]
    return DisplayedMetric(
        without_hash(metric["name"]),
        displayed,
        None if interval is None else (interval[0], interval[1]),
        top is not None and not 0.0 <= score <= top,
        more,
        release.facts.get("baseline"),
        PUBLIC_SET + UNIT_SUFFIXES.get(str(release.facts.get("baseline_by", "")), "") + ELSEWHERE,
        (low, high),
    )
