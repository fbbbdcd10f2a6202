"""`make audit`: the campaigns in full, their figures to docs/audit.md.

python -m audit [--short]        (from tests/)
"""

import copy
import os
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

from conftest import STUDY

from audit import exchange_kills, hostile, kills, leaks, timing
from dpbo_core.methods import METHODS
from dpbo_core.study import StudySpec

PAGE = Path(__file__).parents[2] / "docs" / "audit.md"


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


def kill_rows(n_kills: int) -> list[str]:
    rows = [
        "| store | processes | kills | studies | overspends | double or lost | unfinished |",
        "|---|---|---|---|---|---|---|",
    ]
    spec = StudySpec.from_dict(copy.deepcopy(STUDY))
    for store, together in product(("SQLite", "PostgreSQL"), (1, 4)):
        with TemporaryDirectory() as folder, ledger_in(store, Path(folder)) as url:
            figures = kills.campaign(spec, tuple(METHODS), lambda _, url=url: url, kills=n_kills, together=together)
        rows.append(
            f"| {store} | {together} | {figures.kills} | {figures.studies} | {figures.overspends} | "
            f"{figures.double_or_lost} | {figures.unfinished} |"
        )
    return rows


def exchange_rows(searches: int) -> list[str]:
    head = [
        "| exchange | searches | exchanges | kills | other states | drawn twice or never | overspends |",
        "|---|---|---|---|---|---|---|",
    ]
    with TemporaryDirectory() as folder:
        figures = exchange_kills.campaign(Path(folder), searches=searches)
    return [*head, f"| outsourced | {' | '.join(str(count) for count in vars(figures).values())} |"]


def leak_rows() -> list[str]:
    rows = [
        "| ledger on | the run | bytes searched | secrets found | found when run again |",
        "|---|---|---|---|---|",
    ]
    for store, (name, scenario) in product(("SQLite", "PostgreSQL"), leaks.SCENARIOS.items()):
        with leak_world(store) as world:
            first = world.found(world.go(scenario))
            size = sum(path.stat().st_size for path in world.run.rglob("*") if path.is_file())
            again = world.found(world.go(leaks.SCENARIOS["success and refusal"]))
        rows.append(f"| {store} | {name} | {size:,} | {len(first)} | {len(again)} |")
    return rows


def planted_rows() -> list[str]:
    rows = ["| ledger on | planted in | found there |", "|---|---|---|"]
    for store, place in product(("SQLite", "PostgreSQL"), leaks.LEAKS):
        with leak_world(store) as world:
            found = world.found(world.go(leaks.planted(place)))
        there = sum(where.startswith(place) for where, _ in found)
        rows.append(f"| {store} | {place.rstrip('/')} | {there} |")
    return rows


@contextmanager
def leak_world(store: str) -> Iterator[leaks.World]:
    with TemporaryDirectory() as folder, TemporaryDirectory() as server, ledger_in(store, Path(server)) as url:
        yield leaks.make_world(copy.deepcopy(STUDY), Path(folder), url if store == "PostgreSQL" else None)


def timing_rows(runs: int) -> list[str]:
    head = ["| method | a step's duration against | steps | Spearman's ρ | p |", "|---|---|---|---|---|"]
    measured = timing.measure(StudySpec.from_dict(copy.deepcopy(STUDY)), runs)
    return head + [
        f"| {item.method} | {item.quantity} | {item.steps} | {item.rho:+.3f} | {item.p_value:.2g} |"
        for item in measured
    ]


def main(*, short: bool) -> None:
    begun = time.monotonic()
    n_kills, n_files, runs = (6, 500, 3) if short else (60, 20_000, 60)
    files = hostile.campaign(n_files)
    page = f"""# The audit

Written by `make audit`; Python {platform.python_version()}, dpbo {version("dpbo")}, {os.cpu_count()} cores.

## Kills

Studies killed by SIGKILL at random moments and run again until they finished, all methods in turn; every count but
the first two must be zero.

{chr(10).join(kill_rows(n_kills))}

Either party of an outsourced search, killed at random moments of every command and run again, beside a search over
the same table that nobody kills; every count but the first three must be zero.

{chr(10).join(exchange_rows(1 if short else 5))}

## Hostile files

{files.files:,} validation files of nasty lines, mutated lines and raw bytes, each against a neighbour:
{files.raised} raised, {files.spoke} printed or warned, {files.miscounted} lost or gained a record,
{files.moved_too_far} moved the sum by more than one record.

## Leaks

A planted feature, its standardised value, a planted label and the exact score of every candidate, searched in every
byte under Prefect's home, `mlruns/`, the temporary folder, both streams and every cell of the ledger: as text at
several precisions, as bytes of double and single floats both ways round, in base64 and hex, inside gzip, zlib, bz2,
xz and zip data wherever it begins, in Parquet columns and in pickles.

{chr(10).join(leak_rows())}

Flows made to leak an exact score, one for each place; every row must find something.

{chr(10).join(planted_rows())}

## Timing

Rank correlation of a step's duration with a private quantity of that step, over runs on different validation sets
and, but for λ, within one candidate; models were trained beforehand. No correlation is not a proof.

{chr(10).join(timing_rows(runs))}

It took {(time.monotonic() - begun) / 60:.0f} minutes.
"""
    if short:
        sys.stdout.write(page)
    else:
        PAGE.write_text(page)


if __name__ == "__main__":
    main(short="--short" in sys.argv)
