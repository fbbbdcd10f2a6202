"""What a watch promises before it is paid for: the closed form against simulations, the goals, the sensitivity."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpbo.features.watch.power import SOON, YEAR, Noise, alarms, power, smallest_drop
from dpbo.features.watch.terms import MeanMeasure, PairMeasure, Terms
from dpbo.features.watch.watching import WatchPlan
from dpbo_core.models.integer_sums import GRID
from dpbo_core.models.scores.kinds import pairs_of
from dpbo_core.privacy.sensitive import Sensitive


def planned(m, spread, *, drop=0.02, epsilon=1.0, measure=None, reference=0.9):
    """How a daily watch on tables of m records errs."""
    terms = Terms(drop, epsilon, m, reference, 1)
    return power(drop, terms.noise(measure or MeanMeasure(1, 1.0), m, spread))


# The goals


@pytest.mark.parametrize("spread", [0.1, 0.3, 0.4, 0.44])
def test_a_year_of_daily_looks_at_ten_thousand_records_for_one_epsilon(spread):
    """≤ 1% false alarms in 365 looks, a fall of .02 seen within 5 days with ≥ 99%: up to an accuracy of .74."""
    found = planned(10_000, spread)
    assert found.false_alarms <= 0.01
    assert found.seen[-1] >= 0.99
    assert found.verdict == "good"
    assert list(found.seen) == sorted(found.seen)


@pytest.mark.parametrize(
    ("m", "spread", "verdict", "false", "seen"),
    [(10_000, 0.5, "fair", 0.03, 0.98), (3_000, 0.3, "fair", 0.12, 0.95), (1_000, 0.3, "useless", 1.0, 0.99)],
)
def test_fewer_records_or_wider_scores_miss_the_goal_and_say_so(m, spread, verdict, false, seen):
    found = planned(m, spread)
    assert found.verdict == verdict
    assert 0.01 < found.false_alarms <= false
    assert found.seen[-1] >= seen


def test_a_watch_on_rankings_of_few_positives_finds_only_collapses():
    """6% positives, m = 10,000, ε = ½. The single sign that would take it to .067 is no one's promise."""
    measure, m = PairMeasure(1, 0.06), 10_000
    terms = Terms(0.02, 0.5, m, 0.8, 1)
    noise = terms.noise(measure, m, 0.5)
    assert planned(m, 0.5, epsilon=0.5, measure=measure, reference=0.8).verdict == "useless"
    assert 0.09 < smallest_drop(noise) < 0.11
    b = 2.0 / m / (2 * 0.06 * 0.94) / 0.25  # ε₁ = ε₂ and ν of scale Δ/ε₂
    assert power(0.067, Noise(b, b, 0.0)).verdict == "fair"
    assert noise.of_look == pytest.approx(2 * 2.0 / m / (2 * 0.06 * 0.94) / (0.6135 * 0.5), rel=1e-3)


def test_the_smallest_fall_is_found_fairly_and_a_smaller_one_is_not():
    noise = Terms(0.02, 1.0, 3_000, 0.9, 1).noise(MeanMeasure(1, 1.0), 3_000, 0.3)
    found = smallest_drop(noise)
    assert 0.018 < found < 0.022
    assert power(found, noise).verdict in ("good", "fair")
    assert power(0.95 * found, noise).verdict == "poor"


# The closed form


def simulated(threshold, noise, *, fallen, looks, times):
    """How many of so many watches alarm, look by look."""
    rng = np.random.default_rng(7)
    z = rng.exponential(scale=noise.of_threshold, size=(times, 1))
    sampled = rng.normal(scale=noise.of_sampling, size=(times, looks))
    u = fallen + sampled + rng.exponential(scale=noise.of_look, size=(times, looks))
    return float((u >= threshold + z).any(axis=1).mean())


@pytest.mark.parametrize(("fallen", "looks", "times"), [(0.0, YEAR, 4_000), (0.02, SOON, 40_000)])
def test_the_rates_are_those_of_simulated_watches(fallen, looks, times):
    noise = Terms(0.02, 1.0, 3_000, 0.9, 1).noise(MeanMeasure(1, 1.0), 3_000, 0.3)
    rate = alarms(0.018, noise, fallen=fallen, looks=looks)
    found = simulated(0.018, noise, fallen=fallen, looks=looks, times=times)
    assert found == pytest.approx(rate, abs=5.0 * math.sqrt(rate * (1.0 - rate) / times) + 1e-3)


