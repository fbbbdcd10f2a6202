"""`dpbo evaluate`: the released model, or a saved one, evaluated on the sensitive records for one spend."""

import math
import os
from pathlib import Path
from typing import Any

from dpbo.flows.cli.release_screen import evaluated_json, print_next, print_registered, print_report
from dpbo.flows.cli.running import (
    account_after,
    flows_here,
    mlflow_lookup,
    own_ledger,
    prefect_failed,
    released_study,
    study_of_one_run,
)
from dpbo.flows.prefect_runtime.flow_runs import quiet_environment
from dpbo.flows.private_flow import MODEL_ADDRESSES, Evaluated, local_champion
from dpbo.flows.stores import Stores
from dpbo.flows.terminal import Screen, named, print_result
from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.accounting.account import Account
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.privacy.guarantee import NeighboringRelation
from dpbo_core.report import COMPARISON, KIND
from dpbo_core.report.comparison import OpenComparison
from dpbo_core.report.evaluation import EvaluationPlan, check_evaluation, plan_evaluation, recorded_report
from dpbo_core.report.request import unsaved_cost
from dpbo_core.study import EvaluationSection, StudySpec
from dpbo_core.study.query import IfUseless, QueryContext
from dpbo_core.study.run import Run
from dpbo_core.study.sections import COLUMN


def evaluate(
    study: Path,
    *,
    epsilon: float | None,
    model: Path | None,
    repair: bool,
    threshold: str | None,
    against: str | None,
    register: bool,
    plan: bool,
    anyway: bool,
) -> None:
    """Print the report of the released model, recorded or paid for now, or with `plan` what it would cost.

    `repair` also requests the model's repair; `against` replaces the champion of the study's [evaluation]. A failed
    publication is printed on standard error; the report is valid.
    """
    spec, folder = _read(study, model, anyway=anyway)
    if plan:
        _print_plan(_compared(spec, folder, against, register=register), folder, epsilon, model)
        return
    if repair or threshold is not None:
        section = (spec.evaluation or EvaluationSection()).replace(repair=True)
        spec = spec.replace(evaluation=section.replace(threshold=threshold or section.threshold))
    quiet_environment()
    with local_champion(_compared(spec, folder, against, register=register)) as spec:
        context = QueryContext(own_ledger(), folder, if_useless=IfUseless.REFUSE)
        run = Run.of(spec, context, *unsaved_cost(model))
        replay = None if register else reported(run, epsilon=epsilon, model=model)
        evaluated, account = replay or _evaluated(run, epsilon, model, register=register)
    result, tracked = evaluated.result, evaluated.tracked

    def screen() -> None:
        document = print_report(result, tracked, account)
        if tracked is not None and tracked.model_uri:
            print_registered(tracked.model_uri)
        print_next(document, study, repaired=result.repair is not None)

    print_result(lambda: evaluated_json(result, tracked), screen)


def _evaluated(run: Run, epsilon: float | None, model: Path | None, *, register: bool) -> tuple[Evaluated, Account]:
    check_evaluation(run, model=model, epsilon=epsilon)
    before, named_model = _report_ids(run), None if model is None else str(model)
    try:
        with flows_here(run.spec.name):
            from dpbo.flows.evaluate import evaluate_run

            evaluated = evaluate_run(run, epsilon=epsilon, model=named_model, register=register)
    except Exception as error:  # noqa: BLE001  what Prefect raises is of no kind of ours
        raise prefect_failed(error, _recorded(run, before)) from None
    return evaluated, account_after(run.spec, evaluated.warnings)


def _compared(study: StudySpec, folder: str, against: str | None, *, register: bool) -> StudySpec:
    """Return the study with the command's champion in its [evaluation]; a folder is relative to where it runs."""
    section = study.evaluation or EvaluationSection()
    if against is not None and not against.startswith((COLUMN, *MODEL_ADDRESSES)):
        against = os.path.relpath(against, folder)
    champion = against or section.against
    if champion is not None:
        return study.replace(evaluation=section.replace(against=champion))
    if register:
        raise StudyInvalid(
            "there is no champion to compare with", remedy="add --against, or against to [evaluation]"
        )
    return study


def _print_plan(study: StudySpec, folder: str, epsilon: float | None, model: Path | None) -> None:
    """Print what an evaluation or a comparison costs and what to expect of it. Charges nothing."""
    ledger = PrivacyLedger(Stores().ledger)
    if not study.compares:
        expected = plan_evaluation(study, ledger=ledger, model=model, epsilon=epsilon, folder=folder)
        print_result(lambda: expected_json(expected), lambda: print_expected(expected))
        return
    with local_champion(study) as study:
        run = Run.of(study, QueryContext(ledger, folder), *unsaved_cost(model))
        opened = OpenComparison.of(run, model, epsilon)
        print_result(opened.expected_json, lambda: print_power(opened))


def print_power(opened: OpenComparison) -> None:
    """Print the price of a comparison and the least difference that it can show."""
    screen, expected = Screen(), opened.expected_json()
    screen.say("Nothing was charged, and no sensitive record was read.\n")
    screen.facts(
        [
            ("can show", named(opened.power_in_words)),
            ("guarantee", named(opened.query.plan.guarantee.in_words())),
            ("noise", f"1 draw of {opened.ask.n_sums} sums; {named(expected['spends'][0]['mechanism'])}"),
        ]
    )


def reported(
    run: Run, *, epsilon: float | None = None, model: Path | None = None
) -> tuple[Evaluated, Account] | None:
    """The recorded report of an evaluation that MLflow shows already, and its dataset's account; None without."""
    result = recorded_report(run, model=model, epsilon=epsilon)
    tracked = None if result is None else mlflow_lookup(result.release)
    if result is None or tracked is None:
        return None
    (account,) = run.ledger.accounts(run.spec.privacy.dataset)
    return Evaluated(result, tracked), account


def _read(path: Path, model: Path | None, *, anyway: bool = False) -> tuple[StudySpec, str]:
    remedy = "run dpbo tune first, change to the folder that holds mlruns, or name a saved model (--model)"
    if model is None:
        study = released_study(path, remedy=remedy, anyway=anyway)
    else:
        study = study_of_one_run(path, anyway=anyway)
    return study, os.path.relpath(str(path.parent))


def _report_ids(run: Run) -> set[str]:
    kind = COMPARISON if run.spec.compares else KIND
    editions = run.ledger.editions(f"{run.spec.name}/{kind}", dataset=run.spec.privacy.dataset)
    return {item.release_id for item in editions if item.release is not None}


def _recorded(run: Run, before: set[str]) -> tuple[str, str] | None:
    new = _report_ids(run) - before
    if not new:
        return None
    return (
        f"the evaluation of study {run.spec.name!r} is recorded",
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
    """Return an evaluation's price and expected errors, as the JSON object of `dpbo evaluate --plan --json`."""
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
