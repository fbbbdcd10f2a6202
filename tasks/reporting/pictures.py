"""The pictures of a release: what was tried and chosen, the posterior along one axis, the noise and the budget.

The posterior is computed from released facts alone: observations, noise, kernel, axes.

| symbol | name here | meaning | shape |
|---|---|---|---|
| x | `grid` | values along one numeric axis; the other axes stand at the released choice | (n,) |
| y_t | `trajectory` scores | what was released, noise included | (T,) |
| μ ± 1.645 s | `mean`, `half_width` | the method's own posterior, kernels averaged: mean, 90% band | (n,), (n,) |
| f̂, [low, high] | `score`, `interval` | what the release says of the choice, its fresh look included | scalars |
| v, c | `variance`, `covariance` | of the posterior along the axis, and with the choice | (n,), (n,) |

The picture says of the choice what the release says: the posterior along the axis is brought to f̂ and the width of
its interval there, and follows elsewhere by its covariance (Jeffrey's rule): the band cannot contradict the number.
With prior = "public" the method also believes scores of the public training set, which no release holds: then there
is nothing to draw.
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpbo.tasks.reporting.document import in_picture, interval
from dpbo.tasks.reporting.report_document import is_report
from dpbo_core.ledger.accounting.account import Account, balances
from dpbo_core.ledger.accounting.admission import alert_share
from dpbo_core.ledger.accounting.forecast import forecast
from dpbo_core.privacy.release import LEARNED_FROM, NO_SCORE, Release, Spend, displayed_metric
from dpbo_core.search.bo import prior_of
from dpbo_core.search.estimates import CENTRE, NORMAL_90, SPREAD, KernelMixture, average
from dpbo_core.search.search_space import Axis, Categorical, Integer, Real, SearchSpace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


LAPLACE_90 = 2.302585092994046  # a Laplace variable stays within so many scales nine times in ten
INK, NOISE, CHOICE = "#1f2933", "#7b8794", "#c2410c"
MAX_CAPTION_LENGTH = 120  # characters of a caption's line
N_POINTS = 200
Moments = tuple[NDArray[np.float64], NDArray[np.float64]]
MAX_BUDGET_STEPS = 500  # studies in the picture of a budget


def draw(release: Release) -> "Figure":
    """Return the figure of a release: its scores by step and by hyperparameter, or its single score."""
    steps = "trajectory" in release.value and NO_SCORE not in release.value
    figure = sheet(4.2 if steps else 2.6)
    if steps:
        left, right = figure.subplots(1, 2, sharey=True)
        _by_step(left, release)
        _by_hyperparameter(right, release)
    else:
        _one_score(figure.subplots(), release)
    title = in_picture(f"{release.study} · edition {release.edition} · {release.method}")
    figure.suptitle(title, color=INK, fontweight="bold")
    figure.supxlabel(fill(in_picture(release.guarantee.in_words()), MAX_CAPTION_LENGTH), fontsize=8, color=NOISE)
    return figure


def _by_step(axes: "Axes", release: Release) -> None:
    points = release.value["trajectory"]
    steps, scores = [p["step"] for p in points], [p["score"] for p in points]
    scale = release.noise_of_one
    axes.errorbar(steps, scores, yerr=scale, fmt="o", color=NOISE, ecolor="#cbd2d9", ms=4)
    ends, (low, high) = [min(steps), max(steps)], release.value["interval"]
    axes.fill_between(ends, low, high, color=CHOICE, alpha=0.12, lw=0)
    axes.plot(ends, [release.value["score"]] * 2, color=CHOICE, lw=1.5, label="released score, 90% interval")
    axes.legend(frameon=False, fontsize=8)
    top = release.facts.get("score_range", 1.0)
    axes.set(xlabel=f"step; noise can carry a draw above {top:.3g}", ylabel="private score (± one noise scale)")
    whole_numbers(axes)
    plain(axes)


def _by_hyperparameter(axes: "Axes", release: Release) -> None:
    numeric = [name for name, value in release.value["hyperparameters"].items() if type(value) in (int, float)]
    if not numeric:
        axes.set_visible(False)
        return
    name = numeric[0]
    points = [p for p in release.value["trajectory"] if type(p["hyperparameters"].get(name)) in (int, float)]
    xs = [p["hyperparameters"][name] for p in points]
    axes.scatter(xs, [p["score"] for p in points], color=NOISE, s=18, label="what was tried")
    if min(xs) > 0 and max(xs) / min(xs) > 100:
        axes.set_xscale("log")
    chosen = release.value["hyperparameters"][name]
    low, high = release.value["interval"]
    score = release.value["score"]
    beside = [[max(0.0, score - low)], [max(0.0, high - score)]]  # an interval ends where scores do; noise need not
    axes.errorbar([chosen], [score], yerr=beside, fmt="D", color=CHOICE, capsize=4, label="released")
    axes.set(xlabel=in_picture(name))
    axes.legend(frameon=False, fontsize=8)
    plain(axes)


def _one_score(axes: "Axes", release: Release) -> None:
    metric = displayed_metric(release)
    if metric is None:
        axes.set_visible(False)
        return
    spread = LAPLACE_90 * release.spends[-1].noise_scale * release.score_per_unit
    low, high = metric.interval or (metric.value - spread, metric.value + spread)
    axes.axvspan(*metric.ends, color="#f5f7fa", lw=0)
    axes.errorbar(
        [metric.value],
        [0.0],
        xerr=[[max(0.0, metric.value - low)], [max(0.0, high - metric.value)]],
        fmt="D",
        color=CHOICE,
        capsize=6,
        label=f"released, {metric.value:.4g}" + (" (less is better)" if not metric.greater_is_better else ""),
    )
    if metric.baseline is not None:
        axes.axvline(
            metric.baseline, color=NOISE, ls=":", label=f"the same for every public row, {metric.baseline:.4g}"
        )
    chosen = release.value.get("hyperparameters", {})
    named = ", ".join(f"{k} = {v:.4g}" if isinstance(v, float) else f"{k} = {v}" for k, v in chosen.items())
    name = in_picture(metric.name.replace("_", " "))
    axes.set(yticks=[], xlabel=f"{name}, with its 90% interval{'; ' + in_picture(named) if named else ''}")
    axes.legend(frameon=False, fontsize=8, loc="upper center")
    plain(axes)


def sheet(height: float, width: float = 9.0, layout: Literal["constrained"] | None = "constrained") -> "Figure":
    """Return an empty figure of so many inches, apart from matplotlib's global state."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout=layout)


