"""Two attacks on arithmetic that succeed against the textbook, and fail against our mechanisms and sums.

Mironov (CCS 2012): the doubles that q + b·log(u) can be are not those that q′ + b·log(u) can be, so one look at the
low bits excludes a neighbour. Casacuberta et al. (CCS 2022): a running sum in floating point depends on the order
of its records, and one record can move it by more than its range.
"""

import numpy as np
import pytest

from dpbo_core.data import Encoded
from dpbo_core.mechanisms.laplace import DiscreteLaplace
from dpbo_core.mechanisms.noise import OperatingSystemNoise
from dpbo_core.models.linear.fit import LinearModel
from dpbo_core.models.scores.grid import GRID
from dpbo_core.models.scores.ramp import Ramp
from dpbo_core.privacy.amounts import spent_units
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.scoring.in_memory import Objective


def test_low_bits_of_our_door_say_nothing():
    """Every integer can be released from every value, and neither its low bits nor its printed score differ."""
    m, sensitivity = 50, GRID
    mechanism = DiscreteLaplace(sensitivity, spent_units(1.0), 1.0 / (m * GRID))
    one, other = 35 * GRID + 1_234_567, 36 * GRID + 7
    spend, system = mechanism.spend("score"), OperatingSystemNoise()

    def draws(value):
        return np.array([mechanism.prepare(spend, system)(Sensitive(value)) for _ in range(400)])

    from scipy import stats

    drawn = [draws(value) for value in (one, other)]
    for low_bits in (2, 8, 32):
        table = [np.bincount(released % low_bits, minlength=low_bits) for released in drawn]
        assert stats.chi2_contingency(table).pvalue > 1e-6  # a false alarm in a million, each
    released = int(drawn[0][0])
    assert released * mechanism.unit / mechanism.unit == pytest.approx(
        released, abs=0.5
    )  # a score names its integer


def test_the_order_of_records_shows_in_a_float_sum_and_not_in_ours():
    rng = np.random.default_rng(0)
    m, d = 10_001, 3
    X, labels = rng.normal(size=(m, d)) / 4, rng.integers(0, 2, m)
    model, score = LinearModel(np.array([0.3, -1.7, 0.9]), 1.0, 0.0), Ramp(0.7)
    naive_sums, ours = set(), set()
    for _ in range(100):
        order = rng.permutation(m)
        records = Encoded(X[order], labels[order], np.zeros(m, dtype=bool), 2)
        naive_sums.add(float(score.phi(model.margins(records.X, records.signs)).sum()))
        ours.add(Objective(Sensitive(records), score).evaluate(model).expose())
    assert len(naive_sums) > 1
    assert len(ours) == 1
