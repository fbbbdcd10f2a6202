"""Whether the Dask cluster that DPBO_DASK names may read records: a look of `dpbo doctor`, without a change."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from dpbo.flows.cli.finding import Finding
from dpbo.flows.prefect_runtime.dask_fitness import problems
from dpbo.flows.prefect_runtime.standing_cluster import standing_cluster

WHAT = "dask cluster"


def dask_cluster() -> Iterator[Finding]:
    """Its certificates, versions and settings, all that is wrong; nothing where no cluster is named.

    Raises:
        StudyInvalid: it cannot be reached, or its address or certificates cannot be used.
    """
    cluster = standing_cluster()
    if cluster is None:
        return
    yield from _key()
    with ExitStack() as running:
        client = cluster.client(running)
        wrong = problems(client)
        if wrong:
            yield from (Finding(WHAT, "wrong", problem.what, problem.remedy) for problem in wrong)
            return
        n = len(client.nthreads())
        workers = "worker" if n == 1 else "workers"
        yield Finding(
            WHAT,
            "fine",
            f"{cluster.address}: {n} {workers} with these versions, TLS alone, no pages, nothing spilt or packed",
        )
        others = client.run_on_scheduler(n_clients) - 1
        if others:
            yield Finding(
                "dask clients",
                "note",
                f"{others} beside this one",
                "whoever holds a certificate can read what the workers read",
            )


def n_clients(dask_scheduler: Any) -> int:
    """Run on the scheduler: how many clients there are; Dask's own, for the tasks of workers, is none."""
    return sum(name.startswith("Client") for name in dask_scheduler.clients)


def _key() -> Iterator[Finding]:
    import dask

    tls = dask.config.get("distributed.comm.tls.client")
    path = Path(tls["key"] or tls["cert"] or "")
    if path.is_file() and path.stat().st_mode & 0o077:
        yield Finding("dask key", "wrong", f"others can read {path}", f"chmod 600 {path}")
