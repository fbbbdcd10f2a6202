"""Tasks drawn by a seed after every constant was frozen, as `python -m benchmarks.compare --task` reads them.

    python -m benchmarks.held_back_tasks FOLDER SEED [tasks]     FOLDER/KIND-NUMBER-SPLIT.npz; 24 tasks, 3 splits
    python -m benchmarks.held_back_tasks FOLDER SEED tasks --auc     the same tasks by AUC, but for the regressions
    python -m benchmarks.shift FOLDER OUT.json                   what auto loses on them

A draw takes, independently: how the sensitive half differs (not at all, by covariates, by the share of a class, by
the concept, by a scale of its columns, by a subgroup), the sizes of both halves (60 to 4,000 public records and 200
to 10,000 sensitive ones, even in the logarithm), a family of models with its space, and a score. The
constants of the base measure were later chosen on small tasks of this kind and of `shifted_tasks`, drawn by other
seeds. They were frozen before `misleading` drew its tasks.
"""

import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.shifted_tasks import (
    BOOST_SPACE,
    CLIPPED,
    KNN_SPACE,
    LOGIT_SPACE,
    RIDGE_SPACE,
    SPLITS,
    SVC_SPACE,
    TREE_SPACE,
    Axis,
    Halves,
    Shifted,
    boosting,
    correct,
    log_loss,
    logistic,
    measured,
    neighbours,
    ridge,
    squared,
    svc,
    tree,
    whole,
)

SHIFTS = ("alike", "covariates", "class share", "concept", "scale", "subgroup")
SLOW = 2_000  # public records with which kernels and boosting are trained at most
COLUMNS = 10


def forest(X: Any, y: Any, **given: Any) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(n_estimators=20, random_state=0, **given).fit(X, y)


FOREST_SPACE = (Axis("max_depth", whole(1, 20, 6)), Axis("min_samples_leaf", whole(1, 100, 6)))
FAMILIES = (
    (svc, SVC_SPACE, (correct,)),
    (tree, TREE_SPACE, (correct,)),
    (forest, FOREST_SPACE, (correct, log_loss)),
    (boosting, BOOST_SPACE, (correct, log_loss)),
    (neighbours, KNN_SPACE, (correct,)),
    (logistic, LOGIT_SPACE, (correct, log_loss)),
    (ridge, RIDGE_SPACE, (squared,)),
)


def population(rng: Any, size: int, weights: Any, *, classes: bool) -> tuple[Any, Any]:
    """Rows of ten columns, three of them heavy-tailed, and a smooth target of two interactions with noise."""
    X = rng.normal(size=(size, COLUMNS))
    X[:, :3] = np.sign(X[:, :3]) * np.abs(X[:, :3]) ** 1.5
    surface = X @ weights[0] + np.tanh(X @ weights[1]) * (X @ weights[2]) + np.sin(2.0 * X[:, 4]) * weights[3, 0]
    noise = rng.normal(size=size) * surface.std() * np.exp(weights[3, 1] / 3.0)
    target = (surface + noise) / np.hypot(surface.std(), noise.std())
    return X, (target > np.median(target)).astype(int) if classes else target - target.mean()


def halves(rng: Any, n: int, m: int, shift: str, *, classes: bool) -> Halves:
    """The n public rows, and m rows of a population that differs from theirs by `shift`."""
    weights = rng.normal(size=(4, COLUMNS))
    X, y = population(rng, n, weights, classes=classes)
    moved = weights + 0.5 * rng.normal(size=weights.shape) if shift == "concept" else weights
    V, truth = population(rng, 8 * m, moved, classes=classes)
    lean = np.zeros(8 * m)
    match shift:
        case "covariates":
            lean = V @ rng.normal(size=COLUMNS)
        case "class share":
            lean = 3.0 * truth.astype(float)
        case "subgroup":
            lean = 4.0 * ((V[:, 5] > 0.8) & (V[:, 6] > 0.0))
    rows = np.argsort(-(lean / (lean.std() or 1.0) + rng.gumbel(size=8 * m)))[:m]
    V, truth = V[rows], truth[rows]
    if shift == "scale":
        V = V * np.exp(0.4 * rng.normal(size=COLUMNS))
    return Halves(X, y, V, truth)


def drawn(seed: int, tasks: int) -> dict[str, Shifted]:
    """So many tasks by their names; every shift comes equally often."""
    rng, named = np.random.default_rng((2_027, seed)), {}
    for number in range(tasks):
        shift = SHIFTS[number % len(SHIFTS)]
        fit, space, scores = FAMILIES[int(rng.integers(len(FAMILIES)))]
        score = scores[int(rng.integers(len(scores)))]
        n = int(np.exp(rng.uniform(np.log(60), np.log(4_000))))
        m = int(np.exp(rng.uniform(np.log(200), np.log(10_000))))
        n = min(n, SLOW) if fit in (svc, ridge, boosting) else n

        def rows(
            split: Any, n: int = n, m: int = m, shift: str = shift, *, classes: bool = fit is not ridge
        ) -> Halves:
            return halves(np.random.default_rng((seed, int(split.integers(2**31)))), n, m, shift, classes=classes)

        named[f"{shift.replace(' ', '_')}_{fit.__name__}-{number}"] = Shifted(
            rows, fit, space, score, CLIPPED if score is log_loss else 1.0
        )
    return named


def ranking(model: Any, X: Any, y: Any) -> Any:  # noqa: ARG001
    """What a model ranks rows by."""
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict_proba(X)[:, 1]


def ranked(task: Shifted, split: int) -> dict[str, Any]:
    """Decision values and labels of both halves."""
    arrays = measured(task._replace(score=ranking), split)
    _, y, _, truth = task.halves(np.random.default_rng((2_026, split)))  # as `measured` draws them
    return {
        "decision_values": arrays["scores"],
        "public_decision_values": arrays["public_scores"],
        "labels": truth,
        "public_labels": y,
        "candidates": arrays["candidates"],
    }


def main(folder: Path, seed: int, tasks: int, form: Callable[[Shifted, int], dict[str, Any]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for split, (name, task) in product(range(SPLITS), drawn(seed, tasks).items()):
        if form is ranked and task.fit is ridge:
            continue
        file = folder / f"{name}-{split}.npz"
        if not file.exists():
            arrays = form(task, split)
            with file.with_suffix(".part").open("wb") as part:
                np.savez_compressed(part, **arrays)
            file.with_suffix(".part").replace(file)
            print(file, flush=True)


if __name__ == "__main__":
    main(
        Path(sys.argv[1]),
        int(sys.argv[2]),
        int(sys.argv[3]) if len(sys.argv) > 3 else 24,
        ranked if "--auc" in sys.argv else measured,
    )
