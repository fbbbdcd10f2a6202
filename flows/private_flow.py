"""How every private flow begins: who asks, which study it is of, whether to spend, and what is given back.

Whether the data's owner started a run is said by the process that calls the flow, never by a flow's parameter or an
environment variable, which whoever may start a run could give. A run that a worker or a served deployment begins is
nobody's who said so.

One run of a schedule is one edition of its study: names with fields are filled from the run's time, UTC.

    {year} 2026 · {month} 2026-11 · {week} 2026-W47 · {date} 2026-11-21 · {hour} 2026-11-21T02
    {time} 2026-11-21T02:00:00Z

Fields may stand in the edition, the dataset and the data paths. A dataset's name decides which people share a
budget, so it may change with the time only if the validation file changes with it, field for field.

Before a first charge the owner's terminal asks whether to spend, and whether to spend on mostly noise. Without a
terminal nothing is asked: a first charge is made, but one whose plan expects mostly noise is refused. A study with
`anyway = true` in [privacy] is not asked about noise; `--anyway` has the same effect for one command.

What fails beside a release is a warning here, and never a reason to keep the release from whoever paid for it.
"""

import getpass
import os
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self, TypeVar

from dpbo.flows.prefect_runtime.flow_runs import check_prefect_settings, current_flow_run, run_logger
from dpbo.flows.prefect_runtime.run_server import is_temporary, run_server
from dpbo.flows.stores import Stores
from dpbo.tasks.policies import without_prefect
from dpbo.tasks.reporting.mlflow_store import Tracked, check_target
from dpbo_core.errors import (
    DpboError,
    PolicyRefused,
    SpendDeclined,
    SpendUseless,
    StudyInvalid,
    printable,
    suggestion,
)
from dpbo_core.ledger.accounting.admission import Price
from dpbo_core.ledger.charge import Caller
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.sources import TIME_FIELDS, fields_of, filled_at
from dpbo_core.privacy.release import StudyResult
from dpbo_core.study import StudySpec
from dpbo_core.study.data_split import is_partitioned
from dpbo_core.study.editions import planned_for_schedule
from dpbo_core.study.query import IfUseless, PrivateQuery, QueryContext, together
from dpbo_core.study.spec import changed_study, read_study

if TYPE_CHECKING:
    from dpbo.flows.standing_cluster import DaskWorkers
    from dpbo_core.methods.contract import Method
    from dpbo_core.models.scoring.processes import Processes
    from dpbo_core.report.evaluation import EvaluationResult


_OWNER: ContextVar[bool] = ContextVar("the owner of the data started this run", default=False)
MODEL_ADDRESSES = ("models:/", "runs:/")  # of models in MLflow
HEAD_FIELDS = ("name", "edition", "method", "accepts")
T = TypeVar("T")
RERUN_HINT = (
    "mend it and run the same command again: it publishes, draws nothing and spends nothing; dpbo show prints the "
    "release at any time"
)


@dataclass(frozen=True)
class Tuned:
    """A study's result and where it is shown: None if MLflow failed, and `warnings` state what to do.

    `evaluation` and `shown` are the same of its last step, where its [evaluation] states a price.
    """

    result: StudyResult
    tracked: Tracked | None
    warnings: tuple[str, ...] = ()
    evaluation: "EvaluationResult | None" = None
    shown: Tracked | None = None


@dataclass(frozen=True)
class Evaluated:
    """A report and where it is shown: None if MLflow failed, and `warnings` state what to do."""

    result: "EvaluationResult"
    tracked: Tracked | None
    warnings: tuple[str, ...] = ()


@contextmanager
def owners_terminal() -> Iterator[None]:
    """Return a context in which called flows act for the data's owner, as in `dpbo tune`: for the owner's scripts.

    Such flows may open a budget cap and record files. If no Prefect server is configured, the script gets its own,
    behind a password.

    Raises:
        DpboError: that server could not be started.
    """
    with nullcontext() if without_prefect() else run_server(), acting_as_owner():
        yield


