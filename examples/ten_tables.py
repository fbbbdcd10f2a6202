"""From ten messy public tables to ten served probabilities: files, `dpbo tune`, MLflow's own scoring of one record.

    python examples/ten_tables.py [NAME ...]      all ten, or some by name

The tables are statsmodels' and scikit-learn's. What they lack of gaps, dates, texts, categories and truth values is
planted, by a seed, and the table that is printed says which; the AUC is the released one, with its noise. A study
names a Pipeline that chooses columns by their names, in a file beside it; a third of each table is the public
training file, and the rest plays the sensitive one.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

SEED = 20_240
WORDS = ("calm", "tired", "pain", "sleep", "fever", "work", "cough", "walks", "fall", "rest")

PIPELINE = """\
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

numbers = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
columns = make_column_transformer(
    (numbers, make_column_selector(dtype_include=["number", "bool"])),
{others})
pipeline = make_pipeline(columns, LogisticRegression(max_iter=500))
"""
STUDY = """\
[study]
name = "{name}"
method = "private_grid"

[privacy]
dataset = "{name}"
epsilon = 2.0
{person}
[budget]
epsilon = 5.0

[data]
training = "train.csv"
validation = "validation.csv"
n_validation = {n}
target = "target"

[model]
estimator = "risk_model:pipeline"
score = "roc_auc"

[space]
logisticregression__C = {{ low = 1e-3, high = 10.0, log = true, points = 4 }}
"""


@dataclass(frozen=True)
class Messy:
    """One table.

    Attributes:
        source: where it comes from.
        table: its columns, the target among them.
        planted: kinds that it lacked.
        others: of the ColumnTransformer, beside the numbers.
        person: the column that says whose a record is, and how many records one person has at most.
    """

    source: str
    table: pd.DataFrame
    planted: tuple[str, ...] = ()
    others: str = ""
    person: tuple[str, int] | None = None


def _statsmodels(name: str) -> pd.DataFrame:
    import statsmodels.api as sm

    return getattr(sm.datasets, name).load_pandas().data


def _sklearn(name: str) -> pd.DataFrame:
    from sklearn import datasets

    return getattr(datasets, name)(as_frame=True).frame


def with_gaps(table: pd.DataFrame, rng: np.random.Generator, columns: list[str]) -> pd.DataFrame:
    """A tenth of the cells of some columns is missing."""
    return table.assign(**{name: table[name].where(rng.random(len(table)) > 0.1) for name in columns})


def dates(n: int, rng: np.random.Generator) -> pd.Series:
    """Days of two years, as ISO 8601."""
    days = pd.Timestamp("2022-01-01") + pd.to_timedelta(rng.integers(0, 730, n), "D")
    return pd.Series(days.strftime("%Y-%m-%d"))


def texts(rng: np.random.Generator, positive: pd.Series) -> pd.Series:
    """Notes of words, hardly two alike; one word is commoner where the target is 1."""
    notes = [" ".join(rng.choice(WORDS, 4)) + (", fall" if one and rng.random() < 0.4 else "") for one in positive]
    return pd.Series([f"{note} ({i})" for i, note in enumerate(notes)])


def fair(rng: np.random.Generator) -> Messy:
    """Affairs among 6,366 readers of a magazine, 1974."""
    table = _statsmodels("fair")
    work = {1: "student", 2: "farming", 3: "office", 4: "teaching", 5: "management", 6: "professional"}
    table["occupation"] = table["occupation"].map(work)
    table = with_gaps(table.assign(target=(table.pop("affairs") > 0).astype(int)), rng, ["age", "occupation"])
    return Messy(
        "statsmodels",
        table,
        ("gaps", "categories"),
        '    (OneHotEncoder(handle_unknown="ignore"), ["occupation"]),\n',
    )


def randhie(rng: np.random.Generator) -> Messy:
    """Visits to a doctor in the RAND health insurance experiment, 5,000 of its records; the tenth with most."""
    table = _statsmodels("randhie").sample(5_000, random_state=SEED, ignore_index=True)
    table = table.assign(target=(table.pop("mdvis") > 7).astype(int), when=dates(len(table), rng))
    return Messy("statsmodels", table, ("dates",), '    (StandardScaler(), ["when"]),\n')


def anes96(rng: np.random.Generator) -> Messy:
    """Party of 944 American voters, 1996, with an interviewer's notes."""
    table = _statsmodels("anes96")
    table = table.assign(target=(table.pop("PID") > 3).astype(int))
    table["note"] = texts(rng, table["target"] == 1)
    return Messy("statsmodels", table, ("texts",), '    (HashingVectorizer(n_features=128), "note"),\n')


