"""`dpbo evaluate`: the released model, or a saved one, evaluated on the sensitive records for one spend."""

import math
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from dpbo.flows.cli.release_screen import evaluated_json, print_next, print_report
from dpbo.flows.cli.running import ledger_here, mlflow_lookup, own_ledger, run_here
from dpbo.flows.cli.studies import released_study, study_of_one_run
from dpbo.flows.cli.terminal import Screen, named, print_result
from dpbo.flows.cli.words import Study, check_padding
from dpbo.flows.prefect_runtime.settings import quiet_environment
from dpbo.flows.results import Evaluated
from dpbo.flows.stores import Stores
from dpbo_core.accounting.account import Account
from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.preparation.run import Run
from dpbo_core.privacy.unit import NeighboringRelation
from dpbo_core.queries.evaluation import KIND
from dpbo_core.queries.evaluation.run import EvaluationPlan, check_evaluation, plan_evaluation, recorded_report
from dpbo_core.study_file import EvaluationSection, StudySpec


def evaluate(
    study: Study,
    epsilon: Annotated[
        float | None, typer.Option(help="ε of the report, in the place of the study's [evaluation].")
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A saved public model, not the study's own: its folder, or MLflow's."),
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Mend its probabilities and threshold from the report, at no price.")
    ] = False,
    threshold: Annotated[
        str | None, typer.Option(help="With --repair: cost=10:1 (a miss, a false alarm) or recall=0.9.")
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Say the price and what to expect; charges nothing.")
    ] = False,
    pad_steps: Annotated[float, typer.Option(help="The counting takes a whole number of so many seconds.")] = 0.0,
    register: Annotated[
        bool,
        typer.Option("--register", help="Let it be MLflow's champion where what is released says it is better."),
    ] = False,
) -> None:
    """Evaluate the released model on the sensitive records: ROC, calibration, groups, from one spend."""
    if plan:
        expected = planned(study, epsilon=epsilon, model=model)
        print_result(lambda: expected_json(expected), lambda: print_expected(expected))
        return
    mend = EvaluationSection(repair=True, threshold=threshold) if repair or threshold is not None else None
    evaluated, account = run(
        study, epsilon=epsilon, model=model, time_quantum=pad_steps, register=register, mend=mend
    )

    result, tracked = evaluated.result, evaluated.tracked

    def screen() -> None:
        print_report(result, tracked, account, champion=evaluated.champion)
        print_next(result.release)

    print_result(
        lambda: evaluated_json(result, tracked) | ({"champion": evaluated.champion} if register else {}), screen
    )


def run(
    path: Path,
    *,
    epsilon: float | None = None,
    model: Path | None = None,
    time_quantum: float = 0.0,
    register: bool = False,
    mend: EvaluationSection | None = None,
) -> tuple[Evaluated, Account]:
    """The report of the study in `path`, recorded or paid for now in a Prefect flow; and its dataset's account.

    `mend` asks for the model's repair too, and states its threshold.
    What could not be published is told on standard error; the report stands.

    Raises:
        DpboError: as a message. StudyInvalid: the study is not tuned yet, among others.
    """
    check_padding(time_quantum)
    if register and model is not None:
        raise StudyInvalid(
            "--register is for the model that the study released",
            cause="a model of a file is no version of the registered model",
            remedy="leave --model out, or --register",
        )

    study, folder = _read(path, model)
    if mend is not None:
        section = replace(study.evaluation or mend, repair=True)
        study = replace(study, evaluation=replace(section, threshold=mend.threshold or section.threshold))
    quiet_environment()
    replay = reported(study, folder, epsilon=epsilon, model=model)
    if replay is not None:
        return replay
    check_evaluation(study, Run(own_ledger(), folder), model=model, epsilon=epsilon)
    before, saved = _report_ids(study), None if model is None else str(model)

    def flow() -> Callable[..., Evaluated]:
        from dpbo.flows.evaluate import evaluate_privately

        return evaluate_privately

    return run_here(
        study, flow, (study, folder, epsilon, saved, time_quantum, register), lambda: _recorded(study, before)
    )


