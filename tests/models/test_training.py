"""Certified training: against exact optima, scikit-learn, and enemies of the solver.

The exact optima share nothing with the solvers: 40-digit Newton for the logistic loss, and for the hinge the best
of all 3ⁿ ways in which n records can lie under, on or over the margin.
"""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import at_length

from dpbo_core.errors import StudyInvalid
from dpbo_core.models.linear import newton
from dpbo_core.models.linear.fast_exact_scores import SignedRows
from dpbo_core.models.linear.fit import LinearModel, LinearTrainer, minimise, train
from dpbo_core.models.linear.losses import (
    default_tolerance,
    gap_certificate,
    gradient_certificate,
    hessian,
    initial_loss,
    logistic,
    row_norm,
)
from dpbo_core.models.linear.newton import Start, descend, visit
from dpbo_core.models.scores.sigmoid import Sigmoid
from dpbo_core.theorems.kusner_2015 import weight_norm_bound

LAMBDAS = [1e-6, 1e-5, 1e-4, 1e-2, 1.0, 10.0, 1e3]


def rows(n, d, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X / np.maximum(np.linalg.norm(X, axis=1), 1.0)[:, None]


def gradient(Z, w, lam):
    """∇O_λ(w) of the logistic loss."""
    return lam * w + Z.T @ logistic(Z @ w)[1] / len(Z)


def world(n, d, seed=0, noise=0.3):
    """Rows in the unit ball and noisy signs."""
    rng, X = np.random.default_rng(seed + 1), rows(n, d, seed)
    return X, np.where(X @ rng.normal(size=d) + noise * rng.normal(size=n) > 0, 1.0, -1.0)


DEGENERATE = {
    "one record, one feature": (np.array([[0.6]]), np.array([-1.0])),
    "one record": (np.array([[0.6, -0.8]]), np.array([1.0])),
    "one feature": world(9, 1),
    "all rows zero": (np.zeros((6, 3)), np.array([1.0, -1.0, 1.0, 1.0, 1.0, -1.0])),
    "one class": (rows(8, 2), np.ones(8)),
    "one class dominating": (rows(8, 2), np.array([1.0] * 7 + [-1.0])),
    "duplicated rows": tuple(np.repeat(part, 3, axis=0) for part in world(3, 2)),
    "a row on both sides": (np.repeat(rows(2, 3), 2, axis=0), np.array([1.0, -1.0, 1.0, -1.0])),
    "separable": world(8, 2, noise=0.0),
    "more features than records": world(4, 7),
    "collinear": (np.outer(np.linspace(-0.5, 0.5, 8), [0.6, 0.8]), np.sign(np.arange(8) - 3.5)),
    "scales from 1e-8 to 1": (rows(7, 4) * 10.0 ** np.array([-8, -4, -1, 0]), world(7, 4)[1]),
    "tiny rows": (1e-7 * rows(6, 2), world(6, 2)[1]),
}


def exact_logistic(X, signs, lam):
    """w_λ to 40 digits: damped Newton in mpmath."""
    with mpmath.workdps(60):
        Z = mpmath.matrix((X * signs[:, None]).tolist())
        n, d, lam = Z.rows, Z.cols, mpmath.mpf(lam)
        w = mpmath.matrix(d, 1)

        def value(w):
            margins = Z * w
            return lam / 2 * (w.T * w)[0] + mpmath.fsum(mpmath.log1p(mpmath.exp(-m)) for m in margins) / n

        for _ in range(300):
            shares = [1 / (1 + mpmath.exp(m)) for m in Z * w]
            g = lam * w - Z.T * mpmath.matrix(shares) / n
            if mpmath.norm(g) < mpmath.mpf(10) ** -50:
                return w
            H = lam * mpmath.eye(d) + Z.T * mpmath.diag([c * (1 - c) for c in shares]) * Z / n
            step, length, before = mpmath.lu_solve(H, -g), mpmath.mpf(1), value(w)
            fall = (g.T * step)[0]
            while fall < -(mpmath.mpf(10) ** -45) and value(w + length * step) > before + length * fall / 1000:
                length /= 2
            w += length * step
    raise AssertionError("the oracle did not converge")


def exact_hinge(X, signs, lam):
    """w_λ in rational arithmetic: of all 3ⁿ placements, the one whose stationary point has the least objective."""
    Z = [[Fraction(float(v)) for v in row] for row in X * signs[:, None]]
    n, d, lam = len(Z), len(Z[0]), Fraction(float(lam))
    K = [[sum(a * b for a, b in zip(p, q, strict=True)) for q in Z] for p in Z]
    best, best_value = None, None
    for places in itertools.product((0, 1, None), repeat=n):  # α = 0, α = 1, or margin exactly 1
        on = [i for i in range(n) if places[i] is None]
        ones = [i for i in range(n) if places[i] == 1]
        solved = _solve([[K[i][j] for j in on] for i in on], [n * lam - sum(K[i][j] for j in ones) for i in on])
        if solved is None:  # a subset of these rows spans them: another placement has the same point
            continue
        alpha = dict.fromkeys(ones, Fraction(1)) | dict(zip(on, solved, strict=True))
        w = [sum((a * Z[i][j] for i, a in alpha.items()), Fraction(0)) / (n * lam) for j in range(d)]
        margins = [sum(a * b for a, b in zip(z, w, strict=True)) for z in Z]
        value = lam / 2 * sum(v * v for v in w) + sum(max(Fraction(0), 1 - m) for m in margins) / n
        if best_value is None or value < best_value:
            best, best_value = w, value
    with mpmath.workdps(60):
        return mpmath.matrix([mpmath.mpf(v.numerator) / v.denominator for v in best])


def _solve(A, b):
    """Gauss–Jordan over the rationals; None where A is singular."""
    k = len(A)
    M = [[*row, value] for row, value in zip(A, b, strict=True)]
    for c in range(k):
        pivot = next((r for r in range(c, k) if M[r][c] != 0), None)
        if pivot is None:
            return None
        M[c], M[pivot] = M[pivot], M[c]
        M[c] = [v / M[c][c] for v in M[c]]
        M = [row if r == c else [v - row[c] * p for v, p in zip(row, M[c], strict=True)] for r, row in enumerate(M)]
    return [row[-1] for row in M]


def distance(w, exact):
    with mpmath.workdps(60):
        return mpmath.norm(mpmath.matrix([mpmath.mpf(float(v)) for v in w]) - exact)


def audit(model, exact):
    """The certificate's one guarantee."""
    assert distance(model.weights, exact) <= model.certificate, model


@pytest.mark.parametrize("name", DEGENERATE)
def test_logistic_certificate_bounds_the_distance_to_the_exact_optimum(name):
    X, signs = DEGENERATE[name]
    for lam in LAMBDAS:
        model = train(X, signs, loss="logistic", regularization=lam)
        assert model.certificate <= 1e-6, lam
        audit(model, exact_logistic(X, signs, lam))


@pytest.mark.parametrize("name", [name for name, (X, _) in DEGENERATE.items() if len(X) <= 4])
def test_hinge_certificate_bounds_the_distance_to_the_exact_optimum(name):
    X, signs = DEGENERATE[name]
    for lam in LAMBDAS:
        model = train(X, signs, loss="hinge", regularization=lam)
        assert model.certificate <= default_tolerance("hinge", lam), lam
        audit(model, exact_hinge(X, signs, lam))


@settings(deadline=None, max_examples=at_length(40))
@given(st.integers(0, 10**6), st.floats(-6, 3), st.integers(1, 5), st.integers(1, 4), st.floats(-8, 0.5))
def test_certificates_hold_on_random_problems_at_any_tolerance(seed, log_lam, n, d, log_tolerance):
    (X, signs), lam = world(n, d, seed), 10**log_lam
    for loss, oracle in (("logistic", exact_logistic), ("hinge", exact_hinge)):
        tolerance = max(10**log_tolerance, default_tolerance(loss, lam))
        model = train(X, signs, loss=loss, regularization=lam, tolerance=tolerance)
        assert model.certificate <= tolerance
        audit(model, oracle(X, signs, lam))


@pytest.mark.parametrize("lam", LAMBDAS)
@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_the_default_tolerance_is_reached_on_enemies(loss, lam):
    enemies = [*DEGENERATE.values(), world(400, 30), world(40, 120)]
    enemies += [world(300, 5, noise=noise) for noise in (0.0, 5.0)]
    enemies += [(np.repeat(X, 20, axis=0), np.repeat(s, 20)) for X, s in [world(10, 4)]]
    enemies += [(np.eye(6)[np.arange(90) % 6], np.where(np.arange(90) % 7 < 3, 1.0, -1.0))]
    for X, signs in enemies:
        model = train(X, signs, loss=loss, regularization=lam)
        assert model.certificate <= default_tolerance(loss, lam)
        assert model.norm <= weight_norm_bound(lambda_min=lam, initial_loss=initial_loss(loss)) + model.certificate


@pytest.mark.parametrize("seed", [447, 2165, 2396, 2901])
def test_the_corrector_does_not_cycle(seed):
    """Columns of very different scales. Without one or the other safeguard the iteration never ends on these."""
    rng = np.random.default_rng(seed)
    n, d = [(10, 40), (3, 40), (10, 120)][seed % 3]
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-8, 1, size=(1, d))
    X /= np.maximum(np.linalg.norm(X, axis=1), 1.0)[:, None]
    signs, lam = np.where(rng.normal(size=n) > 0, 1.0, -1.0), 10 ** rng.uniform(-6, -4)
    assert train(X, signs, loss="hinge", regularization=lam).certificate <= default_tolerance("hinge", lam)