def whole_numbers(axes: "Axes") -> None:
    """Put the ticks of the x axis at whole numbers alone."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def plain(axes: "Axes") -> None:
    """Give axes two spines and small ticks, the style of all pictures."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=INK, labelsize=8)


@dataclass(frozen=True)
class Slice:
    """The posterior along one axis, through the released choice."""

    axis: str
    log: bool
    grid: NDArray[np.float64]
    mean: NDArray[np.float64]
    half_width: NDArray[np.float64]


def slice_through_choice(release: Release) -> Slice | None:
    """Return the posterior score along the first numeric axis, all other hyperparameters as chosen.

    None if there is no numeric axis, or if the posterior cannot be computed from the release alone.
    """
    if not _drawable(release):
        return None
    space = SearchSpace({name: _axis(table) for name, table in release.facts["space"].items()})
    numeric = [(name, axis) for name, axis in space.axes.items() if not isinstance(axis, Categorical)]
    if not numeric:
        return None
    name, axis = numeric[0]
    chosen = release.value["hyperparameters"]
    values = [axis.at(u) for u in np.linspace(0.0, 1.0, N_POINTS)]
    along = np.array([space.encode({**chosen, name: value}) for value in values])
    mean, half_width = _with_the_release(release, space, along)
    return Slice(name, axis.log, np.array(values, dtype=float), mean, half_width)


def _with_the_release(release: Release, space: SearchSpace, along: NDArray[np.float64]) -> Moments:
    """Return the posterior (mean, half width) at the encoded points `along`, given the score of the choice too.

    μ′ = μ + (c/v₀)(f̂ − μ₀) and v′ = v − (c²/v₀)(1 − w/v₀): c is the covariance with the choice, v₀ its variance,
    f̂ its stated score, and w the variance that its interval's width implies.
    """
    scale, centre = SPREAD * release.facts["score_range"], CENTRE * release.facts["score_range"]
    chosen = space.encode(release.value["hyperparameters"])[None, :]
    where = np.concatenate([along, chosen])
    mixture = _mixture(release, space)
    mean, whole = mixture.joint(where, np.zeros(len(where)))
    variance, covariance = np.diagonal(whole), whole[:, -1]
    low, high = release.value["interval"]
    released, width = (release.value["score"] - centre) / scale, ((high - low) / (2.0 * NORMAL_90 * scale)) ** 2
    prior = max(float(variance[-1]), 1e-12)
    gain = covariance[:-1] / prior
    after = np.maximum(variance[:-1] - gain * covariance[:-1] * (1.0 - width / prior), 0.0)
    return centre + scale * (mean[:-1] + gain * (released - mean[-1])), NORMAL_90 * scale * np.sqrt(after)


def _drawable(release: Release) -> bool:
    """Whether the posterior follows from this release alone: scores, a flat prior, no earlier runs' scores."""
    facts = release.facts
    complete = bool(release.value.get("trajectory")) and {"space", "kernel", "lengthscale"} <= set(facts)
    alone = facts.get("options", {}).get("prior", "flat") == "flat" and not facts.get(LEARNED_FROM)
    return complete and alone and NO_SCORE not in release.value


