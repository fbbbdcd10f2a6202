"""The histogram under attack: every neighbour of small tables, hostile records, persons, parts."""

import itertools
import random
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from neighbours import make_world, nasty_pairs

from dpbo_core.data import read_table, table_of
from dpbo_core.data.header import SENSITIVE_FILE
from dpbo_core.data.people import surplus_mask
from dpbo_core.errors import Sealed
from dpbo_core.report.binary import BinaryCells
from dpbo_core.report.counting import Counter
from dpbo_core.report.histogram_cells import Grouping, class_bins, with_groups

NAN = float("nan")


def counter_of(world, *, edges=(-0.2, 0.0, 0.3), groups=("blue", "red"), estimator=None):
    """The world's first model; colours are its groups, and green is none of the listed."""
    problem = world.problem
    model = problem.train(0)
    verb = "predict_proba" if hasattr(model, "estimator") else "decision_function"
    edges = tuple(edge + 0.5 for edge in edges) if verb == "predict_proba" else edges
    return Counter(
        world.fitted, model, BinaryCells(edges, verb), None if groups is None else Grouping("colour", groups)
    )


def table_from(world, lines):
    path = world.folder / "validation.csv"
    path.write_bytes(b"a,b,colour,y\n" + b"".join(line + b"\n" for line in lines))
    return read_table(path, mode=SENSITIVE_FILE, display_name="validation.csv")


def histogram(world, counter, lines):
    return counter.histogram(table_from(world, lines))


def moved(one, other):
    return int(np.abs(one - other).sum())


@pytest.fixture(scope="module")
def worlds(tmp_path_factory):
    linear = make_world(tmp_path_factory.mktemp("linear"))
    tree = make_world(
        tmp_path_factory.mktemp("tree"), estimator="sklearn.tree.DecisionTreeClassifier", score="accuracy"
    )
    return {"linear": linear, "tree": tree}


# Every neighbour of every small table

ALPHABET = (  # one record each: both classes, both ends, a tie, other groups, and what cannot be read
    b"0.3,-1.2,red,yes", b"-0.7,0.4,blue,no", b"1e308,-1e308,red,no", b"0,0,green,yes", b"nan,1,red,yes",
    b"0.3,-1.2,red,maybe", b"\xff,,",
)  # fmt: skip


def every_table(histogram, alphabet):
    """The histogram of each record alone, and the most that one record moves, whatever else is in its table.

    A table's histogram is the sum of its records' own, so that none has a hand on another: of all tables of two
    records, and of each seventh of three, read as they are.
    """
    alone, places = [histogram([record]) for record in alphabet], range(len(alphabet))
    assert all(one.sum() == 1 for one in alone)
    pairs, threes = (itertools.product(places, repeat=m) for m in (2, 3))
    for table in (*pairs, *itertools.islice(threes, 0, None, 7)):
        assert (histogram([alphabet[i] for i in table]) == sum(alone[i] for i in table)).all()
    return alone, max(moved(one, other) for one, other in itertools.combinations(alone, 2))


@pytest.mark.parametrize("kind", ["linear", "tree"])
def test_replacing_one_record_moves_the_table_by_two_and_never_more(worlds, kind):
    counter = counter_of(worlds[kind])
    assert every_table(lambda lines: histogram(worlds[kind], counter, lines), ALPHABET)[1] == 2


def persons_tables(m):
    for people in itertools.product(("a", "b", None), repeat=m):
        for content in itertools.product((0, 1, 2), repeat=m):  # unread, and two cells
            yield people, content


@cache  # the neighbours of all tables are these tables again, many times each
def of_persons(people, content, k):
    return tuple(np.bincount(np.where(surplus_mask(people, k), 0, content), minlength=3).tolist())


