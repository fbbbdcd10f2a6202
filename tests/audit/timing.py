"""What the duration of a step tells: its correlation with the step's private quantities, measured.

Each step scores another validation set (labels flipped at a random rate), so that scores vary at one and the same
model, and from one step to the next: the machine's speed drifts, and must not be taken for a score. A step's number
is public and moves both its duration (the search grows) and its λ, so the mean of all steps of that number is taken
out first. Scores are then compared within a candidate, by their ranks after its own mean is taken out. Which
candidate a step asks about is public, but in the methods whose path is private; there it is compared too.
"""

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats
from worlds import Memory, plain

from dpbo_core.mechanisms.noise import Noise, OperatingSystemNoise
from dpbo_core.methods import METHODS
from dpbo_core.methods.lipschitz import Lipschitz
from dpbo_core.models.scoring.in_memory import Objective
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.study import StudySpec, data_split


@dataclass(frozen=True)
class Correlation:
    """Spearman's rank correlation of a step's duration with a private quantity."""

    method: str
    quantity: str
    steps: int
    rho: float
    p_value: float


def measure(spec: StudySpec, runs: int) -> list[Correlation]:
    """The correlations of every method over `runs` runs on the bundled study."""
    public = data_split.public_half(spec, ".")
    problem = replace(public.problem, search=public.problem.search.replace(steps=10))
    for i in range(len(problem.candidates)):
        problem.train(i)  # trained models are kept, so that a step's time is its scoring, its noise and its search
    records = data_split.validation_table(spec.data, ".")
    encoded, rng = public.preprocessing.transform(records), np.random.default_rng(0)
    found = []
    # a step that hides how many trials it holds lasts as long as they do: the threat model says so
    measured = {kind: plain(kind) for kind, cls in METHODS.items() if not cls.hides_evaluations}
    for kind, method in (measured | {"lipschitz, a path": Lipschitz(evaluate="path")}).items():
        seen = _Seen()
        durations, scored_in, noises = [], [], []
        for _ in range(runs):
            noise = Noise(OperatingSystemNoise(), Memory())
            noise.prepare_draws(method.draws(problem))
            search = method.start(problem, method.plan(problem))
            for step in range(method.n_steps(problem)):
                flip = rng.random(encoded.n_records) < rng.uniform(0.0, 0.5)
                labels = np.where(flip, 1 - encoded.labels, encoded.labels)
                seen.honest = Objective(Sensitive(replace(encoded, labels=labels)), problem.score)
                seen.begin()
                begun = time.perf_counter()
                released = search.step(seen, noise)
                taken = time.perf_counter() - begun
                if not seen.first:  # a step that scored nothing has nothing private to tell
                    durations.append(taken)
                    scored_in.append(step)
                if released is not None:
                    noises.append(abs(released["score"] - seen.scores[-1] * problem.score_per_step))
        models, steps = np.array(seen.models), np.array(scored_in)
        taken = _within(np.array(durations), steps)
        scores = _within(_within(np.array(seen.scores, dtype=float), steps), models)
        found.append(_correlation(kind, "exact score", _within(taken, models), scores))
        if noises:
            found.append(_correlation(kind, "size of the noise", _within(taken, models), np.array(noises)))
        if not method.public_path:
            found.append(_correlation(kind, "λ", taken, _within(np.log(models), steps)))
    return found


def _within(values: Any, groups: Any) -> Any:
    """Values less the mean of their group."""
    means = {group: values[groups == group].mean() for group in np.unique(groups)}
    return values - np.array([means[group] for group in groups])


def _correlation(method: str, quantity: str, durations: Any, values: Any) -> Correlation:
    result: Any = stats.spearmanr(durations, values)
    return Correlation(method, quantity, len(durations), float(result.statistic), float(result.pvalue))


class _Seen:
    """The objective, remembering for the auditor of each step which model was scored first, and its exact sum."""

    def __init__(self) -> None:
        self.honest: Any = None
        self.first = True
        self.models: list[float] = []
        self.scores: list[int] = []

    def begin(self) -> None:
        self.first = True

    def evaluate(self, model: Any) -> Any:
        total = self.honest.evaluate(model)
        if self.first:
            self.models.append(model.regularization)
            self.scores.append(total.expose())
        self.first = False
        return total
