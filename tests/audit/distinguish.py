"""Telling neighbours apart: every method whole, with its real noise, many times on V and on V′.

| symbol | name here | meaning |
|---|---|---|
| n | `repetitions` | runs on each of V and V′ |
| S | `Event` | a set of releases, chosen on the first half of the runs |
| p, p′ | — | Pr[release ∈ S] on V and on V′, bounded by Clopper and Pearson on the second half |
| ε̂ | `lower_bound` | log((p_low − δ)/p′_high): the promise is false if it is above ε |

Each bound is one-sided at 1 − 0.0005, so one honest case is accused with probability at most 0.001. The pairs are
as far apart as one record can move the queries, so that a fault has nowhere to hide.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import faults
import numpy as np
from numpy.typing import NDArray
from worlds import Memory, Table, problem

from dpbo_core.mechanisms.noise import Noise, OperatingSystemNoise
from dpbo_core.methods.contract import Method
from dpbo_core.methods.exact_gp import ExactGP
from dpbo_core.methods.lipschitz import Lipschitz
from dpbo_core.methods.noisy_gp import NoisyGP
from dpbo_core.methods.private_grid import PrivateGrid
from dpbo_core.methods.private_trajectory import PrivateTrajectory
from dpbo_core.models.linear import LinearModel
from dpbo_core.problem import Problem
from dpbo_core.space.candidates import grid
from dpbo_core.space.search_space import Real, SearchSpace

LEVEL = 0.0005
EPSILON = 1.0
Rows = NDArray[np.float64]


class Steep:
    """Linear models of one feature with w = 1/λ: what a single training row e₁ gives under the hinge loss."""

    def train(self, point: Mapping[str, Any]) -> LinearModel:
        return LinearModel(np.array([1.0 / point["lambda"]]), point["lambda"], 0.0)


@dataclass(frozen=True)
class Case:
    """A method, a problem and two neighbouring tables of scores."""

    name: str
    method: Method
    problem: Problem
    low: Table
    high: Table
    planned_on: Problem | None = None  # where the plan needs models that the table's do not give

    def releases(self, table: Table, n: int) -> Iterator[Any]:
        """`n` independent runs on one side."""
        plan = self.method.plan(self.planned_on or self.problem)
        for _ in range(n):
            search = self.method.start(self.planned_on or self.problem, plan)
            search._problem = self.problem
            noise = Noise(OperatingSystemNoise(), Memory())
            for _ in range(self.method.n_steps(self.problem)):
                search.step(table, noise)
            released = search.finish(noise)
            yield getattr(released, "value", released)

    def rows(self, table: Table, n: int) -> Rows:
        """The releases as numbers, (n, p)."""
        points = [point["lambda"] for point in self.problem.candidates.points]
        return np.array([_numbers(value, points) for value in self.releases(table, n)])


def _numbers(value: Any, points: list[float]) -> list[float]:
    """A release as a row: which candidate, the score, each step's candidate and score; or that it was none."""
    if not isinstance(value, Mapping):
        return [*_one_hot(int(str(value)[-1]), len(points)), 0.0, 1.0]
    row = []
    if "hyperparameters" in value:
        row += _one_hot(points.index(value["hyperparameters"]["lambda"]), len(points))
    row += [value["score"], 0.0]
    for step in value.get("trajectory", ()):
        row += [*_one_hot(points.index(step["hyperparameters"]["lambda"]), len(points)), step["score"]]
    return row


def _one_hot(place: int, n: int) -> list[float]:
    return [float(i == place) for i in range(n)]


def lower_bound(low: Rows, high: Rows, *, delta: float) -> float:
    """ε̂ from releases on V and V′, (n, p) each: the event from the first halves, the bound from the second."""
    half = len(low) // 2
    event = _best_event(low[:half], high[:half], delta)
    hits = int(event(low[half:]).sum()), int(event(high[half:]).sum())
    n = len(low) - half
    return max(_epsilon(hits, n, delta), _epsilon(hits[::-1], n, delta)) if half else 0.0