def planned(path: Path, *, epsilon: float | None = None, model: Path | None = None) -> EvaluationPlan:
    """An evaluation's price with its expected errors, from public files and the ledger. Charges nothing."""
    study, folder = _read(path, model)
    return plan_evaluation(
        study, ledger=PrivacyLedger(Stores().ledger), model=model, epsilon=epsilon, folder=folder
    )


def reported(
    study: StudySpec, folder: str, *, epsilon: float | None = None, model: Path | None = None
) -> tuple[Evaluated, Account] | None:
    """The recorded report of an evaluation that MLflow shows already, and its dataset's account; None without.

    Raises:
        StudyInvalid: it cannot be asked so, or public data cannot be read.
        LedgerDamaged: the ledger cannot be read.
    """
    if ledger_here() is None:
        return None
    ledger = own_ledger()
    result = recorded_report(study, Run(ledger, folder), model=model, epsilon=epsilon)
    tracked = None if result is None else mlflow_lookup(result.release)
    if result is None or tracked is None:
        return None
    (account,) = ledger.accounts(study.privacy.dataset)
    return Evaluated(result, tracked), account


def _read(path: Path, model: Path | None) -> tuple[StudySpec, str]:
    """The study in `path` and its folder; without a saved `model` refused where there is no ledger here.

    Raises:
        StudyInvalid: it cannot be read; or there is no ledger here, so that it has released nothing.
    """
    remedy = "run dpbo tune first, change to the folder that holds mlruns, or name a saved model (--model)"
    study = released_study(path, remedy=remedy) if model is None else study_of_one_run(path)
    return study, os.path.relpath(str(path.parent))


def _report_ids(study: StudySpec) -> set[str]:
    """The ids of the recorded releases of the study's evaluations."""
    ledger = ledger_here()
    if ledger is None:
        return set()
    editions = ledger.editions(f"{study.name}/{KIND}", dataset=study.privacy.dataset)
    return {item.release_id for item in editions if item.release is not None}


def _recorded(study: StudySpec, before: set[str]) -> tuple[str, str] | None:
    """A sentence about a report whose id is not in `before`, and how to go on; None if there is none."""
    new = _report_ids(study) - before
    if not new:
        return None
    return (
        f"the evaluation of study {study.name!r} is recorded",
        f"dpbo show {min(new)} prints it; the same command again publishes it and spends nothing",
    )


def print_expected(plan: EvaluationPlan) -> None:
    """Print the price of an evaluation, its expected errors, and whether it is worth its price."""
    screen, expected = Screen(), plan.expected
    by_person = plan.price.guarantee.relation is NeighboringRelation.REPLACE_ONE_PERSON
    (spend,) = plan.price.spends
    bins = f" in {len(expected.edges) + 1} bins" if expected.edges else ""
    screen.say("Nothing was charged, and no sensitive record was read.\n")
    screen.facts(
        [
            (
                "verdict",
                f"[bold]{expected.verdict}[/]: {named('; '.join(filter(None, (expected.why, plan.enough))))}",
            ),
            ("guarantee", named(plan.price.guarantee.in_words())),
            (
                "noise",
                f"1 draw; {named(spend.mechanism)}, scale {spend.noise_scale:.3g} in each cell, in "
                + ("persons" if by_person else "records"),
            ),
            ("cells", f"{expected.n_cells}{bins}, from public facts"),
        ]
    )


def expected_json(plan: EvaluationPlan) -> dict[str, Any]:
    """An evaluation's price and expected errors, as the JSON object of `dpbo evaluate --plan --json`."""
    expected = plan.expected
    return {
        "guarantee": plan.price.guarantee.to_json(),
        "spends": [spend.to_json() for spend in plan.price.spends],
        "cells": expected.n_cells,
        **({"bins": len(expected.edges) + 1} if expected.edges else {}),
        **expected.facts,
        **{name: error if math.isfinite(error) else None for name, error in expected.errors.items()},
        "verdict": expected.verdict,
        "why": expected.why,
        **({"enough": plan.enough} if plan.enough else {}),
    }
