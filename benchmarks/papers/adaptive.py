"""Wang et al.'s experiment in the shape that fits here: DP-SGD on digits, uniform against Gaussian process.

    python benchmarks/dp_hypo.py            the table, the plot, and docs/dp_hypo.md
    python benchmarks/dp_hypo.py --short    a tenth of the runs, on the terminal alone

The landscape (mean and scatter of the accuracy at every candidate) is trained once an arm and kept in a cache; a
run of the search draws its qualities from it, as the paper's semi-real simulation does. Nothing here is private:
digits is public, and the noise is seeded. Afresh it takes an hour.
"""

# ruff: noqa: E501  the page's own lines

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from dpbo_core.bo.adaptive_sampling import GaussianProcessSampler, project
from dpbo_core.data import Preprocessing, bundled
from dpbo_core.gp.kernels import kernel_named
from dpbo_core.mechanisms.noise import InjectedNoise
from dpbo_core.mechanisms.random_stopping import NegativeBinomialStopping
from dpbo_core.mechanisms.repeat_and_select import selection_epsilon
from dpbo_core.private_training.dp_sgd import DpSgd
from dpbo_core.private_training.trial import largest

ROOT = Path(__file__).parent.parent
CACHE = ROOT / "benchmarks" / ".cache"
PAGE, PICTURE = ROOT / "docs" / "dp_hypo.md", ROOT / "docs" / "pictures" / "dp_hypo.png"
GAMMAS = (0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.025, 0.03)
EPSILON, DELTA, EPOCHS, BATCH = 15.0, 1e-5, 5.0, 256
ARMS = {"uniform": (1.0, 1.0), "gaussian_process": (0.75, 2.0)}
TRAININGS = 2


@dataclass(frozen=True)
class Grid:
    """A grid of learning rates and clipping norms, as in the paper's Settings E.1 and E.2."""

    name: str
    rates: np.ndarray
    norms: np.ndarray
    gammas: tuple[float, ...]

    @property
    def points(self) -> list[dict[str, float]]:
        """All of them."""
        return [{"learning_rate": float(r), "clipping_norm": float(c)} for r in self.rates for c in self.norms]

    @property
    def encoded(self) -> np.ndarray:
        a, b = np.meshgrid(np.linspace(0, 1, len(self.rates)), np.linspace(0, 1, len(self.norms)), indexing="ij")
        return np.column_stack([a.ravel(), b.ravel()])


CONCLUSIONS = """## What to conclude

* **In the white box, uniform.** Where one ε pays for everything, log(C/c) is taken from every trial, and at c = 0.75 and
  C = 2 the search does not earn it back: uniform trials are ahead, or level within the error, at every γ above, and
  where each arm is given all of ε at each γ too ([Table 1](printed_numbers.md#wang-et-al-2023), last column). The paper's "same total budget",
  ε = 15 for both, holds at γ = 0.001 alone; there both columns are the same. `sampler = "uniform"` is the default, and
  `dpbo plan` says so of the other.
* **In the black box** a trial costs what it costs (`base_epsilon` in `[method]`, or a training function of one's own),
  and adaptivity is paid beside it. At the paper's β = 1 it gains nothing at any C, since exp(β·score) of scores between 0
  and 1 is nearly flat and its projection nearly uniform. At β = 50, C = 4, c = 1/4 it does:
  [Table 2](printed_numbers.md#wang-et-al-2023). These are the defaults where `base_epsilon` is given. They cost
  (2 + η) log(C/c), 8.3 of ε in pure terms: only worth it where ε is plenty and trainings are not.
* **An informed prior** (Appendix D, `prior` in `[method]`) costs nothing: a weight for each candidate, or what a study on
  public data found. Every bound is then about its ratio to π₀.
"""
GRIDS = (
    Grid("16 × 20", 1e-4 * 10.0 ** (np.arange(16) / 3), 0.3 * np.arange(1, 21), GAMMAS),
    # the paper's 50 × 50 starts at a clipping norm of 0, at which nothing is learned; here it starts one step up
    Grid("50 × 50", 10.0 ** (0.1 * (np.arange(50) - 49)), 2.0 * np.arange(1, 51), GAMMAS),
)


