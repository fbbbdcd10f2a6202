"""The analytic Gaussian, both directions: the accounting library, fifty digits, and rounding towards privacy."""

import math

import mpmath
import pytest
from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpbo_core.theorems.balle_wang_2018 import gaussian_epsilon, gaussian_sigma, theorem_8_delta


def exact_delta(sigma, epsilon, sensitivity):
    t, e = mpmath.mpf(sensitivity) / mpmath.mpf(sigma), mpmath.mpf(epsilon)
    return mpmath.ncdf(t / 2 - e / t) - mpmath.exp(e) * mpmath.ncdf(-t / 2 - e / t)


@settings(max_examples=120, deadline=None)
@example(23.96131050236567, 0.0625, 0.0625)  # in the far tail the difference loses digits
@given(st.floats(0.05, 50), st.floats(0, 20), st.floats(0.01, 10))
def test_delta_is_the_fifty_digit_one_rounded_up(sigma, epsilon, sensitivity):
    with mpmath.workdps(50):
        exact = exact_delta(sigma, epsilon, sensitivity)
        ours = theorem_8_delta(sigma=sigma, epsilon=epsilon, sensitivity=sensitivity)
        assert exact <= ours
        if exact > 1e-30:
            assert ours <= exact * (1 + 1e-6)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, math.exp(1.1), 8.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-12])
def test_sigma_agrees_with_the_library_and_keeps_its_promise(epsilon, delta):
    from dp_accounting.dp_event import GaussianDpEvent
    from dp_accounting.pld import PLDAccountant

    sigma = gaussian_sigma(epsilon=epsilon, delta=delta, sensitivity=2.5)
    with mpmath.workdps(50):
        assert exact_delta(sigma, epsilon, 2.5) <= delta
        assert exact_delta(sigma * (1 - 1e-6), epsilon, 2.5) > delta
    library = GaussianPrivacyLoss(sigma, sensitivity=2.5)
    assert library.get_delta_for_epsilon(epsilon) == pytest.approx(delta, rel=1e-5)
    assert gaussian_epsilon(sigma=sigma, delta=delta, sensitivity=2.5) == pytest.approx(epsilon, rel=1e-6)
    if delta == 1e-6 and epsilon == 1.0:
        accountant = PLDAccountant()
        accountant.compose(GaussianDpEvent(sigma / 2.5))
        assert accountant.get_epsilon(delta) == pytest.approx(epsilon, rel=1e-3)


def test_no_noise_is_needed_where_delta_covers_everything():
    assert gaussian_epsilon(sigma=1e9, delta=0.1, sensitivity=1.0) == 0.0
    for bad in ({"delta": 0.0}, {"delta": 1.0}, {"epsilon": -1.0}, {"sensitivity": 0.0}, {"epsilon": math.nan}):
        with pytest.raises(ValueError, match="δ must lie"):
            gaussian_sigma(**{"epsilon": 1.0, "delta": 1e-6, "sensitivity": 1.0} | bad)
    with pytest.raises(ValueError, match="sigma"):
        gaussian_epsilon(sigma=math.inf, delta=1e-6, sensitivity=1.0)