def _mixture(release: Release, space: SearchSpace) -> KernelMixture:
    """The posterior over kernels, in the search's units, given a release's scores, repeats averaged."""
    facts, points = release.facts, release.value["trajectory"]
    scale, centre = SPREAD * facts["score_range"], CENTRE * facts["score_range"]
    observed = np.array([space.encode(point["hyperparameters"]) for point in points])
    visited, place = np.unique(observed, axis=0, return_inverse=True)
    times = np.bincount(place.reshape(-1)).astype(np.float64)
    y = np.array([(point["score"] - centre) / scale for point in points])
    values = np.bincount(place.reshape(-1), weights=y) / times
    noise = max((release.noise_of_one / scale) ** 2, 1e-10)
    prior = prior_of(
        kernel=facts["kernel"], lengthscale=facts["lengthscale"], dimensions=space.dimensions, guessed=False
    )
    return average(visited, values, noise / times, np.zeros(len(visited)), prior)


def _axis(table: Any) -> Axis:
    if "values" in table:
        return Categorical(table["values"])
    kind = Integer if table["integer"] else Real
    return kind(table["low"], table["high"], log=table["log"])


def draw_posterior(release: Release) -> "Figure | None":
    """Return a figure of the posterior along the first numeric axis; None if the release alone does not give it."""
    cut = slice_through_choice(release)
    if cut is None:
        return None
    figure, axes = _sheet()
    most = release.facts.get("score_range", math.inf)
    low_band, high_band = (np.clip(cut.mean + sign * cut.half_width, 0.0, most) for sign in (-1.0, 1.0))
    axes.fill_between(cut.grid, low_band, high_band, color=CHOICE, alpha=0.15, lw=0)
    axes.plot(cut.grid, cut.mean, color=CHOICE, label="expected true score, 90% band")
    points = release.value["trajectory"]
    values = [point["hyperparameters"][cut.axis] for point in points]
    axes.scatter(values, [point["score"] for point in points], color=NOISE, s=14, label="one draw each")
    chosen, score, (low, high) = (release.value[key] for key in ("hyperparameters", "score", "interval"))
    beside = [[max(0.0, score - low)], [max(0.0, high - score)]]
    label = "released: quote this 90% interval"
    axes.errorbar([chosen[cut.axis]], [score], beside, fmt="D", color=INK, capsize=4, label=label)
    if cut.log:
        axes.set_xscale("log")
    name, noise = in_picture(cut.axis), release.score_per_unit * spread(release.spends[0])
    metric = in_picture(release.facts.get("score", "score")).replace("_", " ")
    edge = ", at the end of its range" * (chosen[cut.axis] in (cut.grid[0], cut.grid[-1]))
    axes.set_title(f"{name} = {chosen[cut.axis]:.3g} was chosen{edge}: {metric} {interval((low, high))} (90%)")
    axes.set_xlabel(f"{name}     (in 90% a dot's noise is within ±{noise:.2g}; the band is of the true score)")
    axes.set_ylabel(metric)
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
    axes.set(xlabel="" if by_date else f"releases {of}, in order", ylabel="ε", ylim=(0.0, 1.08 * limit))
    axes.set_title(f"Budget {of}: ε spent by all its releases together")
    if not by_date:
        whole_numbers(axes)
    axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(0.0, 0.92))
    return figure


def draw_editions(editions: list[dict[str, Any]]) -> "Figure":
    """Return a figure of the score by edition, with its 90% interval; the constant answer's is written below it."""
    figure = sheet(3.2)
    axes, places = figure.subplots(), range(len(editions))
    for place, edition in zip(places, editions, strict=True):
        bar, dot = ("90% interval", "score") if place == 0 else ("", "")
        if edition["low"] is not None:
            ends = [edition["low"], edition["high"]]
            axes.plot([place, place], ends, color=NOISE, lw=6, alpha=0.35, solid_capstyle="butt", label=bar)
        axes.plot(place, edition["value"], "o", color=CHOICE, label=dot)
    labels = [f"{in_picture(edition['edition'])}\n{edition['date'][:10]}" for edition in editions]
    axes.set_xticks([*places], labels, fontsize=8)
    axes.set(xlim=(-0.6, len(editions) - 0.4), ylabel=in_picture(editions[-1]["metric"].replace("_", " ")))
    if (constant := editions[-1]["constant answer"]) is not None:
        axes.set_xlabel(f"always the same answer: {constant:.4g} on the public records", fontsize=8)
    figure.legend(loc="outside upper center", ncols=2, frameon=False, fontsize=8)
    plain(axes)
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
        xlabel="width, in units of the score"
        + "; the interval pools all draws and ends where scores do" * (len(release.spends) > 1 and len(bars) > 2),
        title="The noise of one draw, nine times in ten, against the score's range",
    )
    return figure


def noises(release: Release) -> dict[tuple[str, float], int]:
    """Return the number of draws of each kind of noise: (mechanism, width that holds nine in ten, to 4 digits)."""
    unit = release.score_per_unit
    return Counter((spend.mechanism, float(f"{2.0 * unit * spread(spend):.4g}")) for spend in release.spends)


def spread(spend: Spend) -> float:
    """Return half the width of the interval that holds a draw with 90% probability; for a selection, its scale."""
    if "Laplace" in spend.mechanism:
        return LAPLACE_90 * spend.noise_scale
    return (NORMAL_90 if "Gaussian" in spend.mechanism else 1.0) * spend.noise_scale


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
