"""The public projection P: determined by d and r alone, so that it tells nothing of anybody.

| symbol | name here | meaning | shape |
|---|---|---|---|
| d, r | `n_columns`, `dim` | columns of the table and of its image, r ≤ d | scalars ≥ 1 |
| P | — | orthonormal columns; the identity where r = d | (d, r) |
"""

import numpy as np
from numpy.typing import NDArray


def public_projection(n_columns: int, dim: int) -> NDArray[np.float64]:
    """P, (d, min(r, d)): the first columns of the orthogonal factor of a fixed Gaussian matrix.

    A projection drawn in ignorance of the data keeps, on the average, r/d of every squared distance; the public
    choice costs nothing in privacy because the guarantee holds for every fixed P.
    """
    if dim >= n_columns:
        return np.eye(n_columns)
    fixed = np.random.default_rng((n_columns, dim)).standard_normal((n_columns, dim))
    Q, R = np.linalg.qr(fixed)
    return np.ascontiguousarray(Q * np.sign(np.diag(R)))


def spectral_norm_bound(P: NDArray[np.float64]) -> float:
    """An upper bound on ‖P‖₂ that a computer proves: ‖P‖₂² = ‖PᵀP‖₂ ≤ ‖PᵀP‖_∞, with room for rounding."""
    gram = np.abs(P.T @ P)
    return float(np.sqrt(gram.sum(axis=1).max()) * (1.0 + 1e-12) + 1e-12)
