"""A Dask cluster that others run, inside the curator's boundary: where it is, how it is joined, how it is left.

DPBO_DASK = tls://scheduler:8786        its scheduler; tcp:// and every other protocol is refused
DPBO_DASK_CA, _CERT, _KEY               paths of certificates; unset, Dask's own settings (distributed.comm.tls)

Whoever holds a certificate of it can run code on its workers, which read records: there is nobody else on it.
"""

import os
import warnings
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from dpbo.flows.prefect_runtime.dask_fitness import Problem, forget, problems
from dpbo_core.errors import StudyInvalid

if TYPE_CHECKING:
    from distributed.security import Security

ADDRESS = "DPBO_DASK"
PATHS = {  # of ours, and what Dask calls it
    "DPBO_DASK_CA": ("tls_ca_file", "distributed.comm.tls.ca-file"),
    "DPBO_DASK_CERT": ("tls_client_cert", "distributed.comm.tls.client.cert"),
    "DPBO_DASK_KEY": ("tls_client_key", "distributed.comm.tls.client.key"),
}
NEEDED = ("DPBO_DASK_CA", "DPBO_DASK_CERT")  # a certificate's file may hold the key too
SECONDS = 30  # for its scheduler's answer
CLIENT: dict[str, Any] = {
    "distributed.diagnostics.computations.nframes": 0,  # else the caller's source code is sent, and shown
    "distributed.comm.compression": False,  # packed bytes would be as many as what is in them says
}
HOW = f"give {ADDRESS} as tls://HOST:PORT, or unset it"


@dataclass(frozen=True)
class StandingCluster:
    """The address of its scheduler, and what we show at the door.

    Attributes:
        address: tls://HOST:PORT.
        files: paths of certificates, by Dask's names of them.
    """

    address: str
    files: tuple[tuple[str, str], ...]

    def security(self) -> "Security":
        """Dask's own, of those files; nothing is sent in plain.

        Raises:
            StudyInvalid: a file cannot be read as what it should be.
        """
        from distributed.security import Security

        made = Security(require_encryption=True, **dict(self.files))
        try:
            made.get_connection_args("client")
        except (OSError, ValueError) as error:  # of public files and of our own key: no text of theirs is repeated
            raise StudyInvalid(
                f"the certificates for {self.address} cannot be used ({type(error).__name__})",
                cause="a path that is wrong, a file that another user alone may read, or another certificate's key",
                remedy=f"look at {', '.join(path for _, path in self.files)}",
            ) from None
        return made

    def client(self, running: ExitStack) -> Any:
        """A client of it until `running` ends, which has what its workers kept forgotten then.

        Raises:
            StudyInvalid: Dask is not installed, its certificates cannot be used, or nobody answers.
        """
        import dask
        from distributed import Client
        from distributed.utils import silence_logging_cmgr
        from distributed.versions import VersionMismatchWarning

        security = self.security()
        running.enter_context(dask.config.set(CLIENT))
        running.enter_context(silence_logging_cmgr("CRITICAL"))  # one message says what was lost, and Dask none
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", VersionMismatchWarning)  # `problems` says which of them matter
                client = Client(self.address, security=security, timeout=SECONDS, set_as_default=False)
        except (OSError, TimeoutError, RuntimeError, ValueError):
            raise StudyInvalid(
                f"no Dask scheduler lets us in at {self.address}",
                cause="it does not run, cannot be reached from here, or trusts other certificates",
                remedy="dpbo doctor looks at it; nothing was charged",
            ) from None
        running.callback(_left, client)
        return client

    def joined(self, running: ExitStack) -> Any:
        """The same, once its scheduler and every worker were looked at.

        Raises:
            StudyInvalid: as `client`, or records would not be safe there.
        """
        client = self.client(running)
        found = self.problems(client)
        if found:
            raise StudyInvalid(
                f"the Dask cluster at {self.address} is not fit for records: {found[0].what}",
                remedy=f"{found[0].remedy}; dpbo doctor names all that is wrong",
            )
        return client

    def problems(self, client: Any) -> tuple[Problem, ...]:
        """Why no record may be read there; empty where it is fit."""
        where = urlsplit(self.address)
        return problems(client, str(where.hostname), int(where.port or 0))


def _left(client: Any) -> None:
    """Close it. What its workers keep of the parts is forgotten first; one that is lost has nothing more."""
    with suppress(Exception):
        client.run(forget, on_error="ignore")
    with suppress(Exception):
        client.close(timeout=SECONDS)


def standing_cluster() -> StandingCluster | None:
    """The one that the environment names, or None. Nothing is reached for.

    Raises:
        StudyInvalid: it is no tls:// address, or a certificate is missing; or Dask is not installed.
    """
    address = os.environ.get(ADDRESS, "")
    if not address:
        return None
    where = urlsplit(address)
    if where.scheme != "tls":
        raise StudyInvalid(
            f"{ADDRESS} = {address!r} is no tls:// address",
            cause="without TLS whoever is on the wire reads exact sums, and who reaches it runs code on workers",
            remedy=HOW,
        )
    try:
        complete = bool(where.hostname and where.port)
    except ValueError:
        complete = False
    if not complete or where.path or where.username:
        raise StudyInvalid(f"{ADDRESS} = {address!r} names no host and port", remedy=HOW)
    try:
        import dask
        import distributed  # noqa: F401  its settings
    except ImportError:
        raise StudyInvalid(
            f"{ADDRESS} names a cluster, and Dask is not installed",
            remedy=f"pip install 'dpbo[dask]', or unset {ADDRESS}",
        ) from None
    files = {name: os.environ.get(name) or dask.config.get(key) for name, (_, key) in PATHS.items()}
    missing = [name for name in NEEDED if not files[name]]
    if missing:
        raise StudyInvalid(
            f"{ADDRESS} names a cluster, and {missing[0]} no file",
            remedy="set DPBO_DASK_CA, DPBO_DASK_CERT and DPBO_DASK_KEY to paths, or distributed.comm.tls of Dask",
        )
    return StandingCluster(address, tuple((PATHS[name][0], str(path)) for name, path in files.items() if path))
