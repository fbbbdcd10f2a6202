"""Whether records may be read on a Dask cluster: Dask would keep answers on disk, show their traffic, pack them.

All three are settings of its processes, looked at before a study is charged and by each worker before it scores.
Functions are sent by reference, so every process has the same dpbo; libraries decide the last bit of a sum.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

PACKAGES = ("dpbo", "python", "dask", "distributed", "numpy", "scipy", "scikit-learn", "pandas", "pyarrow")


class Problem(NamedTuple):
    """What makes a Dask cluster unfit for records, and what to do. Public."""

    what: str
    remedy: str


def problems(client: Any) -> tuple[Problem, ...]:
    """All that makes a Dask cluster unfit, () for nothing; if versions differ, only that is looked at."""
    if not client.nthreads():
        return (Problem("it has no workers", "start some"),)
    versions = client.get_versions(packages=list(PACKAGES))
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
    named = {name: str(versions.get(name) or "missing") for name in PACKAGES}
    return named | {"python": ".".join(named["python"].split(".")[:2])}


def processor() -> str:
    """The vector instructions that NumPy uses here, since another kind of processor may round otherwise."""
    import numpy as np

    return " ".join(sorted(np.show_config(mode="dicts")["SIMD Extensions"]["found"]))


def scheduler_problems(dask_scheduler: Any) -> list[Problem]:
    """What makes Dask's scheduler unfit; Dask runs this function on it."""
    return _problems(dask_scheduler, "scheduler", "the scheduler")


def worker_problems(ours: str, dask_worker: Any) -> list[Problem]:
    """What makes a Dask worker unfit; Dask runs this function on it. `ours` is the curator's processor."""
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
