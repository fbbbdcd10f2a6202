"""release.html: the certificate, one file that needs nothing else, not even a network.

It holds the value, the guarantee in plain words, what it rests on and what it does not guarantee, the noise, the
pictures, and the release itself as JSON, so that whoever has the page can check it with `dpbo verify`.
"""

import base64
import json
import math
from collections.abc import Iterable
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from dpbo.tasks.reporting.evaluation_picture import is_report
from dpbo.tasks.reporting.report_tables import tables
from dpbo_core.evaluation.figures import METRICS_OF_CLASSES
from dpbo_core.privacy.assumption import CALLER_ASSUMPTIONS
from dpbo_core.privacy.guarantee import PrivacyGuarantee
from dpbo_core.privacy.metric_shown import metric_shown
from dpbo_core.privacy.release import LEARNED_FROM, Release
from dpbo_core.privacy.unit import NeighboringRelation, PrivacyUnit, anyone

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
</style></head><body>
<h1>$study</h1><p class="sub">$sub</p>
<div class="value">$value</div>
<p class="guarantee"><strong>$guarantee</strong><br>$meaning</p>
$report<h2>What it rests on</h2><ul>$rests</ul>
<h2>What it does not guarantee</h2><ul>$limits</ul>
<h2>The noise</h2><table><tr><th>draws</th><th>mechanism</th><th>scale, in $unit</th><th>ε each</th>
<th>ρ each</th></tr>$noise</table>
$pictures
<h2>The release</h2><p>Check it: save the JSON below as <code>release.json</code> (it also lies beside this page)
and run <code>dpbo verify release.json</code>.</p>
<details><summary>release.json</summary><pre id="release">$document</pre></details>
</body></html>
""")
MEANING = (
    "{change}: the probability of anything that this release shows changes by a factor of at most "
    "e^{epsilon:g} = {factor:.3g}{but}."
)
CHANGE = {
    NeighboringRelation.REPLACE_ONE: "Replace the data of {one} by any other, however strange",
    NeighboringRelation.REPLACE_ONE_PERSON: (
        "Replace all data of {one}, however many records, by those of any other or by none, however strange"
    ),
    NeighboringRelation.ADD_OR_REMOVE_ONE: "Take away the data of {one}, or add any other, however strange",
    NeighboringRelation.ROW_MOVES_BY_ONE: "Move {one} by a distance of at most 1",
}
OF_TWO_CLASSES = ("auc", "recall", "precision", "specificity", "f1", "calibration_error")
HEADLINES = (  # of a report
    *OF_TWO_CLASSES,
    *METRICS_OF_CLASSES[:-1],
    *("mae", "median_absolute_error", "bias", "rmse", "r2_public_baseline"),  # of a regression
)
EXACT = "That the score is exact: it carries noise, and may lie outside its range."
PUBLIC = "Anything about the training set, the search space or the study itself: they are taken to be public."
PUBLIC_IN_PRIVATE_TRAINING = (
    "Anything about the search space, the study itself, and what it states of its data (header, number of records, "
    "labels, bounds): they are taken to be public."
)
ALWAYS = (
    "That nobody learns what holds for the whole population: a study exists to find that out.",
    "Anything about other releases: each adds its own ε, and the dataset's budget keeps the sum.",
    "That the noise was drawn as stated: for that the curator's ledger is the record.",
)


def page(release: Release, pictures: Iterable[Path]) -> str:
    """The certificate's HTML. Everything in it is escaped; it loads nothing."""
    document = json.dumps(release.to_json(), indent=2, ensure_ascii=False, allow_nan=False)
    shown = "".join(
        f'<p><img alt="{escape(path.stem)}" src="data:image/png;base64,'
        f'{base64.b64encode(path.read_bytes()).decode()}"></p>'
        for path in pictures
    )
    return PAGE.substitute(
        title=escape(f"{release.study}, edition {release.edition}"),
        study=escape(release.study),
        sub=escape(
            f"edition {release.edition} · dataset {release.dataset} · {release.method} · "
            f"released {release.released_at} · release {release.release_id}"
        ),
        value="".join(_figure(name, text) for name, text in _values(release)),
        guarantee=escape(release.guarantee.in_words()),
        meaning=escape(_meaning(release)),
        report=f"{shown}{tables(release.value)}" if is_report(release) else "",
        rests=_items(_rests(release)),
        limits=_items(_limits(release)),
        unit=("persons" if "n_persons" in release.facts else "records") if is_report(release) else "score",
        noise=_noise(release),
        pictures="" if is_report(release) else f"<h2>Pictures</h2>{shown}",
        document=escape(document),
    )


