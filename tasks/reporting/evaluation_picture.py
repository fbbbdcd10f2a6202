"""The picture of a report: ROC, precision and recall, reliability, figures with both intervals, gaps by group."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from dpbo.tasks.reporting.escaping import in_picture
from dpbo.tasks.reporting.kinds_picture import bar, gaps
from dpbo.tasks.reporting.kinds_picture import panels as kinds_panels
from dpbo.tasks.reporting.release_picture import CHOICE, INK, NOISE, plain, sheet
from dpbo_core.privacy.release import Release
from dpbo_core.queries.evaluation.binary import Binary
from dpbo_core.queries.evaluation.repair import OPTIMISTIC, PRICE, Repair

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

UNDRAWN = ("positive_share", "unread_share", "flagged_share", "lift")  # what says nothing good or bad by itself
GAPS = ("recall", "precision", "flagged_share")  # of a group, from all other records
Figures = Mapping[str, Any]
OWN_THRESHOLD: Figures = {"marker": "D", "color": CHOICE, "ms": 6}
POINT: Figures = {"marker": "o", "color": INK, "ms": 3}


def is_report(release: Release) -> bool:
    """Whether a release is an evaluation's."""
    return "metrics" in release.value


def draw_evaluation(release: Release) -> "Figure":
    """The figure of a report's panels."""
    value = release.value
    panels = _panels(value) if "roc" in value else kinds_panels(value)
    rows = (len(panels) + 1) // 2
    figure = sheet(4.1 * rows)
    grid = figure.add_gridspec(rows, 2)
    for place, panel in enumerate(panels):
        alone = place == len(panels) - 1 and place % 2 == 0
        axes = figure.add_subplot(grid[place // 2, :] if alone else grid[place // 2, place % 2])
        panel(axes, value)
        plain(axes)
    figure.suptitle(in_picture(f"{release.study} · edition {release.edition}"), color=INK, fontweight="bold")
    figure.supxlabel(
        in_picture(f"{release.guarantee.in_words()} Bars: 90% of the known noise; thin: sampling."),
        fontsize=8,
        color=NOISE,
    )
    return figure


def draw_repair(repair: Repair) -> "Figure":
    """The figure of a repair: the reliability diagram before and after, with the log-losses."""
    figure = sheet(4.1)
    for axes, title, side in zip(
        figure.subplots(1, 2), ("before", "after"), (repair.before, repair.after), strict=True
    ):
        _reliability(axes, side)
        shown = (
            (name, side["metrics"].get(name, {}).get("value")) for name in ("mean_log_loss", "calibration_error")
        )
        figures = ", ".join(f"{name.replace('_', ' ')} {value:.3f}" for name, value in shown if value is not None)
        axes.set_title(f"{title}: {figures}" if figures else title, fontsize=10)
        plain(axes)
    figure.supxlabel("\n".join(map(in_picture, (OPTIMISTIC, PRICE))), fontsize=6, color=NOISE)
    return figure


def _panels(value: Figures) -> "list[Callable[[Axes, Figures], None]]":
    """The panels of a report on two classes, in order."""
    panels: list[Callable[[Axes, Figures], None]] = [_roc, _precision_recall]
    panels += [_reliability] if value["calibration"] else []
    panels.append(_figures)
    return panels + ([_gaps] if value["groups"] else [])


def _roc(axes: "Axes", value: Figures) -> None:
    """Draw the ROC curve, and each threshold's point with its noise intervals."""
    _curve(axes, [(point["fpr"], point["tpr"]) for point in value["roc"]])
    for row in value["confusion"]:
        recall, specificity = row["recall"], row["specificity"]
        if recall["value"] is not None and specificity["value"] is not None:
            _cross(axes, 1.0 - specificity["value"], recall["value"], _turned(specificity), recall, _mark(row))
    axes.plot([0, 1], [0, 1], color=NOISE, lw=0.8, ls=":")
    auc = value["metrics"]["auc"]["value"]
    axes.set(xlabel="false positive rate", ylabel="recall (true positive rate)", **_unit())
    axes.set_title("ROC" if auc is None else f"ROC: AUC {auc:.3f}", fontsize=10)


def _precision_recall(axes: "Axes", value: Figures) -> None:
    """Draw precision against recall, threshold by threshold."""
    drawn = [row for row in value["confusion"] if None not in (row["recall"]["value"], row["precision"]["value"])]
    _curve(axes, [(row["recall"]["value"], row["precision"]["value"]) for row in drawn])
    for row in drawn:
        recall, precision = row["recall"], row["precision"]
        _cross(axes, recall["value"], precision["value"], recall, precision, _mark(row))
    share = value["metrics"]["positive_share"]["value"]
    if share is not None:
        axes.axhline(share, color=NOISE, lw=0.8, ls=":")
    axes.set(xlabel="recall", ylabel="precision", **_unit())
    axes.set_title("Precision and recall; dotted: share of positives", fontsize=10)


def _reliability(axes: "Axes", value: Figures) -> None:
    """Draw the observed share against the predicted probability, bin by bin."""
    bins = [row for row in value["calibration"] if None not in (row["predicted"], row["observed"]["value"])]
    axes.plot([0, 1], [0, 1], color=NOISE, lw=0.8, ls=":")
    for row in bins:
        _cross(axes, row["predicted"], row["observed"]["value"], None, row["observed"], POINT)
    error = value["metrics"].get("calibration_error", {}).get("value")
    axes.set(xlabel="predicted probability (public mean of the bin)", ylabel="observed share", **_unit())
    axes.set_title("Reliability" if error is None else f"Reliability: expected error {error:.3f}", fontsize=10)


def _figures(axes: "Axes", value: Figures) -> None:
    """Draw each figure with its noise and sampling intervals."""
    drawn = [name for name in Binary.metrics if name not in UNDRAWN]
    present = [name for name in drawn if value["metrics"].get(name, {}).get("value") is not None]
    for place, name in enumerate(reversed(present)):
        cell = value["metrics"][name]
        bar(axes, cell, float(place), INK)
        axes.text(1.16, place, f"{cell['value']:.3f}", ha="right", va="center", fontsize=8, color=INK)
    axes.set(xlim=(0.0, 1.16), yticks=range(len(present)))
    axes.set_yticklabels([name.replace("_", " ") for name in reversed(present)])
    axes.set_title("At the model's own threshold, where one is needed", fontsize=10)


def _gaps(axes: "Axes", value: Figures) -> None:
    """Draw each group's distance from all other records."""
    gaps(axes, value, GAPS)


def _cross(axes: "Axes", x: float, y: float, across: Figures | None, up: Figures, mark: Figures) -> None:
    """Draw a point, marked so, with the noise intervals of its coordinates."""
    for cell, horizontal in ((across, True), (up, False)):
        ends = None if cell is None else cell["noise_interval"]
        if ends is not None:
            axes.plot(ends if horizontal else [x, x], [y, y] if horizontal else ends, color="#cbd2d9", lw=1.0)
    axes.plot([x], [y], linestyle="none", **mark, zorder=3)


def _mark(row: Figures) -> Figures:
    """How a threshold is marked: the model's own stands out."""
    return OWN_THRESHOLD if row["own"] else POINT


def _curve(axes: "Axes", points: list[tuple[Any, Any]]) -> None:
    """Draw a line through the points that have both coordinates."""
    drawn = [point for point in points if None not in point]
    axes.plot([x for x, _ in drawn], [y for _, y in drawn], color=INK, lw=1.2)


def _turned(cell: Figures) -> Figures:
    """A specificity's interval as one of the false positive rate."""
    ends = cell["noise_interval"]
    return {"noise_interval": None if ends is None else [1.0 - ends[1], 1.0 - ends[0]]}


def _unit() -> dict[str, Any]:
    """Limits of an axis pair that shows shares."""
    return {"xlim": (-0.02, 1.02), "ylim": (-0.02, 1.02)}
