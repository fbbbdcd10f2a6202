"""A fitted estimator that scores every record alone, and what is checked of it on public rows beforehand.

It is pickled once, before anything is charged; a child unpickles it again for its one record, so what predicting
changes in it, in its modules or in the interpreter ends with that record.
"""

import os
import signal
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo.features.isolation.child import Record, model_bytes
from dpbo.features.isolation.engine import engine, scouted
from dpbo.features.isolation.handle import hidden_beside
from dpbo.features.isolation.limits import Limits
from dpbo_core.errors import StudyInvalid
from dpbo_core.models.integer_sums import GRID
from dpbo_core.models.isolated_estimator import check_importable, modules_of, pickled_form
from dpbo_core.models.record_isolation import ModulesNeeded
from dpbo_core.models.scores.kinds import RecordScore

N_ROWS_TRIED = 5
SHARE_OF_TIME = 0.25  # of the limit, that a public row may take: far from where caches would decide


@dataclass(frozen=True, repr=False)
class EnforcedModel:
    """Scores records one by one, each in a process of its own. It holds public things only."""

    pickled: bytes  # the fitted estimator
    named: tuple[str, ...]  # the modules its pickle and the score's name
    modules: tuple[str, ...]  # those that predicting needs
    limits: Limits = field(default_factory=Limits)

    def scores(self, rows: NDArray[np.float64], truth: NDArray[Any], score: RecordScore) -> NDArray[np.float64]:
        """Return each record's score, (m,) in [0, G], by its own process: 0 if it fails; Sealed if none starts."""
        model = model_bytes(self.pickled, pickled_form(score, "the score function"))
        rows, truth = np.ascontiguousarray(rows), _as_numbers(truth)
        steps = engine(self.modules, self.named, self.limits, os.getpid()).steps(model, rows, truth)
        return np.asarray(steps * (score.score_range / GRID), dtype=np.float64)


def alone(
    estimator: Any,
    rows: NDArray[np.float64],
    truth: NDArray[Any],
    score: RecordScore,
    *,
    needed_by: ModulesNeeded,
    limits: Limits | None = None,
) -> EnforcedModel:
    """Return the estimator as a model that scores each record in a process of its own.

    It is tried on the PUBLIC rows first, and refused if no row can be scored so, or scoring takes too long.
    """
    limits = limits or Limits()
    pickled, how = pickled_form(estimator, "the fitted estimator"), pickled_form(score, "the score function")
    named = tuple(sorted(modules_of(estimator) | modules_of(score)))
    check_importable(set(named))
    model, tried = model_bytes(pickled, how), min(N_ROWS_TRIED, len(rows))
    records = [Record(np.ascontiguousarray(rows[i]), _as_numbers(truth[i : i + 1])) for i in range(tried)]
    why = "there are no public rows"
    for attempt in range(2):  # what one model imports when it predicts, another of its class may not
        failure = ""
        if attempt or named not in needed_by:
            hidden = () if attempt else hidden_beside(named)
            needed_by[named], failure = scouted(model, records[0], hidden)
        enforced = EnforcedModel(pickled, named, needed_by[named], limits)
        images = engine(enforced.modules, named, limits, os.getpid())
        endings = [images.trial(model, record) for record in records]
        if any(steps is not None for steps, _, _ in endings):
            slowest = max(seconds for _, _, seconds in endings)
            if slowest <= SHARE_OF_TIME * limits.cpu_seconds:
                return enforced
            why = (
                f"one public record takes {slowest:.2g} s, and {limits.cpu_seconds} s is where its process is ended"
            )
            break
        why = failure or _exit_in_words(endings[0][1])
    raise StudyInvalid(
        "the estimator cannot score a public row in a process of its own",
        cause=why,
        remedy="name an estimator that predicts from memory, without threads, files or waiting, one row at a time",
    )


def _exit_in_words(code: int) -> str:
    if code in (signal.SIGSYS, -signal.SIGSYS):
        return "it waits, communicates or calls what it may not"
    if code == -signal.SIGKILL:
        return "it took more time than one record may"
    if code in (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT):
        return f"it crashed with {signal.Signals(code).name}"
    return (
        "it raised an error, needs more memory, a thread or a file, or gives another number of outcomes than rows"
    )


def _as_numbers(truth: NDArray[Any]) -> NDArray[Any]:
    return truth.astype(np.float64 if truth.dtype.kind == "f" else np.int64)
