"""What `dpbo evaluate` does, between its words and its screen."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from dpbo.flows.cli.commands import check_padding, run_here
from dpbo.flows.cli.replays import reported
from dpbo.flows.cli.screens.error_message import print_warnings
from dpbo.flows.cli.show import is_there
from dpbo.flows.prefect_runtime.requested_study import refuse_fields
from dpbo.flows.prefect_runtime.settings import Stores, quiet_environment
from dpbo_core.accounting.accounts import Account
from dpbo_core.accounting.ledger import PrivacyLedger
from dpbo_core.errors import DpboError, StudyInvalid
from dpbo_core.evaluation import KIND
from dpbo_core.study.study_file import read_study

if TYPE_CHECKING:
    from dpbo.flows.evaluated import Evaluated
    from dpbo_core.evaluation.run import EvaluationPlan
    from dpbo_core.spec import StudySpec


def evaluate(
    path: Path,
    *,
    epsilon: float | None = None,
    model: Path | None = None,
    pad: float = 0.0,
    register: bool = False,
) -> "tuple[Evaluated, Account]":
    """Evaluate the study in `path` as a Prefect flow; the report, and its dataset's account afterwards.

    Of a report that was released and is shown already nothing is run.
    What could not be published is told on standard error; the report stands.

    Raises:
        DpboError: as a message. StudyInvalid: the study is not tuned yet, among others.
    """
    check_padding(pad)
    if register and model is not None:
        raise StudyInvalid(
            "--register is for the model that the study released",
            cause="a model of a file is no version of the registered model",
            remedy="leave --model out, or --register",
        )
    study, folder = _asked(path, model)
    quiet_environment()
    known = reported(study, folder, epsilon=epsilon, model=model)
    if known is not None:
        return known
    before, saved = _reports(study), None if model is None else str(model)

    def flow() -> "Evaluated":
        from dpbo.flows.evaluate import evaluate_privately

        return evaluate_privately(study, folder, epsilon, saved, pad, register)

    evaluated = run_here(study.name, flow, lambda what: _recorded_all_the_same(study, before, what))
    print_warnings(evaluated.warnings)
    (account,) = PrivacyLedger(Stores().ledger).accounts(study.privacy.dataset)
    return evaluated, account


def plan(path: Path, *, epsilon: float | None = None, model: Path | None = None) -> "EvaluationPlan":
    """The price of an evaluation and what to expect of it, from public files and the ledger. Charges nothing."""
    study, folder = _asked(path, model)
    from dpbo_core.evaluation.run import plan_evaluation

    return plan_evaluation(
        study, ledger=PrivacyLedger(Stores().ledger), model=model, epsilon=epsilon, folder=folder
    )


def _asked(path: Path, model: Path | None) -> "tuple[StudySpec, str]":
    """The study and its folder.

    Raises:
        StudyInvalid: it cannot be read; or there is no ledger here, so that it has released nothing.
    """
    study = read_study(path)
    refuse_fields(study)
    if model is None and not is_there(Stores().ledger):
        raise StudyInvalid(
            f"there is no ledger here, so the study {study.name!r} has released no model yet",
            cause="it is not tuned, or another folder's ledger was meant",
            remedy="run dpbo tune first, change to the folder that holds mlruns, or name a saved model (--model)",
        )
    return study, os.path.relpath(str(path.parent))


def _reports(study: "StudySpec") -> set[str]:
    """The releases of the study's evaluations that the ledger here has."""
    if not is_there(Stores().ledger):
        return set()
    found = PrivacyLedger(Stores().ledger).editions(f"{study.name}/{KIND}", dataset=study.privacy.dataset)
    return {item.release_id for item in found if item.release is not None}


def _recorded_all_the_same(study: "StudySpec", before: set[str], what: str) -> DpboError | None:
    """The message where a run ended in an error, `what`, after its report was recorded; None if it was not."""
    new = _reports(study) - before
    if not new:
        return None
    return DpboError(
        f"the evaluation of study {study.name!r} is recorded, and Prefect failed after it ({what})",
        cause="Prefect's server or its database went away before it was told that the run was over",
        remedy=f"dpbo show {min(new)} prints it; the same command again publishes it and spends nothing",
    )
