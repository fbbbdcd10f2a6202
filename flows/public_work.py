"""Public work in Prefect's tasks, a chunk of Λ each, in this process.

A chunk is shared with the processes that a study asks for, once public work took longer than they need to start.
"""

from collections.abc import Callable
from functools import partial

from dpbo.flows.progress import Progress
from dpbo.tasks.tuning import cross_validate_chunk, search_publicly, train_chunk, try_out
from dpbo_core.models.scoring.processes import Processes
from dpbo_core.study.precomputed import Precomputed, PublicWork
from dpbo_core.study.run import Run

PIECES = "pieces of public work"


def prepared(run: Run, processes: Processes | None = None) -> tuple[Precomputed | None, int]:
    """Train and cross-validate on public data before any charge: results (None: none needed), number of tasks.

    None are needed for a sensitive training set, or a study that was released before.
    """
    if run.problem.training is not None or run.recorded() is not None:
        return None, 0
    work = PublicWork(run, processes)
    pieces: list[Callable[[], object]] = [
        partial(cross_validate_chunk, work, part) for part in work.to_cross_validate
    ]
    pieces += [partial(search_publicly, work)] * work.searches
    pieces += [partial(train_chunk, work, part) for part in work.to_train]
    pieces += [partial(try_out, work, part) for part in work.to_try]
    with Progress(run.spec.name, len(pieces), PIECES) as progress:
        for piece in pieces:
            piece()
            progress.show(None)
    return work.done(), len(pieces)
