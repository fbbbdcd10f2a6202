"""The stand-in for MNIST and CIFAR-10: DP-SGD of a softmax regression on scikit-learn's digits.

Grids of learning rates and clipping norms as in the paper. A landscape (mean accuracy of every candidate at a noise
multiplier) is made as the paper makes CIFAR's: a few candidates are trained and a Gaussian process says the rest;
between noise multipliers it is interpolated. The learning rates of the 50 × 50 grid end at 1, 50 of them by a
factor of 10^0.1 as printed; the paper's text has them begin at 1e-4, which are not so many, and its figure 2 at
1e-5, as here.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from benchmarks.papers.cells import ROOT
from dpbo_core.data import Preprocessing, bundled
from dpbo_core.gp.kernels import kernel_named
from dpbo_core.gp.likelihood import fit
from dpbo_core.gp.posterior import Posterior
from dpbo_core.mechanisms.noise import InjectedNoise
from dpbo_core.private_training.dp_sgd import DpSgd

EPOCHS, BATCH, TRAINED = 5.0, 256, 64
SIGMAS = (1.95, 2.45, 3.0, 3.85, 4.8)  # noise multipliers at which landscapes are trained


@dataclass(frozen=True)
class Grid:
    """A grid of learning rates and clipping norms, as in the paper's Settings E.1 and E.2."""

    name: str
    rates: np.ndarray
    norms: np.ndarray

    @property
    def points(self) -> list[dict[str, float]]:
        """All of them."""
        return [{"learning_rate": float(r), "clipping_norm": float(c)} for r in self.rates for c in self.norms]

    @property
    def encoded(self) -> np.ndarray:
        """The same in the unit square, (N, 2)."""
        a, b = np.meshgrid(np.linspace(0, 1, len(self.rates)), np.linspace(0, 1, len(self.norms)), indexing="ij")
        return np.column_stack([a.ravel(), b.ravel()])


GRIDS = (
    Grid("16 × 20", 1e-4 * 10.0 ** (np.arange(16) / 3), 0.3 * np.arange(1, 21)),
    # the paper's 50 × 50 starts at a clipping norm of 0, at which nothing is learned; here it starts one step up
    Grid("50 × 50", 10.0 ** (0.1 * (np.arange(50) - 49)), 2.0 * np.arange(1, 51)),
)


def sampling_rate() -> float:
    """Batch over records that train."""
    return BATCH / (bundled.n_records("digits") - bundled.validation_size("digits", 0.5))


def landscape(which: int, sigma: float) -> Any:
    """Mean accuracy of every candidate at a noise multiplier, interpolated between those that were trained."""
    at = np.clip(math.log(sigma), math.log(SIGMAS[0]), math.log(SIGMAS[-1]))
    marks = np.log(SIGMAS)
    right = min(max(1, int(np.searchsorted(marks, at))), len(SIGMAS) - 1)
    share = (at - marks[right - 1]) / (marks[right] - marks[right - 1])
    return (1.0 - share) * trained(which, SIGMAS[right - 1]) + share * trained(which, SIGMAS[right])


@lru_cache(maxsize=8)
def trained(which: int, sigma: float) -> Any:
    """The posterior mean of a Gaussian process on TRAINED trained candidates, in [0, 1]; kept in a cache."""
    grid = GRIDS[which]
    kept = ROOT / "benchmarks" / ".cache" / f"papers_{which}_{sigma}.npy"
    if kept.exists():
        return np.load(kept)
    tables = bundled.load("digits", 0.5)
    labels, bounds = bundled.public_facts("digits")
    prepared = Preprocessing.public(tuple(tables[0].columns), "target", labels=labels, bounds=bounds, bias=0.5)
    training, validation = (prepared.transform(table) for table in tables)
    base = DpSgd("softmax", sigma, BATCH / len(training.X), EPOCHS)
    chosen = np.random.default_rng(0).choice(len(grid.points), TRAINED, replace=False)
    scores = []
    for i in chosen:
        source = InjectedNoise(np.random.default_rng((int(i), 0)))
        model = base.train(training, grid.points[i] | {"epochs": EPOCHS}, source)
        scores.append(float(model.correct(validation.X, validation.labels).mean()))
    y = np.array(scores)
    spread = float(y.std())
    fitted = fit(grid.encoded[chosen], (y - y.mean()) / spread, 0.01, "matern52")
    posterior = Posterior(
        grid.encoded, kernel_named("matern52", fitted.lengthscale, fitted.variance), 0.01, 0.0, TRAINED
    )
    for i, value in zip(chosen, (y - y.mean()) / spread, strict=True):
        posterior.observe(int(i), float(value))
    kept.parent.mkdir(exist_ok=True)
    np.save(kept, np.clip(posterior.mean * spread + y.mean(), 0.0, 1.0))
    return np.load(kept)
