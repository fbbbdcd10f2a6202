"""A report of several classes or of a regression's errors: figures, classes one by one, the matrix, groups."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dpbo.flows.cli.screens.terminal import Screen, named

TITLES = {
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
SHOWN_CLASSES = 10  # a matrix of more is in --json and on the page
WIDEST = 5  # characters of a class's name at the head of a column


def title(name: str) -> str:
    """What people know a figure by."""
    return TITLES.get(name, name.replace("_", " "))


def print_kind(screen: Screen, value: Mapping[str, Any]) -> None:
    """Every figure with both intervals, then the classes, then each group's distance from all other records."""
    rows = [(title(name), *_figure(told)) for name, told in value["metrics"].items()]
    screen.table(("figure", "value", "noise, 90%", "sampling, 90%"), rows, left=1)
    if "classes" in value:
        screen.say()
        header = ("class", "of all", "recall", "noise, 90%", "precision", "noise, 90%")
        screen.table(header, [_class(told) for told in value["classes"]], left=1)
    if value["groups"]:
        screen.say()
        figure = next(iter(next(iter(value["groups"].values()))["gaps"]))
        gaps = [
            (named(name), number(told["records_share"]), number(told[figure]), *_figure(told["gaps"][figure]))
            for name, told in value["groups"].items()
        ]
        header = ("group", "of all", title(figure).removeprefix("mean "), "from others", "noise, 90%", "sampling")
        screen.table(header, gaps, left=1)
    screen.say()


def kind_facts(value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The matrix where it is small, or what the bins of the errors can hide."""
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


def number(told: Mapping[str, Any]) -> str:
    """A value; none where the noise leaves nothing of it."""
    return "–" if told["value"] is None or told["noise_interval"] is None else _short(told["value"])


def _class(told: Mapping[str, Any]) -> tuple[str, ...]:
    ends = [_interval(told[figure]["noise_interval"]) for figure in ("recall", "precision")]
    values = [number(told[figure]) for figure in ("records_share", "recall", "precision")]
    return named(told["class"]), values[0], values[1], ends[0], values[2], ends[1]


def _matrix(value: Mapping[str, Any]) -> str:
    names = [told["class"] for told in value["classes"]]
    C = len(names)
    if C > SHOWN_CLASSES:
        return f"{C} × {C} cells, on the page and in --json"
    cells = [f"{row['records']['value']:.0f}" for row in value["confusion"]]
    heads = [name[:WIDEST] for name in names]
    width = max(map(len, (*cells, *heads)))
    lines = ["rows: the true class, columns: the predicted one; records"]
    for name, row in [("", heads), *((names[i][:WIDEST], cells[i * C : (i + 1) * C]) for i in range(C))]:
        lines.append(named(f"{name:<{WIDEST}} " + " ".join(f"{cell:>{width}}" for cell in row)))
    return "\n".join(lines)


def _figure(told: Mapping[str, Any]) -> tuple[str, str, str]:
    if told["noise_interval"] is None or told["value"] is None:
        return "–", "–", "–"
    noise, sampling = (_interval(told[name]) for name in ("noise_interval", "sampling_interval"))
    return f"[bold]{_short(told['value'])}[/]", noise, sampling


def _interval(ends: Sequence[float] | None) -> str:
    return "–" if ends is None else f"{_short(ends[0])} … {_short(ends[1])}"


def _short(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 10.0 else f"{value:.4g}"
