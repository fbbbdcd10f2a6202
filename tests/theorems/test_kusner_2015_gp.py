"""Theorems 1 to 6 of Kusner et al. 2015: values by hand in 50 digits, limits, monotonicity."""

import math

import mpmath as mp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from dpbo_core.theorems import kusner_2015 as theorems

mp.mp.dps = 50
SETTINGS = pytest.mark.parametrize(
    ("N", "T", "delta", "k1", "s2", "gain"), [(64, 20, 1e-6, 0.9, 0.01, 12.5), (1000, 100, 0.05, 0.25, 1.0, 31.0)]
)


def both(theorem, **numbers):
    """As published, and corrected."""
    return (theorem(**numbers, calibration=calibration) for calibration in ("published", "corrected"))


@SETTINGS
def test_theorem_1_by_hand(N, T, delta, k1, s2, gain):
    numbers = {"n_candidates": N, "n_steps": T, "delta": delta, "dataset_similarity": k1}
    found = [*both(theorems.theorem_1_sensitivity, **numbers)]
    N, delta, k1 = map(mp.mpf, (N, delta, k1))
    c = 2 * mp.sqrt((1 - k1) * mp.log(3 * N / delta))
    beta = 2 * mp.log(N * (T + 1) ** 2 * mp.pi**2 / (3 * delta))
    tightened = 2 * mp.sqrt(2 * mp.log(3 * N / delta)) + c
    assert found == pytest.approx([float(2 * mp.sqrt(beta) + c), float(tightened)], rel=1e-12)
    assert mp.mpf(found[1]) >= tightened  # rounded up
    assert found[1] < found[0]


@SETTINGS
def test_theorem_3_by_hand(N, T, delta, k1, s2, gain):
    numbers = {"n_candidates": N, "n_steps": T, "delta": delta, "dataset_similarity": k1}
    found = [*both(theorems.theorem_3_sensitivity, **numbers, noise_variance=s2, information_gain=gain)]
    N, T, delta, k1, s2 = map(mp.mpf, (N, T, delta, k1, s2))
    C1 = 8 / mp.log(1 + 1 / s2)

    def bound(beta, c, q):
        return mp.sqrt(C1 * beta * mp.mpf(gain) / T) + c + q

    published = bound(
        2 * mp.log(N * T**2 * mp.pi**2 / (3 * delta)),
        2 * mp.sqrt((1 - k1) * mp.log(3 * N / delta)),
        mp.sqrt(s2) * mp.sqrt(8 * mp.log(3 / delta)),
    )
    corrected = bound(
        2 * mp.log(5 * N * T**2 * mp.pi**2 / (6 * delta)),
        2 * mp.sqrt((1 - k1) * mp.log(5 * N / delta)),
        mp.sqrt(2 * s2) * mp.sqrt(2) * mp.erfinv(1 - 2 * delta / (5 * T)),
    )
    assert found == pytest.approx([float(published), float(corrected)], rel=1e-11)
    assert mp.mpf(found[1]) >= corrected


def test_theorems_2_and_4_by_hand():
    bound = theorems.theorem_2_utility_bound(
        n_candidates=64, sensitivity=4.0, epsilon=2.0, failure_probability=0.01
    )
    assert bound == pytest.approx(4.0 * (math.log(64) + math.log(100)), rel=1e-14)
    given_ = {"n_candidates": 64, "n_steps": 20, "delta": 0.1, "noise_variance": 0.25, "information_gain": 9.0}
    C1, sigma = 8 / math.log(5.0), 0.5
    for calibration, q1, beta in (
        ("published", sigma * math.sqrt(8 * math.log(10)), 2 * math.log(64 * 400 * math.pi**2 / 0.3)),
        ("corrected", sigma * math.sqrt(2 * math.log(1000)), 2 * math.log(5 * 64 * 400 * math.pi**2 / 0.6)),
    ):
        noise = theorems.theorem_4_noise_bound(n_steps=20, delta=0.1, noise_variance=0.25, calibration=calibration)
        error = theorems.theorem_4_error_bound(
            noise=noise,
            regret=theorems.average_regret(**given_, calibration=calibration),
            scale=theorems.corollary_2_scale(sensitivity=3.0, epsilon=0.5),
            failure_probability=0.05,
        )
        by_hand = q1 + math.sqrt(C1 * beta * 9.0 / 20) + math.log(20) * 6.0
        assert error == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.parametrize(("T", "d"), [(20, 1), (60, 4)])
