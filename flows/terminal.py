"""Where every screen goes: 80 columns, colours on a terminal alone, and with --plain words that can be listened to.

Colours follow the terminal and NO_COLOR. A plain screen has no table, no bar and no sign that carries a meaning by
itself: a row is a sentence that names its columns, a Greek letter is its name, and no line is broken. On a terminal
that is too narrow for a table no cell is cut: a row is what its first cell names, and below it the others by name.

Standard error shows which stage begins and how far a study is: a bar on a terminal, elsewhere lines, of which the
public number of steps says how many.
"""

import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TextIO

from dpbo.tasks.reporting.document import point_in_short
from dpbo_core.errors import DpboError, printable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from dpbo_core.methods.contract import Released
    from dpbo_core.privacy.release import Release


PLAIN_SETTING = "DPBO_PLAIN"
SCREEN_WIDTH = 80
PRINTS_JSON = ContextVar("PRINTS_JSON", default=False)  # whether --json is among the words of the running command
MIN_CELL_WIDTH = 12  # columns of a cell that may break
TRAILING_BLANKS = re.compile(r" +((?:\x1b\[[0-9;]*m)*)$")  # before the end of a line, colours aside
MARKUP_PATTERN = re.compile(r"\\+|\[")  # what rich's markup is made of
SPOKEN_NAMES = {
    "ε": "epsilon", "δ": "delta", "λ": "lambda", "ρ": "rho", "σ": "sigma", "γ": "gamma", "Δ": "Delta",
    "∞": "infinity", "≤": "at most", "≥": "at least", "√": "root of ", "²": " squared", " · ": ", ", " … ": " to ",
    "…": "...", "–": "-",
}  # fmt: skip
Row = Sequence[str]
MAX_LINES = 10  # at most, after the first, where standard error is no terminal
MIN_WIDTH = 60  # columns, below which the count has room, and either the name or what was released


def is_plain() -> bool:
    """Return whether screens are plain words, as for a screen reader: --plain, or DPBO_PLAIN in the environment."""
    return os.environ.get(PLAIN_SETTING, "") not in ("", "0")


def announce_stage(name: str, stage: str) -> None:
    """Write on standard error which stage begins; the text has public facts alone."""
    sys.stderr.write(f"{printable(name)}: {printable(stage)}\n")
    sys.stderr.flush()


def named(text: object) -> str:
    """Return a user's name or value escaped for a screen: no control characters, no markup.

    A tag that changes nothing follows every bracket, so that it opens no tag, and every run of backslashes, which
    are doubled before a tag: whatever follows, they escape nothing of it.
    """
    return MARKUP_PATTERN.sub(lambda match: match[0].replace("\\", "\\\\") + "[none][/none]", printable(str(text)))


def print_json(document: dict[str, Any]) -> None:
    """Print one JSON object on standard output; NaN and Infinity raise."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def print_result(document: Callable[[], dict[str, Any]], screen: Callable[[], None]) -> None:
    """Print the result of a command: one JSON object where --json is among its words, else its screen."""
    if PRINTS_JSON.get():
        print_json(document())
    else:
        screen()


def print_sentence(text: str) -> None:
    """Print the answer of a command that is one sentence; it is escaped here."""
    Screen().say(named(text))


def allow_any_encoding(stream: Any) -> None:
    """Make a stream write a question mark for a character that it cannot encode, instead of failing."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="replace")


def print_message(error: DpboError) -> None:
    """Print an error on standard error: one line, or on a terminal what happened, why, and what to do."""
    allow_any_encoding(sys.stderr)
    if is_plain() or not sys.stderr.isatty():
        sys.stderr.write(f"dpbo: {error.message()}\n")
        return
    screen = Screen(sys.stderr)
    screen.say(f"[bold red]dpbo:[/] {named(error.what)}")
    parts = (("usual cause", error.cause), ("what to do", error.remedy))
    screen.facts((name, named(text)) for name, text in parts if text)


def print_warnings(lines: Iterable[str]) -> None:
    """Print warnings on standard error, a line each: what failed beside a result that stands."""
    allow_any_encoding(sys.stderr)
    for line in lines:
        sys.stderr.write(f"dpbo: warning: {printable(line)}\n")


