"""Public tables of other people's packages, as they are written: `dpbo init` and `dpbo plan` get each right."""

from pathlib import Path

import matplotlib
import pytest
from sklearn import datasets

from dpbo_core.study.spec import read_study

SAMPLES = Path(matplotlib.get_data_path(), "sample_data")
FOREST, REGRESSOR = "sklearn.ensemble.RandomForestClassifier", "sklearn.ensemble.RandomForestRegressor"
TABLES = {  # the target; the estimator and the score that fit it; what is no feature
    "iris": ("target", FOREST, "accuracy", None),
    "wine": ("target", FOREST, "accuracy", None),
    "breast_cancer": ("target", "logistic", "accuracy", None),
    "diabetes": ("target", REGRESSOR, "absolute_error", None),
    "msft": ("Close", REGRESSOR, "absolute_error", ("Date",)),
}


def frame_lines(name):
    """The lines of a table: as its package ships it, or as pandas writes it with names for the classes."""
    if name == "msft":
        return (SAMPLES / "msft.csv").read_text().splitlines()
    loaded = getattr(datasets, f"load_{name}")(as_frame=True)
    if name != "diabetes":
        loaded.frame["target"] = loaded.target_names[loaded.target]
    return loaded.frame.sample(frac=1.0, random_state=0).to_csv(index=False).splitlines()


@pytest.mark.parametrize("name", TABLES)
def test_a_public_table_is_read_as_it_is_meant(here, dpbo, name):
    target, estimator, score, ignore = TABLES[name]
    header, *rows = frame_lines(name)
    for file, part in (("public.csv", rows[::2]), ("private.csv", rows[1::2])):
        (here / file).write_text("\n".join([header, *part]) + "\n")
    code, _, err = dpbo("init", "public.csv", "private.csv", "--target", target)
    assert (code, err) == (0, "")
    spec = read_study("study.toml")
    assert (spec.model.estimator, spec.model.score, spec.data.ignore) == (estimator, score, ignore)
    code, _, err = dpbo("plan", "study.toml")
    assert (code, err) == (0, "")


def test_records_without_a_label_are_left_out_of_the_public_half_alone(here, dpbo):
    rows = [f"{i * 37 % 101},{'' if i % 10 == 0 else 'cash' if i % 3 else 'card'}" for i in range(200)]
    for file, part in (("public.csv", rows[::2]), ("private.csv", rows[1::2])):
        (here / file).write_text("\n".join(["fare,payment", *part]) + "\n")
    code, out, err = dpbo("init", "public.csv", "private.csv")
    assert (code, err) == (0, "")
    assert "20 public records have no payment and are left out" in " ".join(out.split())
    spec = read_study("study.toml")
    assert (spec.data.missing_target, spec.data.n_validation) == ("drop", 100)
    code, _, err = dpbo("plan", "study.toml")
    assert (code, err) == (0, "")


def test_a_table_below_a_remark_is_refused_by_name(here, dpbo):
    (here / "stocks.csv").write_text((SAMPLES / "Stocks.csv").read_text())
    code, _, err = dpbo("init", "stocks.csv", "stocks.csv")
    assert code == 2
    assert "the first line of stocks.csv is a remark" in err


PENGUINS = "species,bill_length_mm,body_mass_g,island,sex"


def test_gaps_as_r_writes_them_are_gaps_in_numbers_texts_and_labels(here, dpbo):
    rows = [
        f"{'AGC'[i % 3]}x,{'NA' if i == 4 else 40 + i / 9},{'NA' if i == 7 else 3000 + 25 * i},"
        f"{'NA' if i == 2 else 'BD'[i % 2]},{'NA' if i == 9 else ('male', 'female')[i % 2]}"
        for i in range(90)
    ]
    for file in ("public.csv", "private.csv"):
        (here / file).write_text("\n".join([PENGUINS, *rows]) + "\n")
    code, out, _ = dpbo("init", "public.csv", "private.csv", "--target", "sex", "--out", "sex.toml")
    assert code == 0
    assert "1 public records have no sex and are left out" in " ".join(out.split())
    drop = 'missing_target = "drop"\n'
    text = (here / "sex.toml").read_text()
    assert drop in text
    (here / "sex.toml").write_text(text.replace(drop, ""))
    code, _, err = dpbo("plan", "sex.toml")
    assert code == 2
    assert "column 'sex' of public.csv has no value at line 11 (1 such records)" in err
    assert drop.strip() in err
    code, out, _ = dpbo("init", "public.csv", "private.csv", "--target", "species")
    assert code == 0
    spec = read_study("study.toml")
    assert (spec.data.ignore, spec.data.missing) == (None, "mean")
    assert "1 gap, filled with the mean" in out


LEFT_OUT = ["dose"]
NUMBERS = {  # a file's header and one of its lines by number; what init says, and the columns that it leaves out
    "thousands": ("age,dose,out", '{age},"{i},442.1",{y}', "dose holds numbers with thousands sep", LEFT_OUT),
    "few": ("age,dose,out", '{age},"{k},250",{y}', "dose holds numbers with thousands separators", None),
    "semicolons": ("age;dose;out", "{age};{k},250;{y}", "dose has 1,250, which is read as 1.250", None),
    "comma in a name": ("age;dose, mg;out", "{age};{i}.5;{y}", "a semicolon stands between fields", None),
    "infinite": ("age,dose,out", "{age},{inf},{y}", "dose left out: it has an infinite value", LEFT_OUT),
    "wards": ("age,ward,out", "{age},{ward},{y}", "positive", None),
    "one word": ("age,dose,out", "{age},{word},{y}", "dose has unknown where a number is missing", LEFT_OUT),
    "words": ("age,dose,out", "{age},{words},{y}", "dose has texts such as <5 among its numbers", LEFT_OUT),
}  # fmt: skip


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_as_people_write_them_are_read_or_named(here, dpbo, kind):
    header, line, says, ignore = NUMBERS[kind]
    rows = [
        line.format(
            i=i + 1, k=i % 4 + 1, age=20 + i % 60, y=i * 7 % 3 % 2, ward=("GYN", "INF", "NAN", "1E1", "10")[i % 5],
            inf="-Infinity" if i == 5 else i, word="unknown" if i == 5 else i, words=("<5", "?", i)[min(i, 2)],
        )
        for i in range(90)
    ]  # fmt: skip
    for file in ("public.csv", "private.csv"):
        (here / file).write_text("\n".join([header, *rows]) + "\n")
    code, out, err = dpbo("init", "public.csv", "private.csv")
    assert (code, err) == (0, "")
    assert says in " ".join(out.split())
    assert ("where a number is missing" in out) == (kind == "one word")
    ignored = read_study("study.toml").data.ignore
    assert (ignored and list(ignored)) == ignore


def test_a_target_of_few_fractions_is_predicted_as_a_number(here, dpbo):
    rows = [f"{i * 37 % 101},{-0.4 + 0.1 * (i % 9):.2f}" for i in range(120)]
    for file, part in (("public.csv", rows[::2]), ("private.csv", rows[1::2])):
        (here / file).write_text("\n".join(["fare,change", *part]) + "\n")
    code, _, err = dpbo("init", "public.csv", "private.csv")
    assert (code, err) == (0, "")
    assert read_study("study.toml").model.estimator == REGRESSOR
