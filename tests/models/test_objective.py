"""The sensitive sum: exact, total, and never moved by a record further than the plan says."""

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from worlds import at_length

from dpbo_core.data import Encoded, Preprocessing, table_of
from dpbo_core.mechanisms.laplace import DiscreteLaplace
from dpbo_core.mechanisms.noise import OperatingSystemNoise
from dpbo_core.methods.lipschitz import Lipschitz
from dpbo_core.methods.problem import Problem
from dpbo_core.models.estimators import EstimatorFactory
from dpbo_core.models.integer_sums import GRID, to_grid
from dpbo_core.models.linear import fit
from dpbo_core.models.linear.fit import LinearModel, train
from dpbo_core.models.scores.accuracy import Accuracy, Correct
from dpbo_core.models.scores.brier import Brier
from dpbo_core.models.scores.ramp import Ramp
from dpbo_core.models.scores.sigmoid import Sigmoid
from dpbo_core.models.scoring.in_memory import Objective
from dpbo_core.privacy.amounts import spent_units
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.search.search_space import Real, SearchSpace, grid
from dpbo_core.study import LinearSection, SearchSection

RNG = np.random.default_rng(7)
TRAINING = table_of(
    {
        "a": list(RNG.normal(size=40)),
        "b": list(RNG.normal(size=40) * 100 + 3),
        "y": list(RNG.integers(0, 2, size=40)),
    }
)
NUMBERS = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0.0, -0.0, 1e308, -1e308, 5e-324, math.nan, math.inf, -math.inf, 1e300]),
    st.text(max_size=4),
    st.none(),
)
RECORD = st.tuples(NUMBERS, NUMBERS, st.one_of(st.sampled_from([0, 1, "0", "1", 2, "yes", None]), NUMBERS))
SCORES = [Sigmoid(10.0), Sigmoid(0.3), Ramp(4.0), Accuracy()]


def encoded(records, preprocessing):
    columns = dict(zip("aby", map(list, zip(*records, strict=True)), strict=True))
    return preprocessing.transform(table_of(columns))


def total(records, preprocessing, model, score):
    return Objective(Sensitive(encoded(records, preprocessing)), score).evaluate(model).expose()


LINEAR = Preprocessing.fit(TRAINING, "y", unit_ball=True)
FREE = Preprocessing.fit(TRAINING, "y", unit_ball=False)
PUBLIC = LINEAR.transform(TRAINING)
MODELS = [
    train(PUBLIC.X, PUBLIC.signs, loss=loss, regularization=lam)
    for loss in ("logistic", "hinge")
    for lam in (1e-3, 0.1, 3.0)
]
TREE = EstimatorFactory("sklearn.tree.DecisionTreeClassifier", {}, 0).train(
    FREE.transform(TRAINING).X, FREE.transform(TRAINING).labels, max_depth=3
)