@pytest.mark.parametrize("largest", [3, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_replacing_a_person_moves_the_table_by_two_k_and_never_more(k, largest):
    """All tables of so many records: all of a's places go to a newcomer or to nobody, with any content."""
    most = 0
    for m in range(1, largest + 1):
        for people, content in persons_tables(m):
            places = [i for i, person in enumerate(people) if person == "a"]
            before = of_persons(people, content, k)
            for new in itertools.product(itertools.product(("new", None), (0, 1, 2)), repeat=len(places)):
                person, record = list(people), list(content)
                for place, (who, what) in zip(places, new, strict=True):
                    person[place], record[place] = who, what
                after = of_persons(tuple(person), tuple(record), k)
                most = max(most, sum(abs(one - other) for one, other in zip(before, after, strict=True)))
    assert most == 2 * k


# Records as bad as can be written


@pytest.mark.parametrize("kind", ["linear", "tree"])
def test_hostile_records_move_it_by_two_k(worlds, kind):
    world, m, k, rng = worlds[kind], 7, 3, random.Random(3)
    counter, reach = counter_of(world), 0
    for one, other in itertools.islice(nasty_pairs(m, k, rng), 60):
        found = [histogram(world, counter, lines) for lines in (one, other)]
        assert [int(table.sum()) for table in found] == [m, m]
        reach = max(reach, moved(*found))
    assert reach == 2 * k


VALUES = st.one_of(
    st.sampled_from([NAN, float("inf"), -float("inf"), -0.0, 0.0, 0.5, 0.25, 1e308, 5e-324]), st.floats()
)


@settings(max_examples=100)
@given(
    st.lists(st.tuples(VALUES, st.sampled_from([-1, 0, 1]), st.integers(0, 2)), min_size=1, max_size=12),
    st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=6, unique=True),
    st.integers(1, 4),
    st.data(),
)
def test_any_decision_values_labels_groups_and_edges(records, edges, k, data):
    """Flips, ties, NaN, infinities and groups at any edges: k replaced records move it by 2k, and the sum is m."""
    edges = tuple(sorted(edges))
    places = data.draw(st.lists(st.integers(0, len(records) - 1), max_size=k, unique=True))
    other = list(records)
    for place in places:
        other[place] = data.draw(st.tuples(VALUES, st.sampled_from([-1, 0, 1]), st.integers(0, 2)))

    def counts(rows):
        values, labels, groups = map(np.array, zip(*rows, strict=True))
        n_bins = len(edges) + 1
        found = with_groups(class_bins(values.astype(float), labels, edges), groups, 2 * n_bins)
        return np.bincount(found, minlength=1 + 6 * n_bins)

    one, two = counts(records), counts(other)
    assert one.sum() == two.sum() == len(records)
    assert len(one) == len(two) == 1 + 6 * (len(edges) + 1)
    assert moved(one, two) <= 2 * len(places)
    for (value, label, group), at in zip(records, range(len(records)), strict=True):
        cell = int(np.flatnonzero(counts([records[at]]))[0])
        bins = sum(value > edge for edge in edges)
        readable = label in (0, 1) and value == value
        assert cell == (1 + group * 2 * (len(edges) + 1) + label * (len(edges) + 1) + bins if readable else 0)


# One cell for what cannot be read; groups; parts


def test_what_cannot_be_read_is_one_cell_and_other_groups_are_one_group(worlds):
    counter = counter_of(worlds["linear"], edges=(0.0,))
    found = histogram(worlds["linear"], counter, list(ALPHABET))
    assert counter.size == len(found) == 1 + 2 * 2 * 3
    assert found[0] == 3  # a broken number, an unknown label, no record at all
    by_group = found[1:].reshape(3, 2, 2).sum(axis=(1, 2))
    assert by_group.tolist() == [1, 2, 1]  # blue, red, and all others


def test_numbers_texts_and_nothing_are_groups_by_their_own_value():
    grouping = Grouping("g", (1.0, "a"))
    table = table_of({"g": [1, "1", "a", None, "b", 2.0, " a ", True]})
    assert grouping.of(table).tolist() == [0, 0, 1, 2, 2, 2, 1, 0]
    numbers = table_of({"g": [1, 2.0, 1]})  # of no text in this table: the meaning of a value is its own
    assert grouping.of(numbers).tolist() == [0, 2, 0]


def test_parts_add_up_to_the_whole_to_the_last_record(worlds, tmp_path):
    world, rng = worlds["linear"], np.random.default_rng(2)
    columns = {
        "a": rng.normal(size=50),
        "b": rng.normal(size=50),
        "colour": rng.choice(["red", "blue", "green"], size=50),
        "y": rng.choice(["yes", "no", "maybe"], size=50),
    }
    for number, part in enumerate(np.array_split(np.arange(50), [3, 3, 31])):
        pq.write_table(
            pa.table({name: column[part] for name, column in columns.items()}), tmp_path / f"{number}.parquet"
        )
    counter, parts = counter_of(world), sorted(tmp_path.glob("*.parquet"))
    whole = counter.histogram(table_of(columns))
    assert (counter.of_parts(parts, 50, None) == whole).all()
    assert whole.sum() == 50
    with pytest.raises(Sealed):
        counter.of_parts(parts, 49, None)
    parts[1].write_bytes(b"no table")
    with pytest.raises(Sealed):
        counter.of_parts(parts, 50, None)
