"""A task of one's own, from a file of record scores: `python -m benchmarks.compare --task FILE.npz`.

| array | meaning | shape |
|---|---|---|
| `scores` | record scores on the half that plays sensitive, in [0, G] | (m, N) |
| `public_scores` | out-of-fold record scores on the public half, in [0, G] | (n, N) |
| `candidates` | the candidates in the unit cube | (N, d) |
| `score_range` | G | scalar |

By AUC, in the place of the first two and the last:

| array | meaning | shape |
|---|---|---|
| `decision_values` | what each candidate ranks the sensitive half by | (m, N) |
| `labels` | 1 for the second class, else 0 | (m,) |
| `public_decision_values`, `public_labels` | the same of the public half, out of fold | (n, N), (n,) |

All of it is public: a sensitive table's scores may never be written to such a file.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from benchmarks.compare.tasks import ScoreTable, TableTrainer
from dpbo_core.errors import StudyInvalid
from dpbo_core.methods.problem import Problem
from dpbo_core.models.integer_sums import GRID, to_grid
from dpbo_core.models.scores.accuracy import Correct
from dpbo_core.models.scores.bounded_function import BoundedFunction
from dpbo_core.models.scores.roc_auc import RocAuc
from dpbo_core.models.scores.union import Score
from dpbo_core.search.search_space import CandidateSet, Categorical, SearchSpace
from dpbo_core.study import EstimatorSection, SearchSection

ARRAYS = ("scores", "public_scores", "candidates", "score_range")
PAIR_ARRAYS = ("decision_values", "labels", "public_decision_values", "public_labels", "candidates")
LEAST_CANDIDATES = 2


def read_task(file: Path) -> tuple[Problem, ScoreTable]:
    """The problem and score table in a user's .npz file: by record, or of pairs (AUC) where it holds `labels`.

    Raises:
        StudyInvalid: there is no such file, or it is no task; the message names the array and what is wrong.
    """
    arrays = _read_npz(file)
    if "labels" in arrays:
        return _of_pairs(arrays)
    G = _score_range(arrays["score_range"])
    scores, public = (_scores_in(name, arrays[name], G) for name in ARRAYS[:2])
    candidates = _candidates(arrays, scores=scores, public_scores=public)
    steps, public_steps = (
        to_grid(part, G, broken_score=0.0).reshape(part.shape).astype(np.int32) for part in (scores, public)
    )
    means = public_steps.sum(axis=0, dtype=np.int64) * (G / (GRID * len(public)))
    table = ScoreTable.of(steps, public_steps, means)
    whole = G == 1.0 and bool(np.isin(scores, (0.0, 1.0)).all()) and bool(np.isin(public, (0.0, 1.0)).all())
    score = Correct() if whole else BoundedFunction("scores.of_a_file", 0.0, G)
    return _problem(candidates, table, score, m=len(scores), n=len(public)), table


def _of_pairs(arrays: Mapping[str, NDArray[Any]]) -> tuple[Problem, ScoreTable]:
    """The problem of ranking by AUC in a user's arrays, and its table of scores of pairs."""
    values, public = (_checked(name, arrays[name], 2) for name in ("decision_values", "public_decision_values"))
    candidates = _candidates(arrays, decision_values=values, public_decision_values=public)
    halves = []
    for name, ranked in (("labels", values), ("public_labels", public)):
        labels = _checked(name, arrays[name], 1)
        if len(labels) != len(ranked) or set(labels.tolist()) != {0.0, 1.0}:
            raise _bad(name, f"{len(labels)} of them for {len(ranked)} records", "a 0 or 1 a record, and both")
        # C₂ is twice Mann and Whitney's U: the ranks of the second class, ties at their middle, less its own
        n_second = int(labels.sum())
        second = 2.0 * rankdata(ranked, axis=0)[labels == 1.0].sum(axis=0) - n_second * (n_second + 1)
        halves.append((np.rint(second).astype(np.int64), 2 * n_second * (len(labels) - n_second)))
    (counts, pairs), (public_counts, public_pairs) = halves
    table = ScoreTable(counts, public_counts / public_pairs, pairs=pairs)
    problem = _problem(candidates, table, RocAuc(), m=len(values), n=len(public))
    return replace(problem, positives=float(np.mean(arrays["public_labels"]))), table


