"""Where every screen goes: 80 columns, colours on a terminal alone, and with --plain words that can be listened to.

Colours follow the terminal and NO_COLOR. A plain screen has no table, no bar and no sign that carries a meaning by
itself: a row is a sentence that names its columns, a Greek letter is its name, and no line is broken.
"""

import io
import json
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dpbo.flows.plain import is_plain
from dpbo_core.errors import printable

WIDTH = 80
BLANKS = re.compile(r" +((?:\x1b\[[0-9;]*m)*)$")  # before the end of a line, colours aside
SPECIAL = re.compile(r"\\+|\[")  # what rich's markup is made of
SPOKEN = {
    "ε": "epsilon", "δ": "delta", "λ": "lambda", "ρ": "rho", "σ": "sigma", "γ": "gamma", "Δ": "Delta",
    "∞": "infinity", "≤": "at most", "≥": "at least", "√": "root of ", "²": " squared", " · ": ", ", " … ": " to ",
    "…": "...", "–": "-",
}  # fmt: skip
Row = Sequence[str]


def named(text: object) -> str:
    """A name or value that someone chose, for a screen: neither a control character nor markup of the screen's.

    A tag that changes nothing follows every bracket, so that it opens no tag, and every run of backslashes, which
    are doubled before a tag: whatever follows, they escape nothing of it.
    """
    return SPECIAL.sub(lambda found: found[0].replace("\\", "\\\\") + "[none][/none]", printable(str(text)))


def print_json(document: dict[str, Any]) -> None:
    """One object on standard output; NaN and Infinity cannot be written."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def print_sentence(text: str) -> None:
    """The whole answer of a command in one sentence."""
    Screen().say(named(text))


def lenient(stream: Any) -> None:
    """A terminal that cannot write ε gets a question mark, not an error."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="replace")


class Screen:
    """Standard output for a person: `say` a line, `facts` in two columns, a `table`. Text is rich's markup."""

    def __init__(self, *, stderr: bool = False) -> None:
        self.plain = is_plain()
        self._stream = sys.stderr if stderr else sys.stdout
        self._console = Console(file=self._stream, highlight=False, emoji=False)
        self._console.width = min(self._console.width, WIDTH)

    def say(self, markup: str = "") -> None:
        """Print a paragraph, broken at words to the terminal's width."""
        if self.plain:
            self._stream.write(spoken(markup) + "\n")
        else:
            self._show(markup)

    def facts(self, rows: Iterable[tuple[str, str]]) -> None:
        """Names and what is known of them, aligned."""
        if self.plain:
            for name, text in rows:
                self.say(f"{name}: {text}")
            return
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim")
        grid.add_column()
        for name, text in rows:
            grid.add_row(f"  {name}", text)
        self._show(grid)

    def table(
        self, header: Row, rows: Iterable[Row], *, left: int, wraps: int | None = None, title: str = ""
    ) -> None:
        """A table of which the first `left` columns are text and the others numbers; column `wraps` may break."""
        if self.plain:
            if title:
                self.say(f"{title}:")
            for row in rows:
                cells = zip(header[1:], row[1:], strict=True)
                words = (f"{name} {'none' if cell == '–' else cell}" for name, cell in cells)
                self.say(f"{row[0]}: {', '.join(words)}")
            return
        table = Table(box=None, padding=(0, 1), header_style="dim", title=title or None, title_justify="left")
        for place, name in enumerate(header):
            table.add_column(name, justify="left" if place < left else "right", no_wrap=place != wraps)
        for row in rows:
            table.add_row(*row)
        self._show(table)

    def _show(self, content: str | Table) -> None:
        """Without the blanks that fill a line: they would be copied along with the text."""
        with self._console.capture() as shown:
            self._console.print(content)
        lines = shown.get().splitlines()
        self._stream.write("".join(BLANKS.sub(r"\1", line) + "\n" for line in lines))

    def spark(self, values: Sequence[float]) -> str:
        """A small plot of `values`, or the values themselves where it is listened to."""
        if self.plain:
            return ", ".join(f"{value:.3f}" for value in values)
        low, high = min(values), max(values)
        bars = "▁▂▃▄▅▆▇█"
        return "".join(bars[round((v - low) / ((high - low) or 1.0) * (len(bars) - 1))] for v in values)

    def bar(self, share: float, width: int = 20) -> str:
        """A bar filled to `share`, full when anything more would be over; nothing where it is listened to."""
        if self.plain:
            return ""
        filled = min(width, max(0, -int(-share * width // 1)))
        return f"[cyan]{'━' * filled}[/][dim]{'─' * (width - filled)}[/]"


def spoken(markup: str) -> str:
    """The text of `markup` in words."""
    text = Text.from_markup(markup, emoji=False).plain
    for sign, word in SPOKEN.items():
        text = text.replace(sign, word)
    return re.sub(" {2,}", ", ", text.strip())  # a gap says what a comma says
