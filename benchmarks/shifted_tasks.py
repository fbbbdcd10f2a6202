"""Tasks on which the sensitive half is another population than the public one: files for `--task`.

    python -m benchmarks.shifted_tasks FOLDER [task …]     FOLDER/TASK-SPLIT.npz, those that are not there yet
    python -m benchmarks.shifted_tasks FOLDER 3-18 task …  other splits than the usual three

| array | meaning | shape |
|---|---|---|
| `scores` | record scores on the half that plays sensitive, of the model trained on the public half | (m, N) |
| `public_scores` | out-of-fold record scores on the public half | (n, N) |
| `candidates` | in the unit cube | (N, d) |
| `score_range` | G: a record's scores lie in [0, G] | scalar |

Bundled tables of scikit-learn and statsmodels, split by a covariate (soft: the covariate's rank plus noise, so that
the halves overlap), or synthetic ones whose public half is small, has noisier labels, other covariates or another
prevalence; and alike halves, where the public set tells all. A split's number seeds everything.
"""

import sys
from collections.abc import Callable
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

FOLDS, SPLITS, CLIPPED = 5, 3, 3.0


class Halves(NamedTuple):
    """Public rows and those that play sensitive."""

    X: Any
    y: Any
    V: Any
    truth: Any


class Axis(NamedTuple):
    """One hyperparameter at points that are even in the cube."""

    name: str
    values: Any


def powers(low: float, high: float, points: int) -> list[float]:
    return [float(x) for x in np.geomspace(low, high, points)]


def whole(low: float, high: float, points: int) -> list[int]:
    return sorted({int(x) for x in np.geomspace(low, high, points).round()})


# what is learned


def svc(X: Any, y: Any, **given: Any) -> Any:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    return make_pipeline(StandardScaler(), SVC(**given)).fit(X, y)


def tree(X: Any, y: Any, **given: Any) -> Any:
    from sklearn.tree import DecisionTreeClassifier

    return DecisionTreeClassifier(random_state=0, **given).fit(X, y)


def boosting(X: Any, y: Any, **given: Any) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(max_iter=30, random_state=0, **given).fit(X, y)


def neighbours(X: Any, y: Any, **given: Any) -> Any:
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    given["n_neighbors"] = min(given["n_neighbors"], len(y))
    return make_pipeline(StandardScaler(), KNeighborsClassifier(**given)).fit(X, y)


def ridge(X: Any, y: Any, **given: Any) -> Any:
    from sklearn.kernel_ridge import KernelRidge

    return KernelRidge(kernel="rbf", **given).fit(X, y)


def logistic(X: Any, y: Any, **given: Any) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=300, **given)).fit(X, y)


SVC_SPACE = (Axis("C", powers(1e-2, 1e3, 12)), Axis("gamma", powers(1e-5, 1.0, 12)))
TREE_SPACE = (
    Axis("max_depth", whole(1, 24, 9)),
    Axis("min_samples_leaf", whole(1, 200, 8)),
    Axis("max_features", [0.25, 0.5, 1.0]),
)
BOOST_SPACE = (
    Axis("learning_rate", powers(0.01, 1.0, 6)),
    Axis("max_leaf_nodes", whole(2, 48, 5)),
    Axis("l2_regularization", powers(1e-3, 100.0, 4)),
)
KNN_SPACE = (Axis("n_neighbors", whole(1, 150, 24)), Axis("weights", ["uniform", "distance"]), Axis("p", [1, 2]))
RIDGE_SPACE = (Axis("alpha", powers(1e-3, 30.0, 12)), Axis("gamma", powers(1e-3, 10.0, 12)))
LOGIT_SPACE = (Axis("C", powers(1e-4, 1e3, 96)),)


# how a record is scored, in [0, G]


def correct(model: Any, X: Any, y: Any) -> Any:
    return (model.predict(X) == y).astype(float)


def log_loss(model: Any, X: Any, y: Any) -> Any:
    """CLIPPED + log of the probability of the truth, no less than 0."""
    p = model.predict_proba(X)[np.arange(len(y)), np.searchsorted(model.classes_, y)]
    return np.clip(CLIPPED + np.log(np.maximum(p, 1e-12)), 0.0, CLIPPED)


def squared(model: Any, X: Any, y: Any) -> Any:
    """1 less the squared error of a standardised target, which is clipped at 4, as a share."""
    return 1.0 - np.minimum((model.predict(X) - y) ** 2, 4.0) / 4.0


