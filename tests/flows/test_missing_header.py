"""A sensitive file without its header line: no command repeats a cell of the record that stands in its place."""

import copy
import random
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tomli_w
from of_features import merged, parts
from sklearn.linear_model import LogisticRegression

from dpbo_core import Categorical, PrivateSearch
from dpbo_core.data import Preprocessing
from dpbo_core.errors import StudyInvalid

NAMES, RECORD = ("age", "bmi", "smoking"), ("61.7348", "27.1938", "nonsmokin")  # near the target's name
WORDS = ("age", "bmj-canary", "smoking")
ROWS = 40
STUDY = {
    "study": {"name": "clinic", "method": "auto"},
    "privacy": {"dataset": "clinic", "epsilon": 2.0, "delta": 1e-6, "anyway": True},
    "budget": {"epsilon": 5.0, "delta": 1e-5},
    "evaluation": {"epsilon": 1.0},
    "data": {"training": "good.csv", "validation": "bare.csv", "n_validation": ROWS, "target": "smoking"},
    "model": {"estimator": "logistic", "score": "accuracy"},
    "space": {"lambda": {"values": [0.1, 1.0]}},
}
SENSITIVE = {"sensitive": "training", "n_training": ROWS, "labels": ["nonsmoker", "smoker"]}
BOUNDS, ANY = {"age": [0.0, 99.0], "bmi": [9.0, 60.0]}, {"*": [0.0, 99.0]}


def but(**data):
    """The study with other [data], a value of None for a key to leave out."""
    study = copy.deepcopy(STUDY)
    data = study["data"] | data
    study["data"] = {key: value for key, value in data.items() if value is not None}
    return study


WHOLE = SENSITIVE | {"training": "bare.csv", "validation": "good.csv", "bounds": BOUNDS}
ALONE = {"validation": None, "n_validation": None}
STUDIES = {
    "validation": (but(), "lacks most of the training columns, 'age', 'bmi', 'smoking' among them"),
    "validation in Parquet": (but(validation="bare.parquet"), "lacks most of the training columns, 'age', 'bmi'"),
    "validation with some names": (but(validation="named.csv"), "lacks 'bmi' and has 1 column unknown"),
}
TRAINED = {  # of studies whose training set is sensitive: [data], and what is said
    "training": (WHOLE, "no column 'smoking', the target. Usual"),
    "training in Parquet": (WHOLE | {"training": "bare.parquet"}, "no column 'smoking', the target. Usual"),
    "training alone": (WHOLE | ALONE | {"bounds": ANY}, "no column 'smoking', the target. Usual"),
    "its target is a cell": (WHOLE | {"target": RECORD[2]}, "says nothing of 2 columns of the training"),
    "bounds for any column": (
        WHOLE | ALONE | {"bounds": ANY, "target": RECORD[2]},
        "the header of the training table has 2 columns named as a value is",
    ),
    "bounds for one column": (WHOLE | {"training": "named.csv"}, "says nothing of 1 column of the training"),
    "a sound validation file": (
        WHOLE | {"training": "words.csv", "bounds": {"age": [0.0, 99.0]} | ANY},
        "good.csv lacks 1 column and has 1 column unknown to the training table",
    ),
}
STUDIES |= {
    name: (train(but(**data)), says) for train in parts("train_privately") for name, (data, says) in TRAINED.items()
}


@pytest.fixture
def bare(here):
    """Tables with a header line, and the same without: in CSV, and in Parquet as a reader of that CSV writes it."""
    draw = random.Random(0)
    rows = [
        (f"{draw.uniform(20, 90):.4f}", f"{draw.uniform(18, 40):.4f}", draw.choice(("smoker", "nonsmoker")))
        for _ in range(ROWS)
    ]
    for name, header in (
        ("good", NAMES),
        ("bare", RECORD),
        ("named", ("age", RECORD[1], "smoking")),
        ("words", WORDS),
    ):
        Path(f"{name}.csv").write_text("\n".join(map(",".join, (header, *rows))) + "\n")
        columns = zip(header, zip(*rows, strict=True), strict=True)
        pq.write_table(pa.table(dict(columns)), f"{name}.parquet")
    return here


def said(dpbo, *words, code=2):
    """What a command says, which repeats no cell but one that the study itself names."""
    answered, out, err = dpbo(*words)
    assert answered == code, (words, out, err)
    told = Path("s.toml").read_text() if Path("s.toml").exists() else ""
    for cell in (*RECORD, WORDS[1]):
        assert cell in told or cell not in out + err, (words, out + err)
    return out + err


@pytest.mark.parametrize("name", STUDIES)
def test_no_command_repeats_a_cell_of_the_first_record(bare, dpbo, name):
    study, says = STUDIES[name]
    Path("s.toml").write_text(tomli_w.dumps(study))
    assert says in said(dpbo, "tune", "s.toml")
    assert says in said(dpbo, "tune", "s.toml", "--debug")
    assert says in said(dpbo, "plan", "s.toml", "--all")  # in the same words
    assert '"entries": []' in said(dpbo, "budget", "--json", code=0) or "datasets" in said(
        dpbo, "budget", "--json", code=0
    )


def test_nor_do_those_without_a_study(bare, dpbo):
    assert "lacks most of the training columns" in said(dpbo, "init", "good.csv", "bare.csv")
    assert "1 column unknown" in said(dpbo, "init", "good.csv", "named.csv")
    said(dpbo, "budget", "set", "clinic", "--epsilon", "1", "--delta", "1e-6", code=0)
    said(dpbo, "budget", "allow", "clinic", "bare.csv", code=0)
    for words, code in merged("commands_on_a_file", bare).items():
        said(dpbo, *words, code=code)


def test_a_first_record_is_no_header_even_where_the_study_names_its_label():
    """With bounds for whatever columns there are, its numbers would stand in the released model as names."""
    columns = {"columns": ("a", "b", "y"), "target": "y", "labels": (0, 1), "bounds": {"*": [0.0, 1.0]}}
    for name in ("61", "-2.5e3", "true", "NA", "nan"):
        with pytest.raises(StudyInvalid, match="1 column named as a value is") as refused:
            Preprocessing.public(**columns | {"columns": ("a", name, "y")})
        assert repr(name) not in refused.value.message()
        bounds = {"*": [0.0, 1.0], name: [0.0, 1.0]}  # the study says that it is one
        assert Preprocessing.public(**columns | {"columns": ("a", name, "y"), "bounds": bounds}).n_features == 2
    assert Preprocessing.public(**columns).n_features == 2


def test_nor_does_a_data_frame_whose_reader_took_a_record_for_its_header(here):
    X = pd.DataFrame({"age": [61.0, 40.0] * 10, "bmi": [27.0, 30.0] * 10})
    search = PrivateSearch(LogisticRegression(), {"C": Categorical([0.5, 1.0])}, epsilon=1.0, dataset="clinic")
    with pytest.raises(
        StudyInvalid, match="lacks most of the training columns, 'age', 'bmi' among them"
    ) as refused:
        search.fit(X, [0, 1] * 10, X_validation=(X + 1.0).set_axis(RECORD[:2], axis=1), y_validation=[1, 0] * 10)
    assert not any(cell in refused.value.message() for cell in RECORD)
