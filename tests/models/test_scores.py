"""Margin scores and their exact integer form, against 50-digit arithmetic and against any record at all."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dpbo_core.errors import StudyInvalid
from dpbo_core.models.scores.accuracy import Accuracy
from dpbo_core.models.scores.declared import Numbers
from dpbo_core.models.scores.grid import GRID, to_grid
from dpbo_core.models.scores.ramp import Ramp
from dpbo_core.models.scores.sigmoid import Sigmoid
from dpbo_core.models.scores.union import SCORES as NAMED
from dpbo_core.study_file import LinearSection

SCORES = [
    Accuracy(),
    Ramp(1.0),
    Ramp(10.0),
    Ramp(1e-300),
    Ramp(1e300),
    Sigmoid(1.0),
    Sigmoid(10.0),
    Sigmoid(1e-300),
]
SCORES += [Sigmoid(1e300)]
EXTREMES = [0.0, -0.0, 5e-324, 1e-300, 1e-9, 0.1, 1.0, 70.0, 800.0, 1e308, math.inf]
everything = st.floats(allow_nan=False)


def one(score, margin):
    return float(score.phi(np.array([margin]))[0])


@pytest.mark.parametrize("score", SCORES, ids=repr)
def test_no_margin_raises_warns_or_leaves_the_range(score):
    margins = np.array([*EXTREMES, *(-m for m in EXTREMES), math.nan])
    with np.errstate(all="raise"):
        values = score.phi(margins)
    assert values.shape == margins.shape
    assert ((values >= 0.0) & (values <= score.score_range)).all()
    assert values[-1] == score.broken_score == one(score, 0.0)
    assert one(score, math.inf) == score.score_range == 1.0
    assert one(score, -math.inf) == 0.0


@pytest.mark.parametrize("score", SCORES, ids=repr)
@given(a=everything, b=everything)
def test_nondecreasing_and_lipschitz(score, a, b):
    a, b = sorted((a, b))
    fa, fb = one(score, a), one(score, b)
    assert fb >= fa - 2**-52
    if math.isfinite(score.lipschitz) and a < b:  # |x| ≤ 1: the margin moves by at most the move of w
        assert fb - fa <= score.lipschitz * (b - a) + 2**-52


def test_values_by_hand():
    margins = np.array([-1.0, -0.05, 0.0, 0.05, 1.0])
    assert Accuracy().phi(margins).tolist() == [0.0, 0.0, 0.0, 1.0, 1.0]
    assert Ramp(10.0).phi(margins).tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert Sigmoid(10.0).phi(margins).tolist() == pytest.approx(
        [1 / (1 + math.exp(10)), 1 / (1 + math.exp(0.5)), 0.5, 1 / (1 + math.exp(-0.5)), 1 / (1 + math.exp(-10))],
        rel=1e-15,
    )
    assert (Ramp(10.0).lipschitz, Sigmoid(10.0).lipschitz, Accuracy().lipschitz) == (5.0, 2.5, math.inf)
    assert (Ramp(10.0).broken_score, Sigmoid(10.0).broken_score, Accuracy().broken_score) == (0.5, 0.5, 0.0)


@pytest.mark.parametrize("steepness", [0.3, 1.0, 10.0, 77.0])
@pytest.mark.parametrize("kind", [Ramp, Sigmoid])
def test_lipschitz_constants_are_attained(kind, steepness):
    """A constant any smaller would be wrong, and one any larger would waste noise."""
    score, h = kind(steepness), 1e-5 / steepness
    slope = (one(score, h) - one(score, -h)) / (2 * h)
    assert slope == pytest.approx(score.lipschitz, rel=1e-9)


@pytest.mark.parametrize("score", SCORES, ids=repr)
@given(norm=st.floats(0, allow_nan=False))
def test_span_is_the_range_over_all_records(score, norm):
    span = score.span(norm)
    assert span == pytest.approx(one(score, norm) - one(score, -norm), rel=1e-9, abs=2**-51)
    assert 0.0 <= span <= score.score_range
    if norm > 0.0:
        assert span <= 2.0 * score.lipschitz * norm * (1 + 2**-50) + 5e-324


def test_span_has_no_cancellation_and_covers_every_record():
    with mpmath.workdps(60):
        for norm in (1e-12, 1e-6, 0.1, 0.5):
            exact = mpmath.tanh(5 * mpmath.mpf(norm))
            assert float(exact) == pytest.approx(Sigmoid(10.0).span(norm), rel=1e-14)
    assert Ramp(10.0).span(0.01) == pytest.approx(0.1, rel=1e-14)
    assert (Accuracy().span(0.0), Accuracy().span(1e-300)) == (0.0, 1.0)
    # MATH §3.3: w = e₁/10, L = 1/4, e₁ against −e₁
    assert Sigmoid(1.0).span(0.1) == pytest.approx(0.04996, abs=5e-6)
    assert all(score.span(math.nan) == score.span(math.inf) == 1.0 for score in SCORES)
    rng = np.random.default_rng(0)
    w, X = rng.normal(size=4), rng.normal(size=(5000, 4))
    X /= np.linalg.norm(X, axis=1)[:, None]
    for score in (Accuracy(), Ramp(0.3), Sigmoid(0.8)):
        values = score.phi(np.concatenate([X @ w, -(X @ w)]))
        assert 0.9 * score.span(np.linalg.norm(w)) <= np.ptp(values) <= score.span(np.linalg.norm(w)) + 1e-15


@given(
    arrays(np.float64, st.integers(1, 70), elements=st.floats(width=64)),
    st.sampled_from(SCORES),
    st.integers(0, 69),
)
def test_a_score_is_a_function_of_its_margin_alone(margins, score, i):
    """To the last bit, whatever stands beside it: otherwise one record could move another's grid step."""
    i %= len(margins)
    together = score.phi(margins)
    assert together[i].tobytes() == score.phi(margins[i : i + 1])[0].tobytes()
    others = np.full_like(margins, 3.25)
    others[i] = margins[i]
    assert score.phi(others)[i].tobytes() == together[i].tobytes()
    assert score.phi(np.repeat(margins, 2)[::2])[i].tobytes() == together[i].tobytes()


