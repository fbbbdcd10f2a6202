"""What of a deployment others could reach: looks of `dpbo doctor`, which changes nothing.

Each compares what is there with what docs/how_to/team.md sets up. A server is asked as a stranger could ask.
"""

import os
import pwd
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import sqlalchemy as sa

from dpbo.flows.prefect_runtime.dask_fitness import problems
from dpbo.flows.prefect_runtime.schedule_server import NAME as PASSWORD_FILE
from dpbo.flows.prefect_runtime.settings import (
    FOLDER,
    PROFILES,
    Stores,
    prefect_home,
    prefect_is_configured,
    prefect_settings,
)
from dpbo.flows.prefect_runtime.standing_cluster import standing_cluster
from dpbo_core.ledger.accounts import DatasetAccount

OTHERS = stat.S_IRWXG | stat.S_IRWXO
MOUNTS = Path("/proc/mounts")
SHARED = {"9p", "afs", "beegfs", "ceph", "cifs", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4", "smb3", "smbfs"}
LOOPBACK = {"127.0.0.1", "localhost", "::1"}
SECONDS = 5  # for a server's answer
ADMINISTRATOR = "postgres"
SHIPPED = ("admin", "password1234")  # the user that MLflow made by itself for years
SECRETS = ("AUTH_STRING", "API_KEY", "CONNECTION_URL")
ENCRYPTED = {"require", "verify-ca", "verify-full"}
WRITERS = """SELECT rolname FROM pg_roles WHERE rolcanlogin AND NOT rolsuper AND rolname <> current_user
 AND has_table_privilege(rolname, 'reservations', 'INSERT, UPDATE, DELETE') ORDER BY 1"""


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


def shared_folders() -> Iterator[Finding]:
    """A finding where stores lie on a network's file system, whose locks and users are unreliable; else none."""
    wrong = [f"{path} ({kind})" for path in (FOLDER, Stores().vaults) if (kind := _kind(path.resolve())) in SHARED]
    if wrong:
        remedy = "keep them on a disk of this machine; a team's ledger is a PostgreSQL server's"
        yield Finding("shared folder", "wrong", f"the ledger or a vault is on one: {', '.join(wrong)}", remedy)


def ledger_server() -> Iterator[Finding]:
    """Findings about a PostgreSQL ledger, which it tries to enter without a password: one "fine" if nothing is
    wrong; none of another ledger.
    """
    address = sa.engine.make_url(Stores().ledger)
    if address.get_backend_name() != "postgresql":
        return
    host, leaks = _host(address), []
    if host not in LOOPBACK and not host.startswith("/") and address.query.get("sslmode") not in ENCRYPTED:
        leaks.append(("its entries travel unencrypted", "add ?sslmode=verify-full to its URL"))
    ours = pwd.getpwuid(os.geteuid()).pw_name == ADMINISTRATOR
    if not ours and _lets_in(address.set(username=ADMINISTRATOR, password=None)):
        leaks.append(("its server lets anybody in as its administrator", "see pg_hba.conf: peer or scram-sha-256"))
    elif address.password and _lets_in(address.set(password=None)):
        leaks.append(("its server asks this role for no password", "see pg_hba.conf: peer or scram-sha-256"))
    writers = _writers(address)
    if writers:
        leaks.append(
            (f"{', '.join(writers)} may write it too", "REVOKE INSERT, UPDATE, DELETE; an owner writes it")
        )
    for leak, remedy in leaks:
        yield Finding("ledger's server", "wrong", leak, remedy)
    if not leaks:
        yield Finding("ledger's server", "fine", "nobody else gets in as you, or writes it")


def tracking_server() -> Iterator[Finding]:
    """Findings about an MLflow server, asked as a stranger: open to all, shipped password, none set here, no TLS;
    one "fine" if nothing is wrong; none without a server.
    """
    import httpx

    uri = Stores().tracking.rstrip("/")
    if not uri.startswith(("http://", "https://")):
        return
    query = f"{uri}/api/2.0/mlflow/experiments/search?max_results=1"
    leaks = []
    if httpx.get(query, timeout=SECONDS).status_code == 200:
        leaks.append(("it shows and changes everything for whoever asks", "mlflow server --app-name basic-auth"))
    elif httpx.get(query, auth=SHIPPED, timeout=SECONDS).status_code == 200:
        leaks.append(("its administrator has the password that MLflow ships", "change it"))
    elif not os.environ.get("MLFLOW_TRACKING_USERNAME") and not os.environ.get("MLFLOW_TRACKING_TOKEN"):
        leaks.append(("it asks for a password, and none is set", "set MLFLOW_TRACKING_USERNAME and …_PASSWORD"))
    if not _encrypted(uri):
        leaks.append(("its passwords travel unencrypted", "put TLS in front of it, and say https://"))
    for leak, remedy in leaks:
        yield Finding("tracking server", "wrong", f"{uri}: {leak}", remedy)
    if not leaks:
        yield Finding("tracking server", "fine", f"{uri} asks for a password")


def prefect_in_the_open(api: str | None) -> Iterator[Finding]:
    """A finding where the remote Prefect server at `api` has no TLS to hide its password; else none."""
    if api is not None and not _encrypted(api):
        yield Finding("prefect server", "wrong", f"{api}: its password travels unencrypted", "say https://")


def dask_cluster() -> Iterator[Finding]:
    """Findings about the configured Dask cluster, one "fine" if it is fit; none without one; refused if
    unreachable.

    Raises:
        StudyInvalid: it cannot be reached, or its address or certificates cannot be used.
    """
    cluster = standing_cluster()
    if cluster is None:
        return
    from dpbo.flows.prefect_runtime.workers import blind_workers_here

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
    """Prefect's folder, which holds the passwords of `dpbo serve`, and Prefect's file of profiles."""
    if not prefect_is_configured():
        return prefect_home(), prefect_home() / PROFILES
    return prefect_home(), prefect_settings().profiles_path


def _holds_a_secret(profiles: Path) -> bool:
    """Whether Prefect's file `profiles` sets a password, key or database URL; False where it cannot be read."""
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


def _kind(path: Path) -> str:
    """The kind of file system of a path, existing or not; "" where this machine does not tell."""
    if not MOUNTS.is_file():
        return ""
    rows = [line.split() for line in MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()]
    on = [row for row in rows if path.is_relative_to(row[1].replace("\\040", " "))]
    return max(on, key=lambda row: len(row[1]))[2].removeprefix("fuse.") if on else ""


def _encrypted(url: str) -> bool:
    """Whether a URL uses TLS, or does not leave this machine."""
    import httpx

    return url.startswith("https://") or httpx.URL(url).host in LOOPBACK


def _host(address: sa.URL) -> str:
    """The host of a database's address, or its socket's folder."""
    named = address.host or address.query.get("host") or "/"
    return named if isinstance(named, str) else named[0]


def _lets_in(address: sa.URL) -> bool:
    """Whether the database lets the address's user in without a password; False where PGPASSWORD would be sent."""
    import psycopg

    plain = address.set(drivername="postgresql").update_query_dict({"passfile": os.devnull})
    plain = plain.update_query_dict({"connect_timeout": str(SECONDS)})
    if os.environ.get("PGPASSWORD"):
        return False  # libpq would send it
    try:
        with psycopg.connect(plain.render_as_string(hide_password=False)):
            return True
    except psycopg.OperationalError:
        return False


def _writers(address: sa.URL) -> list[str]:
    """Roles, beside the current one and administrators, that may write the ledger."""
    engine = sa.create_engine(address.set(drivername="postgresql+psycopg"), poolclass=sa.pool.NullPool)
    with engine.connect() as connection:
        if not sa.inspect(connection).has_table("reservations"):
            return []
        return list(connection.scalars(sa.text(WRITERS)))


def n_clients(dask_scheduler: Any) -> int:
    """How many clients a Dask scheduler has, without Dask's own; it is run on the scheduler."""
    return sum(name.startswith("Client") for name in dask_scheduler.clients)


def _dask_key() -> Iterator[Finding]:
    """A finding where others can read Dask's client key; else none."""
    import dask

    tls = dask.config.get("distributed.comm.tls.client")
    path = Path(tls["key"] or tls["cert"] or "")
    if path.is_file() and path.stat().st_mode & 0o077:
        yield Finding("dask key", "wrong", f"others can read {path}", f"chmod 600 {path}")
