"""How many reservations a second the ledger takes, each durable, all on one dataset; by the wall.

    python -m benchmarks.ledger [--json]

The cap has room for nine in ten of what is asked for, and exactly those are admitted. PostgreSQL is
a server of this script's own (pgserver) with its settings as they come, so fsync is on.
"""

import multiprocessing
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.peers import installed
from benchmarks.rows import Row, main, missing
from dpbo_core.accounting import audit
from dpbo_core.accounting.budget import PrivacyBudget
from dpbo_core.accounting.ledger import PrivacyLedger, StudyKey
from dpbo_core.errors import BudgetExceeded
from dpbo_core.mechanisms.laplace import DiscreteLaplace
from dpbo_core.privacy.amounts import spent_units
from dpbo_core.privacy.guarantee import Evidence, PrivacyGuarantee, Standing
from dpbo_core.privacy.plan import PrivacyPlan
from dpbo_core.privacy.unit import NeighboringRelation, PrivacyUnit

TOTAL = 1920
EPSILON = 0.001
GUARANTEE = PrivacyGuarantee(
    EPSILON,
    0.0,
    PrivacyUnit.VALIDATION_RECORD,
    NeighboringRelation.REPLACE_ONE,
    (),
    Evidence(Standing.STANDARD, ""),
)


def plan():
    return PrivacyPlan(GUARANTEE, (DiscreteLaplace(2**24, spent_units(EPSILON), 1.0).spend("score"),))


def worker(url, number, asks, start, won):
    ledger, price = PrivacyLedger(url), plan()
    ledger.accounts()  # the connection is open when the clock starts
    start.wait()
    admitted = 0
    for i in range(asks):
        name = f"{number}-{i}"
        try:
            ledger.reserve(
                StudyKey(f"{name:0>64}", "d", name, "1", "private_grid"), price, noise="operating_system"
            )
        except BudgetExceeded:
            continue
        admitted += 1
    won.put(admitted)


def measure(url, processes):
    """(reservations a second, entries admitted, entries asked for); the cap has room for nine in ten."""
    asks = TOTAL // processes
    room = asks * processes * 9 // 10
    PrivacyLedger(url).set_budget(PrivacyBudget.of("d", epsilon=room / 1000, delta=0.0))
    context = multiprocessing.get_context("fork")
    start, won = context.Barrier(processes + 1), context.Queue()
    workers = [context.Process(target=worker, args=(url, n, asks, start, won)) for n in range(processes)]
    for each in workers:
        each.start()
    start.wait()
    begun = time.perf_counter()
    admitted = sum(won.get() for _ in workers)
    seconds = time.perf_counter() - begun
    for each in workers:
        each.join()
    (account,) = PrivacyLedger(url).accounts("d")
    assert admitted == len(account.entries) == room, (admitted, len(account.entries), room)
    audit.verify(url)
    return admitted / seconds, admitted, asks * processes


def rows() -> Iterator[Row]:
    folder = Path(tempfile.mkdtemp())
    home = Path.cwd()
    os.chdir(folder)  # a database server keeps its files where it is started
    try:
        for processes in (1, 8):
            yield row("SQLite", f"sqlite:///{folder / f'{processes}.db'}", processes)
        if not installed("pgserver"):
            yield missing("PostgreSQL", "pgserver")
            return
        import pgserver

        server = pgserver.get_server(folder / "pg", cleanup_mode="stop")
        try:
            for processes in (1, 8, 64):
                server.psql(f"CREATE DATABASE d{processes}")
                yield row("PostgreSQL", server.get_uri(f"d{processes}"), processes)
        finally:
            server.cleanup()
    finally:
        os.chdir(home)
        shutil.rmtree(folder, ignore_errors=True)


def row(database, url, processes):
    rate, admitted, asked = measure(url, processes)
    said = f"{admitted:,} of {asked:,} admitted"
    return Row(f"{database}, {processes} at once", rate, unit="a second", note=said)


if __name__ == "__main__":
    main(rows)
