"""A document in Markdown, for MLflow's descriptions and Prefect's artifacts; everything is escaped here."""

from collections.abc import Iterator

from dpbo.tasks.reporting.document import Document, Fact
from dpbo.tasks.reporting.escaping import in_markdown


def markdown(document: Document, *, pictures: str = "", n_tables: int | None = None) -> str:
    """Return a document in Markdown: facts and tables, `pictures` (Markdown already), then the notes."""
    return "\n\n".join(filter(None, _paragraphs(document, pictures, n_tables)))


def _paragraphs(document: Document, pictures: str, n_tables: int | None) -> Iterator[str]:
    yield in_markdown(document.remark)
    heading = " · ".join(filter(None, (document.title, document.subtitle)))
    yield f"**{in_markdown(heading)}**" if heading else ""
    yield "\n".join(map(_fact, (*document.answers, *document.facts)))
    if document.next_step:
        yield f"**Next:** {in_markdown(document.next_step)}."
    for table in document.short_tables[:n_tables]:
        yield f"**{in_markdown(table.title)}**" if table.title else ""
        header, *rows = (f"| {' | '.join(map(in_markdown, row))} |" for row in (table.header, *table.rows))
        yield "\n".join((header, "|---" * len(table.header) + "|", *rows))
    yield pictures
    for note in document.notes:
        if not note.lesson:
            yield f"**{in_markdown(note.title)}.** {in_markdown(' '.join(note.sentences))}"


def _fact(fact: Fact) -> str:
    strong = f"**{in_markdown(fact.strong)}**" if fact.strong else ""
    return f"* {in_markdown(fact.name)}: {strong}{in_markdown(fact.text)}"
