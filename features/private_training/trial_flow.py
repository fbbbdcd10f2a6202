"""The story of a study with a trainer supplied by the user: rehearse, charge, train, release, show."""

import os
from typing import TYPE_CHECKING, Any, cast

from dpbo.flows.cli.release_screen import place, release_json, view_hint
from dpbo.flows.cli.running import account_after, flows_here, ledger_here, own_ledger, prefect_failed
from dpbo.flows.prefect_runtime.liveness import is_alive
from dpbo.flows.prefect_runtime.settings import quiet_environment
from dpbo.flows.private_flow import PrivateFlow, Tuned
from dpbo.flows.run_end import (
    UNNAMED_RUN_WARNING,
    failed_run,
    folder_name,
    name_outcome,
    name_run,
    publish_release,
    with_message,
)
from dpbo.flows.terminal import Progress, Screen, named, print_result
from dpbo.tasks import policies
from dpbo.tasks.policies import or_refused, private_task
from dpbo_core.errors import BudgetRefused, DpboError
from dpbo_core.ledger.accounting.forecast import account_line
from dpbo_core.privacy.release import StudyResult
from dpbo_core.study import StudySpec
from dpbo_core.study.query import IfUseless, QueryContext

if TYPE_CHECKING:
    from dpbo.features.private_training.trial_plan import TrialsRelease
    from dpbo.features.private_training.trial_study import TrialStudy


@private_task(name="train and release the best", **policies.SENSITIVE_TASK_OPTIONS)
def train_all(study: "TrialStudy", context: QueryContext) -> "TrialsRelease | BudgetRefused":
    """Charge the search, run its trainings and record the best of those that count; a refusal is returned."""
    return or_refused(lambda: study.search(context))


def print_lines(shown: object) -> None:
    """Print a plan or a release, line by line."""
    for line in str(shown).splitlines():
        Screen().say(named(line))


def print_plan(study: "TrialStudy", *, rehearse: bool) -> None:
    """Print the price of a study; with `rehearse` train once on invented records before."""
    if rehearse or study.trial.event is not None:
        study.check_code(ledger_here())
    rehearsed = None if not rehearse else study.trials.rehearse(*study.invented())
    plan = study.trials.planned(*study.sizes, disjoint=study.disjoint, divided=study.data.source is not None)

    def document() -> dict[str, Any]:
        return plan.to_json() | ({} if rehearsed is None else {"rehearsal": rehearsed})

    def screen() -> None:
        print_lines(plan)
        if rehearsed is None:
            Screen().say(
                "Next: dpbo plan STUDY.toml --rehearse (one training on invented records), then dpbo tune."
            )
        else:
            reported = "nothing" if rehearsed["spent"] is None else "its spend, as priced"
            Screen().say(f"  rehearsed one training on invented records; it reported {reported}")
            Screen().say("Next: dpbo tune STUDY.toml.")

    print_result(document, screen)
    study.check_files()  # as tune would be refused


def print_tuned(study: "TrialStudy", *, anyway: bool) -> None:
    """Run the search as a Prefect flow, and print its release."""
    quiet_environment()
    folder = os.path.relpath(str(study.folder))
    useless = IfUseless.SPEND if anyway or study.privacy.anyway else IfUseless.REFUSE
    context = QueryContext(own_ledger(), folder, if_useless=useless)
    study.check_code(context.ledger)
    study.check_files()
    released: list[TrialsRelease] = []

    @policies.private_flow(name="tune privately", **policies.FLOW_OPTIONS)
    def tune_privately(study_name: str) -> Tuned:
        try:
            tuned = _tuned(study, PrivateFlow.begin(folder), context.if_useless, released)
            return with_message(tuned, tuned.result)
        except DpboError as error:
            return cast("Tuned", failed_run(error, study_name))

    try:
        with flows_here(study.name):
            tuned = tune_privately(study.name)
    except Exception as error:  # noqa: BLE001  what Prefect raises is of no kind of ours
        raise prefect_failed(error, None) from None
    spec = cast("StudySpec", study)  # of which only the dataset is requested
    account = account_after(spec, tuned.warnings)

    def screen() -> None:
        print_lines(released[0])
        Screen().say(f"  budget         {named(account_line(account, study=study.name))}")
        Screen().say(f"  view           {named(view_hint(tuned.result.release, tuned.tracked))}")

    print_result(lambda: release_json(tuned.result, tracking=place(tuned.tracked)), screen)


def _tuned(study: "TrialStudy", flow: PrivateFlow, useless: IfUseless, released: list["TrialsRelease"]) -> Tuned:
    from dataclasses import replace

    tags = {"dataset": study.privacy.dataset, "method": study.head.method, "folder": folder_name(study.folder)}
    flow.warnings.tried(UNNAMED_RUN_WARNING, lambda: name_run(study.name, study.edition, **tags))
    with is_alive(flow.stores.running), Progress(study.name, int(study.trials.run or 1), "trainings") as progress:
        study.trials.progress = lambda _: progress.show(None)
        outcome = train_all(study, replace(flow.context, if_useless=useless))
    if isinstance(outcome, BudgetRefused):
        raise outcome
    released.append(outcome)
    tracked = publish_release(flow, cast("StudySpec", study), outcome.release)
    name_outcome(flow, outcome.release)
    return Tuned(StudyResult(outcome.release, outcome.replayed), tracked, tuple(flow.warnings.lines))
