"""Each person counts once, by the mean of that person's records: exact, unbiased, and moved by one step at most."""

import itertools
import json
import logging
import re
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from of_features import merged, parts
from worlds import at_length, search_of

from dpbo_core import Categorical, Real, evaluate_study
from dpbo_core.data import Encoded
from dpbo_core.data.frames import frame_of
from dpbo_core.data.values import GAP_TEXTS
from dpbo_core.errors import BudgetRefused, CertificateFalse, Sealed, StudyInvalid
from dpbo_core.ledger.accounting.certificate import read_certificate, recompute
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.methods.certified import CERTIFIED
from dpbo_core.models.estimators import EstimatorFactory, FittedEstimator
from dpbo_core.models.integer_sums import GRID
from dpbo_core.models.scores.accuracy import Correct
from dpbo_core.models.scores.log_loss import LogLoss
from dpbo_core.models.scoring.persons import AddedAnswers, Persons
from dpbo_core.privacy.guarantee import NeighboringRelation, PrivacyGuarantee, PrivacyUnit
from dpbo_core.sklearn_api.tables_in_memory import person_in_memory
from dpbo_core.study import StudySpec, data_split
from dpbo_core.study.resolve import advise_study, plan_study
from dpbo_core.study.tuning import run_study

HALF = GRID // 2
BY_PERSON = NeighboringRelation.REPLACE_ONE_PERSON


# --- the mathematics, enumerated


def ours(table, n_persons, absent=0):
    """`table`: (person, steps) of every record."""
    steps = np.array([s for _, s in table], dtype=np.int64)
    return Persons.of([p for p, _ in table]).sums([steps[:, None]], 1).totals(n_persons, absent)[0]


def totals(people, own, steps, *n_persons_and_absent):
    """The sum of every table of records of `people` and `own`: (choices of the steps of `people`, of `own`)."""
    chosen = np.array([*itertools.product(steps, repeat=len(people) + len(own))], dtype=np.int64)
    records = chosen.reshape(len(chosen), -1).T
    sums = Persons.of([*people, *own]).sums([records], len(chosen)).totals(*n_persons_and_absent)
    return np.array(sums).reshape(len(steps) ** len(people), -1)


def furthest(people, steps, n_persons, absent):
    """The largest move between neighbours, over all tables of at most three records of "a", `people` and nobody:

    all records of "a" become up to two of one newcomer's, of nobody's, or none.
    """
    most, by_size = 0, itertools.combinations_with_replacement
    for kept in (one for k in range(4) for one in by_size((*people, None), k)):
        before = [totals(kept, ["a"] * j, steps, n_persons, absent) for j in range(4 - len(kept))]
        after = [totals(kept, put, steps, n_persons, absent) for k in range(3) for put in by_size(("new", None), k)]
        old, new = np.hstack(before), np.hstack(after)
        most = max(most, *(old.max(axis=1) - new.min(axis=1)), *(new.max(axis=1) - old.min(axis=1)))
    return int(most)


@pytest.mark.parametrize("world", itertools.product((0, HALF), (1, 2, 3, 9)))
def test_no_person_moves_the_sum_by_more_than_a_step(world):
    """More records, fewer, none, and any number of unreadable ones; fewer persons stated than present, and more."""
    absent, n_persons = world
    assert furthest(("b", "c"), (0, 5, GRID), n_persons, absent) == GRID


@pytest.mark.parametrize(("absent", "within"), [(HALF, True), (HALF - 10, True), (0, False), (GRID, False)])
def test_where_a_person_moves_by_a_narrower_range_an_absent_one_must_lie_in_it(absent, within):
    """All means in [φ(−‖w‖), φ(‖w‖)] = ½ ± 10 steps: R. Planted: who is absent scores 0, and moves by far more."""
    assert (furthest(("b",), (HALF - 10, HALF, HALF + 10), 3, absent) <= 20) is within


STEPS = st.integers(0, GRID)
RECORD = st.tuples(st.sampled_from(["a", "b", "c", "d", None]), STEPS)


