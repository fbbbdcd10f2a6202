"""Chaudhuri, Monteleoni, Sarwate: Differentially Private Empirical Risk Minimization. JMLR 2011.

The constants derived again for replace-one, ‖x‖₂ ≤ 1 and O(w) = (1/n) Σ ℓ(y_i wᵀx_i) + (λ/2)‖w‖².

| symbol | name here | meaning | shape |
|---|---|---|---|
| n | `n_records` | training records, public | scalar ≥ 1 |
| λ | `regularization` | strong convexity of O | scalar > 0 |
| τ | `solver_tolerance` | ‖ŵ − argmin O‖ ≤ τ | scalar ≥ 0 |
| κ | `curvature` | ℓ″ ≤ κ; ¼ for the logistic loss | scalar > 0 |

Why not the printed log(1 + 2κ/(nλ) + κ²/(nλ)²) for objective perturbation: it compares the two Hessians directly
(their difference has rank 2). Both lie between H, of the n−1 common records, and H plus one rank-1 term, and
det(H + κ xxᵀ)/det H ≤ 1 + κ/(nλ): one factor is enough.
"""

import math


def corollary_8_sensitivity(*, n_records: int, regularization: float, solver_tolerance: float) -> float:
    """Return how far one record moves fitted weights: ‖ŵ − ŵ′‖₂ ≤ 2/(nλ) + 2τ if gradients are at most 1; rounded
    up.

    Source: Lemma 7 and Corollary 8, with the solver's tolerance on both sides.
    """
    return (2.0 / (n_records * regularization) + 2.0 * solver_tolerance) * (1.0 + 1e-12)


def theorem_9_jacobian(*, n_records: int, regularization: float, curvature: float) -> float:
    """Return the part log(1 + κ/(nλ)) of ε that the change of variables from noise to weights costs, rounded up.

    Source: Theorem 9, tightened as above.
    """
    return math.log1p(curvature / (n_records * regularization)) * (1.0 + 1e-12)
