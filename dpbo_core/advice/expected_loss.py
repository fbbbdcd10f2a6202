"""What a method may be expected to lose, looked up in a table that was simulated on synthetic score functions.

| symbol | name here | meaning | shape |
|---|---|---|---|
| d | `dimensions` | coordinates of the unit cube | scalar |
| n | `trainings` | candidates that are trained and scored | scalar |
| m̃ | `records` | records that give this noise at ε = 1, k = 1, δ = 1e-6, the usual shares | scalar |
| r, e | `regret`, `score_error` | mean loss of the choice, mean error of the released score; G = 1 | scalars |

The table is benchmarks/advice_calibration.py's. Between its nodes log r and log e are linear in log d, log n and
log m̃; beyond them the nearest node speaks, except that e keeps falling as 1/m̃.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dpbo_core.advice.expected_loss_table import RECORDS, ROWS
from dpbo_core.methods import AnyMethod
from dpbo_core.methods.contract import Advised
from dpbo_core.models.aggregates.pair_count import PairCount
from dpbo_core.problem import Problem

LEAST = 1e-5  # what five digits of the table can tell from 0

Node = tuple[int, int, int]


@dataclass(frozen=True)
class Expected:
    """Mean loss of the choice and mean error of the released score, in units of the score."""

    regret: float
    score_error: float


def expected(method: AnyMethod, problem: Problem) -> Expected | None:
    """What the simulation says of `method` on this problem, from public facts; None for an uncalibrated method.

    Raises:
        StudyInvalid: the method cannot run on this problem.
    """
    if not isinstance(method, Advised):
        return None
    G, d = problem.score_range, max(1, problem.candidates.encoded.shape[1])
    n, at = method.n_steps(problem), method.simulated(problem)
    table = _table(at.form)
    regret = _interpolated({node: values[0] for node, values in table.items()}, d, n, at.chosen_by)
    error = _interpolated({node: values[1] for node, values in table.items()}, d, n, at.said_by)
    beyond = min(1.0, RECORDS[-1] / at.said_by)
    if isinstance(problem.aggregate, PairCount):  # rare positives are as few records as the table does not know
        beyond = max(beyond, min(RECORDS[0] / at.said_by, 1.0 / error))
    return Expected(G * regret, G * error * beyond)


def _table(form: str) -> dict[Node, tuple[float, float]]:
    return {
        (row.dimensions, row.trainings, records): (row.regret[i], row.score_error[i])
        for row in ROWS
        if row.form == form
        for i, records in enumerate(RECORDS)
    }


def _interpolated(table: dict[Node, float], *at: float) -> float:
    """Linear in the logarithms, axis after axis; clamped to the nodes."""
    total = 0.0
    for corner, weight in _corners([sorted({node[axis] for node in table}) for axis in range(3)], at):
        total += weight * math.log(max(table[corner], LEAST))
    return math.exp(total)


def _corners(axes: list[list[int]], at: Sequence[float]) -> list[tuple[Node, float]]:
    corners: list[tuple[tuple[int, ...], float]] = [((), 1.0)]
    for nodes, x in zip(axes, at, strict=True):
        x = min(max(x, nodes[0]), nodes[-1])
        above = next(i for i, node in enumerate(nodes) if node >= x)
        below = max(0, above - 1)
        t = 0.0 if above == below else math.log(x / nodes[below]) / math.log(nodes[above] / nodes[below])
        sides = [(nodes[below], 1.0 - t), (nodes[above], t)] if above != below else [(nodes[above], 1.0)]
        corners = [((*corner, node), weight * share) for corner, weight in corners for node, share in sides]
    return [((corner[0], corner[1], corner[2]), weight) for corner, weight in corners if weight > 0.0]
