"""The Rényi divergence of a sampled Gaussian step under replace-one, against 40 digits and an enumeration."""

import math

import mpmath
import numpy as np
import pytest
from scipy import special

from dpbo_core.theorems.sampled_gaussian import discrete_replace_one_renyi, replace_one_renyi


def exactly(alpha, rate, sigma):
    """D_α of the pair in 40 digits, by the trapezoidal rule.

    Of a function without a singularity within πσ² of the real line its error is e^(−2π·πσ²/h) of the whole.
    """
    with mpmath.workdps(40):
        alpha, rate, sigma = (mpmath.mpf(number) for number in (alpha, rate, sigma))
        h, reach = min(sigma**2 / 4, sigma / 4), 14 * sigma

        def mixed(x, shift):
            return (1 - rate) * mpmath.npdf(x, 0, sigma) + rate * mpmath.npdf(x, shift, sigma)

        places = (h * k - reach for k in range(int((2 * alpha + 2 * reach) / h) + 1))
        integral = h * mpmath.fsum(mixed(x, 1) ** alpha * mixed(x, -1) ** (1 - alpha) for x in places)
        return float(mpmath.log(integral) / (alpha - 1))


@pytest.mark.parametrize(
    ("alpha", "rate", "sigma"),
    [(1.1, 0.5, 0.5), (1.5, 0.01, 1.0), (3.0, 0.01, 0.7), (8.0, 0.05, 1.3), (64.0, 0.2, 4.0), (2.0, 0.0001, 5.0)],
)
def test_a_sampled_step_is_priced_at_its_dominating_pair(alpha, rate, sigma):
    exact, ours = (
        price(alpha=alpha, rate=rate, **noise)
        for price, noise in ((exactly, {"sigma": sigma}), (replace_one_renyi, {"noise_multiplier": sigma}))
    )
    assert exact <= ours <= exact * (1 + 1e-9) + 3e-12
    of_integers = discrete_replace_one_renyi(
        alpha=alpha, rate=rate, noise_multiplier=sigma, sensitivity=2**20, coordinates=2.0**40
    )
    assert exact <= of_integers <= ours * (1 + 1e-9) + 1e-12


def enumerated(alpha, rate, sigma, shift):
    """D_α of one coordinate of the DISCRETE Gaussian, whose two versions lie `shift` steps on either side of 0."""
    z = np.arange(-400, 401)
    log = {s: -((z - s) ** 2) / (2 * sigma**2) for s in (-shift, 0, shift)}
    mass = special.logsumexp(log[0])
    P, Q = (np.logaddexp(math.log1p(-rate) + log[0], math.log(rate) + log[s]) - mass for s in (shift, -shift))
    return special.logsumexp(alpha * P + (1 - alpha) * Q) / (alpha - 1)


def test_of_integers_the_pair_is_false_and_its_mend_true():
    exact = enumerated(3.0, 0.01, 0.7, 1)
    assert exact == pytest.approx(0.0021831, abs=5e-8)
    assert replace_one_renyi(alpha=3.0, rate=0.01, noise_multiplier=0.7) == pytest.approx(0.0021811, abs=5e-8)
    for sigma, shift, tau in ((0.7, 1, 0.5), (0.7, 1, 0.6), (2.0, 3, 1.0), (8.0, 6, 3.0), (30.0, 40, 3.0)):
        for alpha in (1.5, 3.0, 10.0):
            for rate in (0.01, 0.3):
                bound = discrete_replace_one_renyi(
                    alpha=alpha,
                    rate=rate,
                    noise_multiplier=sigma / shift,
                    sensitivity=shift,
                    coordinates=1.0,
                    tau=tau,
                )
                assert enumerated(alpha, rate, sigma, shift) <= bound
    # noise that is all rounding
    rounding = {"noise_multiplier": 1.0, "sensitivity": 2.0, "coordinates": 1.0}
    assert discrete_replace_one_renyi(alpha=2.0, rate=0.1, **rounding) == math.inf