@pytest.mark.parametrize("seed", [212, 512, 614])
def test_the_line_search_saves_newton_on_rows_of_any_size(seed):
    """Rows of norms 1e-4 to 1e4, where full Newton steps diverge."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(5, 2)) * 10.0 ** rng.uniform(-4, 0, size=(5, 1)) * 10.0 ** rng.uniform(0, 4)
    signs, lam = np.where(rng.random(5) < rng.random(), 1.0, -1.0), 10 ** rng.uniform(-6, 0)
    audit(train(X, signs, loss="logistic", regularization=lam), exact_logistic(X, signs, lam))


def opposed(eta, d, seed):
    """Two records that differ in sign along one direction and agree by η along another: a large w, cancelling."""
    a, e = np.linalg.qr(np.random.default_rng(seed).normal(size=(d, 2)))[0].T
    return np.vstack([0.9 * a + eta * e, -0.9 * a + eta * e]), e


def test_a_certificate_covers_the_rounding_of_its_own_gradient():
    """Where the computed gradient is all rounding, it alone would guarantee too much; the certificate does not."""
    fooled = 0
    for seed in range(5):
        Z, _ = opposed(1e-3, 400, seed)
        place, certificate = descend(SignedRows(Z), 1e-6, 0.0)
        w = place.w
        with mpmath.workdps(50):
            W = mpmath.matrix(w.tolist())
            shares = [1 / (1 + mpmath.exp(m)) for m in mpmath.matrix(Z.tolist()) * W]
            exact = (
                mpmath.norm(mpmath.mpf(1e-6) * W - mpmath.matrix(Z.T.tolist()) * mpmath.matrix(shares) / 2) * 10**6
            )
        fooled += np.linalg.norm(gradient(Z, w, 1e-6)) / 1e-6 * (1 + 1e-6) < exact
        assert exact <= certificate * (1 + 1e-12)
        assert certificate < 1e-4
    assert fooled > 0


def test_a_certificate_covers_the_rounding_of_its_own_gap():
    fooled = 0
    for seed in range(16):
        Z, e = opposed(1e-7, 300, seed)
        w, alpha = 1e7 * e, np.full(2, 0.99)
        lam = float(np.linalg.norm(Z.T @ alpha / 2) / np.linalg.norm(w))
        found = gap_certificate(Z, w, alpha, regularization=lam, row_norm=row_norm(Z))
        with mpmath.workdps(50):
            W, A, L = mpmath.matrix(w.tolist()), mpmath.matrix(alpha.tolist()), mpmath.mpf(lam)
            margins, pull = mpmath.matrix(Z.tolist()) * W, mpmath.matrix(Z.T.tolist()) * A / 2
            primal = L / 2 * (W.T * W)[0] + mpmath.fsum(max(mpmath.mpf(0), 1 - m) for m in margins) / 2
            gap = primal - mpmath.fsum(A) / 2 + (pull.T * pull)[0] / (2 * L)
        short = 1.0 - Z @ w
        naive = np.mean(np.where(short > 0, (1 - alpha) * short, -alpha * short))
        naive += lam / 2 * np.linalg.norm(w - Z.T @ alpha / (2 * lam)) ** 2
        fooled += naive + 1e-12 * (1 + float(primal)) < gap
        assert mpmath.sqrt(2 * gap / L) <= found
    assert fooled > 0


@pytest.mark.parametrize(("loss", "lam"), [("logistic", 1e-6), ("hinge", 1e-4)])
def test_an_unreachable_tolerance_is_a_letter_with_the_numbers(loss, lam):
    X, signs = world(100, 4)
    asked = 1e-13 if loss == "logistic" else 1e-6
    with pytest.raises(StudyInvalid) as caught:
        train(X, signs, loss=loss, regularization=lam, tolerance=asked)
    message = caught.value.what
    assert f"lambda = {lam:g}" in message
    assert f"{asked:.2g}" in message
    reached = float(message.split("certificate of ")[1].split(";")[0])
    assert asked < reached <= 2 * default_tolerance(loss, lam)
    advised = float(caught.value.remedy.split("tolerance of ")[1].split(" ")[0])
    assert train(X, signs, loss=loss, regularization=lam, tolerance=advised).certificate <= advised


@pytest.mark.parametrize("change", [
    {"regularization": 0.0}, {"regularization": math.nan}, {"tolerance": 0.0}, {"loss": "squared"},
    {"X": [[0.1, math.nan], [0.2, 0.3]]}, {"X": np.zeros((0, 2)), "signs": []}, {"X": [0.1, 0.2]},
    {"signs": [1.0, 0.0]}, {"signs": [1.0]},
])  # fmt: skip
def test_what_cannot_be_trained_is_refused(change):
    good = {"X": [[0.1, 0.2], [0.3, 0.4]], "signs": [1.0, -1.0], "loss": "hinge", "regularization": 0.1}
    train(**good)
    with pytest.raises(StudyInvalid) as caught:
        train(**good | change)
    assert "certificate of" not in caught.value.what  # refused before any work


def test_numbers_at_the_ends_of_double_precision_end_in_a_letter_or_a_true_certificate():
    for loss in ("logistic", "hinge"):
        for X, lam in (([[1e200]], 1.0), ([[1e-200]], 1.0), ([[1.0]], 5e-324), ([[1.0]], 1e-300), ([[1.0]], 1e300)):
            try:
                model = train(X, [1.0], loss=loss, regularization=lam)
            except StudyInvalid:
                continue
            exact = (exact_logistic if loss == "logistic" else exact_hinge)(np.array(X), np.array([1.0]), lam)
            audit(model, exact)


@pytest.mark.parametrize("d", [1, 2, 7, 30, 500])
def test_a_margin_is_a_function_of_its_row_alone_to_the_last_bit(d):
    rng = np.random.default_rng(d)
    X, signs, w = rng.normal(size=(700, d)), rng.choice([-1.0, 1.0], size=700), rng.normal(size=d)
    model = LinearModel(w, 1.0, 0.0)
    together = model.margins(X, signs)
    alone = np.concatenate([model.margins(X[i : i + 1], signs[i : i + 1]) for i in range(700)])
    assert together.tobytes() == alone.tobytes()
    order = rng.permutation(700)
    assert model.margins(X[order], signs[order]).tobytes() == together[order].tobytes()
    assert model.margins(np.asfortranarray(X), signs).tobytes() == together.tobytes()
    assert model.margins(np.repeat(X, 2, axis=0)[::2], signs).tobytes() == together.tobytes()
    spoiled = X.copy()
    spoiled[::2] = rng.choice([np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324], size=spoiled[::2].shape)
    with np.errstate(all="raise"):
        assert model.margins(spoiled, signs)[1::2].tobytes() == together[1::2].tobytes()


def test_a_model_is_frozen_and_its_repr_holds_no_number_of_a_step():
    given_ = np.array([1.0, 2.0])
    model = LinearModel(given_, 0.12345, 1e-7)
    given_[0] = 99.0
    assert model.weights.tolist() == [1.0, 2.0]
    assert repr(model) == "LinearModel(d=2)"
    assert len(repr(LinearModel(np.ones(100_000), 0.12345, 1e-7))) < 30
    with pytest.raises(ValueError, match="read-only"):
        model.weights[0] = 3.0
    with pytest.raises(AttributeError):
        model.certificate = 0.0


# --- the two losses, O_λ and its derivatives, B, and the certificates' formulas, against 50-digit arithmetic

MARGINS = [0.0, 1e-320, 1e-300, 1e-17, 1e-8, 0.3, 1.0, 2.0, 17.0, 36.9, 37.0, 700.0, 745.0, 1e4, 1e300, 1.7e308]


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
    Z, w = rows(9, 4, seed=1), np.array([3.0, -1.0, 0.25, 8.0])
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
    Z, w = rows(n, d), np.linspace(-1.0, 2.0, d)
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
    Z, w, alpha = rows(n, d, seed), rng.normal(size=d) * 10**log_w, rng.uniform(-0.2, 1.2, size=n)
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
    Z, w, lam = rows(n, d, seed), rng.normal(size=d) * 10**log_w, 10**log_lam
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


# --- starts along the regularisation path save time and change no guarantee: the oracle is the cold start, since
# two certified models of one λ lie within the sum of their certificates of each other


def trainer(X, signs, tolerance=None):
    return LinearTrainer(X, signs, "logistic", Sigmoid(10.0), tolerance)


def bits(trained):
    return {lam: (model.weights.tobytes(), model.certificate) for lam, model in trained.items()}


@pytest.mark.parametrize("seed", range(2))
def test_a_model_is_the_same_whichever_were_trained_before_it(seed):
    X, signs = world(400, 7)
    lambdas = [float(lam) for lam in np.geomspace(1e-5, 30.0, 12)]
    alone = {lam: trainer(X, signs).train({"lambda": lam}) for lam in lambdas}
    order = np.random.default_rng(seed).permutation(lambdas)
    together = trainer(X.copy(order="F"), signs)
    assert bits({float(lam): together.train({"lambda": float(lam)}) for lam in order}) == bits(alone)


@pytest.mark.parametrize("name", DEGENERATE)
def test_every_model_of_the_path_is_certified_like_a_cold_one(name):
    X, signs = DEGENERATE[name]
    models = trainer(X, signs)
    for lam in LAMBDAS:
        ours, cold = models.train({"lambda": lam}), train(X, signs, loss="logistic", regularization=lam)
        assert ours.certificate <= 1e-6
        apart = np.linalg.norm(ours.weights - cold.weights)
        assert apart <= (ours.certificate + cold.certificate) * (1 + 1e-9)


@settings(max_examples=at_length(60), deadline=None)
@given(seed=st.integers(0, 10**6), log_lam=st.floats(-4, 2), scale=st.floats(-3, 4), rank=st.integers(0, 5))
def test_no_start_however_bad_changes_what_a_certificate_says(seed, log_lam, scale, rank):
    rng, (X, signs) = np.random.default_rng(seed), world(40, 5)
    A = rng.normal(size=(5, rank)) * 10.0 ** rng.uniform(-4, 2)
    lam = 10.0**log_lam
    start = Start(10.0**scale * rng.normal(size=5), newton.factored(A @ A.T, lam))
    ours = minimise(SignedRows.of(X, signs), loss="logistic", regularization=lam, start=start)
    cold = train(X, signs, loss="logistic", regularization=lam)
    assert ours.certificate <= 1e-6
    assert np.linalg.norm(ours.weights - cold.weights) <= ours.certificate + cold.certificate
