"""`dpbo init`: from two files never seen before to a release and its plot, with nothing written by hand."""

import json
import random
import re
import tomllib
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from dpbo.flows.cli.init import public_name, study_text
from dpbo_core.data import read_table
from dpbo_core.data.header import PUBLIC_FILE
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.study.data_split import FileSplit
from dpbo_core.study.resolve import planning_problem
from dpbo_core.study.spec import read_study
from dpbo_core.study.tuning import run_study

HEADER = "visit,age,weight_kg,ward,smoker,note,outcome"
SECRET = "V00007-canary"


def lines(n, seed):
    """Numbers and texts mixed, gaps, quotes, identifiers, and an unbalanced target of three classes."""
    rng = random.Random(seed)
    for i in range(n):
        age, weight = rng.randint(18, 95), "" if rng.random() < 0.1 else round(rng.gauss(78, 14), 1)
        ward, smoker = rng.choice(["north", '"Intensive, 2"', ""]), rng.choice(["True", "False", ""])
        risk = rng.random() + (age - 55) / 150
        outcome = "home" if risk < 0.75 else "ward" if risk < 0.95 else "died"
        yield f"V{i:05d}-{rng.randint(0, 99)},{age},{weight},{ward},{smoker},seen at {rng.random():.6f},{outcome}"


@pytest.fixture
def two(here):
    (here / "training.csv").write_text("\n".join([HEADER, *lines(240, 1)]) + "\n")
    (here / "hospital.csv").write_text("\n".join([HEADER, *lines(400, 2)]) + "\n")
    return Path("training.csv"), Path("hospital.csv")


def text(training, validation, **changes):
    table = read_table(training, mode=PUBLIC_FILE, display_name=str(training))
    return study_text(
        (training, validation),
        table,
        **{"target": list(table.columns)[-1], "name": None, "folder": Path()} | changes,
    )


def test_from_a_csv_never_seen_to_a_release(two, dpbo):
    """The core alone: what `dpbo plan` and `dpbo tune` make of such a file is run by the tutorial's own test."""
    code, out, err = dpbo("init", *two, "--out", "ward.toml")
    assert (code, err) == (0, "")
    text_left_out, gaps = "left out: a text of 240 values", r"; \d+ gaps, filled with the "
    uses = {"visit": text_left_out, "age": "a number", "weight_kg": f"a number{gaps}mean", "note": text_left_out}
    uses |= {"ward": f"a text of 2 values{gaps}share of each value", "outcome": "the target"}
    for column, use in uses.items():
        assert re.search(rf"^  {column} +{use}", out, re.M)
    assert max(map(len, out.splitlines())) <= 80
    spec = read_study("ward.toml")
    assert Path("ward.toml").read_text().startswith("#:schema ./dpbo.schema.json\n")
    schema = json.loads(Path("dpbo.schema.json").read_text())
    assert Draft202012Validator(schema).is_valid(tomllib.loads(Path("ward.toml").read_text()))
    small = spec.replace(model=spec.model.replace(params={"n_estimators": 3}))  # a hundred trees take ten seconds
    release = run_study(small, ledger=PrivacyLedger("sqlite:///ledger.db")).release
    assert set(release.value["hyperparameters"]) == {"max_depth"}
    assert (release.dataset, release.facts["n_validation"]) == ("hospital", 400)
    assert release.guarantee.assumptions == ()


@pytest.mark.parametrize(
    ("file", "target", "name"),
    [
        ("hospital.csv", "died", "hospital"), ("north ward.csv", "died", "north ward"),
        ("ward_validation.csv", "died", "ward"), ("Test-2024.csv", "died", "2024"),
        ("data/ward7/validation.csv", "died", "ward7"), ("data/validation.csv", "died", "died"),
        ("validation.csv", "died", "died"), ("test.csv", "m² ", "m2"),
        ("val.parquet", "\u200b" + "x" * 200, "_" + "x" * 99),
    ],
)  # fmt: skip
def test_a_study_is_named_after_whose_data_it_has_and_not_after_a_part_of_a_split(file, target, name):
    assert public_name(Path(file), target) == name


