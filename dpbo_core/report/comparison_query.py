"""A study's model compared with a champion on the same sensitive records: two noised sums, for one spend.

| symbol | name here | meaning | shape |
|---|---|---|---|
| d_i | `DifferenceCounter` | a record's score under the challenger less the champion's, in levels of G/L | (m,) |
| L | `levels` | 1 where a score is 0 or G, else 2¹²: d is rounded to the nearest of 2L + 1 levels | integer |
| W | `weight` | of one person where each counts once, else 1 | integer |
| S, N | `paired_sums` | Σd_i and Σ|d_i|, in whole steps of G/(L·W) | integers |
| Δ | `moved` | 2kL, or 2WL for persons: most that S and N move together, in ℓ₁ | integer |

The histogram of the levels is exact and sealed; S and N are sums over it. A record that neither model can read has
d = 0. The champion is a saved model, or a column of predictions in the sensitive table; the study's `accepts` says
that it is public, or that each prediction was made from its record alone.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from dpbo_core.data import Table
from dpbo_core.ledger.charge import QueryKey
from dpbo_core.mechanisms.histogram import LaplaceHistogram
from dpbo_core.methods.problem import Problem
from dpbo_core.models.integer_sums import GRID
from dpbo_core.models.scores.kinds import PairScore, check_two_classes
from dpbo_core.privacy.certified import score_range
from dpbo_core.privacy.guarantee import PUBLIC_MODELS, ROWWISE_PREDICTIONS, Evidence, Standing
from dpbo_core.privacy.release import PrivacyPlan, Release
from dpbo_core.report import BETTER, COMPARISON, UNSURE, WORSE
from dpbo_core.report.counting import CellCounter
from dpbo_core.report.difference import GUESSED_PSI, NoisedPairs, PairedSums, detectable, detectable_by_pairs
from dpbo_core.report.evaluated_model import ComparedModel
from dpbo_core.report.histogram_cells import PERSON_WEIGHT, Integers
from dpbo_core.report.ranked_pairs import N_SUMS, PairCounter, moved_by_a_unit, person_weight
from dpbo_core.report.request import EvaluationQuery
from dpbo_core.study import EvaluationSection, StudySpec
from dpbo_core.study.model import ModelSection
from dpbo_core.study.named_score import score_of
from dpbo_core.study.public_half import PublicHalf
from dpbo_core.study.query import fingerprint_of
from dpbo_core.study.sections import COLUMN

DRAW = "paired difference"
FINE = 2**12
ON_THESE_RECORDS = " on these records"
EVIDENCE = Evidence(
    Standing.STANDARD, "the discrete Laplace mechanism on two sums, which one unit moves by 2 ranges together"
)
PAIR_EVIDENCE = Evidence(
    Standing.STANDARD, "the discrete Laplace mechanism on four sums over pairs, which one unit moves by 4n together"
)
PAIRS = "pairs"  # what is compared where the score ranks


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class DifferenceCounter(CellCounter):
    """Counts records by the level of their difference: cell 1 + L + d, as a report's records by their cells."""

    challenger: ComparedModel
    champion: ComparedModel
    levels: int  # L, from no difference to the whole range

    @property
    def size(self) -> int:
        """The number 2L + 1 of levels, with one cell for what has none."""
        return 2 * self.levels + 2

    def codes(self, table: Table, *, by_person: bool) -> Integers:
        """Return the cell 1 + L + d of each record's difference, (m,)."""
        one, other = (model.steps(table, by_person=by_person) for model in (self.challenger, self.champion))
        difference = one - other
        return 1 + self.levels + (difference * self.levels + GRID // 2) // GRID

    def sums(self, histogram: Integers, most: int) -> Integers:
        """Return the sums S of signed and N of absolute levels of a histogram, each clamped to ±`most`.

        Its first cell counts records without a level, which are left out.
        """
        levels = range(-self.levels, self.levels + 1)
        counts = list(zip(levels, histogram[1:].tolist(), strict=True))  # Python's integers: these may overflow
        sums = sum(d * n for d, n in counts), sum(abs(d) * n for d, n in counts)
        return np.array([max(-most, min(most, one)) for one in sums], dtype=np.int64)


@dataclass(frozen=True)
class ComparisonQuery(EvaluationQuery):
    """One comparison, before any model is trained."""

    n_sums: ClassVar[int] = 2
    draw_name: ClassVar[str] = DRAW
    differing: ClassVar[str] = "scores"
    evidence: ClassVar[Evidence] = EVIDENCE

    @property
    def champion(self) -> str:
        """The champion's name as given: a folder, or a column of predictions."""
        if self.section.against is None:
            raise TypeError("no champion is named")
        return self.section.against

    @property
    def model(self) -> ModelSection:
        """The study's [model], under the score that [evaluation] compares by."""
        own = self.spec.model
        return own if self.section.score is None else own.replace(score=self.section.score)

    @property
    def levels(self) -> int:
        """The number L of levels of a difference: 1 where it is −1, 0 or 1."""
        score = self.problem.score
        return FINE if score.graded or score.score_range != 1.0 else 1

    @property
    def moved(self) -> int:
        """Return the ℓ₁ sensitivity of (S, N) in whole steps: |d − d′| + ||d| − |d′|| ≤ 2 score ranges per unit."""
        return super().moved * self.levels

    @property
    def most(self) -> int:
        """The largest sum in whole steps."""
        return self.problem.n_averaged * self.weight * self.levels

    def mechanism(self, size: int) -> LaplaceHistogram:
        """Return the Laplace mechanism of S = Σ d and N = Σ |d| (see `draws`), counted in whole steps of a score.

        One unit moves both together by at most `moved` steps; a step is 1/(weight · levels) of the range.
        """
        per_step = 1.0 / (self.weight * self.levels)
        return replace(super().mechanism(size), sensitivity=self.moved, unit=per_step)

    def plan(self, unlisted: str) -> PrivacyPlan:
        """The comparison's price and assumptions; `unlisted`: a part that may not predict row by row, or ""."""
        plan, column = super().plan(unlisted), self.champion.startswith(COLUMN)
        named = {*plan.guarantee.assumptions, (ROWWISE_PREDICTIONS if column else PUBLIC_MODELS).name}
        return replace(plan, guarantee=replace(plan.guarantee, assumptions=tuple(sorted(named))))

    def counter(self, challenger: ComparedModel, champion: ComparedModel) -> "DifferenceCounter | PairCounter":
        """Return the counter of the records' differences under both models."""
        fitted = _reader(challenger, champion).preprocessing
        return DifferenceCounter(fitted, challenger=challenger, champion=champion, levels=self.levels)

    def key_of(self, digest: str, champion: str) -> QueryKey:
        """Return the comparison's key in the ledger, for the models with these digests."""
        evaluation = self.key(digest, None)
        name = f"{self.spec.name}/{COMPARISON}"
        score = self.problem.score.score_range, self.model.score_name
        parts = [COMPARISON, evaluation.fingerprint, champion, *score]
        return replace(evaluation, fingerprint=fingerprint_of(parts), study=name, method=COMPARISON)

    def sums(self, drawn: list[int]) -> PairedSums | NoisedPairs:
        """Return the two noised sums in units of the range, from what was drawn."""
        return paired(drawn, self.problem.n_averaged, self.mechanism(2).scale, self.weight, self.levels)

    @property
    def form(self) -> dict[str, Any]:
        """What a release states of how scores were compared, from which its intervals follow."""
        return {"levels": self.levels}

    def power(
        self, counter: "DifferenceCounter | PairCounter", public: Callable[[], Table]
    ) -> tuple[float | None, float]:
        """How far public records' scores differ, in units of the range, and the least difference that is called
        better with 80% chance; None and a guess for a column, which public records lack.
        """
        psi: float | None = None
        if not self.champion.startswith(COLUMN):
            table = public()
            _, absolute = counter.sums(counter.histogram(table), GRID * table.n_records)
            psi = float(absolute) / (table.n_records * self.levels)
        step = self.weight * self.levels
        scale = self.mechanism(2).scale / step
        n, guessed = self.problem.n_averaged, GUESSED_PSI if psi is None else psi
        return psi, detectable(n, scale, guessed, exact=step == 1) * self.problem.score_range


@dataclass(frozen=True)
class PairComparisonQuery(ComparisonQuery):
    """One comparison by how both models rank pairs of records."""

    n_sums: ClassVar[int] = N_SUMS
    differing: ClassVar[str] = "ranks"
    evidence: ClassVar[Evidence] = PAIR_EVIDENCE

    @property
    def of_persons(self) -> bool:
        """Whether each person counts once."""
        return self.problem.n_persons is not None

    @property
    def weight(self) -> int:
        """The integer weight w of one person where each counts once, else 1."""
        return person_weight(self.problem.n_averaged) if self.of_persons else 1

    @property
    def moved(self) -> int:
        """Return the ℓ₁ sensitivity of the four sums: Δ for each record that one person may have, or one person."""
        records = 1 if self.of_persons else min(self.problem.max_records_per_person, self.problem.n_averaged)
        return records * self._moved_by_one

    @property
    def _moved_by_one(self) -> int:
        return moved_by_a_unit(self.problem.n_averaged, self.weight)

    @property
    def most(self) -> int:
        """The largest that a sum or its noise's sensitivity may be."""
        return max(self.moved, (self.problem.n_averaged * self.weight) ** 2)

    def mechanism(self, size: int) -> LaplaceHistogram:
        """Return the Laplace mechanism of the four sums; two units of its price are what one record moves."""
        return replace(EvaluationQuery.mechanism(self, size), unit=2.0 / self._moved_by_one)

    def sums(self, drawn: list[int]) -> NoisedPairs:
        """Return the four noised sums, from what was drawn."""
        n, scale = self.problem.n_averaged, self.mechanism(N_SUMS).scale
        return noised_pairs(drawn, n, scale, of_persons=self.of_persons)

    def counter(self, challenger: ComparedModel, champion: ComparedModel) -> PairCounter:
        """Return the counter of the pairs of both models."""
        return PairCounter(
            _reader(challenger, champion).preprocessing,
            challenger=challenger,
            champion=champion,
            n_units=self.problem.n_averaged,
            weight=self.weight,
            of_persons=self.of_persons,
        )

    @property
    def form(self) -> dict[str, Any]:
        """What a release states of how scores were compared, from which its intervals follow."""
        return {"compared": PAIRS}

    def power(
        self, counter: "DifferenceCounter | PairCounter", public: Callable[[], Table]
    ) -> tuple[float | None, float]:
        """As for scores, the distance of a record's two ranks being a share of the other class."""
        if not isinstance(counter, PairCounter):
            raise TypeError("pairs have their own counter")
        table = public()
        labels = counter.challenger.ranks(table, by_person=False)[1]
        P, Q = (max(1, int((labels == one).sum())) for one in (1, 0))
        n, distance = P + Q, None
        if not self.champion.startswith(COLUMN):
            _, V, *_ = replace(counter, n_units=1, weight=1, of_persons=False).histogram(table).tolist()
            distance = math.sqrt(V / (P * Q * n))
        pairs = self.sums([0] * N_SUMS)
        return distance, detectable_by_pairs(pairs, GUESSED_PSI if distance is None else distance, P / n)


def _reader(challenger: ComparedModel, champion: ComparedModel) -> ComparedModel:
    """Return the model as which tables are read: the one that takes a data frame, if one does."""
    return champion if champion.preprocessing.columns is not None else challenger


def paired(drawn: list[int], n_units: int, scale: float, weight: int, levels: int) -> PairedSums:
    """Return the two noised sums in units of the score's range, from whole steps of 1/(`weight`·`levels`)."""
    step = weight * levels
    total, absolute = (one if step == 1 else one / step for one in drawn)
    return PairedSums(n_units, scale / step, total, absolute, exact=step == 1, step=1.0 / step)


def noised_pairs(drawn: list[int], n_units: int, scale: float, *, of_persons: bool) -> NoisedPairs:
    """Return the four noised sums of a comparison by pairs, from what was drawn; ValueError unless four."""
    C, V, P, Q = map(int, drawn)
    weight = person_weight(n_units) if of_persons else 1
    return NoisedPairs(n_units, scale, (C, V, P, Q), weight, of_persons=of_persons)


def difference_of(
    sums: PairedSums | NoisedPairs, *, levels: int, G: float, per_unit: bool, margin: float | None
) -> dict[str, Any]:
    """`value.difference`: challenger minus champion in units of the score, where more is better, with its verdict.

    `G` is the score's range, of which a difference was rounded to L `levels`; `per_unit`: whether records are units
    of their own, and may be taken as independent draws; `margin`: how much worse is still not worse, or None.
    """
    rounding = 0.0 if levels == 1 else 0.5 / levels
    noise, interval = (
        [G * max(-1.0, low - rounding), G * min(1.0, high + rounding)]
        for low, high in (sums.noise_interval, sums.interval)
    )
    word = verdict(interval if per_unit else noise, margin)
    if not per_unit and word != UNSURE:  # the noise alone says nothing of other people
        word += ON_THESE_RECORDS
    return {
        "value": G * sums.mean,
        "interval": interval if per_unit else None,
        "noise_interval": noise,
        "verdict": word,
    }


def verdict(interval: list[float], margin: float | None) -> str:
    """Return what an interval of the difference says of the challenger, as text."""
    low, high = interval
    if low > 0.0:
        return BETTER
    if high < 0.0 and (margin is None or low < -margin):
        return WORSE
    if margin is not None and low >= -margin:
        return f"not worse by more than {margin:g}"
    return UNSURE


def comparison_of(query: EvaluationQuery, public: PublicHalf) -> ComparisonQuery:
    """Return the comparison that an evaluation asks for, by the score that it names, or the study's."""
    ask = _comparison(query.spec, public.problem, query.epsilon, query.section)
    if isinstance(ask.problem.score, PairScore):
        check_two_classes(ask.model.score_name, len(public.preprocessing.classes), instead=())
    return ask


def _comparison(spec: StudySpec, problem: Problem, epsilon: float, section: EvaluationSection) -> ComparisonQuery:
    if section.score is not None:
        problem = replace(problem, score=score_of(spec.model.replace(score=section.score)))
    kind = PairComparisonQuery if isinstance(problem.score, PairScore) else ComparisonQuery
    return kind(spec, problem, epsilon, section)


def query_of(spec: StudySpec, problem: Problem, epsilon: float | None) -> EvaluationQuery:
    """Return the report or the comparison that a study's [evaluation] asks for, at `epsilon` unless None."""
    query = EvaluationQuery.of(spec, problem, epsilon)
    if query.section.against is None:
        return query
    return _comparison(spec, problem, query.epsilon, query.section)


def difference_stated(release: Release) -> dict[str, Any]:
    """Return the difference and its intervals, worked out again from the sums that a comparison's release shows."""
    facts, (spend,) = release.facts, release.spends
    persons = facts.get("n_persons")
    n_units = facts["n_validation"] if persons is None else persons
    per_unit = persons is not None or facts["max_records_per_person"] == 1
    stated = partial(difference_of, G=score_range(release), per_unit=per_unit, margin=facts["margin"])
    if facts.get("compared") == PAIRS:
        weight = 1 if persons is None else person_weight(persons)
        scale = spend.noise_scale * moved_by_a_unit(n_units, weight) / 2.0
        return stated(noised_pairs(release.value["sums"], n_units, scale, of_persons=persons is not None), levels=1)
    levels, weight = facts["levels"], 1 if persons is None else PERSON_WEIGHT
    if levels not in (1, FINE) or len(release.value["sums"]) != 2:
        raise ValueError("levels")
    sums = paired(release.value["sums"], n_units, spend.noise_scale * levels * weight, weight, levels)
    return stated(sums, levels=levels)