# whose rows they are


def by(covariate: Any, n: int, m: int, softness: float, rng: Any, X: Any, y: Any) -> Halves:
    """The n rows of lowest noisy rank play public, m of the others sensitive."""
    ranks = np.argsort(np.argsort(covariate + 1e-9 * rng.random(len(y)))) / len(y)
    order = np.argsort(ranks + softness * rng.normal(size=len(y)))
    half = max(n, len(y) // 2)
    public, other = rng.permutation(order[:half])[:n], rng.permutation(order[half:])[:m]
    return Halves(X[public], y[public], X[other], y[other])


def alike(n: int, m: int, rng: Any, X: Any, y: Any) -> Halves:
    return by(np.zeros(len(y)), n, m, 1.0, rng, X, y)


def table(name: str, separator: str = ",") -> Any:
    """A table that statsmodels carries."""
    import pandas as pd

    (where, *_) = find_spec("statsmodels").submodule_search_locations  # type: ignore[union-attr]
    return pd.read_csv(Path(where) / "datasets" / name / f"{name}.csv", sep=separator)


def cancer(rng: Any, *, softness: float) -> Halves:
    """Small tumours, then large ones."""
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    return by(X[:, 0], 284, 285, softness, rng, X, y)


def digits(rng: Any, *, n: int, noise: float) -> Halves:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    halves = alike(n, 897, rng, X, y)
    return halves._replace(V=halves.V + noise * rng.normal(size=halves.V.shape))


def wine(rng: Any) -> Halves:
    from sklearn.datasets import load_wine

    X, y = load_wine(return_X_y=True)
    return by(X[:, 0] % 1.0, 50, 128, 0.5, rng, X, y)


def rand(rng: Any) -> Halves:
    """Any visit to a doctor, from the RAND health insurance experiment: the young sick, then the others."""
    found = table("randhie")
    X = found.drop(columns="mdvis").to_numpy(float)
    return by(found["lncoins"].to_numpy(float), 1_000, 6_000, 0.3, rng, X, (found["mdvis"] > 2).to_numpy(int))


def fair(rng: Any) -> Halves:
    found = table("fair")
    X = found.drop(columns="affairs").to_numpy(float)
    return by(found["age"].to_numpy(float), 800, 3_000, 0.2, rng, X, (found["affairs"] > 0).to_numpy(int))


def votes(rng: Any) -> Halves:
    found = table("anes96", "\t")
    found.columns = [name.strip("'") for name in found.columns]
    X = found[["popul", "TVnews", "selfLR", "age", "educ", "income"]].to_numpy(float)
    return by(-found["educ"].to_numpy(float), 300, 500, 0.2, rng, X, found["vote"].to_numpy(int))


def diabetes(rng: Any, *, shifted: bool) -> Halves:
    from sklearn.datasets import load_diabetes
    from sklearn.preprocessing import StandardScaler

    X, y = load_diabetes(return_X_y=True)
    X, y = StandardScaler().fit_transform(X), (y - y.mean()) / y.std()
    return by(X[:, 2], 221, 221, 0.2, rng, X, y) if shifted else alike(221, 221, rng, X, y)


def made(
    rng: Any, n: int, m: int, shift: float = 0.0, flips: float = 0.0, prevalence: float = 0.5, **given: Any
) -> Halves:
    """Synthetic classes: the public half leans to one side of a direction, has flipped labels, or few positives."""
    from sklearn.datasets import make_classification

    seed = int(rng.integers(2**31))
    usual = {"n_features": 12, "n_informative": 6, "n_clusters_per_class": 4, "flip_y": 0.05, "random_state": seed}
    X, y = make_classification(6 * (n + m), **(usual | given))
    side = X @ rng.normal(size=X.shape[1])
    half = by(side, n, m, 1.0 / shift if shift else 1e6, rng, X, y)
    if prevalence != 0.5:
        many = np.flatnonzero(rng.random(len(y)) < np.where(y == 1, prevalence, 1.0 - prevalence))[: 2 * n]
        public = rng.permutation(many)[:n]
        half = half._replace(X=X[public], y=y[public])
    return half._replace(y=np.where(rng.random(n) < flips, 1 - half.y, half.y))


class Shifted(NamedTuple):
    """A task: whose rows, what is learned over which hyperparameters, how a record is scored."""

    halves: Callable[[Any], Halves]
    fit: Callable[..., Any]
    space: tuple[Axis, ...]
    score: Callable[..., Any] = correct
    score_range: float = 1.0


TASKS = {
    "cancer-size": Shifted(lambda rng: cancer(rng, softness=0.15), svc, SVC_SPACE),
    "cancer-overlap": Shifted(lambda rng: cancer(rng, softness=0.4), svc, SVC_SPACE),
    "cancer-alike": Shifted(lambda rng: cancer(rng, softness=1e6), svc, SVC_SPACE),
    "digits-noise": Shifted(lambda rng: digits(rng, n=450, noise=4.0), svc, SVC_SPACE),
    "digits-writer": Shifted(lambda rng: digits(rng, n=450, noise=1.5), svc, SVC_SPACE),
    "digits-small": Shifted(lambda rng: digits(rng, n=70, noise=0.0), svc, SVC_SPACE),
    "wine-small": Shifted(wine, neighbours, KNN_SPACE),
    "rand-plan": Shifted(rand, tree, TREE_SPACE),
    "fair-age": Shifted(fair, tree, TREE_SPACE),
    "votes-educ": Shifted(votes, svc, SVC_SPACE),
    "tree-shift": Shifted(lambda rng: made(rng, 3_000, 10_000, shift=4.0), tree, TREE_SPACE),
    "boost-shift": Shifted(lambda rng: made(rng, 600, 3_000, shift=8.0), boosting, BOOST_SPACE),
    "boost-flips": Shifted(lambda rng: made(rng, 600, 4_000, flips=0.25), boosting, BOOST_SPACE),
    "svc-prevalence": Shifted(lambda rng: made(rng, 400, 2_000, prevalence=0.12), svc, SVC_SPACE),
    "svc-flat": Shifted(lambda rng: made(rng, 400, 2_000, flip_y=0.8), svc, SVC_SPACE),
    "knn-small": Shifted(lambda rng: made(rng, 60, 1_000), neighbours, KNN_SPACE),
    "ridge-alike": Shifted(lambda rng: diabetes(rng, shifted=False), ridge, RIDGE_SPACE, squared),
    "ridge-bmi": Shifted(lambda rng: diabetes(rng, shifted=True), ridge, RIDGE_SPACE, squared),
    "logloss-shift": Shifted(
        lambda rng: made(rng, 200, 1_500, shift=4.0, flips=0.1), logistic, LOGIT_SPACE, log_loss, CLIPPED
    ),
    "logloss-boost": Shifted(
        lambda rng: made(rng, 400, 2_000, shift=8.0), boosting, BOOST_SPACE, log_loss, CLIPPED
    ),
}


def measured(task: Shifted, seed: int) -> dict[str, Any]:
    """Every candidate trained on the public half and without each of its folds, and scored."""
    rng = np.random.default_rng((2_026, seed))
    X, y, V, truth = task.halves(rng)
    folds = rng.permutation(np.arange(len(y)) % FOLDS)
    points = list(product(*(axis.values for axis in task.space)))
    sides = [[i / max(1, len(axis.values) - 1) for i in range(len(axis.values))] for axis in task.space]
    scores, public = np.empty((len(truth), len(points))), np.empty((len(y), len(points)))
    for column, point in enumerate(points):
        given = dict(zip([axis.name for axis in task.space], point, strict=True))
        scores[:, column] = task.score(task.fit(X, y, **given), V, truth)
        for fold in range(FOLDS):
            out = folds == fold
            public[out, column] = task.score(task.fit(X[~out], y[~out], **given), X[out], y[out])
    return {
        "scores": scores.astype(np.float32),
        "public_scores": public.astype(np.float32),
        "candidates": np.array(list(product(*sides))),
        "score_range": np.float64(task.score_range),
    }


def main(folder: Path, names: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    seeds = range(SPLITS)
    if names and names[0][:1].isdigit():
        first, last = (int(end) for end in names.pop(0).split("-"))
        seeds = range(first, last + 1)
    for seed, name in product(seeds, names or TASKS):
        file = folder / f"{name}-{seed}.npz"
        if not file.exists():
            with file.with_suffix(".part").open("wb") as part:
                np.savez_compressed(part, **measured(TASKS[name], seed))
            file.with_suffix(".part").replace(file)
            print(file, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
