"""The page of `dpbo report`: one HTML file whose pictures are drawn in it, with no script and no address.

Everything that people named is escaped here, on the way into the page and into its pictures. A colour never says
alone what it says: a word stands beside it.
"""

from collections.abc import Sequence
from datetime import datetime
from html import escape
from string import Template

from dpbo.tasks.reporting.document import end, interval, score
from dpbo.tasks.reporting.overview import FIRST, NO, UNSURE, YES, DatasetOverview, StudyOverview, change
from dpbo.tasks.reporting.report_document import Quotable
from dpbo_core.ledger.accounting.admission import account_line, alert_share
from dpbo_core.ledger.accounting.forecast import end_line

PAGE_TEMPLATE = Template("""\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>$title</title><style>
:root{--ink:#1f2933;--soft:#52606d;--line:#e4e7eb;--accent:#c2410c;--good:#0f6b3d;--bad:#a61b1b;--open:#7a4f01}
*{box-sizing:border-box}
body{font:16px/1.45 system-ui,sans-serif;color:var(--ink);background:#f7f8fa;max-width:76rem;margin:0 auto;
padding:2rem 1.25rem}
h1{font-size:1.7rem;margin:0}h2{font-size:1.25rem;margin:0}h3{font-size:1.1rem;margin:0}p{margin:.35rem 0}
h1,h2,h3,p,dd,li{overflow-wrap:anywhere}td,th{overflow-wrap:break-word}td:nth-child(5){white-space:nowrap}
.soft{color:var(--soft);font-size:.9rem}section{margin-top:2.25rem}
.alarm{border-left:5px solid var(--bad);background:#fdecec;padding:.7rem 1rem;margin:1.25rem 0;border-radius:4px}
.alarm ul{margin:.25rem 0;padding-left:1.2rem}
.card{background:#fff;border:1px solid var(--line);border-radius:10px;padding:1.1rem 1.35rem;margin-top:1rem}
.top{display:grid;grid-template-columns:minmax(0,1fr) minmax(0,1fr) minmax(0,22rem);gap:1.25rem 2rem;
margin-top:.9rem}
.ask{color:var(--soft);font-size:.85rem;margin:0 0 .15rem;font-weight:600}
.big{font-size:2.1rem;line-height:1.15;font-weight:700;margin:0}.ship{font-size:1.6rem}
.yes{color:var(--good)}.no{color:var(--bad)}.open{color:var(--open)}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(17rem,1fr));gap:.9rem 2rem;margin:1.1rem 0 0;
padding-top:.9rem;border-top:1px solid var(--line)}
.facts div{margin:0}dt{color:var(--soft);font-size:.85rem;font-weight:600}dd{margin:.1rem 0 0}
svg{display:block;width:100%;height:auto}.bar{margin:.6rem 0 .3rem}
table{border-collapse:collapse;width:100%;background:#fff;border:1px solid var(--line)}
td,th{text-align:left;font-weight:inherit;padding:.5rem .8rem;
border-bottom:1px solid var(--line);vertical-align:top}
thead th{color:var(--soft);font-size:.85rem;font-weight:600}.wide{overflow-x:auto;margin-top:1.25rem}
td strong{white-space:nowrap}
a{color:inherit}details{margin-top:.8rem;font-size:.9rem}summary{cursor:pointer;color:var(--soft)}
@media (max-width:56rem){.top,.facts{grid-template-columns:minmax(0,1fr)}body{padding:1.25rem .8rem}
.wide tr>:nth-child(n+4){display:none}}
@media print{body{background:#fff;max-width:none;padding:0}.card,tr,svg,.alarm{break-inside:avoid}
h2,h3{break-after:avoid}*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
</style></head><body>
<header><h1>$title</h1><p class="soft">$subtitle</p></header>
<main>$alarms$table$datasets</main>
<footer><p class="soft">Intervals hold nine times in ten. “Yes” means better than the model in use; “as a first
model” that the interval lies beyond the score of always giving the same answer. You decide whether that is enough.
<code>dpbo show NAME:EDITION --html FILE</code> writes the certificate of one release.</p></footer>
</body></html>
""")
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 360.0, 150.0, 52.0, 10.0, 22.0  # of a trend's picture and its margins
BAR_WIDTH, BAR_HEIGHT = 720.0, 18.0
INK, SOFT, CHOICE, SPENT, LINE = "#1f2933", "#52606d", "#c2410c", "#486581", "#e4e7eb"
MARKS = {
    YES: ("yes", "✓ Yes"),
    FIRST: ("yes", "✓ Yes, as a first model"),
    NO: ("no", "✕ No"),
    UNSURE: ("open", "? Cannot tell"),
}
UNNAMED = "somebody whom the ledger does not name"
MAX_LABEL_LENGTH = 16  # characters of an edition's name below a picture


