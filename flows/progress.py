"""How far a study is: a bar on a terminal, elsewhere lines, of which the public number of steps says how many."""

import sys
from types import TracebackType
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from dpbo.flows.plain_output import is_plain
from dpbo.tasks.reporting.document import point_in_short
from dpbo_core.errors import printable
from dpbo_core.methods.contract import Released
from dpbo_core.privacy.release import Release
from dpbo_core.search.score_map import NORMAL_90

MAX_LINES = 10  # at most, after the first, where standard error is no terminal

Result = TypeVar("Result")
MIN_WIDTH = 60  # columns, below which the count has room, and either the name or what was released


class Progress:
    """A bar on standard error while a person is watching, one line with --plain; in a pipe ten lines or fewer.

    The lines hold counts of steps and nothing that was released, and do not begin as errors do.
    """

    def __init__(self, name: str, steps: int, what: str = "steps") -> None:
        console = Console(stderr=True, emoji=False)
        self._name, self._what, self._steps, self._done = printable(name), what, steps, 0
        self._lines = not console.is_terminal and steps > 0
        if console.is_terminal and is_plain():
            sys.stderr.write(f"{steps} {what} to go.\n")
        narrow = console.width < MIN_WIDTH
        name_and_bar = () if narrow else (TextColumn("{task.description}", markup=False), BarColumn())
        self._bar = Bar(
            *name_and_bar,
            MofNCompleteColumn(),
            *(() if narrow else (TimeElapsedColumn(),)),
            TextColumn("{task.fields[last]}", markup=False),
            console=console,
            disable=not console.is_terminal or is_plain(),
        )
        self._first = name if narrow else ""
        self._task = self._bar.add_task(name, total=steps, last=self._first)

    def __enter__(self) -> "Progress":
        self._bar.start()
        self._say()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._bar.stop()

    def counted(self, result: Result) -> Result:
        """Count one finished piece of work, and return its result."""
        self.show(None)
        return result

    def show(self, released: Released | None, n: int = 1, *, deviation: float | None = None) -> None:
        """Count `n` more steps as done, and show what they `released` (None: nothing), recorded before."""
        self._done += n
        if released is not None and not self._bar.disable:
            self._bar.console.print(step_in_words(released, deviation), markup=False, highlight=False)
        if self._done * MAX_LINES // max(self._steps, 1) > (self._done - n) * MAX_LINES // max(self._steps, 1):
            self._say()
        self._bar.update(self._task, advance=n, last=self._first if released is None else in_short(released))

    def _say(self) -> None:
        if self._lines:
            sys.stderr.write(f"{self._name}: {self._done} of {self._steps} {self._what}\n")
            sys.stderr.flush()


def announce_release(name: str, release: Release) -> None:
    """Write a recorded choice and score on standard error, where that is a terminal and the release has both."""
    value = release.value
    if sys.stderr.isatty() and "score" in value and "hyperparameters" in value:
        sys.stderr.write(f"{printable(name)}: released {in_short(value)}; MLflow's pages and pictures follow\n")
        sys.stderr.flush()


def step_in_words(released: Released, deviation: float | None) -> str:
    """A released step in a line: its number, hyperparameters, private score and, with `deviation`, 90% interval."""
    score = "no score" if released["score"] is None else f"{released['score']:.4f}"
    if deviation is not None and released["score"] is not None:
        half = NORMAL_90 * deviation
        score += f"   {released['score'] - half:.4f} to {released['score'] + half:.4f}"
    point = printable(point_in_short(released["hyperparameters"]))
    return f"  {released['step']:>4}   {point:<24} {score}"


def in_short(released: Released) -> str:
    """Return what a step released, in a few words: hyperparameters and score, where one is stated."""
    score = "no score" if released["score"] is None else f"noised score {released['score']:.3f}"
    return printable(f"{point_in_short(released['hyperparameters'])}: {score}")