def test_what_spreadsheets_export_is_read_and_what_was_taken_for_granted_is_said(here, dpbo):
    rng = random.Random(0)
    rows = [
        f"P{i % 80};{i};{70 + rng.gauss():.1f};0{rng.randint(1, 9)}.05.2024;${rng.random():.4f};{'ny'[i % 3 > 0]}"
        for i in range(240)
    ]
    for name, part in (("public.csv", rows[:120]), ("private.csv", rows[120:])):
        whole = "\n".join(["patient_id;row;weight;visit;cost;outcome", *part])
        (here / name).write_text(whole.replace(".", ",").replace(",05,", ".05."), encoding="utf-8-sig")
    code, out = dpbo("init", "public.csv", "private.csv")[:2]
    said = " ".join(str(out).split())
    assert code == 0
    for told in ("a semicolon stands between fields", "visit holds dates", "cost holds numbers with a unit",
                 "patient_id has 1.5 rows each: --person patient_id=N protects people"):  # fmt: skip
        assert told in said
    assert read_study("study.toml").data.ignore == ("patient_id", "row", "cost")
    code, _, err = dpbo("init", "public.csv", "private.csv", "--target", "cost")
    assert code == 2
    assert "it holds numbers with a unit: leave the unit out" in err


def test_what_stands_for_a_gap_and_which_class_is_positive_are_said(here, dpbo):
    rng = random.Random(0)
    for name in ("public.csv", "private.csv"):
        rows = [
            f"{'?' if i % 9 == 0 else rng.randint(60, 180)},{999 if i % 7 == 0 else rng.randint(18, 95)},"
            f"{rng.randint(18, 99)},{rng.choice(['N', 'S'])},{'no' if i % 20 else 'deceased'}"
            for i in range(120)
        ]
        (here / name).write_text("\n".join(["glucose,age,weight,ward,outcome", *rows]) + "\n")
    code, out = dpbo("init", "public.csv", "private.csv")[:2]
    said = " ".join(str(out).split())
    assert code == 0
    assert "glucose has ? where a number is missing, it seems: leave those fields empty in both files" in said
    assert "age has 999 where a number is missing" in said
    assert said.count("where a number is missing") == 2
    assert "outcome = no, 95.0% of the public rows" in said
    assert "a report on the model ε = 1" in said
    spec = read_study("study.toml")
    assert 2 * (spec.privacy.epsilon + spec.evaluation.epsilon) <= spec.budget.epsilon  # two editions and reports
    code, out = dpbo("plan", "study.toml")[:2]
    assert (code, len(out.splitlines()) <= 16) == (3, True)
    assert re.search(r"^  report +ε = 1 more, \w+: error of AUC 0\.", out, re.M)
    assert "Nothing here is worth its price" in out
    assert "Next:" not in out  # a tune would be refused


def test_one_file_is_not_both(two, dpbo):
    code, out, err = dpbo("init", str(two[0]), str(two[0]))
    assert (code, out, "both the training file and the validation file" in err) == (2, "", True)


def test_a_plan_ends_with_what_can_be_typed_next(here, dpbo):
    rng = random.Random(0)
    for name, n in (("public.csv", 200), ("few.csv", 20), ("many.csv", 4000)):
        rows = [f"{(x := rng.gauss()):.3f},{rng.gauss():.3f},{int(x + rng.gauss() > 0)}" for _ in range(n)]
        (here / name).write_text("\n".join(["a,b,ill", *rows]) + "\n")
    last = {}
    for name in ("few", "many"):
        assert dpbo("init", "public.csv", f"{name}.csv", "--out", f"{name}.toml")[0] == 0
        code, out, _ = dpbo("plan", f"{name}.toml")
        last[name] = code, " ".join(out.splitlines()[-1].split())
    assert last["few"] == (3, "Next: change the study; dpbo tune refuses it as it is.")
    assert last["many"] == (0, "Next: dpbo tune many.toml")
    assert dpbo("tune", "few.toml")[0] == 3