def test_theorems_5_and_6_by_hand(T, d):
    rate = 2.0 * math.exp(-T * 0.3 / math.log(T) ** (d / 4))
    c = 2 * math.sqrt(0.1 * math.log(2 * 64 / 1e-3))
    numbers = {"n_candidates": 64, "n_steps": T, "delta": 1e-3, "dataset_similarity": 0.9, "dimension": d}
    found = theorems.theorem_5_sensitivity(**numbers, rate_constant=2.0, decay_constant=0.3)
    assert found == pytest.approx(rate + c, rel=1e-12)
    error = theorems.theorem_6_error_bound(rate=rate, sensitivity=found, epsilon=2.0, failure_probability=0.1)
    assert error == pytest.approx(rate + math.log(10) * found / 2.0, rel=1e-14)


def test_what_one_record_can_do_caps_c():
    with_cap = theorems.theorem_1_sensitivity(
        n_candidates=64, n_steps=20, delta=1e-6, dataset_similarity=0.0, calibration="corrected", score_change=0.01
    )
    assert with_cap == pytest.approx(2 * math.sqrt(2 * math.log(3 * 64 / 1e-6)) + 0.01, rel=1e-12)


def test_the_published_failure_budget_is_overspent():
    """δ/2 + δ/2 + δ/3 + δ/3 > δ; and q bounds the noise at one index, where the data choose among T.

    On a flat f the best observation is the one with the largest noise, on V and on V′: 2α̂ > q with probability
    1 − Φ(q/2σ)^(2T). Exactly, and by 4,000 draws within 6 standard errors (false alarm below 1e-8).
    """
    delta, T, draws = 0.3, 50, 4000
    beta = theorems.theorem_3_beta(n_candidates=1, step=1, delta=delta, calibration="published")
    regret = math.pi**2 / 6 * math.exp(-beta / 2)  # of one data set: Σ_t N·e^{−β_t/2}
    assert 2 * regret + 2 * delta / 3 == pytest.approx(5 * delta / 3, rel=1e-12)
    q = theorems.noise_bound(n_steps=T, delta=delta, noise_variance=1.0, calibration="published")
    fails = 1 - norm.cdf(q / 2) ** (2 * T)
    assert fails == pytest.approx(0.799, abs=5e-4)  # where δ/3 = 0.1 is allowed
    largest = np.random.default_rng(0).normal(size=(draws, 2 * T)).max(axis=1)
    assert (2 * largest > q).mean() == pytest.approx(fails, abs=6 * math.sqrt(fails * (1 - fails) / draws))
    mended = theorems.noise_bound(n_steps=T, delta=delta, noise_variance=1.0, calibration="corrected")
    exceeds = 1 - quad(lambda z: norm.pdf(z) * norm.cdf(mended + z) ** T, -9, 9)[0]  # M′ − Z, of one direction
    assert 0.3 * delta / 5 < exceeds <= delta / 5


def test_theorem_3_is_proved_as_printed_up_to_a_number_of_steps():
    """By the union over T with exact normal tails; the corrected q is less than the printed one's √2 share."""
    longest = {
        (N, delta): theorems.theorem_3_longest_search(n_candidates=N, delta=delta)
        for N, delta in ((64, 0.1), (64, 0.01), (64, 1e-5), (64, 5e-7), (1, 0.1), (1, 0.9))
    }
    wanted = {(64, 0.1): 333, (64, 0.01): 4367, (64, 1e-5): 6.7e6, (64, 5e-7): 1.5e8, (1, 0.1): 293, (1, 0.9): 16}
    assert longest == pytest.approx(wanted, rel=0.02)
    N, delta, T = 64, 0.1, 333
    betas = [
        theorems.theorem_3_beta(n_candidates=N, step=t, delta=delta, calibration="published")
        for t in range(1, T + 1)
    ]
    regret = sum(2 * N * norm.sf(math.sqrt(beta)) for beta in betas)
    change = 2 * N * norm.sf(math.sqrt(2 * math.log(3 * N / delta)))
    q = theorems.noise_bound(n_steps=T, delta=delta, noise_variance=1.0, calibration="published")
    spent = 2 * T * norm.sf(q / math.sqrt(2)) + 2 * regret + change
    assert 0.99 * delta < spent <= delta
    for T in (20, 100, 10_000):
        q = theorems.noise_bound(n_steps=T, delta=1e-6, noise_variance=1.0, calibration="corrected")
        assert q <= 2 * math.sqrt(math.log(5 * T / 1e-6))