class Screen:
    """Output for a person: `say` a line, `facts` in two columns, a `table`. Text is rich's markup."""

    def __init__(self, stream: TextIO | None = None) -> None:
        from rich.console import Console

        self.plain = is_plain()
        self._stream = stream or sys.stdout
        self._console = Console(file=self._stream, highlight=False, emoji=False)
        self._console.width = min(self._console.width, SCREEN_WIDTH)

    def say(self, markup: str = "") -> None:
        """Print a paragraph of rich's markup, wrapped to the terminal's width and indented as its first line."""
        if self.plain:
            self._stream.write(spoken(markup) + "\n")
        elif indent := len(markup) - len(markup.lstrip(" ")):
            from rich.padding import Padding
            from rich.text import Text

            paragraph = Text.from_markup(markup.lstrip(" "), emoji=False)
            self._show(Padding(paragraph, (0, 0, 0, indent), expand=False))
        else:
            self._show(markup)

    def facts(self, rows: Iterable[tuple[str, str]]) -> None:
        """Print rows (name, text) of rich's markup in two columns; as `name: text` on a plain screen."""
        lines = list(rows)
        if self.plain or not lines:
            for name, text in lines:
                self.say(f"{name}: {text}")
            return
        if max((cells(name) for name, _ in lines), default=0) + 4 > self.width // 2:
            for name, text in lines:
                self.say(f"  {name}")
                self.say(f"    {text}")
            return
        from rich.table import Table

        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim")
        grid.add_column(overflow="fold")
        for name, text in lines:
            grid.add_row(f"  {name}", text)
        self._show(grid)

    def table(
        self, header: Row, rows: Iterable[Row], *, left: int, wraps: int | None = None, title: str = ""
    ) -> None:
        """Print rows of rich's markup as a table: the first `left` columns are text, the others numbers.

        Column `wraps` may break over lines. On a narrow or plain screen each row is a sentence after its first
        cell.
        """
        lines = list(rows)
        if self.plain:
            if title:
                self.say(f"{title}:")
            for row in lines:
                pairs = zip(header[1:], row[1:], strict=True)
                words = (f"{name} {'none' if cell == '–' else cell}" for name, cell in pairs)
                self.say(f"{row[0]}: {', '.join(words)}")
            return
        widths = [max(map(cells, column)) for column in zip(header, *lines, strict=True)]
        room = self.width - 2 * len(header) - sum(widths)
        if wraps is not None and room < 0:
            room += max(0, widths[wraps] - MIN_CELL_WIDTH)
        if room < 0:
            if title:
                self.say(title)
            for row in lines:
                self.say(f" {row[0]}")
                pairs = zip(header[1:], row[1:], strict=True)
                self.say(f"   {'; '.join(f'{name} {cell}' for name, cell in pairs)}")
            return
        from rich.table import Table

        table = Table(box=None, padding=(0, 1), header_style="dim", title=title or None, title_justify="left")
        for place, name in enumerate(header):
            justify: Literal["left", "right"] = "left" if place < left else "right"
            table.add_column(name, justify=justify, no_wrap=place != wraps, overflow="fold")
        for row in lines:
            table.add_row(*row)
        self._show(table)

    @property
    def width(self) -> int:
        """The number of columns that a line may take."""
        return self._console.width

    def _show(self, content: "RenderableType") -> None:
        """Print rich's content without the trailing blanks of each line, which would be copied with the text."""
        with self._console.capture() as capture:
            self._console.print(content)
        lines = capture.get().removesuffix("\n").split("\n")
        self._stream.write("".join(TRAILING_BLANKS.sub(r"\1", line) + "\n" for line in lines))

    def spark(self, values: Sequence[float]) -> str:
        """`values` as a row of small bars, from the least to the greatest; on a plain screen as numbers."""
        if self.plain:
            return ", ".join(f"{value:.3f}" for value in values)
        low, high = min(values), max(values)
        bars = "▁▂▃▄▅▆▇█"
        return "".join(bars[round((v - low) / ((high - low) or 1.0) * (len(bars) - 1))] for v in values)

    def bar(self, share: float, width: int = 20) -> str:
        """A bar of `width` characters, filled to `share`, rounded up, and full at 1 alone; "" on a plain screen."""
        if self.plain:
            return ""
        filled = min(width - (share < 1.0), max(0, -int(-share * width // 1)))
        return f"[cyan]{'━' * filled}[/][dim]{'─' * (width - filled)}[/]"


def cells(markup: str) -> int:
    """Return the number of terminal columns that a text takes, its rich markup not counted."""
    from rich.text import Text

    return Text.from_markup(markup, emoji=False).cell_len


def spoken(markup: str) -> str:
    """The text of rich's `markup` without its tags, signs such as ε and ≤ replaced by words for a screen reader."""
    from rich.text import Text

    text = Text.from_markup(markup, emoji=False).plain
    for sign, word in SPOKEN_NAMES.items():
        text = text.replace(sign, word)
    text = re.sub(r"(at most|at least)(?=\S)", r"\1 ", text)
    return re.sub(" {2,}", ", ", text.strip())  # a gap says what a comma says


class Progress:
    """A bar on standard error while a person is watching, one line with --plain; in a pipe ten lines or fewer.

    The lines hold counts of steps and nothing that was released, and do not begin as errors do.
    """

    def __init__(self, name: str, steps: int, what: str = "steps") -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

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

    def show(self, released: "Released | None", n: int = 1, *, deviation: float | None = None) -> None:
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


def announce_release(name: str, release: "Release") -> None:
    """Write a recorded choice and score on standard error, where that is a terminal and the release has both."""
    value = release.value
    if sys.stderr.isatty() and "score" in value and "hyperparameters" in value:
        sys.stderr.write(f"{printable(name)}: released {in_short(value)}; MLflow's pages and pictures follow\n")
        sys.stderr.flush()


def step_in_words(released: "Released", deviation: float | None) -> str:
    """A released step in a line: its number, hyperparameters, private score and, with `deviation`, 90% interval."""
    score = "no score" if released["score"] is None else f"{released['score']:.4f}"
    if deviation is not None and released["score"] is not None:
        from dpbo_core.search.estimates import NORMAL_90

        half = NORMAL_90 * deviation
        score += f"   {released['score'] - half:.4f} to {released['score'] + half:.4f}"
    point = printable(point_in_short(released["hyperparameters"]))
    return f"  {released['step']:>4}   {point:<24} {score}"


def in_short(released: "Released") -> str:
    """Return what a step released, in a few words: hyperparameters and score, where one is stated."""
    score = "no score" if released["score"] is None else f"noised score {released['score']:.3f}"
    return printable(f"{point_in_short(released['hyperparameters'])}: {score}")
