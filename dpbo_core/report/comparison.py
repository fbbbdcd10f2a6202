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

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.data import Preprocessing, Table
from dpbo_core.data.predictions import PredictionColumns
from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.charge import QueryKey
from dpbo_core.mechanisms.drawing import MAX_SUM
from dpbo_core.mechanisms.histogram import LaplaceHistogram
from dpbo_core.mechanisms.noise import rehearse_draws
from dpbo_core.methods.contract import Draws, averaged_facts
from dpbo_core.methods.problem import Problem
from dpbo_core.models.estimators import FittedEstimator, Scorable
from dpbo_core.models.linear.fit import LinearModel
from dpbo_core.models.predicted import Predicted, PredictedColumns
from dpbo_core.models.scores.declared import Numbers
from dpbo_core.models.scores.grid import GRID
from dpbo_core.models.scores.pairs import PairScore
from dpbo_core.models.scores.record import RecordScore
from dpbo_core.models.scores.union import MARGIN_SCORES, RECORD_SCORES, MarginScore, Score
from dpbo_core.models.scoring.in_memory import resealed
from dpbo_core.privacy.certified import score_range
from dpbo_core.privacy.guarantee import PUBLIC_MODELS, ROWWISE_PREDICTIONS, Evidence, Standing
from dpbo_core.privacy.release import PrivacyPlan, Release
from dpbo_core.privacy.sensitive import Sensitive, messages, sealed
from dpbo_core.report import BETTER, COMPARED, COMPARISON, UNSURE, WORSE
from dpbo_core.report.counting import Counter, FileTable
from dpbo_core.report.difference import GUESSED_PSI, PairedSums, detectable
from dpbo_core.report.evaluated_model import EvaluatedModel, estimator_of_file, file_model, read_model
from dpbo_core.report.evaluation import EvaluationResult
from dpbo_core.report.histogram_cells import (
    PERSON_WEIGHT,
    HistogramCells,
    Integers,
    ScoresOf,
    needed_columns,
    only_needed,
)
from dpbo_core.report.request import (
    EvaluationQuery,
    EvaluationRequest,
    check_header,
    digest_of_released,
    request_of,
)
from dpbo_core.study import StudySpec
from dpbo_core.study.context import QueryContext
from dpbo_core.study.data_split import FileSplit
from dpbo_core.study.model import ModelSection
from dpbo_core.study.preconditions import check_accepted
from dpbo_core.study.public_half import PublicHalf
from dpbo_core.study.query import PrivateQuery, charged, fingerprint_of, replay
from dpbo_core.study.run import Run
from dpbo_core.study.sections import COLUMN
from dpbo_core.study.training_set import training_table
from dpbo_core.study.tuning import ReadyStudy

DRAW = "paired difference"
SKOPS = ".skops"
FINE = 2**12
ON_THESE_RECORDS = " on these records"
EVIDENCE = Evidence(
    Standing.STANDARD, "the discrete Laplace mechanism on two sums, which one unit moves by 2 ranges together"
)


@dataclass(frozen=True)
class DifferenceLevels(HistogramCells):
    """The 2L + 1 levels of a difference as cells; a difference is no outcome of one estimator."""

    levels: int = 1

    @property
    def n_cells(self) -> int:
        """The number 2L + 1 of levels."""
        return 2 * self.levels + 1

    def of(self, outcome: NDArray[Any], truth: NDArray[Any]) -> NDArray[np.float64]:  # noqa: ARG002
        """Raise TypeError: `DifferenceCounter` works the levels out itself."""
        raise TypeError("a difference is of two models")


