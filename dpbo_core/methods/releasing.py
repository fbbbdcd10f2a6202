"""What the releases of all methods have in common: the value, and the public facts a reader needs beside it."""

import math
from collections.abc import Mapping
from typing import Any

from dpbo_core.mechanisms.noise import Noise
from dpbo_core.methods.contract import Method
from dpbo_core.methods.pair_draws import in_pairs
from dpbo_core.methods.problem import Problem
from dpbo_core.privacy.named_parts import library_version
from dpbo_core.privacy.release import COUNTS, LEARNED_FROM, PAIRS, PrivacyPlan, Release
from dpbo_core.theorems.feldman_cousins_1998 import bounded_laplace_interval


def make_release(
    method: Method,
    problem: Problem,
    plan: PrivacyPlan,
    noise: Noise,
    value: Mapping[str, Any],
    score_bound: str = "",
) -> Release:
    """Return the release of `value`, not recorded yet, with the public facts a reader needs beside the guarantee.

    A score is stated in its natural unit too, as its metric; so is the baseline, where there is one. `score_bound`
    is what a theorem says of the score's error, as text.
    """
    unit, name = problem.score.natural_unit, problem.model.score_name
    if "score" in value:
        value = {**value, "metric": unit.metric(name, value["score"], value.get("interval"))}
    baseline: dict[str, Any] = {} if problem.baseline is None else {"baseline": unit.of(problem.baseline)}
    if baseline and problem.n_persons is not None:
        baseline["baseline_by"] = problem.baseline_by
    earlier = [{"edition": item.edition, "release_id": item.release_id} for item in problem.earlier or ()]
    return Release(
        value=value,
        guarantee=plan.guarantee.as_drawn(noise.standing),
        spends=plan.spends,
        study=problem.study,
        edition=problem.edition,
        method=method.kind,
        dataset=problem.dataset,
        facts={
            "version": library_version(),
            "options": method.options,
            "estimator": problem.model.estimator,
            "score": problem.model.score_name,
            "score_range": problem.score_range,
            **baseline,
            **averaged_facts(problem),
            "n_candidates": len(problem.candidates),
            "space": problem.candidates.space.to_json(),
            "kernel": problem.search.kernel,
            "lengthscale": problem.search.lengthscale,
            "steps": method.n_steps(problem),
            **({COUNTS: PAIRS, "public_share": problem.positives} if in_pairs(problem) else {}),
            **({"rowwise": "enforced"} if problem.model.enforced else {}),
            **({"score_bound": score_bound} if score_bound else {}),
            **({"chosen_by_advice": problem.advice} if problem.advice else {}),
            **({} if problem.earlier is None else {LEARNED_FROM: earlier}),
        },
        noise=noise.standing,
    )


def laplace_caption(score: float, scale: float, top: float | None) -> dict[str, Any]:
    """Return a score with Laplace noise of this scale and its 90% interval, for a release's value; the interval
    lies within [0, `top`] unless `top` is None.
    """
    reach = scale * math.log(10.0)
    ends = (score - reach, score + reach) if top is None else bounded_laplace_interval(score, scale, top)
    return {"score": score, "interval": list(ends)}


def averaged_facts(problem: Problem) -> dict[str, int | None]:
    """Return the public counts behind the score's average: persons, or records and how many of one person count."""
    if problem.n_persons is not None:
        return {"n_persons": problem.n_persons}
    return {"n_validation": problem.n_validation, "max_records_per_person": problem.max_records_per_person}
