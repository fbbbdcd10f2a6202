"""Writes docs/tables/printed_numbers.txt and its figures from what was worked out."""

# ruff: noqa: E501  the page's own lines

import math
from pathlib import Path
from typing import Any

from benchmarks.papers import kharkovskii, wang
from benchmarks.papers.cells import ROOT, Cell, Known

PAGE, PICTURES = ROOT / "docs" / "tables" / "printed_numbers.txt", ROOT / "docs" / "pictures"
NOT_RUN = "not run"
FIGURES = {"synthetic": "printed_figure_2a", "loans": "printed_figure_2b", "property": "printed_figure_2c"}
KHARKOVSKII = """
## Kharkovskii et al. (2020)

Simple regret in units of σ_y after T rows. *As printed* is Algorithm 1, whose guarantee is void (ε = ∞); *corrected*
is the sound transform under the paper's relation. It spends the ε that is printed, so it is the number at equal ε too.

"""
WANG = """## Wang et al. (2023)

White box: *as printed* the noise that Theorem 1 as printed leaves of the total ε at γ = 0.001, the one γ at which both
arms have it; *corrected* by the tightened theorem; *at equal ε* the noise that ε leaves at each γ.

"""
STAND_INS = """
## By stand-ins

What follows is no reproduction: the papers' data are not at hand. Stand-ins are named where they are shown, and count
towards no total.

"""


def write(known: Known) -> None:
    """The page and its figures."""
    PAGE.write_text(page(known))
    figures(known)


def page(known: Known) -> str:
    """The whole page."""
    own, others = _split([*kharkovskii.cells(), *wang.cells()])
    total = (
        f"**{sum(map(known.has, own))} of {len(own)}** cells that need no outside data are run, of Tables 1 to 3, Figure "
        f"2a and Branin–Hoo; of the stand-ins' {len(others)}, {sum(map(known.has, others))} are.\n"
    )
    parts = [total, KHARKOVSKII]
    parts += [_figure_2(known, "synthetic", "a", ""), *(_numbered(known, n) for n in (1, 2, 3)), _hoo(known)]
    parts += [STAND_INS, "## Kharkovskii et al.: loans and property prices\n\n"]
    parts.append(
        "Stand-ins: tables drawn with the printed n, d, T and δ (36,000 skewed and correlated rows of 3 columns; 2,004 "
        "rows in 30 clusters of the plane), functions drawn from a Gaussian process of lengthscale "
        "6, and 1.25 for prices.\n\n"
    )
    for name, letter in (("loans", "b"), ("property", "c")):
        parts.append(_figure_2(known, name, letter, f", stand-in for {name}"))
        parts += [_numbered(known, n) for n, (of, *_) in kharkovskii.NUMBERED.items() if of == name]
    parts += [WANG, _table_1(known), _table_2(known), _figure_1(known)]
    return "".join(parts)


def _split(cells: list[Cell]) -> tuple[list[Cell], list[Cell]]:
    own = [c for c in cells if c.key.startswith(("kharkovskii/synthetic", "kharkovskii/branin"))]
    return own, [c for c in cells if c not in own]


def _said(found: tuple[float, float] | None, digits: int = 3) -> str:
    return NOT_RUN if found is None else f"{found[0]:.{digits}f} ± {found[1]:.{digits}f}"


