"""The picture of a report: ROC, precision and recall, reliability, figures with both intervals, gaps by group."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dpbo.tasks.reporting.document import in_picture
from dpbo.tasks.reporting.pictures import CHOICE, INK, NOISE, plain, sheet
from dpbo_core.privacy.release import NO_SCORE, Release
from dpbo_core.report import COMPARED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dpbo_core.report.repair import Repair

UNDRAWN_FIGURES = ("positive_share", "unread_share", "flagged_share", "lift")  # neither good nor bad by themselves
GAP_FIGURES = ("recall", "precision", "flagged_share")  # of a group, from all other records
FIRST_PANEL_SUFFIXES = ("_share", "_q05", "_q25", "_q50", "_q75", "_q90", "_q95")  # the first panel has them
MAX_WRITTEN_CLASSES = 12  # classes of a matrix whose counts can be read
COLORS = (INK, CHOICE, NOISE)
Figures = Mapping[str, Any]
THRESHOLD_STYLE: Figures = {"marker": "D", "color": CHOICE, "ms": 6}
SHARE_LIMITS: dict[str, Any] = {"xlim": (-0.02, 1.02), "ylim": (-0.02, 1.02)}  # limits of axes that show shares
POINT_STYLE: Figures = {"marker": "o", "color": INK, "ms": 3}


def draw_evaluation(release: Release) -> "Figure":
    """Return the figure of an evaluation's report: its curves, intervals and tables as panels."""
    value = release.value
    if COMPARED in value:
        return _difference(release)
    panels: list[Callable[[Axes, Figures], None]] = [_roc, _precision_recall]
    if "roc" in value:
        panels += [_reliability, _figures] if value["calibration"] else [_figures]
    else:
        panels = [_matrix, _metric_bars, _classes] if "classes" in value else [_histogram, _metric_bars]
    panels += [_gaps] if value["groups"] else []
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


def _difference(release: Release) -> "Figure":
    difference, figure = release.value[COMPARED], sheet(2.6)
    axes = figure.subplots()
    bars = ((difference["interval"], 2, INK), (difference["noise_interval"], 6, CHOICE))
    for ends, width, color in bars:
        if ends is not None:
            axes.plot(ends, [0, 0], color=color, lw=width, solid_capstyle="butt")
    axes.plot([difference["value"]], [0], **POINT_STYLE)
    axes.axvline(0.0, color=NOISE, lw=1)
    axes.set(yticks=[], xlabel="challenger minus champion; higher is better", title=difference["verdict"])
    plain(axes)
    figure.suptitle(in_picture(f"{release.study} · edition {release.edition}"), color=INK, fontweight="bold")
    words = f"{release.guarantee.in_words()} Thick: 90% of the known noise; thin: with sampling."
    figure.supxlabel(in_picture(words), fontsize=8, color=NOISE)
    return figure


def draw_repair(repair: "Repair") -> "Figure":
    """Return the figure of a repair: the reliability diagram before and after, with the log-losses."""
    from dpbo_core.report.repair import NO_PRICE_NOTE, OPTIMISM_WARNING

    figure = sheet(4.1)
    for axes, title, side in zip(
        figure.subplots(1, 2), ("before", "after"), (repair.before, repair.after), strict=True
    ):
        _reliability(axes, side)
        bounds = (
            (name, side["metrics"].get(name, {}).get("value")) for name in ("mean_log_loss", "calibration_error")
        )
        figures = ", ".join(f"{name.replace('_', ' ')} {value:.3f}" for name, value in bounds if value is not None)
        axes.set_title(f"{title}: {figures}" if figures else title, fontsize=10)
        plain(axes)
    figure.supxlabel("\n".join(map(in_picture, (OPTIMISM_WARNING, NO_PRICE_NOTE))), fontsize=6, color=NOISE)
    return figure


def _roc(axes: "Axes", value: Figures) -> None:
    if NO_SCORE not in value:
        _curve(axes, [(point["fpr"], point["tpr"]) for point in value["roc"]])
    for row in value["confusion"]:
        recall, specificity = row["recall"], row["specificity"]
        if recall["value"] is not None and specificity["value"] is not None:
            ends = specificity["noise_interval"]
            across = {"noise_interval": ends and [1.0 - ends[1], 1.0 - ends[0]]}
            _cross(axes, 1.0 - specificity["value"], recall["value"], across, recall, _mark(row))
    axes.plot([0, 1], [0, 1], color=NOISE, lw=0.8, ls=":")
    auc = value["metrics"]["auc"]["value"]
    axes.set(xlabel="false positive rate", ylabel="recall (true positive rate)", **SHARE_LIMITS)
    axes.set_title("ROC" if auc is None else f"ROC: AUC {auc:.3f}", fontsize=10)


