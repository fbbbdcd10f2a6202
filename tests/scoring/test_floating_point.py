"""Two attacks on arithmetic that succeed against the textbook, and fail against our mechanisms and sums.

Mironov (CCS 2012): the doubles that q + b·log(u) can be are not those that q′ + b·log(u) can be, so one look at the
low bits excludes a neighbour. Casacuberta et al. (CCS 2022): a running sum in floating point depends on the order
of its records, and one record can move it by more than its range.
"""

import math
import random

import numpy as np
import pytest

from dpbo_core.data import Encoded
from dpbo_core.mechanisms.laplace import DiscreteLaplace
from dpbo_core.mechanisms.noise import OperatingSystemNoise
from dpbo_core.models.linear.fit import LinearModel
from dpbo_core.models.scores.grid import GRID, to_grid
from dpbo_core.models.scores.ramp import Ramp
from dpbo_core.privacy.amounts import spent_units
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.scoring.in_memory import Objective

STEP = 2.0**-53  # of the uniform numbers a generator gives


def naive(value, scale, rng):
    """The textbook: value + Laplace noise by inversion of a uniform double."""
    u = rng.randrange(1, 2**53) * STEP
    return value + rng.choice((-1.0, 1.0)) * scale * math.log(u)


def possible(released, value, scale):
    """Whether the textbook sampler could have released this at `value`: the few uniforms about the right one."""
    k = round(math.exp(-abs(released - value) / scale) / STEP)
    return any(
        value + sign * scale * math.log(near * STEP) == released
        for sign in (-1.0, 1.0)
        for near in range(max(1, k - 64), min(2**53, k + 65))
    )


def test_low_bits_give_the_textbook_away():
    """In most releases one of two neighbouring scores is excluded with certainty, at any ε."""
    rng, scale, n = random.Random(0), 10.0, 200  # ε = 0.1
    truth, other = 0.0, 1.0
    released = [naive(truth, scale, rng) for _ in range(n)]
    assert all(possible(y, truth, scale) for y in released)
    excluded = sum(not possible(y, other, scale) for y in released)
    assert excluded >= 0.3 * n


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


def scores_of(first):
    """8 million scores just above half a float's spacing, after one record that is 0 or 1."""
    scores = np.full(8_000_000, 0.6 * 2.0**-23)
    scores[0] = first
    return scores


def test_one_record_moves_a_running_sum_by_more_than_its_range():
    """In single precision by a third more than the 1.0 that its noise is for; our sum by 1.0 to the last step."""
    low, high = scores_of(0.0), scores_of(1.0)
    sums = [float(np.cumsum(scores, dtype=np.float32)[-1]) for scores in (low, high)]
    assert sums[1] - sums[0] > 1.3
    exact = [int(to_grid(scores, 1.0, broken_score=0.0).sum()) for scores in (low, high)]
    assert exact[1] - exact[0] == GRID


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