@contextmanager
def acting_as_owner() -> Iterator[None]:
    """Context in which called flows act for the data's owner, on whichever Prefect server there is, or none."""
    token = _OWNER.set(True)
    try:
        yield
    finally:
        _OWNER.reset(token)


def refuse_job_variables() -> None:
    """Refuse a run that was started with job variables of its own, or inside one that was.

    They set the environment of a work pool's process, and with it which ledger pays and which study was fixed by
    its hash. A deployment's own are from who made it, who is trusted as the worker is.
    """
    run = current_flow_run()
    while run is not None:
        if run.job_variables:
            raise PolicyRefused(
                "this run was started with job variables of its own, which can name another ledger or study",
                cause="whoever started it gave some; a private run is started as its deployment says",
                remedy="start it without, or let the owner of the data run the study with dpbo tune",
            )
        if run.parent_task_run_id is None:
            return
        from prefect.client.orchestration import get_client

        with get_client(sync_client=True) as client:
            parent = client.read_task_run(run.parent_task_run_id).flow_run_id
            run = None if parent is None else client.read_flow_run(parent)


def at_the_terminal() -> bool:
    """Return whether the owner's own process called this flow."""
    return _OWNER.get()


def caller(ledger: PrivacyLedger) -> Caller:
    """The owner where the owner's process called this flow, as the user who owns the ledger; else an operator."""
    return Caller.OWNER if at_the_terminal() and ledger.is_ours else Caller.OPERATOR


def check_owner(flow: str) -> None:
    """Refuse (PolicyRefused, which names `flow`) unless the data's owner's own process called this flow."""
    if not at_the_terminal():
        raise PolicyRefused(
            f"{flow} is not allowed by the owner's policy",
            cause="its parameters name files and folders, and a run that Prefect started may only name a study's",
            remedy="its owner calls it inside `with dpbo.owners_terminal():`",
        )


def asked_by() -> str:
    """Who started this run, for the ledger: account and host; of a flow run its creator and deployment.

    What Prefect says of a run is the word of whoever may start runs; the account and the host are this process's.
    """
    account = f"uid {os.getuid()}"
    with suppress(KeyError, OSError, ImportError):
        account = getpass.getuser()
    here = f"{account} on {socket.gethostname()}"
    run = current_flow_run()
    if at_the_terminal() or run is None:
        return here
    creator = (
        "nobody by name" if run.created_by is None else str(run.created_by.display_value or run.created_by.type)
    )
    deployment = "no deployment" if run.deployment_id is None else f"deployment {run.deployment_id}"
    return printable(f"Prefect's run of {creator}, {deployment}, by {here}")


def consent(study: StudySpec, useless: str, *, may_ask: bool) -> IfUseless:
    """Return what to do if the plan expects mostly noise: spend if the study says `anyway` or a person agrees."""
    if study.privacy.anyway:
        return IfUseless.SPEND
    if not useless:
        return IfUseless.REFUSE
    question = f"{printable(useless)}.\nNothing was charged yet. Spend it anyway?"
    if may_ask and _at_a_terminal() and _agreed(question):
        return IfUseless.SPEND
    raise SpendUseless(useless)


def confirm(price: Price) -> None:
    """Ask on the terminal, if there is one, whether to make a study's first charge; SpendDeclined if not."""
    account = price.account
    if account is None or account.budget.public or not _at_a_terminal():
        return
    if not _agreed(f"Spend {price.sums} of the {account.left:.3g} left on {printable(account.budget.dataset)}?"):
        raise SpendDeclined("nothing was charged", cause="you declined", remedy="run it again to spend")


def _at_a_terminal() -> bool:
    """Return whether somebody can answer: a notebook gives its `!` commands a terminal on which nobody can."""
    in_notebook = any(name.startswith("JPY_") for name in os.environ)  # set in Jupyter's kernels
    return sys.stdin.isatty() and sys.stderr.isatty() and not in_notebook


