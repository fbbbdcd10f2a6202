"""A study's model compared with a champion on the same sensitive records, from the champion to the release."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dpbo_core.data import Preprocessing
from dpbo_core.data.predictions import PredictionColumns
from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.charge import QueryKey
from dpbo_core.mechanisms.drawing import MAX_SUM
from dpbo_core.mechanisms.noise import rehearse_draws
from dpbo_core.methods.contract import averaged_facts
from dpbo_core.models.estimator_trainer import with_cells
from dpbo_core.models.estimators import FittedEstimator, Scorable
from dpbo_core.models.linear.fit import LinearModel
from dpbo_core.models.predicted import Predicted, PredictedColumns
from dpbo_core.models.scores.kinds import Numbers, PairScore, RecordScore
from dpbo_core.models.scores.union import MARGIN_SCORES, RECORD_SCORES, MarginScore, Score
from dpbo_core.models.scoring.in_memory import resealed
from dpbo_core.privacy.release import Release
from dpbo_core.privacy.sensitive import Sensitive, messages, sealed
from dpbo_core.report import COMPARED
from dpbo_core.report.comparison_query import ComparisonQuery, DifferenceCounter, comparison_of, difference_of
from dpbo_core.report.counting import FileTable
from dpbo_core.report.difference import GUESSED_PSI
from dpbo_core.report.evaluated_model import (
    ComparedModel,
    EvaluatedModel,
    estimator_of_file,
    file_model,
    read_model,
)
from dpbo_core.report.evaluation import EvaluationResult
from dpbo_core.report.histogram_cells import Integers, needed_columns
from dpbo_core.report.ranked_pairs import PairCounter
from dpbo_core.report.request import (
    EvaluationQuery,
    EvaluationRequest,
    check_header,
    digest_of_released,
    request_of,
)
from dpbo_core.study import StudySpec
from dpbo_core.study.data_files import training_table
from dpbo_core.study.data_split import FileSplit
from dpbo_core.study.model import ModelSection
from dpbo_core.study.preconditions import check_accepted
from dpbo_core.study.public_half import PublicHalf
from dpbo_core.study.query import PrivateQuery, QueryContext, charged, replay
from dpbo_core.study.run import Run
from dpbo_core.study.sections import COLUMN
from dpbo_core.study.tuning import ReadyStudy

SKOPS = ".skops"


def score_for(model: Scorable, section: ModelSection, score: Score) -> Score:
    """Return the study's score in the form that fits a model: of a margin, or of what an estimator predicts."""
    if isinstance(score, PairScore):
        return score
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

    `own` is how the challenger reads its records, of which the champion must have the target and the classes.
    """
    spec, model_section, score = query.spec, query.model, query.problem.score
    if query.champion.startswith(COLUMN):
        name = query.champion.removeprefix(COLUMN)
        model: FittedEstimator = Predicted(PredictedColumns((0,), regression=not own.classes), np.zeros(1))
        scored = score_for(model, model_section, score)
        of_classes = bool(own.classes) and getattr(scored, "needs", "") == "predict"
        if isinstance(scored, PairScore):
            model, _ = with_cells(model, scored, np.zeros((1, 1)))
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
    scored = score_for(evaluated.model, model_section, score)
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
    return ComparedModel.of(evaluated, model_section, scored), digest, evaluated.unlisted


def check_champion(query: EvaluationQuery, public: PublicHalf, folder: str | Path) -> None:
    """Refuse a champion as its comparison would, by public facts alone; nothing is trained."""
    ask, table = comparison_of(query, public), FileTable(FileSplit(query.spec, folder))
    champion, _, unlisted = champion_of(ask, folder, public.preprocessing)
    unlisted = unlisted or public.problem.unlisted
    check_accepted(accepted_by(query.spec), ask.plan(unlisted), unlisted)
    for fitted in (public.preprocessing, champion.preprocessing):
        check_header(query, table, public, None, needed_columns(fitted))


@dataclass(frozen=True, eq=False, repr=False)
class OpenComparison:
    """A comparison of which all that is public is done; nothing is charged."""

    request: EvaluationRequest
    ask: ComparisonQuery
    counter: DifferenceCounter | PairCounter
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
        ask = comparison_of(query, public)
        scored = score_for(evaluated.model, ask.model, ask.problem.score)
        challenger = ComparedModel.of(evaluated, ask.model, scored)
        champion, digest, unlisted = champion_of(ask, run.folder, challenger.preprocessing)
        counter = ask.counter(challenger, champion)
        key = ask.key_of(request.digest, digest)
        opened = cls(request, ask, counter, key, (request.digest, digest), unlisted or evaluated.unlisted)
        check_accepted(accepted_by(query.spec), ask.plan(opened.unlisted), opened.unlisted)
        request.table.split.check(public)
        for side in (challenger, champion):
            check_header(query, request.table, public, None, needed_columns(side.preprocessing))
        if ask.most > MAX_SUM:
            what = "the sums of so many persons are no 64-bit integers"
            raise StudyInvalid(what, remedy="compare on fewer persons")
        rehearse_draws(ask.draws(ask.n_sums))
        return opened

    @property
    def query(self) -> PrivateQuery:
        """The comparison as a query to charge, at its price."""
        sources = self.request.table.split.sources()
        return self.ask.priced(self.key, self.ask.plan(self.unlisted), sources, self.ask.n_sums)

    @cached_property
    def power(self) -> tuple[float | None, float]:
        """How far the models differ on public records (None without), and the least difference that is shown."""
        spec, folder, fitted = self.ask.spec, self.request.folder, self.counter.preprocessing
        return self.ask.power(self.counter, lambda: training_table(spec, folder, fitted)[0])

    @property
    def power_in_words(self) -> str:
        """What the comparison can show, in a sentence."""
        ask, (differ, least) = self.ask, self.power
        request = f"{ask.problem.n_averaged:,} {ask.problem.counted} at ε = {ask.epsilon:g}"
        if least >= ask.problem.score_range:
            return f"no difference, from {request}"
        share = f"{GUESSED_PSI:.0%}, as is assumed," if differ is None else f"{differ:.1%} on the public records"
        where = f"where the {ask.differing} differ by {share}"
        return f"a difference of {least:.2g} with 80% chance, from {request}, {where}"

    def expected_json(self) -> dict[str, Any]:
        """Return the price of the comparison and what it can show, as plain JSON."""
        plan = self.query.plan
        return {
            "guarantee": plan.guarantee.to_json(),
            "spends": [spend.to_json() for spend in plan.spends],
            "detectable": self.power[1],
            "differ": self.power[0],
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
            counts = self.request.table.count(self.counter, context.workers)
            return resealed(counts, lambda table: self.counter.sums(table, ask.most))

        drawn = charge.draw(spend, mechanism, exact, message=messages(*self.request.table.tells))["draw"]
        value = sealed(lambda: self._value(drawn))
        release = charge.conclude(sealed(lambda: priced.release(value, charge.standing, self._facts())))
        return EvaluationResult(release, replayed=False, best_threshold=None)

    def _value(self, drawn: list[int]) -> dict[str, Any]:
        problem = self.ask.problem
        per_unit = problem.n_persons is not None or problem.max_records_per_person == 1
        difference = difference_of(
            self.ask.sums(drawn),
            levels=self.ask.form.get("levels", 1),
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
            "score": self.ask.model.score_name,
            "score_range": problem.score_range,
            **self.ask.form,
            "margin": self.ask.section.margin,
            **averaged_facts(problem),
            "optimism": "the challenger was chosen with the help of these records, which no interval covers"
            if chosen_here
            else "",
        }


def accepted_by(spec: StudySpec) -> tuple[str, ...]:
    """Return the assumptions that a study and its [evaluation] accept."""
    return (*spec.accepts, *(() if spec.evaluation is None else spec.evaluation.accepts))


def own_comparison(ready: ReadyStudy, query: EvaluationQuery, evaluated: EvaluatedModel) -> PrivateQuery:
    """Return the comparison that a study asks for in its [evaluation], to be charged together with the study.

    `evaluated` is the model of one candidate, trained on the public half, on which it is checked.
    """
    run, digest = ready.run, digest_of_released(ready.run.key)
    table = FileTable(FileSplit(run.spec, run.folder))
    request = EvaluationRequest(query, table, ready.public, None, query.key(digest, None), None, digest, run.folder)
    return OpenComparison.between(request, evaluated, run).query
