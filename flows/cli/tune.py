"""A study from its file to its release: `dpbo tune`, and `dpbo serve` on a schedule."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from dpbo.flows.cli import no_study
from dpbo.flows.cli.release_screen import (
    document_of,
    evaluated_json,
    place,
    print_document,
    print_next,
    print_registered,
    print_report,
    release_json,
    view_hint,
)
from dpbo.flows.cli.running import (
    SKLEARN_MODULES,
    account_after,
    feature_study,
    flows_here,
    mlflow_lookup,
    own_ledger,
    prefect_failed,
    serve_schedule,
    study_of_one_run,
)
from dpbo.flows.prefect_runtime.flow_runs import quiet_environment
from dpbo.flows.private_flow import Tuned, confirm, consent
from dpbo.flows.terminal import PRINTS_JSON, Screen, print_result
from dpbo.tasks.reporting.document import Document
from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.accounting.account import Account
from dpbo_core.privacy.release import StudyResult
from dpbo_core.report.study_price import price_of
from dpbo_core.study import StudySpec
from dpbo_core.study.query import IfUseless, QueryContext
from dpbo_core.study.run import Run
from dpbo_core.study.tuning import check_first

EXAMPLE = Path(__file__).with_name("breast_cancer.toml")


def tune(
    study: Path | None,
    *,
    example: bool,
    register: bool,
    anyway: bool,
    yes: bool,
    new_spend: bool,
    read: StudySpec | None = None,
) -> None:
    """Tune the study, or the bundled one, and print its release. `read` is the study, if it was read."""
    if (study is None) != example:
        raise no_study()
    own = None if study is None else feature_study(study)
    if own is not None:
        own.tune(anyway=anyway)
        return
    path, asks = study or EXAMPLE, not (yes or anyway or PRINTS_JSON.get())
    spec = study_of_one_run(path, anyway=anyway, read=read)
    folder = "." if path == EXAMPLE else os.path.relpath(str(path.parent))  # a bundled set is in no folder
    quiet_environment()
    run = Run.of(spec, QueryContext(own_ledger(), folder, if_useless=IfUseless.REFUSE))
    replay = None if register else replayed(run)
    tuned, account = replay or _tuned(run, register=register, asks=asks, new_spend=new_spend)

    def screen() -> None:
        released, reported = print_tuned(tuned, account)
        print_next(reported or released, path)

    print_result(lambda: tuned_json(tuned), screen)


def serve(
    study: Path, *, cron: str | None, every: str | None, port: int, register: bool, trust_server: bool = False
) -> None:
    """Serve the study on a schedule until its budget refuses."""
    if (cron is None) == (every is None):
        raise StudyInvalid("a schedule needs --cron or --every, and not both", remedy='add --cron "0 2 * * *", say')

    def story(interval: float | None) -> None:
        from dpbo.flows import serve as flow

        schedule = flow.Schedule(cron, interval, port, trust_server)
        flow.serve(study, schedule, register=register)

    serve_schedule(story, cron=cron, every=every, example="0 2 * * *")


def _tuned(run: Run, *, register: bool, asks: bool, new_spend: bool) -> tuple[Tuned, Account]:
    """Tune a study as a Prefect flow, charged unless it was before: the result, and the account then.

    With `asks` a person is asked before a first charge, on the terminal, if there is one. What could not be
    published is told on standard error; the result stands.
    """
    check_first(run.study, run.ledger, run.folder)
    price = price_of(run.study, run.ledger, run.folder)
    first = "choice" in price.parts  # or else the choice was charged before, and a refused report is a warning
    for refusal in (None if new_spend else price.change, price.refusal if first else None):
        if refusal is not None:
            raise refusal
    if not price.paid:
        agreed = consent(run.spec, run.useless, may_ask=True) if first else run.context.if_useless
        if asks and price.refusal is None and not (first and run.useless):
            confirm(price)
        run = run.under(replace(run.context, if_useless=agreed))
    try:
        model = run.spec.model
        with flows_here(run.spec.name, SKLEARN_MODULES if model.estimator.startswith("sklearn.") else ()):
            from dpbo.flows.tune import tune_run

            tuned = tune_run(run, register=register)
    except Exception as error:  # noqa: BLE001  what Prefect raises is of no kind of ours
        raise prefect_failed(error, _recorded(run)) from None
    return tuned, account_after(run.spec, tuned.warnings)


def replayed(run: Run) -> tuple[Tuned, Account] | None:
    """Return the recorded release of a study that MLflow shows already, and its dataset's account; or None.

    Only the ledger is read: neither Prefect nor MLflow is loaded, and no sensitive file is opened. If the release,
    or the report that the study's [evaluation] asks for, is not shown completely, the flow runs and publishes it.
    """
    study, release = run.spec, run.recorded()
    tracked = mlflow_lookup(release)
    if release is None or tracked is None:
        return None
    tuned = Tuned(StudyResult(release, replayed=True), tracked)
    if study.asks_for_evaluation:
        from dpbo.flows.cli.evaluate import reported

        try:
            last = reported(run)
        except StudyInvalid:  # beside a release that stands the flow tells it as a warning
            last = None
        if last is None:
            return None
        tuned = Tuned(tuned.result, tracked, (), last[0].result, last[0].tracked)
    (account,) = run.ledger.accounts(study.privacy.dataset)
    return tuned, account


def _recorded(run: Run) -> tuple[str, str] | None:
    study = run.spec
    editions = run.ledger.editions(study.name, edition=study.edition, dataset=study.privacy.dataset)
    if not any(item.release is not None for item in editions):
        return None
    return (
        f"the release of study {study.name!r}, edition {study.edition!r}, is recorded",
        f"dpbo show {study.name}:{study.edition} prints it; dpbo tune with the same study publishes it, "
        "draws nothing and spends nothing",
    )


def tuned_json(tuned: Tuned) -> dict[str, Any]:
    """A tune's release, MLflow page and evaluation, if it made one, as the JSON object of `dpbo tune --json`."""
    result = tuned.result
    document = release_json(result, tracking=place(tuned.tracked))
    if tuned.evaluation is None:
        return document
    return document | {"evaluation": evaluated_json(tuned.evaluation, tuned.shown)}


def print_tuned(tuned: Tuned, account: Account) -> tuple[Document, Document | None]:
    """Print a release, and its evaluation's report if there is one, as `dpbo tune` shows them; their documents."""
    result = tuned.result
    released = document_of(result, account, look=view_hint(result.release, tuned.tracked))
    print_document(released)
    if tuned.tracked is not None and tuned.tracked.model_uri:
        print_registered(tuned.tracked.model_uri)
    if tuned.evaluation is None:
        return released, None
    Screen().say()
    return released, print_report(tuned.evaluation, tuned.shown, account)
