"""Writes docs/tables/printed_numbers.txt and its figures from what was worked out."""

# ruff: noqa: E501  the page's own lines

import math
from pathlib import Path
from typing import Any

from benchmarks.papers import kharkovskii, wang
from benchmarks.papers.cells import ROOT, Cell, Results
from benchmarks.papers.digits import GRIDS, black_box, cifar

PAGE, PICTURES = ROOT / "docs" / "tables" / "printed_numbers.txt", ROOT / "docs" / "pictures"
NOT_RUN = "not run"
FIGURES = {"synthetic": "printed_figure_2a", "loans": "printed_figure_2b", "property": "printed_figure_2c"}
KHARKOVSKII = """
## Kharkovskii et al. (2020)

Simple regret in units of σ_y after T rows. *As printed* is Algorithm 1, whose guarantee is void (ε = ∞); *corrected*
is the sound transform under the paper's relation. It spends the ε that is printed, so it is the number at equal ε too.
*Lifted*: ω is above the table's smallest singular value, so Algorithm 1 raises them all; the paper's claim is that this
hurts, and under each table stands what a lifted column loses against the largest r that is not, run by run.

"""
WANG = """## Wang et al. (2023)

White box: *as printed* the noise multipliers of Appendix E, 0.71 for the Gaussian process and 0.64 for uniform (0.65
and 0.6 for CIFAR-10), 1.11 (1.08) from one to the other; *corrected* those that ε = 15 under replace-one leaves at each γ
by the tightened theorem, {ratios} from one to the other. It spends the ε that is printed, so it is the number at equal ε
too. Ten epochs at the paper's sampling rate: batches of 4, where 898 records train.

"""
LANDSCAPES = """
**Figures 2 and 3: landscapes; the paper prints them as pictures alone, without a number**

![Mean and standard error of accuracy and of loss, over two hyperparameters](../pictures/printed_figures_2_and_3.png)
"""
STAND_INS = """
## By stand-ins

What follows is no reproduction: the papers' data are not at hand. Stand-ins are named where they are shown, and count
towards no total.

"""


def write(results: Results) -> None:
    """The page and its figures."""
    PAGE.write_text(page(results))
    figures(results)


def page(results: Results) -> str:
    """The whole page."""
    own, others = _split([*kharkovskii.cells(), *wang.cells()])
    total = (
        f"**{sum(map(results.has, own))} of {len(own)}** cells that need no outside data are run, of Tables 1 to 3, Figure "
        f"2a and Branin–Hoo; of the stand-ins' {len(others)}, {sum(map(results.has, others))} are.\n"
    )
    parts = [total, KHARKOVSKII]
    parts += [_figure_2(results, "synthetic", "a", ""), *(_numbered(results, n) for n in (1, 2, 3)), _hoo(results)]
    parts += [STAND_INS, "## Kharkovskii et al.: loans and property prices\n\n"]
    parts.append(
        "Stand-ins: tables drawn with the printed n, d, T and δ (36,000 correlated rows of 3 columns, a few far out; "
        "2,004 rows in 30 clusters of the plane), functions drawn from a Gaussian process. Shapes and lengthscales are "
        "chosen so that the paper's columns are the ones that are lifted, and near the regret of the rows themselves "
        "that its numbers imply:\n\n"
    )
    for name in ("loans", "property"):
        low, high = kharkovskii.implied(name)
        parts.append(
            f"* {name}: σ_min {kharkovskii.sigma_min(name):.1f}, by the paper's tables in [{low:.0f}, {high:.0f}); "
            f"the rows themselves {_in_words(results.mean(kharkovskii.key(name)))}, in the paper {kharkovskii.ROWS[name]:g}\n"
        )
    parts.append("\n")
    for name, letter in (("loans", "b"), ("property", "c")):
        parts.append(_figure_2(results, name, letter, f", stand-in for {name}"))
        parts += [_numbered(results, n) for n, (of, *_) in kharkovskii.NUMBERED.items() if of == name]
    parts += [_wang(), _table_1(results), _table_2(results), _figure_1(results), LANDSCAPES]
    return "".join(parts)


