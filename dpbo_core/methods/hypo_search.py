"""Framework 1 of Wang et al. (2023) under way: the trials of `dp_hypo`.

| symbol | name here | meaning | shape |
|---|---|---|---|
| K | — | number of trials, drawn here and never stored | integer |
| π_j | `sampler.density()` | density that trial j draws λ from | (N,) |
| x, q | `trained`, `quality` | a trial's model, and its private quality in integer steps | — |
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from dpbo_core.bo.adaptive_sampling import Sampler, UniformSampler
from dpbo_core.mechanisms.noise import Noise, NoiseSource
from dpbo_core.mechanisms.random_stopping import bounded_weights, draw_index, prior_weights
from dpbo_core.mechanisms.repeat_and_select import Procedure, RepeatAndSelect
from dpbo_core.methods.contract import Method
from dpbo_core.methods.releasing import make_release
from dpbo_core.objective.in_memory import Scorable, Scorer
from dpbo_core.privacy.plan import PrivacyPlan
from dpbo_core.privacy.release import Release
from dpbo_core.privacy.sealing import attempted
from dpbo_core.privacy.sensitive import Opaque, Sensitive
from dpbo_core.private_training.trial import Trial, model_json
from dpbo_core.problem import Problem

WORST = -(2**60)  # below every quality: a trial that failed


class HypoSearch(Opaque):
    """The trials under way. They run in memory; the best one is recorded, and the others are forgotten."""

    __slots__ = ("_make_sampler", "_mechanism", "_method", "_plan", "_prior", "_problem", "_trial")

    def __init__(
        self,
        method: Method,
        problem: Problem,
        plan: PrivacyPlan,
        trial: Trial,
        mechanism: RepeatAndSelect,
        make_sampler: Callable[[], Sampler],
        prior: list[float],
    ) -> None:
        self._prior = prior_weights(prior)
        self._method, self._problem, self._plan = method, problem, plan
        self._trial, self._mechanism, self._make_sampler = trial, mechanism, make_sampler

    def step(self, objective: Scorer, noise: Noise) -> None:
        """Every trial; nothing is shown before the best one is recorded."""
        procedure = Sensitive(lambda source: self._select(objective, source))
        noise.rehearse(self._plan.spends[0], self._mechanism, procedure)

    def finish(self, noise: Noise) -> Release:
        """Record the best trial, and state it."""
        never: Sensitive[Procedure] = Sensitive(_not_rehearsed)
        done = noise.release(self._plan.spends[0], self._mechanism, never)["draw"]
        value = {
            "hyperparameters": dict(self._problem.candidates.points[done["candidate"]]),
            "score": done["quality"] * self._problem.score_per_step,
        }
        if done["model"] is not None or self._problem.training is not None:
            value["model"] = done["model"]  # left out, the public set trains it at what was released
        return make_release(self._method, self._problem, self._plan, noise, value)

    def _select(self, objective: Scorer, source: NoiseSource) -> dict[str, Any]:
        """Framework 1: K trials, the best one."""
        sampler = self._make_sampler()  # nothing was tried: it knows nothing of any record
        K = self._mechanism.stopping.draw(source)  # Framework 1, line 3
        runs = K if self._mechanism.cap is None else self._mechanism.cap
        best, model, ties = (WORST, 0), None, 0
        for j in range(runs):  # line 4
            i = self._draw_candidate(sampler, source)
            quality, trained = self._try(i, objective, source)  # line 5
            self._tell(sampler, i, quality)  # line 7
            if j >= K:
                continue  # run for its duration alone
            if quality > best[0]:
                best, model, ties = (quality, i), trained, 1
            elif quality == best[0]:
                ties += 1
                if draw_index([ties - 1, 1], source) == 1:  # each of the equal best alike
                    best, model = (quality, i), trained
        if best[0] == WORST:  # no trial, or none that worked: a fixed default
            return {"candidate": 0, "quality": 0, "model": None}
        return {"candidate": best[1], "quality": best[0], "model": model_json(model, self._problem)}  # line 8

    def _try(self, index: int, objective: Scorer, source: NoiseSource) -> tuple[int, Scorable | None]:
        """(x, q) ~ M_λ; a failing trial is the worst, and counts."""

        def trial() -> tuple[int, Scorable | None]:
            with np.errstate(all="ignore"):  # a warning that depends on a record must not be seen either
                model = self._train(index, objective, source)
                score = self._trial.score
                return score.prepare(score.spend("quality"), source)(objective.evaluate(model)), model

        return attempted(trial, (WORST, None))  # an error that depends on a record must not be seen

    def _train(self, index: int, objective: Scorer, source: NoiseSource) -> Scorable:
        if self._trial.training is None:
            return self._problem.train(index)
        records = objective.training
        if records is None:
            raise ValueError("the objective has no training records")
        return self._trial.training.train(records.expose(), self._problem.candidates.points[index], source)

    def _draw_candidate(self, sampler: Sampler, source: NoiseSource) -> int:
        """By the prior exactly, or by integer weights whose ratio to it lies between c and C, exactly.

        A density that cannot be computed is the prior: any in the box is as private as any other.
        """
        N, (lower, upper) = len(self._problem.candidates), (self._mechanism.lower, self._mechanism.upper)
        if isinstance(sampler, UniformSampler):
            return draw_index([1] * N if self._uniform else self._prior, source)
        fallback = [weight / sum(self._prior) for weight in self._prior]
        density = attempted(lambda: sampler.density().tolist(), fallback)
        return draw_index(bounded_weights(density, lower=lower, upper=upper, prior=self._of_prior), source)

    @property
    def _uniform(self) -> bool:
        return self._of_prior is None

    @property
    def _of_prior(self) -> list[int] | None:
        """The prior's weights; None for the uniform ones."""
        return None if max(self._prior) == min(self._prior) else self._prior

    def _tell(self, sampler: Sampler, index: int, quality: int) -> None:
        """In units of the quality's range. What cannot be learned from is forgotten."""
        share = min(max(quality / self._problem.range_steps, 0.0), 1.0)
        attempted(lambda: sampler.tell(index, share), None)


def _not_rehearsed(source: NoiseSource) -> Any:
    del source
    raise ValueError("the trials were not run")
