"""The page of a comparison: a table a task, a picture of regret against ε, and the numbers for programs."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.compare.cell_runs import MORE_TRAININGS, NOT_PRIVATE, Cell
from dpbo.tasks.reporting.pictures import sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = (
    "#1b9e77",
    "#d95f02",
    "#7570b3",
    "#e7298a",
    "#66a61e",
    "#e6ab02",
    "#a6761d",
    "#1f78b4",
    "#b15928",
    "#666666",
)
LEAST = 1e-5  # what a logarithmic axis shows for a regret of 0


def save_comparison(cells: list[Cell], out: Path) -> tuple[Path, ...]:
    """Write the comparison's page, JSON and picture to `out`: the files' paths."""
    (out / "pictures").mkdir(parents=True, exist_ok=True)
    page, numbers = out / "comparison.md", out / "comparison.json"
    picture = out / "pictures" / "comparison.png"
    page.write_text(markdown(cells), encoding="utf-8")
    numbers.write_text(json.dumps([cell.to_json() for cell in cells], indent=1, allow_nan=False) + "\n")
    draw(cells).savefig(picture, dpi=130)
    return page, numbers, picture


def markdown(cells: list[Cell]) -> str:
    """The comparison as a Markdown page, nothing escaped: what was measured, the picture, and a table a task."""
    repetitions = cells[0].repetitions
    parts = [
        "# Every method on public data\n",
        "Written by `python -m benchmarks.compare`. "
        "Regret: the best score of Λ less that of the chosen candidate, mean ± standard "
        f"error of {repetitions} runs (seeds 0 to {repetitions - 1}), 20 trainings; smaller is better. "
        f"Those with {' or '.join(MORE_TRAININGS)} in their name train all of Λ, up to 256, the others 20. "
        "Where nothing is chosen, the error of the released score in italics. "
        '"auto" is what `dpbo plan` advises.\n',
        "![Regret against ε](pictures/comparison.png)\n",
    ]
    for task in dict.fromkeys(cell.task for cell in cells):
        here = [cell for cell in cells if cell.task == task]
        epsilons = sorted({cell.epsilon for cell in here})
        parts.append(f"## {task}, m = {here[0].n_validation:,}\n")
        rows = ["| | " + " | ".join(f"ε = {epsilon:g}" for epsilon in epsilons) + " |"]
        rows.append("|---|" + "---|" * len(epsilons))
        for name in dict.fromkeys(cell.contender for cell in here):
            row = {cell.epsilon: _cell(cell) for cell in here if cell.contender == name}
            rows.append(f"| {name} | " + " | ".join(row.get(epsilon, "–") for epsilon in epsilons) + " |")
        parts.append("\n".join(rows) + "\n")
    covered = [
        (cell.covered, cell.repetitions) for cell in cells if cell.covered is not None and cell.contender != "auto"
    ]
    if covered:
        runs = sum(n for _, n in covered)
        share = sum(c * n for c, n in covered) / runs
        parts.append(f"The 90% intervals held the true score in {share:.1%} of {runs:,} runs.\n")
    return "\n".join(parts)


def draw(cells: list[Cell]) -> "Figure":
    """A figure of regret against ε with its standard error, a panel for each task."""
    n_records = {cell.task: cell.n_validation for cell in cells}
    tasks = list(n_records)
    names = [n for n in dict.fromkeys(cell.contender for cell in cells) if any(_plotted(cells, n))]
    figure = sheet(5.2, 4.2 * len(tasks))
    panels = figure.subplots(1, len(tasks), squeeze=False)[0]
    for panel, task in zip(panels, tasks, strict=True):
        for place, name in enumerate(names):
            here = [cell for cell in _plotted(cells, name) if cell.task == task]
            means = [max(cell.regret or 0.0, LEAST) for cell in here]
            errors = [cell.regret_error or 0.0 for cell in here]
            style = "--" if name == NOT_PRIVATE else "-"
            wide = 2.6 if name == "auto" else 1.2
            colour = "black" if name == "auto" else COLOURS[place % len(COLOURS)]
            panel.errorbar(
                [cell.epsilon for cell in here],
                means,
                errors,
                ls=style,
                lw=wide,
                color=colour,
                capsize=2,
                label=name,
            )
        panel.set(xscale="log", yscale="log", xlabel="ε", title=f"{task}, m = {n_records[task]:,}", ylim=(LEAST, 1))
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("regret")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    return figure


def _plotted(cells: Iterable[Cell], name: str) -> list[Cell]:
    """One method's or rival's cells (results at one ε) that have a regret to plot."""
    return [cell for cell in cells if cell.contender == name and cell.regret is not None]


def _cell(cell: Cell) -> str:
    """A result's regret with its error, as text; where nothing is chosen the score's error in italics."""
    if cell.regret is not None:
        return f"{cell.regret:.4f} ± {cell.regret_error:.4f}"
    return "–" if cell.score_error is None else f"*{cell.score_error:.3g} ± {cell.score_error_error:.2g}*"
