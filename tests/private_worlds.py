"""Small sensitive training sets."""

import numpy as np

from dpbo_core.data import Encoded


def records(n=60, d=4, n_classes=2, seed=0, separation=2.0):
    """Rows of norm at most 1 around one centre a class."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, n)
    centres = np.random.default_rng(99).normal(size=(n_classes, d))
    X = separation * centres[labels] + rng.normal(size=(n, d))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None] * (1 + 1e-12)
    return Encoded(X, labels.astype(np.int64), np.zeros(n, dtype=bool), n_classes)


def with_record(data, place, row, label):
    """The neighbour that has another record at `place`."""
    X, labels = data.X.copy(), data.labels.copy()
    X[place], labels[place] = row, label
    return Encoded(X, labels, data.broken.copy(), data.n_classes)


def a_row(rng, d):
    row = rng.normal(size=d)
    return row / np.linalg.norm(row) * rng.choice([1.0, 0.3]) / (1 + 1e-12)