def _precision_recall(axes: "Axes", value: Figures) -> None:
    drawn = [row for row in value["confusion"] if None not in (row["recall"]["value"], row["precision"]["value"])]
    _curve(axes, [(row["recall"]["value"], row["precision"]["value"]) for row in drawn])
    for row in drawn:
        recall, precision = row["recall"], row["precision"]
        _cross(axes, recall["value"], precision["value"], recall, precision, _mark(row))
    share = value["metrics"]["positive_share"]["value"]
    if share is not None:
        axes.axhline(share, color=NOISE, lw=0.8, ls=":")
    axes.set(xlabel="recall", ylabel="precision", **SHARE_LIMITS)
    axes.set_title("Precision and recall; dotted: share of positives", fontsize=10)


def _reliability(axes: "Axes", value: Figures) -> None:
    bins = [row for row in value["calibration"] if None not in (row["predicted"], row["observed"]["value"])]
    axes.plot([0, 1], [0, 1], color=NOISE, lw=0.8, ls=":")
    for row in bins:
        _cross(axes, row["predicted"], row["observed"]["value"], None, row["observed"], POINT_STYLE)
    error = value["metrics"].get("calibration_error", {}).get("value")
    axes.set(xlabel="predicted probability (public mean of the bin)", ylabel="observed share", **SHARE_LIMITS)
    axes.set_title("Reliability" if error is None else f"Reliability: expected error {error:.3f}", fontsize=10)


def _figures(axes: "Axes", value: Figures) -> None:
    from dpbo_core.report.binary import Binary

    drawn = [name for name in Binary.metrics if name not in UNDRAWN_FIGURES]
    present = [name for name in drawn if value["metrics"].get(name, {}).get("value") is not None]
    for place, name in enumerate(reversed(present)):
        cell = value["metrics"][name]
        _bar(axes, cell, float(place), INK)
        axes.text(1.16, place, f"{cell['value']:.3f}", ha="right", va="center", fontsize=8, color=INK)
    axes.set(xlim=(0.0, 1.16), yticks=range(len(present)))
    axes.set_yticklabels([name.replace("_", " ") for name in reversed(present)])
    axes.set_title("At the model's own threshold, where one is needed", fontsize=10)


def _cross(axes: "Axes", x: float, y: float, across: Figures | None, up: Figures, mark: Figures) -> None:
    for cell, horizontal in ((across, True), (up, False)):
        ends = None if cell is None else cell["noise_interval"]
        if ends is not None:
            axes.plot(ends if horizontal else [x, x], [y, y] if horizontal else ends, color="#cbd2d9", lw=1.0)
    axes.plot([x], [y], linestyle="none", **mark, zorder=3)


def _mark(row: Figures) -> Figures:
    return THRESHOLD_STYLE if row["own"] else POINT_STYLE


def _curve(axes: "Axes", points: list[tuple[Any, Any]]) -> None:
    drawn = [point for point in points if None not in point]
    axes.plot([x for x, _ in drawn], [y for _, y in drawn], color=INK, lw=1.2)


def _matrix(axes: "Axes", value: Figures) -> None:
    names = [in_picture(cell["class"]) for cell in value["classes"]]
    C = len(names)
    counts = np.array([row["records"]["value"] or 0.0 for row in value["confusion"]]).reshape(C, C)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1e-12)
    axes.imshow(shares, cmap="Oranges", vmin=0.0, vmax=1.0, aspect="auto")
    if C <= MAX_WRITTEN_CLASSES:
        for i, j in np.ndindex(C, C):
            color = "white" if shares[i, j] > 0.6 else INK
            axes.text(j, i, f"{counts[i, j]:.0f}", ha="center", va="center", fontsize=8, color=color)
    axes.set(xticks=range(C), yticks=range(C), xlabel="predicted", ylabel="true class")
    axes.set_xticklabels(names, rotation=45 if max(map(len, names)) > 4 else 0, fontsize=8)
    axes.set_yticklabels(names, fontsize=8)
    axes.set_title("Confusion: noised records; colour: share of the true class", fontsize=10)