def _best_event(low: Rows, high: Rows, delta: float) -> Callable[[Rows], NDArray[np.bool_]]:
    """The half-space {s(x) > t} or {s(x) ≤ t}, s from a logistic regression or one coordinate, of the largest ε̂."""
    best, chosen = -math.inf, None
    for score in _statistics(low, high):
        a, b = score(low), score(high)
        values = np.concatenate([a, b])
        for t in np.unique(np.quantile(values, np.linspace(0.002, 0.998, 250))):
            for above in (True, False):
                hits = (int(((a > t) == above).sum()), int(((b > t) == above).sum()))
                for one, other in (hits, hits[::-1]):
                    found = _epsilon((one, other), len(a), delta)
                    if found > best:
                        best, chosen = found, (score, float(t), above)
    score, t, above = chosen
    return lambda rows: (score(rows) > t) == above


def _statistics(low: Rows, high: Rows) -> Iterator[Callable[[Rows], Rows]]:
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    scale = StandardScaler().fit(np.concatenate([low, high]))
    labels = np.repeat([0, 1], [len(low), len(high)])
    fitted = LogisticRegression(C=0.1, max_iter=500).fit(scale.transform(np.concatenate([low, high])), labels)
    yield lambda rows: fitted.decision_function(scale.transform(rows))
    for column in range(min(low.shape[1], 4)):
        yield lambda rows, column=column: rows[:, column]


def _epsilon(hits: tuple[int, int], n: int, delta: float) -> float:
    """log((p_low − δ)/p′_high) by Clopper and Pearson, one-sided at LEVEL each."""
    from scipy.special import betaincinv

    one, other = hits
    low = float(betaincinv(one, n - one + 1, LEVEL)) if one else 0.0
    high = float(betaincinv(other + 1, n - other, 1.0 - LEVEL)) if other < n else 1.0
    return math.log((low - delta) / high) if low > delta else -math.inf


def world(*, m: int, n_candidates: int = 2, steps: int = 2, delta: float = 1e-6, **wanted: Any) -> Problem:
    return problem(n_candidates=n_candidates, n_validation=m, epsilon=EPSILON, delta=delta, steps=steps, **wanted)


def apart(world: Problem, *, crossed: bool = False) -> tuple[Table, Table]:
    """One record's scores go from 0 to 1 at every candidate; crossed, from 1 to 0 at the second."""
    low = np.full((len(world.candidates), world.n_validation), 0.5)
    high = low.copy()
    low[:, -1], high[:, -1] = 0.0, 1.0
    if crossed:
        low[1, -1], high[1, -1] = 1.0, 0.0
    return Table(low), Table(high)


def margin_case(name: str, method: Method, low: float, high: float) -> Case:
    """Scores φ(±w) of one record, at models w = 1/λ on [low, high]: what Algorithm 3 may meet."""
    candidates = grid(SearchSpace({"lambda": Real(low, high)}), {"lambda": 2})
    told = replace(world(m=1), candidates=candidates)
    asked = replace(told, trainer=type(told.trainer)([point["lambda"] for point in candidates.points]))
    weights = np.array([[1.0 / point["lambda"]] for point in candidates.points])
    tables = Table(told.score.phi(-weights)), Table(told.score.phi(weights))
    return Case(name, method, asked, *tables, planned_on=replace(told, trainer=Steep()))


def honest() -> dict[str, tuple[Case, ...]]:
    """By kind, so that a method nobody thought of here fails."""
    four, one, long = world(m=4), world(m=1), world(m=4, steps=8, delta=0.01)
    asserted = ExactGP(rate_constant=1e3, decay_constant=0.01)
    return {
        "private_grid": (Case("choice and score", PrivateGrid(), four, *apart(four, crossed=True)),),
        "private_trajectory": (
            Case("eight steps", PrivateTrajectory(), long, *apart(long)),
            Case("with a final choice", PrivateTrajectory(final_share=0.5), long, *apart(long, crossed=True)),
        ),
        "lipschitz": (margin_case("trained bounds", Lipschitz(sensitivity="trained"), 9.99, 10.0),),
        "noisy_gp": (Case("capped", NoisyGP(), one, *apart(one)),),
        "exact_gp": (Case("capped", asserted, one, *apart(one)),),
    }


def planted() -> tuple[Case, ...]:
    """Faults that must be caught: their measured ε is above the promise."""
    four, long = world(m=4), world(m=4, steps=8, delta=0.01)
    crossed = apart(four, crossed=True)
    return (
        Case("half the noise", faults.HalfSensitivity(), four, *crossed),
        Case("sensitivity of a mean on a sum", faults.MeanForSum(), four, *crossed),
        Case("the whole budget at each step", faults.WholeBudgetEachStep(), long, *apart(long)),
        Case("no noise where the winner is clear", faults.ChoosesTheClear(), four, *crossed),
        margin_case("Theorem 7 as printed", Lipschitz(calibration="published"), 9.99, 10.0),
    )


