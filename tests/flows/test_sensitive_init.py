"""`dpbo init ONE.csv --sensitive`: nothing of a record is read, and what is filled in is planned and released."""

import random
import re
from pathlib import Path

import pytest

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


@pytest.mark.parametrize(
    ("header", "target"), [("41.5,2.0,canary", "ill"), ("41.5,2.0,canary", "canary"), (HEADER, "il")]
)
def test_a_file_without_a_header_is_refused_and_no_cell_is_repeated(here, dpbo, header, target):
    write(records(), header=header)
    code, out, err = dpbo("init", "one.csv", "--sensitive", "--target", target)
    assert (code, out, Path("study.toml").exists()) == (2, "", False)
    assert not any(cell in err for cell in ("41.5", "2.0", "age", "dose"))


@pytest.mark.parametrize("words", [["one.csv"], ["one.csv", "--sensitive"], ["one.csv", "v.csv", "--sensitive"],
    ["one.csv", "--sensitive", "--target", "ill", "--person", "age=3"]])  # fmt: skip
def test_one_file_is_named_sensitive_with_its_target(here, dpbo, words):
    write(records())
    code, out, err = dpbo("init", *words)
    assert (code, out) == (2, "")
    assert "dpbo init ONE.csv --sensitive --target COLUMN" in err