@dataclass(frozen=True, eq=False, repr=False)
class ComparedModel:
    """A model with the map to its rows and the study's score of it. Public."""

    preprocessing: Preprocessing
    model: Scorable
    score: Score

    def steps(self, table: Table, *, by_person: bool) -> Integers:
        """Return each record's score in steps of G/2²⁴, (m,); by person whatever the records' order."""
        encoded = self.preprocessing.transform(only_needed(table, self.preprocessing))
        scored = self.model.order_independent_steps if by_person else self.model.steps
        return scored(encoded, self.score)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class DifferenceCounter(Counter):
    """Counts records by the level of their difference: cell 1 + L + d, as a report's records by their cells."""

    challenger: ComparedModel
    champion: ComparedModel

    @classmethod
    def of(cls, challenger: ComparedModel, champion: ComparedModel, levels: int) -> "DifferenceCounter":
        """Return the counter of two models; tables are read as the one that takes a data frame needs them."""
        reader = champion if champion.preprocessing.columns is not None else challenger
        cells = DifferenceLevels((), levels)
        return cls(reader.preprocessing, reader.model, cells, challenger=challenger, champion=champion)

    @property
    def levels(self) -> int:
        """The number L of levels from no difference to the whole range."""
        return (self.cells.n_cells - 1) // 2

    def _cells(self, table: Table, scores: ScoresOf = FittedEstimator.scores) -> Integers:
        by_person = scores is not FittedEstimator.scores
        difference = self.challenger.steps(table, by_person=by_person) - self.champion.steps(
            table, by_person=by_person
        )
        return 1 + self.levels + (difference * self.levels + GRID // 2) // GRID

    def paired_sums(self, histogram: Integers, most: int) -> Integers:
        """Return the sum S of signed levels and the sum N of absolute levels of a histogram, each clamped to
        ±`most`.

        Its first cell counts records without a level, which are left out.
        """
        levels = range(-self.levels, self.levels + 1)
        counts = list(zip(levels, histogram[1:].tolist(), strict=True))  # Python's integers: these may overflow
        sums = sum(d * n for d, n in counts), sum(abs(d) * n for d, n in counts)
        return np.array([max(-most, min(most, one)) for one in sums], dtype=np.int64)


@dataclass(frozen=True)
class ComparisonQuery(EvaluationQuery):
    """One comparison, before any model is trained."""

    @property
    def champion(self) -> str:
        """The champion's name as given: a folder, or a column of predictions."""
        if self.section.against is None:
            raise TypeError("no champion is named")
        return self.section.against

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
        column = self.champion.startswith(COLUMN)
        guarantee = super().plan(unlisted).guarantee
        named = {*guarantee.assumptions, (ROWWISE_PREDICTIONS if column else PUBLIC_MODELS).name}
        stated = replace(guarantee, assumptions=tuple(sorted(named)), evidence=EVIDENCE)
        return PrivacyPlan(stated, (self.mechanism(2).spend(DRAW),))

    def draws(self, size: int) -> Draws:  # noqa: ARG002  two sums
        """Return the one noise draw: its price, and the mechanism that noises S = Σ d and N = Σ |d| together.

        d is a record's score under the challenger less its score under the champion. There are two sums whatever
        the size.
        """
        mechanism = self.mechanism(2)
        return ((mechanism.spend(DRAW), mechanism),)

    def key_of(self, digest: str, champion: str) -> QueryKey:
        """Return the comparison's key in the ledger, for the models with these digests."""
        evaluation = self.key(digest, None)
        name = f"{self.spec.name}/{COMPARISON}"
        asked = [
            COMPARISON,
            evaluation.fingerprint,
            champion,
            self.problem.score.score_range,
            self.spec.model.score_name,
        ]
        return replace(evaluation, fingerprint=fingerprint_of(asked), study=name, method=COMPARISON)

    def sums(self, drawn: list[int]) -> PairedSums:
        """Return the two noised sums in units of the range, from what was drawn."""
        return paired(drawn, self.problem.n_averaged, self.mechanism(2).scale, self.weight, self.levels)


def paired(drawn: list[int], n_units: int, scale: float, weight: int, levels: int) -> PairedSums:
    """Return the two noised sums in units of the score's range, from whole steps of 1/(`weight`·`levels`)."""
    step = weight * levels
    total, absolute = (one if step == 1 else one / step for one in drawn)
    return PairedSums(n_units, scale / step, total, absolute, exact=step == 1)


def difference_of(
    sums: PairedSums, *, levels: int, G: float, per_unit: bool, margin: float | None
) -> dict[str, Any]:
    """`value.difference`: challenger minus champion in units of the score, where more is better, with its verdict.

    Args:
        sums: as noised.
        levels: L; a difference was rounded by half a level at most.
        G: the score's range.
        per_unit: whether records are units of their own, so that they may be taken as independent draws.
        margin: how much worse is still not worse; None for none.
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


def score_for(model: Scorable, section: ModelSection, score: Score) -> Score:
    """Return the study's score in the form that fits a model: of a margin, or of what an estimator predicts."""
    if isinstance(score, PairScore):
        raise StudyInvalid(
            f"two models cannot be compared by {section.score_name}",
            cause="it counts pairs of records, and a comparison is of each record's two scores",
            remedy="compare by a score of single records, such as the share of right predictions",
        )
    linear = isinstance(model, LinearModel)
    if isinstance(score, MarginScore if linear else RecordScore):
        return score
    makers: Mapping[str, Any] = MARGIN_SCORES if linear else RECORD_SCORES
    if section.score_name not in makers:
        raise StudyInvalid(
            f"the champion cannot be scored by {section.score_name}",
            cause="that score is of a linear model's margin, or of probabilities, and the champion is another kind",
            remedy="compare by the share of right predictions, which every classifier has",
        )
    made: Score = makers[section.score_name](Numbers(section.steepness))
    return made


def champion_of(query: ComparisonQuery, folder: str | Path, own: Preprocessing) -> tuple[ComparedModel, str, str]:
    """Return the champion, its digest and the part of it that may not predict row by row, or "".

    `own` is how the challenger reads its records.

    Raises:
        StudyInvalid: it cannot be read, or has another target or other classes than the challenger.
    """
    spec, score = query.spec, query.problem.score
    if query.champion.startswith(COLUMN):
        name = query.champion.removeprefix(COLUMN)
        model = Predicted(PredictedColumns((0,), regression=not own.classes), np.zeros(1))
        scored = score_for(model, spec.model, score)
        of_classes = bool(own.classes) and isinstance(scored, RecordScore) and scored.needs == "predict"
        columns = PredictionColumns.of([name], own.target, list(own.classes), of_classes=of_classes)
        return ComparedModel(columns, model, scored), f"column {name}", ""
    if query.champion.startswith(("models:/", "runs:/")):
        raise StudyInvalid(
            f"evaluation.against = {query.champion!r} is an address in MLflow, which the core does not open",
            cause="dpbo evaluate fetches such a champion; a tune with a last step does not",
            remedy="run dpbo evaluate --against with it, or name the folder of a saved model",
        )
    place = Path(folder) / query.champion
    final, digest = estimator_of_file(spec, folder, place) if place.suffix == SKOPS else read_model(place)
    evaluated = file_model(spec, folder, final)
    scored = score_for(evaluated.model, spec.model, score)
    if final.classes != own.classes:
        raise StudyInvalid(
            "the champion predicts other classes than the study's model",
            cause="it was trained on records with other labels",
            remedy="compare models of the same target",
        )
    if final.preprocessing.text_columns != own.text_columns:
        raise StudyInvalid(
            "the champion and the study's model read other columns as texts",
            cause="they were trained on tables with other columns or types",
            remedy='write the champion\'s predictions into a column, and name it: against = "column:NAME"',
        )
    return _compared(evaluated, spec.model, scored), digest, evaluated.unlisted


def check_champion(query: EvaluationQuery, public: PublicHalf, folder: str | Path) -> None:
    """Refuse a champion as its comparison would, by public facts alone; nothing is trained."""
    ask, table = (
        ComparisonQuery(query.spec, public.problem, query.epsilon, query.section),
        FileTable(FileSplit(query.spec, folder)),
    )
    champion, _, unlisted = champion_of(ask, folder, public.preprocessing)
    unlisted = unlisted or public.problem.unlisted
    check_accepted(accepting(query.spec), ask.plan(unlisted), unlisted)
    for fitted in (public.preprocessing, champion.preprocessing):
        check_header(query, table, public, None, needed_columns(fitted))


def _compared(evaluated: EvaluatedModel, section: ModelSection, score: Score) -> ComparedModel:
    """Return a model that predicts each row by itself, checked on public rows."""
    model = evaluated.predicting_by_row(section, score) if isinstance(score, RecordScore) else evaluated.model
    return ComparedModel(evaluated.preprocessing, model, score)


@dataclass(frozen=True, eq=False, repr=False)
class OpenComparison:
    """A comparison of which all that is public is done; nothing is charged."""

    request: EvaluationRequest
    ask: ComparisonQuery
    counter: DifferenceCounter
    key: QueryKey
    digests: tuple[str, str]
    unlisted: str

    @classmethod
    def of(cls, run: Run, model: str | Path | None, epsilon: float | None) -> "OpenComparison":
        """Prepare the comparison that a run's [evaluation] asks for: both models, the price, the headers."""
        request = request_of(run, model, epsilon)
        return cls.between(request, request.evaluated_model(), run)

    @classmethod
    def between(cls, request: EvaluationRequest, evaluated: EvaluatedModel, run: Run) -> "OpenComparison":
        """Prepare the comparison of an evaluated model with the champion that [evaluation] names."""
        query, public = request.query, request.public
        ask = ComparisonQuery(query.spec, public.problem, query.epsilon, query.section)
        scored = score_for(evaluated.model, query.spec.model, public.problem.score)
        challenger = _compared(evaluated, query.spec.model, scored)
        champion, digest, unlisted = champion_of(ask, run.folder, challenger.preprocessing)
        counter = DifferenceCounter.of(challenger, champion, ask.levels)
        key = ask.key_of(request.digest, digest)
        opened = cls(request, ask, counter, key, (request.digest, digest), unlisted or evaluated.unlisted)
        check_accepted(accepting(query.spec), ask.plan(opened.unlisted), opened.unlisted)
        request.table.split.check(public)
        for side in (challenger, champion):
            check_header(query, request.table, public, None, needed_columns(side.preprocessing))
        if ask.most > MAX_SUM:
            raise StudyInvalid(
                "the sums of so many persons are no 64-bit integers", remedy="compare on fewer persons"
            )
        rehearse_draws(ask.draws(2))
        return opened

    @property
    def query(self) -> PrivateQuery:
        """The comparison as a query to charge, at its price."""
        return self.ask.priced(self.key, self.ask.plan(self.unlisted), self.request.table.split.sources(), 2)

    @property
    def psi(self) -> float | None:
        """Return ψ, the two scores' mean absolute difference on public records in units of the range, or None."""
        if self.ask.champion.startswith(COLUMN):
            return None
        table, _ = training_table(self.ask.spec, self.request.folder, self.counter.preprocessing)
        _, absolute = self.counter.paired_sums(self.counter.histogram(table), GRID * table.n_records)
        return float(absolute) / (table.n_records * self.counter.levels)

    @property
    def detectable(self) -> float:
        """The least difference that is called better with 80% chance, in units of the score."""
        ask, psi = self.ask, self.psi
        scale = ask.mechanism(2).scale / (ask.weight * ask.levels)
        exact = ask.weight * ask.levels == 1
        least = detectable(ask.problem.n_averaged, scale, GUESSED_PSI if psi is None else psi, exact=exact)
        return least * ask.problem.score_range

    @property
    def power_in_words(self) -> str:
        """What the comparison can show, in a sentence."""
        ask, psi, least = self.ask, self.psi, self.detectable
        asked = f"{ask.problem.n_averaged:,} {ask.problem.counted} at ε = {ask.epsilon:g}"
        if least >= ask.problem.score_range:
            return f"no difference, from {asked}"
        differ = f"{GUESSED_PSI:.0%} is assumed" if psi is None else f"{psi:.1%} on the public records"
        return f"a difference of {least:.2g} with 80% chance, from {asked}, where the scores differ by {differ}"

    def expected_json(self) -> dict[str, Any]:
        """Return the price of the comparison and what it can show, as plain JSON."""
        plan = self.query.plan
        return {
            "guarantee": plan.guarantee.to_json(),
            "spends": [spend.to_json() for spend in plan.spends],
            "detectable": self.detectable,
            "differ": self.psi,
        }

    def recorded(self, context: QueryContext) -> EvaluationResult | None:
        """Return the recorded result of this comparison; None if there is none."""
        release = replay(self.key, context)
        return None if release is None else EvaluationResult(release, replayed=True, best_threshold=None)

    def finish(self, context: QueryContext) -> EvaluationResult:
        """Charge, score every record by both models, add noise to both sums and record: the result."""
        ask, priced = self.ask, self.query
        charge = charged(priced, context)
        ((spend, mechanism),) = priced.draws

        def exact() -> Sensitive[Integers]:
            """Return the sealed sums."""
            counts = self.request.table.count(self.counter, context.workers)
            return resealed(counts, lambda table: self.counter.paired_sums(table, ask.most))

        drawn = charge.draw(spend, mechanism, exact, message=messages(*self.request.table.tells))["draw"]
        value = sealed(lambda: self._value(drawn))
        release = charge.conclude(sealed(lambda: priced.release(value, charge.standing, self._facts())))
        return EvaluationResult(release, replayed=False, best_threshold=None)

    def _value(self, drawn: list[int]) -> dict[str, Any]:
        problem = self.ask.problem
        per_unit = problem.n_persons is not None or problem.max_records_per_person == 1
        difference = difference_of(
            self.ask.sums(drawn),
            levels=self.ask.levels,
            G=problem.score_range,
            per_unit=per_unit,
            margin=self.ask.section.margin,
        )
        return {COMPARED: difference, "sums": list(drawn)}

    def _facts(self) -> dict[str, Any]:
        problem, model = self.ask.problem, self.request.model
        challenger, champion = self.digests
        chosen_here = isinstance(model, Release)
        return {
            "model": "released" if chosen_here else "of a file",
            "model_digest": challenger,
            "champion": "predictions" if self.ask.champion.startswith(COLUMN) else "of a file",
            "champion_digest": champion,
            "score": self.ask.spec.model.score_name,
            "score_range": problem.score_range,
            "levels": self.ask.levels,
            "margin": self.ask.section.margin,
            **averaged_facts(problem),
            "optimism": "the challenger was chosen with the help of these records, which no interval covers"
            if chosen_here
            else "",
        }


def accepting(spec: StudySpec) -> StudySpec:
    """Return the study with the assumptions that its [evaluation] accepts added to its own."""
    beside = () if spec.evaluation is None else tuple(map(str, spec.evaluation.accepts))
    return spec.replace(accepts=tuple(dict.fromkeys((*spec.accepts, *beside))))


def query_of(spec: StudySpec, problem: Problem, epsilon: float | None) -> EvaluationQuery:
    """Return the report or the comparison that a study's [evaluation] asks for, at `epsilon` unless None."""
    compares = spec.evaluation is not None and spec.evaluation.against is not None
    return (ComparisonQuery if compares else EvaluationQuery).of(spec, problem, epsilon)


def own_comparison(ready: ReadyStudy, query: EvaluationQuery, evaluated: EvaluatedModel) -> PrivateQuery:
    """Return the comparison that a study asks for in its [evaluation], to be charged together with the study.

    `evaluated` is the model of one candidate, trained on the public half, on which it is checked.
    """
    run, digest = ready.run, digest_of_released(ready.run.key)
    table = FileTable(FileSplit(run.spec, run.folder))
    request = EvaluationRequest(query, table, ready.public, None, query.key(digest, None), None, digest, run.folder)
    return OpenComparison.between(request, evaluated, run).query


def difference_stated(release: Release) -> dict[str, Any]:
    """Return the difference and its intervals, worked out again from the sums that a release shows.

    Raises:
        KeyError, TypeError, ValueError: it is no comparison's release.
    """
    facts, (spend,) = release.facts, release.spends
    persons = facts.get("n_persons")
    levels, weight = facts["levels"], 1 if persons is None else PERSON_WEIGHT
    if levels not in (1, FINE) or len(release.value["sums"]) != 2:
        raise ValueError("levels")
    n_units = facts["n_validation"] if persons is None else persons
    sums = paired(release.value["sums"], n_units, spend.noise_scale * levels * weight, weight, levels)
    per_unit = persons is not None or facts["max_records_per_person"] == 1
    return difference_of(sums, levels=levels, G=score_range(release), per_unit=per_unit, margin=facts["margin"])
