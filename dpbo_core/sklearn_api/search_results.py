"""What a search released, as scikit-learn keeps results, and its picture: convergence by step, scores by axis.

matplotlib is imported where a picture is asked for; it is the one drawing that a notebook asks of the core.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpbo_core.privacy.release import Release
from dpbo_core.space.search_space import Axis, Categorical

GREY, CHOICE = "#7b8794", "#c2410c"
WIDE = 3  # panels beside one another
ABSENT = object()  # a hyperparameter that a point does not have


def cv_results(points: Sequence[Mapping[str, Any]], scores: Sequence[float]) -> dict[str, Any]:
    """scikit-learn's `cv_results_` of released scores; `param_…` is masked where a point lacks it.

    Args:
        points: hyperparameters of each step, (T,).
        scores: their private scores as released, (T,).
    """
    names = sorted({name for point in points for name in point})
    columns = {f"param_{name}": _masked([point.get(name, ABSENT) for point in points]) for name in names}
    released = np.array(scores, dtype=np.float64)
    ranks = np.array([1 + int((released > score).sum()) for score in released])
    return {"params": list(points), **columns, "mean_test_score": released, "rank_test_score": ranks}


def _masked(values: list[Any]) -> Any:
    """An array of `values`, (T,), masked where one is ABSENT."""
    column: Any = np.ma.masked_all(len(values), dtype=object)  # type: ignore[no-untyped-call]
    for i, value in enumerate(values):
        if value is not ABSENT:
            column[i] = value
    return column


def draw(
    release: Release, axes: Mapping[str, Axis], points: Sequence[Mapping[str, Any]], best: Mapping[str, Any]
) -> Any:
    """A figure of pyplot: convergence by step, and the private scores by each axis.

    Args:
        release: what the search released.
        axes: that were searched, by name.
        points: hyperparameters of each step that was released, as the estimator takes them; none where only the
            choice was.
        best: the released choice, as the estimator takes it.
    """
    from matplotlib import pyplot as plt

    panels = [*([None] if points else []), *axes]
    columns = min(WIDE, len(panels))
    rows = -(-len(panels) // columns)
    figure, grid = plt.subplots(
        rows, columns, figsize=(4.2 * columns, 3.4 * rows), layout="constrained", squeeze=False
    )
    scores = [step["score"] for step in release.value["trajectory"]] if points else []
    for place, name in enumerate(panels):
        panel = grid[place // columns, place % columns]
        if name is None:
            _convergence(panel, release, scores)
        else:
            _by_axis(panel, name, axes[name], [*zip(points, scores, strict=True)], (best, release))
        panel.spines[["top", "right"]].set_visible(False)
        if place % columns == 0:
            panel.set_ylabel("private score")
    for panel in grid.flat[len(panels) :]:
        panel.set_visible(False)
    figure.suptitle(_plain(f"{release.study} · edition {release.edition} · {release.method}"), fontsize=10)
    figure.supxlabel(_plain(release.guarantee.in_words()), fontsize=8, color=GREY)
    return figure


def _convergence(panel: Any, release: Release, scores: Sequence[float]) -> None:
    """Draw the private score of each step, the best so far, and the released score with its interval."""
    steps = range(1, len(scores) + 1)
    panel.errorbar(steps, scores, yerr=release.noise_of_one, fmt="o", color=GREY, ecolor="#cbd2d9", ms=4)
    panel.step(
        steps, np.maximum.accumulate(scores), where="post", color=GREY, lw=1.2, label="best so far, as noised"
    )
    ends = release.value.get("interval")
    if ends is not None:
        panel.axhspan(*ends, color=CHOICE, alpha=0.12, lw=0)
    panel.axhline(release.value["score"], color=CHOICE, lw=1.5, label="released score")
    panel.xaxis.get_major_locator().set_params(integer=True)
    panel.set_xlabel("step (± one noise scale)")
    panel.legend(frameon=False, fontsize=8)


def _by_axis(
    panel: Any,
    name: str,
    axis: Axis,
    tried: Sequence[tuple[Mapping[str, Any], float]],
    released: tuple[Mapping[str, Any], Release],
) -> None:
    """Draw private scores over one axis, shaded by step; points that do not have it are left out."""
    best, release = released
    of_axis = [(step, point[name], score) for step, (point, score) in enumerate(tried) if name in point]
    places: Any = float
    if isinstance(axis, Categorical):
        texts = [repr(value) if not isinstance(value, str) else value for value in axis.values]
        places = {repr(value): place for place, value in enumerate(axis.values)}
        panel.set_xticks(range(len(texts)), [_plain(text) for text in texts])
        panel.set_xlim(-0.5, len(texts) - 0.5)
    else:
        if axis.log:
            panel.set_xscale("log")
        panel.set_xlim(axis.low, axis.high)

    def at(value: Any) -> float:
        return float(places[repr(value)] if isinstance(places, dict) else value)

    if of_axis:
        steps, values, scores = zip(*of_axis, strict=True)
        panel.scatter([at(value) for value in values], scores, c=steps, cmap="Greys", vmin=-len(tried), s=22)
    if name in best:
        score, ends = release.value["score"], release.value.get("interval")
        bars = None if ends is None else [[max(0.0, score - ends[0])], [max(0.0, ends[1] - score)]]
        panel.errorbar([at(best[name])], [score], yerr=bars, fmt="D", color=CHOICE, capsize=4, clip_on=False)
    panel.set_xlabel(_plain(name))


def _plain(text: str) -> str:
    """`text` with its dollars escaped, so that matplotlib reads no mathematics in it."""
    return text.replace("$", r"\$")
