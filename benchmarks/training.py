"""Fifty logistic models along a regularisation path, in arbitrary order, beside scikit-learn's solvers.

    python -m benchmarks.training [--json]

λ from 1e-4 to 10 on a log grid, shuffled. The rows are correlated Gaussian features (0.5 to the power |i − j|), or
scikit-learn's breast cancer data for 569 × 30, standardised, divided by the 95% quantile of their norms and clipped
to the unit ball, as the product's preprocessing does. Every one of our models is certified to ‖∇‖ ≤ 1e-8, and the
making of the path is counted. scikit-learn's newton-cholesky starts from its last model (tol = 1e-8, on the largest
entry of the gradient); its lbfgs starts cold and is asked for 1e-6 only, as it cannot certify more.
"""

import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.rows import Row, main, spread_row
from benchmarks.timing import in_turn, ratio
from dpbo_core.models.linear.fast_exact_scores import SignedRows
from dpbo_core.models.linear.fit import minimise
from dpbo_core.models.linear.newton import LogisticPath

LAMBDAS = np.random.default_rng(0).permutation(np.geomspace(1e-4, 10.0, 50))
PEERS = 10  # λ, every fifth of the shuffled path, that stand for the 50 of a slow peer
SIZES = ((569, 30, 8.0, 7), (100_000, 50, 4.0, 3), (10_000, 500, 1.5, 3))  # n, d, asked of lbfgs, repetitions


def rows() -> Iterator[Row]:
    warnings.filterwarnings("ignore", module="sklearn")
    for n, d, asked, repetitions in SIZES:
        X, y = table(n, d)
        peer = LAMBDAS if n < 1000 else LAMBDAS[:: len(LAMBDAS) // PEERS]
        scale = len(LAMBDAS) / len(peer)
        runs = [
            partial(path, X, y, 1e-8),
            partial(path, X, y, 1e-12),
            partial(newton_cholesky, X, y, peer),
            partial(lbfgs, X, y, peer),
        ]
        ours, finer, newton, cold = in_turn(runs, repetitions)
        each, on = f"ours {min(ours) / len(LAMBDAS) * 1e3:.3g} ms a model", f"{n:,} × {d}"
        warm = ratio([scale * s for s in newton], ours)
        yield spread_row(f"{on}: newton-cholesky, warm", warm, at_least=8.0, note=each)
        yield spread_row(f"{on}: lbfgs, cold, to 1e-6", ratio([scale * s for s in cold], ours), at_least=asked)
        yield spread_row(f"{on}: to 1e-12 instead of 1e-8", ratio(finer, ours), at_most=1.5)


def table(n: int, d: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    if n == 569:
        from sklearn.datasets import load_breast_cancer

        X, labels = load_breast_cancer(return_X_y=True)
        y = np.where(labels == 1, 1.0, -1.0)
    else:
        L = np.linalg.cholesky(0.5 ** np.abs(np.subtract.outer(np.arange(d), np.arange(d))))
        X = rng.normal(size=(n, d)) @ L.T
        signal = X @ rng.normal(size=d)
        y = np.where(signal + 0.5 * signal.std() * rng.normal(size=n) > 0, 1.0, -1.0)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    norms = np.linalg.norm(X, axis=1)
    return X / np.maximum(norms, np.quantile(norms, 0.95))[:, None], y


def path(X: Any, y: Any, gradient: float) -> None:
    """The product's trainer in its own pieces, so that the gradient and not τ_λ = ‖∇‖/λ is what is asked for."""
    signed = SignedRows.of(X, y)
    starts = LogisticPath(signed)
    for lam in LAMBDAS:
        asked = gradient / float(lam)
        model = minimise(signed, loss="logistic", regularization=lam, tolerance=asked, start=starts.start(lam))
        assert model.certificate * lam <= gradient


def newton_cholesky(X: Any, y: Any, lambdas: Any) -> None:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(
        solver="newton-cholesky", warm_start=True, fit_intercept=False, tol=1e-8, max_iter=200
    )
    for lam in lambdas:
        model.C = 1.0 / (lam * len(X))
        model.fit(X, y)


def lbfgs(X: Any, y: Any, lambdas: Any) -> None:
    from sklearn.linear_model import LogisticRegression

    for lam in lambdas:
        LogisticRegression(fit_intercept=False, tol=1e-6, max_iter=10_000, C=1.0 / (lam * len(X))).fit(X, y)


if __name__ == "__main__":
    main(rows)
