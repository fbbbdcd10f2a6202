"""A document in Markdown, for MLflow's descriptions and Prefect's artifacts; everything is escaped here."""

from collections.abc import Iterable, Iterator

from dpbo.tasks.reporting.document import Document, Table
from dpbo.tasks.reporting.escaping import in_markdown


def markdown(document: Document, *, pictures: str = "", n_tables: int | None = None) -> str:
    """A document in Markdown: facts and tables, `pictures` (Markdown already), then the notes.

    Args:
        document: nothing in it is escaped.
        pictures: shown between the facts and what explains them.
        n_tables: the first so many tables, for a place that takes few characters; all of them where None.
    """
    return "\n\n".join(filter(None, _paragraphs(document, pictures, n_tables)))


def _paragraphs(document: Document, pictures: str, n_tables: int | None) -> Iterator[str]:
    """The paragraphs of a document."""
    yield in_markdown(document.remark)
    facts = [(fact.name, fact.strong, fact.text) for fact in (*document.answers, *document.facts)]
    rows = [
        (in_markdown(name), (f"**{in_markdown(strong)}**" if strong else "") + in_markdown(text))
        for name, strong, text in facts
    ]
    if rows:
        yield _table(("", " · ".join(filter(None, (document.title, document.subtitle)))), rows)
    if document.next_step:
        yield f"**Next:** {in_markdown(document.next_step)}."
    for table in document.short_tables[:n_tables]:
        yield f"**{in_markdown(table.title)}**" if table.title else ""
        yield _of(table)
    yield pictures
    for note in document.notes:
        yield f"**{in_markdown(note.title)}.** {in_markdown(' '.join(note.sentences))}"


def _of(table: Table) -> str:
    """A table's rows, escaped."""
    return _table(table.header, (tuple(map(in_markdown, row)) for row in table.rows))


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table of rows that are Markdown already; its header is escaped here."""
    lines = [tuple(map(in_markdown, header)), ("---",) * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
