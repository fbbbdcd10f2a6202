"""Where a release is shown, and whether one could be, asked before anything is paid for.

Importing MLflow takes seconds, so a file beside a SQLite store says which releases MLflow shows complete, and in
which state of the store: the change counter in the header of its file. Whoever else writes to the store changes
that, and then nothing is concluded from the file.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from dpbo.tasks.reporting.mlflow_store import (
    ARTIFACT_FOLDER,
    SQLITE,
    Store,
    StoreSilent,
    experiment_name,
    open_store,
    own_tags,
    root_of,
)
from dpbo_core.errors import DpboError
from dpbo_core.privacy.atomically import replace_atomically
from dpbo_core.privacy.release import Release

RELEASE_TAG = "dpbo.release_id"
URL_MODE = "?workflowType=machine_learning"  # else MLflow opens a run among evaluations of language models
CHANGE_COUNTER, ROLLBACK_JOURNAL = slice(24, 28), b"\1\1"  # of SQLite's file format; a WAL store counts otherwise
HEADER_BYTES = 100


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
    """Return the part of MLflow's address that opens a run's page."""
    return f"#/experiments/{experiment}/runs/{run_id}{URL_MODE}"


def newest_page(store: Store) -> str:
    """The part of MLflow's address that opens the newest edition's page, or the experiments where there is none."""
    experiments = [experiment.experiment_id for experiment in store.client.search_experiments()]
    newest = store.client.search_runs(experiments, "tags.`dpbo.kind` = 'edition'", max_results=1)
    return place_of(newest[0].info.experiment_id, newest[0].info.run_id) if newest else f"#/experiments{URL_MODE}"


def shown_before(release: Release, tracking_uri: str) -> Tracked | None:
    """Where MLflow shows `release` complete, by the file beside a SQLite store; None if that is not certain."""
    tracked = published_in(tracking_uri).get(release.release_id)
    return tracked if tracked is not None and tracked.experiment == experiment_name(release.dataset) else None


@contextmanager
def publishing(tracking_uri: str) -> Iterator[dict[str, Tracked]]:
    """Context for writes to a store: where it shows each release, by id; what is added is recorded at the end."""
    published = published_in(tracking_uri)
    yield published
    shown = {name: (one.experiment, one.run_id, one.location) for name, one in published.items()}
    with suppress(OSError):  # then the next replay asks MLflow
        state = _state(tracking_uri)
        if state is not None:
            text = json.dumps({"state": state, "published": shown})
            replace_atomically(_record(tracking_uri), text.encode())


def _record(tracking_uri: str) -> Path:
    return Path(tracking_uri.removeprefix(SQLITE)).with_suffix(".published.json")


def published_in(tracking_uri: str) -> dict[str, Tracked]:
    """Return where the store shows each published release, by id; empty if the store has changed since."""
    with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):  # no file, or not as we write it
        state = _state(tracking_uri)
        record = json.loads(_record(tracking_uri).read_bytes())
        if state is not None and record["state"] == state:
            return {
                name: Tracked(str(experiment), str(run), str(location))
                for name, (experiment, run, location) in record["published"].items()
            }
    return {}


def _state(tracking_uri: str) -> str | None:
    if not tracking_uri.startswith(SQLITE):
        return None
    with Path(tracking_uri.removeprefix(SQLITE)).open("rb") as file:
        header = file.read(HEADER_BYTES)
    return header[CHANGE_COUNTER].hex() if header[18:20] == ROLLBACK_JOURNAL else None


def check_target(dataset: str, uri: str) -> str:
    """Return whether MLflow's store can take a release of `dataset`: "" if so, else a warning; refused if never."""
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
    for place in (database, root_of(database) / ARTIFACT_FOLDER):
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