def _table(head: str, columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [f"**{head}**", "", "| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows), "", ""])


def _numbered(known: Known, number: int) -> str:
    name, log_epsilon, dims, printed = kharkovskii.NUMBERED[number]
    sound = _said(known.mean(kharkovskii.key(name, log_epsilon)))
    rows = [
        (f"r = {r}", f"{theirs:g}", _said(known.mean(kharkovskii.key(name, log_epsilon, r))), sound, sound)
        for r, theirs in zip(dims, printed, strict=True)
    ]
    steps = kharkovskii.steps_of(name)
    head = f"Table {number}: S_{steps} at ε = e^{log_epsilon}" + (
        "" if name == "synthetic" else f", stand-in for {name}"
    )
    return _table(head, ("", "paper", "ours as printed", "ours corrected", "at equal ε"), rows)


def _figure_2(known: Known, name: str, letter: str, of: str) -> str:
    delta, steps, r, printed = kharkovskii.SETTINGS[name]
    plain, rows = kharkovskii.key(name), []
    for log_epsilon, theirs in printed.items():
        ours = known.excess(kharkovskii.key(name, log_epsilon, r), plain)
        sound = _said(known.excess(kharkovskii.key(name, log_epsilon), plain))
        rows.append((f"e^{log_epsilon}", f"{theirs:g}", _said(ours), sound, sound))
    head = (
        f"Figure 2{letter}{of}: S_{steps} beyond that of the rows themselves ({_said(known.mean(plain))}), r = {r}, "
        f"δ = {delta:g}"
    )
    table = _table(head, ("ε", "paper", "ours as printed", "ours corrected", "at equal ε"), rows)
    return table + f"![Simple regret by rows asked, {name}](../pictures/{FIGURES[name]}.png)\n\n"


def _hoo(known: Known) -> str:
    rows = []
    for log_epsilon in kharkovskii.HOO:
        sound = _said(known.mean(kharkovskii.key("branin", log_epsilon)))
        ours = _said(known.mean(kharkovskii.key("branin", log_epsilon, 10)))
        rows.append((f"e^{log_epsilon}", "appendix A, not at hand", ours, sound, sound))
    plain = _said(known.mean(kharkovskii.key("branin")))
    head = f"Branin–Hoo: S_50, r = 10; the rows themselves {plain}"
    return _table(head, ("ε", "paper", "ours as printed", "ours corrected", "at equal ε"), rows)


def _table_1(known: Known) -> str:
    rows = [
        (
            f"{arm.replace('_', ' ')}, γ = {gamma:g}",
            f"{theirs:g}",
            *(_said(known.mean(f"wang/table1/{arm}/{gamma}/{mode}")) for mode in wang.MODES),
        )
        for arm, printed in wang.PRINTED_1.items()
        for gamma, theirs in zip(wang.GAMMAS, printed, strict=True)
    ]
    head = "Table 1: accuracy; MNIST in the paper, the stand-in is softmax regression on digits, 16 × 20 candidates"
    return _table(head, ("", "paper", "ours as printed", "ours corrected", "at equal ε"), rows)


def _table_2(known: Known) -> str:
    rows = []
    for name in wang.BLACK:
        for gamma, theirs in zip(wang.GAMMAS, wang.PRINTED_2.get(name, ("not tried",) * 8), strict=True):
            rows.append(
                (f"{name}, γ = {gamma:g}", str(theirs), _said(known.mean(f"wang/table2/{name}/{gamma}"), 4))
            )
    head = (
        "Table 2: loss in the black box (the base's noise is fixed, what the densities cost is paid on top); a federated "
        "task in the paper, the stand-in is one minus the accuracy of Table 1's. No guarantee is compared at equal ε here"
    )
    return _table(head, ("", "paper", "ours, by either theorem"), rows)


def _figure_1(known: Known) -> str:
    parts = []
    for task, words in (
        ("mnist", "left: MNIST, stand-in digits"),
        ("cifar", "middle: CIFAR-10, stand-in digits, 50 × 50"),
    ):
        rows = [
            (f"T = {K}", *(_said(known.mean(f"wang/figure1/{task}/{arm}/{K}")) for arm in wang.PRINTED_1))
            for K in wang.FIXED
        ]
        parts.append(_table(f"Figure 1, {words}: accuracy at a fixed T", ("", "Gaussian process", "uniform"), rows))
    rows = [
        (f"T = {K}", *(_said(known.mean(f"wang/figure1/right/{name}/{K}"), 4) for name in wang.BLACK))
        for K in wang.FIXED
    ]
    parts.append(
        _table("Figure 1, right: loss in the black box at a fixed T, stand-in digits", ("", *wang.BLACK), rows)
    )
    return "".join(parts) + "![Accuracy and loss at a fixed number of trials](../pictures/printed_figure_1.png)\n"


def figures(known: Known) -> None:
    """Figures 2a to 2c of Kharkovskii et al., figure 1 of Wang et al., from the same state."""
    import matplotlib.pyplot as plt

    PICTURES.mkdir(exist_ok=True)
    for name, stem in FIGURES.items():
        picture, axis = plt.subplots(figsize=(4.8, 3.2), layout="constrained")
        _, steps, r, printed = kharkovskii.SETTINGS[name]
        lines: dict[str, str] = {"the rows themselves": kharkovskii.key(name)}
        for log_epsilon in printed:
            lines[f"published, ε = e^{log_epsilon} (not private)"] = kharkovskii.key(name, log_epsilon, r)
            lines[f"sound, ε = e^{log_epsilon}"] = kharkovskii.key(name, log_epsilon)
        for label, key in lines.items():
            curve = known.kept.get(key, {}).get("curve")
            if curve:
                axis.plot(range(1, len(curve) + 1), curve, "--" if "sound" in label else "-", label=label)
        axis.set(xlabel=f"rows asked, of {steps}", ylabel="simple regret / σ_y", yscale="log")
        axis.legend(frameon=False, fontsize=7)
        _save(picture, PICTURES / f"{stem}.png")
    picture, axes = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained")
    panels: list[tuple[Any, str, list[str]]] = [
        (axes[0], "wang/figure1/mnist/", list(wang.PRINTED_1)),
        (axes[1], "wang/figure1/cifar/", list(wang.PRINTED_1)),
        (axes[2], "wang/figure1/right/", list(wang.BLACK)),
    ]
    for axis, prefix, names in panels:
        for name in names:
            found = [(K, known.mean(f"{prefix}{name}/{K}")) for K in wang.FIXED]
            seen = [(K, mean) for K, mean in found if mean is not None]
            if seen:
                axis.errorbar(
                    [K for K, _ in seen], [m for _, (m, _) in seen], [1.96 * e for _, (_, e) in seen], label=name
                )
        axis.set(xlabel="trials", xscale="log", title=prefix.split("/")[2])
        if axis.get_legend_handles_labels()[0]:
            axis.legend(frameon=False, fontsize=7)
    _save(picture, PICTURES / "printed_figure_1.png")


def _save(picture: Any, path: Path) -> None:
    import matplotlib.pyplot as plt

    picture.savefig(path, dpi=math.ceil(110))
    plt.close(picture)
