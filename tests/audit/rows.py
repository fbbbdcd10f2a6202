"""The tables of docs/tables/audit.txt, row by row; rows that need nothing of one another run in two processes."""

import copy
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import spend_kills
from conftest import STUDY
from worlds import PATHS

from audit import distinguish, enumerator, fuzz, kills, leaks, replays, rowwise, timing
from audit.cells import cell_doors
from audit.doors import doors
from audit.verdict import line, table
from dpbo_core.methods import METHODS
from dpbo_core.study import StudySpec

STORES = ("SQLite", "PostgreSQL")
PROCESSES = 2


def spec() -> StudySpec:
    return StudySpec.from_dict(copy.deepcopy(STUDY))


def beside(work: Callable[..., str], jobs: Iterable[tuple[Any, ...]]) -> list[str]:
    """The rows of all jobs, in their order."""
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        return [task.result() for task in [pool.submit(work, *job) for job in jobs]]


@contextmanager
def ledger_in(store: str, folder: Path) -> Iterator[str]:
    """The URL of a new ledger in SQLite, or in a PostgreSQL server of its own."""
    if store == "SQLite":
        yield f"sqlite:///{folder / 'ledger.db'}"
        return
    import pgserver

    folder.chmod(0o755)  # as root the server runs under another user, who must get there
    server = pgserver.get_server(folder / "postgresql", cleanup_mode="stop")
    server.psql("CREATE DATABASE ledger")
    try:
        yield server.get_uri("ledger").replace("postgresql://", "postgresql+psycopg://")
    finally:
        server.cleanup()


def kill_row(store: str, together: int, n_kills: int) -> str:
    with TemporaryDirectory() as folder, ledger_in(store, Path(folder)) as url:
        figures = kills.campaign(spec(), (*METHODS, *PATHS), lambda _: url, kills=n_kills, together=together)
    studies, n_killed, *wrong = vars(figures).values()
    return line(store, together, n_killed, studies, *wrong)


def kill_table(n_kills: int) -> str:
    head = "store | processes | kills | studies | overspends | double or lost | unfinished"
    return table(head, beside(kill_row, [(*job, n_kills) for job in product(STORES, (1, 4))]))


def spend_row(store: str, n_kills: int) -> str:
    with TemporaryDirectory() as folder, ledger_in(store, Path(folder)) as url:
        tally = spend_kills.campaign(url, Path(folder) / "ran", kills=n_kills)
    return line(store, *vars(tally).values())


def spend_table(n_kills: int) -> str:
    head = "store | kills | booked | block had run | lost or double | run unpaid or again | wrong totals"
    return table(head, beside(spend_row, [(store, n_kills) for store in STORES]))


@contextmanager
def leak_world(store: str) -> Iterator[leaks.World]:
    with TemporaryDirectory() as folder, TemporaryDirectory() as server, ledger_in(store, Path(server)) as url:
        yield leaks.make_world(copy.deepcopy(STUDY), Path(folder), url if store == "PostgreSQL" else None)


def leak_row(store: str, name: str) -> str:
    with leak_world(store) as world:
        first = world.found(world.go(leaks.SCENARIOS[name]))
        size = sum(path.stat().st_size for path in world.run.rglob("*") if path.is_file())
        again = world.found(world.go(leaks.SCENARIOS["success and refusal"]))
    return line(store, name, f"{size:,}", len(first), len(again))


def leak_table() -> str:
    head = "ledger on | the run | bytes searched | secrets found | found when run again"
    return table(head, beside(leak_row, product(STORES, leaks.SCENARIOS)))


def planted_row(store: str, place: str) -> str:
    with leak_world(store) as world:
        found = world.found(world.go(leaks.planted(place)))
    return line(store, place.rstrip("/"), sum(where.startswith(place) for where, _ in found))


def planted_table() -> str:
    """Each place once; the ledger, the one store that differs, on both databases."""
    jobs = [*product(STORES[:1], leaks.LEAKS), (STORES[1], "ledger")]
    return table("ledger on | planted in | found there", beside(planted_row, jobs))


def timing_table(runs: int) -> str:
    """Alone on the machine: what runs beside it would be measured too."""
    found = timing.measure(spec(), runs)
    rows = [line(one.method, one.quantity, one.steps, f"{one.rho:+.3f}", f"{one.p_value:.2g}") for one in found]
    return table("method | a step's duration against | steps | Spearman's ρ | p", rows)


def replay_table(pairs: int, rounds: int) -> str:
    found = replays.campaign(pairs=pairs, rounds=rounds)
    rows = [line(one.method, f"{one.pairs:,}", one.findings, f"{one.reach:.3f}") for one in found]
    return table("method | neighbours | differences found | largest share of the declared sensitivity", rows)


def distinguish_row(kind: str, name: str, share: float, *, faulty: bool) -> str:
    row = distinguish.measured(kind, name, share, faulty=faulty)
    exact = "" if row.exact is None else f"{row.exact:.3f}"
    told = f"{row.runs:,}", f"{row.epsilon:g}", f"{row.delta:g}", exact
    return line(row.method, row.name, *told, f"{row.proved:.3f}", f"{row.proved / row.epsilon:.2f}", row.verdict)


def distinguish_table(share: float, *, faulty: bool) -> str:
    head = "method | case | runs on each side | ε | δ | ε of the pair | ε proved | share of ε | the guarantee"
    work = partial(distinguish_row, faulty=faulty)
    return table(head, beside(work, [(*job, share) for job in distinguish.jobs(faulty=faulty)]))


def fuzz_row(name: str, share: float) -> str:
    (row,) = fuzz.campaign(share, only=(name,))
    wrong = row.traces, row.hangs, row.control, row.codes, row.charged
    return line(row.target, f"{row.inputs:,}", f"{row.refused:,}", f"{row.slowest:.1f} s", *wrong)


def fuzz_table(share: float) -> str:
    head = (
        "of | inputs | refused | slowest | stack traces | hangs | control characters | other exit codes | charged"
    )
    return table(head, beside(fuzz_row, [(name, share) for name in fuzz.FULL]))


def estimator_row(name: str, forms: list[int], pairs: int) -> str:
    return line(*rowwise.figures(name, forms, pairs))


def estimator_table(pairs: int) -> str:
    """Every class on the list, all its forms in one row, each on so many pairs."""
    forms: dict[str, list[int]] = {}
    for place, (path, _) in enumerate(rowwise.examples()):
        forms.setdefault(path.rpartition(".")[2], []).append(place)
    return table("class | forms | pairs | moved", beside(estimator_row, [(*item, pairs) for item in forms.items()]))


def planted_estimator_table(pairs: int) -> str:
    rows = beside(estimator_row, [(name, [], pairs) for name in rowwise.planted()])
    return table("planted on the list | forms | pairs | moved", rows)


@cache
def all_doors() -> tuple[enumerator.Door, ...]:
    return *doors(), *cell_doors()


def door_row(number: int, n_worlds: int) -> str:
    """One door, on its first worlds and a seeded choice of the others, `n_worlds` together."""
    figures = enumerator.enumerated(enumerator.some(all_doors()[number], n_worlds))
    counted = figures.worlds, figures.pairs, figures.released
    return line(figures.door, *counted, f"{figures.seconds:.0f}", len(figures.found))


def door_table(n_worlds: int) -> str:
    head = "door | worlds | pairs | released | seconds | differences"
    return table(head, beside(door_row, [(number, n_worlds) for number in range(len(all_doors()))]))
