"""Corollary 8 and Theorem 9 of Chaudhuri et al. (2011), by hand."""

import math

import pytest

from dpbo_core.theorems.chaudhuri_2011 import corollary_8_sensitivity, theorem_9_jacobian


def test_what_chaudhuri_proves_by_hand():
    """No logistic loss comes near the bound: two records that are both badly wrong cannot pull apart."""
    moved = corollary_8_sensitivity(n_records=8, regularization=0.1, solver_tolerance=1e-3)
    assert moved == pytest.approx(2 / 0.8 + 2e-3)
    assert theorem_9_jacobian(n_records=8, regularization=0.1, curvature=0.25) == pytest.approx(
        math.log(1 + 0.25 / 0.8)
    )
