"""A person's records: k of them count, whatever they are; guarantees to other persons need another cap."""

import itertools
import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from of_features import installed
from test_persons import by_slots, make
from test_persons import study as of_persons

from dpbo_core.data.people import person_identifier, read_people, surplus_mask
from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.models.integer_sums import GRID
from dpbo_core.privacy.guarantee import PrivacyGuarantee, PrivacyUnit
from dpbo_core.study import data_split
from dpbo_core.study.resolve import plan_study
from dpbo_core.study.tuning import run_study


@pytest.mark.parametrize(("raw", "person"), [
    ("007", "007"), (7, "7"), (np.int64(7), "7"), (7.0, "7"), (2**60 + 1, str(2**60 + 1)), (" ann ", "ann"),
    (b"ann", "ann"), (Decimal(12), "12"), (2.0**53, None), (7.5, None), (math.nan, None), ("", None),
    (b"\xff", None), (None, None), (True, None), (Decimal("NaN"), None),
])  # fmt: skip
def test_a_person_is_the_text_as_written(raw, person):
    assert person_identifier(raw) == person


def test_the_first_records_count():
    assert surplus_mask(["a", "b", "a", None, "a", "b"], 2).tolist() == [False, False, False, True, True, False]
    assert surplus_mask(["a", "a"], 1).tolist() == [False, True]
    assert surplus_mask([], 3).tolist() == []


def study(*, end="csv", m=12, k=2, **privacy):
    return by_slots(of_persons(end=end, privacy=privacy), m, k)


def labels(spec, folder):
    public = data_split.public_half(spec, folder)
    data_split.check_presence(spec, folder, public)
    return data_split.sensitive_half(spec, folder, public)._records.expose().labels


@pytest.mark.parametrize("end", ["csv", "parquet"])
def test_it_is_enforced_from_the_file(tmp_path, end):
    ids = [2**60, 2**60 + 1, 2**60, 5, 2**60 + 1, 2**60, 5, 5, 5, 8, 8, 9]  # as doubles the first two are one
    make(tmp_path, ids, end=end)
    found = labels(study(end=end), tmp_path)
    assert (found < 0).tolist() == [False] * 5 + [True, False, True, True, False, False, False]


def test_hostile_persons_are_no_error_and_never_count(tmp_path):
    make(tmp_path, list(range(12)))
    lines = (tmp_path / "validation.csv").read_bytes().split(b"\n")
    lines[1:5] = [b",1,1,1", b"\xff,1,1,1", b"nan,1,1,1", b'"a"b,1,1,1']
    (tmp_path / "validation.csv").write_bytes(b"\n".join(lines))
    found = labels(study(), tmp_path)
    assert (found < 0).tolist() == [True] * 4 + [False] * 8
    result = run_study(study(), ledger=PrivacyLedger(f"sqlite:///{tmp_path / 'l.db'}"), folder=tmp_path)
    assert result.release.guarantee.unit is PrivacyUnit.PERSON


def test_a_parquet_text_that_is_not_utf8_costs_its_own_record(tmp_path):
    make(tmp_path, list(range(12)), end="parquet")
    table = pq.read_table(tmp_path / "validation.parquet")
    raw = pa.array([b"\xff", b"a", *[b"b%d" % i for i in range(10)]]).view(pa.string())
    pq.write_table(table.set_column(0, "who", raw), tmp_path / "validation.parquet")
    people = read_people(tmp_path / "validation.parquet", "who", display_name="v")
    assert people[:3] == (None, "a", "b0")
    assert (labels(study(end="parquet"), tmp_path) < 0).tolist() == [True] + [False] * 11


