"""What each subcommand does, between its words and its screen."""

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpbo_core.accounting import audit, merging, recorded_in, recovery
from dpbo_core.accounting.accounts import Account
from dpbo_core.accounting.budget import PrivacyBudget
from dpbo_core.accounting.certificate import read_certificate, recompute
from dpbo_core.accounting.ledger import PrivacyLedger
from dpbo_core.accounting.sources import Source, named_source
from dpbo_core.comparison.measuring import names_of
from dpbo_core.data.bundled import SIZES
from dpbo_core.errors import DpboError, LedgerDamaged, StudyInvalid, printable, suggestion
from dpbo_core.models.listed.names import unlisted_name
from dpbo_core.privacy.amounts import from_units
from dpbo_core.privacy.assumption import CALLER_ASSUMPTIONS
from dpbo_core.privacy.release import Release
from dpbo_core.privacy.unit import NeighboringRelation
from dpbo_core.spec.model import OUR_ESTIMATORS
from dpbo_core.spec.sections import BudgetSection, PrivacySection
from dpbo_core.study.run import read_study
from flows.cli.screens.letters import print_warnings
from flows.cli.show import recorded_all_the_same
from flows.prefect_runtime.own_output import own_output
from flows.prefect_runtime.scheduled_run import refuse_fields, seconds
from flows.prefect_runtime.settings import Stores, quiet_environment, without_heartbeat
from flows.prefect_runtime.temporary_server import locked_server

if TYPE_CHECKING:
    from dpbo_core.spec import StudySpec
    from flows.cli.doctor import Finding
    from flows.compare import Comparison
    from flows.tune import Tuned


OWNER_ALONE = 0o077  # what Prefect and MLflow write beside what is written here
EXAMPLE = Path(__file__).with_name("breast_cancer.toml")


def init(
    training: Path, validation: Path, *, target: str | None, name: str | None, person: str | None, out: Path
) -> "StudySpec":
    """Write a study file for two data files; the study in it.

    Raises:
        StudyInvalid: a file that cannot serve, or `out` is there already.
    """
    from flows.cli.init import study_text, write_study

    text = study_text(training, validation, target=target, name=name, folder=out.parent, person=person)
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


def tune(path: Path, *, pad_steps: float = 0.0, register: bool = False) -> "tuple[Tuned, Account]":
    """Run the study in `path` as a Prefect flow; its result, and its dataset's account afterwards.

    What could not be published is told on standard error; the result stands.

    Raises:
        DpboError: as a letter; whatever Prefect wraps around it is taken off. Prefect failed after the release.
    """
    _check_padding(pad_steps)
    study = read_study(path)
    refuse_fields(study)
    folder = "." if path == EXAMPLE else os.path.relpath(str(path.parent))  # a bundled set is in no folder
    quiet_environment()
    from flows.prefect_runtime.owner import owners_terminal
    from flows.prefect_runtime.prefect_store import create_prefect_store
    from flows.tune import tune_privately

    os.umask(OWNER_ALONE)
    create_prefect_store()
    late = None
    try:
        with own_output(), locked_server(), without_heartbeat(), owners_terminal():
            tuned = tune_privately(study, folder, pad_steps, register)
    except DpboError:
        raise
    except Exception as error:
        late = recorded_all_the_same(study, type(error).__name__)
        if late is None:
            raise
    if late is not None:
        raise late
    print_warnings(tuned.warnings)
    (account,) = PrivacyLedger(Stores().ledger).accounts(study.privacy.dataset)
    return tuned, account


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
    _check_padding(pad_steps)
    interval = None if every is None else seconds(every)
    quiet_environment()
    from flows import serve as story
    from flows.prefect_runtime.prefect_store import create_prefect_store

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


def compare(*, repetitions: int, only: tuple[str, ...], out: Path) -> "Comparison":
    """Run the comparison as a Prefect flow.

    Raises:
        StudyInvalid: a data set that is not known.
    """
    names_of(only)
    quiet_environment()
    from flows.compare import compare_methods
    from flows.prefect_runtime.prefect_store import create_prefect_store

    create_prefect_store()
    with own_output(), locked_server(), without_heartbeat():
        return compare_methods(repetitions, str(out), only)


def _check_padding(pad_steps: float) -> None:
    if not 0.0 <= pad_steps < float("inf"):
        raise StudyInvalid(f"--pad-steps {pad_steps} is no duration", remedy="give seconds, 0 or more")


