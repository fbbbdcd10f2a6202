"""Balle, Wang 2018: the exact curve of Gaussian noise, in fifty digits, and the least deviation on it."""

import mpmath as mp
import pytest

from dpbo_core.theorems.balle_wang_2018 import gaussian_sigma, theorem_8_delta

mp.mp.dps = 50


def exact(sigma, epsilon, sensitivity):
    sigma, epsilon, sensitivity = map(mp.mpf, (sigma, epsilon, sensitivity))
    half, rest = sensitivity / (2 * sigma), epsilon * sigma / sensitivity
    return mp.ncdf(half - rest) - mp.exp(epsilon) * mp.ncdf(-half - rest)


@pytest.mark.parametrize(
    ("epsilon", "delta", "known"), [(1.0, 1e-5, 3.730632), (0.1, 1e-6, None), (8.0, 1e-3, None)]
)
def test_gaussian_sigma_is_the_least_on_the_exact_curve(epsilon, delta, known):
    sigma = gaussian_sigma(epsilon=epsilon, delta=delta, sensitivity=1.0)
    if known is not None:
        assert sigma == pytest.approx(known, abs=1e-6)
    assert theorem_8_delta(sigma=sigma, epsilon=epsilon, sensitivity=1.0) <= delta
    assert float(exact(sigma, epsilon, 1.0)) == pytest.approx(delta, rel=1e-6)
    assert exact(sigma * (1 - 1e-6), epsilon, 1.0) > delta
    assert gaussian_sigma(epsilon=epsilon, delta=delta, sensitivity=7.0) == pytest.approx(7.0 * sigma)
