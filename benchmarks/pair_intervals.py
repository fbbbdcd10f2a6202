"""How often the interval of an AUC by pairs holds it, by the share of positives, where the public set misleads.

    python -m benchmarks.pair_intervals        writes the second table of docs/tables/intervals.txt

Each row is 4,000 releases of 3,000 records with one AUC, 0.5746, where the public one is 0.88. Noise is drawn by
the mechanisms' own laws at the scale of the method's plan; whether a score is stated, and its interval, are the
product's own functions. Of a path without a look and of scores for a loop the largest draw is chosen, and every
candidate has the same AUC: no choice by noise is worse.
"""

from pathlib import Path

import numpy as np

from dpbo_core.mechanisms.gaussian import DiscreteGaussian
from dpbo_core.methods.pair_bounds import NoiseTail, auc_interval, bounds_of_count, bounds_of_pairs
from dpbo_core.methods.private_grid import PrivateGrid
from dpbo_core.methods.private_trajectory import PrivateTrajectory
from dpbo_core.methods.public import Public
from dpbo_core.privacy.certified import QUERIES
from dpbo_core.privacy.named_parts import load
from dpbo_core.privacy.release import ALL_PAIRS
from dpbo_core.study import StudySpec
from dpbo_core.study.resolve import planning_problem

TABLE = Path(__file__).parents[1] / "docs" / "tables" / "intervals.txt"
RELEASES, M, AUC, BESIDE = 4000, 3000, 0.5746, 0.88
SHARES = (0.0, 0.001, 0.01, 0.05, 0.2, 0.5, 0.8, 0.99, 1.0)
EPSILONS = (0.5, 1.0, 4.0)
STEPS = 20
HEADER = "| share | ε | method | stated | held, of all | held, of those stated |\n|---|---|---|---|---|---|\n"


def problem_of(epsilon, m=M):
    """A study's problem by AUC, as it is planned."""
    return planning_problem(
        StudySpec.from_dict(
            {
                "study": {"name": "pairs", "method": "private_grid"},
                "privacy": {"dataset": "d", "epsilon": epsilon, "delta": 1e-6},
                "budget": {"epsilon": 100.0, "delta": 1e-3},
                "data": {"training": "t.csv", "validation": "v.csv", "n_validation": m, "target": "y"},
                "model": {"estimator": "logistic", "score": "roc_auc"},
                "space": {"lambda": {"low": 1e-4, "high": 1.0, "log": True, "points": STEPS}},
                "search": {"steps": STEPS},
            }
        )
    )


def methods_of(problem):
    """By name: the mechanisms of the number of pairs and of the score, and from how many draws that is chosen."""
    looked, none = PrivateTrajectory(), PrivateTrajectory(look_share=0.0)
    n_scores = {"private_grid": 1, "public": 1, "private_trajectory": 1}
    draws = {
        "private_grid": PrivateGrid().draws(problem),
        "public": Public().draws(problem),
        "private_trajectory": looked.draws(problem),
        "private_trajectory, no look": none.draws(problem),
    }
    if "objective" in QUERIES:
        price = load("dpbo.features.objective.price:ObjectivePrice")(problem, STEPS)
        draws["a private objective's best"] = price.draws()
    for name, drawn in draws.items():
        made = {spend.what: mechanism for spend, mechanism in drawn}
        yield name, made.pop(ALL_PAIRS), [*made.values()][-1], n_scores.get(name, STEPS)


def noise(rng, mechanism, shape):
    """Noise of the mechanism's own law, in whole steps."""
    if isinstance(mechanism, DiscreteGaussian):
        return np.rint(rng.normal(scale=mechanism.scale, size=shape))
    p = -np.expm1(-1.0 / mechanism.scale)
    return (rng.geometric(p, shape) - rng.geometric(p, shape)).astype(np.float64)


def simulated(rng, problem, number, score, of_draws, *, share, auc=AUC, beside=BESIDE, releases=RELEASES):
    """Whether each release states an AUC, and whether its interval holds it: two arrays of bool."""
    m = problem.n_validation
    P = round(share * m)
    D = 2 * P * (m - P)
    C2 = round(auc * D)
    drawn = D + noise(rng, number, releases)
    count = C2 - np.floor(beside * D) + noise(rng, score, (releases, of_draws)).max(axis=1)
    stated, *pairs = bounds_of_pairs(drawn, NoiseTail.of(number), problem.range_steps)
    low, high = auc_interval(bounds_of_count(count, NoiseTail.of(score), of_draws), pairs, beside)
    exact = C2 / D if D else np.nan
    return stated, (low <= exact) & (exact <= high)


def rows():
    rng = np.random.default_rng(56)
    for epsilon in EPSILONS:
        problem = problem_of(epsilon)
        for name, number, score, of_draws in methods_of(problem):
            for share in SHARES:
                stated, held = simulated(rng, problem, number, score, of_draws, share=share)
                among = f"{held[stated].mean():.3f}" if stated.sum() >= 20 else "–"
                yield share, epsilon, name, f"{stated.mean():.4f}", f"{(held | ~stated).mean():.4f}", among


def main():
    first = TABLE.read_text().partition("\n\n")[0].rstrip("\n")
    lines = "".join("| " + " | ".join(map(str, row)) + " |\n" for row in rows())
    TABLE.write_text(f"{first}\n\n{HEADER}{lines}")


if __name__ == "__main__":
    main()
