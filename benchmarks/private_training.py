"""A sensitive training set: one private training at the documented settings, beside several trials and none at all.

    python -m benchmarks.private_training 20 --data FOLDER > docs/tables/private_training.txt

Accuracies are of the released model, on records that chose nothing of a single training. δ = 1e-5; each split is a
random 30% to score on; bias 0.5. Bounds are a column's least and largest value, as a data dictionary states them;
texts are a column of 0 and 1 a category. `tuned` is the best mean of GRID at ε = 4 with all of ρ in the training,
its settings chosen on the records that judge it in 4 splits; `several` is the best of 8 trials on average over
SPACE, with as little noise as a trial's privacy profile allows; `by Rényi` with what the theorem of Papernot and
Steinke asks for. FOLDER holds `randhie.csv` of statsmodels and, of pydataset, `turnout.csv` (Zelig), `HI.csv`,
`Hdma.csv`, `Participation.csv` and `Males.csv` (Ecdat), each named before it was read. Split i is
`default_rng([SEED, i])`, which draws the (imitated) noise too. Figures are means ± their standard error.
"""

import sys
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from benchmarks.rows import Row
from dpbo.features.private_training.dp_hypo import DpHypo
from dpbo.features.private_training.noisy_gradient_descent import AXES, NoisyGradientDescent
from dpbo_core.data import Encoded, Preprocessing, table_of
from dpbo_core.mechanisms.noise import InjectedNoise
from dpbo_core.methods.problem import Problem
from dpbo_core.models.linear.fit import LinearModel, SoftmaxModel
from dpbo_core.models.scoring.in_memory import Objective
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.study import StudySpec
from dpbo_core.study.resolve import planning_problem

SEED, SHARE, DELTA = 38, 0.3, 1e-5
TUNING, SEVERAL = 4, 10  # splits that choose the settings of `tuned`; splits of `several`
EPSILONS = (1.0, 3.0, 4.0, 8.0)
GOALS = {
    ("digits", 1.0): 0.75,
    ("digits", 4.0): 0.89,
    ("breast cancer", 1.0): 0.87,
    ("breast cancer", 4.0): 0.93,
    ("randhie", 1.0): 0.658,
    ("randhie", 4.0): 0.659,
}
GRID = tuple(product((5.0, 10.0, 20.0, 40.0, 80.0), (0.2, 0.4, 0.8), (20, 40, 80)))
SPACE = {
    "learning_rate": {"low": 8.0, "high": 32.0, "log": True, "points": 3},
    "clipping_norm": {"low": 0.2, "high": 0.5, "log": True, "points": 2},
    "epochs": {"values": [30, 100]},
}
USUAL = {"epochs": {"values": [int(AXES["epochs"].default or 0)]}}
Rows = tuple[pd.DataFrame, np.ndarray]


def tables(folder: Path) -> Mapping[str, Rows]:
    """Features and classes 0 … K − 1, by the table's name."""
    digits, cancer = (load(as_frame=True, return_X_y=True) for load in (load_digits, load_breast_cancer))
    names = ("randhie", "HI", "turnout", "Hdma", "Participation", "Males")
    rand, insured, voters, loans, women, men = (pd.read_csv(folder / f"{name}.csv").dropna() for name in names)
    return {
        "digits": digits,
        "breast cancer": cancer,
        "randhie": (rand.drop(columns="mdvis"), rand["mdvis"] > 2),
        "HI": (insured.drop(columns=["whi", "wght", insured.columns[0]]), insured["whi"] == "yes"),
        "turnout": (voters.drop(columns=["vote", voters.columns[0]]), voters["vote"]),
        "Hdma": (loans.drop(columns=["deny", loans.columns[0]]), loans["deny"] == "yes"),
        "Participation": (women.drop(columns=["lfp", women.columns[0]]), women["lfp"] == "yes"),
        "Males": (men.drop(columns=["union", "nr", "year", men.columns[0]]), men["union"] == "yes"),
    }


def encoded(rows: Rows) -> Encoded:
    """The table under its public bounds, in the unit ball."""
    X, y = pd.get_dummies(rows[0]).astype(float), np.asarray(rows[1]).astype(int)
    columns = {name: X[name].to_numpy() for name in X} | {"class": y}
    bounds = {name: (float(X[name].min()), float(X[name].max())) for name in X}
    labels = tuple(range(int(y.max()) + 1))
    declared = Preprocessing.public(tuple(columns), "class", labels=labels, bounds=bounds, bias=0.5)
    return declared.transform(table_of(columns))


def part(data: Encoded, chosen: np.ndarray) -> Encoded:
    """Some of the records."""
    return Encoded(data.X[chosen], data.labels[chosen], data.broken[chosen], data.n_classes)


def problem(data: Encoded, m: int, epsilon: float, space: Mapping[str, Any]) -> Problem:
    """The study of a table with m records to score on."""
    study = {
        "study": {"name": "benchmark", "method": "dp_hypo"},
        "privacy": {"dataset": "benchmark", "epsilon": epsilon, "delta": DELTA},
        "data": {
            "sensitive": "training",
            "training": "t.csv",
            "validation": "v.csv",
            "n_training": len(data.labels) - m,
            "n_validation": m,
            "target": "class",
            "labels": list(range(data.n_classes)),
            "bounds": {"*": [0.0, 1.0]},
        },
        "model": {"estimator": estimator(data), "score": "accuracy"},
        "space": space,
        "search": {"steps": 8},
    }
    return planning_problem(StudySpec.from_dict(study))