def _split(cells: list[Cell]) -> tuple[list[Cell], list[Cell]]:
    own = [c for c in cells if c.key.startswith(("kharkovskii/synthetic", "kharkovskii/branin"))]
    return own, [c for c in cells if c not in own]


def _in_words(outcome: tuple[float, float] | None, digits: int = 3) -> str:
    return NOT_RUN if outcome is None else f"{outcome[0]:.{digits}f} ± {outcome[1]:.{digits}f}"


def _table(head: str, columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [f"**{head}**", "", "| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows), "", ""])


def _numbered(results: Results, number: int) -> str:
    name, log_epsilon, dims, printed = kharkovskii.NUMBERED[number]
    sound = _in_words(results.mean(kharkovskii.key(name, log_epsilon)))
    lifted = [r for r in dims if kharkovskii.lifted(name, log_epsilon, r)]
    rows = [
        (
            f"r = {r}" + (", lifted" if r in lifted else ""),
            f"{theirs:g}",
            _in_words(results.mean(kharkovskii.key(name, log_epsilon, r))),
            sound,
            sound,
        )
        for r, theirs in zip(dims, printed, strict=True)
    ]
    largest = max(r for r in dims if r not in lifted)
    over = kharkovskii.key(name, log_epsilon, largest)
    losses = [(r, results.excess(kharkovskii.key(name, log_epsilon, r), over)) for r in lifted]
    lost = "; ".join(f"r = {r}: {NOT_RUN if d is None else f'{d[0]:+.3f} ± {d[1]:.3f}'}" for r, d in losses)
    steps = kharkovskii.steps_of(name)
    head = f"Table {number}: S_{steps} at ε = e^{log_epsilon}" + (
        "" if name == "synthetic" else f", stand-in for {name}"
    )
    table = _table(head, ("", "paper", "ours as printed", "ours corrected", "at equal ε"), rows)
    return table + f"Lifted, beyond r = {largest}: {lost}\n\n"


def _figure_2(results: Results, name: str, letter: str, of: str) -> str:
    delta, steps, r, printed = kharkovskii.SETTINGS[name]
    plain, rows = kharkovskii.key(name), []
    for log_epsilon, theirs in printed.items():
        ours = results.excess(kharkovskii.key(name, log_epsilon, r), plain)
        sound = _in_words(results.excess(kharkovskii.key(name, log_epsilon), plain))
        mark = ", lifted" if kharkovskii.lifted(name, log_epsilon, r) else ""
        rows.append((f"e^{log_epsilon}{mark}", f"{theirs:g}", _in_words(ours), sound, sound))
    head = (
        f"Figure 2{letter}{of}: S_{steps} beyond that of the rows themselves ({_in_words(results.mean(plain))}), r = {r}, "
        f"δ = {delta:g}"
    )
    table = _table(head, ("ε", "paper", "ours as printed", "ours corrected", "at equal ε"), rows)
    return table + f"![Simple regret by rows asked, {name}](../pictures/{FIGURES[name]}.png)\n\n"


def _hoo(results: Results) -> str:
    rows = []
    for log_epsilon in kharkovskii.HOO:
        sound = _in_words(results.mean(kharkovskii.key("branin", log_epsilon)))
        ours = _in_words(results.mean(kharkovskii.key("branin", log_epsilon, 10)))
        rows.append((f"e^{log_epsilon}", "appendix A, not at hand", ours, sound, sound))
    plain = _in_words(results.mean(kharkovskii.key("branin")))
    head = f"Branin–Hoo: S_50, r = 10; the rows themselves {plain}"
    return _table(head, ("ε", "paper", "ours as printed", "ours corrected", "at equal ε"), rows)


def _wang() -> str:
    """The words above Wang et al.'s tables, with the ratios of noise from uniform to adaptive trials."""
    pairs = [[wang.sigma(arm, gamma, "equal") for arm in wang.PRINTED_1] for gamma in wang.GAMMAS]
    ratios = [adaptive / uniform for adaptive, uniform in pairs]
    return WANG.format(ratios=f"{min(ratios):.2f} to {max(ratios):.2f}")


def _table_1(results: Results) -> str:
    rows = [
        (
            f"{arm.replace('_', ' ')}, γ = {gamma:g}",
            f"{theirs:g}",
            *(_in_words(results.mean(f"wang/table1/{arm}/{gamma}/{mode}")) for mode in (*wang.MODES, "equal")),
        )
        for arm, printed in wang.PRINTED_1.items()
        for gamma, theirs in zip(wang.GAMMAS, printed, strict=True)
    ]
    head = "Table 1: accuracy; MNIST in the paper, the stand-in is softmax regression on digits, 16 × 20 candidates"
    return _table(head, ("", "paper", "ours as printed", "ours corrected", "at equal ε"), rows)


def _table_2(results: Results) -> str:
    rows = []
    for name in wang.BLACK:
        for gamma, theirs in zip(wang.GAMMAS, wang.PRINTED_2.get(name, ("not tried",) * 8), strict=True):
            rows.append(
                (f"{name}, γ = {gamma:g}", str(theirs), _in_words(results.mean(f"wang/table2/{name}/{gamma}"), 4))
            )
    head = (
        "Table 2: loss in the black box (the base's noise is fixed, what the densities cost is paid on top); a federated "
        "task in the paper, the stand-in is one minus the accuracy of Table 1's. No guarantee is compared at equal ε here"
    )
    return _table(head, ("", "paper", "ours, by either theorem"), rows)


def _figure_1(results: Results) -> str:
    parts = []
    for task, words in (
        ("mnist", "left: MNIST, stand-in digits"),
        ("cifar", "middle: CIFAR-10, stand-in digits, 50 × 50"),
    ):
        rows = [
            (f"T = {K}", *(_in_words(results.mean(f"wang/figure1/{task}/{arm}/{K}")) for arm in wang.PRINTED_1))
            for K in wang.FIXED
        ]
        parts.append(_table(f"Figure 1, {words}: accuracy at a fixed T", ("", "Gaussian process", "uniform"), rows))
    rows = [
        (f"T = {K}", *(_in_words(results.mean(f"wang/figure1/right/{name}/{K}"), 4) for name in wang.BLACK))
        for K in wang.FIXED
    ]
    parts.append(
        _table("Figure 1, right: loss in the black box at a fixed T, stand-in digits", ("", *wang.BLACK), rows)
    )
    return "".join(parts) + "![Accuracy and loss at a fixed number of trials](../pictures/printed_figure_1.png)\n"


def _curve(results: Results, key: str) -> tuple[Any, Any]:
    """Steps and means of a curve; two empty lists where it was not run."""
    curve = results.cells.get(key, {}).get("curve", [])
    return range(1, len(curve) + 1), curve


def figures(results: Results) -> None:
    """Figures 2a to 2c of Kharkovskii et al., 1 to 3 of Wang et al., from the same state."""
    import matplotlib.pyplot as plt

    PICTURES.mkdir(exist_ok=True)
    for name, stem in FIGURES.items():
        picture, axis = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
        _, steps, r, printed = kharkovskii.SETTINGS[name]
        axis.plot(*_curve(results, kharkovskii.key(name)), color="black", label="the rows themselves")
        axis.plot(
            1.03 * steps, kharkovskii.ROWS[name], "*", color="black", clip_on=False, label="the paper, at the end"
        )
        for number, (log_epsilon, beyond) in enumerate(printed.items()):
            mark = ", lifted" if kharkovskii.lifted(name, log_epsilon, r) else ""
            published, sound = (kharkovskii.key(name, log_epsilon, columns) for columns in (r, None))
            label = f"e^{log_epsilon}"
            axis.plot(
                *_curve(results, published), color=f"C{number}", label=f"published, ε = {label} (not private{mark})"
            )
            axis.plot(*_curve(results, sound), "--", color=f"C{number}", label=f"sound, ε = {label}")
            axis.plot(1.03 * steps, kharkovskii.ROWS[name] + beyond, "*", color=f"C{number}", clip_on=False)
        axis.set(xlabel=f"rows asked, of {steps}", ylabel="simple regret / σ_y", yscale="log")
        axis.legend(frameon=False, fontsize=7)
        _save(picture, PICTURES / f"{stem}.png")
    _save(_panels(results), PICTURES / "printed_figure_1.png")
    _save(_landscapes(), PICTURES / "printed_figures_2_and_3.png")


def _panels(results: Results) -> Any:
    """Figure 1 of Wang et al., with the means that its tables print, at their mean numbers of trials."""
    import matplotlib.pyplot as plt

    picture, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    printed = "★ the paper, {}: at 1/γ, the mean of T"
    panels: list[tuple[Any, str, str, dict[str, Any], str]] = [
        (axes[0], "mnist", "left: MNIST; ours: digits, 16 × 20", wang.PRINTED_1, printed.format("Table 1")),
        (axes[1], "cifar", "middle: CIFAR-10; ours: digits, 50 × 50", {}, "the paper prints no number of it"),
        (axes[2], "right", "right: federated; ours: digits, 16 × 20", wang.PRINTED_2, printed.format("Table 2")),
    ]
    for axis, panel, title, theirs, note in panels:
        for number, name in enumerate(wang.BLACK if panel == "right" else wang.PRINTED_1):
            outcome = [(K, results.mean(f"wang/figure1/{panel}/{name}/{K}")) for K in wang.FIXED]
            seen = [(K, *mean) for K, mean in outcome if mean is not None]
            if seen:
                K, mean, error = zip(*seen, strict=True)
                label, bars = name.replace("_", " "), [1.96 * one for one in error]
                axis.errorbar(K, mean, bars, color=f"C{number}", capsize=2, label=label)
            if name in theirs:
                at = [1.0 / gamma for gamma in wang.GAMMAS]
                axis.plot(at, theirs[name], "*", color=f"C{number}", markersize=9)
        axis.plot([], [], " ", label=note)
        axis.set(xlabel="trials T", xscale="log", title=title, ylabel="loss" if panel == "right" else "accuracy")
        if panel == "right":
            axis.set(yscale="log")
        axis.legend(frameon=False, fontsize=8)
    return picture


def _landscapes() -> Any:
    """Figures 2 and 3 of Wang et al. on the stand-ins, laid out as theirs."""
    import matplotlib.pyplot as plt

    picture, axes = plt.subplots(2, 2, figsize=(10, 8), layout="constrained")
    noise = wang.NOISE["cifar"]["gaussian_process"]
    mean, error = cifar(noise)
    loss, loss_error = black_box()
    rows = ((1, f"Figure 2: accuracy at σ = {noise}", mean, error), (0, "Figure 3: loss", 1.0 - loss, loss_error))
    for row, (which, what, values, errors) in zip(axes, rows, strict=True):
        grid = GRIDS[which]
        for axis, title, of in ((row[0], "mean", values), (row[1], "standard error", errors)):
            drawn = axis.pcolormesh(grid.rates, grid.norms, of.reshape(len(grid.rates), -1).T, shading="nearest")
            axis.set(xscale="log", xlabel="learning rate", ylabel="clipping norm", title=f"{what}, {title}")
            axis.invert_yaxis()  # from the least at the top, as in the paper
            picture.colorbar(drawn, ax=axis)
    picture.suptitle("stand-in digits: 50 × 50 in the white box, 16 × 20 in the black box", fontsize=10)
    return picture


def _save(picture: Any, path: Path) -> None:
    import matplotlib.pyplot as plt

    picture.savefig(path, dpi=math.ceil(110))
    plt.close(picture)