def of_margin(name, steepness):
    return NAMED[name].of_margin(Numbers(steepness))


def test_a_margin_score_is_made_by_its_name():
    assert of_margin("accuracy", 10.0) == Accuracy()
    assert of_margin("ramp", 2) == Ramp(2.0)
    assert of_margin("sigmoid", 10) == Sigmoid(10.0)
    assert [name for name, score in NAMED.items() if score.of_margin] == ["sigmoid", "ramp", "accuracy"]
    with pytest.raises(StudyInvalid, match=r"'auc'.*accuracy"):
        LinearSection("logistic", score="auc")
    for name in ("ramp", "sigmoid"):
        for steepness in (0.0, -1.0, math.inf, math.nan):
            with pytest.raises(StudyInvalid, match="steepness"):
                of_margin(name, steepness)


def test_grid_by_hand():
    assert GRID == 2**24
    h = 2.0**-24
    scores = [0.0, 0.4 * h, 0.6 * h, 0.5, 1.0 - 0.6 * h, 1.0 - 0.4 * h, 1.0]
    assert to_grid(scores, 1.0, broken_score=0.5).tolist() == [0, 0, 1, 2**23, 2**24 - 1, 2**24, 2**24]
    assert to_grid([0.0, 1.0, 4.0], 4.0, broken_score=0.0).tolist() == [0, 2**22, 2**24]


def test_grid_takes_anything():
    hostile = np.array([math.nan, math.inf, -math.inf, 1e308, -1e308, -5e-324, 1.0 + 1e-9, -math.nan])
    with np.errstate(all="raise"):
        steps = to_grid(hostile, 1.0, broken_score=0.5)
    assert steps.dtype == np.int64
    assert steps.tolist() == [2**23, 2**24, 0, 2**24, 0, 0, 2**24, 2**23]
    assert to_grid([math.nan], 1.0, broken_score=0.0).tolist() == [0]
    assert to_grid([], 1.0, broken_score=0.0).tolist() == []


@given(st.floats(0, 1))
def test_grid_is_nearest(score):
    steps = int(to_grid([score], 1.0, broken_score=0.0)[0])
    assert abs(steps - score * 2**24) <= 0.5
