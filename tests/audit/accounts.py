"""What is tried on budgets and on the ledger: names, files, an operator's runs, tampering, old copies, replays."""

import logging
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tomli_w
from team import make_team

from audit.fuzz import standing_in
from audit.ways import Way
from dpbo_core.errors import DpboError, LedgerDamaged
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.study import StudySpec
from dpbo_core.study.spec import read_study, study_digest
from dpbo_core.study.tuning import run_study

CAP = 1.0
NAMES = ("clinic", "Clinic", "clinic-", "clinic.", "\u0441linic", "ward", "clinic 2")  # the fifth is Cyrillic


@contextmanager
def team() -> Iterator[Path]:
    """A team's folder, and we in it, without the user's settings; Prefect's home is there too, and it is quiet."""
    from prefect.settings import PREFECT_HOME, temporary_settings

    from dpbo.flows.prefect_runtime.flow_runs import quiet_environment

    with TemporaryDirectory(prefix="dpbo-audit-") as name:
        folder = Path(name).resolve()
        make_team(folder)
        (folder / "mlruns").mkdir(mode=0o700)
        before = logging.root.manager.disable
        logging.disable(logging.CRITICAL)
        try:
            with standing_in(folder), temporary_settings({PREFECT_HOME: folder / "prefect"}):
                quiet_environment()
                yield folder
        finally:
            logging.disable(before)


def url_of(folder: Path) -> str:
    return f"sqlite:///{folder / 'mlruns' / 'ledger.db'}"


def study(edition: str, **changes: Any) -> StudySpec:
    """The team's study; `changes` by table. It names no cap: the ledger has it."""
    import tomllib

    tables = tomllib.loads(Path("nightly.toml").read_text())
    tables["study"]["edition"] = edition
    cap = tables.pop("budget")
    for name, values in changes.items():
        tables[name] = {**(cap if name == "budget" else tables[name]), **values}
    return StudySpec.from_dict(tables)


@dataclass(frozen=True)
class Renamed:
    """ε spent on one file beside its cap, by names and links; and with a copy, which is out of scope."""

    attempts: int
    times: float
    with_a_copy: float


def renaming() -> Renamed:
    """Each name, with each way to write the path, at the owner's own terminal: where a cap may be opened."""
    with team() as folder:
        (folder / "link.csv").symlink_to("validation.csv")
        (folder / "hard.csv").hardlink_to("validation.csv")
        (folder / "below").mkdir()
        ledger, tried = PrivacyLedger(url_of(folder)), 0

        def spend(name: str, file: str) -> None:
            nonlocal tried
            tried += 1
            changes = {"privacy": {"dataset": name, "epsilon": CAP, "anyway": True}, "budget": {"epsilon": CAP}}
            with suppress(DpboError):
                run_study(study(str(tried), **changes, data={"validation": file}), ledger=ledger, folder=folder)

        def times() -> float:
            return sum(account.spent_epsilon[0] for account in ledger.accounts()) / CAP

        files = "validation.csv", "link.csv", "hard.csv", "below/../validation.csv", str(folder / "link.csv")
        for name in NAMES:
            for file in files:
                spend(name, file)
        (folder / "validation.csv").rename(folder / "renamed.csv")
        for name in NAMES:
            spend(name, "renamed.csv")
        attempts, by_names = tried, times()
        shutil.copy(folder / "renamed.csv", folder / "copy.csv")
        spend("copied", "copy.csv")
        return Renamed(attempts, by_names, times())


