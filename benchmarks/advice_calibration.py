"""What each method loses on synthetic landscapes: the table behind `dpbo plan` and method = "auto".

    python benchmarks/advice_calibration.py [landscapes]     the table, and its page
    python benchmarks/advice_calibration.py --page           the page alone, from the table that is there

Landscapes of 256 candidates in d dimensions: the logistic function of a Matérn draw, with random height,
amplitude and lengthscale, so that some are flat, some steep, and some have a plateau near the top. Half of them
are smooth (Matérn-5/2, what the search believes in), half rough (Matérn-1/2), and each coordinate is warped by
a random power, so that a lengthscale that fits one end does not fit the other. The public score is that of
another sample of n records: a smooth difference of half a standard error (candidates are scored on the same
records, so that half of the error is shared). It is of the same population (alike), of one whose landscape is off
by half of its own amplitude (apart), or by one and a half of it (misleading).
Methods run as they are, on the table of scores, at ε = 1; the validation set's size sets the noise; trajectories
and shortlists, which are slow, on three landscapes in ten. The outcome replaces
dpbo_core/methods/expected_loss.csv, its losses in units of 1e-5 of the score's range, and is printed in
docs/tables/calibration.txt.
"""

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.compare.rivals import run_on
from benchmarks.compare.tasks import ScoreTable, on_table
from dpbo_core.methods.expected_loss import (
    AGREEMENT_DEGREES,
    TABLE_FILE,
    TABLE_RECORDS,
    UNITS_PER_RANGE,
    rows,
)
from dpbo_core.methods.private_grid import SIMULATED_SHARE, PrivateGrid
from dpbo_core.methods.private_trajectory import PrivateTrajectory
from dpbo_core.methods.problem import Problem
from dpbo_core.methods.public import Public
from dpbo_core.models.integer_sums import GRID
from dpbo_core.models.scores.accuracy import Accuracy
from dpbo_core.search.gp import Matern52
from dpbo_core.search.search_space import Real, SearchSpace, sobol
from dpbo_core.study import EstimatorSection, SearchSection

N, SIZES = 256, (16, 64, 256, 1_024)  # SIZES: of Λ, where all of it is scored
UNSHARED, USUAL = 0.5, 500
OFF_BY = dict(zip(AGREEMENT_DEGREES, (0.0, 0.5, 1.5), strict=True))  # of its own amplitude
ROUGH, WARPED = 1 / 2, 0.5
DIMENSIONS, STEPS = (1, 2, 4), (10, 20, 40)
PUBLIC = (50, 500, 5_000)
FEW = 0.3  # share of the landscapes where a run is slow
ALL = PrivateGrid(score_share=SIMULATED_SHARE)
SOBOL, SHORTLIST = replace(ALL, evaluate="sobol"), replace(ALL, evaluate="public_shortlist")
BASE = replace(ALL, evaluate="tried", base_measure="public")
FLAT, PRIOR = PrivateTrajectory(), PrivateTrajectory(prior="public")
ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "tables" / "calibration.txt"


@dataclass(frozen=True)
class Known:
    n_records: int


def problem(d: int, steps: int, m: int, n: int = N, public: int = USUAL) -> Problem:
    candidates = sobol(SearchSpace({f"x{i}": Real(0.0, 1.0) for i in range(d)}), n, seed=0)
    return Problem(
        candidates=candidates,
        n_validation=m,
        score=Accuracy(),
        model=EstimatorSection(estimator="sklearn.svm.SVC"),
        search=SearchSection(steps=steps),
        epsilon=1.0,
        trainer=Known(public),  # type: ignore[arg-type]
    )


def landscape(d: int, encoded: Any, rng: Any, public: int, degree: str) -> tuple[Any, Any]:
    """(score, public score), both (N,); the score is the same whatever the public half is."""
    length = 0.3 * np.sqrt(d) * np.exp(0.5 * rng.normal())
    warped = encoded ** np.exp(WARPED * rng.normal(size=d))
    covariance = matern_half(warped, length) if rng.random() < ROUGH else Matern52(length).matrix(warped, warped)
    L = np.linalg.cholesky(covariance + 1e-9 * np.eye(len(encoded)))
    height, amplitude = rng.uniform(0.0, 2.0), 0.6 * np.exp(0.8 * rng.normal())
    logit = height + amplitude * (L @ rng.normal(size=len(encoded)))
    score = 1.0 / (1.0 + np.exp(-logit))
    elsewhere = 1.0 / (1.0 + np.exp(-(logit + OFF_BY[degree] * amplitude * (L @ rng.normal(size=len(encoded))))))
    error = UNSHARED * np.sqrt(elsewhere * (1.0 - elsewhere) / public)
    return score, np.clip(elsewhere + error * (L @ rng.normal(size=len(encoded))), 0.0, 1.0)


