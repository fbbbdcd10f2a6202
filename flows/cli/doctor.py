"""`dpbo doctor`: is this machine fit for private studies? It asks nothing, opens no data and changes nothing."""

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from packaging.requirements import Requirement

from dpbo.flows.cli.budget import rounds_text
from dpbo.flows.cli.running import accounts_here, is_there
from dpbo.flows.prefect_runtime.flow_runs import (
    PROFILES,
    check_prefect_settings,
    configured_api,
    prefect_home,
    prefect_is_configured,
    prefect_settings,
    quiet_environment,
)
from dpbo.flows.prefect_runtime.run_server import DATABASE_FILE, LOOPBACK_HOST, answers, start_failure
from dpbo.flows.prefect_runtime.schedule_server import SECRET_FILE_PREFIX as PASSWORD_FILE
from dpbo.flows.prefect_runtime.schedule_server import refuse_idle_scheduler, standing
from dpbo.flows.stores import DASK_SETTING, STORES_FOLDER, Stores
from dpbo.flows.terminal import Screen, named, print_sentence
from dpbo.tasks.reporting.mlflow_store import open_store, published_in
from dpbo_core.errors import DpboError
from dpbo_core.ledger import audit
from dpbo_core.ledger.accounting.account import balances
from dpbo_core.ledger.accounting.admission import alert_share
from dpbo_core.ledger.accounts import DatasetAccount

MIN_DISK_BYTES = 500 * 2**20  # bytes; a study writes a few megabytes, a full disk fails one in the middle
VERDICT_MARKS = {"fine": "[green]✓[/]", "note": "[yellow]·[/]", "wrong": "[red]✗[/]"}
OTHERS_MODE = stat.S_IRWXG | stat.S_IRWXO
SECRET_SETTINGS = ("AUTH_STRING", "API_KEY", "CONNECTION_URL")
Verdict = Literal["fine", "note", "wrong"]


@dataclass(frozen=True)
class Finding:
    """One finding of `dpbo doctor`: subject, verdict, observation, and the remedy where something is wrong."""

    what: str
    verdict: Verdict
    observed: str
    remedy: str = ""


def doctor(
    prepare: Annotated[
        bool,
        typer.Option("--prepare", help="Set up Prefect's database for this user, and check nothing else."),
    ] = False,
) -> None:
    """Check this machine's setup: versions, stores, settings, server, budgets. Only --prepare changes anything."""
    if prepare:  # Prefect's database, for which the first study would wait
        quiet_environment()
        os.umask(0o077)
        command = [sys.executable, "-P", "-m", "prefect", "server", "database", "upgrade", "-y"]
        done = subprocess.run(command, capture_output=True, check=False)  # noqa: S603  our own interpreter
        if done.returncode != 0:
            raise start_failure(done.stdout + done.stderr, "what `prefect server database upgrade` writes")
        print_sentence(f"Prefect's database is ready in {prefect_home()}")
        return
    findings = examine()
    print_findings(findings)
    if any(finding.verdict == "wrong" for finding in findings):
        raise typer.Exit(1)


def examine() -> tuple[Finding, ...]:
    """Return all findings of `dpbo doctor`, in the order in which they are printed."""
    quiet_environment()
    looks: tuple[Callable[[], Iterator[Finding]], ...] = (
        _versions, _disk, _settings, _files, _ledger,
        _budgets, _mlflow, _server, dask_cluster,
    )  # fmt: skip
    return tuple(finding for look in looks for finding in _findings_of(look))