def _histogram(axes: "Axes", value: Figures) -> None:
    """Draw the errors' bins side by side at one width: the outer ones are many times as wide as the inner."""
    E, rows = value["binning"]["clipped_at"], value["errors"]
    for b, row in enumerate(rows):
        cell = row["records"]
        axes.bar(b, cell["value"], 1.0, align="edge", color="#e4e7eb", edgecolor="white")
        if cell["noise_interval"] is not None:
            axes.plot([b + 0.5] * 2, cell["noise_interval"], color=INK, lw=1.5)
    edges = [-E, *(row["up_to"] for row in rows[:-1]), E]
    axes.axvline(edges.index(0.0), color=NOISE, lw=0.8, ls=":")
    axes.set(xticks=range(len(edges)), xlabel="error, predicted less true; not to scale", ylabel="records")
    axes.set_xticklabels([f"{edge:.3g}" for edge in edges], rotation=90, fontsize=7)
    axes.set_title(f"Errors in each bin, clipped at ±{E:.4g}", fontsize=10)


def _metric_bars(axes: "Axes", value: Figures) -> None:
    drawn = {name: cell for name, cell in value["metrics"].items() if not name.endswith(FIRST_PANEL_SUFFIXES)}
    present = [name for name, cell in drawn.items() if _has_value(cell)]
    for place, name in enumerate(reversed(present)):
        cell = value["metrics"][name]
        _bar(axes, cell, float(place), INK)
        where: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "va": "center"}
        axes.annotate(f"{cell['value']:.3g}", (1.02, float(place)), fontsize=8, color=INK, **where)
    _named(axes, (name.replace("_", " ") for name in present))
    axes.set_title("Figures", fontsize=10)


def _classes(axes: "Axes", value: Figures) -> None:
    for number, figure in enumerate(("recall", "precision")):
        for place, cell in enumerate(reversed(value["classes"])):
            if _has_value(cell[figure]):
                _bar(axes, cell[figure], place + 0.15 - 0.3 * number, COLORS[number])
        axes.plot([], [], "o", color=COLORS[number], ms=3, label=figure)
    _named(axes, (in_picture(cell["class"]) for cell in value["classes"]))
    axes.set_xlim(0.0, 1.0)
    axes.set_title("Class by class", fontsize=10)
    axes.legend(frameon=False, fontsize=8, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.1))


def _gaps(axes: "Axes", value: Figures) -> None:
    figures = GAP_FIGURES if "roc" in value else list(next(iter(value["groups"].values()))["gaps"])
    drawn = dict.fromkeys(figures, False)
    for place, cell in enumerate(reversed(value["groups"].values())):
        for number, figure in enumerate(figures):
            if _has_value(cell["gaps"][figure]):
                label = "_" if drawn[figure] else figure.replace("_", " ")
                _bar(axes, cell["gaps"][figure], place + 0.22 * (1 - number), COLORS[number], label)
                drawn[figure] = True
    _named(axes, map(in_picture, value["groups"]))
    axes.axvline(0.0, color=NOISE, lw=0.8, ls=":")
    axes.set_title("Groups: distance from all other records", fontsize=10)
    if any(drawn.values()):
        axes.legend(frameon=False, fontsize=8, ncols=len(figures), loc="upper center", bbox_to_anchor=(0.5, -0.1))


def _bar(axes: "Axes", cell: Figures, place: float, color: str, label: str = "_") -> None:
    for interval, width in ((cell["sampling_interval"], 1.0), (cell["noise_interval"], 4.0)):
        if interval is not None:
            axes.plot(interval, [place, place], color=color, lw=width, alpha=0.5, solid_capstyle="butt")
    axes.plot([cell["value"]], [place], "o", color=color, ms=3, label=label)


def _has_value(cell: Figures) -> bool:
    return None not in (cell["value"], cell["noise_interval"])


def _named(axes: "Axes", names: Iterable[str]) -> None:
    labels = list(names)
    axes.set(yticks=range(len(labels)))
    axes.set_yticklabels(list(reversed(labels)), fontsize=8)
    plain(axes)
