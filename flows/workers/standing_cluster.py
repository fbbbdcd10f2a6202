"""A Dask cluster that others run, inside the curator's boundary: where it is, how it is joined, how it is left.

DPBO_DASK = tls://scheduler:8786 is its scheduler; tcp:// and every other protocol is refused. The certificates are
Dask's own setting, distributed.comm.tls. Whoever holds one of them can run code on the workers, which read records:
there is nobody else on it.

Dask would keep answers on disk, show their traffic and pack them. All three are settings of its processes, which
`problems` looks at before a study is charged and in each worker before it scores. Functions are sent by reference,
so every process has the same dpbo; libraries decide the last bit of a sum.
"""

import os
import socket
import warnings
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from dpbo_core.errors import StudyInvalid

if TYPE_CHECKING:
    from distributed.security import Security

ADDRESS_SETTING = "DPBO_DASK"
MEMORY_ATTRIBUTE = "_dpbo_kept_parts"  # a worker's attribute
ANSWER_TIMEOUT_S = 8  # for its scheduler's answer
CLIENT_SETTINGS: dict[str, Any] = {
    "distributed.comm.timeouts.connect": f"{ANSWER_TIMEOUT_S}s",  # then a lost scheduler is given up
    "distributed.diagnostics.computations.nframes": 0,  # else the caller's source code is sent, and shown
    "distributed.comm.compression": False,  # packed bytes would be as many as what is in them says
}
COMPARED_PACKAGES = ("dpbo", "python", "dask", "distributed", "numpy", "scipy", "scikit-learn", "pandas", "pyarrow")


@dataclass(frozen=True)
class StandingCluster:
    """A Dask cluster that others run, by its scheduler's address tls://HOST:PORT."""

    address: str

    def security(self) -> "Security":
        """Dask's TLS settings with its configured certificates, refused if unusable; nothing is sent in plain."""
        from distributed.security import Security

        made = Security(require_encryption=True)
        usable = False
        with suppress(OSError, ValueError):  # of public files and of our own key: no text of theirs is repeated
            usable = made.get_connection_args("client")["ssl_context"] is not None
        if not usable:
            raise StudyInvalid(
                f"the certificates for {self.address} cannot be used",
                cause="a path that is missing or wrong, a file that another user alone may read, or another's key",
                remedy="set Dask's distributed.comm.tls: ca-file, client.cert and client.key "
                "(DASK_DISTRIBUTED__COMM__TLS__CA_FILE, …__CLIENT__CERT, …__CLIENT__KEY)",
            )
        return made

    def is_listening(self) -> bool:
        """Return whether anybody answers at the scheduler's address; nothing is said there."""
        place = urlsplit(self.address)
        with suppress(OSError), socket.create_connection((str(place.hostname), int(place.port or 0)), timeout=2.0):
            return True
        return False

    def client(self, running: ExitStack) -> Any:
        """A client of the cluster until `running` ends, Dask's log silenced; then workers forget cached parts."""
        import dask
        from distributed import Client
        from distributed.utils import silence_logging_cmgr
        from distributed.versions import VersionMismatchWarning

        security = self.security()
        running.enter_context(dask.config.set(CLIENT_SETTINGS))
        running.enter_context(silence_logging_cmgr("CRITICAL"))  # one message says what was lost, and Dask none
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", VersionMismatchWarning)  # `problems` says which of them matter
                client = Client(self.address, security=security, timeout=ANSWER_TIMEOUT_S, set_as_default=False)
        except (OSError, TimeoutError, RuntimeError, ValueError):
            raise StudyInvalid(
                f"no Dask scheduler lets us in at {self.address}",
                cause="it does not run, cannot be reached from here, or trusts other certificates",
                remedy="dpbo doctor looks at it; nothing was charged",
            ) from None
        running.callback(_close_client, client)
        return client

    def joined(self, running: ExitStack) -> Any:
        """A client of the cluster until `running` ends, refused unless every process proves fit for records."""
        client = self.client(running)
        wrong = problems(client)
        if wrong:
            raise StudyInvalid(
                f"the Dask cluster at {self.address} is not fit for records: {wrong[0].what}",
                remedy=f"{wrong[0].remedy}; dpbo doctor names all that is wrong",
            )
        return client


def forget(dask_worker: Any) -> None:
    """Delete a worker's cached parts; Dask runs this function on every worker."""
    if hasattr(dask_worker, MEMORY_ATTRIBUTE):
        delattr(dask_worker, MEMORY_ATTRIBUTE)