def _agreed(question: str) -> bool:
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def study_of(form: StudySpec | Mapping[str, Any]) -> StudySpec:
    """Return the study in a flow's parameter.

    It is a spec; or a mapping laid out as a study file; or a flat mapping from Prefect's form, in which None means
    "not given", the fields of [study] stand beside the sections, and `options` is the section [method].
    """
    if isinstance(form, StudySpec):
        return form
    if isinstance(form.get("study"), Mapping):
        return StudySpec.from_dict(form)
    fields = _without_none(form)
    tables: dict[str, Any] = {"study": {key: fields.pop(key) for key in HEAD_FIELDS if key in fields}}
    tables["method"] = fields.pop("options", {})
    return StudySpec.from_dict(tables | fields)


def scheduled_study(path: Path, frozen: str | None) -> StudySpec:
    """Return the study in the file that a scheduled run names, refused if its SHA-256 is not `frozen` (None: any).

    The path is a parameter of the run, which whoever may start runs can give. So where its owner did not call, one
    message stands for a missing, a forbidden and any other file.
    """
    try:
        if at_the_terminal() or os.path.isfile(path):  # noqa: PTH113  a terminal or a pipe would be read for ever
            return read_study(path, frozen=frozen)
    except (StudyInvalid, PolicyRefused):
        if at_the_terminal():
            raise
    if frozen is not None:
        raise changed_study(str(path))
    raise StudyInvalid(
        "the file that this run names is missing, cannot be read or is no study",
        cause="which of these is not said to whoever may start runs",
        remedy="its owner types dpbo plan and its name, which says what to mend",
    )


