"""A document in Markdown, for MLflow's descriptions and Prefect's artifacts; everything is escaped here."""

from collections.abc import Iterator
from textwrap import wrap
from typing import Any

from dpbo.tasks.reporting.document import Document, Fact, Table
from dpbo.tasks.reporting.escaping import in_markdown

SUMMARY_FACTS = ("report", "guarantee", "budget")  # which a summary has beside the answers
WRAPPING: dict[str, Any] = {
    "width": 90,
    "break_long_words": False,
    "break_on_hyphens": False,
}  # as Prefect does not
NOT_PRIVATE = "NOT PRIVATE"  # in what a summary never leaves out


def markdown(document: Document, *, pictures: str = "", n_tables: int | None = None) -> str:
    """Return a document in Markdown: facts and tables, `pictures` (Markdown already), then the notes."""
    return "\n\n".join(filter(None, _paragraphs(document, pictures, n_tables)))


def summary(document: Document) -> str:
    """Return a document's answers, guarantee, budget and next step as one table in Markdown, below its figures."""
    facts = [
        fact for fact in document.facts if fact.strong or fact.name in SUMMARY_FACTS or NOT_PRIVATE in fact.text
    ]
    cells = [(in_markdown(fact.name), _text_of(fact)) for fact in (*document.answers, *facts)]
    cells.append(("next", in_markdown(document.next_step)))
    rows = (f"| {name} | {'<br>'.join(wrap(text, **WRAPPING))} |" for name, text in cells if text)
    table = "\n".join((f"| | {in_markdown(document.subtitle)} |", "|---|---|", *rows))
    return "\n\n".join(filter(None, (in_markdown(document.remark), *_tables(document.short_tables[:1]), table)))


def _paragraphs(document: Document, pictures: str, n_tables: int | None) -> Iterator[str]:
    yield in_markdown(document.remark)
    heading = " · ".join(filter(None, (document.title, document.subtitle)))
    yield f"**{in_markdown(heading)}**" if heading else ""
    yield "\n".join(
        f"* {in_markdown(fact.name)}: {_text_of(fact)}" for fact in (*document.answers, *document.facts_on_a_page)
    )
    if document.next_step:
        yield f"**Next:** {in_markdown(document.next_step)}."
    yield from _tables(document.short_tables[:n_tables])
    yield pictures
    for note in document.notes:
        if not note.lesson:
            yield f"**{in_markdown(note.title)}.** {in_markdown(' '.join(note.sentences))}"


def _tables(tables: tuple[Table, ...]) -> Iterator[str]:
    for table in tables:
        yield f"**{in_markdown(table.title)}**" if table.title else ""
        header, *rows = (f"| {' | '.join(map(in_markdown, row))} |" for row in (table.header, *table.rows))
        yield "\n".join((header, "|---" * len(table.header) + "|", *rows))


def _text_of(fact: Fact) -> str:
    strong = f"**{in_markdown(fact.strong)}**" if fact.strong else ""
    return f"{strong}{in_markdown(fact.text)}"
