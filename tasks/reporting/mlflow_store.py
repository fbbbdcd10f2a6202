"""MLflow's store: made once, whole; an experiment a dataset; and which releases it shows.

MLflow's client makes artifact paths absolute, and they break when the folder moves. In a store that this project
keeps, MLflow's own store class makes the experiment instead, below `mlruns/artifacts`: its files are read from the
folder that holds `mlruns`, as `dpbo ui` does.

Importing MLflow takes seconds, so a file beside a SQLite store says which releases MLflow shows complete, and in
which state of the store: the change counter in the header of its file. Whoever else writes to the store changes
that, and then nothing is concluded from the file.
"""

import json
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from dpbo_core.errors import DpboError
from dpbo_core.ledger.address import make_patient_by_name, named
from dpbo_core.privacy.atomically import create_atomically, replace_atomically
from dpbo_core.privacy.release import Release

if TYPE_CHECKING:
    from mlflow.entities import Experiment, LoggedModel
    from mlflow.tracking import MlflowClient


MLFLOW_TELEMETRY = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
}  # asked for at every call MLflow counts
SQLITE, POSTGRESQL = "sqlite:///", "postgresql"
ARTIFACT_FOLDER = "mlruns/artifacts"
DEFAULT_ARTIFACT_ROOT = "mlflow-artifacts:/"  # of MLflow's own first experiment, which holds nothing of ours
SQLITE_HEADER = b"SQLite format 3\0"
PREFIX_SETTING, TAGS_SETTING = "DPBO_MLFLOW_EXPERIMENT_PREFIX", "DPBO_MLFLOW_TAGS"
ANSWER_TIMEOUT_S = 5.0  # seconds a tracking server has for its first answer
CREATION_TIMEOUT_S = 120.0  # seconds for which one process may wait while another makes MLflow's tables
SILENT_REMEDY = """start it and run the same study again: it publishes, and spends nothing; dpbo show prints the
release meanwhile"""
CREATION_LOCK = 0x6D6C666C  # an advisory lock of PostgreSQL's: two processes must not make the tables at once
KIND_TAG, MODELS_KIND = "mlflow.experimentKind", "custom_model_development"  # no page of language models
VIEW_KEY = "dpbo"  # of the view of an experiment's runs that has columns and charts of ours
EDITIONS_PAGE = f"#/experiments/{{}}/runs?viewStateShareKey={VIEW_KEY}&workflowType=machine_learning"
COMPARISON_PAGE = f"{EDITIONS_PAGE}&compareRunsMode=CHART"  # MLflow's own comparison colours noise as a ranking
NOTE_TAG = "mlflow.note.content"  # which MLflow renders above an experiment's runs, and above a run's numbers
EXPERIMENT_NOTE = """\
**Every score is a differentially private release.** `interval` holds the true one in 90% of cases; all editions \
together cost less than their ε summed.

* [All editions in a list]({editions}) · [side by side]({comparison})
* Open a run: its page begins with what came out and how sure it is, what may be concluded about a person, what is
  left, and how the model is used. The run "study NAME" above its editions has one picture of them all.
* The metric has its own name, `accuracy` for example; `score/low` and `score/high` end its 90% interval, and
  `score/constant` is a constant answer's.
* `budget/spent` and `budget/left` are ε of the account after it; draws together cost less than the ε stated.
* `steps/noised` is its private trajectory: at each step a noised score, which may leave its range.
* `evaluation/…` are the figures of a report; `release.html` has what noise and sampling leave open.
  `watch/alarm` is a watch: a look a step, 0 holds, 1 alarm.
* Parameters are the edition, ε, δ, method, metric, choice and a few public facts; the page has the rest. Tags
  find runs:
  ``tags.`dpbo.study` = 'NAME'``, and `dpbo.edition`, `dpbo.method`, `dpbo.dataset`, `dpbo.unit`, `dpbo.kind`
  (`edition`, `evaluation`, `watch`, `study`).
* `release.html` is the certificate, `release.json` the same for programs: `dpbo verify release.json` recomputes ε
  and δ from it alone. `model/` is trained on the public set at the released hyperparameters.
"""

SIDE_BY_SIDE = "dpbo-table"  # the section of the page that compares editions; MLflow's own are folded
SECTIONS = (
    (SIDE_BY_SIDE, "Where intervals overlap, it may be noise alone", True),
    *((f"dpbo-{name}", name, False) for name in ("Model metrics", "budget", "score", "steps")),
)
GENERATED = {"deleted": False, "isGenerated": False, "isReordered": True}
COMPARISON_CHARTS = {  # in the words of MLflow's page; its bars and lines would show noise as a ranking
    "runListHidden": True,
    "isAccordionReordered": True,
    "compareRunSections": [
        {"uuid": section, "name": name, "columns": 1, "cardHeight": 360, "display": shown, **GENERATED}
        for section, name, shown in SECTIONS
    ],
    "compareRunCharts": [
        {"type": "DIFFERENCE", "uuid": f"{SIDE_BY_SIDE}-all", "metricSectionId": SIDE_BY_SIDE,
         "chartName": "What differs; one interval in ten misses the true score",
         "compareGroups": ["Parameters"], "runsCountToCompare": 10,
         "baselineColumnUuid": "", "showChangeFromBaseline": False, "showDifferencesOnly": True, **GENERATED}
    ],
}  # fmt: skip
MAX_TAG_LENGTH = 5000  # characters MLflow takes for an experiment's tag
RELEASE_TAG = "dpbo.release_id"
URL_MODE = "?workflowType=machine_learning"  # else MLflow opens a run among evaluations of language models
CHANGE_COUNTER, ROLLBACK_JOURNAL = slice(24, 28), b"\1\1"  # of SQLite's file format; a WAL store counts otherwise
HEADER_BYTES = 100


