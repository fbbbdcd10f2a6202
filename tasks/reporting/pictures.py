"""The pictures of a release as PNG files: posterior, noise and budget, in the order a page shows them."""

import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from dpbo.tasks.reporting.budget_alert import alert_share
from dpbo.tasks.reporting.escaping import in_picture
from dpbo.tasks.reporting.posterior_picture import slice_through_choice
from dpbo.tasks.reporting.release_picture import CHOICE, INK, NOISE, draw, plain, sheet, whole_numbers
from dpbo.tasks.reporting.report_document import is_report
from dpbo_core.ledger.accounting.account import Account, balances
from dpbo_core.ledger.accounting.forecast import forecast
from dpbo_core.privacy.release import Release, Spend

MAX_BUDGET_STEPS = 500  # studies in the picture of a budget

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_posterior(release: Release) -> "Figure | None":
    """Return a figure of the posterior along the first numeric axis; None if the release alone does not give it."""
    cut = slice_through_choice(release)
    if cut is None:
        return None
    figure, axes = _sheet()
    axes.fill_between(
        cut.grid, cut.mean - cut.half_width, cut.mean + cut.half_width, color=CHOICE, alpha=0.15, lw=0
    )
    axes.plot(cut.grid, cut.mean, color=CHOICE, label="posterior mean, 90% band")
    points = release.value["trajectory"]
    values = [point["hyperparameters"][cut.axis] for point in points]
    axes.scatter(values, [point["score"] for point in points], color=NOISE, s=14, label="private scores")
    axes.axvline(release.value["hyperparameters"][cut.axis], color=INK, lw=0.8, ls=":", label="released choice")
    if cut.log:
        axes.set_xscale("log")
    axes.set(xlabel=in_picture(cut.axis), ylabel="score", title="What the released scores say of every candidate")
    axes.legend(frameon=False, fontsize=8)
    return figure


