"""Work out what is not known yet, then write docs/tables/printed_numbers.txt and adaptive.txt: `make papers`.

    python -m benchmarks.papers [PREFIX …] [--minutes M]     only cells that begin so; stop after M minutes

Interrupted at any time it goes on where it was: a cell is written when it is whole.
"""

import sys
import time

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from threadpoolctl import threadpool_limits

from benchmarks.papers import adaptive, kharkovskii, page, wang
from benchmarks.papers.cells import Results


def main(words: list[str]) -> None:
    """As above."""
    minutes = float(words.pop(words.index("--minutes") + 1)) if "--minutes" in words else 60.0
    prefixes, results = tuple(word for word in words if not word.startswith("--")), Results.read()
    cells = [*kharkovskii.cells(), *wang.cells()]
    left = [c for c in cells if not results.has(c) and (not prefixes or c.key.startswith(prefixes))]
    end = time.monotonic() + 60.0 * minutes
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns) as bar:
        task = bar.add_task("papers", total=len(left))
        for cell in left:
            if time.monotonic() > end:
                break
            bar.update(task, description=cell.key)
            results.work_out(cell)
            bar.advance(task)
    page.write(results)
    adaptive.write(results)


if __name__ == "__main__":
    with threadpool_limits(1):
        main(sys.argv[1:])
