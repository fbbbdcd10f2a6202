"""What each subcommand does, between its words and its screen."""

import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from dpbo.flows.cli.durations import seconds
from dpbo.flows.cli.replays import check_public_here, replayed
from dpbo.flows.cli.screens.error_message import print_warnings
from dpbo.flows.cli.show import recorded_all_the_same
from dpbo.flows.cli.text_file import lines_of
from dpbo.flows.prefect_runtime.own_output import own_output
from dpbo.flows.prefect_runtime.requested_study import refuse_fields
from dpbo.flows.prefect_runtime.settings import Stores, quiet_environment, without_heartbeat
from dpbo.flows.prefect_runtime.temporary_server import locked_server
from dpbo_core.accounting.accounts import Account
from dpbo_core.accounting.ledger import PrivacyLedger
from dpbo_core.accounting.sources import PUBLIC, file_source
from dpbo_core.errors import DpboError, LedgerDamaged, StudyInvalid, printable
from dpbo_core.privacy.release import Release
from dpbo_core.study.study_file import read_study

if TYPE_CHECKING:
    from dpbo.flows.compare import Comparison
    from dpbo.flows.tune import Tuned
    from dpbo_core.spec import StudySpec


T = TypeVar("T")
OWNER_ALONE = 0o077  # what Prefect and MLflow write beside what is written here
NEEDED = (
    "dpbo.flows.tune", "mlflow.tracking", "mlflow.store.tracking.sqlalchemy_store", "opendp.measurements",
    "mlflow.pyfunc", "pandas", "matplotlib.figure", "matplotlib.backends.backend_agg",
)  # fmt: skip
EXAMPLE = Path(__file__).with_name("breast_cancer.toml")


def init(
    training: Path,
    validation: Path,
    *,
    target: str | None,
    name: str | None,
    person: str | None,
    n_persons: int | None,
    out: Path,
) -> "StudySpec":
    """Write a study file for two data files; the study in it.

    Raises:
        StudyInvalid: a file that cannot serve, or `out` is there already.
        PolicyRefused: the public file is what a dataset is scored on.
    """
    from dpbo.flows.cli.init import study_text, write_study

    check_public_here((file_source(training, PUBLIC),))
    text = study_text(
        training, validation, target=target, name=name, folder=out.parent, person=person, n_persons=n_persons
    )
    write_study(text, out)
    return read_study(out)


def chosen_study(study: Path | None, *, example: bool) -> Path:
    """The study file that was named, or the bundled one.

    Raises:
        StudyInvalid: both or neither.
    """
    if (study is None) != example:
        raise StudyInvalid(
            "tune runs one study: a file, or the bundled example",
            cause="no study was named, or one was named beside --example",
            remedy="run dpbo tune study.toml, or dpbo tune --example; dpbo init writes a study for your own data",
        )
    return EXAMPLE if study is None else study


def check_predictions(path: Path) -> None:
    """The study is one of predictions made elsewhere.

    Raises:
        StudyInvalid: it trains models.
    """
    if read_study(path).model.trained:
        raise StudyInvalid(
            "this study trains models, and score chooses among predictions made elsewhere",
            cause='[model] has another estimator than "predictions"',
            remedy="run dpbo tune, or name a table of predictions in [data]",
        )


def tune(path: Path, *, pad_steps: float = 0.0, register: bool = False) -> "tuple[Tuned, Account]":
    """Run the study in `path` as a Prefect flow; its result, and its dataset's account afterwards.

    Of a study that was released and is shown already nothing is run. What could not be published is told on
    standard error; the result stands.

    Raises:
        DpboError: as a message; whatever Prefect wraps around it is taken off. Prefect failed after the release.
    """
    check_padding(pad_steps)
    study = read_study(path)
    refuse_fields(study)
    folder = "." if path == EXAMPLE else os.path.relpath(str(path.parent))  # a bundled set is in no folder
    quiet_environment()
    if not register:
        known = replayed(study, folder)
        if known is not None:
            return known

    def flow() -> "Tuned":
        from dpbo.flows.tune import tune_privately

        return tune_privately(study, folder, pad_steps, register)

    tuned = run_here(study.name, flow, lambda what: recorded_all_the_same(study, what))
    print_warnings(tuned.warnings)
    (account,) = PrivacyLedger(Stores().ledger).accounts(study.privacy.dataset)
    return tuned, account


def run_here(name: str, flow: Callable[[], T], recorded: Callable[[str], DpboError | None]) -> T:
    """Call a flow as the data's owner, on a Prefect server of this command's own.

    Args:
        name: of the study.
        flow: the call; it imports the flow, while the server starts.
        recorded: asked, where something unexpected (of that type) ended it: the message if its release is recorded.

    Raises:
        DpboError: as the flow's; or what `recorded` says.
    """
    if sys.stderr.isatty():
        sys.stderr.write(f"{printable(name)}: starting Prefect and MLflow\n")
    from dpbo.flows.prefect_runtime.owner import owners_terminal
    from dpbo.flows.prefect_runtime.prefect_store import create_prefect_store

    os.umask(OWNER_ALONE)
    create_prefect_store()
    late = None
    try:
        with own_output(), locked_server(_load), without_heartbeat(), owners_terminal():
            return flow()
    except DpboError:
        raise
    except Exception as error:
        late = recorded(type(error).__name__)
        if late is None:
            raise
    raise late


def _load() -> None:
    """What a run imports on its way, while its server starts. What cannot be imported is told where it is used."""
    for name in NEEDED:
        with suppress(Exception):
            import_module(name)