@settings(max_examples=at_length(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(RECORD, min_size=1, max_size=8), RECORD, st.data())
def test_one_record_never_moves_the_sum_at_a_fixed_model_beyond_the_plan(records, other, data):
    place = data.draw(st.integers(0, len(records) - 1))
    neighbour = [*records[:place], other, *records[place + 1 :]]
    for model in MODELS:
        norm = float(np.linalg.norm(model.weights))
        for score in SCORES:
            moved = abs(total(records, LINEAR, model, score) - total(neighbour, LINEAR, model, score))
            assert moved <= GRID
            assert moved <= score.span(norm) * GRID + 2  # and no further than the margin's own range
    assert abs(total(records, FREE, TREE, Correct()) - total(neighbour, FREE, TREE, Correct())) <= GRID


@pytest.mark.parametrize(
    "broken",
    [
        (math.nan, 1.0, 1),
        (1.0, math.inf, 0),
        (1.0, "x", 1),
        (None, 1.0, 1),
        (1.0, 2.0, "unknown"),
        (1.0, 2.0, None),
        (1.0, 2.0, math.nan),
    ],
)
def test_a_broken_record_scores_phi_of_zero_under_margins_and_nothing_elsewhere(broken):
    whole = (0.3, 5.0, 1)
    for score in SCORES:
        for model in MODELS:
            both, alone = total([whole, broken], LINEAR, model, score), total([whole], LINEAR, model, score)
            assert both - alone == round(score.broken_score * GRID)
    for score in (Correct(), Brier()):
        assert total([whole, broken], FREE, TREE, score) == total([whole], FREE, TREE, score)


def world(model_section, lambdas, m, training=PUBLIC):
    class Trainer:
        def train(self, point):
            return train(training.X, training.signs, loss=model_section.estimator, regularization=point["lambda"])

    low, high = lambdas
    return Problem(
        candidates=grid(SearchSpace({"lambda": Real(low, high, log=True)}), {"lambda": 9}),
        n_validation=m,
        score=Sigmoid(model_section.steepness),
        model=model_section,
        search=SearchSection(steps=5),
        epsilon=1.0,
        trainer=Trainer(),
    )


@settings(max_examples=at_length(50), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(RECORD, min_size=3, max_size=3), RECORD, st.data())
def test_no_two_paths_on_neighbours_differ_beyond_algorithm_3s_plan(records, other, data):
    """The greatest difference over every pair of models is that of every pair of paths."""
    estimator = data.draw(st.sampled_from(["logistic", "hinge"]))
    lambdas = data.draw(st.sampled_from([(0.5, 0.8), (1.0, 8.0), (2.0, 2.5)]))
    posed = world(LinearSection(estimator=estimator, steepness=data.draw(st.sampled_from([0.05, 0.5]))), lambdas, 3)
    neighbour = [*records[:2], other]
    models = [posed.train(i) for i in range(len(posed.candidates))]
    before = [total(records, LINEAR, model, posed.score) for model in models]
    after = [total(neighbour, LINEAR, model, posed.score) for model in models]
    moved = max(max(before) - min(after), max(after) - min(before))
    assert moved <= Lipschitz()._sensitivity_steps(posed)


def test_the_search_finds_the_violation_of_the_published_theorem_7():
    """The same adversary, on the record pair (e₁, +1) → (e₁, −1), passes the published bound."""
    one_row = Preprocessing.fit(
        table_of({"a": [1.0, -1.0], "y": [1, 0]}), "y", unit_ball=True, standardize=False, clip_quantile=1.0
    )
    data = one_row.transform(table_of({"a": [1.0, -1.0], "y": [1, 0]}))
    posed = world(LinearSection(estimator="hinge", steepness=1.0), (9.999, 10.0), 1, training=data)

    def score(a, y, model):
        record = one_row.transform(table_of({"a": [a], "y": [y]}))
        return Objective(Sensitive(record), posed.score).evaluate(model).expose()

    records = [(a, y) for a in (1.0, -1.0, 0.0, math.nan, 1e308) for y in (0, 1)]
    models = [posed.train(0), posed.train(8)]
    worst = max(abs(score(*r, p) - score(*s, q)) for r in records for s in records for p in models for q in models)
    assert worst > 1.9 * Lipschitz(calibration="published")._sensitivity_steps(posed)
    assert worst <= Lipschitz()._sensitivity_steps(posed)


def test_the_objective_says_nothing():
    sealed = Objective(Sensitive(encoded([(0.7391, 2.0, 1)], LINEAR)), Sigmoid(1.0))
    assert repr(sealed) == "<Objective>"
    assert repr(sealed.evaluate(MODELS[0])) == "<sensitive>"


def many(m, d, seed=0):
    """m records, some broken, whose features are spread over many scales."""
    rng = np.random.default_rng(seed)
    labels, X = rng.integers(-1, 2, m), rng.normal(size=(m, d)) * 10.0 ** rng.integers(-3, 2, (m, 1))
    X[labels == -1] = 0.0
    return Encoded(X, labels, labels == -1, 2)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("m", [1, 999, 1000, 1001, 4321])
def test_the_sum_is_the_same_to_the_last_bit_in_blocks_of_any_size(monkeypatch, score, m):
    records, model = many(m, 7), LinearModel(np.random.default_rng(1).normal(size=7), 1.0, 0.0)
    # the oracle scores one record at a time and adds whole numbers
    alone = 0
    for i in range(m):
        one = records.part(slice(i, i + 1))
        alone += int(to_grid(score.phi(model.margins(one.X, one.signs)), 1.0, broken_score=score.broken_score)[0])
    for block in (1, 7, 1000, 16_384):
        if m / block < 1001:
            monkeypatch.setattr(fit, "SCORES_PER_BLOCK", block)
            assert Objective(Sensitive(records), score).evaluate(model).expose() == alone


def test_scoring_takes_the_memory_of_a_block():
    records, model = many(600_000, 5), LinearModel(np.ones(5), 1.0, 0.0)
    sealed = Objective(Sensitive(records), Sigmoid(10.0))
    tracemalloc.start()
    try:
        sealed.evaluate(model)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * 8 * fit.SCORES_PER_BLOCK  # one array of all the scores would be 4.8 MB


# --- attacks on arithmetic that succeed against the textbook, and fail against our mechanisms and sums
#
# Mironov (CCS 2012): the doubles that q + b·log(u) can be are not those that q′ + b·log(u) can be, so one look at
# the low bits excludes a neighbour. Casacuberta et al. (CCS 2022): a running sum in floating point depends on the
# order of its records, and one record can move it by more than its range.


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
