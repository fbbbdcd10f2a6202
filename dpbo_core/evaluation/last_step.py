"""An evaluation as the last step of a study: both are reserved together, or neither is.

The model that a study will release is named by the study's own key, so that its evaluation has a key, and a price,
before the study has begun. Both are charged in one transaction; when the model is there, the evaluation takes its
own reservation over.
"""

from collections.abc import Callable
from pathlib import Path

from dpbo_core.accounting.ledger import PrivacyLedger, StudyKey
from dpbo_core.errors import StudyInvalid
from dpbo_core.evaluation.counting import FileTable
from dpbo_core.evaluation.evaluated_model import model_at
from dpbo_core.evaluation.query import EvaluationQuery
from dpbo_core.evaluation.request import check_header, digest_of_released, expected_errors
from dpbo_core.evaluation.run import EvaluationResult, evaluate_study, warn
from dpbo_core.mechanisms.noise import NoiseSource, try_out
from dpbo_core.privacy.plan import PrivacyPlan
from dpbo_core.spec import StudySpec
from dpbo_core.study.consent import check_accepted
from dpbo_core.study.data_split import FileSplit
from dpbo_core.study.public_half import PublicHalf
from dpbo_core.study.resolve import ResolvedStudy, resolve
from dpbo_core.study.run import Also, StudyResult, StudyRun, open_study


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


def asks_for_evaluation(spec: StudySpec) -> bool:
    """Whether the study has a last step: its [evaluation] states a price."""
    return spec.evaluation is not None and spec.evaluation.epsilon is not None


def last_step(resolved: ResolvedStudy, folder: str | Path, told: Callable[[str], None] = warn) -> Also:
    """What `open_study` reserves beside the study: its evaluation, after everything of it that can be refused was.

    Args:
        resolved: a study with [evaluation].
        folder: the folder that its data paths are relative to.
        told: what the plan warns of, before anything is spent; "" where it does not.
    """

    def also(public: PublicHalf) -> tuple[tuple[StudyKey, PrivacyPlan], ...]:
        spec, problem = resolved.spec, public.problem
        query = EvaluationQuery.of(spec, problem, None)
        if not resolved.method.releases_hyperparameters:
            raise StudyInvalid(
                f"{resolved.method.kind} releases no hyperparameters, so that there is no model to evaluate",
                remedy="leave [evaluation] out, or choose a method that releases hyperparameters",
            )
        grouping = query.grouping(public.preprocessing)
        evaluated = model_at(spec, public, problem.candidates.points[0])  # any of them: which will be, nobody knows
        plan = query.plan(problem.unlisted)
        check_accepted(spec, plan, problem.unlisted)
        check_header(query, FileTable(FileSplit(spec, folder)), public, grouping, evaluated.columns)
        try_out(query.draws(1))
        told(expected_errors(query, evaluated, grouping).warning)
        key = query.key(digest_of_released(resolved.key(public.fingerprint)), grouping)
        return ((key, plan),)

    return also