@dataclass(frozen=True)
class Row:
    """One case: the runs on each side, the promise, and the largest ε that the releases prove."""

    method: str
    name: str
    repetitions: int
    epsilon: float
    delta: float
    proved: float

    @property
    def broken(self) -> bool:
        return self.proved > self.epsilon


def measure(case: Case, repetitions: int) -> Row:
    """Run both sides and compare."""
    delta = case.method.plan(case.planned_on or case.problem).guarantee.delta
    with no_pause():
        rows = [case.rows(table, repetitions) for table in (case.low, case.high)]
    proved = lower_bound(*rows, delta=delta)
    return Row(case.method.kind, case.name, repetitions, EPSILON, delta, proved)


@contextmanager
def no_pause() -> Iterator[None]:
    """A selection's pause hides its time, which nobody measures here."""
    with patch("dpbo_core.mechanisms.exponential.time.sleep", lambda seconds: None):
        yield


def selection_rows(p: float, n: int, *, revealed: bool) -> Rows:
    """DP-HyPO's real loop over randomised response, Pr[a trial says 1] = p; with its trials' number if revealed."""
    from test_dp_hypo import run_two_point

    told = problem(n_candidates=1, steps=8, epsilon=3 * EPSILON)
    outcomes = run_two_point(p, n, told)
    return np.array([[best, (1 - best) * trials if revealed else 0] for best, trials in outcomes], dtype=float)


def measure_selection(repetitions: int, *, revealed: bool = False) -> Row:
    """Base ε = 1, so the whole promises 3 (η = 1)."""
    q = 1.0 / (1.0 + math.exp(EPSILON))
    proved = lower_bound(*(selection_rows(x, repetitions, revealed=revealed) for x in (q, 1.0 - q)), delta=0.0)
    return Row("dp_hypo", "K revealed" if revealed else "the best trial", repetitions, 3 * EPSILON, 0.0, proved)


def measure_table(repetitions: int, *, share: float = 1.0) -> Row:
    """The outsourced table's noise on a row and on its opposite; `share` of it is planted."""
    from dpbo_core.data.table import table_of
    from dpbo_core.methods.outsourced.box import Outsourced
    from dpbo_core.methods.outsourced.rows import image
    from dpbo_core.privacy.sensitive import Sensitive

    box = Outsourced(EPSILON, 1e-5, norm_bound=2.0)
    mechanism, geometry = box.mechanism(repetitions, 2), box.geometry(2)
    sides = []
    for end in (1.0, -1.0):
        row = image(table_of({"a": [1.2 * end], "b": [1.6 * end]}), geometry).expose()[0]
        drawn = mechanism.prepare(mechanism.spend("table"), OperatingSystemNoise())
        noise = drawn(Sensitive(np.zeros(mechanism.shape, np.int64)))
        sides.append(row.astype(float) + share * noise)
    name = "a row and its opposite" if share == 1.0 else f"{share:.0%} of the noise"
    return Row("outsourced", name, repetitions, EPSILON, 1e-5, lower_bound(*sides, delta=1e-5))


REPETITIONS = {"private_grid": 4_000, "private_trajectory": 1_500, "lipschitz": 3_000}  # others 2,000


def measured(job: tuple[str, str], share: float = 1.0) -> Row:
    """One row of the audit, by its name in `jobs`."""
    kind, name = job
    if kind == "dp_hypo":
        return measure_selection(round(40_000 * share), revealed=name == "planted")
    if kind == "outsourced":
        return measure_table(round(50_000 * share), share=0.25 if name == "planted" else 1.0)
    cases = planted() if kind == "planted" else honest()[kind]
    case = next(case for case in cases if case.name == name)
    runs = 4_000 if kind == "planted" else REPETITIONS.get(case.method.kind, 2_000)
    return measure(case, round(runs * share))


def jobs(*, faulty: bool) -> list[tuple[str, str]]:
    """Every method and exchange, or every planted fault."""
    parties = ("dp_hypo", "outsourced")
    if faulty:
        return [*(("planted", case.name) for case in planted()), *((kind, "planted") for kind in parties)]
    told = [(kind, case.name) for kind, cases in honest().items() for case in cases]
    return [*told, *((kind, "honest") for kind in parties)]
