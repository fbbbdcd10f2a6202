"""A study's model evaluated: reserve, count once, noise once, and the whole report from what was released.

    evaluate_study(spec, ledger=…)       the released model, or another public one; asked again, the same release
    open_evaluation(spec, ledger=…)      the same in pieces, for a scheduler: .plan, then .finish(ledger)
    plan_evaluation(spec, ledger=…)      the price and what to expect of it; no sensitive file is opened

Reserving comes before any record's content is used; the draw is recorded before it is shown, with the edges of its
bins, so that whoever goes on after a kill reads it as it was made.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpbo_core.errors import DpboError, LedgerDamaged
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.policy import Use
from dpbo_core.mechanisms.noise import Noise, NoiseSource, OperatingSystemNoise, standing_of, try_out
from dpbo_core.preparation.data_split import allows_own_score, public_half, public_sources
from dpbo_core.preparation.preconditions import check_accepted, check_public_sources, opening_cap
from dpbo_core.preparation.resolve import resolve
from dpbo_core.preparation.training_set import training_digest
from dpbo_core.privacy.plan import PrivacyPlan
from dpbo_core.privacy.release import Release
from dpbo_core.privacy.sealing import messages, sealed
from dpbo_core.queries.evaluation import KIND
from dpbo_core.queries.evaluation.binary import best_threshold
from dpbo_core.queries.evaluation.counting import Counter
from dpbo_core.queries.evaluation.evaluated_model import KINDS, EvaluatedModel, read_model
from dpbo_core.queries.evaluation.evaluation_release import edges_as_integers, release_of, table_of
from dpbo_core.queries.evaluation.query import EvaluationQuery
from dpbo_core.queries.evaluation.report_kind import ExpectedErrors
from dpbo_core.queries.evaluation.request import (
    EvaluationRequest,
    check_header,
    digest_of_released,
    expected_errors,
    last_step,
    request_of,
    warn,
)
from dpbo_core.queries.tuning.run import StudyResult, StudyRun, open_study, padded
from dpbo_core.scoring.partitioned import Workers
from dpbo_core.study_file import SensitiveData, StudySpec
from dpbo_core.versions import library_version


@dataclass(frozen=True)
class EvaluationPlan:
    """The price, and what to expect of it, before anything is spent."""

    price: PrivacyPlan
    expected: ExpectedErrors


@dataclass(frozen=True)
class EvaluationResult:
    """What an evaluation gives back.

    Attributes:
        release: as it was recorded; its value is the report.
        replayed: whether it had been released before, and nothing was drawn now.
        best_threshold: for the costs and the prevalence that the study states now; None where it states none.
    """

    release: Release
    replayed: bool
    best_threshold: Mapping[str, Any] | None


def plan_evaluation(
    study: StudySpec,
    *,
    ledger: PrivacyLedger,
    model: str | Path | None = None,
    epsilon: float | None = None,
    folder: str | Path = ".",
) -> EvaluationPlan:
    """The price of an evaluation and its expected errors, from public facts alone. Charges nothing.

    Args, Raises: as `evaluate_study`.
    """
    request = request_of(study, ledger, model, epsilon, folder)
    evaluated = request.evaluated_model()
    price = request.query.plan(evaluated.unlisted)
    return EvaluationPlan(price, expected_errors(request.query, evaluated, request.grouping))


def evaluate_study(
    study: StudySpec,
    *,
    ledger: PrivacyLedger,
    model: str | Path | None = None,
    epsilon: float | None = None,
    folder: str | Path = ".",
    source: NoiseSource | None = None,
    pad: float = 0.0,
    owner: bool = True,
) -> EvaluationResult:
    """Evaluate a model on the study's sensitive records, for one spend; or find the release that was recorded.

    Args:
        study: as written; its [evaluation] says what is asked.
        ledger: where budgets are kept.
        model: the folder of a saved final model; the model that the study released where None.
        epsilon: ε of the report, in the place of evaluation.epsilon.
        folder: the folder that the study's data paths are relative to.
        source: where noise comes from; the operating system unless a test says otherwise.
        pad: seconds; the whole takes a whole number of them, so that its duration tells less.
        owner: whether the data's owner asks; not so for what Prefect starts.

    Raises:
        StudyInvalid: the study released no model yet, or it cannot be evaluated; nothing was charged.
        BudgetRefused, AssumptionNotAccepted: nothing was charged.
        Sealed: something failed on sensitive data; nothing of it is told, and a rerun continues.
    """
    with padded(pad):
        opened = open_evaluation(study, ledger=ledger, model=model, epsilon=epsilon, folder=folder)
        if isinstance(opened, EvaluationResult):
            return opened
        warn(opened.plan.expected.warning)
        return opened.finish(ledger, source, owner=owner)


def run_and_evaluate(
    study: StudySpec,
    *,
    ledger: PrivacyLedger,
    folder: str | Path = ".",
    source: NoiseSource | None = None,
    owner: bool = True,
) -> tuple[StudyResult, EvaluationResult]:
    """Tune, then evaluate what was released; the price of both is reserved before either begins.

    Args, Raises: as `run_study` and `evaluate_study`.
    """
    resolved = resolve(study, folder)
    also = last_step(resolved, folder)
    run = open_study(resolved, ledger=ledger, folder=folder, source=source, owner=owner, also=also)
    if isinstance(run, StudyRun):
        for _ in range(run.n_steps):
            run.step()
    return run.finish(), evaluate_study(study, ledger=ledger, folder=folder, source=source, owner=owner)


def open_evaluation(
    study: StudySpec,
    *,
    ledger: PrivacyLedger,
    model: str | Path | None = None,
    epsilon: float | None = None,
    folder: str | Path = ".",
) -> "OpenEvaluation | EvaluationResult":
    """Everything that can be refused or can fail, from public facts alone; or the release that was recorded.

    Args, Raises: as `evaluate_study`. Nothing is charged.
    """
    return open_request(request_of(study, ledger, model, epsilon, folder), ledger)


def recorded_report(
    study: StudySpec,
    *,
    ledger: PrivacyLedger,
    model: str | Path | None = None,
    epsilon: float | None = None,
    folder: str | Path = ".",
) -> EvaluationResult | None:
    """The report that this very query has already, from the ledger; None where it has none.

    Of the data only the PUBLIC training set is read, as for a study's own replay; nothing is trained, and it is
    encoded only where a report is by groups, which may be those of the encoding. Where no public file says what the
    groups are, it is left to `open_evaluation`.

    Args, Raises: as `evaluate_study`.
    """
    if all(found.release is None for found in ledger.editions(f"{study.name}/{KIND}")):
        return None
    check_public_sources(public_sources(study, folder), ledger)
    resolved = resolve(study)
    query, grouping = EvaluationQuery.of(study, resolved.problem, epsilon), None
    if isinstance(study.data, SensitiveData) and (model is not None or query.section.group is not None):
        return None
    if model is not None:
        final, digest = read_model(model)
        grouping = query.grouping(final.preprocessing)
    elif query.section.group is None:
        digest = digest_of_released(resolved.key(training_digest(study, folder)))
    else:
        public = public_half(study, folder, resolved.problem, own_score=allows_own_score(study, ledger))
        digest = digest_of_released(resolved.key(public.fingerprint))
        grouping = query.grouping(public.preprocessing)
    release = ledger.release_of(query.key(digest, grouping).fingerprint)
    if release is None:
        return None
    return EvaluationResult(release, replayed=True, best_threshold=_best(query, release))


def open_request(request: EvaluationRequest, ledger: PrivacyLedger) -> "OpenEvaluation | EvaluationResult":
    """Everything of a request that can be refused or can fail, wherever its tables are.

    Raises: as `open_evaluation`.
    """
    library_version()
    query, replay = request.query, ledger.release_of(request.key.fingerprint)
    if replay is not None:
        return EvaluationResult(replay, replayed=True, best_threshold=_best(query, replay))
    evaluated = request.evaluated_model()
    price = query.plan(evaluated.unlisted)
    check_accepted(query.spec, price, evaluated.unlisted)
    expected = expected_errors(query, evaluated, request.grouping)
    counter = evaluated.counter(expected.edges, request.grouping, enforced=query.spec.model.enforced)
    request.table.split.check(request.public)
    check_header(query, request.table, request.public, request.grouping, evaluated.columns)
    try_out(query.draws(counter.size))
    return OpenEvaluation(request, evaluated, counter, EvaluationPlan(price, expected))


@dataclass(frozen=True, eq=False, repr=False)
class OpenEvaluation:
    """An evaluation of which all that is public is done: its model is trained, its price known, nothing charged."""

    request: EvaluationRequest
    evaluated: EvaluatedModel
    counter: Counter
    plan: EvaluationPlan

    def finish(
        self,
        ledger: PrivacyLedger,
        source: NoiseSource | None = None,
        *,
        pad: float = 0.0,
        owner: bool = True,
        workers: Workers | None = None,
    ) -> EvaluationResult:
        """Reserve, then count and draw; the release, recorded.

        Args, Raises: as `evaluate_study`; `workers` count the parts of a partitioned validation set, this process
            unless said otherwise.
        """
        with padded(pad):
            release = self._released(ledger, source or OperatingSystemNoise(), workers, owner=owner)
            return EvaluationResult(release, replayed=False, best_threshold=_best(self.request.query, release))

    def _released(
        self, ledger: PrivacyLedger, source: NoiseSource, workers: Workers | None, *, owner: bool
    ) -> Release:
        request, query, spec = self.request, self.request.query, self.request.query.spec
        counter, plan, draws = self.counter, self.plan, self.request.query.draws(self.counter.size)
        reservation = ledger.reserve(
            request.key,
            plan.price,
            noise=standing_of(source),
            opening=opening_cap(spec),
            max_records_per_person=spec.privacy.max_records_per_person,
            use=Use(request.table.split.sources(), owner),
        )
        noise = Noise(source, reservation)
        ((spend, mechanism),) = draws
        drawn = sealed(lambda: noise.recorded(spend))
        if drawn is None:
            sealed(lambda: noise.prepare_draws(draws))
            counts = sealed(lambda: request.table.count(counter, workers), message=messages(*request.table.tells))
            drawn = sealed(
                lambda: noise.release(spend, mechanism, counts, **edges_as_integers(counter.cells.edges))
            )
        table = sealed(lambda: table_of(drawn, self.evaluated, query, request.grouping))
        chosen_here = isinstance(request.model, Release)
        release = sealed(
            lambda: release_of(
                query, plan.price, noise, self.evaluated, plan.expected, table, chosen_here=chosen_here
            )
        )
        return sealed(lambda: reservation.conclude(release), message=messages(DpboError, LedgerDamaged))


def _best(query: EvaluationQuery, release: Release) -> Mapping[str, Any] | None:
    section = query.section
    if section.false_positive_cost is None and section.prevalence is None:
        return None
    query.check_kind(KINDS[release.value["table"].get("kind")])
    return best_threshold(
        release.value,
        false_positive=section.false_positive_cost or 1.0,
        false_negative=section.false_negative_cost or 1.0,
        prevalence=section.prevalence,
    )
