"""The outsourced search: tables 1 to 3 and Branin–Hoo of Kharkovskii et al. (2020), and the sound transform.

    python benchmarks/outsourced.py [runs] [--figure FILE.png]

One run: a function drawn from the Gaussian process on the paper's 100 × 100 grid (centred, then scaled to a largest
norm of 25), one random first row, T = 50 rows asked. The same functions and first rows serve every line. Regrets
are in units of σ_y, means over the runs with their standard errors. Seeds are fixed: the noise here is no release.

At the paper's lengthscale of 1.25 a grid 35 wide in these units holds about 800 regions of that size, more than 50
rows can search. ℓ = 6 gives the non-private regret that the paper shows, and is used here.
"""

import math
import resource
import sys
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from dpbo.features.outsourced.box import Outsourced
from dpbo.features.outsourced.geometry import image, raised
from dpbo.features.outsourced.modeler import Modeler, Prior
from dpbo_core.data.table import table_of
from dpbo_core.mechanisms.noise import InjectedNoise
from dpbo_core.privacy.guarantee import NeighboringRelation
from dpbo_core.theorems.kharkovskii_2020 import largest_projection_dim, singular_value_floor

DELTA, T, LENGTHSCALE, NOISE = 1e-5, 50, 6.0, 1e-5
TABLES = {1.1: (3, 6, 8, 10, 15, 20), 1.3: (3, 9, 12, 15, 20, 30), 1.5: (5, 10, 15, 20, 30, 50)}
PRINTED = {
    1.1: (0.073, 0.038, 0.018, 0.014, 0.118, 0.137),
    1.3: (0.091, 0.009, 0.019, 0.008, 0.127, 0.134),
    1.5: (0.05, 0.021, 0.003, 0.002, 0.094, 0.142),
}


@dataclass(frozen=True)
class Task:
    """A finite table and its drawn or given function, zero mean and unit variance."""

    X: Any
    f: Any
    lengthscale: float


def smallest(X: Any) -> float:
    """The smallest singular value σ_min."""
    return float(np.linalg.svd(X, compute_uv=False).min())


def grid() -> Any:
    axis = np.arange(100.0)
    X = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    X -= X.mean(axis=0)
    return X * (25.0 / np.linalg.norm(X, axis=1).max())


def drawn(X: Any, rng: Any, lengthscale: float) -> Task:
    """A draw of the Gaussian process: the kernel is a product, so its root is a product of two."""
    axis = np.unique(X[:, 0].round(12))
    K = np.exp(-0.5 * (axis[:, None] - axis) ** 2 / lengthscale**2)
    omega, Q = np.linalg.eigh(K)
    root = Q * np.sqrt(np.maximum(omega, 0.0))
    return Task(X, (root @ rng.standard_normal((len(axis), len(axis))) @ root.T).ravel(), lengthscale)


def branin(X: Any) -> Task:
    """Branin–Hoo, negated and standardised, on the grid's rectangle; its lengthscale by maximum likelihood."""
    u = (X - X.min(axis=0)) / (X.max(axis=0) - X.min(axis=0))
    a, b = 15.0 * u[:, 0] - 5.0, 15.0 * u[:, 1]
    f = (b - 5.1 * a**2 / (4 * np.pi**2) + 5 * a / np.pi - 6) ** 2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(a) + 10
    f = (f.mean() - f) / f.std()
    from scipy.stats import multivariate_normal

    from dpbo_core.search.gp import SquaredExponential

    some = np.random.default_rng(0).choice(len(X), 200, replace=False)
    tried = np.geomspace(2.0, 20.0, 20)
    covariances = (SquaredExponential(float(at)).matrix(X[some], X[some]) + 1e-4 * np.eye(200) for at in tried)
    fits = [multivariate_normal(np.zeros(200), K).logpdf(f[some]) for K in covariances]
    return Task(X, f, float(tried[int(np.argmax(fits))]))


@dataclass(frozen=True)
class Plain:
    """The rows themselves."""

    def __call__(self, X: Any, _: Any) -> tuple[Any, float]:
        return X, 0.0


@dataclass(frozen=True)
class Published:
    """The paper's transform, by its own price."""

    epsilon: float
    r: int
    delta: float = DELTA

    @property
    def floor(self) -> float:
        """ω."""
        return singular_value_floor(epsilon=self.epsilon, delta=self.delta, projection_dim=self.r)

    def lifts(self, X: Any) -> bool:
        """Whether σ_min of the centred table is under ω, so that all its singular values are raised."""
        return smallest(X) < self.floor

    def __call__(self, X: Any, rng: Any) -> tuple[Any, float]:
        return raised(X, self.floor) @ rng.standard_normal((X.shape[1], self.r)) / math.sqrt(self.r), 0.0


@dataclass(frozen=True)
class Sound:
    """The gaussian transform at the paper's relation; its noise is told to the modeller."""

    epsilon: float
    delta: float = DELTA

    def __call__(self, X: Any, rng: Any) -> tuple[Any, float]:
        box = Outsourced(self.epsilon, self.delta, relation=NeighboringRelation.ROW_MOVES_BY_ONE)
        mechanism = box.mechanism(*X.shape)
        Q = image(table_of({f"x{j}": column for j, column in enumerate(X.T)}), box.geometry(X.shape[1]))
        rows = mechanism.prepare(mechanism.spend("table"), InjectedNoise(rng))(Q)
        return rows * mechanism.unit, mechanism.scale * mechanism.unit


