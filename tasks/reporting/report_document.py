"""What the document of a report adds to a release's: tables, ROC curve, thresholds; repairs and pooled reports.

Also the verdict that a report or a score allows, and the number to quote.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpbo.tasks.reporting.document import (
    NO_NUMBER,
    Document,
    Fact,
    Figure,
    Table,
    end,
    interval,
    number,
    score,
    share,
)
from dpbo_core.privacy.release import ELSEWHERE, NO_SCORE, PUBLIC_SET, Release, displayed_metric
from dpbo_core.report import ACCURACY, COMPARED, FOUR_COUNTS, THRESHOLD_METRICS

if TYPE_CHECKING:
    from dpbo_core.report.repair import Repair

FIGURE_TITLES = {  # by which people know them; other figures go by their names
    "auc": "AUC",
    "f1": "F1",
    "macro_f1": "macro F1",
    "cohen_kappa": "Cohen's kappa",
    "mae": "mean absolute error",
    "rmse": "root mean squared error",
    "r2_public_baseline": "R², public baseline",
    "absolute_error_q90": "absolute error, 90%",
    "error_q05": "error, 5%",
    "error_q25": "error, 25%",
    "error_q50": "error, 50%",
    "error_q75": "error, 75%",
    "error_q95": "error, 95%",
}
HEADLINE_FIGURES = ("auc", "average_precision", *THRESHOLD_METRICS, "calibration_error")  # of a first screen
OTHER_FIGURES = ("flagged_share",)
LISTENED_RATES = (0.01, 0.05, 0.1, 0.2, 0.5)  # of false positives, where the ROC curve is put in words
N_CLASSES_ON_SCREEN = 10  # a matrix of more is in --json and on the page
NOISE, SAMPLING = "noise, 90%", "and sampling, 90%"
READING_NOTE = (
    "noise: it contains the figure of these very {counted} in 90% of cases; and sampling: it contains the figure "
    "of all such {counted} in 90% of cases, if these were drawn independently"
)
BETTER_TEXT = "better than always giving the same answer"
NO_BETTER_TEXT = "no better than always giving the same answer"
UNSURE_TEXT = "cannot tell whether it is better than always giving the same answer"
CONSTANT_FIGURES = {  # figures of a report without the study's score, and what one answer to all has of each
    "auc": ("AUC", 0.5, ""),
    "cohen_kappa": ("Cohen's kappa", 0.0, ""),
    "r2_public_baseline": ("R²", 0.0, f" on {PUBLIC_SET}{ELSEWHERE}"),
}
EVALUATION, PRIVATE_SCORE = "evaluation", "private score"
LOSSES = ("mae", "rmse")  # figures of which less is better
PERSON_WEIGHTS = (
    "each of {n:,} counts once, whatever number of records: of c records each weighs 1/c; who is not there counts "
    "as what cannot be read"
)
Figures = Mapping[str, Any]
Row = tuple[str, ...]


def is_report(release: Release) -> bool:
    """Return whether a release is an evaluation's: a report, or a comparison with a champion."""
    return "metrics" in release.value or COMPARED in release.value


def report_tables(value: Figures) -> Iterator[Table]:
    """The tables of a report, each with the shorter one that a screen shows; none if `value` is no report's."""
    if not isinstance(value.get("metrics"), dict):
        return
    figures = tuple((title(name), *_cells(cell)) for name, cell in value["metrics"].items())
    first = [name for name in HEADLINE_FIGURES if name in value["metrics"] and name not in OTHER_FIGURES]
    of_a_screen = tuple((title(name), *_cells(value["metrics"][name])) for name in first)
    header = ("figure", "value", NOISE, SAMPLING)
    short = Table(header, of_a_screen, strong=1) if "roc" in value else Table(header, figures, strong=1)
    yield Table(header, figures, title="The figures", strong=1, short=short)
    if "classes" in value:
        yield from _of_classes(value)
    if value.get("groups"):
        yield _of_groups(value["groups"], is_binary="roc" in value)
    if "roc" in value and "table" in value:
        yield _thresholds(value["confusion"])
    if value.get("calibration"):
        yield _reliability(value["calibration"])
    if "errors" in value:
        yield _errors(value["errors"])


