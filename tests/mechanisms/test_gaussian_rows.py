"""Noise on a whole table: its law, its price, its refusals, and that it is drawn at once."""

import math

import numpy as np
import pytest
from scipy import stats
from worlds import Memory

from dpbo_core.errors import MechanismRefused, StudyInvalid
from dpbo_core.mechanisms.gaussian_rows import GaussianRows, StoredRows
from dpbo_core.mechanisms.noise import InjectedNoise, Noise, OperatingSystemNoise
from dpbo_core.privacy.sensitive import Sensitive

RHO = 250_000_000_000  # a quarter


def test_every_entry_carries_its_own_discrete_gaussian():
    """chi-square over all entries and over shifted products; each false alarm below 1e-5."""
    rows = GaussianRows(3.0, RHO, 0.5, (2000, 5))
    spend = rows.spend("table")
    sigma = 3.0 / math.sqrt(0.5)
    assert rows.scale == pytest.approx(sigma)
    assert spend.noise_scale == pytest.approx(sigma * 0.5)
    assert spend.rho == 0.25
    assert spend.epsilon == math.inf
    table = np.arange(10_000, dtype=np.int64).reshape(2000, 5) * 1000
    noise = rows.prepare(spend, OperatingSystemNoise())(Sensitive(table)) - table
    edges = np.arange(-12, 13)
    mass = np.exp(-(np.arange(-60, 61) ** 2) / (2 * sigma**2))
    mass /= mass.sum()
    middle = mass[48:73]
    expected = np.concatenate([middle, [1 - middle.sum()]]) * noise.size
    counted = [np.sum(noise == z) for z in edges]
    observed = np.array([*counted, noise.size - sum(counted)])
    assert stats.chisquare(observed, expected).pvalue > 1e-5
    for other in (np.roll(noise, 1, axis=1), np.roll(noise, 1, axis=0)):
        assert abs(np.corrcoef(noise.ravel(), other.ravel())[0, 1]) < 4.5 / math.sqrt(noise.size)


@pytest.mark.parametrize(
    "table",
    [np.zeros((2, 3), np.int64), np.zeros((2, 2)), np.full((2, 2), 2**61 + 1), np.full((2, 2), -(2**63))],
)
def test_a_table_that_is_not_exact_is_refused_without_being_shown(table):
    rows = GaussianRows(1.0, RHO, 1.0, (2, 2))
    door = rows.prepare(rows.spend("t"), OperatingSystemNoise())
    with pytest.raises(MechanismRefused) as refused:
        door(Sensitive(table))
    assert "2305843009213693953" not in str(refused.value)


def test_impossible_scales_are_refused_with_the_plan():
    for sensitivity in (0.0, math.inf, math.nan, 1e30):
        with pytest.raises(StudyInvalid):
            GaussianRows(sensitivity, RHO, 1.0, (1, 1))


def test_a_digest_is_recorded_in_place_of_the_rows():
    kept = []
    memory, rows = Memory(), GaussianRows(1.0, RHO, 1.0, (3, 2))
    mechanism = StoredRows(rows, lambda table: kept.append(table) or "digest")
    table = Sensitive(np.arange(6, dtype=np.int64).reshape(3, 2))
    noise = Noise(InjectedNoise(np.random.default_rng(0), 0.0), memory)
    spend = mechanism.spend("table")
    assert noise.release(spend, mechanism, table) == {"draw": "digest"}
    assert noise.release(spend, mechanism, table) == {"draw": "digest"}
    (once,) = kept
    assert (once == np.arange(6).reshape(3, 2)).all()
