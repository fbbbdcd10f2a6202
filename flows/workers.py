"""Dask for what one process is too small for: scoring partitions, and training candidates. Optional extra `dask`.

Workers are processes of this machine, inside the curator's boundary, reachable on the loopback alone and by who
holds this run's certificate, which never leaves memory: other users do not. Nothing of a partition is
kept by Dask: its answer is two integers, which are forgotten when they arrive, and spilling is off.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dpbo_core.errors import StudyInvalid
from dpbo_core.partitions import PartWork

SETTING = "DPBO_WORKERS"
LOOPBACK = "127.0.0.1"
CLUSTER: dict[str, Any] = {
    "host": LOOPBACK,
    "threads_per_worker": 1,  # scoring is exact in any order; one thread keeps memory to one partition a worker
    "memory_limit": 0,  # no limit, so nothing is ever paused, spilt to disk or killed by Dask
    "dashboard_address": f"{LOOPBACK}:0",  # its own default is every interface of the machine
    "security": True,  # TLS both ways: a port of the loopback is open to everybody on the machine
    "silence_logs": 50,  # a worker's log may quote what failed
}


class DaskWorkers:
    """Scores parts on a cluster. An answer that was lost with its worker is None."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def map(self, work: PartWork, parts: Sequence[Path]) -> list[tuple[int, int] | None]:
        """`work` on every part; keys say nothing and nothing is cached between models."""
        futures = self._client.map(work, [Path(part).resolve() for part in parts], pure=False, key="part")
        try:
            return list(self._client.gather(futures, errors="skip"))
        finally:
            self._client.cancel(futures)


@contextmanager
def workers(count: int | None = None) -> Iterator[DaskWorkers | None]:
    """`count` processes (DPBO_WORKERS), or None where none are asked for.

    Raises:
        StudyInvalid: the setting is no number, or Dask is not installed.
    """
    count = asked() if count is None else count
    if count == 0:
        yield None
        return
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise StudyInvalid(
            f"{SETTING} asks for workers, and Dask is not installed",
            remedy=f"pip install 'dpbo[dask]', or unset {SETTING}",
        ) from None
    with LocalCluster(n_workers=count, processes=True, **CLUSTER) as cluster, Client(cluster) as client:
        yield DaskWorkers(client)


def asked() -> int:
    """How many workers the environment asks for; 0 for none.

    Raises:
        StudyInvalid: it is no whole number.
    """
    text = os.environ.get(SETTING, "0")
    if not text.isdecimal() or int(text) > 1024:
        raise StudyInvalid(
            f"{SETTING} = {text!r} is no number of workers", remedy="give a whole number, or unset it"
        )
    return int(text)