def _of_classes(value: Figures) -> Iterator[Table]:
    figures = ("recall", "precision", "f1", "records_share")
    rows = ((cell["class"], title(name), *_cells(cell[name])) for cell in value["classes"] for name in figures)
    short_header = ("class", "of all", "recall", NOISE, "precision", NOISE)
    short_rows = (
        (cell["class"], _value(cell["records_share"]), *_cells(cell["recall"])[:2], *_cells(cell["precision"])[:2])
        for cell in value["classes"]
    )
    short = Table(short_header, tuple(short_rows))
    header = ("class", "figure", "value", NOISE, SAMPLING)
    yield Table(header, tuple(rows), title="Class by class", left=2, strong=2, short=short)
    names, cells = [cell["class"] for cell in value["classes"]], iter(value["confusion"])
    yield Table(
        ("", *names),
        tuple((name, *(f"{next(cells)['records']['value']:.0f}" for _ in names)) for name in names),
        title="Records, by true class (rows) and predicted class",
        needs_a_page=len(names) > N_CLASSES_ON_SCREEN,
    )


def _of_groups(groups: Figures, *, is_binary: bool) -> Table:
    figure = "recall" if is_binary else next(iter(next(iter(groups.values()))["gaps"]))
    rows = (
        (name, title(gap), _value(cell[gap]), *_cells(cell["gaps"][gap]))
        for name, cell in groups.items()
        for gap in cell["gaps"]
    )
    short_rows = (
        (name, _value(cell["records_share"]), _value(cell[figure]), *_cells(cell["gaps"][figure]))
        for name, cell in groups.items()
    )
    last = ("from the others", NOISE, SAMPLING) if is_binary else ("from others", NOISE, "and sampling")
    short_header = ("group", "of all", title(figure).removeprefix("mean "), *last)
    header = ("group", "figure", "value", "from the others", NOISE, SAMPLING)
    short = Table(short_header, tuple(short_rows), strong=3)
    return Table(header, tuple(rows), title="Groups", left=2, strong=3, short=short)


def _thresholds(confusion: Sequence[Figures]) -> Table:
    rows = (
        (
            number(row["threshold"]) + (" (the model's own)" if row["own"] else ""),
            *(f"{row[name]:.0f}" for name in FOUR_COUNTS),
            *(score(row[name]["value"]) for name in THRESHOLD_METRICS),
        )
        for row in confusion
    )
    header = ("above", "TP", "FP", "FN", "TN", *map(title, THRESHOLD_METRICS))
    return Table(header, tuple(rows), title="At every threshold", needs_a_page=True)


def _reliability(bins: Sequence[Figures]) -> Table:
    rows = (
        (_bin(row), score(row["predicted"]), *_cells(row["observed"]), number(row["records"]["value"]))
        for row in bins
    )
    header = ("decision value", "predicted", "observed", NOISE, SAMPLING, "records")
    return Table(header, tuple(rows), title="Reliability", strong=2, needs_a_page=True)


def _errors(errors: Sequence[Figures]) -> Table:
    rows = ((_bin(row), number(row["public_mean"]), *_cells(row["records"])) for row in errors)
    header = ("error", "public mean", "records", NOISE, SAMPLING)
    return Table(header, tuple(rows), title="Errors", strong=2, needs_a_page=True)


def _bin(row: Figures) -> str:
    low, high = (row[name] for name in ("above", "up_to"))
    return f"{'−∞' if low is None else number(low)} to {'∞' if high is None else number(high)}"


def report_figures(value: Figures) -> Iterator[Figure]:
    """Yield the ROC curve of a report of two classes."""
    if "roc" not in value or NO_SCORE in value:
        return
    points = tuple((float(p["fpr"]), float(p["tpr"])) for p in value["roc"] if None not in (p["fpr"], p["tpr"]))
    curve = Figure("ROC", points, "", ("false positive rate", "recall"))
    words = (f"recall {curve.height_at(x):.2f} at false positive rate {x:g}" for x in LISTENED_RATES)
    yield Figure(curve.name, points, ", ".join(words), curve.axes)