def serve(
    path: Path,
    *,
    cron: str | None,
    every: str | None,
    port: int,
    pad_steps: float,
    register: bool,
    trust: bool = False,
) -> None:
    """Serve a study's schedule until it is stopped.

    Raises:
        StudyInvalid: not exactly one schedule, or one that cannot be read.
    """
    if (cron is None) == (every is None):
        raise StudyInvalid("a schedule needs --cron or --every, and not both", remedy='add --cron "0 2 * * *", say')
    check_padding(pad_steps)
    interval = None if every is None else seconds(every)
    quiet_environment()
    from dpbo.flows import serve as story
    from dpbo.flows.prefect_runtime.prefect_store import create_prefect_store

    os.umask(OWNER_ALONE)
    create_prefect_store()
    try:
        story.serve(path, cron=cron, every=interval, port=port, pad_steps=pad_steps, register=register, trust=trust)
    except DpboError:  # some of them are ValueErrors too
        raise
    except ValueError:
        pass
    else:
        return
    raise StudyInvalid(f"--cron {cron!r} is no schedule", remedy='write five fields, "0 2 * * *" say')


def compare(
    *, repetitions: int, only: tuple[str, ...], out: Path, epsilons: tuple[float, ...], own: Path | None
) -> "Comparison":
    """Run the comparison as a Prefect flow.

    Raises:
        StudyInvalid: a data set that is not known, an ε that is no price, or a file that is no task.
    """
    from dpbo_core.comparison.measuring import epsilons_of, names_of
    from dpbo_core.comparison.own_task import read_task

    names_of(only)
    epsilons_of(epsilons)
    if own is not None:
        if only:
            raise StudyInvalid("--task and --only together", remedy="give one of them")
        check_public_here((file_source(own, PUBLIC),))
        read_task(own)
    quiet_environment()
    from dpbo.flows.compare import compare_methods
    from dpbo.flows.prefect_runtime.prefect_store import create_prefect_store

    create_prefect_store()
    with own_output(), locked_server(), without_heartbeat():
        return compare_methods(repetitions, str(out), only, epsilons, None if own is None else str(own))


def check_padding(pad_steps: float) -> None:
    """Refuse what is no duration.

    Raises:
        StudyInvalid: it is none.
    """
    if not 0.0 <= pad_steps < float("inf"):
        raise StudyInvalid(f"--pad-steps {pad_steps} is no duration", remedy="give seconds, 0 or more")


def check_certificate(file: Path) -> str:
    """Recompute a release's ε and δ from its own page; one sentence about it.

    Raises:
        StudyInvalid: the file is no release.
        CertificateFalse: its numbers do not support its guarantee.
        LedgerDamaged: the ledger here recorded it, and is older than it was.
    """
    from dpbo_core.accounting.certificate import read_certificate, recompute
    from dpbo_core.evaluation.certified import CERTIFIED

    text = "\n".join(
        lines_of(file, remedy="take release.json from mlruns/artifacts/RUN/artifacts, or from dpbo ui")
    )
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    release = read_certificate(document, CERTIFIED)
    found = recompute(release, CERTIFIED)
    kind = (
        f"ε = {found.epsilon:.6g}" if found.delta == 0.0 else f"(ε, δ) = ({found.epsilon:.6g}, {found.delta:.6g})"
    )
    by_price = f" Priced as printed: {', '.join(found.by_price)}." if found.by_price else ""
    in_ledger = _in_ledger(release)
    draws = "1 draw costs" if found.draws == 1 else f"{found.draws} draws cost"
    near = f" Its score is {found.score_bound}." if found.score_bound else ""
    said = f"{release.study}, edition {release.edition}: {draws} {kind}.{by_price} {release.guarantee.in_words()}"
    return printable(said + near + in_ledger)


def _in_ledger(release: Release) -> str:
    """What the ledger here, if there is one, adds to a certificate that proves itself; mostly nothing.

    Raises:
        LedgerDamaged: it is the release's, and older than the release.
    """
    from dpbo_core.accounting import recorded_in

    url = Stores().ledger
    try:
        standing = recorded_in.standing_of(release, url) if recorded_in.at_hand(url) else "another"
    except LedgerDamaged:
        raise
    except DpboError:
        return " The ledger could not be asked whether it has this release."
    return " The ledger does not have it any more: an older copy was accepted since." * (standing == "accepted")


def ui(port: int) -> None:
    """Show MLflow's pages on this machine, read-only and behind a token, until stopped.

    Where MLFLOW_TRACKING_URI names a server, its own link is all there is to show.

    Raises:
        DpboError: there is nothing to show yet, or MLflow's server cannot be started.
    """
    stores = Stores()
    if stores.tracking.startswith(("http://", "https://")):
        sys.stdout.write(f"MLflow, at the server of MLFLOW_TRACKING_URI: {stores.mlflow_page}\n")
        return
    local = stores.tracking.startswith("sqlite:///")
    if local and not Path(stores.tracking.removeprefix("sqlite:///")).exists():
        raise DpboError(
            "there is no release to show yet", cause="no study has run here", remedy="run dpbo tune first"
        )
    if stores.mlflow_tracking_uri is None:
        stores.make_folder()
    from dpbo.flows.viewer.serving import show
    from dpbo.tasks.reporting.mlflow_store import open_store

    store = open_store(stores.tracking)
    if store.root is None:
        raise DpboError(
            "MLFLOW_TRACKING_URI names no store that can be shown here",
            remedy="open its own page, or name a server (https://…), sqlite:/// or postgresql://",
        )
    show(store, base=store.root.resolve(), port=port)