def calibrated(arm: str) -> DpSgd:
    """The trial whose selection costs ε at the smallest γ, so at most ε at every other; its quality is exact."""
    law = NegativeBinomialStopping(1.0, 1.0 / min(GAMMAS))
    n = bundled.n_records("digits") - bundled.validation_size("digits", 0.5)
    lower, upper = ARMS[arm]

    def trial(cost: float) -> DpSgd:
        return DpSgd("softmax", 1.0 / math.sqrt(cost), BATCH / n, EPOCHS)

    cost = largest(
        lambda cost: selection_epsilon(law, trial(cost).curve, lower=lower, upper=upper, delta=DELTA) <= EPSILON
    )
    assert cost is not None
    return trial(cost)


def landscape(grid: Grid, arm: str, base: DpSgd) -> tuple[np.ndarray, np.ndarray]:
    """Mean accuracy of every candidate, and the scatter of one training."""
    kept = CACHE / f"{grid.name.replace(' × ', 'x')}_{arm}_{base.noise_multiplier:.6f}.npy"
    if kept.exists():
        mean, scatter = np.load(kept)
        return mean, scatter
    tables = bundled.load("digits", 0.5)
    labels, bounds = bundled.public_facts("digits")
    prepared = Preprocessing.public(tuple(tables[0].columns), "target", labels=labels, bounds=bounds, bias=0.5)
    training, validation = (prepared.transform(table) for table in tables)
    scores = np.empty((len(grid.points), TRAININGS))
    for i, point in enumerate(grid.points):
        for r in range(TRAININGS):
            source = InjectedNoise(np.random.default_rng((i, r)))
            model = base.train(training, point | {"epochs": EPOCHS}, source)
            scores[i, r] = model.correct(validation.X, validation.labels).mean()
    CACHE.mkdir(exist_ok=True)
    mean = scores.mean(axis=1)
    scatter = np.full(len(mean), scores.std(axis=1, ddof=1).mean())
    np.save(kept, np.array([mean, scatter]))
    return mean, scatter


class MatrixPosterior:
    """The same posterior, kept as its whole covariance: O(N²) a trial, for more trials than candidates."""

    def __init__(self, covariance: np.ndarray, noise_variance: float, prior_mean: float) -> None:
        self._C, self._noise, self._seen = covariance.copy(), noise_variance, 0
        self.mean = np.full(len(covariance), prior_mean)

    def __len__(self) -> int:
        return self._seen

    @property
    def std(self) -> np.ndarray:
        return np.sqrt(np.maximum(np.diag(self._C), 0.0))

    def observe(self, index: int, value: float) -> None:
        gain = self._C[index] / (self._C[index, index] + self._noise)
        self.mean = self.mean + gain * (value - self.mean[index])
        self._C -= np.outer(gain, self._C[index])
        self._seen += 1


def one_run(grid: Grid, arm: str, mean: np.ndarray, scatter: np.ndarray, K: int, rng: np.random.Generator) -> float:
    """The mean accuracy of the candidate that the search releases."""
    N = len(mean)
    if arm == "uniform":
        tried = rng.integers(N, size=K)
        quality = mean[tried] + scatter[tried] * rng.normal(size=K)
        return float(mean[tried[np.argmax(quality)]])
    lower, upper = ARMS[arm]
    sampler = GaussianProcessSampler(
        grid.encoded,
        kernel_named("matern52", 0.3, 0.0625),
        noise_variance=float(scatter[0]) ** 2,
        prior_mean=0.5,
        prior=np.full(N, 1 / N),
        lower=lower,
        upper=upper,
        exploration=0.1,
        inverse_temperature=1.0,
    )
    if K > N:
        prior = kernel_named("matern52", 0.3, 0.0625).matrix(grid.encoded, grid.encoded)
        sampler._posterior = MatrixPosterior(prior, float(scatter[0]) ** 2, 0.5)  # type: ignore[assignment]
    best, found = -math.inf, 0.0
    for _ in range(K):
        i = min(N - 1, int(np.searchsorted(np.cumsum(sampler.density()), rng.random())))
        q = float(mean[i] + scatter[i] * rng.normal())
        sampler.tell(i, q)
        if q > best:
            best, found = q, float(mean[i])
    return found


