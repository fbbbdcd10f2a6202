"""release.html: a document as one HTML page that needs nothing else, not even a network.

Everything in it is escaped here. The certificate of a release holds the release itself as JSON, so that whoever has
the page can check it with `dpbo verify`.
"""

import base64
from collections.abc import Iterable
from html import escape
from pathlib import Path
from string import Template

from dpbo.tasks.reporting.document import Document, Fact, Note, Table
from dpbo.tasks.reporting.receipt import release_text
from dpbo.tasks.reporting.release_document import BETTER_TEXT, release_document
from dpbo_core.ledger.accounting.account import Account
from dpbo_core.privacy.release import Release
from dpbo_core.report import BETTER

PAGE_TEMPLATE = Template("""\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>$title</title><style>
body{font:16px/1.5 system-ui,sans-serif;color:#1f2933;max-width:52rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin-bottom:0}h2{font-size:1.1rem;margin-top:2rem}.sub{color:#7b8794;margin-top:.2rem}
.value{display:flex;gap:1rem 2rem;flex-wrap:wrap;margin:1rem 0}.value div{max-width:24rem}
.value b{display:block;font-size:1.6rem;line-height:1.2}.good{color:#0f6b3d}
.guarantee{border-left:4px solid #486581;padding:.5rem 1rem;background:#f0f4f8;margin-bottom:1.2rem}
.guarantee h2{margin-top:0}.guarantee p{margin:.3rem 0}
table{border-collapse:collapse;font-size:.9rem}td,th{text-align:left;padding:.25rem .9rem .25rem 0;
vertical-align:top;border-bottom:1px solid #e4e7eb}img{max-width:100%}pre{white-space:pre-wrap;font-size:.75rem}
@media print{body{margin:0 auto}h2{break-after:avoid}img,table,ul,.guarantee{break-inside:avoid}}
</style></head><body>
<h1>$title</h1><p class="sub">$subtitle</p>
<div class="value">$answers</div>
$strong$facts$pictures$tables$notes
<p><strong>Next:</strong> $next_step.</p>
<h2>The release</h2><p>Check it: save the JSON below as <code>release.json</code> (in MLflow it is an artifact
of the same run) and run <code>dpbo verify release.json</code>. <code>dpbo report</code> says who asked for it, and
who set the budget's cap.</p>
<details><summary>release.json</summary><pre id="release">$attached</pre></details>
</body></html>
""")


def page(release: Release, pictures: Iterable[Path], account: Account | None = None) -> str:
    """Return a release's certificate as one HTML page, with what is left of its dataset's `account`."""
    return html(release_document(release, account=account), pictures, attached=release_text(release))


def html(document: Document, pictures: Iterable[Path], *, attached: str) -> str:
    """Return a document as one HTML page with pictures, and the text `attached` for whoever checks it."""
    images = (
        f'<p><img alt="{escape(path.stem)}" src="data:image/png;base64,'
        f'{base64.b64encode(path.read_bytes()).decode()}"></p>'
        for path in pictures
    )
    answers = document.verdict_first
    caveats = [fact for fact in answers if not fact.strong]
    facts = Table(
        ("", ""), tuple((fact.name, f"{fact.strong}{fact.text}") for fact in (*caveats, *document.facts_on_a_page))
    )
    return PAGE_TEMPLATE.substitute(
        title=escape(document.title),
        subtitle=escape(" · ".join(filter(None, (document.subtitle, document.origin)))),
        answers="".join(_answer(fact) for fact in answers if fact.strong),
        strong="".join(f'<div class="guarantee">{_note(note)}</div>' for note in document.notes if note.strong),
        pictures="".join(images),
        tables="".join(map(_table, document.tables)),
        facts=_table(facts),
        notes="".join(_note(note) for note in document.notes if not (note.strong or note.lesson)),
        next_step=escape(document.next_step),
        attached=escape(attached),
    )


def _answer(fact: Fact) -> str:
    good = ' class="good"' if fact.strong in (BETTER, BETTER_TEXT) else ""
    strong = f'<b data-value="{escape(fact.name)}"{good}>{escape(fact.strong)}</b>'
    return f"<div>{escape(fact.name)}{strong}{escape(fact.text.lstrip(' ,:'))}</div>"


def _note(note: Note) -> str:
    several = len(note.sentences) > 1 and not note.strong
    items = (f"<li>{escape(line)}</li>" if several else f"<p>{escape(line)}</p>" for line in note.sentences)
    text = "".join(items)
    return f"<h2>{escape(note.title)}</h2>{f'<ul>{text}</ul>' if several else text}"


def _table(table: Table) -> str:
    heading = f"<h2>{escape(table.title)}</h2>" if table.title else ""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.header) if any(table.header) else ""
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    return f'{heading}<div style="overflow-x:auto"><table><tr>{head}</tr>{body}</table></div>'
