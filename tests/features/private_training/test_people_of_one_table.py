"""People in one sensitive table: one record of each counts; neighbours differ in one record, in any order."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_dp_hypo import POINTS, run_it, study

from dpbo.features.private_training.gradients import clipped_sum, sum_sensitivity
from dpbo.tasks.reporting.release_document import COUNTED_RECORDS, release_document
from dpbo_core.errors import DpboError, StudyInvalid
from dpbo_core.ledger.accounting.certificate import read_certificate, recompute
from dpbo_core.privacy.guarantee import PrivacyUnit
from dpbo_core.report.certified import CERTIFIED
from dpbo_core.study import StudySpec
from dpbo_core.study.data_split import FileSplit
from dpbo_core.study.resolve import planning_problem

HEADER = "who,a,b,ill"


def one_table(folder, rows, base="noisy_gradient_descent", **privacy):
    """The tables of a study that trains on these rows of one file, each person's as column `who` has it."""
    tables = study(folder, base, n=4)
    (folder / "train.csv").write_text("\n".join([HEADER, *rows]) + "\n")
    tables["data"] = {key: value for key, value in tables["data"].items() if "validation" not in key}
    tables["data"]["n_training"] = len(rows)
    tables["data"]["n_persons"] = len({row.partition(",")[0] for row in rows})
    tables["privacy"] |= {"person": "who", **privacy}
    return tables


def trained_on(folder, rows):
    spec = StudySpec.from_dict(one_table(folder, rows))
    split = FileSplit(spec, folder)
    return split.sensitive(split.public(planning_problem(spec))).training.expose()


def rows_of(n=60, people=20):
    rng = np.random.default_rng(1)
    x = rng.uniform(-0.7, 0.7, size=(n, 2))
    return [f"p{i % people},{a:.4f},{b:.4f},{int(a > b)}" for i, (a, b) in enumerate(x)]


def test_what_a_person_has_beyond_the_first_record_or_names_nobody_adds_nothing(tmp_path):
    rows = [*rows_of(6, 3), ",0.5,0.5,1", "NA,0.1,0.2,0", "p9,0.3,0.1,1"]
    records = trained_on(tmp_path, rows)
    counted = [0, 1, 2, 8]
    assert np.flatnonzero(records.labels >= 0).tolist() == counted
    assert not records.X[[i for i in range(9) if i not in counted]].any()


cells = st.sampled_from(["0.7,-0.7,1", "-0.7,0.7,0", "nonsense,,2", "0.1,0.1,0"])
names = st.sampled_from(["mine", "", "NA"])


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.sampled_from(["q1", "q2", "me"]), min_size=3, max_size=8),
    st.data(),
)
def test_replacing_a_person_in_place_is_one_replaced_record_in_another_order(tmp_path_factory, owners, data):
    """Whatever the new records hold, unreadable names among them: as rows in any order all but one are the same."""
    folder = tmp_path_factory.mktemp("people")
    rest = {i: f"{who}{i % 2},{data.draw(cells)}" for i, who in enumerate(owners) if who != "me"}
    encoded = []
    for person in ("me", "new"):
        mine = [f"{data.draw(names).replace('mine', person)},{data.draw(cells)}" for who in owners if who == "me"]
        places = iter(mine)
        rows = [rest[i] if i in rest else next(places) for i in range(len(owners))]
        records = trained_on(folder, rows)
        encoded.append(records)
    rows = [sorted(map(tuple, np.column_stack([one.X, one.labels]).tolist())) for one in encoded]
    left = list(rows[1])
    for row in rows[0]:
        if row in left:
            left.remove(row)
    assert len(left) <= 1
    weights = np.array([[0.4], [-0.3]])
    sums = [clipped_sum(one, weights[: one.X.shape[1]], 0.3) for one in encoded]
    most = sum_sensitivity(moves=2, n_records=len(owners), size=len(sums[0]))
    assert np.linalg.norm((sums[0] - sums[1]).astype(float)) <= most