def overview_page(datasets: Sequence[DatasetOverview], now: datetime) -> str:
    """Return the page about all datasets, made at the time `now`."""
    n_studies = sum(len(dataset.studies) for dataset in datasets)
    counted = f"{_count(len(datasets), 'dataset')}, {_count(n_studies, 'study', 'studies')}"
    made = f"{now:%d %B %Y, %H:%M} UTC, from the ledger alone: no record was read and no budget was spent"
    alarms = [(dataset, alarm) for dataset in datasets for alarm in dataset.alarms]
    items = "".join(f"<li>{escape(f'{one.account.budget.dataset}: {alarm}')}</li>" for one, alarm in alarms)
    return PAGE_TEMPLATE.substitute(
        title="Private models at a glance",
        subtitle=escape(f"{counted} · {made}"),
        alarms=f'<div class="alarm" role="alert"><strong>ALARM</strong><ul>{items}</ul></div>' if alarms else "",
        table=_table(datasets) if n_studies > 1 else "",
        datasets="".join(_dataset(dataset, place) for place, dataset in enumerate(datasets)),
    )


def _count(n: int, one: str, several: str = "") -> str:
    return f"{n:,} {one if n == 1 else several or one + 's'}"


def _table(datasets: Sequence[DatasetOverview]) -> str:
    head = ("study", "ship it?", "number to quote", "since last time", "budget ends", "asked by", "budget set by")
    rows = []
    for place, dataset in enumerate(datasets):
        for number, study in enumerate(dataset.studies):
            link = f'<a href="#s{place}-{number}">{escape(study.name)}</a>'
            quoted = "" if study.quoted is None else f"{study.quoted.name} {_in_short(study.quoted)}"
            people = (study.asked_by, dataset.account.cap_set_by)
            cells = (quoted, study.change.partition(":")[0], _ends(study, dataset), *people)
            plain = "".join(f"<td>{escape(cell) or '–'}</td>" for cell in cells)
            rows.append(f'<tr><th scope="row">{link}</th><td>{_mark(study)}</td>{plain}</tr>')
    titles = "".join(f'<th scope="col">{name}</th>' for name in head)
    return f'<div class="wide"><table><thead><tr>{titles}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def _mark(study: StudyOverview) -> str:
    kind, text = MARKS.get(study.ship, ("open", "– No verdict"))
    return f'<strong class="{kind}">{text}</strong>'


def _ends(study: StudyOverview, dataset: DatasetOverview) -> str:
    ends = dataset.burn_down and dataset.burn_down.ends
    return f"{ends:%Y-%m-%d}" if ends else study.room or end_line(dataset.burn_down)


def _in_short(number: Quotable) -> str:
    whole = number.interval is None or number.quoted != score(number.value)
    return number.quoted if whole else f"{number.quoted} ({interval(number.interval)})"


def _dataset(dataset: DatasetOverview, place: int) -> str:
    name, share = dataset.account.budget.dataset, dataset.share
    studies = "".join(_study(study, dataset, f"s{place}-{number}") for number, study in enumerate(dataset.studies))
    bar = "" if share is None else f'<div class="bar">{budget_bar(share)}</div>'
    line = account_line(dataset.account).removeprefix(f"{name}: ")
    return (
        f'<section aria-labelledby="d{place}"><h2 id="d{place}">Dataset {escape(name)}</h2>{bar}'
        f"<p><strong>{escape(line)}; {escape(end_line(dataset.burn_down))}.</strong></p>"
        f'<p class="soft">Budget {escape(dataset.approval)}. The mark is where an alert is sent.</p>'
        f"{studies or '<p>No study has been charged yet.</p>'}</section>"
    )


def _study(study: StudyOverview, dataset: DatasetOverview, anchor: str) -> str:
    number = study.quoted
    quoted, of_trend = '<p class="big">–</p><p class="soft">no number is released</p>', ""
    if number is not None:
        of_trend = f": {escape(number.name)}, 90% intervals, the newest in colour"
        of = f"{number.source} of edition {number.edition}{number.dated}"
        ends = "" if number.interval is None else f"{interval(number.interval)}, 90% ({number.covers})"
        quoted = (
            f'<p class="big">{number.quoted}</p><p>{escape(ends)}</p>'
            f'<p class="soft">{escape(f"{number.name}: {of}")}</p>'
        )
    facts = (
        ("Better than last time?", _sentence(study.change)),
        ("When does the budget end?", _ends(study, dataset)),
        ("What did it cost?", study.cost),
        (
            "Who asked, who set the budget?",
            f"Asked by {study.asked_by or UNNAMED}. Budget {dataset.approval}"
            f"{'' if dataset.account.cap_set_by else ' by ' + UNNAMED}.",
        ),
        ("What was released?", study.released),
        ("What now?", study.next_step),
    )
    facts_html = "".join(f"<div><dt>{name}</dt><dd>{escape(text)}</dd></div>" for name, text in facts if text)
    opened = "" if study.ship in (YES, FIRST) else " open"
    why, _, numbers = study.why.partition(":")
    lines = (study.guarantee, *map(_sentence, study.remarks))
    remarks = "".join(f"<p>{escape(line)}</p>" for line in lines if line)
    return (
        f'<article class="card" id="{anchor}"><h3>{escape(study.name)}</h3><div class="top">'
        f'<div><p class="ask">Ship it?</p><p class="ship">{_mark(study)}</p><p>{escape(_sentence(why))}</p>'
        f'<p class="soft">{escape(_sentence(numbers.strip()))}</p></div>'
        f'<div><p class="ask">Which number do I quote?</p>{quoted}</div>'
        f'<div><p class="ask">Trend over editions{of_trend}</p>{trend_picture(study.trend)}</div></div>'
        f'<dl class="facts">{facts_html}</dl>'
        f"<details{opened}><summary>Guarantee and remarks</summary>{remarks}</details>"
        "</article>"
    )


