"""What leaves the curator, and nothing else does."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dpbo_core.privacy.guarantee import OPERATING_SYSTEM, PrivacyGuarantee
from dpbo_core.privacy.json_values import list_of, text_of
from dpbo_core.privacy.plan import Spend

COUNTS, PAIRS = "counts", "pairs"  # the fact of what was counted where it is no mean, and of a value their number

NO_SCORE = "no_score"  # of a value whose score is None: why

ALL_PAIRS = "number of pairs"  # the draw of that number
LEARNED_FROM = "learned_from"  # the fact of which editions a search began with, oldest first


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
        """The score that one unit of the noise draws stands for; of pairs 1 over their noised number, if stated."""
        pairs = self.value[PAIRS] if COUNTS in self.facts else 1.0
        return 1.0 if pairs is None else 1.0 / float(pairs)

    @property
    def noise_of_one(self) -> float:
        """The noise scale of the release's first draw (but that of the number of pairs), in units of the score."""
        spend = next(spend for spend in self.spends if spend.what != ALL_PAIRS)
        return spend.noise_scale * self.score_per_unit

    def to_json(self) -> dict[str, Any]:
        """The release as plain JSON: no NaN, no Infinity."""
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
        """The release in a dict of decoded JSON, as `to_json` wrote it.

        Raises:
            ValueError, TypeError, LookupError, AttributeError: it is none.
        """
        study, edition, method, dataset, noise = (
            text_of(data[name]) for name in ("study", "edition", "method", "dataset", "noise")
        )
        value, facts = data["value"], data["facts"]
        if type(value) is not dict or type(facts) is not dict:
            raise TypeError("value, facts")
        return cls(
            value=value,
            guarantee=PrivacyGuarantee.from_json(data["guarantee"]),
            spends=tuple(Spend.from_json(spend) for spend in list_of(data["spends"])),
            study=study,
            edition=edition,
            method=method,
            dataset=dataset,
            facts=facts,
            noise=noise,
            release_id=text_of(data["release_id"]),
            released_at=text_of(data["released_at"]),
            ledger={text_of(name): text_of(text) for name, text in data.get("ledger", {}).items()},
        )


@dataclass(frozen=True)
class StudyResult:
    """A release, and whether it had been released before: then nothing was drawn or spent now."""

    release: Release
    replayed: bool
