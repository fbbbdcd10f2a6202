"""What the search of `make tune` has to find, and how often it finds it: docs/tables/screening.txt and a picture.

python -m benchmarks.screening [RUNS]    (a minute for 100 runs)

The study is examples/screening.toml, with the noise that it draws. A run succeeds where the exact score of the
released λ lies above the median, over draws, of the best of as many random candidates as the study has steps.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib as mpl
import numpy as np
from numpy.typing import NDArray

from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.privacy.release import Release
from dpbo_core.study import StudySpec, data_split
from dpbo_core.study.spec import read_study
from dpbo_core.study.tuning import run_study

mpl.use("Agg")
ROOT = Path(__file__).parent.parent
EXAMPLES, PICTURE = ROOT / "examples", ROOT / "docs" / "pictures" / "screening.png"
TABLE = ROOT / "docs" / "tables" / "screening.txt"
RUNS, RANDOM_DRAWS = 100, 20_000


def landscape(study: StudySpec) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Every candidate λ and its exact score on the simulated patients, each (N,)."""
    public = data_split.public_half(study, EXAMPLES)
    problem, patients = public.problem, data_split.sensitive_half(study, EXAMPLES, public)
    N = len(problem.candidates)
    exact = [patients.evaluate(problem.train(i)).expose() * problem.score_per_step for i in range(N)]
    return np.array([point["lambda"] for point in problem.candidates.points]), np.array(exact)


def released(study: StudySpec, runs: int) -> list[Release]:
    """The releases of so many editions, each with noise of its own."""
    assert study.budget is not None
    study = study.replace(budget=study.budget.replace(epsilon=10.0 * runs, delta=1e-3))
    with TemporaryDirectory() as folder:
        ledger = PrivacyLedger(f"sqlite:///{folder}/ledger.db")
        return [run_study(study.replace(edition=str(run)), ledger=ledger).release for run in range(runs)]


def draw(lambdas: NDArray[np.float64], exact: NDArray[np.float64], release: Release) -> None:
    """The exact scores, which nobody sees, and one run's private scores with their 90% intervals."""
    from matplotlib import pyplot as plt

    figure, axis = plt.subplots(figsize=(8.0, 3.6), layout="constrained")
    axis.plot(lambdas, exact, color="0.6", linewidth=1, label="exact score, not released")
    steps = release.value["trajectory"]
    at, scores = [[step[name] for step in steps] for name in ("hyperparameters", "score")]
    noise = [1.645 * spend.noise_scale for spend in release.spends[: len(steps)]]
    axis.errorbar([point["lambda"] for point in at], scores, noise, fmt="o", markersize=4, color="#1b9e77",
                  label="released: 20 private scores")  # fmt: skip
    axis.axvline(release.value["hyperparameters"]["lambda"], color="#d95f02", label="released: the chosen λ")
    axis.set(xscale="log", xlabel="λ of the regularised logistic model", ylabel="score of the patients")
    axis.legend(frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(PICTURE, dpi=140)


def main(runs: int) -> None:
    """Measure, write the table and draw the picture."""
    study = read_study(EXAMPLES / "screening.toml")
    lambdas, exact = landscape(study)
    releases, rng = released(study, runs), np.random.default_rng(0)
    T = len(releases[0].value["trajectory"])
    best_random = np.array([exact[rng.choice(len(exact), T, replace=False)].max() for _ in range(RANDOM_DRAWS)])
    places = [int(np.abs(np.log(lambdas / one.value["hyperparameters"]["lambda"])).argmin()) for one in releases]
    chosen, intervals = exact[places], np.array([one.value["interval"] for one in releases])
    covered = (intervals[:, 0] <= chosen) & (chosen <= intervals[:, 1])
    draw(lambdas, exact, releases[0])
    rows = [
        f"examples/screening.toml: {len(exact)} candidates, {T} steps, ε = {study.privacy.epsilon:g}, {runs} runs",
        f"exact score at the best λ, {lambdas[exact.argmax()]:.3g}: {exact.max():.4f}; at both ends of Λ: "
        f"{exact[0]:.4f} and {exact[-1]:.4f}",
        f"best of {T} random candidates, median of {RANDOM_DRAWS:,} draws: {np.median(best_random):.4f}",
        f"released λ above that median: {np.mean(chosen > np.median(best_random)):.0%} of the runs; loss against "
        f"the best λ: mean {np.mean(exact.max() - chosen):.5f}, largest {np.max(exact.max() - chosen):.5f}",
        f"90% interval of the released score holds the exact one: {covered.mean():.0%} of the runs",
    ]
    TABLE.write_text("\n".join(rows) + "\n")
    sys.stdout.write(TABLE.read_text())


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else RUNS)
