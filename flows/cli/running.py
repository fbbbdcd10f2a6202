"""What several commands do: find the ledger and the study, run a flow as the data's owner, serve a schedule.

All that is heavy is imported where it is used, so that help is printed at once.
"""

import ctypes
import gc
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from dpbo.flows.cli.words import seconds
from dpbo.flows.owner import acting_as_owner
from dpbo.flows.prefect_runtime.run_server import OWNER_UMASK, run_server
from dpbo.flows.prefect_runtime.settings import (
    disable_heartbeat,
    prefect_is_configured,
    prefect_settings,
    quiet_environment,
)
from dpbo.flows.stores import Stores
from dpbo.flows.terminal import announce_stage, print_warnings
from dpbo.tasks.policies import without_prefect
from dpbo.tasks.reporting.mlflow_store import Tracked, shown_before
from dpbo_core.errors import DpboError, StudyInvalid
from dpbo_core.ledger.accounting.account import Account
from dpbo_core.ledger.address import is_read_only, team_setting
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.privacy.release import Release

if TYPE_CHECKING:
    from dpbo_core.ledger.accounts import DatasetAccount
    from dpbo_core.study import StudySpec

STDOUT_DESCRIPTOR = 1
GC_THRESHOLD = 10_000  # allocations between two collections, in a process that runs for months
WARM_MODULES = (
    "dpbo.flows.tune", "mlflow.tracking", "mlflow.store.tracking.sqlalchemy_store", "opendp.measurements",
    "mlflow.pyfunc", "pandas", "matplotlib.figure", "matplotlib.backends.backend_agg",
)  # fmt: skip
# what saves a model of scikit-learn; at its import it looks in every loaded module for each function of SciPy's
SKLEARN_MODULES = ("skops.io",)


def is_there(url: str) -> bool:
    """Return whether the file of a SQLite store exists, without opening it; True for every other store."""
    return not url.startswith("sqlite:///") or Path(url.removeprefix("sqlite:///")).exists()


def ledger_here() -> PrivacyLedger | None:
    """Return the ledger of this folder; None if there is none."""
    if not is_there(Stores().ledger):
        return None

    return PrivacyLedger(Stores().ledger)


def accounts_here(dataset: str | None = None) -> "tuple[DatasetAccount, ...]":
    """Return the accounts of every dataset in the ledger of this folder, or of one; none without a ledger."""
    ledger = ledger_here()
    return () if ledger is None else ledger.accounts(dataset)


def own_ledger() -> PrivacyLedger:
    """Return the ledger of this folder, made if there is none; a read-only one is left as it is."""
    stores = Stores()
    if not is_read_only(ledger_path()):
        stores.make_folder()
    return PrivacyLedger(stores.ledger)


def ledger_path() -> Path:
    """Return the path of this folder's ledger, if it is a file."""
    return Path(Stores().ledger.removeprefix("sqlite:///"))


def mlflow_lookup(release: Release | None) -> Tracked | None:
    """Return where MLflow shows a release already, as this folder recorded it; None if that is not certain."""
    return None if release is None else shown_before(release, Stores().tracking)


@contextmanager
def own_output() -> Iterator[None]:
    """Context in which standard output of this process, and of those it starts, is dropped, C libraries' too.

    A verbose estimator writes to the file descriptor, past Python; `--json` guarantees one object and nothing else.
    """
    sys.stdout.flush()
    original = os.dup(STDOUT_DESCRIPTOR)
    with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):  # noqa: PTH123  a device
        os.dup2(nowhere.fileno(), STDOUT_DESCRIPTOR)
        try:
            yield
        finally:
            with suppress(OSError, AttributeError):
                ctypes.CDLL(None).fflush(None)  # what C libraries hold back would come out at the end
            os.dup2(original, STDOUT_DESCRIPTOR)
            os.close(original)


@contextmanager
def flows_here(name: str, needed: Sequence[str] = ()) -> Iterator[None]:
    """Return a context in which flows run as the data's owner's: on a Prefect server, or with --direct without one.

    Standard output is dropped. `name` is the study's, for the line that says what is started. The modules `needed`
    are imported before Prefect's.
    """
    if without_prefect():
        for module in needed:
            import_module(module)
        announce_stage(name, "running without Prefect")
        os.umask(OWNER_UMASK)
        with own_output(), acting_as_owner():
            yield
    else:
        announce_stage(name, "starting Prefect and MLflow")
        _prepare_stores()
        with own_output(), run_server((*needed, *WARM_MODULES)), disable_heartbeat(), acting_as_owner():
            yield


def prefect_failed(error: Exception, recorded: tuple[str, str] | None) -> Exception:
    """Return the error to raise where a flow ended with `error`: that one, if it is ours or nothing is recorded."""
    if recorded is None or isinstance(error, DpboError):
        return error
    return DpboError(
        f"{recorded[0]}, and Prefect failed after it ({type(error).__name__})",
        cause="Prefect's server or its database went away before it was told that the run was over",
        remedy=recorded[1],
    )


def account_after(study: "StudySpec", warnings: Iterable[str]) -> Account:
    """Return the account of the study's dataset, after printing failed publications (`warnings`) on
    standard error.
    """
    print_warnings(warnings)
    (account,) = own_ledger().accounts(study.privacy.dataset)
    return account


def serve_schedule(
    story: Callable[[float | None], None], *, cron: str | None, every: str | None, example: str
) -> None:
    """Serve a schedule until stopped, by calling `story`; refused with the `example` if unreadable."""
    interval = None if every is None else seconds(every)
    gc.set_threshold(GC_THRESHOLD)
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
    os.umask(OWNER_UMASK)
    team = team_setting()
    if team is not None:
        from dpbo.flows.team_database import prepare

        of_others = prefect_is_configured() and prefect_settings().api.url is not None
        prepare(team, mlflow=Stores().mlflow_tracking_uri is None, prefect=not of_others)
