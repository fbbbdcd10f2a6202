"""Writes docs/tables/adaptive.txt and its plot: whether adaptive trials are worth their price, from what was worked out."""

# ruff: noqa: E501  the page's own lines

import numpy as np

from benchmarks.papers import wang
from benchmarks.papers.cells import ROOT, Results

PAGE, PICTURE = ROOT / "docs" / "tables" / "adaptive.txt", ROOT / "docs" / "pictures" / "dp_hypo.png"
PRICES = ROOT / "docs" / "tables" / "wang_prices.txt"
PAPER = "c = 0.75, C = 2, β = 1"
WHITE_BOX = """## One ε for everything: the white box

ε = 15 at δ = 1e-5 under replace-one for each arm at each γ, by the tightened Theorem 1: what the densities cost is noise
in every training. Accuracy, and what an adaptive arm has more of it (200 runs):

"""
BLACK_BOX = """## A trial costs what it costs: the black box

The noise of a training stays as it is (multiplier 2.45), and what the densities cost is paid on top, so that no ε is
compared here. c = 1/C; β = 1 where nothing else is said. Loss of uniform trials, and what an adaptive arm has less of it
(200 runs, from γ = 0.01 on 1,000):

"""
FIXED = """The same at a fixed number of trials T (200 runs):

"""


def write(results: Results) -> None:
    """The page and its plot."""
    PAGE.write_text(page(results))
    PRICES.write_text(wang.prices())
    plot(results)


def page(results: Results) -> str:
    """The whole page."""
    gammas = [f"γ = {gamma:g}" for gamma in wang.GAMMAS]
    white = {name: [f"{key}/{g}{mode}" for g in wang.GAMMAS] for name, key, mode in _white_arms()}
    uniform = [f"wang/table1/uniform/{g}/equal" for g in wang.GAMMAS]
    parts = [WHITE_BOX, _table(results, gammas, uniform, white, 1.0)]
    for lead, place, columns, marks in (
        (BLACK_BOX, "table2", gammas, wang.GAMMAS),
        (FIXED, "figure1/right", [f"T = {K}" for K in wang.FIXED], wang.FIXED),
    ):
        black = {name: [f"wang/{place}/{name}/{mark}" for mark in marks] for name in wang.BLACK}
        parts += [lead, _table(results, columns, black.pop("uniform"), black, -1.0)]
    return "".join(parts).rstrip() + "\n"


def _white_arms() -> list[tuple[str, str, str]]:
    """Name, and how its keys begin and end."""
    return [
        (PAPER, "wang/table1/gaussian_process", "/equal"),
        *((name, f"wang/white/{name}", "") for name in wang.WHITE),
    ]


def _table(
    results: Results, columns: list[str], uniform: list[str], arms: dict[str, list[str]], sign: float
) -> str:
    """Uniform trials, then what each arm has more (sign 1) or less (−1) of the same."""
    lines = ["| | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    lines.append(
        "| uniform | " + " | ".join(_in_words(results.mean(key), "{:.4f} ± {:.4f}") for key in uniform) + " |"
    )
    for name, keys in arms.items():
        cells = [_gain(results, key, over, sign) for key, over in zip(keys, uniform, strict=True)]
        lines.append(f"| {name} | " + " | ".join(_in_words(cell, "{:+.4f} ± {:.4f}") for cell in cells) + " |")
    return "\n".join(lines) + "\n\n"


def _gain(results: Results, key: str, over: str, sign: float) -> tuple[float, float] | None:
    outcome = results.excess(key, over)
    return None if outcome is None else (sign * outcome[0], outcome[1])


def _in_words(outcome: tuple[float, float] | None, form: str) -> str:
    if outcome is None:
        return "not tried"
    text = form.format(*outcome)
    return f"**{text}**" if "+" in form and abs(outcome[0]) > 2.0 * outcome[1] else text


def plot(results: Results) -> None:
    """What each arm gains over uniform trials, by γ, in either box, beside what the paper's tables gain."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), constrained_layout=True, sharey=True)
    white = [(name, key, mode, "wang/table1/uniform", "/equal", 1.0) for name, key, mode in _white_arms()]
    black = [
        (name, f"wang/table2/{name}", "", "wang/table2/uniform", "", -1.0)
        for name in wang.BLACK
        if name != "uniform"
    ]
    papers = np.subtract(wang.PRINTED_1["gaussian_process"], wang.PRINTED_1["uniform"])
    losses = np.subtract(wang.PRINTED_2["uniform"], wang.PRINTED_2["C = 1.5"])
    for axis, title, arms, theirs, table in (
        (axes[0], "one ε for everything", white, papers, "Table 1"),
        (axes[1], "black box", black, losses, "Table 2, C = 1.5 (of its own loss)"),
    ):
        for name, key, mode, over, end, sign in arms:
            gains = [_gain(results, f"{key}/{g}{mode}", f"{over}/{g}{end}", sign) for g in wang.GAMMAS]
            seen = [(g, *gain) for g, gain in zip(wang.GAMMAS, gains, strict=True) if gain is not None]
            if seen:
                g, mean, error = zip(*seen, strict=True)
                axis.errorbar(g, mean, 2.0 * np.array(error), marker="o", capsize=2, label=name)
        axis.plot(wang.GAMMAS, theirs, "*", color="black", markersize=9, label=f"the paper, {table}")
        axis.axhline(0.0, color="black", linewidth=0.8)
        axis.set(title=title, xlabel="γ of the geometric number of trials", xscale="log")
        if axis.get_legend_handles_labels()[0]:
            axis.legend(frameon=False, fontsize=7)
    axes[0].set(ylabel="accuracy gained over uniform, ± 2 errors")
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=110)
    plt.close(figure)
