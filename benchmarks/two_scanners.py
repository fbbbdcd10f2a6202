"""What the two studies of the README released, drawn: docs/pictures/two_scanners.png, from two real runs.

python -m benchmarks.two_scanners
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib as mpl

from dpbo_core.data.bundled import FADED_INK_SHARE
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.privacy.release import Release
from dpbo_core.study.spec import read_study
from dpbo_core.study.tuning import run_study

mpl.use("Agg")
ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "pictures" / "two_scanners.png"
STUDIES = {"chosen by private scores": "two_scanners", "chosen by public scans alone": "public_scans_alone"}
COLOURS = ("#1b9e77", "#d95f02")
DIGIT = 4  # the scan that is shown: a public one, every fourth is


def released(name: str, folder: str) -> Release:
    """The release of a study of examples/, run on a ledger of its own."""
    ledger = PrivacyLedger(f"sqlite:///{folder}/{name}.db")
    return run_study(read_study(ROOT / "examples" / f"{name}.toml"), ledger=ledger).release


def draw(releases: dict[str, Release], path: Path) -> None:
    """The scan as either hospital sees it; each study's released choice with its interval."""
    from matplotlib import pyplot as plt
    from sklearn.datasets import load_digits

    scan = load_digits().images[DIGIT]
    figure = plt.figure(figsize=(8.0, 3.4), layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=(1, 4.2))
    for row, (title, ink) in enumerate((("public scans", 1.0), ("sensitive scans", FADED_INK_SHARE))):
        panel = figure.add_subplot(grid[row, 0])
        panel.imshow(16.0 - ink * scan, cmap="gray", vmin=0.0, vmax=16.0)
        panel.set(xticks=[], yticks=[])
        panel.set_title(title, fontsize=9)
    axis = figure.add_subplot(grid[:, 1])
    for (label, release), colour in zip(releases.items(), COLOURS, strict=True):
        value = release.value
        gamma, metric = value["hyperparameters"]["gamma"], value["metric"]
        low, high = metric["interval"]
        axis.plot([gamma], [metric["value"]], "o", color=colour)
        axis.vlines(gamma, low, high, color=colour, linewidth=4, alpha=0.5)
        words = f"{label}: {metric['value']:.3f} ({low:.3f} … {high:.3f})"
        axis.annotate(
            words, (gamma, metric["value"]), (9, 0), textcoords="offset points", va="center", color=colour
        )
    baseline = release.facts["baseline"]
    axis.axhline(baseline, color="0.6", linewidth=0.8, linestyle="--")
    axis.annotate("the same digit for every scan", (0.1, baseline), ha="right", va="bottom", color="0.4")
    axis.set(
        xscale="log", xlim=(1e-5, 0.1), ylim=(0.0, 1.0), xlabel="γ of a support vector machine",
        ylabel="released accuracy (90% interval)", title="On the sensitive scans, at ε = 1 each",
    )  # fmt: skip
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=140)


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        draw({label: released(name, folder) for label, name in STUDIES.items()}, PICTURE)