def matern_half(X: Any, length: float) -> Any:
    """exp(−|x − x'|/ℓ), (N, N)."""
    return np.exp(-np.linalg.norm(X[:, None] - X[None], axis=2) / length)


def row(
    form: str, method: Any, d: int, steps: int, count: int, n: int = N, public: int = 0, degree: str = ""
) -> str:
    """One row of the table: a form, its size, its public half, and its losses by number of records."""
    said = public or USUAL
    bases = [problem(d, steps, m, n, said) for m in TABLE_RECORDS]
    landscapes = drawn(bases[0], count, said, degree or "alike")
    regret, error = [], []
    for base in bases:
        m, regrets, errors = base.n_validation, [], []
        for i, (score, known) in enumerate(landscapes):
            table = ScoreTable(np.rint(score * m * GRID).astype(np.int64), known)
            found = run_on(method, *on_table(base, table), seed=i)
            regrets.append(float(score.max() - score[found.index]))
            errors.append(abs(found.score - float(score[found.index])))
        regret.append(round(float(np.mean(regrets)) * UNITS_PER_RANGE))
        error.append(round(float(np.mean(errors)) * UNITS_PER_RANGE))
    text = ",".join(map(str, (form, d, method.n_steps(bases[0]), public, degree, *regret, *error)))
    print(text, flush=True)
    return text


def rows_in(d: int, count: int) -> list[str]:
    """Every row in d dimensions."""
    few = max(2, round(FEW * count))
    rows = [row("private_grid/all", ALL, d, 10, count, n) for n in SIZES]
    rows += [row("private_grid/sobol", SOBOL, d, T, count) for T in STEPS]
    for public, degree in product(PUBLIC, AGREEMENT_DEGREES):
        rows.append(row("public", Public(), d, 20, count, N, public, degree))
        rows += [row("private_grid/base_measure", BASE, d, 20, count, n, public, degree) for n in SIZES[:3]]
    for T in STEPS:
        for degree in AGREEMENT_DEGREES:
            rows.append(row("private_grid/public_shortlist", SHORTLIST, d, T, few, N, USUAL, degree))
            rows.append(row("private_trajectory/public", PRIOR, d, T, few, N, USUAL, degree))
        rows.append(row("private_trajectory/flat", FLAT, d, T, few))
    return rows


def drawn(base: Problem, count: int, public: int, degree: str) -> list[tuple[Any, Any]]:
    encoded = base.candidates.encoded
    d = encoded.shape[1]
    return [landscape(d, encoded, np.random.default_rng((d, i)), public, degree) for i in range(count)]


def main(count: int) -> None:
    workers = int(os.environ.get("PROCESSES", "2"))
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        jobs = [pool.submit(rows_in, d, count) for d in DIMENSIONS]
        lines = [text for job in jobs for text in job.result()]
    losses = (f"{letter}{m}" for letter in "re" for m in TABLE_RECORDS)
    header = ",".join(("form", "dimensions", "trainings", "public", "degree", *losses))
    TABLE_FILE.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")


def page() -> str:
    """docs/tables/calibration.txt: what each form loses at each size, and what is simulated."""
    head = (
        "| form | trainings | public set | "
        + " | ".join(f"m = {m:,}" for m in TABLE_RECORDS)
        + " |\n"
        + "|---" * 9
        + "|"
    )
    parts = []
    for d in DIMENSIONS:
        in_d = [row for row in rows() if row.dimensions == d]
        lines = [
            f"| {row.form} | {row.trainings} | {f'{row.public:,}, {row.degree}' if row.degree else '–'} | "
            + " | ".join(f"{r:.4f}, {e:.4f}" for r, e in zip(row.regret, row.score_error, strict=True))
            + " |"
            for row in in_d
        ]
        parts.append(f"## {d} dimension{'s' if d > 1 else ''}\n\n{head}\n" + "\n".join(lines))
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    if "--page" not in sys.argv:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
    PAGE.write_text(page(), encoding="utf-8")
