"""Writes every generated page, list and printed plan of the documentation from the code: `make pages`.

What takes a campaign is not among them: the pictures, and docs/tables/{audit,performance,printed_numbers,adaptive,
calibration,intervals,repair}.txt, have commands of their own (Makefile).
"""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the benchmarks
import lists
import notebooks
import page_runs
import reading
from pages import PAGES, ROOT, blocks, commands

from benchmarks import misleading
from benchmarks.compare.cell_runs import Cell
from benchmarks.compare.page import markdown
from dpbo_core.models.estimator_allowlist.classes import PREDICTORS, REVIEWED_VERSIONS, TRANSFORMERS, AllowlistEntry


def comparison() -> str:
    """The tables of what `benchmarks.compare` and `benchmarks.misleading` measured last, from their numbers."""
    cells, drawn = (
        json.loads((ROOT / "docs" / "evidence" / f"{name}.json").read_text())
        for name in ("comparison", "misleading")
    )
    _, first, tables = markdown([Cell(**cell) for cell in cells]).partition("\n## ")
    return f"{(first + tables).lstrip()}\n{misleading.section(drawn)}"


def _versions() -> str:
    """The packages with the versions that were read."""
    said = [
        f"{name} {'.'.join(map(str, first))} to {'.'.join(map(str, last))}"
        for name, (first, last) in REVIEWED_VERSIONS.items()
    ]
    return ", ".join(said[:-1]) + f" and {said[-1]}"


def section(title: str, entries: dict[str, AllowlistEntry]) -> str:
    """A table a title: names beside the reason that they share."""
    grouped: dict[tuple[str, str], set[str]] = {}
    for path, entry in entries.items():
        grouped.setdefault((entry.because, _limits(entry)), set()).add(f"`{path.rpartition('.')[2]}`")
    lines = [f"\n## {title}\n\n| class | a record's outcome comes from | where |\n|---|---|---|\n"]
    for (because, limits), names in sorted(grouped.items()):
        lines.append(f"| {', '.join(sorted(names))} | {because} | {limits or 'always'} |\n")
    return "".join(lines)


def _limits(entry: AllowlistEntry) -> str:
    return "; ".join(
        f"`{name}` is {' or '.join(f'`{value!r}`' for value in values)}" for name, values in entry.only.items()
    )


def estimators() -> str:
    """The estimators that need no assumption, and why, from the list itself."""
    read = (
        f"The list holds for {_versions()}, whose code was read; the compiled part of the boosters as published.\n"
    )
    return (
        read + section("Classifiers and regressors", dict(PREDICTORS)) + section("Transformers", dict(TRANSFORMERS))
    )


def with_plans(text: str, folder: Path) -> str:
    """Return a page whose plans are today's."""
    (folder / "examples").symlink_to(ROOT / "examples")
    new = text
    for block in blocks(text):
        if block.mark == "file":
            (folder / block.why).write_text(block.body)
        if block.kind == "console" and block.body.startswith("$ dpbo plan ") and block.mark != "slow":
            ((line, _),) = commands(block.body)
            command = [sys.executable, "-c", "from dpbo.flows.cli import main; main()", *shlex.split(line)[1:]]
            out = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
            printed = "".join(f"{told.rstrip()}\n" for told in out.strip("\n").splitlines())
            new = new.replace(block.body, f"$ {line}\n{printed}")
    return new


def plans(page: Path) -> str:
    """A page of the documentation whose plans are today's, run in a folder of their own."""
    with TemporaryDirectory() as name:
        return with_plans(page.read_text(), Path(name))


WRITERS: Mapping[str, Callable[[], str]] = {
    "docs/tables/statements.txt": partial(reading.page, ROOT),
    "docs/tables/estimators.txt": estimators,
    "docs/tables/comparison.txt": comparison,
    **{name: partial(lists.page, name) for name in lists.LISTED_IN},
}


def stale() -> list[str]:
    """Pages that say something else than the code does, without the printed plans: tests run those."""
    return [name for name, written in WRITERS.items() if (ROOT / name).read_text() != written()]


def main() -> None:
    """Write them, and say which were another text before."""
    before = {page: page.read_text() for page in PAGES}
    for name, written in WRITERS.items():
        (ROOT / name).write_text(written())
    for page in PAGES:
        page.write_text(plans(page))
    notebooks.write()
    for page, text in before.items():
        if page.read_text() != text:
            print(f"written: {page.relative_to(ROOT)}")


def run_pages(names: list[str]) -> None:
    """Run the named pages whole, and write what they print today into them: `make docs-write PAGES=…`."""
    for name in names:
        page = ROOT / name
        with TemporaryDirectory() as place:
            (Path(place) / "examples").symlink_to(ROOT / "examples")
            os.chdir(place)
            page.write_text(page_runs.renewed(name, page.read_text(), Path(place)))
        print(f"written: {name}")
    notebooks.write()


if __name__ == "__main__":
    run_pages(sys.argv[1:]) if sys.argv[1:] else main()