def test_of_the_validation_file_only_the_header_and_the_number_of_records_are_read(two):
    training, validation = two
    before = text(*two)
    assert SECRET not in before
    assert "# nobody may be in both files (not checked)" in before  # fixed, since it looks at neither
    random_bytes = random.Random(7).randbytes
    hostile = (b"", b"\xff\x00\xfe", b'"', b",,,,,,,,,,,", b"nan,inf,,1e999,,,nobody", b"x" * 200_000)
    for record in (*hostile, *(random_bytes(n).replace(b"\n", b"") for n in (1, 9, 400))):
        validation.write_bytes(HEADER.encode() + b"\n" + (record + b"\n") * 400)
        assert text(training, validation) == before


@pytest.mark.parametrize(("values", "estimator", "score"), [
    (["yes", "no"], "logistic", "accuracy"),
    (["yes", *["no"] * 9], "logistic", "roc_auc"),
    ([1, 2, 3], "sklearn.ensemble.RandomForestClassifier", "accuracy"),
    (["a", "b", "b", "b", "c"], "sklearn.ensemble.RandomForestClassifier", "balanced_accuracy"),
    ([i / 7 for i in range(60)], "sklearn.ensemble.RandomForestRegressor", "absolute_error"),
    (['quoted "x".y', "plain\ttab"], "logistic", "accuracy"),
])  # fmt: skip
def test_the_model_follows_the_target(here, values, estimator, score):
    import csv

    for name in ("a.csv", "b.csv"):
        with Path(name).open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["y", "x"])
            writer.writerows((values[i % len(values)], i % 50) for i in range(60))
    Path("study.toml").write_text(text(Path("a.csv"), Path("b.csv"), target="y", name="other"))
    spec = read_study("study.toml")
    assert (spec.model.estimator, spec.model.score, spec.name) == (estimator, score, "other")
    assert spec.data.ignore is None
    if score == "balanced_accuracy":
        assert sum(spec.model.class_shares.values()) == pytest.approx(1.0)


def test_what_cannot_serve_is_a_letter_and_nothing_is_written(two, dpbo):
    training, validation = two
    (validation.parent / "kept.toml").write_text("mine")
    Path("export.csv").write_text(validation.read_text())
    for name in ("empty.csv", "empty_too.csv"):
        (validation.parent / name).write_text("age,weight,last\n" + "61,70,\n" * 20)
    for words, says in (
        (("empty.csv", "empty_too.csv"), "the target 'last' has no value in the public file"),
        ((training, "nowhere.csv"), "nowhere.csv"),
        ((training, validation, "--target", "outcom"), "nearest name is 'outcome'"),
        ((training, validation, "--target", "visit"), "'visit' is a text of 240 different values"),
        ((training, validation, "--out", "kept.toml"), "file exists"),
        ((training, validation, "--out", "no/where.toml"), "no such file"),
        ((training, "export.csv"), "'export'"),
    ):
        code, out, err = dpbo("init", *words)
        assert (code, out) == (2, ""), words
        assert says in err
        assert err.count("\n") == 1
    assert Path("kept.toml").read_text() == "mine"
    assert not Path("study.toml").exists()


def test_a_column_is_left_out_when_asked_and_a_study_file_is_overwritten_when_asked(two, dpbo):
    code, out, _ = dpbo("init", *two, "--ignore", "ward", "--ignore", "age")
    assert (code, out.count("left out: you asked for it")) == (0, 2)
    assert read_study("study.toml").data.ignored == ("visit", "age", "ward", "note")
    for words, says in (((), "--force to overwrite it"), (("--force", "--ignore", "outcome"), "'outcome'")):
        code, out, err = dpbo("init", *two, *words)
        assert (code, out) == (2, "")
        assert says in err
    code, out, _ = dpbo("init", *two, "--force")
    assert (code, read_study("study.toml").data.ignored) == (0, ("visit", "note"))
    assert "asked for it" not in out


def test_an_infinite_number_leaves_its_column_out_and_says_so(here, dpbo):
    rows = [f"{i % 37 + 0.5},{'inf' if i == 3 else i % 29},{'yes' if i % 3 else 'no'}" for i in range(90)]
    for name in ("t.csv", "v.csv"):
        Path(name).write_text("\n".join(["dose,delay,out", *rows]) + "\n")
    code, out, err = dpbo("init", "t.csv", "v.csv")
    assert (code, err, read_study("study.toml").data.ignored) == (0, "", ("delay",))
    assert re.search(r"^  delay +left out: it has an infinite value$", out, re.M)


