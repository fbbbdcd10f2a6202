"""What `dpbo doctor` finds about files that others can read, and about a Dask cluster. It changes nothing."""

import stat
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from dpbo.flows.prefect_runtime.run_server import DATABASE
from dpbo.flows.prefect_runtime.schedule_server import NAME as PASSWORD_FILE
from dpbo.flows.prefect_runtime.settings import PROFILES, prefect_home, prefect_is_configured, prefect_settings
from dpbo.flows.stores import FOLDER, Stores
from dpbo.flows.workers.dask_fitness import problems
from dpbo.flows.workers.standing_cluster import standing_cluster
from dpbo_core.ledger.accounts import DatasetAccount

OTHERS = stat.S_IRWXG | stat.S_IRWXO
SECRETS = ("AUTH_STRING", "API_KEY", "CONNECTION_URL")


Verdict = Literal["fine", "note", "wrong"]


@dataclass(frozen=True)
class Finding:
    """One finding of `dpbo doctor`: subject, verdict, observation, and the remedy where something is wrong."""

    what: str
    verdict: Verdict
    observed: str
    remedy: str = ""


def files(accounts: tuple[DatasetAccount, ...]) -> Iterator[Finding]:
    """A finding: whether others can read the stores, vaults, passwords or sensitive files; none if none exists."""
    home, profiles = _of_prefect()
    database = home / DATABASE
    if database.exists() and _others_reach(database):
        others = f"Other users of this machine can read {database}"
        yield Finding("prefect's folder", "note", others, f"chmod 700 {home}")
    private_paths = [FOLDER, Stores().vaults, *FOLDER.glob("*.generation"), *FOLDER.glob("*.db")]
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
    """Findings about the configured Dask cluster, one "fine" if it is fit; none without one; refused if
    unreachable.
    """
    cluster = standing_cluster()
    if cluster is None:
        return
    from dpbo.flows.workers.scorers import blind_workers_here

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


def _of_prefect() -> tuple[Path, Path]:
    if not prefect_is_configured():
        return prefect_home(), prefect_home() / PROFILES
    return prefect_home(), prefect_settings().profiles_path


def _holds_a_secret(profiles: Path) -> bool:
    try:
        text = profiles.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return any(secret in text for secret in SECRETS)


def _others_reach(path: Path) -> bool:
    """Whether other users can read or write a path, by its mode and that of each folder above it."""
    if not path.stat().st_mode & OTHERS:
        return False
    above = path.resolve().parents
    return all(folder.stat().st_mode & (stat.S_IXGRP | stat.S_IXOTH) for folder in above)


def n_clients(dask_scheduler: Any) -> int:
    """How many clients a Dask scheduler has, without Dask's own; it is run on the scheduler."""
    return sum(name.startswith("Client") for name in dask_scheduler.clients)


def _dask_key() -> Iterator[Finding]:
    import dask

    tls = dask.config.get("distributed.comm.tls.client")
    path = Path(tls["key"] or tls["cert"] or "")
    if path.is_file() and path.stat().st_mode & 0o077:
        yield Finding("dask key", "wrong", f"others can read {path}", f"chmod 600 {path}")
