"""Theorem 7 and 8 of Kusner et al. 2015: values by hand, limits, and the printed statement's violation."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import at_length

from dpbo_core.models.integer_sums import GRID
from dpbo_core.models.linear.fit import train
from dpbo_core.models.scores.ramp import Ramp
from dpbo_core.models.scores.sigmoid import Sigmoid
from dpbo_core.theorems import kusner_2015 as theorems

SETTING = {
    "n_validation": 285,
    "lambda_min": 1e-4,
    "lambda_max": 10.0,
    "lipschitz": 2.5,
    "score_range": 1.0,
    "solver_tolerance": 0.0,
}


def test_published_values_by_hand():
    # min(1/285, 2.5/(285e-4)) + 2.5·(10^4 − 0.1)
    by_hand = 1 / 285 + 2.5 * (1e4 - 0.1)
    assert theorems.theorem_7_sensitivity(**SETTING, calibration="published") == pytest.approx(by_hand, rel=1e-15)
    small = SETTING | {"lambda_min": 5.0, "lambda_max": 10.0, "lipschitz": 0.25, "n_validation": 10}
    by_hand = 0.25 / 50 + 0.25 * 0.1
    assert theorems.theorem_7_sensitivity(**small, calibration="published") == pytest.approx(by_hand, rel=1e-15)


def test_corrected_values_by_hand():
    assert theorems.theorem_7_sensitivity(**SETTING, calibration="corrected") == 1.0  # the cap
    small = SETTING | {"lambda_min": 5.0, "lambda_max": 10.0, "lipschitz": 0.25, "n_validation": 10}
    # B = 1/5 < √(2/5), R = 0.1, D = 0.1
    by_hand = 0.1 / 10 + 0.25 * 0.1
    assert theorems.theorem_7_sensitivity(**small, calibration="corrected") == pytest.approx(by_hand, rel=1e-14)
    people = small | {"max_records_per_person": 4, "solver_tolerance": 0.01}
    by_hand = 4 * 0.105 / 10 + 0.25 * 0.12
    assert theorems.theorem_7_sensitivity(**people, calibration="corrected") == pytest.approx(by_hand, rel=1e-14)


def test_the_published_theorem_is_violated():
    """Hinge, one training row x = e₁, y = +1, λ = 10, so w = e₁/10; the record (e₁, +1) becomes (e₁, −1)."""
    x, lam = np.array([[1.0, 0.0]]), 10.0
    model = train(x, np.array([1.0]), loss="hinge", regularization=lam)
    assert model.weights == pytest.approx([0.1, 0.0], abs=1e-4)
    score = Sigmoid(1.0)
    before, after = score.phi(model.margins(np.repeat(x, 2, 0), np.array([1.0, -1.0])))
    common = {
        "n_validation": 1,
        "lambda_min": lam,
        "lambda_max": lam,
        "lipschitz": score.lipschitz,
        "score_range": 1.0,
        "solver_tolerance": model.certificate,
    }
    moved = before - after
    assert moved == pytest.approx(0.04996, abs=1e-4)
    assert theorems.theorem_7_sensitivity(**common, calibration="published") == pytest.approx(0.025)
    assert moved > 1.9 * theorems.theorem_7_sensitivity(**common, calibration="published")
    assert moved <= theorems.theorem_7_sensitivity(**common, calibration="corrected")


def test_theorem_7_needs_a_score_that_is_constant_at_zero():
    """g = 1[y = 1] is L-Lipschitz in w for every L > 0, and one record moves its mean by 1/m."""
    y = np.arange(285) % 2
    truly = abs(np.mean(y) - np.mean([1 - y[0], *y[1:]]))
    assert truly == pytest.approx(3.5e-3, rel=0.01)
    flat = SETTING | {"lipschitz": 1e-10}
    assert theorems.theorem_7_sensitivity(**flat, calibration="published") < 1e-5
    constant = theorems.theorem_7_sensitivity(**flat, calibration="corrected")
    assert constant == pytest.approx(2.8e-8, rel=0.02)
    assert theorems.theorem_7_sensitivity(**flat, calibration="corrected", range_at_zero=1.0) >= truly
    for L in (1e-3, 1e-6, 1e-9):
        ends = flat | {"lipschitz": L, "lambda_min": 1.0, "lambda_max": 1.0}
        printed = theorems.theorem_7_sensitivity(**ends, calibration="published")
        assert truly / printed == pytest.approx(1 / L)


def test_theorem_7_needs_the_range_of_a_gain_and_not_its_maximum():
    """The gain −ramp is at most 0; Λ = {1}, w = e₁, m = 1: the record (e₁, +1) has gain −1, and (e₁, −1) has 0."""
    gains = -Ramp(1.0).phi(np.array([1.0, -1.0]))
    assert (gains.max(), gains.max() - gains.min()) == (0.0, 1.0)
    one = SETTING | {
        "n_validation": 1,
        "lambda_min": 1.0,
        "lambda_max": 1.0,
        "lipschitz": 0.5,
        "solver_tolerance": 0.0,
    }
    assert theorems.theorem_7_sensitivity(**one | {"score_range": gains.max()}, calibration="published") == 0.0
    assert theorems.theorem_7_sensitivity(**one | {"score_range": 1.0}, calibration="corrected") >= 1.0


@settings(max_examples=at_length(60))
@given(st.integers(0, 10**6), st.sampled_from(["logistic", "hinge"]))
def test_path_and_norm_bounds_hold_on_random_training_sets(seed, loss):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(int(rng.integers(1, 30)), int(rng.integers(1, 5))))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    y = np.where(rng.random(len(X)) < 0.5, -1.0, 1.0)
    lambda_min, lambda_max = sorted(np.exp(rng.uniform(np.log(1e-3), np.log(10.0), size=2)))
    a, b = (train(X, y, loss=loss, regularization=lam) for lam in (lambda_min, lambda_max))
    tau, loss0 = max(a.certificate, b.certificate), {"logistic": math.log(2), "hinge": 1.0}[loss]
    B = theorems.weight_norm_bound(lambda_min=lambda_min, initial_loss=loss0)
    D = theorems.path_length_bound(
        lambda_min=lambda_min, lambda_max=lambda_max, solver_tolerance=tau, initial_loss=loss0
    )
    assert np.linalg.norm(a.weights) <= B + tau
    assert np.linalg.norm(a.weights - b.weights) <= D


def test_integer_sensitivity_covers_the_real_one_and_stops_at_the_range():
    common = {"n_validation": 100, "score_range": 1.0, "grid": GRID}
    steps = theorems.theorem_7_integer_sensitivity(**common, path_change=0.25e-3, record_range=0.5)
    real = 0.5 / 100 + 0.25e-3
    assert real <= steps / (100 * GRID) <= real + 2 / GRID
    assert theorems.theorem_7_integer_sensitivity(**common, path_change=0.25e9, record_range=1.0) == 100 * GRID


def test_theorem_8_is_the_laplace_tail():
    bound = theorems.theorem_8_error_bound(sensitivity=0.2, epsilon=0.5, failure_probability=math.exp(-3.0))
    assert bound == pytest.approx(3 * 0.4)
    rng = np.random.default_rng(0)
    scale = theorems.corollary_4_scale(sensitivity=0.2, epsilon=0.5)
    share = np.mean(np.abs(rng.laplace(scale=scale, size=200_000)) > bound)
    assert share == pytest.approx(math.exp(-3.0), rel=0.05)  # 5 sigma: false alarm below 1e-6


def test_the_norm_bound_by_hand_and_rounded_up():
    def bound(lam, loss):
        return theorems.weight_norm_bound(lambda_min=lam, initial_loss=loss)

    assert bound(4.0, 1.0) == pytest.approx(0.25, rel=1e-14)  # 1/4 < √(1/2)
    assert bound(0.02, 1.0) == pytest.approx(10.0, rel=1e-14)  # √100 < 50
    for lam in np.logspace(-12, 12, 97):
        with mpmath.workdps(40):
            exact = min(1 / mpmath.mpf(lam), mpmath.sqrt(2 * mpmath.log(2) / mpmath.mpf(lam)))
            assert mpmath.mpf(bound(float(lam), math.log(2.0))) >= exact


def test_the_parts_by_hand():
    c = theorems.similarity_bound(n_events=192.0, delta=0.01, dataset_similarity=0.5)
    assert c == pytest.approx(2 * math.sqrt(0.5 * math.log(19200)), rel=1e-12)
    for calibration, by_hand in (
        ("published", 2 * math.log(64 * 9 * math.pi**2 / 0.3)),
        ("corrected", 2 * math.log(5 * 64 * 9 * math.pi**2 / 0.6)),
    ):
        beta = theorems.theorem_3_beta(n_candidates=64, step=3, delta=0.1, calibration=calibration)
        assert beta == pytest.approx(by_hand, rel=1e-14)
    rate = theorems.theorem_5_rate(n_steps=10, dimension=2, rate_constant=3.0, decay_constant=0.5)
    assert rate == pytest.approx(3.0 * math.exp(-5.0 / math.log(10) ** 0.5), rel=1e-14)
    assert theorems.corollary_3_scale(sensitivity=3.0, epsilon=0.5) == 6.0