def _findings_of(look: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    name = look.__name__.strip("_").replace("_", " ")
    try:
        yield from look()
    except DpboError as error:
        yield Finding(name, "wrong", error.what, error.remedy)
    except Exception as error:  # noqa: BLE001  a doctor reports what is broken
        yield Finding(name, "wrong", type(error).__name__, "run dpbo doctor --debug on a fresh installation")


def _versions() -> Iterator[Finding]:
    yield Finding("python", "fine", sys.version.split()[0])
    refuse_idle_scheduler()
    wrong, n_read = [], 0
    for line in requires("dpbo") or ():
        requirement = Requirement(line)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        n_read += 1
        try:
            installed = version(requirement.name)
        except PackageNotFoundError:
            installed = "missing"
        if installed == "missing" or not requirement.specifier.contains(installed, prereleases=True):
            wrong.append(f"{requirement.name} {installed}, wanted {requirement.specifier}")
    if wrong:
        yield Finding("versions", "wrong", "; ".join(wrong), "install dpbo again, into an environment of its own")
    else:
        yield Finding("versions", "fine", f"{n_read} packages within their ranges")


def _disk() -> Iterator[Finding]:
    here = STORES_FOLDER if STORES_FOLDER.exists() else Path()
    free = shutil.disk_usage(here).free
    gigabytes = f"{free / 2**30:.1f} GB free"
    if not os.access(here, os.W_OK):
        yield Finding("stores", "wrong", f"{here} cannot be written", "run in a folder of your own")
    elif free < MIN_DISK_BYTES:
        yield Finding("stores", "wrong", gigabytes, "free some space: a full disk stops a study in the middle")
    else:
        made = "./mlruns" if STORES_FOLDER.exists() else "./mlruns, made at the first study"
        yield Finding("stores", "fine", f"{made}; {gigabytes}")


def _settings() -> Iterator[Finding]:
    check_prefect_settings()
    yield Finding("prefect's settings", "fine", "nothing of a run is kept beyond its policy")


def _ledger() -> Iterator[Finding]:
    stores = Stores()
    if not is_there(stores.ledger):
        yield Finding("ledger", "note", "none yet; the first study or dpbo budget set makes it")
        return
    yield Finding("ledger", "fine", f"whole, {audit.verify(stores.ledger).sequence} entries")


def _files() -> Iterator[Finding]:
    try:
        accounts = accounts_here()
    except DpboError:
        accounts = ()  # the look at the ledger says why
    yield from files(accounts)


def _budgets() -> Iterator[Finding]:
    for account in accounts_here():
        name = f"budget of {account.budget.dataset}"
        if account.budget.public:
            yield Finding(name, "fine", "declared public, no limit")
            continue
        last = list(balances(account, account.entries[-1:].__contains__))
        share = last[0].share if last else 0.0
        spent = f"{share:.0%} of ε = {account.budget.epsilon_units / 1e12:g} spent"
        open_ended = sum(entry.released_at is None and not rounds_text(entry) for entry in account.entries)
        if open_ended:
            observed = f"{spent}; {open_ended} not finished"
            yield Finding(name, "note", observed, "run those studies again: they continue")
        elif share >= alert_share():
            yield Finding(name, "note", spent, "plan what the rest is for")
        else:
            yield Finding(name, "fine", spent)


def _mlflow() -> Iterator[Finding]:
    uri = Stores().tracking
    if not is_there(uri):
        yield Finding("mlflow", "note", "no store yet; the first study makes it")
        return
    if published_in(uri):
        yield Finding("mlflow", "fine", "unchanged since dpbo wrote to it")
    else:
        yield Finding("mlflow", "fine", f"{len(open_store(uri).client.search_experiments())} experiments")


def _server() -> Iterator[Finding]:
    """Yield findings about Prefect's server here, by HTTP: whether it answers, and requires a password."""
    named = configured_api()
    api = named or f"http://{LOOPBACK_HOST}:4200/api"
    if not answers(api):
        if named is None:
            yield Finding("prefect server", "note", "none runs; dpbo serve starts one, dpbo tune needs none")
        else:
            yield Finding("prefect server", "wrong", api, "start it, or unset PREFECT_API_URL")
    elif standing(api, {}) == "open":
        remedy = "set PREFECT_SERVER_API_AUTH_STRING for it, or let dpbo serve start one"
        verdict: Verdict = "note" if named is None else "wrong"  # one that is merely there is not used
        yield Finding("prefect server", verdict, f"{api} asks nobody for a password", remedy)
    else:
        yield Finding("prefect server", "fine", f"{api} answers, and asks for a password")
    proxies = [name for name in os.environ if name.upper() in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")]
    if proxies:
        yield Finding("proxy", "fine", f"{', '.join(proxies)} is set; requests to this machine bypass it")


def print_findings(findings: tuple[Finding, ...]) -> None:
    """Print the findings of `dpbo doctor`, one line each, and what to do."""
    screen = Screen()
    rows = []
    for finding in findings:
        advice = f". {finding.remedy[0].upper()}{finding.remedy[1:]}" if finding.remedy else ""
        rows.append(
            (VERDICT_MARKS[finding.verdict], finding.verdict, finding.what, f"{named(finding.observed)}{advice}")
        )
    if screen.plain:
        screen.facts((f"{what}, {verdict}", text) for _, verdict, what, text in rows)
    else:
        screen.facts((f"{mark}  {what}", text) for mark, _, what, text in rows)


def files(accounts: tuple[DatasetAccount, ...]) -> Iterator[Finding]:
    """A finding: whether others can read the stores, vaults, passwords or sensitive files; none if none exists."""
    home = prefect_home()
    profiles = prefect_settings().profiles_path if prefect_is_configured() else home / PROFILES
    database = home / DATABASE_FILE
    if database.exists() and _others_reach(database):
        others = f"Other users of this machine can read {database}"
        yield Finding("prefect's folder", "note", others, f"chmod 700 {home}")
    private_paths = [
        STORES_FOLDER,
        Stores().vaults,
        *STORES_FOLDER.glob("*.generation"),
        *STORES_FOLDER.glob("*.db"),
    ]
    private_paths += sorted(home.glob(f"{PASSWORD_FILE}*"))
    private_paths += [profiles] if _holds_a_secret(profiles) else []
    approved = [item.source for account in accounts if not account.budget.public for item in account.sources]
    private_paths += [Path(source.name) for source in approved if source.kind == "file"]
    there = [path for path in private_paths if path.exists()]
    read = [str(path) for path in there if _others_reach(path)]
    if read:
        yield Finding(
            "files", "wrong", f"others can read {', '.join(read)}", "chmod go-rwx, or a folder of your own"
        )
    elif there:
        yield Finding("files", "fine", f"{len(there)} files and folders are yours alone")


def dask_cluster() -> Iterator[Finding]:
    """Findings about the configured Dask cluster, one "fine" if it is fit; none without one."""
    if not os.environ.get(DASK_SETTING):
        return
    from dpbo.flows.standing_cluster import blind_workers_here, problems, standing_cluster

    cluster = standing_cluster()
    if cluster is None:
        return
    yield from _dask_key()
    with ExitStack() as running:
        client = cluster.client(running)
        wrong = problems(client)
        if wrong:
            yield from (Finding("dask cluster", "wrong", problem.what, problem.remedy) for problem in wrong)
            return
        n = len(client.nthreads())
        workers = "worker" if n == 1 else "workers"
        yield Finding(
            "dask cluster",
            "fine",
            f"{cluster.address}: {n} {workers} with these versions, TLS alone, no pages, nothing spilt or packed",
        )
        for blind in blind_workers_here(client):
            yield Finding("dask cluster", "wrong", blind, "mount the folder on every worker's host, readable")
        others = client.run_on_scheduler(n_clients) - 1
        if others:
            yield Finding(
                "dask clients",
                "note",
                f"{others} beside this one",
                "whoever holds a certificate can read what the workers read",
            )


def _holds_a_secret(profiles: Path) -> bool:
    try:
        text = profiles.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return any(secret in text for secret in SECRET_SETTINGS)


def _others_reach(path: Path) -> bool:
    if not path.stat().st_mode & OTHERS_MODE:
        return False
    above = path.resolve().parents
    return all(folder.stat().st_mode & (stat.S_IXGRP | stat.S_IXOTH) for folder in above)


def n_clients(dask_scheduler: Any) -> int:
    """Return how many clients a Dask scheduler has, without Dask's own; it is run on the scheduler."""
    return sum(name.startswith("Client") for name in dask_scheduler.clients)


def _dask_key() -> Iterator[Finding]:
    import dask

    tls = dask.config.get("distributed.comm.tls.client")
    path = Path(tls["key"] or tls["cert"] or "")
    if path.is_file() and path.stat().st_mode & 0o077:
        yield Finding("dask key", "wrong", f"others can read {path}", f"chmod 600 {path}")