def accounts(dataset: str | None) -> tuple[Account, ...]:
    """The ledger's accounts.

    Raises:
        StudyInvalid: no dataset of that name.
    """
    stores = Stores()
    stores.make_folder()
    ledger = PrivacyLedger(stores.ledger)
    found = ledger.accounts(dataset)
    if dataset is not None and not found:
        names = [account.budget.dataset for account in ledger.accounts()]
        raise StudyInvalid(
            f"the ledger knows no dataset {dataset!r}{suggestion(dataset, names)}",
            cause="a misspelt name, another folder's ledger, or nothing was ever spent on it",
            remedy="run dpbo budget to see them all",
        )
    return found


WORDS = ("recover", "allow", "merge")  # no cap was ever refused for them before: a study that has one keeps it


@dataclass(frozen=True)
class Policy:
    """What `dpbo budget set` says beside the cap.

    Attributes:
        largest_epsilon: the most that a study which Prefect starts may ask for.
        files: what the dataset may be scored on, as typed.
        members: names whose studies the cap pays too.
    """

    largest_epsilon: float | None = None
    files: tuple[str, ...] = ()
    members: tuple[str, ...] = ()


CAP_ALONE = Policy()


def set_budget(
    dataset: str,
    *,
    epsilon: float | None,
    delta: float,
    relation: str,
    accepts: tuple[str, ...],
    public: bool,
    policy: Policy = CAP_ALONE,
) -> str:
    """Open a cap, or add to the policy of one that is open; one sentence about it.

    Raises:
        StudyInvalid: impossible numbers or names, or the dataset has another cap.
        PolicyRefused: a name looks like another, or a file is another dataset's.
    """
    for name in (dataset, *policy.members):
        PrivacySection(dataset=name, epsilon=1.0)
        if name in WORDS:
            raise StudyInvalid(
                f"{name!r} is a word of dpbo budget", cause="the dataset is named so", remedy="give it another name"
            )
    if policy.largest_epsilon is not None:
        PrivacySection(dataset=dataset, epsilon=policy.largest_epsilon)
    stores = Stores()
    stores.make_folder()
    ledger = PrivacyLedger(stores.ledger)
    budget = ledger.budget(dataset) if epsilon is None and not public and policy != CAP_ALONE else None
    if budget is not None:
        public, epsilon, delta = budget.public, from_units(budget.epsilon_units), from_units(budget.delta_units)
    elif public:
        if epsilon is not None:
            raise StudyInvalid("a public dataset has no ε", remedy="give --public or --epsilon, not both")
        budget = PrivacyBudget.without_limit(dataset)
    else:
        if epsilon is None:
            raise StudyInvalid("a cap needs --epsilon", remedy="add --epsilon 5 --delta 1e-5, say")
        BudgetSection(epsilon=epsilon, delta=delta)
        valid = [item.value for item in NeighboringRelation]
        if relation not in valid:
            raise StudyInvalid(f"relation {relation!r} is not known{suggestion(relation, valid)}")
        for name in accepts:
            if name not in CALLER_ASSUMPTIONS:
                raise StudyInvalid(f"assumption {name!r} is not known{suggestion(name, CALLER_ASSUMPTIONS)}")
        budget = PrivacyBudget.of(
            dataset, epsilon=epsilon, delta=delta, relation=NeighboringRelation(relation), accepts=accepts
        )
    new = ledger.set_budget(
        budget,
        sources=tuple(_source(text) for text in policy.files),
        members=policy.members,
        largest_epsilon=policy.largest_epsilon,
    )
    limit = "no limit: declared public" if public else f"limit ε = {epsilon:g}, δ = {delta:g}"
    return printable(f"{dataset}: {limit} ({'opened' if new else 'as before'})")


def allow(dataset: str, text: str, *, shared: bool) -> str:
    """Add to what a dataset may be scored on; one sentence about it.

    Raises:
        BudgetRefused: the dataset has no cap, or the file is another dataset's and not said to be shared.
    """
    stores = Stores()
    stores.make_folder()
    source = _source(text)
    others = PrivacyLedger(stores.ledger).allow(dataset, source, shared=shared)
    if others is None:
        return printable(f"{dataset}: may be scored on {source} (as before).")
    told = f" Its people pay {', '.join(others)} too, and each of these accounts says so." if others else ""
    return printable(f"{dataset}: may be scored on {source} from now on.{told}")


def merge() -> str:
    """Charge the current folder's ledger to the team's; one sentence about it.

    Raises:
        StudyInvalid: there is one ledger only.
        LedgerDamaged: a ledger is not whole; nothing was added.
    """
    found = merging.merge(Stores().ledger)
    if found == recovery.Recovered():
        return "The team's ledger has every spend of ./mlruns/ledger.db; nothing was added."
    return printable(f"{_told(found, 'local')} They count as spent: dpbo budget shows what is left.")


def _source(text: str) -> Source:
    return named_source(text, [name for name, _ in SIZES])