def modechoice(rng: np.random.Generator) -> Messy:
    """How 210 travellers go, four records each."""
    table = _statsmodels("modechoice")
    table["mode"] = table["mode"].map({1: "air", 2: "train", 3: "bus", 4: "car"})
    table["traveller"] = "T" + table.pop("individual").astype(int).astype(str)
    table = with_gaps(table.assign(target=table.pop("choice").astype(int)), rng, ["hinc"])
    one_hot = '    (OneHotEncoder(handle_unknown="ignore"), ["mode"]),\n'
    return Messy("statsmodels", table, ("gaps", "categories"), one_hot, ("traveller", 4))


def fertility(rng: np.random.Generator) -> Messy:
    """Children a woman in 219 countries: names as texts, and gaps of its own."""
    table = _statsmodels("fertility")
    kept = table[table["2010"].notna()].reset_index(drop=True)
    columns = ["Country Name", "1960", "1970", "1980", "1990"]
    made = kept[columns].assign(target=(kept["2010"] > 2.4).astype(int), member=rng.random(len(kept)) < 0.5)
    vectors = '    (HashingVectorizer(n_features=64, analyzer="char_wb"), "Country Name"),\n'
    return Messy("statsmodels", made, ("truth values",), vectors)


def co2(rng: np.random.Generator) -> Messy:
    """Carbon dioxide at Mauna Loa, 2,284 weeks: dates and gaps of its own; whether the next month rises."""
    weekly = _statsmodels("co2")["co2"]
    rises = (weekly.interpolate().shift(-4) > weekly.interpolate()).astype(int).to_numpy()
    table = pd.DataFrame({"week": weekly.index.strftime("%Y-%m-%d"), "co2": weekly.to_numpy(), "target": rises})
    table["change"] = table["co2"] - table["co2"].shift(4)
    table["season"] = pd.Series(weekly.index.quarter).map({1: "winter", 2: "spring", 3: "summer", 4: "autumn"})
    del rng
    others = '    (StandardScaler(), ["week"]),\n    (OneHotEncoder(handle_unknown="ignore"), ["season"]),\n'
    return Messy("statsmodels", table, (), others)


def cancer(rng: np.random.Generator) -> Messy:
    """569 tumours, with gaps and the day of each sample."""
    table = _sklearn("load_breast_cancer")
    table = with_gaps(table, rng, ["mean radius", "worst area"]).assign(sampled=dates(len(table), rng))
    return Messy("scikit-learn", table, ("gaps", "dates"), '    (StandardScaler(), ["sampled"]),\n')


def diabetes(rng: np.random.Generator) -> Messy:
    """442 patients after a year, with a ward and a nurse's notes."""
    table = _sklearn("load_diabetes")
    table["target"] = (table["target"] > 140).astype(int)
    table["ward"] = rng.choice(["north", "south", "east"], len(table))
    table["note"] = texts(rng, table["target"] == 1)
    one_hot = '    (OneHotEncoder(handle_unknown="ignore"), ["ward"]),\n'
    vectors = '    (HashingVectorizer(n_features=128), "note"),\n'
    return Messy(
        "scikit-learn", with_gaps(table, rng, ["bmi", "ward"]), ("gaps", "texts", "categories"), one_hot + vectors
    )


def digits(rng: np.random.Generator) -> Messy:
    """1,797 scans, of which a tenth is an eight; which scanner it was, and whether by night."""
    table = _sklearn("load_digits")
    table["target"] = (table["target"] == 8).astype(int)
    table = table.assign(scanner=rng.choice(["A", "B"], len(table)), night=rng.random(len(table)) < 0.3)
    one_hot = '    (OneHotEncoder(handle_unknown="ignore"), ["scanner"]),\n'
    return Messy(
        "scikit-learn", with_gaps(table, rng, ["scanner"]), ("gaps", "categories", "truth values"), one_hot
    )


def wine(rng: np.random.Generator) -> Messy:
    """178 wines of three growers: whether it is the first's."""
    table = _sklearn("load_wine").assign(tasted=dates(178, rng))
    table["target"] = (table["target"] == 0).astype(int)
    return Messy(
        "scikit-learn",
        with_gaps(table, rng, ["ash", "hue"]),
        ("gaps", "dates"),
        '    (StandardScaler(), ["tasted"]),\n',
    )


