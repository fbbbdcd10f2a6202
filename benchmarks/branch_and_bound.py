"""Branch and bound beside GP-UCB on samples of a Gaussian process: regret of the best evaluation so far.

python benchmarks/branch_and_bound.py        writes docs/pictures/branch_and_bound.png
"""

import sys
from pathlib import Path

import numpy as np

from dpbo_core.search.bo import UCB, BayesianSearch
from dpbo_core.search.branch_and_bound import BranchAndBound
from dpbo_core.search.gp import Posterior, SquaredExponential

PICTURE = Path(__file__).parent.parent / "docs" / "pictures" / "branch_and_bound.png"
T, SAMPLES, NOISE = 60, 20, 0.1
WORLDS = {"d = 1, N = 4,096, ℓ = 0.1": (4096, 1, 0.1), "d = 2, N = 4,096, ℓ = 0.3": (64, 2, 0.3)}


def regret(f, search, noise=0.0, seed=0):
    """max f − the best f(λ) evaluated, after each of T steps."""
    rng, seen = np.random.default_rng(seed), []
    for _ in range(T):
        index = search.ask()
        search.tell(index, f[index] + noise * rng.normal())
        seen.append(f[index])
    return f.max() - np.maximum.accumulate(seen)


def runs(n, d, lengthscale):
    """Regrets of each search, shape (SAMPLES, T)."""
    axis, kernel = np.linspace(0, 1, n), SquaredExponential(lengthscale)
    X = np.stack(np.meshgrid(*[axis] * d, indexing="ij"), axis=-1).reshape(-1, d)
    L = np.linalg.cholesky(kernel.matrix(X, X) + 1e-10 * np.eye(len(X)))
    samples = [L @ np.random.default_rng(seed).normal(size=len(X)) for seed in range(SAMPLES)]
    return {
        "branch and bound, exact": np.array([regret(f, BranchAndBound(X, kernel)) for f in samples]),
        "GP-UCB, exact": np.array([regret(f, BayesianSearch(Posterior(X, kernel, 1e-10), UCB())) for f in samples]),
        f"GP-UCB, noise σ = {NOISE}": np.array(
            [
                regret(f, BayesianSearch(Posterior(X, kernel, NOISE**2), UCB()), NOISE, i)
                for i, f in enumerate(samples)
            ]
        ),
    }


def main():
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), sharey=True, layout="constrained")
    for ax, (title, world) in zip(axes, WORLDS.items(), strict=True):
        for (name, regrets), style in zip(runs(*world).items(), ("-", "--", ":"), strict=True):
            ax.semilogy(np.arange(1, T + 1), np.maximum(regrets, 1e-9).mean(axis=0), style, label=name)
            found, first = (regrets[:, -1] < 1e-6).mean(), (regrets < 1e-6).argmax(axis=1) + 1
            middle = np.median(np.where(regrets[:, -1] < 1e-6, first, T + 1))
            sys.stdout.write(f"{title}; {name}: below 1e-6 in {found:.0%} of {SAMPLES}, median step {middle:.0f}\n")
        ax.set(title=title, xlabel="evaluations")
    axes[0].set_ylabel("mean simple regret (0 drawn as 1e-9)")
    axes[0].legend(frameon=False)
    figure.savefig(PICTURE, dpi=110)


if __name__ == "__main__":
    main()