def export(out: Path | None) -> None:
    """The ledger's history, as JSON lines, into a file of its owner's or onto standard output.

    Raises:
        StudyInvalid: the file cannot be written.
    """
    stores = Stores()
    stores.make_folder()
    text = "".join(f"{line}\n" for line in audit.export(stores.ledger))
    if out is None:
        sys.stdout.write(text)
        return
    try:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=out.parent, delete=False) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(file.name).replace(out)
    except OSError as error:
        reason = (error.strerror or "no reason given").lower()
    else:
        return
    raise StudyInvalid(f"the file {str(out)!r} cannot be written ({reason})", remedy="choose another place")


def verify(file: Path | None, *, accept_restored: bool) -> str:
    """Check the ledger, against an export too if there is one; one sentence about it.

    Raises:
        LedgerDamaged: says what was tampered with, or that the ledger is older than it was.
        StudyInvalid: the export cannot be read.
    """
    copy = () if file is None else audit.read_export(_lines(file))
    stores = Stores()
    stores.make_folder()
    found = audit.verify(stores.ledger, copy, accept=accept_restored)
    conditional = audit.conditional_releases(stores.ledger, estimator_standing)
    entries = "1 entry" if found.last.sequence == 1 else f"{found.last.sequence} entries"
    whole = f"The ledger is whole: {entries}, the last sealed {found.last.hash[:16]}."
    if found.recovered is not None:
        whole = f"Accepted, and written into the history; {found.recovered} lost entries were recovered. {whole}"
    return printable(" ".join([whole, *(f"{told}." for told in conditional)]))


def estimator_standing(facts: Mapping[str, Any]) -> audit.Verdict:
    """What a recorded release says of its estimator, held to today's rule.

    A release of a notebook names a class by its package alone ("sklearn.Pipeline"), and not what it holds: nothing
    can be told of it; nor of a record that names none.
    """
    estimator = facts.get("estimator")
    if estimator in OUR_ESTIMATORS or facts.get("rowwise") == "enforced":
        return "unconditional"
    if not isinstance(estimator, str) or estimator.count(".") < 2:
        return "unknown"
    return "conditional" if unlisted_name(estimator, {}, {}) else "unconditional"


def recover(file: Path) -> str:
    """Add to the ledger what an export has and it lacks; one sentence about it.

    Raises:
        LedgerDamaged: the export is another ledger's or is not whole; nothing was added.
        StudyInvalid: the export cannot be read.
    """
    copy = audit.read_export(_lines(file))
    stores = Stores()
    stores.make_folder()
    found = recovery.recover(stores.ledger, copy)
    if found == recovery.Recovered():
        return "The ledger has everything that the export has; nothing was added."
    return printable(f"{_told(found, 'lost')} They count as spent: dpbo budget shows what is left.")


def _told(found: recovery.Recovered, which: str) -> str:
    told = f"{found.charges} {which} charges were added, with {found.draws} draws and {found.releases} releases."
    if found.smaller_caps:
        names = ", ".join(sorted(set(found.smaller_caps)))
        told += f" There were two caps of {names}; the smaller holds now, or no more is admitted."
    return told


def _lines(file: Path, *, remedy: str = "check the path") -> list[str]:
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        reason = (error.strerror or "no reason given").lower()
    except UnicodeDecodeError:
        reason = "it is not UTF-8 text"
    raise StudyInvalid(f"the file {str(file)!r} cannot be read ({reason})", remedy=remedy)


def examine() -> "tuple[Finding, ...]":
    """What `dpbo doctor` finds on this machine."""
    quiet_environment()
    from flows.cli.doctor import examine as look

    return look()


def check_certificate(file: Path) -> str:
    """Recompute a release's ε and δ from its own page; one sentence about it.

    Raises:
        StudyInvalid: the file is no release.
        CertificateFalse: its numbers do not support its promise.
        LedgerDamaged: the ledger here recorded it, and is older than it was.
    """
    from dpbo_core.methods import CERTIFIED

    text = "\n".join(_lines(file, remedy="take release.json from mlruns/artifacts/RUN/artifacts, or from dpbo ui"))
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
    said = f"{release.study}, edition {release.edition}: {draws} {kind}.{by_price} {release.guarantee.in_words()}"
    return printable(said + in_ledger)


def _in_ledger(release: Release) -> str:
    """What the ledger here, if there is one, adds to a certificate that proves itself; mostly nothing.

    Raises:
        LedgerDamaged: it is the release's, and older than the release.
    """
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
    from flows.viewer.serving import show
    from tasks.reporting.mlflow_store import open_store

    store = open_store(stores.tracking)
    if store.root is None:
        raise DpboError(
            "MLFLOW_TRACKING_URI names no store that can be shown here",
            remedy="open its own page, or name a server (https://…), sqlite:/// or postgresql://",
        )
    show(store, base=store.root.resolve(), port=port)
