"""Many looks for one price: the exact law of what leaves, on every neighbour of small worlds; each fault is caught.

| symbol | name here | meaning |
|---|---|---|
| u | `us` | what is compared at each look, integers; between neighbours each moves by at most Δ, as it likes |
| θ | `theta` | the public threshold |
| b₁, b₂ | `first`, `second` | scales of the geometric noise of the threshold and of a look, never negative |

What leaves up to look T is one of T + 1 things: the number of the first alarm, or that there was none. Each has a
probability that is one sum over z, and the largest ratio over all pairs of neighbours is the privacy loss.
"""

import itertools
import math

import numpy as np
import pytest

from dpbo_core.errors import MechanismRefused, StudyInvalid
from dpbo_core.mechanisms.above_threshold import AboveThreshold, Fall, alarm
from dpbo_core.mechanisms.noise import InjectedNoise, OperatingSystemNoise
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.theorems.lyu_su_li_2017 import theorem_4_epsilon, theorem_4_epsilons

EPSILON = 1.0
LOOKS = 3
SLACK = 1e-9
PLENTY = 110  # of z on either side: what lies beyond has a probability below 1e-12 of what is compared


def mechanism(sensitivity=1, epsilon=EPSILON):
    return AboveThreshold(sensitivity, round(epsilon * 10**12), 1.0)


def weights(scale, around=0):
    """Pr[geometric = z − around] for z from −PLENTY to PLENTY; none below 0."""
    z = np.arange(-PLENTY, PLENTY + 1) - around
    q = math.exp(-1.0 / scale)
    return np.where(z >= 0, (1.0 - q) * q ** np.maximum(z, 0), 0.0)


def at_least(k, scale):
    """Pr[geometric ≥ k]."""
    return math.exp(-1.0 / scale) ** np.maximum(np.asarray(k), 0)


def law(us, theta, first, second):
    """Of what leaves: Pr[the first alarm is at look t] for t = 1 … T, then Pr[none]."""
    z = np.arange(-PLENTY, PLENTY + 1)
    chance = [at_least(theta + z - u, second) for u in us]
    quiet, told = weights(first), []
    for each in chance:
        told.append(float((quiet * each).sum()))
        quiet = quiet * (1.0 - each)
    return np.array([*told, float(quiet.sum())])


def loss(one, other):
    """The largest log-ratio of two laws; infinite where one of them cannot be."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.abs(np.log(one) - np.log(other))
    return float(np.nan_to_num(ratios, nan=0.0, posinf=math.inf).max())


def neighbours(sensitivity=1, looks=LOOKS, moves=None):
    """Every pair of sequences whose looks lie in 0 … 2 and move by at most Δ, each in any direction."""
    shifts = range(-sensitivity, sensitivity + 1) if moves is None else moves
    for us in itertools.product(range(3), repeat=looks):
        for moved in itertools.product(shifts, repeat=looks):
            yield us, tuple(np.add(us, moved))


def worst(of, pairs, thetas=(1, 4)):
    """The largest loss of a law over pairs of neighbours and thresholds."""
    return max(loss(of(us, theta), of(others, theta)) for us, others in pairs for theta in thetas)


# What is built keeps its price


@pytest.mark.parametrize(("sensitivity", "epsilon"), [(1, 1.0), (1, 3.0), (2, 2.0)])
def test_every_neighbour_of_small_worlds_is_within_epsilon(sensitivity, epsilon):
    """The scales are those of the mechanism that draws, and every move of every look is enumerated."""
    built = mechanism(sensitivity, epsilon)
    first, second = built.of_threshold.scale, built.of_comparison.scale
    pairs = list(neighbours(sensitivity, looks=2 if sensitivity > 1 else LOOKS))
    found = worst(lambda us, theta: law(us, theta, first, second), pairs)
    assert found <= epsilon + SLACK
    assert found > 0.55 * epsilon  # and not by far less noise than it needs


def test_no_alarm_costs_the_threshold_alone():
    built = mechanism()
    first, second = built.of_threshold.scale, built.of_comparison.scale
    spent = theorem_4_epsilons(epsilon_units=10**12)[0] / 1e12
    found = max(
        abs(math.log(law(us, theta, first, second)[-1] / law(others, theta, first, second)[-1]))
        for us, others in neighbours()
        for theta in (0, 1, 3)
    )
    assert found <= spent + SLACK


@pytest.mark.parametrize("looks", [50, 365])
def test_a_year_of_looks_costs_no_more(looks):
    """The worst neighbours of many looks: all below move one way, the one that alarms the other."""
    built = mechanism()
    first, second = built.of_threshold.scale, built.of_comparison.scale
    for move in (-1, 1):
        us = [0] * (looks - 1) + [1]
        others = [u + move for u in us[:-1]] + [1 - move]
        for theta in (2, 8, 20):
            assert loss(law(us, theta, first, second), law(others, theta, first, second)) <= EPSILON + SLACK


def test_the_split_is_exact_and_its_price_is_read_back_from_the_noise():
    first, second = theorem_4_epsilons(epsilon_units=10**12)
    assert first + second == 10**12
    assert second / first == pytest.approx(2 ** (2 / 3), rel=1e-9)
    spend = mechanism(7, 0.37).spend("looks")
    assert theorem_4_epsilon(sensitivity=7.0, comparison_scale=spend.noise_scale) == pytest.approx(0.37, rel=1e-9)
    assert spend.epsilon_units == 370_000_000_000
    assert spend.rho == pytest.approx(0.37**2 / 2, rel=1e-9)  # of ONE mechanism of ε, not of two


def test_who_is_in_three_tables_of_a_pool_loses_three_times_what_one_table_s_noise_promises():
    """The pool's own Δ keeps ε for whoever is in every table; that of one table does not."""
    pairs = list(neighbours(3, looks=2, moves=(-3, 0, 3)))

    def lost(built):
        first, second = built.of_threshold.scale, built.of_comparison.scale
        return worst(lambda us, theta: law(us, theta, first, second), pairs)

    assert lost(mechanism(3, 1.3)) <= 1.3 + SLACK
    assert lost(mechanism(1, 1.3)) > 3.5


