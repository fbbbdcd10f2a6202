"""A report's figures as tables of its page: all of them with both intervals, thresholds, reliability, groups."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from dpbo_core.evaluation import AT_THRESHOLD

Told = Mapping[str, Any]
READING = (
    "<p>Noise: what the noise, whose law is known, leaves open of the figure of these very records. Sampling: what "
    "so many records leave open of all such records, as if they were independent draws. Nine times in ten each.</p>"
)


def tables(value: Told) -> str:
    """HTML; everything in it is escaped."""
    parts = [_section("The figures", READING + _metrics(value["metrics"]))]
    if value["groups"]:
        parts.append(_section("Groups", _groups(value["groups"])))
    if "roc" not in value:
        return "".join(parts) + (_of_classes(value) if "classes" in value else _of_errors(value))
    parts.append(_section("At every threshold", _thresholds(value["confusion"])))
    if value["calibration"]:
        parts.append(_section("Reliability", _calibration(value["calibration"])))
    return "".join(parts)


def _of_classes(value: Told) -> str:
    names, cells = [told["class"] for told in value["classes"]], iter(value["confusion"])
    matrix = ((name, *(f"{next(cells)['records']['value']:.0f}" for _ in names)) for name in names)
    figures = ("recall", "precision", "f1", "records_share")
    rows = (
        (told["class"], figure.replace("_", " "), *_figure(told[figure]))
        for told in value["classes"]
        for figure in figures
    )
    one_by_one = _table(("class", "figure", "value", "noise, 90%", "sampling, 90%"), rows)
    records = _section("Records, by true class (rows) and predicted class", _table(("", *names), matrix))
    return records + _section("Class by class", one_by_one)


def _of_errors(value: Told) -> str:
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
    header = ("error", "public mean", "records", "noise, 90%", "sampling, 90%")
    return _section("Errors", read + _table(header, rows))


def _metrics(metrics: Told) -> str:
    rows = ((name.replace("_", " "), *_figure(told)) for name, told in metrics.items())
    return _table(("figure", "value", "noise, 90%", "sampling, 90%"), rows)


def _groups(groups: Told) -> str:
    rows = (
        (name, figure.replace("_", " "), _figure(told[figure])[0], *_figure(told["gaps"][figure]))
        for name, told in groups.items()
        for figure in told["gaps"]
    )
    header = ("group", "figure", "value", "less that of all others", "noise, 90%", "sampling, 90%")
    return _table(header, rows)


def _thresholds(confusion: Sequence[Told]) -> str:
    counts = ("true_positives", "false_positives", "false_negatives", "true_negatives")
    header = ("above", "TP", "FP", "FN", "TN", *(name.replace("_", " ") for name in AT_THRESHOLD))
    rows = (
        (
            _number(row["threshold"]) + (" (the model's own)" if row["own"] else ""),
            *(f"{row[name]:.0f}" for name in counts),
            *(_number(row[name]["value"]) for name in AT_THRESHOLD),
        )
        for row in confusion
    )
    return _table(header, rows)


def _calibration(bins: Sequence[Told]) -> str:
    rows = (
        (
            f"{_end(row['above'], '−∞')} … {_end(row['up_to'], '∞')}",
            _number(row["predicted"]),
            *_figure(row["observed"]),
            _number(row["records"]["value"]),
        )
        for row in bins
    )
    return _table(("decision value", "predicted", "observed", "noise, 90%", "sampling, 90%", "records"), rows)


def _figure(told: Told) -> tuple[str, str, str]:
    if told["noise_interval"] is None:  # then a value is noise, and the sampling of it too
        return "–", "–", "–"
    return _number(told["value"]), _interval(told["noise_interval"]), _interval(told["sampling_interval"])


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def _interval(ends: Sequence[float] | None) -> str:
    return "–" if ends is None else f"{ends[0]:.3f} … {ends[1]:.3f}"


def _end(value: float | None, without: str) -> str:
    return without if value is None else f"{value:.4g}"


def _section(title: str, body: str) -> str:
    return f"<h2>{escape(title)}</h2>{body}"


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div style="overflow-x:auto"><table><tr>{head}</tr>{body}</table></div>'