@settings(max_examples=80, deadline=None)
@given(st.lists(RECORD, max_size=25), st.lists(st.integers(0, 25), max_size=4), st.integers(1, 6), st.data())
def test_parts_add_up_to_the_same_integer(table, cuts, n_persons, data):
    """Any cut, empty parts too; a person's records may lie in all of them."""
    ends = [0, *sorted(min(cut, len(table)) for cut in cuts), len(table)]
    parts = [table[a:b] for a, b in itertools.pairwise(ends)]
    answers = [
        Persons.of([p for p, _ in part])
        .sums([np.array([s for _, s in part], dtype=np.int64).reshape(-1, 1)], 1)
        .to_bytes()
        for part in parts
    ]
    for expected in (1, n_persons):  # more persons may come than were expected
        added = AddedAnswers(1, expected)
        for answer in data.draw(st.permutations(answers)):
            added.add(answer)
        assert added.sums().totals(n_persons)[0] == ours(table, n_persons)


def test_an_answer_is_as_wide_whatever_the_sums_and_the_names():
    def width(people, steps):
        return len(Persons.of(people).sums([np.array(steps, dtype=np.int64)[:, None]], 1).to_bytes())

    assert width(["a", "b", "c", "d"], [0, 0, 0, 0]) == width(["x" * 900, "b", "c", "x"], [GRID] * 4) == 4 * 48
    assert width(["a"] * 500 + ["b", "c"], [GRID] * 502) == 4 * 48
    assert width([], []) == width([None, None], [1, 2]) == width(["a"], [1]) == 48


# --- through files


def make(folder, ids, *, end="csv", seed=3, parts=0):
    """A public file of 60 records, and a sensitive one with the persons `ids`, in one file or in parts."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=60)
    train = {"x": x, "z": rng.normal(size=60), "ill": (x + 0.3 * rng.normal(size=60) > 0).astype(int)}
    m = len(ids)
    v = rng.normal(size=m)
    validation = {
        "who": ids,
        "x": v,
        "z": rng.normal(size=m),
        "ill": (v + 0.5 * rng.normal(size=m) > 0).astype(int),
    }
    write(folder / f"train.{end}", train)
    if parts:
        (folder / "validation").mkdir()
        for i in range(parts):
            write(folder / "validation" / f"{i}.parquet", {name: c[i::parts] for name, c in validation.items()})
    write(folder / f"validation.{end}", validation)
    return validation


def write(path, columns):
    if path.suffix == ".parquet":
        pq.write_table(pa.table(columns), path)
        return
    rows = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(rows) + "\n")


def study(n_persons=5, *, end="csv", method="private_grid", validation=None, model=None, space=None, **more):
    tables = {
        "study": {"name": "people", "method": method},
        "privacy": {"dataset": "d", "epsilon": 1.0, "delta": 1e-6, "person": "who"},
        "budget": {"epsilon": 9.0, "delta": 1e-4},
        "data": {
            "training": f"train.{end}",
            "validation": validation or f"validation.{end}",
            "n_persons": n_persons,
            "target": "ill",
        },
        "model": model or {"estimator": "logistic"},
        "space": space or {"lambda": {"low": 0.01, "high": 1.0, "log": True, "points": 4}},
        "search": {"steps": 3},
    }
    for name, table in more.items():
        tables[name] = {**tables.get(name, {}), **table}
    return StudySpec.from_dict(tables)


LOGISTIC = {
    "model": {"estimator": "sklearn.linear_model.LogisticRegression", "score": "log_loss", "error_bound": 3.0},
    "space": {"C": {"values": [0.1, 1.0]}},
}


def total(spec, folder, public=None, workers=None):
    public = public or data_split.public_half(spec, folder)
    data_split.check_presence(spec, folder, public)
    objective = data_split.sensitive_half(spec, folder, public, workers)
    return objective.evaluate(public.problem.train(0)).expose()


def ledger(folder):
    return PrivacyLedger(f"sqlite:///{folder / 'l.db'}")


IDS = ["a", "b", "a", "a", "c", "b", "d", "d", "a", "e"]


@pytest.mark.parametrize("end", ["csv", "parquet"])
@pytest.mark.parametrize("scored", [{}, LOGISTIC])
def test_it_is_the_mean_of_means_without_bias(tmp_path, end, scored):
    """Against fractions of each record's own score: below 1e-6 whatever the numbers of records."""
    rng = np.random.default_rng(0)
    ids = [f"p{i}" for i in range(40) for _ in range(1 + rng.geometric(0.2))]
    make(tmp_path, ids, end=end)
    spec = study(40, end=end, **scored)
    public = data_split.public_half(spec, tmp_path)
    problem, model = public.problem, public.problem.train(0)
    table = public.preprocessing.transform(data_split.validation_table(spec.data, tmp_path))
    score = problem.score
    exact = model.scores(table.X, table.truth, score) if scored else score.phi(model.margins(table.X, table.signs))
    means = [
        Fraction(sum(Fraction(float(exact[i])) for i, p in enumerate(ids) if p == name), ids.count(name))
        for name in dict.fromkeys(ids)
    ]
    direct = sum(means) / 40
    found = Fraction(total(spec, tmp_path, public)) * Fraction(problem.score_range) / (40 * GRID)
    assert abs(found - direct) < 1e-6
    assert abs(found - direct) <= Fraction(1.5 * problem.score_range / GRID)  # half a step a record, one a person


