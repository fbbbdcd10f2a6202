"""A column has one type, decided from the public table; a sensitive value that it does not hold is its own gap."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpbo_core.data import Preprocessing, read_table, table_of
from dpbo_core.data import csv_file as of_csv
from dpbo_core.data.features import Category, Number
from dpbo_core.data.header import PUBLIC_FILE, SENSITIVE_FILE
from dpbo_core.data.values import written_text
from dpbo_core.errors import StudyInvalid
from dpbo_core.models.final_model.dpbo_served_model import model_rows
from dpbo_core.study import StudySpec
from dpbo_core.study.data_files import training_table
from dpbo_core.study.data_split import public_half, sensitive_half

TEXTS = {  # values of a column of texts, some of which read as numbers
    "codes": ["10", "1E1", "2D4", "10.0"],
    "wards": ["GYN", "INF", "NAN", "+inf"],
    "infinite": ["INF", "NAN", "-Infinity"],
    "too large": ["101E010031", "102E010031"],
    "answers": ["TRUE", "yes", "1"],
    "padded": ["007", "7", "x7"],
    "thousands": ["279.34", "1,442.10"],
    "apostrophes": ["1'442.10", "5"],
    "spaces": ["1 442,10", "5"],
    "dates": ["2024-05-09", "1"],
}
GAPS = ["", "NA", "NaN", "null", "None", "#N/A", "n/a", " NULL "]


def csv(folder, name, values, *, quoted=True):
    cells = [f'"{value}"' if quoted else value for value in values]
    lines = ["ward,x,y", *(f"{cell},{i},{i % 2}" for i, cell in enumerate(cells))]
    (folder / name).write_text("\n".join(lines) + "\n")
    return folder / name


def parquet(folder, name, values):
    n = len(values)
    pq.write_table(pa.table({"ward": values, "x": range(n), "y": [i % 2 for i in range(n)]}), folder / name)
    return folder / name


def fitted(path):
    table = read_table(path, mode=PUBLIC_FILE, display_name="public")
    return table, Preprocessing.fit(table, "y", unit_ball=False, missing="mean")


@pytest.mark.parametrize("kind", ["csv", "parquet", "memory"])
@pytest.mark.parametrize("values", TEXTS.values(), ids=TEXTS)
def test_a_column_of_texts_holds_each_as_written(tmp_path, values, kind):
    if kind == "memory":
        table = table_of({"ward": values, "y": [i % 2 for i in range(len(values))]}, texts=None)
        made = Preprocessing.fit(table, "y", unit_ball=False)
    else:
        table, made = fitted((csv if kind == "csv" else parquet)(tmp_path, f"p.{kind}", values))
    assert list(table.columns["ward"]) == values
    assert made.features[0] == Category("ward", tuple(sorted(values)))
    assert "ward" in made.text_columns


@pytest.mark.parametrize("gap", GAPS)
def test_one_list_says_what_is_a_gap_in_numbers_and_texts(tmp_path, gap):
    _, numbers = fitted(csv(tmp_path, "n.csv", ["1.5", gap, "2.5", "4"], quoted=False))
    assert isinstance(numbers.features[0], Number)
    assert numbers.features[0].stand_in == pytest.approx(8 / 3)
    _, texts = fitted(csv(tmp_path, "t.csv", ["GYN", gap, "1"]))
    assert texts.features[0].values == ("1", "GYN")


@pytest.mark.parametrize("values", TEXTS.values(), ids=TEXTS)
def test_the_sensitive_half_has_the_public_types_and_each_record_its_own(tmp_path, values, monkeypatch):
    monkeypatch.setattr(
        of_csv, "N_LINES_PER_BLOCK", 2
    )  # a block of lines that are all numbers is read as texts too
    public, made = fitted(csv(tmp_path, "p.csv", [*values, *values]))
    assert list(public.columns["ward"]) == [*values, *values]
    odd = [*GAPS, "1e1", "1", "inf", "\u0661", "<5", "1,250", "_", "x" * 300]
    for rows in ([*values, *odd], [*values, *reversed(odd)], values):
        mode = SENSITIVE_FILE.of_map(made)
        for path in (csv(tmp_path, "s.csv", rows), parquet(tmp_path, "s.parquet", rows)):
            X = made.transform(read_table(path, mode=mode, display_name="s")).X
            categories = made.features[0].values
            for value, row in zip(rows, X, strict=True):
                hit = [name == value.strip() for name in categories]
                assert row[: len(categories)].tolist() == np.array(hit, float).tolist(), value


def test_numbers_in_a_typed_column_are_the_texts_that_a_person_would_write(tmp_path):
    _, made = fitted(csv(tmp_path, "p.csv", ["10", "1E1", "2D4"]))
    whole = read_table(
        parquet(tmp_path, "i.parquet", [10, 20, None]), mode=SENSITIVE_FILE.of_map(made), display_name="s"
    )
    assert made.transform(whole).X[:, 0].tolist() == [1, 0, 0]
    served = model_rows(made, {"ward": [10, "10", "1E1", "1e1", None], "x": [0] * 5})
    assert served[:, 0].tolist() == [1, 1, 0, 0, 0]  # a served model reads as scoring does
    for value in (10, 10.0, np.float32(10), "10", b" 10 ", np.int8(10)):
        assert written_text(value) == "10"
    assert all(
        written_text(value) != written_text(value) for value in (None, float("inf"), object(), b"\xff", 1j, "NA")
    )


def test_labels_of_a_text_target_are_texts(tmp_path):
    (tmp_path / "p.csv").write_text("x,y\n1,10\n2,1E1\n3,well\n")
    (tmp_path / "s.csv").write_text("x,y\n1,1E1\n2,10\n3,1e1\n4,NA\n5,well\n")
    _, made = fitted(tmp_path / "p.csv")
    assert made.classes == ("10", "1E1", "well")
    labels = made.transform(
        read_table(tmp_path / "s.csv", mode=SENSITIVE_FILE.of_map(made), display_name="s")
    ).labels
    assert labels.tolist() == [1, 0, -1, -1, 2]


def test_public_records_without_a_label_are_dropped_and_sensitive_ones_keep_their_place(tmp_path):
    rows = [f"{i},{('ill', 'well', 'NA', '')[i % 4]}" for i in range(40)]
    for name in ("p.csv", "s.csv"):
        (tmp_path / name).write_text("\n".join(["x,y", *rows]) + "\n")
    values = {"training": "p.csv", "validation": "s.csv", "n_validation": 40, "target": "y"}
    refused, dropped = (
        StudySpec.from_dict(
            {
                "study": {"name": "labels", "method": "private_grid"},
                "privacy": {"dataset": "labels", "epsilon": 1.0},
                "data": values | more,
                "model": {"estimator": "logistic"},
                "space": {"lambda": {"low": 0.1, "high": 1.0, "points": 2}},
            }
        )
        for more in ({}, {"missing_target": "drop"})
    )
    with pytest.raises(StudyInvalid, match='missing_target = "drop"'):
        public_half(refused, tmp_path)
    public = public_half(dropped, tmp_path)
    assert public.preprocessing.classes == ("ill", "well")
    assert public.problem.trainer.X.shape[0] == 20
    assert training_table(dropped, tmp_path)[0].place(2) == "line 6"
    labels = sensitive_half(dropped, tmp_path, public)._records.expose().labels
    assert labels.tolist() == [0, 1, -1, -1] * 10