def table(grid: Grid, runs: int) -> tuple[list[str], dict[str, list[float]]]:
    """Rows as in the paper's Table 1, and the curves."""
    bases = {arm: calibrated(arm) for arm in ARMS}
    rows = ["| | " + " | ".join(f"γ = {g:g}" for g in grid.gammas) + " |", "|---" * (len(grid.gammas) + 1) + "|"]
    curves: dict[str, list[float]] = {}
    for arm, base in bases.items():
        mean, scatter = landscape(grid, arm, base)
        cells, curves[arm] = [], []
        for g in grid.gammas:
            rng = np.random.default_rng(7)
            found = np.array([one_run(grid, arm, mean, scatter, int(rng.geometric(g)), rng) for _ in range(runs)])
            curves[arm].append(float(found.mean()))
            cells.append(f"{found.mean():.4f} ± {found.std(ddof=1) / math.sqrt(runs):.4f}")
        rows.append(
            f"| {arm}, σ = {base.noise_multiplier:.2f}, best {mean.max():.4f} | " + " | ".join(cells) + " |"
        )
    return rows, curves


def projection_times() -> list[str]:
    """Seconds for one exact projection, and for CVXOPT's with sparse and with dense matrices."""
    rows = [
        "| points | ours | CVXOPT, sparse | CVXOPT, dense | largest difference |",
        "|---|---|---|---|---|",
    ]
    for n in (320, 2500):
        rng = np.random.default_rng(0)
        density, prior = rng.dirichlet(np.full(n, 0.3)), np.full(n, 1 / n)
        arguments = {"prior": prior, "lower": 0.75, "upper": 2.0}
        own = min(_timed(partial(project, density, **arguments)) for _ in range(20))
        exact = project(density, **arguments)
        try:
            from cvxopt import matrix, solvers, spmatrix
        except ImportError:
            rows.append(f"| {n:,} | {own * 1e6:.0f} µs | not installed | | |")
            continue
        solvers.options.update(show_progress=False, abstol=1e-13, reltol=1e-13, feastol=1e-13)
        eye = spmatrix(1.0, range(n), range(n))
        box = spmatrix([1.0] * n + [-1.0] * n, range(2 * n), list(range(n)) * 2)
        h = matrix(np.concatenate([2.0 * prior, -0.75 * prior]))
        cells, off = [], 0.0
        for P, G in ((eye, box), (matrix(eye), matrix(box))):
            begun = time.perf_counter()
            solved = solvers.qp(P, matrix(-density), G, h, matrix(1.0, (1, n)), matrix(1.0))
            took = time.perf_counter() - begun
            cells.append(f"{took:.2f} s, {took / own:,.0f} ×")
            off = max(off, float(np.abs(np.array(solved["x"]).ravel() - exact).max()))
        rows.append(f"| {n:,} | {own * 1e6:.0f} µs | {' | '.join(cells)} | {off:.1e} |")
    return rows


def _timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def plot(curves: dict[str, dict[str, list[float]]]) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(GRIDS), figsize=(9, 3.2), constrained_layout=True)
    for axis, grid in zip(axes, GRIDS, strict=True):
        for arm, values in curves[grid.name].items():
            axis.semilogx(grid.gammas, values, marker="o", label=arm.replace("_", " "))
        axis.set(title=grid.name, xlabel="γ of the geometric number of trials", ylabel="accuracy released")
        axis.legend(frameon=False)
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=110)


def main(*, short: bool) -> None:
    runs = 20 if short else 200
    results = {grid.name: table(grid, runs) for grid in GRIDS}
    tables = "\n\n".join(f"{name} candidates:\n\n" + "\n".join(rows) for name, (rows, _) in results.items())
    page = f"""# Adaptive or uniform

Written by `python benchmarks/dp_hypo.py`. Wang et al. (2023) tune DP-SGD by a Gaussian process whose densities stay
between c = 0.75 and C = 2 of uniform, and pay log(C/c) for it in every trial. Here: softmax regression on
scikit-learn's digits (half of it trains, half of it scores), {EPOCHS:g} epochs at batches of {BATCH}, learning rate
× clipping norm on the paper's grids, total ε = {EPSILON:g} at δ = {DELTA:g} under replace-one for BOTH arms, by the
tightened Theorem 1 at γ = {min(GAMMAS)} (every larger γ costs less). A geometric number of trials; mean accuracy of
the released candidate over {runs} runs, ± one standard error; τ = 0.1, β = 1; qualities scatter as {TRAININGS}
trainings a candidate do. σ is the noise multiplier that the budget leaves, "best" the best candidate's accuracy at
that noise.

{tables}

![accuracy over γ](pictures/dp_hypo.png)

{CONCLUSIONS}
## One projection

{chr(10).join(projection_times())}
"""
    if short:
        sys.stdout.write(page)
        return
    plot({name: curves for name, (_, curves) in results.items()})
    PAGE.write_text(page)


if __name__ == "__main__":
    main(short="--short" in sys.argv)
