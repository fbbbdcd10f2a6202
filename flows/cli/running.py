"""What several commands do: find the ledger and the study, run a flow as the data's owner, serve a schedule.

All that is heavy is imported where it is used, so that help is printed at once.
"""

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dpbo.flows.cli.terminal import print_warnings
from dpbo.flows.cli.words import seconds
from dpbo.flows.plain_output import announce_stage
from dpbo.flows.prefect_runtime.database import prepare
from dpbo.flows.prefect_runtime.liveness import without_prefect
from dpbo.flows.prefect_runtime.owner import acting_as_owner, owners_terminal
from dpbo.flows.prefect_runtime.prefect_process import OWNER_ALONE
from dpbo.flows.prefect_runtime.run_server import run_server
from dpbo.flows.prefect_runtime.settings import (
    Stores,
    prefect_is_configured,
    prefect_settings,
    quiet_environment,
    without_heartbeat,
)
from dpbo.tasks.reporting.mlflow_lookup import Tracked, tracked_in_file
from dpbo_core.accounting.account import Account
from dpbo_core.errors import DpboError, StudyInvalid
from dpbo_core.ledger.address import only_readable, team_setting
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.privacy.release import Release

if TYPE_CHECKING:
    from dpbo.flows.results import Evaluated, Tuned
    from dpbo.flows.watch import Watched
    from dpbo_core.ledger.accounts import DatasetAccount
    from dpbo_core.study_file import StudySpec

T = TypeVar("T", "Tuned", "Evaluated", "Watched")
STDOUT = 1
NEEDED = (
    "dpbo.flows.tune", "mlflow.tracking", "mlflow.store.tracking.sqlalchemy_store", "opendp.measurements",
    "mlflow.pyfunc", "pandas", "matplotlib.figure", "matplotlib.backends.backend_agg",
)  # fmt: skip


def is_there(url: str) -> bool:
    """Whether the file of a SQLite store exists, without opening it; True for every other store."""
    return not url.startswith("sqlite:///") or Path(url.removeprefix("sqlite:///")).exists()


def ledger_here() -> PrivacyLedger | None:
    """The ledger of this folder; None where there is none."""
    if not is_there(Stores().ledger):
        return None

    return PrivacyLedger(Stores().ledger)


def accounts_here(dataset: str | None = None) -> "tuple[DatasetAccount, ...]":
    """The accounts of every dataset in the ledger of this folder, or of one; none without a ledger."""
    ledger = ledger_here()
    return () if ledger is None else ledger.accounts(dataset)


def own_ledger() -> PrivacyLedger:
    """The ledger of this folder, made if there is none; a read-only one is left as it is.

    Raises:
        StudyInvalid: a link stands where its folder belongs, or another user's folder.
    """
    stores = Stores()
    if not only_readable(Path(stores.ledger.removeprefix("sqlite:///"))):
        stores.make_folder()
    return PrivacyLedger(stores.ledger)


def mlflow_lookup(release: Release | None) -> Tracked | None:
    """Where MLflow shows a release already, read from its SQLite file without MLflow; None where it does not."""
    return None if release is None else tracked_in_file(release, Stores().tracking)


@contextmanager
def own_output() -> Iterator[None]:
    """Context in which standard output of this process, and of those it starts, is dropped, C libraries' too.

    A verbose estimator writes to the file descriptor, past Python; `--json` guarantees one object and nothing else.
    """
    sys.stdout.flush()
    original = os.dup(STDOUT)
    with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):  # noqa: PTH123  a device
        os.dup2(nowhere.fileno(), STDOUT)
        try:
            yield
        finally:
            with suppress(OSError, AttributeError):
                ctypes.CDLL(None).fflush(None)  # what C libraries hold back would come out at the end
            os.dup2(original, STDOUT)
            os.close(original)


@contextmanager
def own_server(load: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Context with a Prefect server, the configured or this command's own; calls `load`, drops standard output."""
    _prepare_stores()
    with own_output(), run_server(load), without_heartbeat():
        yield


def run_here(
    study: "StudySpec",
    flow: Callable[[], Callable[..., T]],
    arguments: tuple[Any, ...],
    recorded: Callable[[], tuple[str, str] | None],
) -> tuple[T, Account]:
    """Call `flow` as the data's owner on a Prefect server: its result, and the account; where Prefect fails,
    `recorded` says whether the release is recorded all the same.

    What could not be published is told on standard error; the result stands.

    Args:
        study: whose flow it is.
        flow: imports the Prefect flow and returns it.
        arguments: of the flow; with --direct its plain function is called with them.
        recorded: if the release is recorded, a sentence about it and what to do; else None.

    Returns:
        What the flow returned, and the account of the study's dataset afterwards.

    Raises:
        DpboError: as the flow's; or that Prefect failed after the release was recorded.
    """
    try:
        if without_prefect():
            announce_stage(study.name, "running without Prefect")
            os.umask(OWNER_ALONE)
            with own_output(), acting_as_owner():
                function: Callable[..., T] = getattr(flow(), "fn")  # noqa: B009  of a Prefect flow
                result = function(*arguments)
        else:
            announce_stage(study.name, "starting Prefect and MLflow")
            with own_server(_load), owners_terminal():
                result = flow()(*arguments)
    except DpboError:
        raise
    except Exception as error:
        release = recorded()
        if release is None:
            raise
        raise DpboError(
            f"{release[0]}, and Prefect failed after it ({type(error).__name__})",
            cause="Prefect's server or its database went away before it was told that the run was over",
            remedy=release[1],
        ) from None
    print_warnings(result.warnings)
    (account,) = own_ledger().accounts(study.privacy.dataset)
    return result, account


def serve_schedule(
    story: Callable[[float | None], None], *, cron: str | None, every: str | None, example: str
) -> None:
    """Serve a schedule until stopped, by calling `story`; one that cannot be read is refused, with the `example`.

    Args:
        story: serves it; takes the seconds between two runs, None where `cron` says when they are.
        cron: five fields, UTC; or
        every: a duration. One of the two is given.
        example: of five fields, for the message.

    Raises:
        StudyInvalid: the schedule cannot be read.
    """
    interval = None if every is None else seconds(every)
    quiet_environment()
    _prepare_stores()
    try:
        story(interval)
    except DpboError:  # some of them are ValueErrors too
        raise
    except ValueError:
        raise StudyInvalid(
            f"--cron {cron!r} is no schedule", remedy=f'write five fields, "{example}" say'
        ) from None


def _prepare_stores() -> None:
    """Make files written from now on their owner's alone, and create a team's databases if they are missing."""
    os.umask(OWNER_ALONE)
    team = team_setting()
    if team is not None:
        of_others = prefect_is_configured() and prefect_settings().api.url is not None
        prepare(team, mlflow=Stores().mlflow_tracking_uri is None, prefect=not of_others)


def _load() -> None:
    """Import a run's libraries while its server starts; an import that fails is reported where it is used."""
    for name in NEEDED:
        with suppress(Exception):
            import_module(name)
