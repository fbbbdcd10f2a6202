"""Where a release is shown, and whether one could be, asked before anything is paid for.

The first is asked of the tables of MLflow's own store, since importing MLflow takes seconds. Nothing is written,
and nothing is concluded from what is not there: whoever finds nothing asks MLflow itself.
"""

import os
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpbo.tasks.reporting.mlflow_store import (
    LOCATION,
    SQLITE,
    Store,
    StoreSilent,
    experiment_name,
    open_store,
    own_tags,
    root_of,
)
from dpbo_core.errors import DpboError
from dpbo_core.privacy.release import Release

RELEASE_TAG = "dpbo.release_id"
MODE = "?workflowType=machine_learning"  # else MLflow opens a run among evaluations of language models
NEWEST = """
    SELECT runs.run_uuid, runs.status, experiments.experiment_id
    FROM tags JOIN runs ON runs.run_uuid = tags.run_uuid JOIN experiments USING (experiment_id)
    WHERE tags.key = ? AND tags.value = ? AND experiments.name = ?
        AND runs.lifecycle_stage = 'active' AND experiments.lifecycle_stage = 'active'
    ORDER BY runs.start_time DESC, runs.run_uuid LIMIT 1
"""  # what MLflow asks when it searches for runs with a tag


@dataclass(frozen=True)
class Tracked:
    """Where a release is shown; `location` is the run's own part of MLflow's address.

    `missing` names what could not be shown there; its run counts as failed, and the next call adds it. `model_uri`
    is MLflow's address of the version that was registered.
    """

    experiment: str
    run_id: str
    location: str = ""
    missing: tuple[str, ...] = ()
    model_uri: str = field(default="", compare=False)


def place_of(experiment: str, run_id: str) -> str:
    """The part of MLflow's address that opens a run's page."""
    return f"#/experiments/{experiment}/runs/{run_id}{MODE}"


def newest_page(store: Store) -> str:
    """The part of MLflow's address that opens the newest edition's page, or the experiments where there is none."""
    experiments = [experiment.experiment_id for experiment in store.client.search_experiments()]
    newest = store.client.search_runs(experiments, "tags.`dpbo.kind` = 'edition'", max_results=1)
    return place_of(newest[0].info.experiment_id, newest[0].info.run_id) if newest else f"#/experiments{MODE}"


def tracked_in_file(release: Release, tracking_uri: str) -> Tracked | None:
    """Where MLflow's SQLite file shows `release` complete; None where it does not."""
    row = _first_row(tracking_uri, NEWEST, RELEASE_TAG, release.release_id, experiment_name(release.dataset))
    if row is None or row[1] != "FINISHED":
        return None
    return Tracked(experiment_name(release.dataset), str(row[0]), place_of(str(row[2]), str(row[0])))


def experiments_in_file(tracking_uri: str) -> int | None:
    """The number of experiments, deleted ones aside, in a SQLite store; None where it cannot be read."""
    row = _first_row(tracking_uri, "SELECT count(*) FROM experiments WHERE lifecycle_stage = 'active'")
    return None if row is None else int(row[0])


def _first_row(tracking_uri: str, query: str, *parameters: str) -> tuple[Any, ...] | None:
    """The first row of a query to a SQLite store, by reading alone; None without one, or without the store."""
    place = Path(tracking_uri.removeprefix(SQLITE))
    if not tracking_uri.startswith(SQLITE) or not place.is_file():
        return None
    address = f"{place.resolve().as_uri()}?mode=ro"
    with suppress(sqlite3.Error), closing(sqlite3.connect(address, uri=True)) as connection:  # another version's
        row: tuple[Any, ...] | None = connection.execute(query, parameters).fetchone()
        return row
    return None


def check_target(dataset: str, uri: str) -> str:
    """Ask MLflow's store if it can take a release of `dataset`: "" if so, a warning if out of reach now; refused if
    it never can.

    Raises:
        DpboError: nothing could be published, and no waiting mends it: a deleted experiment, a local store that
            cannot be read or written.
    """
    own_tags()
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
        if local:
            raise unusable from None
        return unusable.message()
    return ""


def _check_writable(database: Path) -> None:
    """Refuse unless the database and the folder of its artifacts, or the nearest ones above, can be written.

    Raises:
        DpboError: one cannot be written.
    """
    for place in (database, root_of(database) / LOCATION):
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
