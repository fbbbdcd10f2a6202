"""Algorithm 1 of Kharkovskii et al. (2020), to the letter, both branches. It protects nobody.

| symbol | name here | meaning | shape |
|---|---|---|---|
| X | `X` | the candidates' rows | (n, d) |
| ω | `floor` | `singular_value_floor` | scalar |
| X̃ | — | X with its singular values raised to √(σ² + ω²) | (n, d) |
| Z | — | XM/√r or X̃M/√r; M in `mechanisms/random_projection` | (n, r) |
"""

import numpy as np
from numpy.typing import NDArray

from dpbo_core.data.table import Table
from dpbo_core.data.values import numbers
from dpbo_core.privacy.guarantee import Evidence, Standing
from dpbo_core.privacy.sensitive import Sensitive

REFUTED = Evidence(
    Standing.REFUTED,
    "Kharkovskii et al. (2020), Theorem 1, is false: every published row is the same secret linear map of its own "
    "row, so whoever knows the other rows solves for the map, and for the row",
)


def algorithm_1_rows(table: Table, floor: float, order: NDArray[np.int64]) -> Sensitive[NDArray[np.float64]]:
    """The rows that M multiplies, in the published order. An unreadable entry counts as 0."""
    X = np.stack([numbers(column) for column in table.columns.values()], axis=1)
    X = np.where(np.isfinite(X) & ~table.broken[:, None], X, 0.0)
    return Sensitive(raised(X, floor)[order])


def raised(X: NDArray[np.float64], floor: float) -> NDArray[np.float64]:
    """X centred if σ_min ≥ ω, else X̃."""
    X = X - X.mean(axis=0)  # Alg. 1, line 2
    U, S, Vt = np.linalg.svd(X, full_matrices=False)  # line 4
    if S.min() >= floor:  # line 6
        return X
    lifted: NDArray[np.float64] = (U * np.sqrt(S**2 + floor**2)) @ Vt  # line 9
    return lifted
