"""A report of an evaluation: its figures with both intervals, ROC curve, classes, groups, how to read them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dpbo.flows.cli.terminal import Screen, named
from dpbo_core.privacy.release import NO_SCORE
from dpbo_core.report import AT_THRESHOLD

TITLES = {  # by which people know them; other figures go by their names
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
HEADLINES = ("auc", "average_precision", *AT_THRESHOLD, "calibration_error")  # of a first screen
ELSEWHERE = ("flagged_share",)
WIDTH, HEIGHT = 40, 6  # of the ROC curve, in characters
BESIDE = 15  # columns to its left
STEPS = " ▁▂▃▄▅▆▇█"
RATES = (0.01, 0.05, 0.1, 0.2, 0.5)  # of false positives, where it is listened to
READING = (
    "noise: what the noise, whose law is known, leaves open of the figure of these very {counted}; and sampling: "
    "what noise and so many {counted}, if drawn independently, leave open together of all such {counted}; nine "
    "times in ten each"
)
ONCE = (
    "each of {n:,} counts once, whatever number of records: of c records each weighs 1/c; who is not there counts "
    "as what cannot be read"
)
MOST_CLASSES = 10  # a matrix of more is in --json and on the page
WIDEST = 5  # characters of a class's name at the head of a column


def print_figures(screen: Screen, value: Mapping[str, Any]) -> None:
    """Print a report's figures as tables, and by group their distance from the rest; nothing if it is no report."""
    if not isinstance(value.get("metrics"), dict):
        return
    if "roc" in value:
        names = [name for name in HEADLINES if name in value["metrics"] and name not in ELSEWHERE]
        _print_parts(screen, value, names, "recall", _exact)
    else:
        figure = next(iter(next(iter(value["groups"].values()))["gaps"])) if value["groups"] else ""
        _print_parts(screen, value, list(value["metrics"]), figure, _short)
    screen.say()


def _print_parts(
    screen: Screen, value: Mapping[str, Any], names: Sequence[str], figure: str, digits: Callable[[float], str]
) -> None:
    """Print the named figures, then the classes, then each group by one figure; `digits` writes a value."""
    rows = [(_title(name), *_figure(value["metrics"][name], digits)) for name in names]
    screen.table(("figure", "value", "noise, 90%", "and sampling, 90%"), rows, left=1)
    if "classes" in value:
        screen.say()
        header = ("class", "of all", "recall", "noise, 90%", "precision", "noise, 90%")
        screen.table(header, [_class(cell) for cell in value["classes"]], left=1)
    groups = value.get("groups") or {}
    if groups:
        screen.say()
        gaps = [
            (
                named(name),
                _number(group["records_share"], digits),
                _number(group[figure], digits),
                *_figure(group["gaps"][figure], digits),
            )
            for name, group in groups.items()
        ]
        if "roc" in value:
            header = ("group", "of all", "recall", "from the others", "noise, 90%", "and sampling, 90%")
        else:
            of = _title(figure).removeprefix("mean ")
            header = ("group", "of all", of, "from others", "noise, 90%", "and sampling")
        screen.table(header, gaps, left=1)


def report_facts(
    value: Mapping[str, Any], facts: Mapping[str, Any], screen: Screen, best: Mapping[str, Any] | None = None
) -> Iterator[tuple[str, str]]:
    """Rows of a report: ROC curve, own and `best` threshold, how to read it; none if `value` is no report's."""
    if "roc" in value and NO_SCORE not in value:
        yield "ROC", _roc(screen, value["roc"])
    if "metrics" in value and "roc" not in value:
        yield from _kind_facts(value)
    if "roc" in value and "table" in value:
        if value["table"]["positive_class"] is not None:
            yield "positive", f"the class {named(value['table']['positive_class'])}"
        yield "threshold", _threshold(value, _counted_unit(facts))
    if best is not None:
        yield "best", _best_threshold(best, _counted_unit(facts))
    if "metrics" in value:
        if "n_persons" in facts:
            yield "persons", ONCE.format(n=facts["n_persons"])
        yield "intervals", READING.format(counted=_counted_unit(facts))
    if "optimism" in facts:
        yield "optimism", named(facts["optimism"])