@settings(max_examples=at_length(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["new", "", "  ", '"']),
            st.sampled_from(["0.3", "9e9", "-9e9", "x", "", "nan", "1e999", "1,2"]),
            st.sampled_from(["0", "1", "2", ""]),
        ),
        max_size=9,
    ),
    st.sampled_from(["a", "b", "e"]),
    st.randoms(use_true_random=False),
)
def test_a_whole_person_replaced_in_the_file(tmp_path, newcomer, old, rng):
    """Through the readers, at a fixed model: more, fewer or no records, in any places, readable or not."""
    if not (tmp_path / "train.csv").exists():
        make(tmp_path, IDS)
    spec, text = study(4), (tmp_path / "validation.csv").read_text()
    public = data_split.public_half(spec, tmp_path)
    header, *lines = text.splitlines()
    before = total(spec, tmp_path, public)
    rows = [row for row in lines if not row.startswith(f"{old},")]
    for who, x, ill in newcomer:
        rows.insert(rng.randint(0, len(rows)), f"{who},{x},0.5,{ill}")
    (tmp_path / "validation.csv").write_text("\n".join([header, *rows]) + "\n")
    try:
        assert abs(total(spec, tmp_path, public) - before) <= GRID
    finally:
        (tmp_path / "validation.csv").write_text(text)


def test_a_record_of_nobody_adds_nothing(tmp_path):
    make(tmp_path, IDS)
    spec, path = study(), tmp_path / "validation.csv"
    before = total(spec, tmp_path)
    path.write_bytes(path.read_bytes() + b",1,1,1\n\xff,1,1,1\n1,1\n  ,1,1,1\n")
    assert total(spec, tmp_path) == before
    path.write_bytes(b"who,x,z,ill\n")
    assert total(spec, tmp_path) == 5 * HALF  # φ(0) for everybody, as for a record that cannot be read
    assert total(study(**LOGISTIC), tmp_path) == 0
    assert run_study(spec, ledger=ledger(tmp_path), folder=tmp_path).release.value["score"] is not None


def test_more_persons_than_stated_are_no_error_and_the_sum_is_clamped(tmp_path):
    make(tmp_path, IDS)
    assert total(study(1, **LOGISTIC), tmp_path) == GRID
    assert total(study(5, **LOGISTIC), tmp_path) == total(study(500, **LOGISTIC), tmp_path) < 5 * GRID
    assert total(study(500), tmp_path) - total(study(5), tmp_path) == 495 * HALF


# --- neighbours have other numbers of records


class ByPlace:
    """What linear algebra may do to a tie, always: a class that follows from the batch's size and a row's place."""

    def predict(self, X):
        return (len(X) + np.arange(len(X))) % 2