def report_facts(value: Figures, facts: Figures, best: Figures | None = None) -> Iterator[Fact]:
    """Yield lines of a report: own and `best` threshold, how to read it; none if `value` is no report's."""
    counted = "persons" if "n_persons" in facts else "records"
    if "binning" in value:
        binning = value["binning"]
        most = binning["mae_off_at_most"]
        off = "" if most is None else f"; wherever in its bin an error lies, the mean is off by {most:.3g} at most"
        clipped = number(binning["clipped_at"])
        yield Fact("errors", f"predicted less true, in {len(value['errors'])} bins, clipped at ±{clipped}{off}")
        yield Fact(
            "baseline",
            f"R² is against the public targets' mean; their variance is {number(binning['public_variance'])}: "
            "the errors say nothing of how far the sensitive targets are spread",
        )
    if "roc" in value and "table" in value:
        if value["table"]["positive_class"] is not None:
            yield Fact("positive", f"the class {value['table']['positive_class']}")
        yield Fact("threshold", _threshold(value, counted))
    if best is not None:
        yield _best_threshold(best, counted)
    if "metrics" in value:
        if "n_persons" in facts:
            yield Fact("persons", PERSON_WEIGHTS.format(n=facts["n_persons"]))
        yield Fact("intervals", READING_NOTE.format(counted=counted))
    if "optimism" in facts:
        yield Fact("optimism", facts["optimism"])


def _threshold(value: Figures, counted: str) -> str:
    own = next(row for row in value["confusion"] if row["own"])
    shares = (
        (f"of the {counted} lie above it", own["flagged_share"]),
        ("are positive", value["metrics"]["positive_share"]),
        ("cannot be read", value["metrics"]["unread_share"]),
    )
    words = "; ".join(f"{share(cell['value'])} {what}" for what, cell in shares if cell["value"] is not None)
    return f"{own['threshold']:g}, the model's own{': ' if words else ''}{words}"


def _best_threshold(best: Figures, counted: str) -> Fact:
    above = best["threshold"] is not None
    costs = f"costs {best['false_positive_cost']:g} (false positive) and {best['false_negative_cost']:g} (missed)"
    positive = "" if best["prevalence"] is None else f", {share(best['prevalence'])} positive"
    cost = best["expected_cost"]
    each = "" if cost is None else f": {number(cost)} a {counted.removesuffix('s')}"
    flag = f"flag above {number(best['threshold'])}" if above else f"flag {best['flag']}"
    return Fact("best", f"{each}, at {costs}{positive}", flag)


def repair_document(repair: "Repair") -> Document:
    """Return the document of a model's repair: its figures before and after, and which of them are optimistic."""
    document = repair.to_json()
    at = "" if repair.probability is None else f", a probability of {repair.probability:.3g}"
    fit = f"log-odds × {repair.slope:.3g} + {repair.intercept:.3g}; flag above {number(repair.threshold)}{at}"
    facts = (
        ("repair", "; ".join(repair.why)),
        ("fit", fit),
        *((name, document[name]) for name in ("optimism", "price")),
    )
    tables = () if repair.before == repair.after else tuple(_sides(repair.before, repair.after))
    return Document(tables=tables, facts=tuple(Fact(name, text) for name, text in facts))


def _sides(before: Figures, after: Figures) -> Iterator[Table]:
    sides = before["confusion"], after["confusion"]
    pairs = [(name, before["metrics"][name], after["metrics"][name]) for name in before["metrics"]]
    pairs += [(name, *(side[name] for side in sides)) for name in ("recall", "precision", "specificity")]
    rows = [(title(name), *map(_in_a_cell, cells)) for name, *cells in pairs]
    counts = [(title(name), *(_in_a_cell(side["counts"][name], 0) for side in sides)) for name in FOUR_COUNTS]
    yield Table(("repair", "before (noise, 90%)", "after (noise, 90%)"), (*rows, *counts))
    bins = tuple(
        (share(old["predicted"]), share(new["predicted"]), _in_a_cell(old["observed"]))
        for old, new in zip(before["calibration"], after["calibration"], strict=True)
    )
    if bins:
        yield Table(("predicted", "repaired", "observed"), bins, left=0)


