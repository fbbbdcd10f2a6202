"""Writes docs/dp_hypo.md and its plot: whether adaptive trials are worth their price, from what was worked out."""

# ruff: noqa: E501  the page's own lines

import numpy as np

from benchmarks.papers import wang
from benchmarks.papers.cells import ROOT, Known

PAGE, PICTURE = ROOT / "docs" / "dp_hypo.md", ROOT / "docs" / "pictures" / "dp_hypo.png"
PAPER = "c = 0.75, C = 2, β = 1"
HEAD = """# Adaptive or uniform

Written by `make papers` from the runs in `docs/printed_numbers.json`. Wang et al. (2023) tune DP-SGD by a Gaussian
process whose densities stay between c and C of uniform, and pay log(C/c) for it in every trial. Here: softmax
regression on scikit-learn's digits in the place of MNIST, 16 × 20 candidates of learning rate × clipping norm, a
geometric number of trials of mean 1/γ, τ = 0.1. What is compared is the mean accuracy of the released candidate.
Differences are run by run, over the same numbers of trials, ± one standard error; **bold** where they are more than
two of them from 0.

"""
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
CONCLUSIONS = """![What adaptive densities gain over uniform trials](pictures/dp_hypo.png)

## What to conclude

* **In the white box, uniform.** Where one ε pays for everything, what log(C/c) takes from every training the search
  does not earn back: no adaptive arm is ahead of uniform trials at any γ that was tried. The paper's own is behind
  from γ = 0.02 on; its bounds at β = 50 are about level; wide ones, C = 4, are behind nearly everywhere. On the 50 ×
  50 grid, at a fixed T, uniform trials are ahead or level too ([Figure 1](printed_numbers.md#wang-et-al-2023),
  middle). The paper's "same total budget", ε = 15 for both, holds at γ = 0.001 alone. `sampler = "uniform"` is the
  default, and `dpbo plan` says so of the other.
* **In the black box** (`base_epsilon` in `[method]`, or a training function of one's own) a trial costs what it costs, and
  adaptivity is paid beside it. At the paper's β = 1 nothing is gained at any C, since exp(β·score) of scores between 0 and 1
  is nearly flat and its projection nearly uniform: uniform there too. At β = 50, C = 4, c = 1/4 the search is ahead at
  every γ. These are the defaults where `base_epsilon` is given. They cost (2 + η) log(C/c), 8.3 of ε in pure terms: only
  worth it where ε is plenty and trainings are not.
* **An informed prior** (Appendix D, `prior` in `[method]`) costs nothing: a weight for each candidate, or what a study on
  public data found. Every bound is then about its ratio to π₀.

How long a projection takes, beside CVXOPT's, is on [the page of speeds](performance.md).
"""


def write(known: Known) -> None:
    """The page and its plot."""
    PAGE.write_text(page(known))
    plot(known)


def page(known: Known) -> str:
    """The whole page."""
    gammas = [f"γ = {gamma:g}" for gamma in wang.GAMMAS]
    white = {name: [f"{key}/{g}{mode}" for g in wang.GAMMAS] for name, key, mode in _white_arms()}
    uniform = [f"wang/table1/uniform/{g}/equal" for g in wang.GAMMAS]
    parts = [HEAD, WHITE_BOX, _table(known, gammas, uniform, white, 1.0)]
    for lead, place, columns, marks in (
        (BLACK_BOX, "table2", gammas, wang.GAMMAS),
        (FIXED, "figure1/right", [f"T = {K}" for K in wang.FIXED], wang.FIXED),
    ):
        black = {name: [f"wang/{place}/{name}/{mark}" for mark in marks] for name in wang.BLACK}
        parts += [lead, _table(known, columns, black.pop("uniform"), black, -1.0)]
    return "".join([*parts, CONCLUSIONS])


def _white_arms() -> list[tuple[str, str, str]]:
    """Name, and how its keys begin and end."""
    return [
        (PAPER, "wang/table1/gaussian_process", "/equal"),
        *((name, f"wang/white/{name}", "") for name in wang.WHITE),
    ]


def _table(known: Known, columns: list[str], uniform: list[str], arms: dict[str, list[str]], sign: float) -> str:
    """Uniform trials, then what each arm has more (sign 1) or less (−1) of the same."""
    lines = ["| | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    lines.append("| uniform | " + " | ".join(_said(known.mean(key), "{:.4f} ± {:.4f}") for key in uniform) + " |")
    for name, keys in arms.items():
        cells = [_gain(known, key, over, sign) for key, over in zip(keys, uniform, strict=True)]
        lines.append(f"| {name} | " + " | ".join(_said(cell, "{:+.4f} ± {:.4f}") for cell in cells) + " |")
    return "\n".join(lines) + "\n\n"


def _gain(known: Known, key: str, over: str, sign: float) -> tuple[float, float] | None:
    found = known.excess(key, over)
    return None if found is None else (sign * found[0], found[1])


def _said(found: tuple[float, float] | None, form: str) -> str:
    if found is None:
        return "not tried"
    said = form.format(*found)
    return f"**{said}**" if "+" in form and abs(found[0]) > 2.0 * found[1] else said


def plot(known: Known) -> None:
    """What each arm gains over uniform trials, by γ, in either box."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), constrained_layout=True, sharey=True)
    white = [(name, key, mode, "wang/table1/uniform", "/equal", 1.0) for name, key, mode in _white_arms()]
    black = [
        (name, f"wang/table2/{name}", "", "wang/table2/uniform", "", -1.0)
        for name in wang.BLACK
        if name != "uniform"
    ]
    for axis, title, arms in ((axes[0], "one ε for everything", white), (axes[1], "black box", black)):
        for name, key, mode, over, end, sign in arms:
            gains = [_gain(known, f"{key}/{g}{mode}", f"{over}/{g}{end}", sign) for g in wang.GAMMAS]
            seen = [(g, *gain) for g, gain in zip(wang.GAMMAS, gains, strict=True) if gain is not None]
            if seen:
                g, mean, error = zip(*seen, strict=True)
                axis.errorbar(g, mean, 2.0 * np.array(error), marker="o", capsize=2, label=name)
        axis.axhline(0.0, color="black", linewidth=0.8)
        axis.set(title=title, xlabel="γ of the geometric number of trials", xscale="log")
        if axis.get_legend_handles_labels()[0]:
            axis.legend(frameon=False, fontsize=7)
    axes[0].set(ylabel="accuracy gained over uniform, ± 2 errors")
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=110)
    plt.close(figure)