def test_new_people_every_day_are_pooled_into_a_week():
    """1,000 new people a day, ε = 1, 5% false alarms a year: a fall of .02 is seen within seven days, not missed.

    Simulated overlapping pools lie within the bounds that a plan states.
    """
    day, week = (Terms(0.02, 1.0, 1_000 * w, 0.9, 1, w).noise(MeanMeasure(1, 1.0), 1_000 * w, 0.3) for w in (1, 7))
    theta = {noise: with_false_alarms(0.05, noise) for noise in (day, week)}
    assert 0.15 < alarms(theta[day], day, fallen=0.02, looks=7) < 0.19
    seen = power(0.02, week, theta[week]).seen
    assert seen[-1] > 0.95
    assert power(0.02, day).verdict == "useless"
    assert power(0.02, week).verdict == "fair"
    advised = WatchPlan.advised.fget
    assert advised(SimpleNamespace(compared={1: power(0.02, day), 7: power(0.02, week)})) == 7
    assert advised(SimpleNamespace(compared=dict.fromkeys((1, 7), power(0.02, week)))) == 1
    rng, times = np.random.default_rng(7), 4_000

    def alarmed(fallen_for, looks):
        """How many of so many watches alarm whose last so many daily tables have fallen."""
        daily = rng.normal(scale=0.3 / math.sqrt(1_000), size=(times, looks + 6))
        daily[:, looks + 6 - fallen_for :] += 0.02
        pools = np.lib.stride_tricks.sliding_window_view(daily, 7, axis=1).mean(axis=-1)
        z = rng.exponential(scale=week.of_threshold, size=(times, 1))
        nu = rng.exponential(scale=week.of_look, size=(times, looks))
        return float((pools + nu >= theta[week] + z).any(axis=1).mean())

    assert alarmed(0, YEAR) <= 0.05
    assert alarmed(7, 7) >= seen[-1] - 0.01


def with_false_alarms(share, noise):
    """θ at which so many years have a false alarm."""
    low, high = 0.0, 0.5
    for _ in range(50):
        middle = (low + high) / 2.0
        low, high = (middle, high) if alarms(middle, noise, fallen=0.0, looks=YEAR) > share else (low, middle)
    return high


# The sensitivity that is charged


class Summed:
    """A table whose exact sum, or pairs, are given."""

    def __init__(self, steps=(), cells=None):
        self.steps, self.cells = steps, cells

    def evaluate(self, model):
        return Sensitive(sum(self.steps) if self.cells is None else pairs_of(self.cells)[0])

    def pairs(self):
        return Sensitive(pairs_of(self.cells)[1])


def u_of(measure, table, n, reference):
    return measure.fall(reference, n).of(measure.value(table, None, reference).expose())


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 5), st.data())
@settings(max_examples=60)
def test_a_mean_moves_by_no_more_than_is_charged(least, more, k, data):
    """k records of any scores are replaced, in a table of any size from least_records on."""
    measure, m = MeanMeasure(k, 1.0), least + more
    steps = data.draw(st.lists(st.integers(0, GRID), min_size=m, max_size=m))
    others = data.draw(st.lists(st.sampled_from([0, GRID]), min_size=min(k, m), max_size=min(k, m)))
    changed = [*others, *steps[len(others) :]]
    one, other = (u_of(measure, Summed(table), m, 0.7) for table in (steps, changed))
    assert abs(one - other) <= measure.sensitivity(least)


def test_the_charge_of_a_mean_is_reached_by_the_smallest_table():
    measure = MeanMeasure(2, 1.0)
    assert measure.sensitivity(3) == -(-2 * GRID // 3)
    one, other = (u_of(measure, Summed(table), 3, 0.7) for table in ([0, 0, 0], [GRID, GRID, 0]))
    assert abs(one - other) >= measure.sensitivity(3) - 1
    assert measure.sensitivity(1) == GRID  # of a table of one record both are the same one


@pytest.mark.parametrize("m", [2, 3, 4, 5])
@pytest.mark.parametrize("k", [1, 2])
def test_pairs_move_by_no_more_than_is_charged(m, k):
    """Every table of m records of two classes in three cells, unreadable ones too, and every k replaced."""
    measure = PairMeasure(k, 0.3)
    places = [(0, 0), (0, 2), (1, 0), (1, 1), None]

    def table(records):
        cells = np.zeros((2, 3), dtype=np.int64)
        for record in records:
            if record is not None:
                cells[record] += 1
        return Summed(cells=cells)

    for reference in (0.0, 0.6, 1.0):
        us = {
            records: u_of(measure, table(records), m, reference)
            for records in itertools.combinations_with_replacement(
                sorted(places, key=lambda place: (place is None, place or (0, 0))), m
            )
        }
        by_rest = {}
        for records, u in us.items():
            for kept in itertools.combinations(records, m - min(k, m)):
                by_rest.setdefault(kept, []).append(u)
        moved = max(max(found) - min(found) for found in by_rest.values())
        assert moved <= measure.sensitivity(m)