def _in_a_cell(cell: Figures, digits: int = 3) -> str:
    if cell["value"] is None or cell["noise_interval"] is None:
        return NO_NUMBER
    low, high = cell["noise_interval"]
    return f"{cell['value']:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def pooled_document(pooled: Figures) -> Document:
    """Return the document of one model's reports from several sites, summed; `pooled` is its JSON object."""
    value, test, guarantee = pooled["value"], pooled["disagreement"], pooled["guarantee"]
    names = [name for name, figure in value["metrics"].items() if figure["noise_interval"] is not None][:3]
    rows = (
        (site["dataset"], site["release_id"], *(score(site["metrics"][name]["value"]) for name in names))
        for site in pooled["sites"]
    )
    odds = (
        f"p = {test['p_value']:.3g}, where noise and sampling alone say so in {test['false_alarms']:.0%} of cases"
    )
    together = Fact("sites", f": {odds}", "disagree" if test["disagree"] else "cannot be told apart")
    scale = f"scale {value['table']['noise_scale']:.3g} in each cell, the root of the sites' squares"
    each = (
        f"each site's own: ε = {guarantee['epsilon']:g} at most for who is at one site, "
        f"{guarantee['epsilon_at_every_site']:g} for who is at every one"
    )
    return Document(
        title=f"{len(pooled['sites'])} sites",
        subtitle="nothing was drawn or spent",
        tables=(*report_tables(value), Table(("site", "release", *map(title, names)), tuple(rows), left=2)),
        figures=tuple(report_figures(value)),
        facts=(
            *report_facts(value, {name: n for name, n in value["table"].items() if name == "n_persons"}),
            together,
            Fact("noise", scale),
            Fact("guarantee", each),
        ),
    )


def title(name: str) -> str:
    """Return the figure's name for people."""
    return FIGURE_TITLES.get(name, name.replace("_", " "))


def _cells(cell: Figures) -> tuple[str, str, str]:
    """A figure's value, noise interval and sampling interval as cells; three dashes where noise swamps it."""
    if cell["noise_interval"] is None:  # then a value is noise, and the sampling of it too
        return NO_NUMBER, NO_NUMBER, NO_NUMBER
    return score(cell["value"]), interval(cell["noise_interval"]), interval(cell["sampling_interval"])


def _value(cell: Figures) -> str:
    return _cells(cell)[0]


def figures(release: Release) -> list[tuple[str, Any]]:
    """Return the name and cell of each figure of a report that has a value; of a comparison its difference."""
    cells = release.value.get("metrics", {})
    if (compared := release.value.get(COMPARED)) is not None:
        cells = {COMPARED: {**compared, "sampling_interval": compared["interval"]}}
    return [(name, figure) for name, figure in cells.items() if figure["value"] is not None]


@dataclass(frozen=True)
class Quotable:
    """A released number with its interval."""

    name: str  # of the figure, for people
    value: float  # as it is shown, in its range
    interval: tuple[float, float] | None  # 90%
    covers: str  # what the interval covers: noise alone, or noise and sampling
    source: str  # an evaluation or a private score
    edition: str
    date: str  # of its release, UTC
    greater_is_better: bool = True

    @property
    def quoted(self) -> str:
        """The value, or at least what where it is at the end of its interval, beyond which no score lies."""
        at_end = self.greater_is_better and self.interval is not None and self.value >= self.interval[1]
        return f"{end(self.interval[0])} or more" if self.interval and at_end else score(self.value)

    @property
    def dated(self) -> str:
        """Its date in brackets, where its edition is not named by it."""
        return f" ({self.date})" * (self.date != self.edition)