class StoreSilent(DpboError):
    """A tracking server does not answer, which may pass."""


@dataclass(frozen=True)
class Store:
    """A client of MLflow's store, and the folder above relative artifact locations (None for a server)."""

    client: "MlflowClient"
    uri: str
    root: Path | None

    def check_experiment(self, dataset: str) -> "Experiment | None":
        """Return the MLflow experiment of the dataset, None if there is none; refused if it was deleted."""
        name = experiment_name(dataset)
        experiment = self.client.get_experiment_by_name(name)
        if experiment is None or experiment.lifecycle_stage == "active":
            return experiment
        raise DpboError(
            f"the MLflow experiment {name!r} was deleted, so no release of that dataset can be shown in it",
            cause="somebody deleted it in MLflow's page; its runs are kept until mlflow gc",
            remedy="restore it, with this store as MLFLOW_TRACKING_URI: mlflow experiments restore "
            f"--experiment-id {experiment.experiment_id}; or remove it for good with mlflow gc",
        )

    def experiment(self, dataset: str) -> str:
        """Return the id of the dataset's experiment, created with its note if need be."""
        from mlflow.exceptions import MlflowException

        existing = self.check_experiment(dataset)
        if existing is None:
            try:
                self._create_experiment(experiment_name(dataset))
            except MlflowException:  # another process was first
                if self.client.get_experiment_by_name(experiment_name(dataset)) is None:
                    raise
            existing = self.client.get_experiment_by_name(experiment_name(dataset))
        identity = str(existing.experiment_id)
        links = {"editions": EDITIONS_PAGE.format(identity), "comparison": COMPARISON_PAGE.format(identity)}
        for tag, text in ((NOTE_TAG, EXPERIMENT_NOTE.format(**links)), (KIND_TAG, MODELS_KIND)):
            if tag not in existing.tags:
                self.client.set_experiment_tag(identity, tag, text)
        return identity

    def show_editions(self, experiment: str, metrics: list[str], params: list[str]) -> None:
        """Save the view of an experiment's editions: a list of `metrics` and `params`, and charts.

        MLflow shares a view by such a tag, and opens it by its key: `EDITIONS_PAGE`, `COMPARISON_PAGE`.
        """
        columns = [f"metrics.`{key}`" for key in metrics] + [f"params.`{key}`" for key in params]
        order = {"orderByKey": "metrics.`budget/left`", "orderByAsc": True}  # by date MLflow folds a study's runs
        columns_shown = {"selectedColumns": columns, "searchFilter": "tags.`dpbo.kind` = 'edition'"}
        view = json.dumps(columns_shown | order | COMPARISON_CHARTS, ensure_ascii=False)
        if len(view) <= MAX_TAG_LENGTH:
            self.client.set_experiment_tag(experiment, f"mlflow.sharedViewState.{VIEW_KEY}", view)

    def _create_experiment(self, name: str) -> None:
        if self.root is None:
            self.client.create_experiment(name)
            return
        store = _sql_store(self.uri)
        store.artifact_root_uri = ARTIFACT_FOLDER
        store.create_experiment(name)
        store.engine.dispose()

    def put(self, run_id: str, path: Path, folder: str = "") -> None:
        """Put a file or a folder into the run's artifacts, under `folder`."""
        if self.root is None:
            log = self.client.log_artifacts if path.is_dir() else self.client.log_artifact
            log(run_id, str(path), folder or None)
            return
        place = self.root / self.client.get_run(run_id).info.artifact_uri / folder
        if path.is_dir():
            shutil.copytree(path, place, dirs_exist_ok=True)
        else:
            place.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, place)

    def put_model(self, logged: "LoggedModel", path: Path) -> None:
        """Put the folder at `path` into the artifacts of a logged model."""
        if self.root is None:
            self.client.log_model_artifacts(logged.model_id, str(path))
        else:
            shutil.copytree(path, self.root / logged.artifact_location, dirs_exist_ok=True)


