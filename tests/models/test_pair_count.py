"""The count of pairs: its sensitivity by enumeration, its value by a double loop and by scikit-learn."""

import itertools
import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from worlds import at_length

from dpbo_core.models.integer_sums import PairCount
from dpbo_core.models.scores.balanced_accuracy import PairedBalancedAccuracy
from dpbo_core.models.scores.kinds import auc_of, counts, pairs_of
from dpbo_core.models.scores.roc_auc import N_CELLS, Decisions, RocAuc
from dpbo_core.models.scoring.in_memory import SHARES_PER_MODEL, shifted
from dpbo_core.privacy.sensitive import Sensitive

UNREAD = None  # a record in neither class
SHARES_TRIED = (0.0, 0.1, 0.5, 0.73, 1.0)


def naive(records):
    """(C₂, D) of records (class, cell) or None, pair by pair."""
    positive = [cell for record in records if record for label, cell in [record] if label]
    negative = [cell for record in records if record for label, cell in [record] if not label]
    ranked = sum(2 * (p > q) + (p == q) for p in positive for q in negative)
    return ranked, 2 * len(positive) * len(negative)


def ours(records, n_cells=3):
    classes = np.array([-1 if record is None else record[0] for record in records], dtype=np.int64)
    cells = np.array([0 if record is None else record[1] for record in records], dtype=np.int64)
    usable = np.array([record is not None for record in records])
    return pairs_of(counts(classes, usable, cells, n_cells))


def one_more(ranked, pairs, share):
    return shifted(Sensitive(ranked), Sensitive(pairs), share).expose()


RECORDS = [UNREAD, *itertools.product((0, 1), (0, 1, 2))]  # two classes, three cells: ties, wrong and right order


@cache
def tables(m):
    """Every table of m records but for their order, with what is drawn of it."""
    found = {}
    for records in itertools.combinations_with_replacement(RECORDS, m):
        ranked, pairs = naive(records)
        assert ours(records) == (ranked, pairs)
        found[records] = (ranked, pairs, *(one_more(ranked, pairs, share) for share in SHARES_TRIED))
    return found


def moved(m, k):
    """The most that k replaced records move each of C₂, D and the B's by, over all tables of m records."""
    most = np.zeros(2 + len(SHARES_TRIED), dtype=np.int64)
    for others in itertools.combinations_with_replacement(RECORDS, m - k):
        seen = []
        for own in itertools.combinations_with_replacement(RECORDS, k):
            records = tuple(sorted([*others, *own], key=RECORDS.index))
            seen.append(tables(m)[records])
        values = np.array(seen)
        most = np.maximum(most, values.max(axis=0) - values.min(axis=0))
    return most


@pytest.mark.parametrize(("m", "k"), [(m, k) for m in range(1, 6) for k in (1, 2, 3) if k <= m])
def test_the_sensitivity_is_tight_over_all_tables(m, k):
    """Flips, ties, unreadable records, one person's k at once: no table moves more, and one moves so much."""
    declared = PairCount(m, k).record_steps
    most = moved(m, k)
    if m == 1:
        assert (most == 0).all()
        return
    assert most[0] == most[1] == declared
    assert (most[2:] <= declared).all()
    assert declared <= 2 * k * (m - 1)
    if k == 1:
        assert declared == 2 * (m - 1)
    assert PairCount(m, k).range_steps == max(pairs for _, pairs, *_ in tables(m).values())
    assert max(ranked for ranked, *_ in tables(m).values()) == PairCount(m, k).range_steps


RECORD = st.sampled_from(RECORDS) | st.tuples(st.sampled_from((0, 1)), st.integers(0, 20))


@settings(deadline=None, max_examples=at_length(120))
@given(
    others=st.lists(RECORD, min_size=4, max_size=60),
    own=st.lists(st.tuples(RECORD, RECORD), min_size=1, max_size=6),
    share=st.floats(0.0, 1.0),
)
def test_larger_tables_move_no_more(others, own, share):
    here, there = ([*others, *(pair[side] for pair in own)] for side in (0, 1))
    m, k = len(here), len(own)
    found = [ours(records, 21) for records in (here, there)]
    assert found == [naive(records) for records in (here, there)]
    declared = PairCount(m, k).record_steps
    for a, b in zip(*found, strict=True):
        assert abs(a - b) <= declared
    assert abs(one_more(*found[0], share) - one_more(*found[1], share)) <= declared


@settings(deadline=None, max_examples=at_length(60))
@given(st.integers(2, 200), st.integers(0, 2**32 - 1), st.integers(1, 40))
def test_it_is_scikit_learns_auc(m, seed, levels):
    rng = np.random.default_rng(seed)
    labels = np.r_[0, 1, rng.integers(0, 2, m - 2)]
    values = rng.integers(0, levels, m)
    ranked, pairs = pairs_of(counts(labels, np.ones(m, dtype=bool), values, levels))
    assert ranked / pairs == pytest.approx(roc_auc_score(labels, values), abs=1e-12)
    predicted = (values > levels / 2).astype(np.int64)
    ranked, pairs = pairs_of(counts(labels, np.ones(m, dtype=bool), predicted, 2))
    assert ranked / pairs == pytest.approx(balanced_accuracy_score(labels, predicted), abs=1e-12)