@pytest.mark.parametrize(
    "base", [pytest.param(one, marks=[pytest.mark.slow] * (one == "dp_sgd")) for one in POINTS]
)
def test_a_table_of_people_is_trained_on_and_released_for_people(tmp_path, base):
    tables = one_table(tmp_path, rows_of(), base)
    tables["budget"] = {"epsilon": 20.0, "delta": 1e-4}
    released = run_it(tables, tmp_path).release
    guarantee = released.guarantee
    assert (guarantee.unit, guarantee.person) == (PrivacyUnit.TRAINING_RECORD, "who")
    assert "for each person in the training set, as column 'who' tells them apart" in guarantee.in_words()
    assert released.value["model"]["features"] == ["a", "b"]
    assert ("people", COUNTED_RECORDS.format(n=20)) in [
        (fact.name, fact.text) for fact in release_document(released).answers
    ]
    recompute(read_certificate(released.to_json(), CERTIFIED), CERTIFIED)
    other = tables | {"study": tables["study"] | {"edition": "2"}}
    other["privacy"] = {key: value for key, value in tables["privacy"].items() if key != "person"}
    other["data"] = {key: value for key, value in tables["data"].items() if key != "n_persons"} | {
        "ignore": ["who"]
    }
    with pytest.raises(DpboError, match="persons of column 'who'"):  # no budget keeps records' guarantees too
        run_it(other, tmp_path)


def test_people_are_refused_where_nothing_is_proved_for_them(tmp_path):
    tables = one_table(tmp_path, rows_of())
    two = tables | {"data": tables["data"] | {"validation": "validation.csv", "n_validation": 4}}
    for wrong in (
        two,
        one_table(tmp_path, rows_of(), person="ill"),
        one_table(tmp_path, rows_of(), neighbours="add_or_remove"),
        one_table(tmp_path, rows_of(), max_records_per_person=2),
        one_table(tmp_path, rows_of()) | {"data": tables["data"] | {"n_persons": 61}},
        one_table(tmp_path, rows_of()) | {"privacy": {**tables["privacy"], "person": None}},
    ):
        with pytest.raises(StudyInvalid, match=r"privacy\.|n_persons"):
            StudySpec.from_dict(wrong)
    with pytest.raises(StudyInvalid, match="has no column 'whom'"):
        run_it(one_table(tmp_path, rows_of(), person="whom"), tmp_path)


def test_init_keeps_people_whole(here, dpbo):
    Path("one.csv").write_text("\n".join([HEADER, *rows_of(400, 200)]) + "\n")
    words = ("init", "one.csv", "--sensitive", "--target", "ill", "--person")
    assert dpbo(*words, "whom=200")[0] == 2
    code, out, _ = dpbo(*words, "who=200")
    assert (code, "whose a record is" in out, "every person is protected" in out) == (0, True, True)
    text = Path("study.toml").read_text()
    assert 'person = "who"' in text
    assert "n_persons = 200" in text
    text = text.replace("labels = []", "labels = [0, 1]").replace("a = []", "a = [-1, 1]")
    Path("study.toml").write_text(text.replace("b = []", "b = [-1, 1]"))
    code, out, _ = dpbo("plan", "study.toml", "--json")
    assert (code, json.loads(out)["price"]["epsilon"]) == (0, 4.0)


def test_the_score_divides_by_people(tmp_path):
    """Each person's row three times: the same model, at an ε beside which noise is nothing, scores the same."""
    people, scores = rows_of(40, 40), []
    for times in (1, 3):
        folder = tmp_path / str(times)
        folder.mkdir()
        tables = one_table(folder, people * times, "output_perturbation", epsilon=4000.0)
        tables["space"] = {"lambda": {"values": [0.5 / times]}}  # the loss is a mean over rows
        tables["budget"] = {"epsilon": 5000.0, "delta": 1e-5}
        scores.append(run_it(tables, folder).release.value["score"])
    assert scores[0] == pytest.approx(scores[1], abs=0.02)
    assert 0.6 < scores[0] < 0.7
