"""`dpbo init ONE.csv --sensitive`: nothing of a record is read, and what is filled in is planned and released."""

import random
import re
from pathlib import Path

import numpy as np
import pytest

from dpbo_core.study.data_split import FileSplit
from dpbo_core.study.resolve import planning_problem
from dpbo_core.study.spec import read_study

HEADER = "age,dose,ill"


def write(rows, name="one.csv", header=HEADER):
    Path(name).write_text("\n".join([header, *rows]) + "\n")


def records(n=400):
    draw = random.Random(1)
    return [f"{(x := draw.uniform(20, 90)):.1f},{draw.uniform(0, 5):.2f},{int(x > 55)}" for _ in range(n)]


def test_the_study_depends_on_the_header_and_the_number_of_records_alone(here, dpbo):
    texts = set()
    for rows in (records(), ["canary,canary,canary"] * 400, ["1e999,,nan"] * 400):
        write(rows)
        code, out, err = dpbo("init", "one.csv", "--sensitive", "--target", "ill")
        assert (code, err, "canary" in out) == (0, "", False)
        texts.add((out, Path("study.toml").read_text()))
        Path("study.toml").unlink()
    assert len(texts) == 1
    out, _ = texts.pop()
    assert re.findall(r"^  (\w+) +a number: fill in its public bounds .low, high.$", out, re.M) == ["age", "dose"]


def test_a_column_is_left_out_when_asked_and_its_cells_change_nothing(here, dpbo):
    """What is left out takes no bounds, and whatever its cells hold, the encoded records are the same."""
    encoded = []
    for note in ("fine", "canary"):
        rows = [row.replace(",", f",{note},", 1) for row in records()]
        write(rows, header="age,note,dose,ill")
        words = ("init", "one.csv", "--sensitive", "--target", "ill", "--ignore", "note", "--force")
        code, out, err = dpbo(*words)
        assert (code, err, "canary" in out) == (0, "", False)
        filled = Path("study.toml").read_text().replace("labels = []", "labels = [0, 1]")
        filled = filled.replace("age = []", "age = [20, 90]").replace("dose = []", "dose = [0, 5]")
        Path("study.toml").write_text(filled)
        spec = read_study("study.toml")
        files = FileSplit(spec, ".")
        training = files.sensitive(files.public(planning_problem(spec))).training.expose()
        encoded.append((training.X, training.labels))
    assert all(np.array_equal(one, other) for one, other in zip(*encoded, strict=True))
    code, out, err = dpbo("init", "one.csv", "--sensitive", "--target", "ill", "--ignore", "nte", "--force")
    assert (code, out, "dose" in err) == (2, "", False)


@pytest.mark.parametrize(
    ("header", "target"), [("41.5,2.0,canary", "ill"), ("41.5,2.0,canary", "canary"), (HEADER, "il")]
)
def test_a_file_without_a_header_is_refused_and_no_cell_is_repeated(here, dpbo, header, target):
    write(records(), header=header)
    code, out, err = dpbo("init", "one.csv", "--sensitive", "--target", target)
    assert (code, out, Path("study.toml").exists()) == (2, "", False)
    assert not any(cell in err for cell in ("41.5", "2.0", "age", "dose"))


@pytest.mark.parametrize("words", [["one.csv"], ["one.csv", "--sensitive"], ["one.csv", "v.csv", "--sensitive"],
    ["one.csv", "--sensitive", "--target", "ill", "--person", "age"]])  # fmt: skip
def test_one_file_is_named_sensitive_with_its_target(here, dpbo, words):
    write(records())
    code, out, err = dpbo("init", *words)
    assert (code, out) == (2, "")
    assert "dpbo init ONE.csv --sensitive --target COLUMN" in err
