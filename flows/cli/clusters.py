"""Whether the Dask cluster that DPBO_DASK names may read records: a look of `dpbo doctor`, without a change."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from dpbo.flows.cli.finding import Finding
from dpbo.flows.prefect_runtime.dask_fitness import scheduler_facts, worker_facts
from dpbo.flows.prefect_runtime.standing_cluster import StandingCluster, standing_cluster

WHAT = "dask cluster"


def dask_cluster() -> Iterator[Finding]:
    """Who reaches it, its versions and its settings, all that is wrong; nothing where none is named.

    Raises:
        StudyInvalid: it cannot be reached, or its address or certificates cannot be used.
    """
    cluster = standing_cluster()
    if cluster is None:
        return
    yield from _key(cluster)
    with ExitStack() as running:
        client = cluster.client(running)
        wrong = cluster.problems(client)
        if wrong:
            yield from (Finding(WHAT, "wrong", problem.what, problem.remedy) for problem in wrong)
            return
        n = len(client.nthreads())
        workers = "worker" if n == 1 else "workers"
        yield Finding(
            WHAT,
            "fine",
            f"{cluster.address}: {n} {workers} with these versions, TLS alone, none let in without a certificate, "
            "nothing spilt or compressed",
        )
        scheduler = client.run_on_scheduler(scheduler_facts)
        seen = [scheduler, *client.run(worker_facts).values()]
        if all(facts["pages_for"] == "nobody" for facts in seen):
            yield Finding("dask pages", "fine", "none are served")
        else:
            yield Finding(
                "dask pages",
                "note",
                "every user of the machines sees how many bytes went where and when",
                "set distributed.scheduler.http.routes and distributed.worker.http.routes to []; --no-dashboard",
            )
        others = scheduler["clients"] - 1
        if others:
            yield Finding(
                "dask clients",
                "note",
                f"{others} beside this one",
                "whoever holds a certificate can read what the workers read",
            )


def _key(cluster: StandingCluster) -> Iterator[Finding]:
    files = dict(cluster.files)
    path = Path(files.get("tls_client_key", files["tls_client_cert"]))
    if path.exists() and path.stat().st_mode & 0o077:
        yield Finding("dask key", "wrong", f"others can read {path}", f"chmod 600 {path}")
