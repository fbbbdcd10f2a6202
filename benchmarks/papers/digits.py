"""The stand-ins for MNIST, CIFAR-10 and a federated task: DP-SGD of a softmax regression on scikit-learn's digits.

Grids of learning rates and clipping norms as in the paper. A landscape is the mean accuracy of every candidate.

white box: ten epochs at the paper's sampling rate, 256 of 60,000, which is batches of 4 of 898. Of the 16 × 20 grid
every candidate is trained five times, as in the paper; between noise multipliers it is interpolated, and candidates
and multipliers share their batches and draws. Of the 50 × 50 grid 50 are trained, as in the paper, and a Gaussian
process says the rest.
black box: five epochs of batches of 256; 64 candidates are trained and a Gaussian process says the rest.

The learning rates of the 50 × 50 grid end at 1, 50 of them by a factor of 10^0.1 as printed; the paper's text has
them begin at 1e-4, which are not so many, and its figure 2 at 1e-5, as here.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from benchmarks.papers.cells import ROOT
from dpbo.features.private_training.dp_sgd import DpSgd
from dpbo_core.data import Preprocessing, bundled
from dpbo_core.mechanisms.noise import InjectedNoise
from dpbo_core.search.gp import Posterior, kernel_named
from dpbo_core.search.likelihood import fit

EPOCHS, BATCH, REPEATS = 10, 4, 5  # of the white box
SIGMAS = (0.55, 0.6, 0.72, 0.86)  # noise multipliers at which the 16 × 20 grid is trained
BLACK_BOX = 2.45  # of the base that stays as it is
CACHE = ROOT / "benchmarks" / ".cache"


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
    """Batch over records that train, in the white box."""
    return BATCH / (bundled.n_records("digits") - bundled.validation_size("digits", 0.5))


@lru_cache(maxsize=1)
def records() -> tuple[Any, Any]:
    """Those that train and those that score."""
    tables = bundled.load("digits", 0.5)
    labels, bounds = bundled.public_facts("digits")
    prepared = Preprocessing.public(tuple(tables[0].columns), "target", labels=labels, bounds=bounds, bias=0.5)
    return prepared.transform(tables[0]), prepared.transform(tables[1])


def landscape(sigma: float) -> Any:
    """Of the 16 × 20 grid in the white box, interpolated between the noise multipliers that were trained."""
    at = np.clip(math.log(sigma), math.log(SIGMAS[0]), math.log(SIGMAS[-1]))
    marks = np.log(SIGMAS)
    right = min(max(1, int(np.searchsorted(marks, at))), len(SIGMAS) - 1)
    share = (at - marks[right - 1]) / (marks[right] - marks[right - 1])
    return (1.0 - share) * _repeated(SIGMAS[right - 1]) + share * _repeated(SIGMAS[right])


@lru_cache(maxsize=8)
def _repeated(sigma: float) -> Any:
    cache = CACHE / f"papers_white_{sigma}.npy"
    if not cache.exists():
        points = GRIDS[0].points
        scores = np.mean([accuracies(points, sigma, number) for number in range(REPEATS)], axis=0)
        cache.parent.mkdir(exist_ok=True)
        np.save(cache, scores)
    return np.load(cache)


def accuracies(points: list[dict[str, float]], sigma: float, number: int) -> Any:
    """Accuracy of every candidate after DP-SGD (N,), on the same batches and draws; the noise is no release's."""
    training, validation = records()
    rng, (n, d), K = np.random.default_rng((3, number)), training.X.shape, training.n_classes
    C = np.array([point["clipping_norm"] for point in points], np.float32)
    pace = np.array([point["learning_rate"] for point in points], np.float32) / BATCH
    W = np.zeros((d, K, len(points)), np.float32)
    for _ in range(math.ceil(EPOCHS / sampling_rate())):
        joined = rng.random(n) < sampling_rate()
        X, labels = training.X[joined].astype(np.float32), training.labels[joined]
        noise = sigma * rng.standard_normal((d, K), np.float32)
        p = np.tensordot(X, W, 1)  # records × classes × candidates, as W is columns × classes × candidates
        p = np.exp(p - p.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        p[np.arange(len(X)), labels] -= 1.0
        lengths = np.linalg.norm(X, axis=1)[:, None] * np.linalg.norm(p, axis=1)
        p *= (np.minimum(1.0, C / np.maximum(lengths, 1e-12)) * pace)[:, None]
        W -= np.tensordot(X.T, p, 1)
        W -= noise[:, :, None] * (C * pace)
    predictions = np.tensordot(validation.X.astype(np.float32), W, 1).argmax(axis=1)
    return (predictions == validation.labels[:, None]).mean(axis=0)


@lru_cache(maxsize=2)
def cifar(sigma: float) -> tuple[Any, Any]:
    """Of the 50 × 50 grid in the white box: mean and standard error of every candidate."""
    chosen = np.random.default_rng(0).choice(len(GRIDS[1].points), 50, replace=False)
    return _everywhere(GRIDS[1], chosen, accuracies([GRIDS[1].points[i] for i in chosen], sigma, 0))


@lru_cache(maxsize=1)
def black_box() -> tuple[Any, Any]:
    """Of the 16 × 20 grid in the black box: mean and standard error of every candidate."""
    grid, (training, validation), scores = GRIDS[0], records(), []
    base = DpSgd("softmax", BLACK_BOX, 256 / len(training.X), 5.0)
    chosen = np.random.default_rng(0).choice(len(grid.points), 64, replace=False)
    for i in chosen:
        source = InjectedNoise(np.random.default_rng((int(i), 0)))
        model: Any = base.train(training, grid.points[i] | {"epochs": 5.0}, source)
        scores.append(float((model.predicted(validation.X) == validation.labels).mean()))
    return _everywhere(grid, chosen, np.array(scores))


def _everywhere(grid: Grid, chosen: Any, y: Any) -> tuple[Any, Any]:
    """Mean and standard deviation of the Gaussian process on the accuracies of the chosen candidates."""
    spread = float(y.std())
    fitted = fit(grid.encoded[chosen], (y - y.mean()) / spread, 0.01, "matern52")
    kernel = kernel_named("matern52", fitted.lengthscale, fitted.variance)
    posterior = Posterior(grid.encoded, kernel, 0.01, 0.0, len(chosen))
    for i, value in zip(chosen, (y - y.mean()) / spread, strict=True):
        posterior.observe(int(i), float(value))
    return np.clip(posterior.mean * spread + y.mean(), 0.0, 1.0), posterior.std * spread