def test_the_promise_is_to_persons_whatever_k_is(tmp_path):
    make(tmp_path, [i // 3 for i in range(12)])
    book = PrivacyLedger(f"sqlite:///{tmp_path / 'l.db'}")
    spec = study()
    guarantee = plan_study(spec).guarantee
    assert (guarantee.unit, guarantee.person) == (PrivacyUnit.PERSON, "who")
    assert "person in the validation set, as column 'who'" in guarantee.in_words()
    assert PrivacyGuarantee.from_json(guarantee.to_json()) == guarantee
    assert max(s.sensitivity for s in plan_study(spec).spends) == pytest.approx(2 / 12)
    run_study(spec, ledger=book, folder=tmp_path)
    another_k = spec.replace(edition="2", privacy=spec.privacy.replace(max_records_per_person=1))
    run_study(another_k, ledger=book, folder=tmp_path)  # k is enforced, the guarantee is to a person either way
    assert book.accounts("d")[0].spent.epsilon_units == 2 * 10**12


def test_the_column_is_no_feature_and_must_be_there(tmp_path):
    make(tmp_path, list(range(12)))
    spec = study()
    assert data_split.public_half(spec, tmp_path).preprocessing.feature_names == ("x", "z")
    text = (tmp_path / "validation.csv").read_text()
    (tmp_path / "validation.csv").write_text(text.replace("who", "whom", 1))
    with pytest.raises(StudyInvalid, match="no column 'who'"):
        data_split.check_presence(spec, tmp_path, data_split.public_half(spec, tmp_path))


def test_the_sum_moves_by_k_records_through_the_whole_objective(tmp_path):
    """End to end at a fixed model, over 40 random replacements of one person by a newcomer."""
    rng = np.random.default_rng(5)
    ids = [str(rng.integers(4)) for _ in range(12)]
    make(tmp_path, ids)
    spec = study()
    public = data_split.public_half(spec, tmp_path)
    model = public.problem.train(0)
    header, *lines = (tmp_path / "validation.csv").read_text().splitlines()

    def total(rows):
        (tmp_path / "validation.csv").write_text("\n".join([header, *rows]) + "\n")
        return data_split.sensitive_half(spec, tmp_path, public).evaluate(model).expose()

    before, moved = total(lines), []
    for _ in range(40):
        old = rng.choice(ids)
        newcomer = [
            f"{rng.choice(['new', ''])},{rng.choice(['9e9', '-9e9', 'x'])},0,{rng.integers(2)}" for _ in ids
        ]
        after = [new if who == old else row for new, who, row in zip(newcomer, ids, lines, strict=True)]
        moved.append(abs(total(after) - before))
    assert 1.2 * GRID < max(moved) <= 2 * GRID


# --- hostile values


def test_no_value_is_an_error():
    assert person_identifier(10**5000) is None  # Python writes no number of so many digits
    assert person_identifier(Decimal("sNaN")) is None
    assert person_identifier(Decimal("1e999999")) is not None
    assert person_identifier(np.longdouble(2) ** 52 + np.longdouble(0.25)) is None


@pytest.mark.parametrize(("raw", "person"), [
    (np.float32(2**24 - 1), str(2**24 - 1)), (np.float32(2**24), None),  # 2²⁴ + 1 was rounded to it
    (np.float16(2047), "2047"), (np.float16(2048), None), (np.longdouble(2) ** 60, None),
])  # fmt: skip
def test_a_rounded_number_names_nobody(raw, person):
    assert person_identifier(raw) == person


@pytest.mark.parametrize("kind", ["numpy", "nullable", "half", "parquet"])
def test_two_people_that_a_short_float_made_one_do_not_count(tmp_path, kind):
    """Read as one person, either of them could free k places of the other: 2k places for one person's records."""
    import pandas as pd

    from dpbo_core.data.frames import frame_of

    ids = np.array([2**24, 2**24 + 1, 5], dtype=np.float32)
    if kind == "half":
        ids = np.array([2048, 2049, 5], dtype=np.float16)
    assert ids[0] == ids[1]
    if kind == "parquet":
        pq.write_table(pa.table({" who ": ids}), tmp_path / "v.parquet")
        found = read_people(tmp_path / "v.parquet", "who", display_name="v")
    else:
        table = {
            "numpy": lambda: np.column_stack([ids, ids]),
            "nullable": lambda: pd.DataFrame({"x0": pd.array(ids.tolist(), dtype="Float32")}),
            "half": lambda: pa.table({"x0": ids}),
        }[kind]()
        found = tuple(person_identifier(value) for value in frame_of(table, None, display_name="V").values("x0"))
    assert found == (None, None, "5")


def influence(count, people, after, places, k):
    """The most the sum can move over ALL scores in [0, 1] and constants 0, ½, 1, when `places` are rewritten.

    A record of somebody else that starts or stops counting moves it by max(c, 1 − c) too.
    """
    before_in, after_in = ~count(people, k), ~count(after, k)
    worst = 0.0
    for c in (0.0, 0.5, 1.0):
        up = sum(1 - c for i in places if after_in[i]) + sum(c for i in places if before_in[i])
        down = sum(c for i in places if after_in[i]) + sum(1 - c for i in places if before_in[i])
        others = sum(max(c, 1 - c) for i in range(len(people)) if i not in places and before_in[i] != after_in[i])
        worst = max(worst, up + others, down + others)
    return worst


def most(count, k, m=5):
    """`influence`, over EVERY assignment of m records to three people and nobody, and every rewriting of one."""
    found = 0.0
    for people in itertools.product(("a", "b", None), repeat=m):
        places = [i for i, person in enumerate(people) if person == "a"]
        for written in itertools.product(("new", None), repeat=len(places)):
            after = list(people)
            for i, person in zip(places, written, strict=True):
                after[i] = person
            found = max(found, influence(count, list(people), after, places, k))
    return found


@pytest.mark.parametrize("k", [1, 2, 3])
def test_by_enumeration_one_person_moves_the_sum_by_k_and_no_more(k):
    assert most(surplus_mask, k) == k


KINDS = installed("private_grid", "private_trajectory", "lipschitz", "noisy_gp", "dp_hypo")


@pytest.mark.parametrize("kind", KINDS)
def test_every_method_prices_a_person_as_k_records(kind):
    spec = study(m=400, k=3).replace(method=kind)
    told = spec.replace(privacy=spec.privacy.replace(person=None))
    one = told.replace(privacy=told.privacy.replace(max_records_per_person=1))
    plan = plan_study(spec)
    assert plan.spends == plan_study(told).spends
    assert plan.guarantee.unit is PrivacyUnit.PERSON
    times = 1 if kind == "noisy_gp" else 3  # its noise is capped by the score's range
    assert plan.spends[0].sensitivity == pytest.approx(times * plan_study(one).spends[0].sensitivity)
