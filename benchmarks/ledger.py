"""What a reservation costs as a ledger grows, each durable, all on one dataset.

    python -m benchmarks.ledger [--json]

Entries are reservations of that dataset, written in one transaction; then the median of 20 reservations is taken,
each in a transaction of its own: by the wall, which waits for the disk, and processor time of this process alone.
An account comes from sums in an index; for a balance, what was spent just after the last entry, all its entries
are read. With eight processes the cap has room for nine in ten of what is asked for, and exactly those get in.
PostgreSQL is a server of this script's own (pgserver) with its settings as they come, so fsync is on.
"""

import multiprocessing
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median

import sqlalchemy as sa

from benchmarks.peers import installed
from benchmarks.rows import Row, main, missing
from benchmarks.timing import seconds
from dpbo_core.errors import BudgetExceeded
from dpbo_core.ledger import audit
from dpbo_core.ledger.accounting.account import PrivacyBudget, balances
from dpbo_core.ledger.charge import Charge, QueryKey
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.schema import RESERVATIONS
from dpbo_core.ledger.store import LedgerStore
from dpbo_core.mechanisms.laplace import DiscreteLaplace
from dpbo_core.privacy.amounts import spent_units
from dpbo_core.privacy.guarantee import Evidence, NeighboringRelation, PrivacyGuarantee, PrivacyUnit, Standing
from dpbo_core.privacy.release import PrivacyPlan

SIZES = {1_000: 5.0, 20_000: 10.0}  # entries → milliseconds that are asked for
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
                Charge(QueryKey(f"{name:0>64}", "d", name, "1", "private_grid"), price), noise="operating_system"
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
    lasted = time.perf_counter() - begun
    for each in workers:
        each.join()
    (account,) = PrivacyLedger(url).accounts("d")
    assert admitted == len(account.entries) == room, (admitted, len(account.entries), room)
    audit.verify(url)
    return admitted / lasted, admitted, asks * processes


def grown(url, sizes=SIZES) -> Iterator[tuple[int, float, float, PrivacyLedger]]:
    """(entries, median seconds of a reservation by the wall and of the processor, the ledger) for each size."""
    ledger = PrivacyLedger(url)
    ledger.set_budget(PrivacyBudget.of("d", epsilon=1000.0, delta=1e-5))
    number = 0

    def key():
        return QueryKey(f"{number:0>64}", "d", str(number), "1", "private_grid")

    ledger.reserve(Charge(key(), plan()), noise="operating_system")
    store = LedgerStore(url)
    for entries in sizes:
        with store.writing() as writer:
            row = dict(writer.connection.execute(sa.select(RESERVATIONS).limit(1)).mappings().one())
            del row["id"]
            while writer.last.sequence < entries:
                number += 1
                writer.write(RESERVATIONS, row | {"fingerprint": f"{number:0>64}"})
        waited, used = [], []
        for _ in range(20):
            number += 1
            begun, before = time.perf_counter(), time.process_time()
            ledger.reserve(Charge(key(), plan()), noise="operating_system")
            waited.append(time.perf_counter() - begun)
            used.append(time.process_time() - before)
        yield entries, median(waited), median(used), ledger
    audit.verify(url)


def last_balance(account):
    last = account.entries[-1]
    return list(balances(account, lambda entry: entry is last))


def rows() -> Iterator[Row]:
    folder = Path(tempfile.mkdtemp())
    home = Path.cwd()
    os.chdir(folder)  # a database server keeps its files where it is started
    try:
        yield from rows_of("SQLite", lambda name: f"sqlite:///{folder / name}.db")
        if not installed("pgserver"):
            yield missing("PostgreSQL", "pgserver")
            return
        import pgserver

        server = pgserver.get_server(folder / "pg", cleanup_mode="stop")

        def database(name):
            server.psql(f"CREATE DATABASE {name}")
            return server.get_uri(name)

        try:
            yield from rows_of("PostgreSQL", database)
        finally:
            server.cleanup()
    finally:
        os.chdir(home)
        shutil.rmtree(folder, ignore_errors=True)


def rows_of(database, made) -> Iterator[Row]:
    for entries, wall, used, ledger in grown(made("growing")):
        on = f"at {entries:,} entries"
        yield Row(f"{database}, a reservation {on}, by the wall", 1000 * wall, "ms", at_most=SIZES[entries])
        yield Row(f"{database}, a reservation {on}, processor", 1000 * used, "ms")
        yield Row(f"{database}, the account {on}, processor", 1000 * seconds(partial(ledger.accounts, "d")), "ms")
        (account,) = ledger.accounts("d")
        taken = seconds(partial(last_balance, account))
        yield Row(f"{database}, the balance after the last {on}, processor", 1000 * taken, "ms")
    rate, admitted, asked = measure(made("raced"), 8)
    said = f"{admitted:,} of {asked:,} admitted"
    yield Row(f"{database}, 8 at once", rate, unit="a second", note=said)


if __name__ == "__main__":
    main(rows)
