"""Noise on a released accuracy by the number of validation records: docs/pictures/noise.png, from plans alone.

python -m benchmarks.noise
"""

from pathlib import Path

import matplotlib as mpl
import numpy as np

from dpbo_core.study import StudySpec
from dpbo_core.study.resolve import plan_study

mpl.use("Agg")
PICTURE = Path(__file__).parent.parent / "docs" / "pictures" / "noise.png"
SIZES = np.unique(np.geomspace(30, 100_000, 15).astype(int))
EPSILONS = (0.5, 1.0, 2.0)
KINDS = {"private_trajectory": 1.0, "private_grid": np.sqrt(2.0)}  # the deviation of noise of scale 1


def deviation(method: str, n_validation: int, epsilon: float) -> float:
    """The standard deviation of the noise on the released score."""
    tables = {
        "study": {"name": "sizes", "method": method},
        "privacy": {"dataset": "sizes", "epsilon": epsilon, "delta": 1e-6},
        "data": {"training": "t.csv", "validation": "v.csv", "n_validation": n_validation, "target": "y"},
        "model": {"estimator": "logistic", "score": "accuracy"},
        "space": {"lambda": {"low": 1e-4, "high": 10.0, "log": True, "points": 20}},
    }
    return KINDS[method] * plan_study(StudySpec.from_dict(tables)).spends[-1].noise_scale


def draw(path: Path) -> None:
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7.0, 3.8), layout="constrained")
    for (method, style), shade in ((pair, e) for pair in zip(KINDS, ("-", "--"), strict=True) for e in EPSILONS):
        values = [deviation(method, int(n), shade) for n in SIZES]
        colour = f"C{EPSILONS.index(shade)}"
        axes.plot(SIZES, values, style, color=colour, label=f"{method}, ε = {shade:g}")
    axes.axhline(0.01, color="0.6", linewidth=0.8)
    axes.annotate("one per cent", (SIZES[-1], 0.01), ha="right", va="bottom", color="0.4")
    axes.set(xscale="log", yscale="log", xlabel="validation records", ylabel="standard deviation of the noise",
             title="Noise on the released accuracy, δ = 1e-6, 20 steps or candidates")  # fmt: skip
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    draw(PICTURE)
