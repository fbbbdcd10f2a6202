"""The picture of a report of several classes or of errors: matrix or histogram, figures, classes, groups."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpbo.tasks.reporting.escaping import in_picture
from dpbo.tasks.reporting.release_picture import CHOICE, INK, NOISE, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Figures = Mapping[str, Any]
UNDRAWN = ("_share", "_q05", "_q25", "_q50", "_q75", "_q90", "_q95")  # shares; quantiles: the histogram has them
WRITTEN = 12  # classes of a matrix whose counts can be read
COLORS = (INK, CHOICE, NOISE)


def panels(value: Figures) -> "list[Callable[[Axes, Figures], None]]":
    """The panels of a report on several classes or on errors, in order."""
    first: list[Callable[[Axes, Figures], None]] = (
        [_matrix, _figures, _classes] if "classes" in value else [_histogram, _figures]
    )
    return first + ([_gaps] if value["groups"] else [])


def _matrix(axes: "Axes", value: Figures) -> None:
    """Draw the confusion matrix: noised records, coloured by the share of the true class."""
    names = [in_picture(cell["class"]) for cell in value["classes"]]
    C = len(names)
    counts = np.array([row["records"]["value"] or 0.0 for row in value["confusion"]]).reshape(C, C)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1e-12)
    axes.imshow(shares, cmap="Oranges", vmin=0.0, vmax=1.0, aspect="auto")
    if C <= WRITTEN:
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


def _figures(axes: "Axes", value: Figures) -> None:
    """Draw each figure with its noise and sampling intervals."""
    present = [name for name, cell in value["metrics"].items() if _has_value(cell) and not name.endswith(UNDRAWN)]
    for place, name in enumerate(reversed(present)):
        cell = value["metrics"][name]
        bar(axes, cell, float(place), INK)
        at = (1.02, float(place))
        axes.annotate(
            f"{cell['value']:.3g}", at, xycoords=("axes fraction", "data"), va="center", fontsize=8, color=INK
        )
    _named(axes, (name.replace("_", " ") for name in present))
    axes.set_title("Figures", fontsize=10)


def _classes(axes: "Axes", value: Figures) -> None:
    """Draw recall and precision class by class."""
    for number, figure in enumerate(("recall", "precision")):
        for place, cell in enumerate(reversed(value["classes"])):
            if _has_value(cell[figure]):
                bar(axes, cell[figure], place + 0.15 - 0.3 * number, COLORS[number])
        axes.plot([], [], "o", color=COLORS[number], ms=3, label=figure)
    _named(axes, (in_picture(cell["class"]) for cell in value["classes"]))
    axes.set_xlim(0.0, 1.0)
    axes.set_title("Class by class", fontsize=10)
    axes.legend(frameon=False, fontsize=8, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.1))


def _gaps(axes: "Axes", value: Figures) -> None:
    """Draw each group's distance from all other records, in every figure."""
    gaps(axes, value, list(next(iter(value["groups"].values()))["gaps"]))


def gaps(axes: "Axes", value: Figures, figures: Sequence[str]) -> None:
    """Draw each group's distance from all other records, in the figures that have a value."""
    drawn = dict.fromkeys(figures, False)
    for place, cell in enumerate(reversed(value["groups"].values())):
        for number, figure in enumerate(figures):
            if _has_value(cell["gaps"][figure]):
                label = "_" if drawn[figure] else figure.replace("_", " ")
                bar(axes, cell["gaps"][figure], place + 0.22 * (1 - number), COLORS[number], label)
                drawn[figure] = True
    _named(axes, map(in_picture, value["groups"]))
    axes.axvline(0.0, color=NOISE, lw=0.8, ls=":")
    axes.set_title("Groups: distance from all other records", fontsize=10)
    if any(drawn.values()):
        axes.legend(frameon=False, fontsize=8, ncols=len(figures), loc="upper center", bbox_to_anchor=(0.5, -0.1))


def bar(axes: "Axes", cell: Figures, place: float, color: str, label: str = "_") -> None:
    """Draw a figure with its noise interval, thick, and its sampling interval, thin."""
    for interval, width in ((cell["sampling_interval"], 1.0), (cell["noise_interval"], 4.0)):
        if interval is not None:
            axes.plot(interval, [place, place], color=color, lw=width, alpha=0.5, solid_capstyle="butt")
    axes.plot([cell["value"]], [place], "o", color=color, ms=3, label=label)


def _has_value(cell: Figures) -> bool:
    """Whether a figure has a value that noise leaves something of."""
    return None not in (cell["value"], cell["noise_interval"])


def _named(axes: "Axes", names: Iterable[str]) -> None:
    """Label the vertical axis with names, the first one on top."""
    labels = list(names)
    axes.set(yticks=range(len(labels)))
    axes.set_yticklabels(list(reversed(labels)), fontsize=8)
    plain(axes)
