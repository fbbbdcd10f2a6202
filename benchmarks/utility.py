"""The guarantees about utility, checked on the comparison's numbers; exits 1 if one is broken.

    python benchmarks/utility.py [comparison.json]

Without a file it measures afresh: seeds 0 to 99 in every cell, some ten minutes on two cores. T = 20 throughout.
"""

import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.compare.cell_runs import EPSILONS, NOT_PRIVATE, Cell, measured_at, names_of, trained
from benchmarks.compare.rivals import run_on
from benchmarks.compare.tasks import on_table
from dpbo_core.methods.private_trajectory import PrivateTrajectory

REPETITIONS, COVERAGE_RUNS = 100, 1_000
KEPT = Path("mlruns/comparison")
SOBOL = "private_grid, sobol"
PUBLISHED_1, PUBLISHED_3 = "Algorithm 1 as published", "Algorithm 3 as published"
LEAST = 1e-9


def measured(name: str) -> list[Cell]:
    """The results of every method and rival at each of `EPSILONS` on one task, each ε in its own process."""
    trained(name, KEPT)
    workers = min(len(EPSILONS), os.cpu_count() or 1)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        jobs = [pool.submit(measured_at, name, epsilon, REPETITIONS, KEPT) for epsilon in EPSILONS]
        return [cell for job in jobs for cell in job.result()]


def cells_from(words: list[str]) -> list[dict[str, Any]]:
    if words:
        return list(json.loads(Path(words[0]).read_text()))
    return [cell.to_json() for name in names_of(()) for cell in measured(name)]


def by_cell(cells: list[dict[str, Any]]) -> dict[tuple[str, float], dict[str, dict[str, Any]]]:
    found: dict[tuple[str, float], dict[str, dict[str, Any]]] = {}
    for cell in cells:
        found.setdefault((cell["task"], cell["epsilon"]), {})[cell["contender"]] = cell
    return found


def against_hindsight(table: dict[Any, dict[str, dict[str, Any]]]) -> bool:
    """Mean regret of auto against the best private contender, chosen for each cell afterwards."""
    excluded = (NOT_PRIVATE, "auto")
    auto = [here["auto"]["regret"] for here in table.values()]
    best = [
        min(c["regret"] for name, c in here.items() if name not in excluded and c["regret"] is not None)
        for here in table.values()
    ]
    ratio = sum(auto) / max(sum(best), LEAST)
    print(
        f"auto: mean regret {sum(auto) / len(auto):.5f}, the best in hindsight {sum(best) / len(best):.5f}: ",
        end="",
    )
    print(f"{ratio:.2f} ×, guaranteed 1.15 ×")
    return ratio <= 1.15


def against_sobol(table: dict[Any, dict[str, dict[str, Any]]]) -> bool:
    """Auto is never worse than permute-and-flip on Sobol points by more than three standard errors."""
    good = True
    for key, here in table.items():
        auto, sobol = here["auto"], here[SOBOL]
        excess = auto["regret"] - sobol["regret"]
        error = (auto["regret_error"] ** 2 + sobol["regret_error"] ** 2) ** 0.5
        if excess > 3 * error:
            print(f"auto is worse than Sobol points on {key}: by {excess:.5f} ± {error:.5f}")
            good = False
    print("auto is nowhere worse than Sobol points by more than three standard errors" if good else "")
    return good


def against_published(table: dict[Any, dict[str, dict[str, Any]]]) -> bool:
    """10 × where mε ≥ 1,000, 3 × where mε ≥ 100; Algorithm 3 against the error of the score that auto releases."""
    good = True
    for (task, epsilon), here in table.items():
        size = here["auto"]["n_validation"] * epsilon
        wanted = 10.0 if size >= 1_000 else 3.0 if size >= 100 else 0.0
        for name, kind in ((PUBLISHED_1, "regret"), (PUBLISHED_3, "score_error")):
            if name not in here:
                continue
            ratio = here[name][kind] / max(here["auto"][kind], LEAST)
            shown = f"{ratio:.1f} ×" if ratio < 1e6 else "over a million ×"
            verdict = "" if ratio >= wanted else "   BROKEN"
            print(
                f"{task}, ε = {epsilon:g}, mε = {size:,.0f}: {name} loses {shown}, guaranteed {wanted:g} ×{verdict}"
            )
            good &= ratio >= wanted
    return good


def coverage() -> bool:
    """The trajectory's 90% intervals on two tasks; in the comparison's cells all runs share a hundred seeds."""
    good = True
    for name in ("breast_cancer", "digits"):
        problem, table = trained(name, KEPT)
        world, scorer = on_table(replace(problem, epsilon=1.0), table)
        scores = table.sums * world.score_per_step
        outcomes = [run_on(PrivateTrajectory(), world, scorer, seed=seed) for seed in range(COVERAGE_RUNS)]
        held = sum(o.interval[0] <= scores[o.index] <= o.interval[1] for o in outcomes) / COVERAGE_RUNS
        print(f"{name}, ε = 1: intervals at 90% held the true score in {held:.1%} of {COVERAGE_RUNS:,} runs")
        good &= 0.87 <= held <= 0.93
    return good


def main(words: list[str]) -> None:
    table = by_cell(cells_from(words))
    checks = (against_hindsight, against_sobol, against_published)
    kept = [*(check(table) for check in checks), coverage()]
    sys.exit(0 if all(kept) else 1)


if __name__ == "__main__":
    main(sys.argv[1:])