def curve(task: Task, Z: Any, rng: Any, noise_scale: float, steps: int = T) -> Any:
    """Simple regret after each step, (steps,)."""
    first, exact = int(rng.integers(len(Z))), task.f
    modeler = Modeler(Z, noise_scale=noise_scale, prior=Prior(task.lengthscale, 1.0, NOISE))
    seen, row = [], first
    for _ in range(steps):
        modeler.tell(row, float(exact[row] + math.sqrt(NOISE) * rng.standard_normal()))
        seen.append(exact[row])
        row = modeler.suggest()
    return exact.max() - np.maximum.accumulate(seen)


def curves(tasks: list[Task], make: Any) -> Any:
    """(runs, T): `make(X, rng)` gives the table and its noise scale."""
    regrets = []
    for number, task in enumerate(tasks):
        Z, noise = make(task.X, np.random.default_rng((2, number)))
        regrets.append(curve(task, Z, np.random.default_rng((1, number)), noise))
    return np.array(regrets)


def in_words(regrets: Any) -> str:
    last = regrets[:, -1]
    return f"{last.mean():.3f} ± {last.std(ddof=1) / math.sqrt(len(last)):.3f}"


def main(runs: int, figure: str | None) -> None:
    X = grid()
    sigma_min = smallest(X)
    tasks = [drawn(X, np.random.default_rng((0, number)), LENGTHSCALE) for number in range(runs)]
    plain = curves(tasks, Plain())
    print(f"{runs} runs, T = {T}, ℓ = {LENGTHSCALE:g}; σ_min = {sigma_min:.2f}; non-private {in_words(plain)}\n")
    for log_epsilon, dims in TABLES.items():
        epsilon = math.exp(log_epsilon)
        largest = largest_projection_dim(epsilon=epsilon, delta=DELTA, singular_value=sigma_min)
        print(f"ε = e^{log_epsilon}: largest r with σ_min ≥ ω is {largest}")
        for r, printed in zip(dims, PRINTED[log_epsilon], strict=True):
            regrets = curves(tasks, Published(epsilon, r))
            mark = "  (lifted)" if Published(epsilon, r).lifts(X) else ""
            print(f"  published r = {r:2d}   {in_words(regrets)}   the paper {printed:.3f}{mark}", flush=True)
        regrets = curves(tasks, Sound(epsilon))
        more = (regrets - plain)[:, -1].mean()
        print(f"  sound              {in_words(regrets)}   more than non-private: {more:.3f}\n")
    hoo = [branin(X)] * runs
    print(f"Branin–Hoo, ℓ = {hoo[0].lengthscale:.1f}: non-private {in_words(curves(hoo, Plain()))}")
    for log_epsilon in (0.0, 1.1, 2.0):
        epsilon = math.exp(log_epsilon)
        theirs = curves(hoo, Published(epsilon, 10))
        ours = curves(hoo, Sound(epsilon))
        print(f"  ε = e^{log_epsilon}: published r = 10 {in_words(theirs)}, sound {in_words(ours)}", flush=True)
    wide = [drawn(X, np.random.default_rng((0, number)), 8.0) for number in range(runs)]
    goal, free = curves(wide, Sound(math.exp(1.1))), curves(wide, Plain())
    print(f"\nℓ = 8, ε = e^1.1: sound {in_words(goal)}, non-private {in_words(free)}", end="")
    print(f", difference {(goal - free)[:, -1].mean():.3f} ± {(goal - free)[:, -1].std() / math.sqrt(runs):.3f}")
    sizes()
    if figure:
        draw(figure, tasks, plain)


def sizes() -> None:
    """Seconds of processor time for 50 steps of the modeller, and the memory of the process so far."""
    for n, d, prior in (
        (36_000, 3, None),
        (36_000, 3, Prior(0.3, 1.0, 1e-4)),
        (1_000_000, 10, Prior(0.3, 1.0, 1e-4)),
    ):
        Z = np.random.default_rng(0).random((n, d))
        f, begun = np.sin(4 * Z).sum(axis=1), time.process_time()
        modeler = Modeler(Z, noise_scale=0.05, prior=prior)
        for _ in range(T):
            row = modeler.suggest()
            modeler.tell(row, float(f[row]))
        seconds = time.process_time() - begun
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(f"{n:9,} rows of {d}, {'fitted' if prior is None else 'known'} prior: {seconds:.2f} s, {peak:.2f} GB")


def draw(path: str, tasks: list[Task], plain: Any) -> None:
    import matplotlib.pyplot as plt

    picture, axes = plt.subplots(1, 3, figsize=(10, 3.2), sharey=True, layout="constrained")
    for axis, (name, epsilon) in zip(axes, (("1", 1.0), ("3", 3.0), ("e²", math.e**2)), strict=True):
        lines = {
            "non-private": plain,
            "published, r = 10 (not private)": curves(tasks, Published(epsilon, 10)),
            "sound": curves(tasks, Sound(epsilon)),
        }
        print(
            f"ε = {name}: " + "; ".join(f"{label} {in_words(regrets)}" for label, regrets in lines.items()),
            flush=True,
        )
        for label, regrets in lines.items():
            axis.plot(range(1, T + 1), regrets.mean(axis=0), label=label)
        axis.set(title=f"ε = {name}", xlabel="rows asked", yscale="log")
    axes[0].set_ylabel("simple regret / σ_y")
    axes[0].legend(frameon=False, fontsize=8)
    picture.savefig(path, dpi=110)


if __name__ == "__main__":
    words = sys.argv[1:]
    where = words.pop(words.index("--figure") + 1) if "--figure" in words else None
    numbers = [int(word) for word in words if word.isdigit()]
    with threadpool_limits(1):
        main(numbers[0] if numbers else 50, where)
