"""Whether a release could be shown, asked before anything is paid for."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dpbo.tasks.reporting.mlflow_store import SQLITE, StoreSilent, artifacts_of, open_store
from dpbo_core.accounting.ledger import PrivacyLedger, Reservation, StudyKey
from dpbo_core.errors import DpboError
from dpbo_core.privacy.plan import PrivacyPlan


class CheckedLedger(PrivacyLedger):
    """A ledger that asks, before it charges a study for the first time, whether its release could be shown.

    A study that was released or charged before goes on, whatever became of MLflow.
    """

    def __init__(self, url: str, ready: Callable[[], None]) -> None:
        super().__init__(url)
        self._ready = ready

    def reserve(self, key: StudyKey, plan: PrivacyPlan, **options: Any) -> Reservation:
        """As every ledger does.

        Raises:
            DpboError: `ready` refuses; nothing was charged.
        """
        if self.reserved(key.fingerprint) is None:
            self._ready()
        return super().reserve(key, plan, **options)


def check_target(dataset: str, uri: str) -> str:
    """Look whether MLflow's store at `uri` could take a release of `dataset`; nothing is written.

    Returns:
        A warning where a store on another machine is out of reach, which may pass; nothing where all is well.

    Raises:
        DpboError: nothing could be published, and no waiting mends it: a deleted experiment, a local store that
            cannot be read or written.
    """
    local = uri.startswith(SQLITE)
    if local:
        place = Path(uri.removeprefix(SQLITE))
        _check_writable(place)
        if not place.exists():
            return ""
    try:
        open_store(uri).check_experiment(dataset)
    except StoreSilent as silent:
        return silent.message()
    except DpboError:
        raise
    except Exception:  # noqa: BLE001  whatever a store's libraries raise; what they say may hold an address
        unusable = DpboError(
            "MLflow's store cannot be used",
            cause="its database does not answer, is damaged, or another version of MLflow wrote it",
            remedy="look at it with dpbo doctor, or name another store (MLFLOW_TRACKING_URI)",
        )
    else:
        return ""
    if local:
        raise unusable
    return unusable.message()


def _check_writable(database: Path) -> None:
    """The database and the folder of its artifacts, or the nearest folders above that exist.

    Raises:
        DpboError: one cannot be written.
    """
    for place in (database, artifacts_of(database)):
        there = place
        while not there.exists() and there.parent != there:
            there = there.parent
        sound = there.is_file() if there == database else there.is_dir()
        if not sound or not os.access(there, os.W_OK):
            raise DpboError(
                f"MLflow's store cannot be written ({there.name})",
                cause="it belongs to another user, its disk is read-only, or something else lies in its place",
                remedy="make it writable, or name another store (MLFLOW_TRACKING_URI); nothing was charged",
            )
