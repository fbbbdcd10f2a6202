"""Theorem 4 of Lyu, Su and Li (2017): the split of ε between the threshold and all comparisons."""

import pytest

from dpbo_core.theorems.lyu_su_li_2017 import theorem_4_epsilon, theorem_4_epsilons


def test_theorem_4_splits_epsilon_exactly_and_is_read_back_from_the_noise():
    first, second = theorem_4_epsilons(epsilon_units=10**12)
    assert first + second == 10**12
    assert second / first == pytest.approx(2 ** (2 / 3), rel=1e-9)
    scale = 2 * 7.0 / (0.37 * second / 10**12)
    assert theorem_4_epsilon(sensitivity=7.0, comparison_scale=scale) == pytest.approx(0.37, rel=1e-9)
