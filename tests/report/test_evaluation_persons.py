"""Reports in which each person counts once: the table under attack, its figures, its key, its certificate."""

import copy
import itertools
import json
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics
from test_evaluation import NOISELESS, final_model, frozen_draw, of_files
from test_evaluation import noiseless as tuned_noiseless

from dpbo.tasks.reporting.release_document import release_document
from dpbo.tasks.reporting.release_files import page
from dpbo_core import PrivacyLedger, evaluate_study, plan_evaluation, run_study
from dpbo_core.data import Preprocessing, table_of
from dpbo_core.errors import CertificateFalse, Sealed
from dpbo_core.ledger.accounting.certificate import read_certificate, recompute
from dpbo_core.models.estimators import EstimatorFactory
from dpbo_core.models.scoring.persons import Persons
from dpbo_core.privacy.guarantee import NeighboringRelation
from dpbo_core.report.binary import Binary, BinaryCells
from dpbo_core.report.binary_bins import AucTies, PublicSteps
from dpbo_core.report.certified import CERTIFIED
from dpbo_core.report.counting import Counter, count_persons, count_persons_of_parts
from dpbo_core.report.histogram_cells import ENTRY_BYTES, MAX_CELL_WEIGHT, PERSON_WEIGHT, PersonCells
from dpbo_core.report.noised_table import NoisedTable, simulated_noise
from dpbo_core.report.request import EvaluationQuery
from dpbo_core.study import StudySpec
from dpbo_core.study.resolve import resolve

pytestmark = pytest.mark.filterwarnings("ignore:this report will not be usable")

# The arithmetic, enumerated

CELLS = (0, 1, 2)  # what cannot be read, and two others


def ours(table, n_persons, weight):
    """`table`: (person, cell) of every record."""
    cells = np.array([cell for _, cell in table], dtype=np.int64)
    return PersonCells.of(Persons.of([who for who, _ in table]), cells).table(len(CELLS), n_persons, weight)


def by_hand(table, n_persons, weight):
    """The definition, person by person, in Python's integers."""
    found = [0] * len(CELLS)
    for who in {who for who, _ in table} - {None}:
        own = [cell for person, cell in table if person == who]
        for cell in own:
            found[cell] += weight // len(own)
    found[0] = n_persons * weight - sum(found[1:])
    return np.array(found)


def tables(people, sizes):
    for size in sizes:
        yield from itertools.combinations_with_replacement(list(itertools.product(people, CELLS)), size)


PUT = tuple(tables(("new", None), range(4)))  # what may stand in a person's place


def furthest(counts, n_persons, weight):
    """The largest ℓ₁ and ℓ₂² between neighbours: all records of "a" become any of a newcomer's, nobody's, none."""
    known = {}

    def of(table):
        if table not in known:
            known[table] = counts(table, n_persons, weight)
        return known[table]

    l1 = l2 = 0
    for table in tables(("a", "b", None), range(4)):
        kept = tuple(record for record in table if record[0] != "a")
        for put in PUT:
            off = np.abs(of(table) - of((*kept, *put)))
            l1, l2 = max(l1, int(off.sum())), max(l2, int((off**2).sum()))
    return l1, l2


@pytest.mark.parametrize(
    ("n_persons", "weight"),
    [(1, 12), (3, 2), *(pytest.param(*of, marks=pytest.mark.slow) for of in ((1, 2), (3, 12)))],
)
def test_a_person_moves_the_table_by_two_weights_and_never_more(n_persons, weight):
    """Every table of up to three records, whatever a newcomer has; with fewer persons present than stated, and with
    more (n_persons = 1); with weights that a person's records divide, and with none left (2 among 3)."""
    l1, l2 = furthest(by_hand, n_persons, weight)
    assert l1 == 2 * weight
    assert l2 == 2 * weight**2
    sums = {int(by_hand(table, n_persons, weight).sum()) for table in tables(("a", "b"), range(4))}
    assert sums == {n_persons * weight}