def _candidates(arrays: Mapping[str, NDArray[Any]], **of_records: NDArray[np.float64]) -> NDArray[np.float64]:
    """The candidates (N, d) in the unit cube, checked to be as many as each array `of_records` has columns."""
    candidates = _checked("candidates", arrays["candidates"], 2)
    (first, records), *others = of_records.items()
    N = records.shape[1]
    if N < LEAST_CANDIDATES:
        raise _bad(first, f"{N} columns", "a column a candidate, at least two")
    sizes = [(name, array.shape[1]) for name, array in others] + [("candidates", len(candidates))]
    for name, n_candidates in sizes:
        if n_candidates != N:
            raise _bad(
                name, f"{n_candidates} candidates, and {first} has {N}", "the same candidates in the same order"
            )
    if not ((candidates >= 0.0) & (candidates <= 1.0)).all():
        raise _bad("candidates", "a coordinate outside [0, 1]", "each axis mapped to the unit interval")
    return candidates


def _problem(candidates: NDArray[np.float64], table: ScoreTable, score: Score, *, m: int, n: int) -> Problem:
    """The problem at ε = 1 whose candidates' scores stand in `table`, of m sensitive and n public records."""
    N = len(candidates)
    points = tuple({"candidate": i} for i in range(N))
    encoded = candidates.copy()
    encoded.flags.writeable = False
    return Problem(
        candidates=CandidateSet(SearchSpace({"candidate": Categorical(tuple(range(N)))}), points, encoded),
        n_validation=m,
        score=score,
        model=EstimatorSection(estimator="models.of_a_file"),
        search=SearchSection(),
        epsilon=1.0,
        trainer=TableTrainer({tuple(point.items()): i for i, point in enumerate(points)}, table, n),
    )


def _read_npz(file: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a task by name, from a .npz file; refused where one is missing."""
    try:
        with np.load(file, allow_pickle=False) as archive:
            names = PAIR_ARRAYS if "decision_values" in archive.files else ARRAYS
            arrays = {name: archive[name] for name in names if name in archive.files}
    except FileNotFoundError:
        raise StudyInvalid(f"there is no file {file}", remedy="give the path of a .npz file") from None
    except Exception:  # noqa: BLE001  zip, header, pickle: whatever a file that is no archive of arrays may raise
        raise StudyInvalid(
            f"{file} is no task",
            cause="it cannot be read as NumPy arrays",
            remedy=f"write it with numpy.savez, with the arrays {', '.join(ARRAYS)}",
        ) from None
    for name in names:
        if name not in arrays:
            raise StudyInvalid(
                f"{file} has no array {name!r}",
                cause="a task needs " + ", ".join(names),
                remedy="write it with numpy.savez; docs/evidence/comparison.md says what each is",
            )
    return arrays


def _score_range(array: NDArray[Any]) -> float:
    """The positive number G that the array `score_range` holds; refused where it is none."""
    G = float(_checked("score_range", array.reshape(-1), 1)[0]) if array.size == 1 else 0.0
    if not 1e-100 <= G <= 1e100:
        raise _bad("score_range", "no positive number", "one number G: record scores lie in [0, G]")
    return G


def _scores_in(name: str, array: NDArray[Any], G: float) -> NDArray[np.float64]:
    """The array `name` of scores, one row a record, refused unless they lie in [0, G]."""
    scores = _checked(name, array, 2)
    if len(scores) == 0:
        raise _bad(name, "no rows", "a row a record")
    if scores.min(initial=0.0) < 0.0 or scores.max(initial=0.0) > G * (1.0 + 1e-6):
        raise _bad(name, f"a score outside [0, {G:g}]", "scores in [0, score_range]")
    return scores


def _checked(name: str, array: NDArray[Any], dimensions: int) -> NDArray[np.float64]:
    """The array `name` as finite floats; refused where it is no array of numbers with so many dimensions."""
    if array.ndim != dimensions or array.dtype.kind not in "fiub":
        raise _bad(name, f"shape {array.shape} of {array.dtype}", f"numbers in {dimensions} dimensions")
    numbers = array.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise _bad(name, "a value that is not finite", "finite numbers")
    return numbers


def _bad(name: str, content: str, wanted: str) -> StudyInvalid:
    """The error for the task's array `name`, which has `content` where it should hold `wanted`."""
    return StudyInvalid(f"the task's array {name!r} has {content}", remedy=f"it should hold {wanted}")