def test_a_sum_by_person_takes_each_record_where_its_content_puts_it():
    """The model above, in the objective: whoever leaves, the steps of the others stay."""
    rng = np.random.default_rng(2)
    X, labels = rng.normal(size=(1100, 3)), rng.integers(0, 2, 1100)
    model, records = FittedEstimator(ByPlace(), np.zeros(3)), Encoded(X, labels, np.zeros(1100, dtype=bool), 2)
    whole = model.order_independent_steps(records, Correct())
    assert set(whole.tolist()) == {0, GRID}
    for k in (1, 80, 999):
        assert (model.order_independent_steps(records.part(slice(k, None)), Correct()) == whole[k:]).all()


@settings(max_examples=at_length(40), deadline=None)
@given(st.integers(0, 300), st.integers(0, 2**32 - 1))
def test_a_record_scores_the_same_among_any_others(n, seed):
    """Bit for bit, in any order, beside any others, beside itself, broken ones too."""
    rng = np.random.default_rng(seed)
    order = rng.integers(0, len(ROWS), n)
    found = MODEL.scores_by_content(ROWS[order], TRUTH[order], LogLoss(4.0))
    assert (found == ALONE[order]).all()


X0 = np.random.default_rng(5).normal(size=(90, 6))
MODEL = EstimatorFactory("sklearn.neural_network.MLPClassifier", {"max_iter": 30}, 0).train(
    X0, (X0[:, 0] > 0).astype(int), alpha=1e-3
)
ROWS = np.vstack([np.random.default_rng(6).normal(size=(200, 6)), [[np.nan] * 6, [1e300] * 6]])
TRUTH = np.random.default_rng(7).integers(0, 2, len(ROWS))
ALONE = np.concatenate(
    [MODEL.scores_by_content(ROWS[i : i + 1], TRUTH[i : i + 1], LogLoss(4.0)) for i in range(len(ROWS))]
)


def test_scores_by_content_are_the_estimators(tmp_path):
    """But for last digits; and the two that cannot be predicted score 0."""
    assert np.allclose(ALONE, MODEL.scores(ROWS, TRUTH, LogLoss(4.0)), rtol=0, atol=1e-9)
    assert (ALONE[-2:] == 0).all()
    assert (ALONE[:-2] > 0).any()


# --- parts