@pytest.mark.parametrize("weight", [12, 2, PERSON_WEIGHT])
def test_ours_is_the_definition(weight):
    for table in itertools.islice(tables(("a", "b", None), range(1, 5)), 0, None, 7):
        assert (ours(table, 2, weight) == by_hand(table, 2, weight)).all()
    assert ours((), 2, weight).tolist() == [2 * weight, 0, 0]


RECORD = st.tuples(st.sampled_from(["a", "b", "c", None]), st.sampled_from(CELLS))
NEW = st.tuples(st.sampled_from(["new", None]), st.sampled_from(CELLS))


@settings(max_examples=60, deadline=None)
@given(st.lists(RECORD, max_size=12), st.lists(NEW, max_size=40), st.integers(1, 5), st.data())
def test_any_number_of_records_moves_it_by_two_weights(table, put, n_persons, data):
    kept = [record for record in table if record[0] != "a"]
    after = data.draw(st.permutations([*kept, *put]))
    one, other = (ours(each, n_persons, PERSON_WEIGHT) for each in (table, after))
    assert int(np.abs(one - other).sum()) <= 2 * PERSON_WEIGHT
    assert float(((one - other).astype(float) ** 2).sum()) <= 2.0 * PERSON_WEIGHT**2
    assert one.sum() == other.sum() == n_persons * PERSON_WEIGHT


@settings(max_examples=100, deadline=None)
@given(st.lists(RECORD, max_size=25), st.lists(st.integers(0, 25), max_size=4), st.integers(1, 6))
def test_parts_add_up_to_the_same_integers(table, cuts, n_persons):
    ends = [0, *sorted(min(cut, len(table)) for cut in cuts), len(table)]
    answers = []
    for start, end in itertools.pairwise(ends):
        part = table[start:end]
        cells = np.array([cell for _, cell in part], dtype=np.int64)
        answers.append(PersonCells.of(Persons.of([who for who, _ in part]), cells).to_bytes())
    assert (PersonCells.merged(answers).table(3, n_persons) == ours(table, n_persons, PERSON_WEIGHT)).all()


def test_an_answer_is_as_wide_whatever_the_cells_and_the_names():
    def width(people, cells):
        return len(PersonCells.of(Persons.of(people), np.array(cells, dtype=np.int64)).to_bytes())

    assert (
        width(["a", "b", "c", "d"], [0, 0, 0, 0])
        == width(["x" * 900, "b", "c", "x"], [2, 1, 1, 0])
        == 4 * ENTRY_BYTES
    )
    assert width(["a"] * 500 + ["b", "c"], [1] * 502) == 4 * ENTRY_BYTES
    assert width([], []) == width([None, None], [1, 2]) == width(["a"], [1]) == ENTRY_BYTES


