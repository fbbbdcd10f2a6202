"""The picture of a release: what was tried and seen through the noise, and what was chosen."""

from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal

from dpbo.tasks.reporting.escaping import in_picture
from dpbo_core.privacy.release import NO_SCORE, Release, displayed_metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LAPLACE_90 = 2.302585092994046  # a Laplace variable stays within so many scales nine times in ten
INK, NOISE, CHOICE = "#1f2933", "#7b8794", "#c2410c"
MAX_CAPTION_LENGTH = 120  # characters of a caption's line


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
    _chosen(axes, release, [min(steps), max(steps)])
    axes.set(xlabel="step", ylabel="private score (± one noise scale)")
    whole_numbers(axes)
    plain(axes)


def _by_hyperparameter(axes: "Axes", release: Release) -> None:
    """Draw scores over the choice's first numeric hyperparameter; hide the axes where none is numeric."""
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


def _chosen(axes: "Axes", release: Release, ends: list[Any]) -> None:
    low, high = release.value["interval"]
    axes.fill_between(ends, low, high, color=CHOICE, alpha=0.12, lw=0)
    axes.plot(ends, [release.value["score"]] * 2, color=CHOICE, lw=1.5, label="released score, 90% interval")
    axes.legend(frameon=False, fontsize=8)


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
