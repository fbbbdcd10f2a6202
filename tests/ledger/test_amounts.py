"""Privacy in integers: what people type is what is counted, and rounding has a direction."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import at_length

from dpbo_core.privacy.amounts import UNITS_PER_ONE, allowed_units, spent_units, split_units


def test_ten_tenths_fill_one_exactly():
    assert 10 * spent_units(0.1) == allowed_units(1.0)
    assert 3 * spent_units(0.1) == allowed_units(0.3)


@settings(max_examples=at_length(100))
@given(st.floats(min_value=0, max_value=1e6, allow_nan=False))
def test_spends_round_up_and_caps_round_down(amount):
    exact = Fraction(Decimal(repr(amount))) * UNITS_PER_ONE
    assert spent_units(amount) - 1 < exact <= spent_units(amount)
    assert allowed_units(amount) <= exact < allowed_units(amount) + 1


@settings(max_examples=at_length(100))
@given(st.integers(1, 10**15), st.integers(1, 300))
def test_parts_sum_exactly(total, parts):
    if total < parts:
        with pytest.raises(ValueError, match="too small"):
            split_units(total, (1.0,) * parts)
    else:
        split = split_units(total, (1.0,) * parts)
        assert sum(split) == total
        assert min(split) >= 1
