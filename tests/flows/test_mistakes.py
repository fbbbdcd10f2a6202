"""Mistakes people make: each is answered with exit code, cause and remedy before a heavy library is loaded.

All are made in one process, so that what one of them loaded is seen after every later one too.
"""

import json
import os
import sqlite3
import subprocess
import sys

import pytest
import tomli_w

HEAVY = ("mlflow", "opendp", "pandas", "prefect", "scipy", "sklearn")
TYPED = """
import contextlib, io, json, sys
from dpbo.flows.cli import main
answers = []
for words in json.loads(sys.argv[1]):
    sys.argv, code, text = ['dpbo', *words], 0, io.StringIO()
    with contextlib.redirect_stderr(text):
        try:
            main()
        except SystemExit as ended:
            code = ended.code
    answers.append((code, text.getvalue(), sorted(set(HEAVY) & sys.modules.keys())))
print(json.dumps(answers))
""".replace("HEAVY", repr(HEAVY))
STUDY = {
    "study": {"name": "trial", "method": "private_grid"},
    "privacy": {"dataset": "people", "epsilon": 1.0},
    "budget": {"epsilon": 5.0, "delta": 1e-5},
    "data": {"training": "t.csv", "validation": "v.csv", "n_validation": 20, "target": "y"},
    "model": {"estimator": "sklearn.linear_model.LogisticRegression", "score": "accuracy"},
    "space": {"C": {"low": 1e-3, "high": 10.0, "log": True, "points": 4}},
}
LINEAR = {"model": {"estimator": "logistic", "score": "accuracy"}, "space": {"lambda": STUDY["space"]["C"]}}


def but(section, **changes):
    """The study with other values in a section; None removes the key."""
    values = {key: value for key, value in (STUDY[section] | changes).items() if value is not None}
    return STUDY | {section: values}


def without(section):
    return {name: table for name, table in STUDY.items() if name != section}