# The mechanism itself


def test_the_bit_is_a_comparison_of_whole_numbers():
    fall = Fall(start=10, times=3, over=2)
    for value, z, nu, theta in itertools.product(range(-4, 5), (-2, 0, 1), (-1, 0, 2), (0, 4)):
        told = alarm(Sensitive(value), fall=fall, threshold=theta, of_threshold=Sensitive(z), of_look=Sensitive(nu))
        assert told == (10 - math.floor(1.5 * value) + nu >= theta + z)


def test_a_fall_moves_by_at_most_what_is_charged():
    """⌊·⌋ of what moves by d moves by at most ⌈times·d/over⌉."""
    for times, over, moved in ((1, 7, 5), (1, 3, 3), (16, 49, 8)):
        fall, most = Fall(0, times, over), math.ceil(times * moved / over)
        values = range(-200, 200)
        found = max(abs(fall.of(value) - fall.of(value + d)) for value in values for d in range(-moved, moved + 1))
        assert found == most


def test_a_value_that_is_no_integer_is_refused_without_saying_it():
    with pytest.raises(MechanismRefused) as refused:
        alarm(
            Sensitive(0.123456789), fall=Fall(0, 1, 1), threshold=0, of_threshold=Sensitive(0), of_look=Sensitive(0)
        )
    assert "1234" not in refused.value.message()


def test_what_cannot_be_drawn_is_refused_before_anything_is_charged():
    with pytest.raises(StudyInvalid):
        AboveThreshold(2**60, 1, 1.0)
    with pytest.raises(StudyInvalid):
        AboveThreshold(2**60, 2 * 10**3, 1.0)


@pytest.mark.slow
def test_its_draws_have_the_scales_that_were_enumerated():
    """OpenDP's own: 2,000 draws of each, their mean absolute value within five standard errors."""
    built, source = mechanism(50), OperatingSystemNoise()
    for draw, noise in ((built.draw_threshold, built.of_threshold), (built.draw_comparison, built.of_comparison)):
        found = np.array([draw(source).expose() for _ in range(2000)])
        assert found.min() >= 0
        assert found.mean() == pytest.approx(noise.scale, rel=5.0 / math.sqrt(2000))


def test_no_noise_is_negative_and_its_law_is_the_one_that_was_enumerated():
    """Redrawn, not turned: of an absolute value 0 would come half as often, 8 standard errors of 1,000 draws."""
    law_of, built = np.random.default_rng(1), mechanism()
    q = math.exp(-1.0 / built.of_comparison.scale)

    class Drawn(InjectedNoise):
        def draw_many(self, measurement, size, imitation):
            return self.generator.geometric(1.0 - q, size) - self.generator.geometric(1.0 - q, size)

    found = np.array([built.draw_comparison(Drawn(law_of)).expose() for _ in range(1000)])
    assert found.min() == 0
    for value in range(4):
        expected_share = (1.0 - q) * q**value
        spread = math.sqrt(expected_share * (1.0 - expected_share) / 1000)
        assert (found == value).mean() == pytest.approx(expected_share, abs=5.0 * spread)


def test_it_asks_for_its_noise_and_gets_none_of_a_source_without():
    silent, built = InjectedNoise(np.random.default_rng(0), factor=0.0), mechanism(50)
    assert built.draw_threshold(silent).expose() == built.draw_comparison(silent).expose() == 0
    assert built.of_threshold.scale == pytest.approx(50 / 0.3865, rel=1e-3)
    assert built.of_comparison.scale == pytest.approx(100 / 0.6135, rel=1e-3)