TABLES: dict[str, Callable[[np.random.Generator], Messy]] = {
    made.__name__: made
    for made in (fair, randhie, anes96, modechoice, fertility, co2, cancer, diabetes, digits, wine)
}


def write(messy: Messy, name: str, folder: Path) -> dict[str, Any]:
    """The study and its files; one record of the sensitive part without its target, as JSON has it."""
    table, person = messy.table, messy.person
    if person is None:
        public = np.random.default_rng(SEED).random(len(table)) < 1 / 3
    else:  # whoever is public is so with every record
        owners = table[person[0]].unique()
        public = table[person[0]].isin(owners[: len(owners) // 3]).to_numpy()
    table[public].to_csv(folder / "train.csv", index=False)
    table[~public].to_csv(folder / "validation.csv", index=False)
    (folder / "risk_model.py").write_text(PIPELINE.format(others=messy.others), encoding="utf-8")
    said = "" if person is None else f'person = "{person[0]}"\nmax_records_per_person = {person[1]}\n'
    study = STUDY.format(name=name, n=int((~public).sum()), person=said)
    (folder / "study.toml").write_text(study, encoding="utf-8")
    record: dict[str, Any] = json.loads(table[public].iloc[[0]].drop(columns="target").to_json(orient="records"))[0]
    return record


def _run(words: list[str], folder: Path) -> str:
    """What this Python prints there, with what is importable here."""
    path = os.pathsep.join(filter(None, [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")]))
    found = subprocess.run(  # noqa: S603  this interpreter
        [sys.executable, *words],
        cwd=folder, capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": path},
    )  # fmt: skip
    if found.returncode:
        raise SystemExit(f"{folder.name}: {found.stderr.strip()[-2000:]}")
    return found.stdout


def tuned(folder: Path) -> dict[str, Any]:
    """What `dpbo tune study.toml --json` printed."""
    command = ["-c", "from dpbo.flows.cli.app import main; main()", "tune", "study.toml", "--json"]
    told: dict[str, Any] = json.loads(_run(command, folder))
    return told


SERVED = """
import json, sys, warnings
import mlflow
warnings.simplefilter("ignore")
from fastapi.testclient import TestClient
from mlflow.pyfunc.scoring_server import init

mlflow.set_tracking_uri("sqlite:///mlruns/mlflow.db")
model = mlflow.pyfunc.load_model(f"runs:/{sys.argv[1]}/model")
with TestClient(init(model)) as server:
    answer = server.post("/invocations", json=json.loads(sys.argv[2]))
answer.raise_for_status()
assert not any(name.split(".")[0] in ("dpbo", "dpbo_core") for name in sys.modules)
print(json.dumps([*answer.json()["predictions"][0].values()][1]))
"""


def served(folder: Path, run_id: str, record: dict[str, Any]) -> float:
    """The probability of class 1 for one record, by MLflow's own scoring server, asked without a port or dpbo."""
    asked = {"dataframe_records": [record], "params": {"predict_method": "predict_proba"}}
    printed = _run(["-c", SERVED, run_id, json.dumps(asked)], folder)
    return float(printed.splitlines()[-1])


def main(names: list[str]) -> None:
    """Every table named, or all; a line for each."""
    print(f"{'table':<11}{'from':<14}{'records':>8}{'positive':>9}{'AUC':>7}{'served':>8}{'s':>6}  planted")
    done = 0
    for name in names or list(TABLES):
        messy = TABLES[name](np.random.default_rng(SEED))
        with tempfile.TemporaryDirectory(prefix=f"{name}-") as scratch:
            began, folder = time.perf_counter(), Path(scratch)
            record = write(messy, name, folder)
            release = tuned(folder)
            probability = served(folder, release["tracking"]["run_id"], record)
            taken = time.perf_counter() - began
        positive, auc = messy.table["target"].mean(), release["value"]["metric"]["value"]
        done += 0.0 <= probability <= 1.0
        print(
            f"{name:<11}{messy.source:<14}{len(messy.table):>8,}{positive:>9.0%}{auc:>7.2f}{probability:>8.3f}"
            f"{taken:>6.0f}  {', '.join(messy.planted) or 'nothing'}",
            flush=True,
        )
    print(f"{done} of {len(names or TABLES)} from files to a served probability")


if __name__ == "__main__":
    main(sys.argv[1:])
