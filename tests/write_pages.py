"""Writes every generated page, list and printed plan of the documentation from the code: `make pages`.

What takes a campaign is not among them: the pictures, and docs/tables/{audit,performance,printed_numbers,adaptive,
calibration,repair}.txt, have commands of their own (Makefile).
"""

import json
from collections.abc import Callable, Mapping
from functools import partial

import estimators_page
import lists
import reading
from pages import PAGES, ROOT
from transcripts import plans

from dpbo.tasks.reporting.comparison_page import markdown
from dpbo_core.comparison.cell_runs import Cell


def comparison() -> str:
    """The tables of what `dpbo compare` measured last, from its numbers."""
    cells = json.loads((ROOT / "docs" / "evidence" / "comparison.json").read_text())
    _, first, tables = markdown([Cell(**cell) for cell in cells]).partition("\n## ")
    return (first + tables).lstrip()


WRITERS: Mapping[str, Callable[[], str]] = {
    "docs/tables/statements.txt": partial(reading.page, ROOT),
    "docs/tables/estimators.txt": estimators_page.page,
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
    for page, text in before.items():
        if page.read_text() != text:
            print(f"written: {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
