"""One decomposition of a correlation matrix serves every variance and every share of noise: what kernel fits share.

| symbol | name here | meaning | shape |
|---|---|---|---|
| R | — | correlations of the points, R = Q diag(ω) Qᵀ | (t, t) |
| ω | `omega` | eigenvalues, at least 0 | (t,) |
| Qᵀ1, Qᵀy | `one`, `rotated` | ones and values in its basis | (t,) |
| W | `weights` | eigenvalues of A⁻¹ for k choices of A = s²R + σ²I, up to a factor a choice | (k, t) |
| m | `means(…)` | of the prior, by generalised least squares: 1ᵀA⁻¹y / (1ᵀA⁻¹1 + precision) | (k,) |
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Spectrum:
    """ω, Qᵀ1 and Qᵀy."""

    omega: NDArray[np.float64]
    one: NDArray[np.float64]
    rotated: NDArray[np.float64]

    def means(self, weights: NDArray[np.float64], precision: float = 0.0) -> NDArray[np.float64]:
        """m, where `precision` is that of a prior m ~ N(0, 1/precision); 0 for none."""
        return np.asarray((weights @ (self.one * self.rotated)) / (weights @ self.one**2 + precision))

    def residuals(self, means: NDArray[np.float64]) -> NDArray[np.float64]:
        """Qᵀ(y − m1), (k, t)."""
        return self.rotated - means[:, None] * self.one


def spectrum(correlations: NDArray[np.float64], values: NDArray[np.float64]) -> Spectrum:
    """Of R (t, t) and y (t,). O(t³)."""
    omega, Q = np.linalg.eigh(correlations)
    return Spectrum(np.maximum(omega, 0.0), Q.sum(axis=0), values @ Q)