def test_no_table_is_out_of_the_mechanisms_range():
    found = PersonCells.of(Persons.of(["a", "b", "c"]), np.array([1, 1, 1])).table(3, 2, MAX_CELL_WEIGHT // 2)
    assert found.tolist() == [-MAX_CELL_WEIGHT // 2, MAX_CELL_WEIGHT, 0]


# Cells do not depend on who else is there


class ByPlace:
    """A decision that follows from the batch's size and a row's place: what rounding may do to a tie."""

    def decision_function(self, X):
        return (len(X) + np.arange(len(X))) % 2 - 0.5


def test_others_stay_in_their_cells_whoever_leaves():
    rng = np.random.default_rng(4)
    columns = {"a": rng.normal(size=1100), "y": rng.integers(0, 2, 1100)}
    fitted = Preprocessing.fit(table_of(columns), "y", unit_ball=False)
    encoded = fitted.transform(table_of(columns))
    model = EstimatorFactory("sklearn.svm.LinearSVC").train(encoded.X, encoded.labels)
    counter = Counter(fitted, replace(model, estimator=ByPlace()), BinaryCells((0.0,), "decision_function"))
    whole = counter.by_person(table_of(columns), [f"p{i}" for i in range(1100)])
    of_whom = dict(zip(map(bytes, whole.names), whole.cells.tolist(), strict=True))
    for gone in (1, 80, 1099):
        left = {name: column[gone:] for name, column in columns.items()}
        rest = counter.by_person(table_of(left), [f"p{i}" for i in range(gone, 1100)])
        found = dict(zip(map(bytes, rest.names), rest.cells.tolist(), strict=True))
        assert len(found) == 1100 - gone
        assert all(of_whom[name] == cell for name, cell in found.items())
    moved = counter.histogram(table_of(left)) != counter.histogram(table_of(columns))
    assert moved.any()  # by place it would be otherwise


# Whole studies

TREE = "sklearn.tree.DecisionTree"
DEPTHS = {"max_depth": {"values": [2, 3]}}
LAMBDA = {"lambda": {"values": [0.1]}}


def files(folder, *, people=120, kind="two", parts=0):
    """A public file, and a sensitive one in which persons have from one record to many; its columns."""
    rng = np.random.default_rng(6)
    who = np.repeat([f"p{i}" for i in range(people)], 1 + rng.geometric(0.3, people))
    rng.shuffle(who)
    for name, n in (("train", 300), ("validation", len(who))):
        a, b = rng.normal(size=(2, n))
        noisy = a - b + rng.normal(size=n)
        y = {"two": (noisy > 0).astype(int), "errors": noisy}.get(kind)
        y = np.array(["low", "mid", "high"])[np.digitize(noisy, [-0.7, 0.7])] if y is None else y
        columns = {"who": who if name == "validation" else np.arange(n).astype(str)}
        columns |= {"sex": rng.choice(["f", "m"], size=n), "a": a, "b": b, "y": y}
        pd.DataFrame(columns).to_csv(folder / f"{name}.csv", index=False)
    if parts:
        (folder / "validation").mkdir()
        for i in range(parts):
            part = {name: column[i::parts] for name, column in columns.items()}
            pq.write_table(pa.table(part), folder / "validation" / f"{i}.parquet")
    return columns


def study(*, n_persons=120, validation="validation.csv", model=None, space=None, **evaluation):
    tables = of_files(model=model or {"estimator": "logistic"}, evaluation={"epsilon": 1.0, **evaluation})
    tables["privacy"]["person"], tables["space"] = "who", space or (LAMBDA if model is None else DEPTHS)
    tables["data"] |= {"validation": validation, "n_persons": n_persons, "target": "y", "ignore": ["sex"]}
    del tables["data"]["n_validation"]
    return tables


def a_ledger(folder):
    return PrivacyLedger(f"sqlite:///{folder / 'l.db'}")


def noiseless(tables, folder):
    """A report without noise, on a data set declared public, and the model it is of."""
    spec, ledger = tuned_noiseless(tables, folder)
    found = evaluate_study(spec, ledger=ledger, folder=folder, source=NOISELESS).release
    return found, final_model(spec, ledger, folder)


def weights_of(who):
    _, owners, counts = np.unique(who, return_inverse=True, return_counts=True)
    return 1.0 / counts[owners]


@pytest.mark.parametrize(
    "model", [None, {"estimator": TREE + "Classifier", "score": "log_loss"}], ids=["linear", "tree"]
)
def test_without_noise_every_record_weighs_its_share_of_its_person(tmp_path, model):
    """Against scikit-learn with sample_weight = 1/c: no bias but the rounding of the weights, below 1e-6."""
    columns = files(tmp_path)
    found, final = noiseless(study(model=model, group="sex", groups=["f", "m"], bins=12, epsilon=10.0), tmp_path)
    predicted = final.predict({name: list(columns[name]) for name in ("a", "b")}).astype(int)
    y, w = columns["y"], weights_of(columns["who"])
    told = {name: figure["value"] for name, figure in found.value["metrics"].items()}
    for name, score in (
        ("accuracy", metrics.accuracy_score),
        ("recall", metrics.recall_score),
        ("precision", metrics.precision_score),
        ("f1", metrics.f1_score),
        ("balanced_accuracy", metrics.balanced_accuracy_score),
    ):
        assert told[name] == pytest.approx(score(y, predicted, sample_weight=w), abs=1e-6), name
        assert abs(told[name] - score(y, predicted)) > 1e-5 or name == "balanced_accuracy"  # records would say else
    assert told["positive_share"] == pytest.approx(np.average(y, weights=w), abs=1e-6)
    assert told["unread_share"] == pytest.approx(0.0, abs=1e-6)
    f = columns["sex"] == "f"
    group = found.value["groups"]["f"]
    assert group["records_share"]["value"] == pytest.approx(w[f].sum() / w.sum(), abs=1e-6)
    assert group["recall"]["value"] == pytest.approx(metrics.recall_score(y[f], predicted[f], sample_weight=w[f]))
    table = found.value["table"]
    assert sum(table["drawn"]) == 120 * PERSON_WEIGHT
    assert (table["n_persons"], table["weight"], table["noise_scale"]) == (120, PERSON_WEIGHT, pytest.approx(0.2))
    assert "n_records" not in table


@pytest.mark.parametrize("kind", ["classes", "errors"])
def test_reports_of_other_kinds_weigh_them_too(tmp_path, kind):
    columns = files(tmp_path, kind=kind)
    model = {
        "classes": {"estimator": TREE + "Classifier", "score": "accuracy"},
        "errors": {"estimator": TREE + "Regressor", "score": "absolute_error", "error_bound": 9.0},
    }[kind]
    found, final = noiseless(study(model=model), tmp_path)
    predicted = final.predict({name: list(columns[name]) for name in ("a", "b")})
    y, w = columns["y"], weights_of(columns["who"])
    told = {name: figure["value"] for name, figure in found.value["metrics"].items()}
    if kind == "classes":
        assert told["accuracy"] == pytest.approx(metrics.accuracy_score(y, predicted, sample_weight=w), abs=1e-6)
        macro = metrics.f1_score(y, predicted, sample_weight=w, average="macro")
        assert told["macro_f1"] == pytest.approx(macro, abs=1e-6)
    else:
        exact = metrics.mean_absolute_error(y, predicted.astype(float), sample_weight=w)
        assert abs(told["mae"] - exact) <= found.value["binning"]["mae_off_at_most"]
        assert told["mae"] == pytest.approx(exact, abs=0.05)
    assert found.value["table"]["n_persons"] == 120
    assert sum(found.value["table"]["drawn"]) == 120 * PERSON_WEIGHT


def test_fewer_persons_present_are_unread_and_more_change_nothing_else(tmp_path):
    columns = files(tmp_path)
    found, _ = noiseless(study(n_persons=160, bins=12), tmp_path)
    assert found.value["metrics"]["unread_share"]["value"] == pytest.approx(0.25, abs=1e-6)
    fewer = tmp_path / "more"
    fewer.mkdir()
    files(fewer)
    other, _ = noiseless(study(n_persons=100, bins=12), fewer)
    assert other.value["table"]["drawn"][1:] == found.value["table"]["drawn"][1:]
    assert other.value["table"]["drawn"][0] < 0 < found.value["table"]["drawn"][0]
    assert other.value["metrics"]["unread_share"]["value"] == 0.0
    for name in ("auc", "recall", "precision"):
        one, two = (release.value["metrics"][name]["value"] for release in (found, other))
        assert one == pytest.approx(two)
    assert len(columns["who"]) > 160  # and the number of records is nobody's business


def test_parts_and_one_file_give_the_same_table_whatever_is_in_them(tmp_path):
    files(tmp_path, parts=4)
    whole, _ = noiseless(study(bins=8), tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    files(other, parts=4)
    parts, _ = noiseless(study(bins=8, validation="validation"), other)
    assert parts.value["table"] == whole.value["table"]


def test_a_lost_part_or_persons_of_other_records_seal(tmp_path):
    columns = files(tmp_path, parts=2)
    public = table_of({name: columns[name].tolist() for name in ("a", "b", "y")})
    fitted = Preprocessing.fit(public, "y", unit_ball=False)
    encoded = fitted.transform(public)
    model = EstimatorFactory("sklearn.svm.LinearSVC").train(encoded.X, encoded.labels)
    counter = Counter(fitted, model, BinaryCells((0.0,), "decision_function"))
    parts = sorted((tmp_path / "validation").glob("*.parquet"))
    assert count_persons_of_parts(counter, parts, "who", 120).expose().sum() == 120 * PERSON_WEIGHT
    parts[1].write_bytes(b"no table")
    with pytest.raises(Sealed):
        count_persons_of_parts(counter, parts, "who", 120)
    with pytest.raises(Sealed):
        count_persons(counter, table_of({name: [1, 2] for name in ("a", "b", "y")}), ["p"], 120)
    with pytest.raises(Sealed):
        count_persons(counter, table_of({name: [1, 2] for name in ("a", "b", "y")}), None, 120)


# The release


def test_a_release_says_whom_it_protects_and_its_certificate_holds(tmp_path):
    files(tmp_path)
    spec, ledger = StudySpec.from_dict(study()), a_ledger(tmp_path)
    run_study(spec, ledger=ledger, folder=tmp_path)
    plan = plan_evaluation(spec, ledger=ledger, folder=tmp_path)
    assert "120 persons" in plan.expected.why
    (spend,) = plan.price.spends
    assert (spend.sensitivity, spend.noise_scale) == (2.0, pytest.approx(2.0))
    found = evaluate_study(spec, ledger=ledger, folder=tmp_path).release
    assert found.guarantee.relation is NeighboringRelation.REPLACE_ONE_PERSON
    assert found.guarantee.person == "who"
    assert found.facts["n_persons"] == 120
    assert "persons" in found.facts["sampling"]
    assert not {"n_validation", "max_records_per_person"} & set(found.facts)
    assert evaluate_study(spec, ledger=ledger, folder=tmp_path).replayed
    told = {fact.name: fact.text for fact in release_document(found).facts}
    assert told["persons"].startswith("each of 120 counts once")
    assert "of the persons lie above it" in told["threshold"]
    assert "these very persons" in told["intervals"]
    assert "The table sums to 120 persons" in page(found, ())
    honest = json.loads(json.dumps(found.to_json()))
    assert recompute(read_certificate(honest, CERTIFIED), CERTIFIED).epsilon == pytest.approx(1.0, rel=1e-9)
    for change in (
        lambda d: d["guarantee"].update(relation="replace_one"),
        lambda d: d["guarantee"].update(unit="validation_record", person=None),
        lambda d: d["spends"][0].update(sensitivity=1.0, noise_scale=1.0),  # of one cell, not of two
        lambda d: d["facts"].update(n_validation=120, max_records_per_person=1),
        lambda d: (d["facts"].pop("n_persons"), d["facts"].update(n_validation=120, max_records_per_person=1)),
    ):
        document = copy.deepcopy(honest)
        change(document)
        with pytest.raises(CertificateFalse):
            recompute(read_certificate(document, CERTIFIED), CERTIFIED)


def test_another_number_of_persons_is_another_question():
    """The same records are in another table."""

    def key(n_persons):
        spec = StudySpec.from_dict(study(n_persons=n_persons))
        return EvaluationQuery.of(spec, resolve(spec).problem, None).key("digest", None).fingerprint

    assert key(120) == key(120) != key(121)


def test_on_a_neighbour_everything_is_the_same_but_the_draw(tmp_path, monkeypatch):
    """One candidate, so that tuning chooses alike; the draw frozen: a person with more records, hostile ones, none,
    or of another name leaves a byte-identical release and no longer or shorter ledger."""
    queries, shown, sizes = frozen_draw(monkeypatch), [], set()
    for number, rows in enumerate((None, [], [b"p0,f,1,1,1"] * 9, [b"new,x,9e9,nan,7", b"new,,\xff", b",f,1,1,1"])):
        folder = tmp_path / str(number)
        folder.mkdir()
        files(folder)
        if rows is not None:
            lines = (folder / "validation.csv").read_bytes().splitlines()
            kept = [line for line in lines if not line.startswith(b"p0,")]
            (folder / "validation.csv").write_bytes(b"\n".join([*kept, *rows]) + b"\n")
        spec = StudySpec.from_dict(study(group="sex", groups=["f", "m"], bins=8))
        run_study(spec, ledger=a_ledger(folder), folder=folder)
        release = evaluate_study(spec, ledger=a_ledger(folder), folder=folder).release
        shown.append(json.dumps(replace(release, released_at="", ledger={}).to_json(), sort_keys=True))
        sizes.add((folder / "l.db").stat().st_size)
    assert len(set(shown)) == 1
    assert len(sizes) == 1
    moves = [int(np.abs(query - queries[0]).sum()) for query in queries]
    assert 0 < max(moves) <= 2 * PERSON_WEIGHT


# Intervals


def covered(runs, *, people, seed):
    """How often each noise interval holds the figure of the very persons, and each sampling interval the law's.

    Each run simulates with a seed of its own: 500 tables that all runs share err by 2% in all of them alike.
    """
    rng, edges = np.random.default_rng(seed), (-1.0, -0.3, 0.0, 0.4, 1.1, 2.0)
    names = ("auc", "recall", "specificity", "precision", "f1", "accuracy")

    def drawn(n):
        counts = 1 + rng.geometric(0.4, n)
        owners = np.repeat(np.arange(n), counts)
        y = rng.random(len(owners)) < 0.36
        values = rng.normal(size=len(owners)) + 0.5 * rng.normal(size=n)[owners] + 1.2 * y
        cells = 1 + y * 7 + np.digitize(values, edges, right=True)
        names = np.zeros((n, 32), dtype=np.uint8)
        names[:, :8] = np.arange(n, dtype="<u8").view(np.uint8).reshape(n, 8)
        return PersonCells.of(Persons(names, owners), cells).table(15, n)

    def table(counts, n, scale):
        steps = PublicSteps.of(np.zeros(0), np.zeros(0, dtype=bool), edges)
        kind = Binary(edges, 0.0, AucTies(0.5, 0.0), None, steps)
        return NoisedTable(n, scale, kind, (), tuple(counts.tolist()), weight=PERSON_WEIGHT)

    law = table(drawn(400_000), 400_000, 1.0)
    whole = law.figures(law.counts)
    held = {(kind, name): 0 for kind in ("noise", "sampling") for name in names}
    for seed in range(runs):
        counts = drawn(people)
        exact = table(counts, people, 2.0)
        truth = exact.figures(exact.counts)
        noise = np.rint(simulated_noise(rng, 2.0, counts.shape, PERSON_WEIGHT) * PERSON_WEIGHT).astype(np.int64)
        with patch("dpbo_core.report.noised_table.SEED", seed):
            of_noise = table(counts + noise, people, 2.0).estimates().noise
            of_sampling = table(counts, people, 1e-9).estimates().sampling
        for name in names:
            held["noise", name] += bool(of_noise[name][0] <= truth[name] <= of_noise[name][1])
            held["sampling", name] += bool(of_sampling[name][0] <= whole[name] <= of_sampling[name][1])
    return {key: count / runs for key, count in held.items()}


@pytest.mark.slow
def test_noise_intervals_hold_in_87_to_93_percent_of_1000_runs_and_sampling_ones_in_no_less():
    found = covered(1000, people=1000, seed=3)
    assert found.pop(("noise", "auc")) >= 0.87, found  # for any order of the records in a bin, so more often
    assert all(0.87 <= share <= 0.93 for (kind, _), share in found.items() if kind == "noise"), found
    assert all(share >= 0.87 for (kind, _), share in found.items() if kind == "sampling"), found