def test_paths_are_relative_to_the_study_which_is_twenty_lines_of_80_columns_at_most(two, dpbo):
    """With columns left out, gaps, class shares and people too."""
    for written in (text(*two), text(*two, people=("visit", 300))):
        assert max(map(len, written.splitlines())) <= 80
        assert len(written.splitlines()) <= 20
    Path("studies").mkdir()
    assert dpbo("init", *two, "--out", "studies/s.toml")[0] == 0
    spec = read_study("studies/s.toml")
    assert (spec.data.training, spec.data.validation) == ("../training.csv", "../hospital.csv")


def test_a_column_of_people_is_protected_whole_and_is_no_feature(here, dpbo):
    """How many people is the caller's public number: who is in the other file, and how often, changes nothing."""
    rows = [f"P{i:03d},{i % 7},{i % 2}" for i in range(95)] + [f"Q{i % 5},{i % 7},{i % 2}" for i in range(60)]

    def write(persons, records):
        for name, lines in (("a", rows), ("b", [f"Z{i % persons},{i % 7},{i % 2}" for i in range(records)])):
            Path(f"{name}.csv").write_text("\n".join(["patient,x,y", *lines]) + "\n")

    write(3, 80)
    code, out, err = dpbo("init", "a.csv", "b.csv", "--person", "patient=3")
    assert (code, err) == (0, "")
    spec = read_study("study.toml")
    assert (spec.privacy.person, spec.data.n_persons, spec.data.ignore) == ("patient", 3, None)
    said = "people in column patient of b.csv: 3, as you state; each counts once"
    assert said in " ".join(out.split())
    assert "80" not in out + Path("study.toml").read_text()
    assert "people   " not in out.replace("people in", "")  # the hint is for those who named no column
    write(50, 700)
    Path("study.toml").rename("one.toml")
    assert dpbo("init", "a.csv", "b.csv", "--person", "patient=3")[0] == 0
    assert Path("study.toml").read_text() == Path("one.toml").read_text()
    release = run_study(read_study("study.toml"), ledger=PrivacyLedger("sqlite:///ledger.db")).release
    assert (release.guarantee.person, release.guarantee.relation) == ("patient", "replace_one_person")
    hint = dpbo("init", "a.csv", "b.csv", "--out", "three.toml")[1]
    assert "--person patient=N protects people" in " ".join(hint.split())
    for wrong, says in (
        (("--person", "patiens=3"), "no column 'patiens' can say"),
        (("--person", "y=3"), "no column 'y' can say"),
        (("--person", "patient"), "how many people is the validation file about?"),
        (("--person", "patient=three"), "how many people is the validation file about?"),
        (("--person", "patient=0"), "n_persons = 0"),
    ):
        code, out, err = dpbo("init", "a.csv", "b.csv", *wrong, "--out", "four.toml")
        assert (code, out) == (2, "")
        assert says in err
        assert not Path("four.toml").exists()


def test_the_written_study_beats_a_constant_answer_on_public_records_of_unequal_classes(here):
    """Of a linear model without a constant feature no candidate did: .67 where always the larger class has .72."""
    rng = random.Random(3)
    for name, n in (("a.csv", 800), ("b.csv", 50)):
        rows = []
        for _ in range(n):
            age, years = rng.randint(18, 70), rng.randint(0, 20)
            rows.append(f"{age},{years},{int(rng.random() < 0.05 + 0.02 * years + (age > 60) * 0.3)}")
        Path(name).write_text("\n".join(["age,years,y", *rows]) + "\n")
    Path("study.toml").write_text(text(Path("a.csv"), Path("b.csv"), name="unequal"))
    spec = read_study("study.toml")
    problem = FileSplit(spec, ".").public(planning_problem(spec)).problem
    best = max(problem.public_score(index) for index in range(len(problem.candidates)))
    assert 0.6 < problem.baseline < best - 0.01