def _values(release: Release) -> Iterable[tuple[str, str]]:
    for name, item in release.value.get("hyperparameters", {}).items():
        yield name, _number(item)
    metric = metric_shown(release)
    if metric is not None:
        less = "" if metric.greater_is_better else " (less is better)"
        yield f"{metric.name.replace('_', ' ')}{less}", _number(metric.value)
        if metric.interval is not None:
            yield "90% interval", "{:.3f} … {:.3f}".format(*metric.interval)
        if metric.baseline is not None:
            yield "the same for every record", _number(metric.baseline)
    for name in HEADLINES if is_report(release) else ():
        value = release.value["metrics"].get(name, {}).get("value")
        if value is not None and (name in OF_TWO_CLASSES or "roc" not in release.value):
            yield name.replace("_", " "), f"{value:.4f}"


def _meaning(release: Release) -> str:
    guarantee = release.guarantee
    if guarantee.epsilon == math.inf:
        return "Treat every number here as the raw one."
    but = f", but for a probability of {guarantee.delta:g}" if guarantee.delta > 0.0 else ""
    factor = math.exp(min(guarantee.epsilon, 700.0))
    change = CHANGE[guarantee.relation].format(one=anyone(guarantee.unit))
    return MEANING.format(change=change, epsilon=guarantee.epsilon, factor=factor, but=but)


def _limits(release: Release) -> Iterable[str]:
    yield EXACT
    private = release.guarantee.unit is PrivacyUnit.TRAINING_RECORD
    yield PUBLIC_IN_PRIVATE_TRAINING if private else PUBLIC
    if "optimism" in release.facts:
        yield f"That its figures hold for new records: {release.facts['optimism']}."
    yield from ALWAYS


def _rests(release: Release) -> Iterable[str]:
    guarantee = release.guarantee
    yield f"Evidence, {guarantee.evidence.standing.value}: {guarantee.evidence.note}."
    for name in guarantee.assumptions:
        known = CALLER_ASSUMPTIONS.get(name)
        yield f"Assumption {name}, taken on by the study's author: {known.statement if known else ''}"
    if "score_bound" in release.facts:
        yield f"The score is {release.facts['score_bound']}."
    if not guarantee.assumptions:
        yield "No assumption about the data: the guarantee is unconditional."
    earlier = release.facts.get(LEARNED_FROM)
    if earlier:
        names = ", ".join(item["edition"] for item in earlier)
        yield (
            f"Its search began with what earlier editions released ({names}): "
            "public numbers, paid for then. Whoever is in several editions pays for each."
        )
    k = release.facts.get("max_records_per_person")
    if "n_persons" in release.facts:
        divided = "The table sums to" if is_report(release) else "The score divides by"
        yield (
            f"Each person, as column {guarantee.person!r} tells them apart, counts once, by the mean of all that "
            f"person's records; what names nobody counts nothing. {divided} "
            f"{release.facts['n_persons']} persons, on the word of the data's owner; how many persons and records "
            "there are is private."
        )
    if k is not None:
        yield _records_of_one(guarantee, f"{k} record{'s' if k != 1 else ''}")


def _records_of_one(guarantee: PrivacyGuarantee, at_most: str) -> str:
    """What k is: enforced where a column names the persons, else the word of whoever owns the data."""
    if guarantee.unit is PrivacyUnit.PERSON:
        return (
            f"Of each person, as column {guarantee.person!r} tells them apart, at most {at_most} count: what is "
            "beyond that, or names nobody, keeps its place and scores a constant."
        )
    both = guarantee.unit is PrivacyUnit.TRAINING_RECORD
    whole = "of the training and validation sets together" if both else "of the validation set"
    return (
        f"Whoever owns at most {at_most} {whole} is protected as stated; that nobody owns more is the word of the "
        "data's owner, which nothing checks."
    )


def _noise(release: Release) -> str:
    groups: dict[tuple[str, ...], int] = {}
    for spend in release.spends:
        epsilon = "–" if spend.epsilon_units is None else f"{spend.epsilon:.4g}"
        key = (spend.mechanism, f"{spend.noise_scale:.4g}", epsilon, f"{spend.rho:.4g}")
        groups[key] = groups.get(key, 0) + 1
    return "".join(
        f"<tr><td>{count}</td>{''.join(f'<td>{escape(cell)}</td>' for cell in key)}</tr>"
        for key, count in groups.items()
    )


def _figure(name: str, text: str) -> str:
    return f'<div>{escape(name)}<b data-value="{escape(name)}">{escape(text)}</b></div>'


def _items(lines: Iterable[str]) -> str:
    return "".join(f"<li>{escape(line)}</li>" for line in lines)


def _number(item: Any) -> str:
    return f"{item:.6g}" if isinstance(item, float) else str(item)
