"""A study's model evaluated: reserve, count once, noise once, and the whole report from what was released.

    evaluate_study(spec, ledger=…)       the released model, or another public one; asked again, the same release
    open_evaluation(Run.of(…))           the same in pieces, for a scheduler: .plan, then .finish(context)
    plan_evaluation(spec, ledger=…)      the price and what to expect of it; no sensitive file is opened

Reserving comes before any record's content is used; the draw is recorded before it is shown, with the edges of its
bins, so that whoever goes on after a kill reads it as it was made.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpbo_core.ledger.accounting.account import Account
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.mechanisms.noise import NoiseSource, rehearse_draws
from dpbo_core.methods.advice import enough
from dpbo_core.methods.contract import averaged_facts
from dpbo_core.models.estimators import FittedEstimator
from dpbo_core.privacy.release import PrivacyPlan, Release, StudyResult
from dpbo_core.privacy.sensitive import messages, sealed
from dpbo_core.report import COMPARISON, KIND
from dpbo_core.report.binary import best_threshold
from dpbo_core.report.counting import Counter
from dpbo_core.report.evaluated_model import CELL_KINDS, EvaluatedModel
from dpbo_core.report.histogram_cells import Grouping
from dpbo_core.report.noised_table import NoisedTable, report
from dpbo_core.report.repair import Repair, repair, repaired_model
from dpbo_core.report.report_kind import ExpectedErrors, plain_json
from dpbo_core.report.request import (
    EvaluationQuery,
    EvaluationRequest,
    check_header,
    expected_errors,
    not_released,
    own_evaluation,
    request_of,
    unsaved_cost,
)
from dpbo_core.study import StudySpec
from dpbo_core.study.data_split import halves_of, identified_sources
from dpbo_core.study.final_training import FinalModel
from dpbo_core.study.preconditions import check_accepted, paying_account
from dpbo_core.study.query import OS_NOISE, PrivateQuery, QueryContext, charged, replay
from dpbo_core.study.run import Run
from dpbo_core.study.tuning import ReplayedStudy, ready_study

if TYPE_CHECKING:
    from dpbo_core.report.comparison import OpenComparison

MAX_PUBLIC_RECORDS = 20_000  # public records that an ε is looked for with: every so many of more
OPTIMISM_WARNING = (
    "the model was chosen with the help of these very records: its figures are optimistic on them, and no interval "
    "covers that"
)
UNKNOWN_ORIGIN_WARNING = (
    "if the model was trained or chosen with the help of these records, its figures are optimistic on them"
)


@dataclass(frozen=True)
class EvaluationPlan:
    """The price, and what to expect of it, before anything is spent."""

    price: PrivacyPlan
    expected: ExpectedErrors
    enough: str = ""  # from which ε on it would be good, as text, where that is requested and it is not


@dataclass(frozen=True)
class EvaluationResult(StudyResult):
    """What an evaluation gives back: its release, whose value is the report, and what the stated costs make of it.

    Attributes:
        best_threshold: for the costs and the prevalence that the study states now; None if it states none.
        repair: of the model's probabilities and threshold, where [evaluation] says so; at no cost.
        repaired_model: with it; None if everything is left as it is.
    """

    best_threshold: Mapping[str, Any] | None
    repair: Repair | None = None
    repaired_model: FinalModel | None = None


def plan_evaluation(
    study: StudySpec,
    *,
    ledger: PrivacyLedger,
    model: str | Path | None = None,
    epsilon: float | None = None,
    folder: str | Path = ".",
) -> EvaluationPlan:
    """Return the price and expected errors of `evaluate_study` with these arguments; charges nothing."""
    run = Run.of(study, QueryContext(ledger, folder), *unsaved_cost(model))
    request, account = request_of(run, model, epsilon), paying_account(study, ledger)
    return planned(request.query, request.evaluated_model(), request.grouping, account)


def planned(
    query: EvaluationQuery, evaluated: EvaluatedModel, grouping: Grouping | None, account: Account | None
) -> EvaluationPlan:
    """Return the price and expected errors of an evaluation and, unless it would be good, a sentence on which ε,
    within what `account` has left (None: any), would make it so.
    """
    price, expected = query.plan(evaluated.unlisted), expected_errors(query, evaluated, grouping)
    if expected.verdict == "good":
        return EvaluationPlan(price, expected)
    public, nth = evaluated.public, 1 + len(evaluated.public.truth) // MAX_PUBLIC_RECORDS
    some = replace(evaluated, public=replace(public, truth=public.truth[::nth], outcome=public.outcome[::nth]))

    def is_good(epsilon: float) -> bool:
        return expected_errors(replace(query, epsilon=epsilon), some, grouping).verdict == "good"

    return EvaluationPlan(price, expected, enough(is_good, query.epsilon, account))


def evaluate_study(
    study: StudySpec,
    *,
    ledger: PrivacyLedger,
    model: str | Path | None = None,
    epsilon: float | None = None,
    folder: str | Path = ".",
    source: NoiseSource | None = None,
) -> EvaluationResult:
    """Evaluate the saved `model`, or (None) the released one, for one spend, or read back the recorded release.

    Args:
        study: as written; its [evaluation] says what is asked.
        ledger: where budgets are.
        model: the folder of a saved final model; the model that the study released where None.
        epsilon: ε of the report, instead of evaluation.epsilon.
        folder: the folder that the study's data paths are relative to.
        source: where noise comes from; the operating system unless a test says otherwise.

    Raises:
        StudyInvalid: the study released no model yet, or it cannot be evaluated; nothing was charged.
        BudgetRefused, AssumptionNotAccepted: nothing was charged.
        Sealed: something failed on sensitive data; nothing of it is told, and a rerun continues.
    """
    run = Run.of(study, QueryContext(ledger, folder, source or OS_NOISE), *unsaved_cost(model))
    opened = open_evaluation(run, model=model, epsilon=epsilon)
    return opened if isinstance(opened, EvaluationResult) else opened.finish(run.context)


def run_and_evaluate(
    study: StudySpec, *, ledger: PrivacyLedger, folder: str | Path = ".", source: NoiseSource | None = None
) -> tuple[StudyResult, EvaluationResult]:
    """As `run_study`, then `evaluate_study` of what was released; both are reserved before either begins."""
    ready = ready_study(Run.of(study, QueryContext(ledger, folder, source or OS_NOISE)))
    opened = ready if isinstance(ready, ReplayedStudy) else ready.charge(own_evaluation(ready))
    return opened.run(), evaluate_study(study, ledger=ledger, folder=folder, source=source)


def check_evaluation(run: Run, *, model: str | Path | None = None, epsilon: float | None = None) -> None:
    """Refuse, before anything is trained, an evaluation that the study's text, headers or budget rule out.

    If an evaluation of that name and edition was charged before, the budget's room is not checked again.
    """
    from dpbo_core.report.comparison import accepted_by
    from dpbo_core.report.comparison_query import query_of

    study, problem = run.spec, run.problem
    query, kind = query_of(study, problem, epsilon), COMPARISON if study.compares else KIND
    if model is None and run.ledger.study_as_released(study.privacy.dataset, study.name, study.edition) is None:
        raise not_released(study, run.ledger)
    halves_of(study, run.folder).check_headers(problem)
    if run.ledger.editions(f"{study.name}/{kind}", edition=query.edition):
        return
    unlisted = problem.unlisted if model is None else ""
    price = query.plan(unlisted)
    check_accepted(accepted_by(study), price, unlisted)
    run.ledger.check_room(query.priced(query.key("", None), price, identified_sources(study, run.folder)))


def open_evaluation(
    run: Run, *, model: str | Path | None = None, epsilon: float | None = None
) -> "OpenEvaluation | OpenComparison | EvaluationResult":
    """Prepare an evaluation (model trained, price known, nothing charged); if recorded already, its result.

    Where [evaluation] names a champion, it is a comparison.
    """
    if run.spec.compares:
        from dpbo_core.report.comparison import OpenComparison

        opened = OpenComparison.of(run, model, epsilon)
        return opened.recorded(run.context) or opened
    return open_request(request_of(run, model, epsilon), run.context)


def recorded_report(
    run: Run, *, model: str | Path | None = None, epsilon: float | None = None
) -> EvaluationResult | None:
    """The recorded result of an evaluation with these inputs; None if there is none, or a repair is requested."""
    study = run.spec
    if study.evaluation is not None and study.evaluation.repair:  # its model is trained again, to be repaired
        return None
    kind = COMPARISON if study.compares else KIND
    if all(edition.release is None for edition in run.ledger.editions(f"{study.name}/{kind}")):
        return None
    if study.compares:
        from dpbo_core.report.comparison import OpenComparison

        return OpenComparison.of(run, model, epsilon).recorded(run.context)
    request = request_of(run, model, epsilon)
    release = replay(request.key, run.context)
    return None if release is None else _read(request.query, release, replayed=True)


def open_request(request: EvaluationRequest, context: QueryContext) -> "OpenEvaluation | EvaluationResult":
    """Prepare a requested evaluation (model trained, nothing charged); if it is recorded already, its result."""
    query, release = request.query, replay(request.key, context)
    if release is not None:
        recorded = _read(query, release, replayed=True)
        return _repaired(request, request.evaluated_model(), recorded) if query.section.repair else recorded
    evaluated = request.evaluated_model()
    price = query.plan(evaluated.unlisted)
    check_accepted(query.spec.accepts, price, evaluated.unlisted)
    expected = expected_errors(query, evaluated, request.grouping)
    counter = evaluated.counter(expected.edges, request.grouping, query.spec.model)
    request.table.split.check(request.public)
    check_header(query, request.table, request.public, request.grouping, evaluated.columns)
    rehearse_draws(query.draws(counter.size))
    return OpenEvaluation(request, evaluated, counter, EvaluationPlan(price, expected))


@dataclass(frozen=True, eq=False, repr=False)
class OpenEvaluation:
    """An evaluation of which all that is public is done: its model is trained, its price known, nothing charged."""

    request: EvaluationRequest
    evaluated: EvaluatedModel
    counter: Counter
    plan: EvaluationPlan

    @property
    def query(self) -> PrivateQuery:
        """What is charged: the evaluation at its price, and why its plan expects mostly noise if it does."""
        request, plan = self.request, self.plan
        sources, size = request.table.split.sources(), self.counter.size
        return request.query.priced(request.key, plan.price, sources, size, plan.expected.warning)

    def finish(self, context: QueryContext) -> EvaluationResult:
        """Charge the price, count the records, add noise and record the release: the evaluation's result."""
        request, query, cells = self.request, self.request.query, self.counter.cells
        priced, edges = self.query, json.dumps(cells.edges)
        charge = charged(priced, context)
        ((spend, mechanism),) = priced.draws
        outcome = charge.draw(
            spend,
            mechanism,
            lambda: request.table.count(self.counter, context.workers),
            message=messages(*request.table.tells),
            edges=edges,
        )
        table = sealed(lambda: table_of(outcome, self.evaluated, query, request.grouping))
        unrecorded = sealed(lambda: priced.release(report(table), charge.standing, self._facts(table)))
        release = charge.conclude(unrecorded)
        result = _read(query, release, replayed=False)
        return _repaired(request, self.evaluated, result) if query.section.repair else result

    def _facts(self, table: NoisedTable) -> dict[str, Any]:
        problem, model, expected = self.request.query.problem, self.evaluated.model, self.plan.expected
        chosen_here = isinstance(self.request.model, Release)  # these records helped to choose the model
        return {
            "model": "released" if chosen_here else "of a file",
            "model_digest": self.request.digest,
            "estimator": type(model.estimator if isinstance(model, FittedEstimator) else model).__name__,
            "score": problem.model.score_name,
            **averaged_facts(problem),
            **({"bins": len(table.kind.to_json()["edges"]) + 1} if table.kind.has_bins else {}),
            **expected.facts,
            "expected": {name: plain_json(error) for name, error in expected.errors.items()},
            "verdict": expected.verdict,
            "optimism": OPTIMISM_WARNING if chosen_here else UNKNOWN_ORIGIN_WARNING,
            "sampling": f"as if the counted {problem.counted} were independent draws",
        }