def quotable(release: Release) -> Quotable | None:
    """Return the number of a release to quote: the figure a report's verdict rests on, else the score; or None."""
    edition, date = release.edition, release.released_at[:10]
    if cells := dict(figures(release)):
        own = (ACCURACY,) if release.facts.get("score") == ACCURACY else ()  # as the verdict has it
        preferred = (*own, *CONSTANT_FIGURES, ACCURACY, *LOSSES, *cells)
        name = next(name for name in preferred if name in cells)
        ends, covers = cells[name]["sampling_interval"], "noise and sampling"
        if ends is None:
            ends, covers = cells[name]["noise_interval"], "noise alone"
        if ends is None:  # the value is noise
            return None
        heading, value = "difference from the champion" if name == COMPARED else title(name), cells[name]["value"]
        return Quotable(heading, value, (ends[0], ends[1]), covers, EVALUATION, edition, date, name not in LOSSES)
    if is_report(release):
        return None
    metric = displayed_metric(release)
    if metric is None:
        return None
    heading, better = metric.name.replace("_", " "), metric.greater_is_better
    return Quotable(heading, metric.value, metric.interval, "noise alone", PRIVATE_SCORE, edition, date, better)


def beside_constant(interval: tuple[float, float], baseline: float, *, greater_is_better: bool) -> str:
    """Return words on whether a metric beats the best constant answer's, by its 90% interval of the noise alone."""
    low, high = interval
    worst, best = (low - baseline, high - baseline) if greater_is_better else (baseline - high, baseline - low)
    if worst > 0:
        return BETTER_TEXT
    return NO_BETTER_TEXT if best <= 0 else UNSURE_TEXT


def verdict(release: Release) -> tuple[str, str]:
    """Return whether a model beats the best constant answer, and the numbers behind it; two "" where unknown.

    One figure decides: the study's score, on the records themselves where a report counts them and otherwise beside
    the public records; of a report that does not state that score AUC, kappa or R².
    """
    if COMPARED in release.value:
        return release.value[COMPARED]["verdict"], ""
    if "metrics" in release.value:
        return _verdict_of_report(release)
    metric = displayed_metric(release)
    if metric is None or metric.interval is None or metric.baseline is None:
        return "", ""
    word = beside_constant(metric.interval, metric.baseline, greater_is_better=metric.greater_is_better)
    return word, f" ({score(metric.baseline)} on {metric.baseline_set})"


def _verdict_of_report(release: Release) -> tuple[str, str]:
    metrics = release.value["metrics"]
    if release.facts.get("score") == ACCURACY:
        return _by_accuracy(release.value)
    for name, (title, constant, where) in CONSTANT_FIGURES.items():
        if name in metrics:
            ends = metrics[name]["noise_interval"]
            if ends is None:
                return UNSURE_TEXT, ""
            word = beside_constant((ends[0], ends[1]), constant, greater_is_better=True)
            return word, f": {title} {interval(ends)}, always the same answer {constant:g}{where}"
    return "", ""


def _by_accuracy(report: Mapping[str, Any]) -> tuple[str, str]:
    """Return the verdict by a report's accuracy beside its most frequent class's share, and the numbers behind it.

    Both are sums over shared cells, so treating their noises as independent gives an interval that is not too
    narrow.
    """
    metrics, classes = report["metrics"], [one["records_share"] for one in report.get("classes", ())]
    accuracy, *shares = cells = [metrics[ACCURACY], *(classes or [metrics["positive_share"]])]
    if any(cell["noise_interval"] is None for cell in cells):
        return UNSURE_TEXT, ""
    values, ends = [cell["value"] for cell in shares], [cell["noise_interval"] for cell in cells]
    constant = max(*values, 1.0 - sum(values))  # of two classes the share of one is reported
    noise, *others = ((high - low) / 2.0 for low, high in ends)
    gain, noise = accuracy["value"] - constant, math.hypot(noise, max(others))
    word = beside_constant((gain - noise, gain + noise), 0.0, greater_is_better=True)
    beside = f"accuracy {end(accuracy['value'])}, always the same answer {end(constant)} on the same records"
    return word, f": {beside}, a difference of {interval((gain - noise, gain + noise))}"