MISTAKES = {  # what is typed before the study's name, the study, the exit code, what the message says
    "another number of records": ("tune", but("data", n_validation=21), 2, "v.csv holds 20 records"),
    "a missing training file": ("tune", but("data", training="none.csv"), 2, "there is no file none.csv"),
    "the same in a plan": ("plan", but("data", training="none.csv"), 2, "there is no file none.csv"),
    "a missing validation file": ("tune", but("data", validation="none.csv"), 2, "there is no file none.csv"),
    "a name too long for a file": ("tune", but("data", training="x" * 400 + ".csv"), 2, "cannot be read"),
    "a folder and no file": ("tune", but("data", training="folder"), 2, "holds no Parquet file"),
    "another format": ("tune", but("data", training="t.xlsx"), 2, "neither .csv nor .parquet"),
    "a wrong target": ("tune", but("data", target="z"), 2, "no column 'z'"),
    "the same target in a plan": ("plan", but("data", target="z"), 2, "no column 'z'"),
    "bars between fields": ("tune", but("data", training="bars.csv"), 2, "no column 'y'"),
    "two columns of one name": ("tune", but("data", training="twice.csv"), 2, "share one name, 'a'"),
    "another column in one file": ("tune", but("data", validation="other.csv"), 2, "lacks 'b'"),
    "one file named twice": ("tune", but("data", validation="t.csv"), 2, "both the training file and"),
    "one class only in a plan": ("plan", but("data", training="one.csv") | LINEAR, 2, "class"),
    "no noise at all": ("tune", but("privacy", epsilon=0.0), 2, "privacy.epsilon = 0.0"),
    "a negative level": ("tune", but("privacy", epsilon=-1.0), 2, "privacy.epsilon = -1.0"),
    "a level in words": ("tune", but("privacy", epsilon="one"), 2, "is not a number"),
    "an unknown method": ("tune", but("study", method="private_gird"), 2, "private_gird"),
    "a misspelt key": ("tune", but("data", n_validaton=20), 2, "n_validaton"),
    "an unknown score": ("tune", but("model", score="acuracy"), 2, "acuracy"),
    "low above high": ("tune", but("space", C={"low": 2.0, "high": 1.0}), 2, "not below high"),
    "a missing section": ("tune", without("model"), 2, "no [model] table"),
    "no cap": ("tune", without("budget"), 3, "has no privacy budget"),
    "more than the cap": ("tune", but("privacy", epsilon=6.0), 3, "the limit is"),
    "no level of a report": ("evaluate", STUDY, 2, "no ε is stated"),
    "no level of its plan": ("evaluate --plan", STUDY, 2, "no ε is stated"),
    "a study that is not there": ("tune", None, 2, "no such file"),
    "no study at all": ("tune", "", 2, "tune runs one study"),
    "no toml": ("tune", "this is no study", 2, "is not valid TOML"),
}  # fmt: skip


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """Of each mistake: its exit code, what is on standard error, and the heavy libraries loaded by then."""
    folder, typed = tmp_path_factory.mktemp("mistakes"), []
    lines = [f"{i % 7},{i % 5},{i % 2}" for i in range(30)]
    tables = {"t.csv": ("a,b,y", lines), "v.csv": ("a,b,y", lines[:20]), "twice.csv": ("a,a,y", lines)}
    tables |= {"bars.csv": ("a|b|y", [line.replace(",", "|") for line in lines])}
    tables |= {"one.csv": ("a,b,y", ["1,2,1"] * 30), "other.csv": ("a,c,y", lines[:20])}
    for name, (header, rows) in tables.items():
        (folder / name).write_text("\n".join((header, *rows)) + "\n")
    (folder / "t.xlsx").write_bytes(b"PK")
    (folder / "folder").mkdir()
    for number, (verb, study, _, _) in enumerate(MISTAKES.values()):
        path = folder / f"{number}.toml"
        if study:
            path.write_text(study if isinstance(study, str) else tomli_w.dumps(study))
        typed.append(verb.split() if study == "" else [*verb.split(), path.name])
    done = subprocess.run(
        [sys.executable, "-c", TYPED, json.dumps(typed)], cwd=folder, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(MISTAKES, json.loads(done.stdout.strip().splitlines()[-1]), strict=True))


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_answered_before_a_library_is_loaded(answers, mistake):
    _, _, code, words = MISTAKES[mistake]
    answered, text, loaded = answers[mistake]
    assert (answered, loaded) == (code, []), text
    assert words in text
    assert "What to do:" in text
    assert text.rpartition(": reading the study\n")[2].count("\n") == 1


def test_a_wrong_option_loads_nothing_and_a_missing_file_no_ledger(tmp_path, monkeypatch):
    """Beside a ledger too; a study that the ledger charged goes on: its release is shown without its files."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("DPBO_")]:  # which may name another ledger
        monkeypatch.delenv(name)
    (tmp_path / "s.toml").write_text(tomli_w.dumps(STUDY))
    (tmp_path / "mlruns").mkdir()
    for charged in ("another", "trial"):
        (tmp_path / "mlruns/ledger.db").unlink(missing_ok=True)
        with sqlite3.connect("mlruns/ledger.db") as ledger:
            ledger.execute("CREATE TABLE reservations (study TEXT)")
            ledger.execute("INSERT INTO reservations VALUES (?)", (charged,))
        typed = [["tune", "s.toml", "--nope"], ["plan", "s.toml", "--nope"], ["tune", "s.toml"]]
        code = TYPED.replace(repr(HEAVY), repr(("numpy", *HEAVY, "sqlalchemy")))
        done = subprocess.run(
            [sys.executable, "-c", code, json.dumps(typed)], capture_output=True, text=True, timeout=120, check=True
        )
        *options, missing = json.loads(done.stdout.strip().splitlines()[-1])
        for ended, text, loaded in options:
            assert (ended, loaded) == (2, [])
            assert "--nope" in text
            assert "reading the study" not in text
        goes_on = charged == "trial"
        assert "reading the study" in missing[1] if goes_on else "no file t.csv" in missing[1]
        assert {"numpy", "sqlalchemy"} <= {*missing[2]} if goes_on else missing[2] == []