def _kind_facts(value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Rows for a report of several classes (confusion matrix) or of errors (what bins hide, what R² is against)."""
    if "classes" in value:
        yield "confusion", _matrix(value)
    if "binning" in value:
        binning = value["binning"]
        most = binning["mae_off_at_most"]
        off = "" if most is None else f"; wherever in its bin an error lies, the mean is off by {most:.3g} at most"
        yield "errors", f"in {len(value['errors'])} bins, clipped at ±{binning['clipped_at']:.4g}{off}"
        yield (
            "baseline",
            (
                f"R² is against the public targets' mean; their variance is {binning['public_variance']:.4g}: "
                "the errors say nothing of how far the sensitive targets are spread"
            ),
        )


def _title(name: str) -> str:
    """The figure's name for people."""
    return TITLES.get(name, name.replace("_", " "))


def _figure(cell: Mapping[str, Any], digits: Callable[[float], str]) -> tuple[str, str, str]:
    """A figure's value, noise interval and sampling interval as cells; three dashes where noise swamps it."""
    if cell["noise_interval"] is None:  # then a value is noise, and the sampling of it too
        return "–", "–", "–"
    noise, sampling = (_interval(cell[name]) for name in ("noise_interval", "sampling_interval"))
    return f"[bold]{_number(cell, digits)}[/]", noise, sampling


def _number(cell: Mapping[str, Any], digits: Callable[[float], str]) -> str:
    """A figure's value as a cell; a dash where noise swamps it."""
    return "–" if cell["value"] is None or cell["noise_interval"] is None else digits(cell["value"])


def _exact(value: float) -> str:
    """A number to four decimals."""
    return f"{value:.4f}"


def _short(value: float) -> str:
    """A number to three decimals, or to four digits from 10 on."""
    return f"{value:.3f}" if abs(value) < 10.0 else f"{value:.4g}"


def _interval(ends: Sequence[float] | None) -> str:
    """An interval as a cell; a dash for None."""
    return "–" if ends is None else f"{_short(ends[0])} … {_short(ends[1])}"


def _class(cell: Mapping[str, Any]) -> tuple[str, ...]:
    """A class as a row of six cells: name, share, recall and precision, both followed by a noise interval."""
    ends = [_interval(cell[figure]["noise_interval"]) for figure in ("recall", "precision")]
    values = [_number(cell[figure], _short) for figure in ("records_share", "recall", "precision")]
    return named(cell["class"]), values[0], values[1], ends[0], values[2], ends[1]


def _matrix(value: Mapping[str, Any]) -> str:
    """The confusion matrix as text; of more than ten classes only its size."""
    names = [cell["class"] for cell in value["classes"]]
    C = len(names)
    if C > MOST_CLASSES:
        return f"{C} × {C} cells, on the page and in --json"
    cells = [f"{row['records']['value']:.0f}" for row in value["confusion"]]
    heads = [name[:WIDEST] for name in names]
    width = max(map(len, (*cells, *heads)))
    lines = ["rows: the true class, columns: the predicted one; records"]
    for name, row in [("", heads), *((names[i][:WIDEST], cells[i * C : (i + 1) * C]) for i in range(C))]:
        lines.append(named(f"{name:<{WIDEST}} " + " ".join(f"{cell:>{width}}" for cell in row)))
    return "\n".join(lines)


def _roc(screen: Screen, points: list[dict[str, Any]]) -> str:
    """The ROC curve drawn in characters, filled below; on a plain screen the recall at a few rates in words."""
    if screen.plain:
        return ", ".join(f"recall {_recall_at(points, rate):.2f} at false positive rate {rate:g}" for rate in RATES)
    width = min(WIDTH, screen.width - BESIDE)
    heights = [_recall_at(points, (column + 0.5) / width) * HEIGHT for column in range(width)]
    lines = []
    for row in reversed(range(HEIGHT)):
        filled = "".join(STEPS[round(8 * min(1.0, max(0.0, height - row)))] for height in heights)
        label = {HEIGHT - 1: "1", 0: "0"}.get(row, " ")
        lines.append(f"[dim]{label}│[/][cyan]{filled.rstrip()}[/]")
    axis = f"[dim] └{'─' * width}\n  0{'false positive rate'.center(width - 2)}1[/]"
    return "\n".join(["[dim]recall[/]", *lines, axis])


def _recall_at(points: list[dict[str, Any]], rate: float) -> float:
    """The recall at a false positive rate, between released points, which noise may have put out of order."""
    points_drawn = [(p["fpr"], p["tpr"]) for p in points if p["fpr"] is not None and p["tpr"] is not None]
    x0, y0 = 0.0, 0.0
    for fpr, tpr in points_drawn:
        x, y = max(float(fpr), x0), max(float(tpr), y0)
        if x >= rate:
            return y0 + (y - y0) * ((rate - x0) / (x - x0) if x > x0 else 1.0)
        x0, y0 = x, y
    return y0


def _counted_unit(facts: Mapping[str, Any]) -> str:
    """The unit that the report counts: persons or records."""
    return "persons" if "n_persons" in facts else "records"


def _threshold(value: Mapping[str, Any], counted: str) -> str:
    """The model's own threshold; the shares of `counted` (persons, records) above it, positive and unreadable."""
    own = next(row for row in value["confusion"] if row["own"])
    positive, unread = (value["metrics"][name] for name in ("positive_share", "unread_share"))
    flagged = own["flagged_share"]["value"]
    parts = [
        f"{own['threshold']:g}, the model's own"
        + (f": {flagged:.1%} of the {counted} lie above it" if flagged is not None else ""),
        f"{positive['value']:.1%} are positive" if positive["value"] is not None else "",
        f"{unread['value']:.1%} cannot be read" if unread["value"] is not None else "",
    ]
    return "; ".join(part for part in parts if part)


def _best_threshold(best: Mapping[str, Any], counted: str) -> str:
    """The best threshold for the stated costs and its expected cost for each person or record, in a sentence."""
    whom = "flag {}".format(
        f"above [bold]{best['threshold']:.4g}[/]" if best["threshold"] is not None else best["flag"]
    )
    costs = f"costs {best['false_positive_cost']:g} (false positive) and {best['false_negative_cost']:g} (missed)"
    share = "" if best["prevalence"] is None else f", {best['prevalence']:.1%} positive"
    cost = "" if best["expected_cost"] is None else f": {best['expected_cost']:.4g} a {counted.removesuffix('s')}"
    return f"{whom}{cost}, at {costs}{share}"