def _close_client(client: Any) -> None:
    """Have the workers delete their cached parts (files' records), then close the client."""
    with suppress(Exception):
        client.run(forget, on_error="ignore")
    with suppress(Exception):
        client.close(timeout=ANSWER_TIMEOUT_S)


def standing_cluster() -> StandingCluster | None:
    """The cluster that DPBO_DASK names, None if none; refused unless a tls:// address. Nothing is connected."""
    address = os.environ.get(ADDRESS_SETTING, "")
    if not address:
        return None
    try:
        where = urlsplit(address)
        complete = bool(where.scheme == "tls" and where.hostname and where.port)
    except ValueError:
        complete = False
    if not complete or where.path or where.username:
        raise StudyInvalid(
            f"{ADDRESS_SETTING} = {address!r} is no tls:// address of a host and port",
            cause="without TLS whoever is on the wire reads exact sums, and who reaches it runs code on workers",
            remedy=f"give {ADDRESS_SETTING} as tls://HOST:PORT, or unset it",
        )
    if find_spec("distributed") is None:
        raise StudyInvalid(
            f"{ADDRESS_SETTING} names a cluster, and Dask is not installed",
            remedy=f"pip install 'dpbo[dask]', or unset {ADDRESS_SETTING}",
        )
    return StandingCluster(address)


class Problem(NamedTuple):
    """What makes a Dask cluster unfit for records, and what to do. Public."""

    what: str
    remedy: str


def problems(client: Any) -> tuple[Problem, ...]:
    """Return all that makes a Dask cluster unfit, () for nothing; if versions differ, only that is looked at."""
    if not client.nthreads():
        return (Problem("it has no workers", "start some"),)
    versions = client.get_versions(packages=list(COMPARED_PACKAGES))
    ours, wrong = packages(versions["client"]), []
    for name, theirs in {"the scheduler": versions["scheduler"], **versions["workers"]}.items():
        if others := dict(packages(theirs).items() - ours.items()):
            wrong.append(Problem(f"{name} has other versions than this host: {others}", "install the same there"))
    if not wrong:
        wrong += client.run_on_scheduler(scheduler_problems)
        wrong += (problem for theirs in client.run(worker_problems, processor()).values() for problem in theirs)
    return tuple(wrong)


def packages(process: Mapping[str, Any] | None) -> dict[str, str]:
    """The versions of PACKAGES in a process ("missing" if absent), by Dask's report; Python's without the patch."""
    versions = (process or {}).get("packages") or {}
    named = {name: str(versions.get(name) or "missing") for name in COMPARED_PACKAGES}
    return named | {"python": ".".join(named["python"].split(".")[:2])}


def processor() -> str:
    """Return the vector instructions that NumPy uses here, since another kind of processor may round otherwise."""
    import numpy as np

    return " ".join(sorted(np.show_config(mode="dicts")["SIMD Extensions"]["found"]))


def scheduler_problems(dask_scheduler: Any) -> list[Problem]:
    """Return what makes Dask's scheduler unfit; Dask runs this function on it."""
    return _problems(dask_scheduler, "scheduler", "the scheduler")


def worker_problems(ours: str, dask_worker: Any) -> list[Problem]:
    """Return what makes a Dask worker unfit; Dask runs this function on it. `ours` is the curator's processor."""
    name = f"worker {dask_worker.address}"
    wrong = _problems(dask_worker, "worker", name)
    if type(dask_worker.data) is not dict:
        wrong.append(Problem(f"{name} would write exact sums to disk", "start it with --memory-limit 0"))
    if dask_worker.state.nthreads != 1:
        wrong.append(Problem(f"{name} has several threads", "start it with --nthreads 1, and more of them"))
    if processor() != ours:
        wrong.append(Problem(f"{name} has another kind of processor than this host", "use hosts of one kind"))
    return wrong


def _problems(server: Any, kind: str, name: str) -> list[Problem]:
    import dask

    wrong = []
    if not all(item.listen_address.startswith("tls://") for item in server.listeners):
        wrong.append(Problem(f"{name} listens without TLS too", "start it with --protocol tls alone"))
    pages = set(dask.config.get(f"distributed.{kind}.http.routes")) - {"distributed.http.health"}  # it says "ok"
    if pages or server.http_application.applications:
        remedy = f"DASK_DISTRIBUTED__{kind.upper()}__HTTP__ROUTES='[]' and --no-dashboard"
        wrong.append(Problem(f"{name} has Dask's pages, which say when and how many bytes went where", remedy))
    if dask.config.get("distributed.comm.compression") not in (False, None):
        wrong.append(Problem(f"{name} compresses what it sends", "DASK_DISTRIBUTED__COMM__COMPRESSION=False"))
    return wrong
