"""The two losses, O_λ and its derivatives, B, and the certificates' formulas, against 50-digit arithmetic."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpbo_core.models.linear.certificates import default_tolerance, gap_certificate, gradient_certificate, row_norm
from dpbo_core.models.linear.losses import hessian, initial_loss, logistic
from dpbo_core.models.linear.newton import visit
from dpbo_core.models.linear.signed_rows import SignedRows

MARGINS = [0.0, 1e-320, 1e-300, 1e-17, 1e-8, 0.3, 1.0, 2.0, 17.0, 36.9, 37.0, 700.0, 745.0, 1e4, 1e300, 1.7e308]


def signed_rows(n, d, seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, d))
    return Z / np.maximum(np.linalg.norm(Z, axis=1), 1.0)[:, None]


def exact_objective(Z, w, lam, name):
    """O_λ(w) in 50 digits; w may hold mpmath numbers."""
    with mpmath.workdps(50):
        w = [mpmath.mpf(v) for v in w]
        total = mpmath.mpf(0)
        for z in Z:
            m = mpmath.fdot([mpmath.mpf(v) for v in z], w)
            total += mpmath.log1p(mpmath.exp(-m)) if name == "logistic" else max(mpmath.mpf(0), 1 - m)
        return mpmath.mpf(lam) / 2 * mpmath.fdot(w, w) + total / len(Z)


@pytest.mark.parametrize("margin", [*MARGINS, *(-m for m in MARGINS)])
def test_logistic_at_extreme_margins(margin):
    with mpmath.workdps(400), np.errstate(over="raise", invalid="raise", divide="raise"):
        m = mpmath.mpf(margin)
        if abs(margin) > 1e5:  # beyond exp's own range in mpmath's patience; the limits are exact
            value, slope, curvature = (max(-margin, 0.0), -1.0 if margin < 0 else 0.0, 0.0)
        else:
            value = float(mpmath.log1p(mpmath.exp(-m)))
            slope = float(-1 / (1 + mpmath.exp(m)))
            curvature = float(mpmath.exp(m) / (1 + mpmath.exp(m)) ** 2)
        found = [float(part[0]) for part in logistic(np.array([margin]))]
    assert found == pytest.approx([value, slope, curvature], rel=1e-14, abs=1e-307)


@pytest.mark.parametrize("lam", [1e-6, 0.1, 1e3])
def test_objective_and_gradient_in_fifty_digits(lam):
    Z, w = signed_rows(9, 4, seed=1), np.array([3.0, -1.0, 0.25, 8.0])
    place = visit(SignedRows(Z), w, lam)
    assert place.value == pytest.approx(float(exact_objective(Z, w, lam, "logistic")), rel=1e-14)
    for name in ("logistic", "hinge"):
        exact = float(exact_objective(Z, np.zeros(4), lam, name))
        assert initial_loss(name) == pytest.approx(exact, rel=1e-15)
    h = mpmath.mpf(10) ** -15
    with mpmath.workdps(50):
        for j in range(4):
            ahead, behind = [mpmath.mpf(v) for v in w], [mpmath.mpf(v) for v in w]
            ahead[j], behind[j] = ahead[j] + h, behind[j] - h
            difference = exact_objective(Z, ahead, lam, "logistic") - exact_objective(Z, behind, lam, "logistic")
            assert place.gradient[j] == pytest.approx(float(difference / (2 * h)), rel=1e-12, abs=1e-14)


@pytest.mark.parametrize(("n", "d"), [(1, 1), (5, 3), (9001, 3), (700, 400)])
def test_hessian_is_the_plain_formula_whatever_the_blocks(n, d):
    Z, w = signed_rows(n, d), np.linspace(-1.0, 2.0, d)
    curvatures = logistic(Z @ w)[2]
    plain = np.einsum("i,ij,ik->jk", curvatures, Z, Z, optimize=True) / n + 0.3 * np.eye(d)
    H = hessian(Z, curvatures, 0.3)
    np.testing.assert_allclose(H, plain, rtol=1e-12, atol=1e-15)


def test_default_tolerance_is_above_the_gap_floor_and_falls_with_lambda():
    lambdas = np.logspace(-6, 3, 40)
    for lam in lambdas:
        assert default_tolerance("hinge", lam) > 2 * math.sqrt(2 * 1e-12 * 2 / lam)
    assert all(np.diff([default_tolerance("hinge", lam) for lam in lambdas]) < 0)
    assert default_tolerance("logistic", 1e-6) == default_tolerance("logistic", 10.0) == 1e-6


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.floats(-6, 3), st.floats(-3, 3), st.integers(1, 6), st.integers(1, 6))
def test_gap_certificate_is_never_below_the_exact_gap(seed, log_lam, log_w, n, d):
    """P(w) − D(α) in 50 digits, in the textbook form, which the code never uses. Box violations are clipped."""
    rng = np.random.default_rng(seed)
    Z, w, alpha = signed_rows(n, d, seed), rng.normal(size=d) * 10**log_w, rng.uniform(-0.2, 1.2, size=n)
    lam = 10**log_lam
    found = gap_certificate(Z, w, alpha, regularization=lam, row_norm=row_norm(Z))
    with mpmath.workdps(50):
        a = [mpmath.mpf(float(v)) for v in np.clip(alpha, 0.0, 1.0)]
        pull = [mpmath.fdot([mpmath.mpf(float(v)) for v in Z[:, j]], a) / n for j in range(d)]
        dual = mpmath.fsum(a) / n - mpmath.fdot(pull, pull) / (2 * mpmath.mpf(lam))
        gap = exact_objective(Z, w, lam, "hinge") - dual
        assert gap >= 0
        exact = mpmath.sqrt(2 * gap / mpmath.mpf(lam))
        assert found**2 * mpmath.mpf(lam) / 2 >= gap + mpmath.mpf("0.999e-12") * (1 + dual + gap)  # MATH §1's floor
        floor = mpmath.sqrt(2 * (gap + mpmath.mpf("1.1e-12") * (1 + dual + gap)) / mpmath.mpf(lam))
        assert exact <= found <= floor * (1 + mpmath.mpf("1e-6")) + mpmath.mpf("1e-9") * exact


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.floats(-6, 3), st.floats(-3, 4), st.integers(1, 6), st.integers(1, 6))
def test_gradient_certificate_is_never_below_the_exact_gradient(seed, log_lam, log_w, n, d):
    rng = np.random.default_rng(seed)
    Z, w, lam = signed_rows(n, d, seed), rng.normal(size=d) * 10**log_w, 10**log_lam
    slopes = logistic(Z @ w)[1]
    found = gradient_certificate(
        lam * w + Z.T @ slopes / n,
        w,
        regularization=lam,
        row_norm=row_norm(Z),
        mean_slope=-float(slopes.mean()),
        summands=n,
    )
    with mpmath.workdps(50):
        W = [mpmath.mpf(float(v)) for v in w]
        g = [mpmath.mpf(lam) * v for v in W]
        for z in Z:
            row = [mpmath.mpf(float(v)) for v in z]
            c = 1 / (1 + mpmath.exp(mpmath.fdot(row, W)))
            g = [gj - c * zj / n for gj, zj in zip(g, row, strict=True)]
        exact = mpmath.norm(g) / mpmath.mpf(lam)
    assert mpmath.mpf(found) >= exact
    assert found <= float(exact) * (1 + 1e-6) + 1e-13 * (1 + np.linalg.norm(w)) * (1 + 1 / lam)