def _sentence(text: str) -> str:
    return text and f"{text[0].upper()}{text[1:].removesuffix('.')}."


def budget_bar(share: float) -> str:
    """Return a picture of a budget whose `share`, in [0, 1], is spent, with a line where an alert is sent."""
    spent, alert = BAR_WIDTH * share, BAR_WIDTH * alert_share()
    color = CHOICE if share >= alert_share() else SPENT
    words = f"{share:.0%} of the budget is spent; an alert is sent at {alert_share():.0%}"
    return (
        f'<svg viewBox="0 0 {BAR_WIDTH:g} {BAR_HEIGHT:g}" preserveAspectRatio="none" '
        f'style="height:{BAR_HEIGHT:g}px" role="img" aria-label="{words}"><title>{words}</title>'
        f'<rect width="{BAR_WIDTH:g}" height="{BAR_HEIGHT:g}" rx="4" fill="{LINE}"/>'
        f'<rect width="{spent:.1f}" height="{BAR_HEIGHT:g}" rx="4" fill="{color}"/>'
        f'<rect x="{alert - 1:.1f}" width="2" height="{BAR_HEIGHT:g}" fill="{INK}"/></svg>'
    )


def trend_picture(trend: Sequence[Quotable]) -> str:
    """Return a picture of numbers of one kind by edition, oldest first, each with its interval; words for none."""
    if not trend:
        return '<p class="soft">no number is released</p>'
    spans = [number.interval or (number.value, number.value) for number in trend]
    low, high = min(span[0] for span in spans), max(span[1] for span in spans)
    margin = 0.1 * (high - low) or 0.01
    low, high = low - margin, high + margin

    def x(place: int) -> float:
        return LEFT + (WIDTH - LEFT - 12.0) * (place + 0.5) / len(trend)

    def y(value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - value) / (high - low)

    axis = "".join(
        f'<line x1="{LEFT:g}" x2="{WIDTH:g}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="{LINE}"/>'
        f'<text x="{LEFT - 8:g}" y="{y(value) + 4:.1f}" text-anchor="end">{end(value)}</text>'
        for value in (low + margin, high - margin)
    )
    bars = "".join(
        f'<line x1="{x(place):.1f}" x2="{x(place):.1f}" y1="{y(span[0]):.1f}" y2="{y(span[1]):.1f}" '
        'stroke="#bcccdc" stroke-width="6" stroke-linecap="round"/>'
        for place, span in enumerate(spans)
    )
    line = " ".join(f"{x(place):.1f},{y(number.value):.1f}" for place, number in enumerate(trend))
    dots = "".join(
        f'<circle cx="{x(place):.1f}" cy="{y(number.value):.1f}" r="4" '
        f'fill="{CHOICE if place == len(trend) - 1 else INK}"/>'
        for place, number in enumerate(trend)
    )
    names = "".join(
        f'<text x="{x(place):.1f}" y="{HEIGHT - 5:g}" text-anchor="middle">'
        f"{escape(_label(trend[place].edition))}</text>"
        for place in sorted({0, len(trend) - 1})
    )
    words = "; ".join(f"edition {number.edition}: {_in_short(number)}" for number in trend)
    return (
        f'<svg viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" aria-label="{escape(words)}" font-size="12" '
        f'fill="{SOFT}">'
        f"<title>{escape(f'{trend[-1].name}: {words}; {change(trend)}')}</title>{axis}{bars}"
        f'<polyline points="{line}" fill="none" stroke="{INK}"/>{dots}{names}</svg>'
    )


def _label(edition: str) -> str:
    return edition if len(edition) <= MAX_LABEL_LENGTH else f"{edition[: MAX_LABEL_LENGTH - 1]}…"