def open_store(uri: str) -> Store:
    """Return the MLflow store at `uri`, made if missing; process-wide no telemetry, loggers at WARNING."""
    os.environ.update(MLFLOW_TELEMETRY)
    if uri.startswith(("file:", "/", ".")) and not os.environ.get("MLFLOW_ALLOW_FILE_STORE"):
        raise DpboError(
            "MLFLOW_TRACKING_URI names a folder of files, and MLflow no longer keeps runs in files",
            cause="it was set for an older MLflow",
            remedy="name a database, sqlite:///mlruns/mlflow.db say; mlflow migrate-filestore moves old runs there",
        )
    _check_answer(uri)
    if uri.startswith(SQLITE):
        _check_sound(Path(uri.removeprefix(SQLITE)))
    from mlflow.tracking import MlflowClient

    for name in ("alembic", "mlflow"):  # creating the store is no news
        logging.getLogger(name).setLevel(logging.WARNING)
    root = None  # a server keeps artifacts
    if uri.startswith(SQLITE):
        database = Path(uri.removeprefix(SQLITE))
        root = root_of(database)
        create_atomically(database, _make)
    elif uri.startswith(POSTGRESQL):
        root = Path.cwd()
        make_patient_by_name()
        uri = named(sa.engine.make_url(uri)).render_as_string(hide_password=False)
        _make_postgresql(uri)
    return Store(MlflowClient(tracking_uri=uri, registry_uri=uri), uri, root)


def _check_answer(uri: str) -> None:
    if not uri.startswith(("http://", "https://")):
        return
    import httpx

    try:
        refused = httpx.get(uri, timeout=ANSWER_TIMEOUT_S).status_code in (401, 403)  # whatever else it answers
    except (httpx.TransportError, httpx.InvalidURL):
        raise StoreSilent(
            "MLflow's tracking server does not answer",
            cause="it is not running, or MLFLOW_TRACKING_URI names another place",
            remedy=SILENT_REMEDY,
        ) from None
    if refused:
        _check_credentials(uri)


def _check_credentials(uri: str) -> None:
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    try:
        MlflowClient(tracking_uri=uri).search_experiments(max_results=1)
    except MlflowException:
        raise StoreSilent(
            "MLflow's tracking server asks for credentials that were not given",
            cause="the server has users, and this process names none or a wrong password",
            remedy="set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN, and run "
            "the same study again: it publishes, and spends nothing",
        ) from None


def experiment_name(dataset: str) -> str:
    """Return the name of a dataset's experiment: DPBO_MLFLOW_EXPERIMENT_PREFIX and the dataset's name."""
    return os.environ.get(PREFIX_SETTING, "") + dataset


def own_tags() -> dict[str, str]:
    """Return the tags of DPBO_MLFLOW_TAGS, which every run of ours gets: a JSON object of names and texts."""
    text = os.environ.get(TAGS_SETTING) or "{}"
    try:
        tags = json.loads(text)
    except ValueError:
        tags = None
    if not isinstance(tags, dict) or not all(isinstance(value, str) for value in tags.values()):
        raise DpboError(
            f"{TAGS_SETTING} is no JSON object of texts",
            cause="a typing error, or a number without quotes",
            remedy='write {"team": "risk"}; nothing was charged',
        )
    return tags


def _check_sound(database: Path) -> None:
    if (
        not database.is_file()
    ):  # one that is no database is refused at once: MLflow would try for a minute and a half
        return
    with database.open("rb") as file:
        header = file.read(len(SQLITE_HEADER))
    if header not in (b"", SQLITE_HEADER):
        raise DpboError(
            "MLflow's store cannot be used",
            cause="its file is damaged, or is no database",
            remedy="look at it with dpbo doctor, or name another store (MLFLOW_TRACKING_URI)",
        )


def root_of(database: Path) -> Path:
    """The folder where the artifact locations of a SQLite file start: the one above `mlruns`, or the file's own."""
    folder = database.resolve().parent
    return folder.parent if folder.name == "mlruns" else folder


def _sql_store(uri: str) -> Any:
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    return SqlAlchemyStore(uri, DEFAULT_ARTIFACT_ROOT)


def _make(path: Path) -> None:
    _sql_store(f"{SQLITE}{path}").engine.dispose()


def _make_postgresql(uri: str) -> None:
    """Let MLflow make its tables in a PostgreSQL database, one process at a time; those that are there stay."""
    engine = sa.create_engine(uri, poolclass=sa.pool.NullPool)
    try:
        with engine.begin() as connection:
            ours: Any = connection.connection.driver_connection
            if hasattr(ours, "silence"):
                ours.silence = CREATION_TIMEOUT_S
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(CREATION_LOCK)))
            _sql_store(uri).engine.dispose()
    except sa.exc.OperationalError:
        raise StoreSilent(
            "MLflow's database does not answer",
            cause="its server is not running, has stopped, or MLFLOW_TRACKING_URI names another place",
            remedy=SILENT_REMEDY,
        ) from None


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
    places = {name: (one.experiment, one.run_id, one.location) for name, one in published.items()}
    with suppress(OSError):  # then the next replay asks MLflow
        state = _state(tracking_uri)
        if state is not None:
            text = json.dumps({"state": state, "published": places})
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