def estimator(data: Encoded) -> str:
    """The model's name."""
    return "logistic" if data.n_classes == 2 else "softmax"


def accuracy(weights: np.ndarray, data: Encoded) -> float:
    """The share of records whose class the model names."""
    scores = data.X @ weights
    named = scores.argmax(axis=1) if weights.ndim == 2 else (scores > 0).astype(int)
    return float((named == data.labels).mean())


def released(data: Encoded, split: int, epsilon: float, method: DpHypo, space: Mapping[str, Any]) -> float:
    """The accuracy of the model that a study releases."""
    rng = np.random.default_rng([SEED, split])
    T, V = halves(data, rng)
    world = problem(data, len(V.labels), epsilon, space)
    search = method.start(world, method.plan(world))
    best = search._select(Objective(Sensitive(V), world.score, Sensitive(T)), InjectedNoise(rng))
    return accuracy(np.array(best["model"]["weights"]), V) if best["model"] else 1.0 / data.n_classes


def halves(data: Encoded, rng: np.random.Generator) -> tuple[Encoded, Encoded]:
    """The training and the validation records of a split."""
    order, m = rng.permutation(len(data.labels)), round(SHARE * len(data.labels))
    return part(data, order[m:]), part(data, order[:m])


def tuned(data: Encoded, split: int, point: tuple[float, float, int], rho: float) -> float:
    """The accuracy of one training at other settings."""
    rng = np.random.default_rng([SEED, split])
    T, V = halves(data, rng)
    settings = dict(zip(AXES, point, strict=True))
    model = NoisyGradientDescent(estimator(data), rho).train(T, settings, InjectedNoise(rng))
    assert isinstance(model, LinearModel | SoftmaxModel)
    return accuracy(model.weights, V)


def without_noise(data: Encoded, split: int) -> float:
    """The accuracy of scikit-learn's logistic regression, C = 100, without privacy."""
    T, V = halves(data, np.random.default_rng([SEED, split]))
    model = LogisticRegression(C=100.0, max_iter=2_000).fit(T.X, T.labels)
    return float(model.score(V.X, V.labels))


def rows() -> Iterator[Row]:
    """A row a table, an ε and a way; the mean over splits, with the 5% and 95% points of single splits."""
    splits = int(next((word for word in sys.argv[1:] if word.isdigit()), "20"))
    folder = Path(sys.argv[sys.argv.index("--data") + 1]) if "--data" in sys.argv else Path()
    one = DpHypo(base="noisy_gradient_descent", stopping="one")
    several = DpHypo(base="noisy_gradient_descent")
    before = DpHypo(base="noisy_gradient_descent", calibration="published")  # densities do not adapt: it is true
    only = next((word for word in sys.argv[1:] if word.startswith("only=")), "only=").removeprefix("only=")
    for name, found in tables(folder).items():
        if only and name != only:
            continue
        data = encoded(found)
        rho = one._calibrated(problem(data, round(SHARE * len(data.labels)), 4.0, USUAL))[0].curve.rho
        repeated = range(splits)
        means = {point: np.mean([tuned(data, i, point, rho) for i in range(TUNING)]) for point in GRID}
        best = max(means, key=lambda point: means[point])
        bar = row(f"{name}, ε = 4, tuned", [tuned(data, i, best, rho) for i in repeated], note=f"at {best}")
        yield bar
        yield row(f"{name}, no privacy", [without_noise(data, i) for i in repeated])
        for epsilon in EPSILONS:
            goal = GOALS.get((name, epsilon), round((bar.figure or 0.0) - 0.03, 3) if epsilon == 4.0 else None)
            single = [released(data, i, epsilon, one, USUAL) for i in repeated]
            yield row(f"{name}, ε = {epsilon:g}, one", single, goal)
            for way, method in (("several", several), ("several, by Rényi", before)):
                found_by = [released(data, i, epsilon, method, SPACE) for i in repeated[:SEVERAL]]
                yield row(f"{name}, ε = {epsilon:g}, {way}", found_by)


def row(what: str, found: list[float], goal: float | None = None, note: str = "") -> Row:
    """The row of some splits: their mean and its standard error, and the range of single splits."""
    low, high = np.quantile(found, (0.05, 0.95))
    error = f"± {np.std(found, ddof=1) / len(found) ** 0.5:.3f}"
    return Row(what, float(np.mean(found)), error, goal, None, float(low), float(high), note)


if __name__ == "__main__":
    print("| table, ε, way | goal | mean of splits | 5 … 95% of splits | |\n|---|---|---|---|---|")
    with threadpool_limits(1):
        for found in rows():
            what, goal, *measured = found.cells
            print(f"| {' | '.join([what, goal.removesuffix(found.unit), *measured])} |", flush=True)
