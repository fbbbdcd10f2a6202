"""A document: the title, facts, tables, figures and notes that a screen, a certificate and an MLflow page all show.

Its texts and numbers are chosen where it is built; a backend only escapes them and lays them out. The formats of
numbers are here and nowhere else, and so are the escapes for pictures and Markdown, and the backend in Markdown,
for MLflow's descriptions and Prefect's artifacts. Screens escape by `dpbo.flows.terminal.named`, HTML pages by
`html.escape`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import TextWrapper

from dpbo_core.errors import printable

# What a backslash makes plain in every kind of Markdown; and marks of some kinds, of HTML, and of addresses.
MARKDOWN_PATTERN = re.compile(r"([\\`*_{}\[\]()>#+.!~=|-])")
ENTITY_TABLE = str.maketrans({mark: f"&#{ord(mark)};" for mark in "&<$@/"})
NO_NUMBER = "–"  # instead of a number that is not stated
NARROW_WIDTH = 0.002  # of an interval whose ends need a fourth decimal
SUMMARY_FACTS = ("report", "guarantee", "budget")  # which a summary has beside the answers
WRAPPER = TextWrapper(90, break_long_words=False, break_on_hyphens=False)  # as Prefect does not
NOT_PRIVATE = "NOT PRIVATE"  # in what a summary never leaves out


def in_picture(text: object) -> str:
    """Text escaped for matplotlib, which reads mathtext between two dollars."""
    return printable(str(text)).replace("$", r"\$")


def in_markdown(text: object) -> str:
    """Text escaped for a description or note that MLflow and Prefect render."""
    return MARKDOWN_PATTERN.sub(r"\\\1", printable(str(text))).translate(ENTITY_TABLE)


def embedded(picture: str, run_id: str) -> str:
    """Markdown that shows the file `picture` of a run's plots, on that run's page in MLflow."""
    return f"![{picture.removesuffix('.png')}](get-artifact?path=plots%2F{picture}&run_uuid={run_id})"


def point_in_short(point: Mapping[str, object]) -> str:
    """Return a point of a search in a few words: its hyperparameters, numbers to three digits. Not escaped."""
    return ", ".join(
        f"{name} = {item:.3g}" if isinstance(item, float) else f"{name} = {item}" for name, item in point.items()
    )


def in_words(item: object) -> str:
    """Return a number to six digits; another value as text. Not escaped."""
    return f"{item:.6g}" if isinstance(item, float) else str(item)


@dataclass(frozen=True)
class Fact:
    """A line with a name. `strong` stands out and opens it; `text` follows it as it is."""

    name: str
    text: str = ""
    strong: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of cells below a header."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""  # of the table; "" for none
    left: int = 1  # how many columns hold text; the others hold numbers
    strong: int | None = None  # the column that stands out; None for none
    short: "Table | None" = None  # what is shown in its place where there is little room
    needs_a_page: bool = False  # it is shown only where there is room


@dataclass(frozen=True)
class Figure:
    """Points (x, y), from left to right, which a screen draws, and `words` for whoever listens."""

    name: str
    points: tuple[tuple[float, float], ...]
    words: str
    # names of x and y in the unit square; None for bars from the least y to the greatest
    axes: tuple[str, str] | None = None
    caption: str = ""  # said beside bars

    def height_at(self, x: float) -> float:
        """The curve's y at x from (0, 0) on, linear between points; noise may have put points out of order."""
        x0, y0 = 0.0, 0.0
        for point_x, point_y in self.points:
            x1, y1 = max(point_x, x0), max(point_y, y0)
            if x1 >= x:
                return y0 + (y1 - y0) * ((x - x0) / (x1 - x0) if x1 > x0 else 1.0)
            x0, y0 = x1, y1
        return y0


@dataclass(frozen=True)
class Note:
    """A title and sentences; `strong` if it stands out, a `lesson` if it is for whoever asks what a line means."""

    title: str
    sentences: tuple[str, ...]
    strong: bool = False
    lesson: bool = False