@pytest.mark.parametrize("scored", [{}, LOGISTIC])
def test_differences_to_another_model_are_means_of_means_too(tmp_path, scored):
    """Each record's clipped difference on the whole grid, by hand; a whole person replaced moves it by 2²⁴ at most;
    parts come to the integer of one file."""
    ids, clipped = [IDS[i % len(IDS)] + str(i // 37) for i in range(200)], GRID // 20
    validation = make(tmp_path, ids, end="parquet", parts=3)
    public = data_split.public_half(study(60, end="parquet", **scored), tmp_path)
    first, last = (public.problem.train(i) for i in (0, len(public.problem.candidates) - 1))

    def paired(**where):
        spec = study(60, end="parquet", **where, **scored)
        return data_split.sensitive_half(spec, tmp_path, public).paired(last, first, clipped).expose()

    found = paired()
    assert paired(validation="validation") == found
    spec = study(60, end="parquet", **scored)
    records = public.preprocessing.transform(data_split.validation_table(spec.data, tmp_path))
    one, other = (model.order_independent_steps(records, public.problem.score) for model in (last, first))
    means = []
    for name in dict.fromkeys(ids):
        own = [min(max(int(one[i] - other[i]), -clipped), clipped) for i, p in enumerate(ids) if p == name]
        means.append(sum((d + clipped) * GRID // (2 * clipped) for d in own) // len(own))
    assert found == sum(means) + (60 - len(means)) * GRID // 2
    moved = []
    for someone in ("a0", "b1", "e2"):
        rows = [i for i, p in enumerate(ids) if p != someone]
        columns = {name: [column[i] for i in rows] for name, column in validation.items()}
        for more in (0, 1, 3):  # the person gone, or others' extreme records in their place
            extremes = {"who": ["new"], "x": [40.0], "z": [-40.0], "ill": [more % 2]}
            write(
                tmp_path / "validation.parquet",
                {name: [*columns[name], *extremes[name] * more] for name in columns},
            )
            moved.append(abs(paired() - found))
    assert 0 < max(moved) <= GRID


def test_a_lost_part_seals_and_says_no_number(tmp_path):
    class Losing:
        n_processes = 1

        def map(self, work, parts):
            raise AssertionError

        def answers(self, work, parts):
            return [work(part) for part in parts[1:]]

    make(tmp_path, IDS, end="parquet", parts=3)
    spec = study(end="parquet", validation="validation")
    with pytest.raises(Sealed, match=r"^a step on sensitive data failed[^0-9]*$"):
        total(spec, tmp_path, workers=Losing())
    (tmp_path / "validation" / "1.parquet").write_bytes(b"PAR1")
    public = data_split.public_half(spec, tmp_path)
    objective = data_split.sensitive_half(spec, tmp_path, public)
    with pytest.raises(Sealed):
        objective.evaluate(public.problem.train(0))


# --- the study


def test_the_guarantee_is_to_persons_in_a_relation_of_its_own():
    guarantee = plan_study(study()).guarantee
    assert (guarantee.unit, guarantee.relation, guarantee.person) == (PrivacyUnit.PERSON, BY_PERSON, "who")
    assert guarantee.in_words().endswith("as column 'who' tells them apart (replace one person).")
    assert PrivacyGuarantee.from_json(guarantee.to_json()) == guarantee
    assert {s.sensitivity for s in plan_study(study()).spends} == {1 / 5}


EDITS = (
    lambda d: d["facts"].update(n_persons=4),
    lambda d: d["guarantee"].update(relation="replace_one"),
    lambda d: d["facts"].update(n_validation=10, max_records_per_person=1),
    lambda d: d["facts"].pop("n_persons"),
    lambda d: (d["guarantee"].update(unit="validation_record"), d["guarantee"].pop("person")),
)


@pytest.mark.parametrize("method", ["private_grid", "public", "private_trajectory", "noisy_gp", "lipschitz"])
def test_every_method_that_takes_persons_is_certified_and_an_edit_is_caught(tmp_path, method):
    make(tmp_path, IDS)
    release = run_study(study(method=method), ledger=ledger(tmp_path), folder=tmp_path).release
    assert release.facts["n_persons"] == 5
    assert not {"n_validation", "max_records_per_person"} & set(release.facts)
    text = json.dumps(release.to_json())
    found = recompute(read_certificate(json.loads(text), CERTIFIED), CERTIFIED)
    assert found.epsilon == pytest.approx(1.0, rel=1e-6)
    for edit in EDITS if method == "private_grid" else ():
        document = json.loads(text)
        edit(document)
        with pytest.raises((CertificateFalse, StudyInvalid)):
            recompute(read_certificate(document, CERTIFIED), CERTIFIED)


def by_slots(spec, m=10, k=2):
    """The same study in the k-slot form."""
    tables = spec.to_dict()
    tables["privacy"] |= {"max_records_per_person": k}
    tables["data"] = {k: v for k, v in tables["data"].items() if k != "n_persons"} | {"n_validation": m}
    return StudySpec.from_dict(tables)


def test_nor_with_records_or_with_another_columns_persons(tmp_path):
    make(tmp_path, IDS)
    book = ledger(tmp_path)
    run_study(study(), ledger=book, folder=tmp_path)
    text = (tmp_path / "validation.csv").read_text()
    (tmp_path / "validation.csv").write_text(text.replace("who,", "ward,", 1))
    with pytest.raises(BudgetRefused, match="'ward'"):
        run_study(study(study={"edition": "2"}, privacy={"person": "ward"}), ledger=book, folder=tmp_path)
    plain = by_slots(study(study={"edition": "3"}), k=1)
    records = plain.replace(privacy=plain.privacy.replace(person=None), data=plain.data.replace(ignore=("ward",)))
    with pytest.raises(BudgetRefused, match="guarantees about each person"):
        run_study(records, ledger=book, folder=tmp_path)


def test_the_number_of_records_is_no_reason_to_fail_and_is_nowhere(tmp_path, caplog, capsys):
    """Canary: 7,919 records of 5 persons, or 10. Every byte said, logged and kept but the draws is the same."""
    said = {}
    for name, ids in (("few", IDS), ("many", (IDS * 792)[:7919])):
        folder = tmp_path / name
        folder.mkdir()
        make(folder, ids)
        caplog.clear()
        with caplog.at_level(logging.DEBUG):
            release = run_study(study(method="private_trajectory"), ledger=ledger(folder), folder=folder).release
        kept = json.dumps(release.to_json()) + caplog.text + "".join(capsys.readouterr())
        dump = (folder / "l.db").read_bytes().decode("latin-1")
        for text in (kept, dump):  # as a number of its own: drawn ones and hashes hold all digits sometimes
            assert not re.search(r"(?<![0-9a-f.])7,?919(?![0-9a-f])", text)
        said[name] = (len(release.spends), sorted(release.facts), sorted(release.value))
    assert said["few"] == said["many"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": {"n_validation": 10}}, "n_persons beside n_validation"),
        ({"data": {"n_persons": 0}}, "n_persons = 0"),
        ({"data": {"validation_share": 0.5}}, "validation_share beside n_persons"),
        ({"data": {"sensitive": "training"}}, "n_persons for a sensitive training set"),
        ({"data": {"source": "breast_cancer"}}, "for a bundled set"),
        ({"privacy": {"max_records_per_person": 2}}, "max_records_per_person = 2 beside data.n_persons"),
        ({"privacy": {"person": "ill"}}, "is the target"),
    ],
)
def test_what_cannot_be_is_refused(changes, message):
    with pytest.raises(StudyInvalid, match=message):
        study(**changes)


def test_without_a_column_there_are_no_persons():
    tables = study().to_dict()
    del tables["privacy"]["person"]
    with pytest.raises(StudyInvalid, match=r"without privacy\.person"):
        StudySpec.from_dict(tables)


METHODS_WITHOUT_PROOF = {"lipschitz": {"evaluate": "path"}, **{kind: {} for kind in parts("WITHOUT_PERSONS_MEANS")}}


@pytest.mark.parametrize(("method", "options"), METHODS_WITHOUT_PROOF.items())
def test_methods_without_a_proof_refuse(method, options):
    with pytest.raises(StudyInvalid, match=f"{method} cannot be used where each person's mean counts once"):
        plan_study(study(method=method).replace(options=options))
    lines = {line.kind: line.verdict for line in advise_study(study(method="auto")).methods}
    assert {lines[kind] for kind in parts("WITHOUT_PERSONS_MEANS")} <= {"refused"}
    assert lines["lipschitz"] != "refused"
    assert lines["private_grid"] != "refused"


def test_all_of_a_path_moves_by_the_range_of_its_models(tmp_path):
    """R of n_persons, as of so many records; no neighbour moves the exact sum further, nobody neither."""
    make(tmp_path, IDS)
    gentle = {"estimator": "logistic", "score": "sigmoid", "steepness": 0.5}
    spec = study(5, method="lipschitz", model=gentle, space={"lambda": {"low": 1.0, "high": 9.0, "points": 3}})
    (spend,) = plan_study(spec).spends
    records = by_slots(spec.replace(privacy=spec.privacy.replace()), m=5, k=1)
    assert spend.sensitivity == plan_study(records).spends[0].sensitivity < 0.5 / 5
    text = (tmp_path / "validation.csv").read_text()
    header, *lines = text.splitlines()
    public, found = data_split.public_half(spec, tmp_path), []
    for new in ([], ["new,9e9,0.1,0", "new,9e9,0.1,0"], ["new,9e9,0.1,1"], ["new,x,,7"]):
        kept = [row for row in lines if not row.startswith("e,")]
        (tmp_path / "validation.csv").write_text("\n".join([header, *kept, *new]) + "\n")
        found.append(total(spec, tmp_path, public))
    (tmp_path / "validation.csv").write_text(text)
    assert max(found) - min(found) <= spend.sensitivity * 5 * GRID
    assert found[0] == found[-1]  # nobody scores what a record does that cannot be read


# --- in memory


def frames(tmp_path):
    pd = pytest.importorskip("pandas")
    validation = pd.DataFrame(make(tmp_path, IDS * 3))
    train = pd.read_csv(tmp_path / "train.csv")
    return train[["x", "z"]], train["ill"], validation[["who", "x", "z"]], validation["ill"]


def test_private_search_counts_each_person_once(tmp_path):
    from sklearn.linear_model import LogisticRegression

    X, y, V, t = frames(tmp_path)

    def search(edition="1", **more):
        given_ = {"delta": 1e-6, "n_steps": 3, "n_candidates": 8, "person": "who", "edition": edition}
        given_ |= {"method": "auto", "budget": (5.0, 1e-5)}
        url = f"sqlite:///{tmp_path / 'l.db'}"
        return search_of(url, LogisticRegression(), {"C": Real(0.01, 10.0, log=True)}, **given_ | more)

    found = search(n_persons=5).fit(X, y, X_validation=V, y_validation=t)
    assert found.guarantee_.relation is BY_PERSON
    assert found.release_.facts["n_persons"] == 5
    fewer = search("2", n_persons=5).fit(
        X, y, X_validation=V[:11], y_validation=t[:11]
    )  # of other numbers of records
    assert not fewer.replayed_
    same = search("2", n_persons=5).fit(X, y, X_validation=V, y_validation=t)
    assert same.replayed_
    with pytest.raises(BudgetRefused):
        search("3").fit(X, y, X_validation=V, y_validation=t)
    advice = search("4", n_persons=5000).advise(X, y)
    assert "(5000 persons, " in advice.choice.why


# --- without a record: what replacing persons by nobody leaves

WITHOUT = {  # tables of no record, and the kind of table that has one
    "pandas of no rows": (lambda rows: type(rows)([]), "frame", "columns"),
    "polars": (lambda rows: pytest.importorskip("polars").from_pandas(rows[:0]), "frame", "columns"),
    "arrow": (lambda rows: pa.Table.from_pandas(rows[:0], preserve_index=False), "frame", "columns"),
    "pandas": (lambda rows: rows[:0], "frame", "numbers"),
    "numpy of no rows": (lambda rows: np.array([]), "rows", "numbers"),
}


def said_of_table(folder, form, model, make):
    """What a release and a report say and cost for a table in memory that `make` makes of three records."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y, V, t = frames(folder)
    person = "who"
    if form == "rows":  # without names, the persons are the last column
        X, person, V = X.to_numpy(), "x2", V[["x", "z", "who"]]
    inner = LogisticRegression() if model == "numbers" else make_pipeline(StandardScaler(), LogisticRegression())
    table = make(V)
    space = {("C" if model == "numbers" else "logisticregression__C"): Categorical([0.1, 1.0])}
    scored = {"scoring": "log_loss", "error_bound": 3.0, "person": person, "n_persons": 5, "random_state": 0}
    search = search_of(f"sqlite:///{folder}/l.db", inner, space, **scored)
    given_ = {"X_validation": table, "y_validation": t[: len(table)]}
    search.fit(X, y, **given_)
    report = search.evaluate(X, y, **given_, epsilon=0.5)
    (account,) = PrivacyLedger(search.ledger).accounts()
    return [str(spend) for spend in search.release_.spends], account.spent, sorted(report.release.value)


@pytest.fixture(scope="module")
def said_of_one(tmp_path_factory):
    """What is said of a table of one record, by the kinds of table and model."""
    makes = {"frame": lambda V: V[:1], "rows": lambda V: V[:1].to_numpy()}
    return {
        kinds: said_of_table(tmp_path_factory.mktemp("one"), *kinds, makes[kinds[0]])
        for kinds in sorted({(form, model) for _, form, model in WITHOUT.values()})
    }


@pytest.mark.parametrize("kind", WITHOUT)
def test_a_table_in_memory_without_a_record_is_released_and_charged_as_any(tmp_path, said_of_one, kind):
    """Neighbours by `replace_one_person`: one was refused with its row count, uncharged, and the other released."""
    make, *kinds = WITHOUT[kind]
    assert said_of_table(tmp_path, *kinds, make) == said_of_one[tuple(kinds)]


def test_tables_of_several_lengths_are_refused_without_a_number_where_that_is_private(tmp_path):
    from sklearn.linear_model import LogisticRegression

    X, y, V, t = frames(tmp_path)
    url, given_ = f"sqlite:///{tmp_path / 'ledger.db'}", {"person": "who", "n_persons": 5}
    search = search_of(url, LogisticRegression(), {"C": Real(0.1, 1.0)}, **given_)
    with pytest.raises(StudyInvalid) as refusal:
        search.fit(X, y, X_validation=V, y_validation=t[:-1])
    assert not re.search(r"\d", str(refusal.value))


@pytest.mark.parametrize(("end", "parts"), [("csv", 0), ("parquet", 0), ("parquet", 3)])
def test_a_file_without_a_record_is_released_and_evaluated_as_any(tmp_path, monkeypatch, end, parts):
    """A CSV file of a header, a Parquet file of none, and a folder of such parts."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    said = {}
    for name, ids in (("one", ["a", "b", "a"]), ("none", [])):
        folder = tmp_path / name
        folder.mkdir()
        make(folder, ids, end=end, parts=parts)
        spec = study(end=end, validation="validation" if parts else None, **LOGISTIC, evaluation={"epsilon": 0.5})
        book = ledger(folder)
        release = run_study(spec, ledger=book, folder=folder).release
        report = evaluate_study(spec, ledger=book, folder=folder).release
        more = [ask(spec, book, folder) for ask in merged("ASKED_OF_A_MODEL").values()]
        (account,) = book.accounts()
        told = [str(spend) for found in (release, report) for spend in found.spends]
        said[name] = (told, account.spent, more, sorted(report.value))
    assert said["one"] == said["none"]


MISSING = sorted(GAP_TEXTS)


@pytest.mark.parametrize("end", ["csv", "parquet", "folder"])
def test_a_missing_values_text_is_nobody_by_every_door(tmp_path, end):
    """A human with a readable name and a row of "NA" weighed twice: once as that human and once as "NA"."""
    column = ["ann", *MISSING, "b"]
    make(tmp_path, column, end="csv" if end == "csv" else "parquet", parts=3 if end == "folder" else 0)
    by_name = study(end="csv" if end == "csv" else "parquet", validation="validation" if end == "folder" else None)
    before = total(by_name, tmp_path)
    (tmp_path / "again").mkdir()
    changed = ["ann", *(["" if end == "csv" else None] * len(MISSING)), "b"]
    make(tmp_path / "again", changed, end="csv" if end == "csv" else "parquet", parts=3 if end == "folder" else 0)
    assert total(by_name, tmp_path / "again") == before


def test_a_missing_values_text_is_nobody_in_memory():
    pd = pytest.importorskip("pandas")
    values = [
        *MISSING,
        f" {MISSING[-1]} ",
        None,
        pd.NA,
        pd.NaT,
        float("nan"),
        np.datetime64("NaT"),
        b"NA",
        np.str_("NA"),
    ]
    assert {person_in_memory(value) for value in values} == {None}
    for frame in (pd.DataFrame({"who": MISSING}), pd.DataFrame({"who": pd.Categorical(MISSING)})):
        assert {person_in_memory(value) for value in frame_of(frame, None, display_name="V").values("who")} == {
            None
        }
    assert [person_in_memory(name) for name in ("Nan", "nana", "NA1", "Null")] == ["Nan", "nana", "NA1", "Null"]