def _without_none(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    return value


def edition_at(spec: StudySpec, moment: datetime) -> StudySpec:
    """Return the study with fields such as {date} filled for `moment`, UTC; an edition without a field is the time.

    A cap that does not say for how many editions it is planned is planned for as many as it holds.
    """
    check_fields(spec)
    moment = moment.astimezone(UTC)

    def filled(text: str) -> str:
        return filled_at(text, moment)

    edition = filled(spec.edition) if fields_of(spec.edition) else filled("{time}")
    privacy = spec.privacy.replace(dataset=filled(spec.privacy.dataset))
    return planned_for_schedule(spec).replace(edition=edition, data=spec.data.filled(filled), privacy=privacy)


def check_fields(spec: StudySpec) -> None:
    """Refuse unknown name fields (other than {date} and the like), or a dataset that changes without its file."""
    dataset, validation = fields_of(spec.privacy.dataset), fields_of(spec.data.validation_file)
    for name in (*fields_of(spec.edition), *dataset, *validation, *fields_of(spec.data.training_file)):
        if name not in TIME_FIELDS:
            raise StudyInvalid(
                f"{{{name}}} is no field of a scheduled study{suggestion(name, TIME_FIELDS)}",
                remedy=f"use {', '.join(f'{{{field}}}' for field in TIME_FIELDS)}",
            )
    if set(dataset) - set(validation):
        raise StudyInvalid(
            f"privacy.dataset = {spec.privacy.dataset!r} changes with the time, and the validation data does not",
            cause="the same people would get a new budget at every change",
            remedy="put the same field into data.validation, or keep one name for one group of people",
        )


def refuse_fields(spec: StudySpec) -> None:
    """Refuse a study run by hand whose edition, dataset or paths hold a schedule's {date} or similar ones."""
    texts = (spec.edition, spec.privacy.dataset, spec.data.training_file, spec.data.validation_file)
    names = [name for text in texts for name in fields_of(text) if name in TIME_FIELDS]
    if names:
        raise StudyInvalid(
            f"the study holds the field {{{names[0]}}}, which a schedule fills",
            cause="it was written for dpbo serve",
            remedy="run it with dpbo serve, or write the name out",
        )


@contextmanager
def local_champion(study: StudySpec) -> Iterator[StudySpec]:
    """The study with a folder as its champion, instead of an address in MLflow; the folder ends with this."""
    section = study.evaluation
    if section is None or section.against is None or not section.against.startswith(MODEL_ADDRESSES):
        yield study
        return
    from dpbo.tasks.reporting.logged_model import fetch_model

    with TemporaryDirectory() as folder:
        place = fetch_model(section.against, Stores().tracking, Path(folder))
        yield study.replace(evaluation=section.replace(against=str(place.resolve())))


@contextmanager
def workers(
    study: StudySpec, folder: str, method: "Method | None" = None
) -> "Iterator[Processes | DaskWorkers | None]":
    """Context with the workers that score a study's files: a Dask cluster, own processes, or None.

    None means this process; it is used whenever `method` hides how often it evaluates.
    """
    if method is not None and method.hides_evaluations:
        yield None
        return
    if is_partitioned(study, folder):
        from dpbo.flows.standing_cluster import on_cluster, standing_cluster

        cluster = standing_cluster()
        if cluster is not None:
            with on_cluster(cluster) as joined:
                yield joined
            return
    files = study.data.divided
    n_processes = (files and files.workers) or 1
    if n_processes == 1:
        yield None
        return
    from dpbo_core.models.scoring.processes import Processes

    with closing(Processes(n_processes)) as own:
        yield own


class Warnings:
    """What could not be done beside a release: a line each, in the order it happened, and in the run's log."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, line: str) -> None:
        """Add a warning, and log it, unless it is there already."""
        if line and line not in self.lines:
            self.lines.append(line)
            run_logger().warning("%s", line)

    def tried(self, what: str, work: Callable[[], T]) -> T | None:
        """Return the result of `work`; if it fails, None, and the warning `what` is added, not the error's text."""
        try:
            return work()
        except DpboError as error:
            line = f"{what}. {error.message()}"
        except Exception as error:  # noqa: BLE001  what failed is public work, and the release is recorded
            line = DpboError(f"{what} ({type(error).__name__})", remedy=RERUN_HINT).message()
        self.add(line)
        return None


@dataclass(frozen=True, eq=False, repr=False)
class PrivateFlow:
    """A running private flow."""

    context: QueryContext  # which ledger pays, who asks, in which folder
    stores: Stores  # where the ledger, the vaults and MLflow's store are
    warnings: Warnings  # what could not be done beside the release
    registers: bool = False  # whether the final model becomes a version of MLflow's registered model

    @classmethod
    def begin(cls, folder: str | Path, *, registers: bool = False) -> Self:
        """Check Prefect's settings and who started the run, and begin its flow; no data is opened yet."""
        check_prefect_settings()
        stores = Stores()
        stores.make_folder()
        ledger = PrivacyLedger(stores.ledger)
        context = QueryContext(
            ledger,
            folder,
            caller=caller(ledger),
            if_useless=IfUseless.REFUSE,
            asked_by=asked_by(),
            steps_seen=current_flow_run() is not None and not is_temporary(),
        )
        if context.caller is not Caller.OWNER:
            refuse_job_variables()
        return cls(context, stores, Warnings(), registers)

    def on_schedule(self) -> Self:
        """This flow as a schedule's run, whose search begins with earlier runs' releases."""
        return replace(self, context=replace(self.context, scheduled=True))

    def before_charge(self, study: StudySpec, context: QueryContext, *queries: PrivateQuery) -> QueryContext:
        """Return the context in which some queries may be charged, after the checks that precede a first charge.

        Nothing is charged where MLflow can never show a release of the dataset; where it cannot now, it warns.
        """
        if context.ledger.reserved(queries[0].key.fingerprint) is not None:
            return context
        if context.if_useless is not IfUseless.SPEND:
            agreed = consent(study, together(*queries), may_ask=at_the_terminal())
            context = replace(context, if_useless=agreed)
        self.warnings.add(check_target(study.privacy.dataset, self.stores.tracking))
        return context
