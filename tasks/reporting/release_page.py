"""release.html: the certificate, one file that needs nothing else, not even a network.

It holds the value, the guarantee in plain words, what it rests on and what it does not guarantee, the noise, the
pictures, and the release itself as JSON, so that whoever has the page can check it with `dpbo verify`.
"""

import base64
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from dpbo.tasks.reporting.certificate_words import limits, meaning, rests, value_rows
from dpbo.tasks.reporting.evaluation_picture import is_report
from dpbo.tasks.reporting.receipt import release_text
from dpbo_core.privacy.release import Release
from dpbo_core.report import AT_THRESHOLD, FOUR_COUNTS

Figures = Mapping[str, Any]
READING = (
    "<p>Noise: what the noise, whose law is known, leaves open of the figure of these very records. And sampling: "
    "what noise and so many records, as if they were independent draws, leave open together of all such records. "
    "Nine times in ten each.</p>"
)


def tables(value: Figures) -> str:
    """The tables of a report as HTML; everything in it is escaped."""
    positive = value["table"].get("positive_class")
    whose = "" if positive is None else f"<p>Positive is the class {escape(positive)}.</p>"
    parts = [_section("The figures", READING + whose + _metrics(value["metrics"]))]
    if value["groups"]:
        parts.append(_section("Groups", _groups(value["groups"])))
    if "roc" not in value:
        return "".join(parts) + (_of_classes(value) if "classes" in value else _of_errors(value))
    parts.append(_section("At every threshold", _thresholds(value["confusion"])))
    if value["calibration"]:
        parts.append(_section("Reliability", _calibration(value["calibration"])))
    return "".join(parts)


def _of_classes(value: Figures) -> str:
    """The confusion matrix and the metrics class by class, as HTML, its texts escaped."""
    names, cells = [cell["class"] for cell in value["classes"]], iter(value["confusion"])
    matrix = ((name, *(f"{next(cells)['records']['value']:.0f}" for _ in names)) for name in names)
    figures = ("recall", "precision", "f1", "records_share")
    rows = (
        (cell["class"], figure.replace("_", " "), *_figure(cell[figure]))
        for cell in value["classes"]
        for figure in figures
    )
    one_by_one = _table(("class", "figure", "value", "noise, 90%", "and sampling, 90%"), rows)
    records = _section("Records, by true class (rows) and predicted class", _table(("", *names), matrix))
    return records + _section("Class by class", one_by_one)


def _of_errors(value: Figures) -> str:
    """The histogram of a regression's errors, as HTML, its texts escaped."""
    binning = value["binning"]
    read = (
        f"<p>Errors, predicted less true, are clipped at ±{_number(binning['clipped_at'])}. Each counts as the "
        f"public mean of its bin; wherever in its bin it lies, the mean absolute error is off by "
        f"{_number(binning['mae_off_at_most'])} at most. R² is against the mean of the public targets, whose own "
        f"variance is {_number(binning['public_variance'])}.</p>"
    )
    rows = (
        (
            f"{_end(row['above'], '−∞')} … {_end(row['up_to'], '∞')}",
            _number(row["public_mean"]),
            *_figure(row["records"]),
        )
        for row in value["errors"]
    )
    header = ("error", "public mean", "records", "noise, 90%", "and sampling, 90%")
    return _section("Errors", read + _table(header, rows))


def _metrics(metrics: Figures) -> str:
    """The table of figures, as HTML, its texts escaped."""
    rows = ((name.replace("_", " "), *_figure(cell)) for name, cell in metrics.items())
    return _table(("figure", "value", "noise, 90%", "and sampling, 90%"), rows)


def _groups(groups: Figures) -> str:
    """The table of groups and their distance from all other records, as HTML, its texts escaped."""
    rows = (
        (name, figure.replace("_", " "), _figure(cell[figure])[0], *_figure(cell["gaps"][figure]))
        for name, cell in groups.items()
        for figure in cell["gaps"]
    )
    header = ("group", "figure", "value", "less that of all others", "noise, 90%", "and sampling, 90%")
    return _table(header, rows)


def _thresholds(confusion: Sequence[Figures]) -> str:
    """The table of counts and figures at every threshold, as HTML, its texts escaped."""
    header = ("above", "TP", "FP", "FN", "TN", *(name.replace("_", " ") for name in AT_THRESHOLD))
    rows = (
        (
            _number(row["threshold"]) + (" (the model's own)" if row["own"] else ""),
            *(f"{row[name]:.0f}" for name in FOUR_COUNTS),
            *(_number(row[name]["value"]) for name in AT_THRESHOLD),
        )
        for row in confusion
    )
    return _table(header, rows)


def _calibration(bins: Sequence[Figures]) -> str:
    """The table of predicted and observed shares by bin, as HTML, its texts escaped."""
    rows = (
        (
            f"{_end(row['above'], '−∞')} … {_end(row['up_to'], '∞')}",
            _number(row["predicted"]),
            *_figure(row["observed"]),
            _number(row["records"]["value"]),
        )
        for row in bins
    )
    return _table(("decision value", "predicted", "observed", "noise, 90%", "and sampling, 90%", "records"), rows)


