"""Optuna's TPE on a private objective beside `auto`, on kinds of tasks that no default was chosen by.

    python -m benchmarks.held_back_tasks FOLDER 20261126 6     the tasks, three splits of each
    python -m benchmarks.own_search FOLDER [REPETITIONS]       a line a task and ε
    python -m benchmarks.own_search digits [REPETITIONS]       beside permute-and-flip over the list, ε = 1

| symbol | name here | meaning |
|---|---|---|
| n | `SCORES` | scores that the objective pays for, and trials of TPE |
| f* − f | regret | what the choice loses to the best of all candidates, on the records that play sensitive |

TPE searches the unit cube and is answered at the nearest candidate; one that came again is the recorded score. The
choice is by the posterior mean (`best()`) and, to compare, by the largest noisy score (Optuna's own `best_trial`).
`auto` may train all candidates and reads the public scores, which TPE does not.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.compare.cell_runs import METHODS_COMPARED, auto_of, run_of
from benchmarks.compare.own_task import read_task
from benchmarks.compare.tasks import digits, on_table
from dpbo.features.objective.price import ObjectivePrice
from dpbo.features.objective.smoothed_choice import smoothed
from dpbo_core.methods.problem import Problem

SCORES, EPSILONS, REPETITIONS = 20, (0.3, 1.0, 4.0), 40
RULES = ("best()", "best_trial")


def tpe(problem: Problem, sums: NDArray[np.int64], seed: int) -> tuple[int, int]:
    """The candidates chosen after one search: by the posterior mean, and by the largest noisy score."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    rng, cube = np.random.default_rng((39, seed)), problem.candidates.encoded
    mechanisms, drawn = iter(ObjectivePrice(problem, SCORES).scores()), {}
    scale = ObjectivePrice(problem, SCORES).scores()[0].scale

    def score(trial: Any) -> float:
        point = np.array([trial.suggest_float(f"x{axis}", 0.0, 1.0) for axis in range(cube.shape[1])])
        index = int(np.argmin(((cube - point) ** 2).sum(axis=1)))
        if index not in drawn:
            noise = rng.normal(scale=next(mechanisms).scale)
            drawn[index] = (sums[index] + noise) * problem.score_per_step
        return drawn[index]

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    study.optimize(score, n_trials=SCORES)
    asked, scores = list(drawn), list(drawn.values())
    points = [{f"x{axis}": float(x) for axis, x in enumerate(cube[index])} for index in asked]
    mean = smoothed(points, scores, deviation=scale * problem.score_per_step, score_range=problem.score_range).mean
    return asked[int(np.argmax(mean))], asked[int(np.argmax(scores))]


def line(file: Path, epsilon: float, repetitions: int) -> str:
    """The mean regret of each, and its standard error."""
    problem, table = read_task(file)
    world, scorer = on_table(replace(problem, epsilon=epsilon), table)
    exact = table.sums * world.score_per_step
    chosen = np.array([tpe(world, table.sums, seed) for seed in range(repetitions)])
    advised = auto_of(world)
    auto = run_of(dict(METHODS_COMPARED)[advised], world, scorer) if advised else None
    picks = {"auto": [auto(seed).index for seed in range(repetitions)] if auto else []}
    picks |= {rule: chosen[:, place].tolist() for place, rule in enumerate(RULES)}
    words = [f"{file.stem:20} {epsilon:4g}"]
    for rule, indices in picks.items():
        lost = [float(exact.max() - exact[i]) for i in indices if i is not None]
        error = np.std(lost, ddof=1) / np.sqrt(len(lost)) if len(lost) > 1 else np.nan
        words.append(f"{rule} {np.mean(lost) if lost else np.nan:.4f} ± {error:.4f}")
    return "   ".join([*words, f"({advised})"])


def list_line(repetitions: int) -> str:
    """Mean regret and standard error on digits, 256 settings: TPE's 20 scores, and a choice among all at no score.

    Permute-and-flip is the largest of exact sums with exponential noise of scale 2Δ/ε (Ding et al., 2021).
    """
    problem, records = digits()
    problem = replace(problem, epsilon=1.0, delta=1e-6)
    N, scale = len(problem.candidates), 2.0 * problem.record_steps / problem.epsilon
    sums = np.array([int(problem.train(i).steps(records, problem.score).sum()) for i in range(N)])
    lost = (sums.max() - sums) * problem.score_per_step
    picks = [
        (*tpe(problem, sums, seed), int(np.argmax(sums + np.random.default_rng((40, seed)).exponential(scale, N))))
        for seed in range(repetitions)
    ]
    means, errors = lost[picks].mean(axis=0), lost[picks].std(axis=0, ddof=1) / np.sqrt(repetitions)
    columns = zip((*RULES, f"permute-and-flip over {N}"), means, errors, strict=True)
    return "   ".join(f"{rule} {mean:.4f} ± {error:.4f}" for rule, mean, error in columns)


def main(folder: Path, repetitions: int) -> None:
    for file in sorted(folder.glob("*.npz")):
        for epsilon in EPSILONS:
            print(line(file, epsilon, repetitions), flush=True)


if __name__ == "__main__":
    repetitions = int(sys.argv[2]) if len(sys.argv) > 2 else REPETITIONS
    if sys.argv[1] == "digits":
        print(list_line(repetitions))
    else:
        main(Path(sys.argv[1]), repetitions)