def table_of(
    drawn: Mapping[str, Any], evaluated: EvaluatedModel, query: EvaluationQuery, grouping: Grouping | None
) -> NoisedTable:
    """Return the noisy histogram in a recorded outcome `drawn`, with the bin edges recorded then."""
    return NoisedTable(
        n_records=query.problem.n_averaged,
        scale=query.scale,
        kind=evaluated.kind.of(evaluated.public, tuple(json.loads(drawn["edges"]))),
        groups=() if grouping is None else grouping.names,
        drawn=tuple(drawn["draw"]),
        weight=query.weight,
    )


def _repaired(request: EvaluationRequest, evaluated: EvaluatedModel, result: EvaluationResult) -> EvaluationResult:
    query = request.query
    query.check_kind(evaluated.kind)
    noised = NoisedTable.from_json(result.release.value["table"], evaluated.kind)
    mended = repair(noised, evaluated.public, query.section.threshold)
    if mended.is_unchanged(noised):
        return replace(result, repair=mended)
    loss = request.model.loss if isinstance(request.model, FinalModel) else query.spec.model.loss
    return replace(result, repair=mended, repaired_model=repaired_model(evaluated, mended, loss))


def _read(query: EvaluationQuery, release: Release, *, replayed: bool) -> EvaluationResult:
    section, best = query.section, None
    if section.false_positive_cost is not None or section.prevalence is not None:
        query.check_kind(CELL_KINDS[release.value["table"].get("kind")])
        best = best_threshold(
            release.value,
            false_positive=section.false_positive_cost or 1.0,
            false_negative=section.false_negative_cost or 1.0,
            prevalence=section.prevalence,
        )
    return EvaluationResult(release, replayed=replayed, best_threshold=best)