def draw_budget(account: Account) -> "Figure | None":
    """Return a figure of the ε spent after each study of the dataset, under its cap; None without study or limit.

    Where its studies are of several days, it is drawn by date, with what is expected if they go on as they did.
    """
    from matplotlib.dates import date2num

    drawn_entries = set(account.entries[:: -(1 + len(account.entries) // MAX_BUDGET_STEPS)])  # with the newest
    points = [item for item in balances(account, drawn_entries.__contains__) if math.isfinite(item.spent)]
    if account.budget.public or not points:
        return None
    figure, axes = _sheet()
    limit, share, moments = points[-1].limit, alert_share(), [item.entry.moment for item in points]
    by_date = moments[0].date() != moments[-1].date()
    xs = [0, *(item.position for item in points)]
    if by_date:
        xs = [date2num(moment) for moment in (moments[0], *moments)]  # type: ignore[no-untyped-call]
        axes.xaxis_date()
    axes.step(xs, [0.0, *(item.spent for item in points)], where="post", color=INK)
    axes.plot(xs[-1], points[-1].spent, "o", color=INK, label=f"spent, ε = {points[-1].spent:.3g}")
    axes.axhline(limit, color=CHOICE, label=f"the cap, ε = {limit:g}")
    axes.axhline(share * limit, color=CHOICE, lw=0.8, ls=":", label=f"{share:.0%}: an alert")
    burn_down = forecast(account, max(moments)) if by_date else None
    if burn_down is not None and burn_down.streams:
        expected = [point for point in burn_down.points if point.expected]
        dates = [xs[-1], *(date2num(point.at) for point in expected)]  # type: ignore[no-untyped-call]
        ends = "" if burn_down.ends is None else f"; refused from {burn_down.ends:%Y-%m-%d} on"
        spent = [points[-1].spent, *(point.spent for point in expected)]
        axes.step(dates, spent, where="post", color=INK, ls=":", label=f"if its studies go on as they did{ends}")
    of = f"of the dataset {in_picture(account.budget.dataset)}"
    axes.set(xlabel="" if by_date else f"studies {of}, in order", ylabel="ε", ylim=(0.0, 1.08 * limit))
    axes.set_title(f"Budget {of}: ε spent by all its releases together")
    if not by_date:
        whole_numbers(axes)
    axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(0.0, 0.92))
    return figure


def draw_noise(release: Release) -> "Figure":
    """Return a figure of the score's range beside the width that holds one draw's noise nine times in ten."""
    figure, axes = _sheet(height=2.8, left=0.22)
    bars = [("score's range", float(release.facts.get("score_range", 1.0)), NOISE)]
    bars += [(f"{in_picture(mechanism)}\n{n} draw{'s' if n > 1 else ''}", width, CHOICE)
             for (mechanism, width), n in noises(release).items()]  # fmt: skip
    if release.value.get("interval") is not None:
        low, high = release.value["interval"]
        bars.append(("90% interval of the score", high - low, INK))
    axes.barh([name for name, _, _ in bars][::-1], [width for _, width, _ in bars][::-1],
              color=[color for _, _, color in bars][::-1], height=0.55)  # fmt: skip
    axes.set(
        xlabel="width, in units of the score",
        title="The noise of one draw, nine times in ten, against the score's range",
    )
    return figure


def noises(release: Release) -> dict[tuple[str, float], int]:
    """Return the number of draws of each kind of noise: (mechanism, width that holds nine in ten, to 4 digits)."""
    unit = release.score_per_unit
    return Counter((spend.mechanism, float(f"{2.0 * unit * spread(spend):.4g}")) for spend in release.spends)


def spread(spend: Spend) -> float:
    """Return half the width of the interval that contains a draw with 90% probability; for a selection, its
    scale.
    """
    if "Laplace" in spend.mechanism:
        return math.log(10.0) * spend.noise_scale
    return (1.6448536269514722 if "Gaussian" in spend.mechanism else 1.0) * spend.noise_scale


def _sheet(height: float = 4.2, left: float = 0.08) -> "tuple[Figure, Axes]":
    """Return a figure and its axes, whose margins are fixed: to find them takes as long as to draw."""
    figure = sheet(height, layout=None)
    bottom = 0.55 / height  # for the ticks and the label
    axes = figure.add_axes((left, bottom, 0.97 - left, 1.0 - bottom - 0.35 / height))
    plain(axes)
    return figure, axes


def save_pictures(release: Release, account: Account | None, folder: Path) -> tuple[list[Path], tuple[str, ...]]:
    """Save a release's pictures in `folder`: the paths, and the names of those that could not be drawn.

    Posterior, noise and budget where there is one; of a report, evaluation.png for the first three.
    """
    figures: dict[str, Callable[[], Figure | None]] = {
        "trajectory" if "trajectory" in release.value else "release": lambda: draw(release),
        "posterior": lambda: draw_posterior(release),
        "noise": lambda: draw_noise(release),
    }
    if is_report(release):
        from dpbo.tasks.reporting.evaluation_picture import draw_evaluation

        figures = {"evaluation": lambda: draw_evaluation(release)}
    figures["budget"] = lambda: None if account is None else draw_budget(account)
    folder.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    failed: list[str] = []
    for name, make in figures.items():
        try:
            files += saved(make, folder / f"{name}.png")
        except Exception:  # noqa: BLE001  matplotlib's, its backends' and its fonts'; the caller says what is missing
            failed.append(f"the picture {name}")
    return files, tuple(failed)


def saved(make: "Callable[[], Figure | None]", path: Path) -> list[Path]:
    """Save the figure that `make` draws at `path`: that path alone, or nothing where it draws none."""
    from matplotlib import rc_context

    with rc_context({"text.usetex": False}):  # a user's own setting would send every text through LaTeX
        figure = make()
        if figure is None:
            return []
        figure.savefig(path, dpi=96)  # as wide as MLflow's page of a run and the certificate's
    return [path]