@dataclass(frozen=True)
class Document:
    """What is shown of a release, in the order of reading. Nothing in it is escaped."""

    title: str = ""
    subtitle: str = ""  # follows the title on its line
    origin: str = ""  # dataset, date and id, on a page
    remark: str = ""  # a sentence before everything else
    tables: tuple[Table, ...] = ()
    answers: tuple[Fact, ...] = ()  # the facts that a reader looks for; on a page they stand in large type
    figures: tuple[Figure, ...] = ()
    facts: tuple[Fact, ...] = ()
    notes: tuple[Note, ...] = ()
    next_step: str = ""  # what to do now, a sentence without its full stop

    @property
    def facts_on_a_page(self) -> tuple[Fact, ...]:
        """The facts that no note of a page repeats."""
        sentences = " ".join(sentence for note in self.notes for sentence in note.sentences if not note.lesson)
        return tuple(fact for fact in self.facts if fact.strong or fact.text not in sentences)

    @property
    def verdict_first(self) -> list[Fact]:
        """The answers, a verdict before all others."""
        return sorted(self.answers, key=lambda fact: fact.name != "verdict")

    @property
    def short_tables(self) -> tuple[Table, ...]:
        """The tables for a place with little room."""
        return tuple(table.short or table for table in self.tables if not table.needs_a_page)


def number(value: object) -> str:
    """Return a float to four significant digits; a dash for None; another value as text."""
    return NO_NUMBER if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def score(value: float | None) -> str:
    """Return a score or metric to four decimals, or to four digits beyond 1; a dash for None."""
    return NO_NUMBER if value is None else f"{value:.4f}" if abs(value) <= 1.0 else f"{value:.4g}"


def end(value: float) -> str:
    """Return an end of an interval to three decimals, or to four digits from 10 on."""
    return f"{value:.3f}" if abs(value) < 10.0 else f"{value:.4g}"


def interval(ends: Sequence[float] | None) -> str:
    """Return an interval, "0.867 to 0.897", with a fourth decimal if it is narrow; a dash for None."""
    if ends is None:
        return NO_NUMBER
    low, high = ends
    narrow = high - low < NARROW_WIDTH and abs(high) <= 1.0
    return f"{low:.4f} to {high:.4f}" if narrow else f"{end(low)} to {end(high)}"


def share(value: float | None) -> str:
    """Return a share in per cent; a dash for None."""
    return NO_NUMBER if value is None else f"{value:.1%}"


def markdown(document: Document, *, pictures: str = "", n_tables: int | None = None) -> str:
    """Return a document in Markdown: facts, tables, what stands out of the notes, and `pictures`."""
    facts = (*document.verdict_first, *document.facts_on_a_page)
    paragraphs = [
        in_markdown(document.remark),
        "\n".join(f"* {in_markdown(fact.name)}: {_text_of(fact)}" for fact in facts),
        f"**Next:** {in_markdown(document.next_step)}." if document.next_step else "",
        *_tables(document.short_tables[:n_tables]),
    ]
    for note in document.notes:
        if note.strong:
            ends = dict.fromkeys((note.sentences[0], note.sentences[-1]))
            paragraphs.append(f"**{in_markdown(note.title)}.** {in_markdown(' '.join(ends))}")
    return "\n\n".join(filter(None, (*paragraphs, pictures)))


def summary(document: Document) -> str:
    """Return a document's answers, guarantee, budget and next step as one table in Markdown, below its figures."""
    facts = [
        fact for fact in document.facts if fact.strong or fact.name in SUMMARY_FACTS or NOT_PRIVATE in fact.text
    ]
    cells = [(in_markdown(fact.name), _text_of(fact)) for fact in (*document.verdict_first, *facts)]
    cells.append(("next", in_markdown(document.next_step)))
    rows = (f"| {name} | {'<br>'.join(WRAPPER.wrap(text))} |" for name, text in cells if text)
    table = "\n".join((f"| | {in_markdown(document.subtitle)} |", "|---|---|", *rows))
    return "\n\n".join(filter(None, (in_markdown(document.remark), *_tables(document.short_tables[:1]), table)))


def _tables(tables: tuple[Table, ...]) -> Iterator[str]:
    for table in tables:
        yield f"**{in_markdown(table.title)}**" if table.title else ""
        header, *rows = (f"| {' | '.join(map(in_markdown, row))} |" for row in (table.header, *table.rows))
        yield "\n".join((header, "|---" * len(table.header) + "|", *rows))


def _text_of(fact: Fact) -> str:
    strong = f"**{in_markdown(fact.strong)}**" if fact.strong else ""
    return f"{strong}{in_markdown(fact.text)}"
