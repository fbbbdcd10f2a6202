"""The logistic objective with a linear tilt, solved to a distance that is certain.

| symbol | name here | meaning | shape |
|---|---|---|---|
| z_i | `Z` | signed rows y_i x_i, ‖z_i‖₂ ≤ 1 | (n, d) |
| λ | `regularization` | strength of the penalty | scalar > 0 |
| b | `tilt` | the linear term bᵀw/n; 0 for plain training | (d,) |
| O | — | (1/n) Σ log(1 + e^{−z_iᵀw}) + (λ/2)‖w‖² + bᵀw/n | scalar |
| τ | `tolerance` | asked bound on ‖ŵ − argmin O‖ | scalar > 0 |

A private release rests on τ for EVERY data set, so there is no failing: where Newton's certificate is not reached,
or its system is singular in doubles, accelerated gradient descent takes the number of steps after which theory
guarantees τ, whatever the rows. A λ for which these are too many, or a τ that doubles cannot certify, is refused
before anything is charged (`private_training.solving`).
"""

import math

import numpy as np
from numpy.typing import NDArray

from dpbo_core.models.linear.losses import gradient_certificate, hessian, logistic, row_norm

Vector = NDArray[np.float64]
_MAX_NEWTON_STEPS = 200  # a dozen are usual; rows that saturate, and a tilt against them, take a hundred
_MAX_HALVINGS = 40


def minimise_tilted(Z: NDArray[np.float64], regularization: float, tilt: Vector, tolerance: float) -> Vector:
    """Return w (d,) within `tolerance` of the minimiser of mean logistic loss + (λ/2)‖w‖² + bᵀw/n, b the `tilt`.

    Newton's method is tried first. If its certificate does not reach the tolerance, accelerated descent follows,
    with a number of steps that guarantees it for every data set.
    """
    w = np.zeros(Z.shape[1])
    value, gradient, curvatures, certificate = _visit(Z, w, regularization, tilt)
    for _ in range(_MAX_NEWTON_STEPS):
        if certificate <= tolerance:
            return w
        step = _newton(hessian(Z, curvatures, regularization), gradient)
        if step is None:
            break
        length, fall = 1.0, float(gradient @ step)
        for _ in range(_MAX_HALVINGS):
            tried = _visit(Z, w + length * step, regularization, tilt)
            if tried[0] <= value + 1e-4 * length * fall or tried[3] <= 0.5 * certificate:
                break
            length *= 0.5
        w = w + length * step
        value, gradient, curvatures, certificate = tried
    return w if certificate <= tolerance else _accelerated_descent(Z, regularization, tilt, tolerance)


def descent_steps(regularization: float, tilt_norm: float, n_records: int, tolerance: float) -> int:
    """Return how many steps of accelerated descent from w = 0 surely end within `tolerance`/2 of the minimiser.

    M = ¼ + λ bounds the curvature. O(w_k) − O* ≤ (1 − √(λ/M))^k (M + λ)/2 ‖w*‖² (Nesterov 2018, Theorem 2.2.3),
    O(w) − O* ≥ (λ/2)‖w − w*‖², and ‖w*‖ ≤ (1 + ‖b‖/n)/λ as λw* = −(mean of gradients of norm ≤ 1) − b/n.
    """
    M = 0.25 + regularization
    reach = (1.0 + tilt_norm / n_records) / regularization
    bits = 2.0 * math.log(max(2.0, 2.0 * reach / tolerance)) + math.log(M / regularization + 1.0)
    root = math.sqrt(regularization / M)
    # 1 − √(λ/M) without the cancellation on either side
    rate = -math.log1p(-root) if root < 0.5 else -math.log(0.25 / (M * (1.0 + root)))
    return max(1, math.ceil(bits / rate))


def _newton(curvature: NDArray[np.float64], gradient: Vector) -> Vector | None:
    """Return the Newton step −H⁻¹g; None if H is singular in doubles."""
    try:
        step: Vector = np.asarray(-np.linalg.solve(curvature, gradient), dtype=np.float64)
    except np.linalg.LinAlgError:
        return None
    return step if np.isfinite(step).all() else None


def _accelerated_descent(Z: NDArray[np.float64], regularization: float, tilt: Vector, tolerance: float) -> Vector:
    M, d = 0.25 + regularization, Z.shape[1]
    root = math.sqrt(regularization / M)
    momentum = (1.0 - root) / (1.0 + root)
    w, y = np.zeros(d), np.zeros(d)
    for _ in range(descent_steps(regularization, float(np.linalg.norm(tilt)), len(Z), tolerance)):
        _, gradient, _, certificate = _visit(Z, y, regularization, tilt)
        if certificate <= tolerance:
            return y
        before, w = w, y - gradient / M
        y = w + momentum * (w - before)
    return w


def _visit(
    Z: NDArray[np.float64], w: Vector, regularization: float, tilt: Vector
) -> tuple[float, Vector, Vector, float]:
    """Return the tilted objective at w, its gradient, each record's ℓ″, and a bound on ‖w − minimiser‖."""
    n = len(Z)
    values, slopes, curvatures = logistic(Z @ w)
    value = 0.5 * regularization * float(w @ w) + float(values.mean()) + float(tilt @ w) / n
    gradient = regularization * w + Z.T @ slopes / n + tilt / n
    certificate = gradient_certificate(
        gradient,
        w,
        regularization=regularization,
        row_norm=row_norm(Z),
        mean_slope=float(np.abs(slopes).mean()),
        summands=n,
    )
    certificate += 1e-15 * float(np.linalg.norm(tilt)) / n / regularization  # rounding of the tilt's own part
    return value, gradient, curvatures, certificate