def _figure(cell: Figures) -> tuple[str, str, str]:
    """A figure's value, noise interval and sampling interval as cells; dashes where there is no noise interval."""
    if cell["noise_interval"] is None:  # then a value is noise, and the sampling of it too
        return "–", "–", "–"
    return _number(cell["value"]), _interval(cell["noise_interval"]), _interval(cell["sampling_interval"])


def _number(value: float | None) -> str:
    """A number to four digits; a dash for None."""
    return "–" if value is None else f"{value:.4g}"


def _interval(ends: Sequence[float] | None) -> str:
    """The two ends of an interval as text; a dash for None."""
    return "–" if ends is None else f"{ends[0]:.3f} … {ends[1]:.3f}"


def _end(value: float | None, without: str) -> str:
    """The end of a bin; `without` where it has none."""
    return without if value is None else f"{value:.4g}"


def _section(title: str, body: str) -> str:
    """A heading, escaped here, and its `body`, which is HTML already."""
    return f"<h2>{escape(title)}</h2>{body}"


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table as HTML, its cells escaped."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div style="overflow-x:auto"><table><tr>{head}</tr>{body}</table></div>'


PAGE = Template("""\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>$title</title><style>
body{font:16px/1.5 system-ui,sans-serif;color:#1f2933;max-width:52rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin-bottom:0}h2{font-size:1.1rem;margin-top:2rem}.sub{color:#7b8794;margin-top:.2rem}
.value{display:flex;gap:2rem;flex-wrap:wrap;margin:1rem 0}.value b{display:block;font-size:1.6rem;color:#c2410c}
.guarantee{border-left:4px solid #c2410c;padding:.5rem 1rem;background:#fdf6f2}
table{border-collapse:collapse;font-size:.9rem}td,th{text-align:left;padding:.25rem .9rem .25rem 0;
border-bottom:1px solid #e4e7eb}img{max-width:100%}pre{white-space:pre-wrap;font-size:.75rem}
@media print{body{margin:0 auto}h2{break-after:avoid}img,table,ul,.guarantee{break-inside:avoid}}
</style></head><body>
<h1>$study</h1><p class="sub">$sub</p>
<div class="value">$value</div>
<p class="guarantee"><strong>$guarantee</strong><br>$meaning</p>
$report<h2>What it rests on</h2><ul>$rests</ul>
<h2>What it does not guarantee</h2><ul>$limits</ul>
<h2>The noise</h2><table><tr><th>draws</th><th>mechanism</th><th>scale, in $unit</th><th>ε each</th>
<th>ρ each</th></tr>$noise</table>
$pictures
<h2>The release</h2><p>Check it: save the JSON below as <code>release.json</code> (in MLflow it is an artifact
of the same run) and run <code>dpbo verify release.json</code>.</p>
<details><summary>release.json</summary><pre id="release">$document</pre></details>
</body></html>
""")


def page(release: Release, pictures: Iterable[Path]) -> str:
    """A release's certificate as one HTML page; everything in it is escaped, and it loads nothing."""
    images = "".join(
        f'<p><img alt="{escape(path.stem)}" src="data:image/png;base64,'
        f'{base64.b64encode(path.read_bytes()).decode()}"></p>'
        for path in pictures
    )
    return PAGE.substitute(
        title=escape(f"{release.study}, edition {release.edition}"),
        study=escape(release.study),
        sub=escape(
            f"edition {release.edition} · dataset {release.dataset} · {release.method} · "
            f"released {release.released_at[:16].replace('T', ' ')} UTC · release {release.release_id}"
        ),
        value="".join(
            f'<div>{escape(name)}<b data-value="{escape(name)}">{escape(text)}</b></div>'
            for name, text in value_rows(release)
        ),
        guarantee=escape(release.guarantee.in_words()),
        meaning=escape(meaning(release)),
        report=f"{images}{tables(release.value)}" if is_report(release) else "",
        rests=_items(rests(release)),
        limits=_items(limits(release)),
        unit=("persons" if "n_persons" in release.facts else "records") if is_report(release) else "score",
        noise=_noise(release),
        pictures="" if is_report(release) else f"<h2>Pictures</h2>{images}",
        document=escape(release_text(release)),
    )


def _noise(release: Release) -> str:
    """The `<tr>` rows of the noise table, texts escaped: draws of one mechanism, scale and price together."""
    groups: dict[tuple[str, ...], int] = {}
    for spend in release.spends:
        epsilon = "–" if spend.epsilon_units is None else f"{spend.epsilon:.4g}"
        key = (spend.mechanism, f"{spend.noise_scale:.4g}", epsilon, f"{spend.rho:.4g}")
        groups[key] = groups.get(key, 0) + 1
    return "".join(
        f"<tr><td>{count}</td>{''.join(f'<td>{escape(cell)}</td>' for cell in key)}</tr>"
        for key, count in groups.items()
    )


def _items(lines: Iterable[str]) -> str:
    """The `<li>` items of an HTML list, a sentence each, escaped here; without the list's own tag."""
    return "".join(f"<li>{escape(line)}</li>" for line in lines)