def test_counts_are_exact_beyond_what_doubles_hold():
    table = np.array([[2**30, 3], [1, 2**30 + 7]], dtype=np.int64)
    below = [0, 2**30]
    exact = sum(int(table[1, j]) * (2 * below[j] + int(table[0, j])) for j in range(2))
    assert pairs_of(table) == (exact, 2 * (2**30 + 3) * (2**30 + 8))


FLOATS = st.floats(allow_nan=False, allow_infinity=False)


@settings(deadline=None, max_examples=at_length(90))
@given(st.lists(FLOATS, min_size=2, max_size=30), FLOATS, st.floats(1e-12, 1e12), st.booleans())
def test_the_grid_reverses_no_two_values(values, centre, scale, probabilities):
    if probabilities:
        values, centre = [abs(v) / (1 + abs(v)) if math.isfinite(1 + abs(v)) else 1.0 for v in values], 0.3
    how = Decisions("predict_proba" if probabilities else "decision_function", centre, scale)
    found = how.of(np.array(values), np.zeros(len(values)))
    assert ((found >= 1) & (found <= N_CELLS)).all()
    order = np.argsort(values, kind="stable")
    assert (np.diff(found[order]) >= 0).all()
    alone = [how.of(np.array([v]), np.zeros(1))[0] for v in values]
    assert alone == found.tolist()


@pytest.mark.parametrize("verb", ["decision_function", "predict_proba"])
def test_what_is_not_finite_is_in_the_lowest_cell(verb):
    values = np.array([math.nan, math.inf, -math.inf, 0.5])
    outcome = values if verb == "decision_function" else np.column_stack([1 - values, values])
    found = Decisions(verb, 0.0, 1.0).of(outcome, np.zeros(4))
    assert found[:3].tolist() == [1.0, 1.0, 1.0]
    assert found[3] > 1.0
    assert (Decisions("predict_proba", 0.0, 1.0).of(np.zeros((2, 0)), np.zeros(2)) == 1.0).all()
    for score in (RocAuc(), PairedBalancedAccuracy()):
        cells = score.of_margins(np.array([math.nan, -math.inf, -2.0, 2.0]), 2.0)
        assert cells[:3].tolist() == [0, 0, 0]
        assert cells[3] == score.n_cells - 1


def normal(rng, n, share):
    labels = (rng.random(n) < share).astype(np.int64)
    return labels, rng.normal(size=n) + 1.2 * labels


@pytest.mark.parametrize(
    "shape",
    [
        lambda s: s,
        lambda s: -2.7 + 1e-4 * s,  # a model of which hardly anything is left but its intercept
        lambda s: 1e6 * s - 3e7,
        lambda s: np.sinh(5 * s),
        lambda s: np.where(s > 0, 40.0 + s, -40.0 + s),
    ],
    ids=["plain", "narrow", "wide", "long tails", "two clusters"],
)
@pytest.mark.parametrize("probabilities", [False, True], ids=["decisions", "probabilities"])
def test_the_grid_loses_next_to_nothing(shape, probabilities):
    """On values of the sizes that models have, the AUC of the cells is that of the values to 1e-4."""
    rng = np.random.default_rng(5)
    labels, values = normal(rng, 20_000, 0.06)
    values = shape(values)
    outcome = values
    if probabilities:
        p = 1 / (1 + np.exp(-np.clip(values, -700, 700)))
        values, outcome = p, np.column_stack([1 - p, p])
    half = slice(0, 10_000)

    def asked(verb):
        return outcome[half] if (verb == "predict_proba") is probabilities else None

    how = RocAuc().cells("Model", asked)
    cells = how.of(outcome[10_000:], labels[10_000:]).astype(np.int64) - 1
    found = auc_of(counts(labels[10_000:], np.ones(10_000, dtype=bool), cells, N_CELLS)[None])
    assert found == pytest.approx(roc_auc_score(labels[10_000:], values[10_000:]), abs=1e-4)


def test_values_far_from_those_of_the_public_rows_are_told_apart():
    """A forest is surer of the rows that it was fitted to than of any other."""

    def asked(verb):
        return np.column_stack([np.r_[np.ones(900), np.zeros(100)], np.r_[np.zeros(900), np.ones(100)]])

    how = RocAuc().cells("Forest", lambda verb: asked(verb) if verb == "predict_proba" else None)
    p = np.arange(1, 100) / 100
    assert len(set(how.of(np.column_stack([1 - p, p]), np.zeros(99)).tolist())) == 99


def test_the_shift_is_exact_in_integers():
    for ranked, pairs, share in ((0, 3, 0.5), (7, 10**15, 0.73), (10**15, 10**15, 1.0), (5, 0, 0.9)):
        R = round(share * SHARES_PER_MODEL)
        assert one_more(ranked, pairs, share) == ranked - math.floor(R * pairs / SHARES_PER_MODEL) or pairs > 2**53
        assert one_more(ranked, pairs, share) * SHARES_PER_MODEL >= ranked * SHARES_PER_MODEL - R * pairs
