"""Whether records may be read on a Dask cluster: what its processes are asked, and what is wrong with an answer.

Functions are sent by reference, so every process has the same dpbo; what the libraries are decides the last bit of
a sum. Dask would keep answers on disk, show their traffic on pages, and pack them to as many bytes as their content
needs: all three are settings of the cluster, looked at here and again by each worker before it scores.
"""

import ipaddress
import socket
import ssl
from dataclasses import dataclass
from typing import Any

NAME = "dpbo"
PACKAGES = (NAME, "python", "dask", "distributed", "numpy", "scipy", "scikit-learn", "pandas", "pyarrow")
MEMORY = "_dpbo_kept_parts"  # a worker's attribute
HARMLESS = {"distributed.http.health"}  # a page that says "ok"
SCORES_NOTHING = "none"
KNOCKS = 10  # seconds for an answer to a stranger
NO_PAGES = "DASK_DISTRIBUTED__{}__HTTP__ROUTES='[]' and --no-dashboard, or --dashboard-address 127.0.0.1:0"


@dataclass(frozen=True)
class Problem:
    """What is wrong, and what to do. Public."""

    what: str
    remedy: str


def problems(client: Any, host: str, port: int) -> tuple[Problem, ...]:
    """All that is wrong with a cluster; its processes are asked no more than their versions until those agree."""
    if not client.nthreads():
        return (Problem("it has no workers", "start some"),)
    found = of_versions(client.get_versions(packages=list(PACKAGES)))
    if found:
        return found
    seen = {"the scheduler": client.run_on_scheduler(scheduler_facts)}
    seen |= {f"worker {address}": facts for address, facts in client.run(worker_facts).items()}
    found = tuple(problem for name, facts in seen.items() for problem in of_facts(name, facts))
    if lets_a_stranger_in(host, port):
        found += (
            Problem("it lets in who has no certificate", "start it with --tls-ca-file, --tls-cert, --tls-key"),
        )
    return found


def of_versions(found: dict[str, Any]) -> tuple[Problem, ...]:
    """Who has other versions than this process, of what `Client.get_versions` found."""
    ours, processes = _versions(found["client"]), {"the scheduler": found["scheduler"]}
    processes |= {f"worker {address}": theirs for address, theirs in found["workers"].items()}
    return tuple(
        Problem(f"{name} has {package} {theirs[package]}, and here is {version}", "install the same there")
        for name, asked in processes.items()
        for theirs in (_versions(asked),)
        for package, version in ours.items()
        if theirs[package] != version
    )


def _versions(asked: dict[str, Any] | None) -> dict[str, str]:
    packages = (asked or {}).get("packages") or {}
    found = {name: str(packages.get(name) or "missing") for name in PACKAGES}
    return found | {"python": ".".join(found["python"].split(".")[:2])}


def own_versions() -> dict[str, str]:
    """What this process has of all that decides a sum."""
    from distributed.versions import get_package_info

    return _versions({"packages": get_package_info(PACKAGES)}) | {"processor": processor()}


def processor() -> str:
    """The vector instructions that NumPy found here: another kind of processor may round otherwise."""
    import numpy as np

    found: Any = np.show_config(mode="dicts")
    return " ".join(sorted(found["SIMD Extensions"]["found"]))


def of_facts(name: str, facts: dict[str, Any]) -> tuple[Problem, ...]:
    """What is wrong with one process; what it does not say is wrong too."""
    found = []
    if facts.get("processor") not in (processor(), SCORES_NOTHING):
        found.append(Problem(f"{name} has another kind of processor than this host", "use hosts of one kind"))
    if facts.get("plain") is not False:
        found.append(Problem(f"{name} listens without TLS too", "start it with --protocol tls alone"))
    if facts.get("pages_for") != "nobody" and facts.get("pages_for") != "its machine":
        who = "SCHEDULER" if name == "the scheduler" else "WORKER"
        found.append(Problem(f"{name} shows Dask's pages to the network", NO_PAGES.format(who)))
    if facts.get("packs") is not False:
        found.append(Problem(f"{name} compresses what it sends", "DASK_DISTRIBUTED__COMM__COMPRESSION=False"))
    if facts.get("spills") is not False:
        found.append(Problem(f"{name} would write exact sums to disk", "start it with --memory-limit 0"))
    if facts.get("threads") != 1:
        found.append(Problem(f"{name} has several threads", "start it with --nthreads 1, and more of them"))
    return tuple(found)


def scheduler_facts(dask_scheduler: Any) -> dict[str, Any]:
    """Run on the scheduler, which holds answers for as long as it takes to pass them on."""
    return _facts(dask_scheduler, "scheduler") | {
        "spills": False,
        "processor": SCORES_NOTHING,
        "threads": 1,
        "clients": _strangers(dask_scheduler),
    }


def worker_facts(dask_worker: Any) -> dict[str, Any]:
    """Run on every worker."""
    return _facts(dask_worker, "worker") | {
        "spills": type(dask_worker.data) is not dict,
        "processor": processor(),
        "threads": dask_worker.state.nthreads,
    }


def _facts(server: Any, kind: str) -> dict[str, Any]:
    import dask

    listening = [
        urls for listener in server.listeners for urls in (listener.listen_address, listener.contact_address)
    ]
    routes = set(dask.config.get(f"distributed.{kind}.http.routes")) - HARMLESS
    pages = bool(routes or server.http_application.applications)
    sockets = [item.getsockname()[0] for item in server.http_server._sockets.values()]
    local = all(ipaddress.ip_address(address).is_loopback for address in sockets)
    return {
        "plain": not all(url.startswith("tls://") for url in listening),
        "pages_for": "nobody" if not pages else "its machine" if local else "the network",
        "packs": dask.config.get("distributed.comm.compression") not in (False, None),
    }


def _strangers(scheduler: Any) -> int:
    """How many clients there are; Dask's own, for the tasks of workers, is none."""
    return sum(name.startswith("Client") for name in scheduler.clients)


def forget(dask_worker: Any) -> None:
    """Run on every worker: what it kept of the parts is gone."""
    if hasattr(dask_worker, MEMORY):
        delattr(dask_worker, MEMORY)


def lets_a_stranger_in(host: str, port: int) -> bool:
    """Whether its scheduler says anything to who has no certificate: Dask's speaks first, to whom it lets in."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # nothing is told it
    try:
        with (
            socket.create_connection((host, port), timeout=KNOCKS) as raw,
            context.wrap_socket(raw, server_hostname=host) as stranger,
        ):
            return bool(stranger.recv(1))
    except OSError:
        return False