def operator() -> Way:
    """Runs that Prefect starts for somebody who is not the owner, and lacks the password: each must be refused."""
    from prefect.exceptions import CancelledRun

    from dpbo.flows.evaluate import evaluate_privately
    from dpbo.flows.prefect_runtime.flow_runs import disable_heartbeat
    from dpbo.flows.prefect_runtime.run_server import run_server
    from dpbo.flows.serve import STUDY_DIGEST_VARIABLE, in_environment, tune_on_schedule
    from dpbo.flows.tune import tune_privately

    with team() as folder:
        ledger = PrivacyLedger(url_of(folder))
        run_study(read_study("nightly.toml"), ledger=ledger, folder=folder)
        ledger.set_budget(ledger.budget("people"), largest_epsilon=0.5)
        shutil.copy("validation.csv", "other.csv")
        runs: dict[str, Callable[[], Any]] = {}
        for name in ("mine", "mine too"):
            budget, privacy = {"epsilon": 1e6}, {"dataset": name, "epsilon": 4000.0}
            runs[f"a dataset of his own ({name})"] = lambda b=budget, p=privacy: tune_privately(
                study("2", budget=b, privacy=p).to_dict()
            )
        small = {"epsilon": 0.25}
        runs["another file"] = lambda: tune_privately(study("3", privacy=small, data={"validation": "other.csv"}))
        runs["more than the largest ε"] = lambda: tune_privately(study("4", privacy={"epsilon": 0.75}))
        runs["a larger cap"] = lambda: tune_privately(study("5", privacy={"epsilon": 2.5}, budget={"epsilon": 1e6}))
        runs["the records as a training set"] = lambda: tune_privately(
            study("6", privacy=small, data={"training": "validation.csv", "validation": "other.csv"})
        )
        for file in ("other.csv", "/etc/hostname", "missing.csv"):
            runs[f"{file} as a training set"] = lambda f=file: tune_privately(
                study("8", privacy=small, data={"training": f})
            )
        for scheme in (
            "postgresql://127.0.0.1:9/d?query=SELECT a FROM t",
            "s3://b/v.csv?endpoint_override=127.0.0.1:9",
        ):
            runs[f"a host of his own ({scheme[:4]})"] = lambda s=scheme: tune_privately(
                study("9", privacy=small, data={"validation": s})
            )
        runs["a saved model of his own"] = lambda: evaluate_privately(study("1"), epsilon=0.1, model="/etc")
        digest = study_digest("nightly.toml")
        Path("other.toml").write_text(tomli_w.dumps(study("7", privacy=small).to_dict()))

        def served() -> Any:
            with in_environment(STUDY_DIGEST_VARIABLE, digest):
                return tune_on_schedule("other.toml", return_state=True).result()

        runs["another study than the one served"] = served
        got = []
        with run_server(), disable_heartbeat():
            for name, run in runs.items():
                try:
                    run()
                except (DpboError, CancelledRun):
                    continue
                got.append(name)
        (account,) = ledger.accounts("people")
        got += [f"spent: {entry.edition}" for entry in account.entries[1:]]
        got += [
            f"opened: {other.budget.dataset}" for other in ledger.accounts() if other.budget.dataset != "people"
        ]
        return Way("Prefect's runs", "operator", "; ".join(runs), len(runs), tuple(got))


def lifted(connection: sqlite3.Connection) -> None:
    """Every trigger off."""
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {name}")


CAPS = "name, public, {}, {}, relation, accepts, opened_at"
SPENDS = "dataset, {}, study, {}, method, resolved, unit, guarantee, spends, {}, {}, {}, noise, reserved_at"
AMOUNTS = ("epsilon_units", "delta_units", "rho_units")
TAMPERED = {
    "a cap raised a thousandfold": f"INSERT OR REPLACE INTO datasets ({CAPS.format(*AMOUNTS[:2])}) "
    f"SELECT {CAPS.format('1000 * epsilon_units', '1000 * delta_units')} FROM datasets",
    "an older spend made nought": "UPDATE reservations SET epsilon_units = 0, rho_units = 0 WHERE id = 1",
    "a row added": f"INSERT INTO reservations ({SPENDS.format('fingerprint', 'edition', *AMOUNTS)}) "
    f"SELECT {SPENDS.format('substr(fingerprint, 2) || 0', '9', 0, 0, 0)} FROM reservations WHERE id = 1",
}


def begin(folder: Path) -> None:
    """The first edition, which opens the cap: three editions."""
    run_study(read_study("nightly.toml"), ledger=PrivacyLedger(url_of(folder)), folder=folder)


def spending(folder: Path, edition: str) -> str:
    """What the next edition came to: "spent", "noticed", or the name of another refusal."""
    try:
        run_study(study(edition), ledger=PrivacyLedger(url_of(folder)), folder=folder)
    except LedgerDamaged:
        return "noticed"
    except DpboError as error:
        return type(error).__name__
    return "spent"


def tampering() -> dict[str, str]:
    """What the next spend came to, after each: two of three editions are spent, so that untouched it passes."""
    came = {}
    for name, statement in TAMPERED.items():
        with team() as folder:
            begin(folder)
            assert spending(folder, "2") == "spent"
            with sqlite3.connect(folder / "mlruns" / "ledger.db") as connection:
                lifted(connection)
                connection.execute(statement)
            connection.close()
            came[name] = spending(folder, "3")
    with team() as folder:
        begin(folder)
        assert [spending(folder, edition) for edition in ("2", "3")] == ["spent"] * 2  # nobody tampered
    return came


def restoring() -> Way:
    """An older copy of the ledger put back, with its generation, without one, and in another folder."""
    tried, got = ("its generation kept", "its generation removed", "in another folder"), []
    for name in tried:
        with team() as folder:
            ledger = folder / "mlruns" / "ledger.db"
            begin(folder)
            shutil.copy(ledger, folder / "old.db")
            assert spending(folder, "2") == "spent"
            place = folder / "elsewhere" if name == tried[2] else folder
            (place / "mlruns").mkdir(parents=True, exist_ok=True)
            shutil.copy(folder / "old.db", place / "mlruns" / "ledger.db")
            generation = ledger.with_name("ledger.db.generation")
            if name == tried[1]:
                generation.unlink()
            if spending(place if place == folder else _moved(folder, place), "3") == "spent":
                got.append(name)
    who = "whoever may write its file"
    return Way("the ledger", who, f"restore: an older copy put back, {', '.join(tried)}", len(tried), tuple(got))


def _moved(folder: Path, place: Path) -> Path:
    for name in ("nightly.toml", "training.csv", "validation.csv"):
        shutil.copy(folder / name, place / name)
    return place
