"""How much one trial may cost, so that the whole selection meets the study's (ε, δ).

| symbol | name here | meaning | shape |
|---|---|---|---|
| (ε, δ) | `epsilon`, `delta` | of the whole; δ without what a hidden duration pays | scalars |
| c, C | `lower`, `upper` | bounds on the densities | scalars |
"""

import math
from dataclasses import dataclass
from functools import lru_cache

from dpbo.features.private_training.trial import Trial, TrialFacts, largest
from dpbo.features.private_training.union import base_named
from dpbo_core.errors import StudyInvalid
from dpbo_core.mechanisms.random_stopping import Stopping
from dpbo_core.mechanisms.repeat_and_select import selection_epsilon, trial_epsilon
from dpbo_core.methods.problem import Problem
from dpbo_core.privacy.amounts import allowed_units, spent_units
from dpbo_core.theorems.wang_2023 import Calibration


@dataclass(frozen=True)
class Terms:
    """The price and the kind of a selection: (ε, δ), the law of K, the base algorithm, the densities' bounds."""

    base: str
    law: Stopping
    lower: float
    upper: float
    epsilon: float
    delta: float
    score_share: float
    batch_size: int
    calibration: Calibration = "corrected"
    base_epsilon: float | None = None


def calibrate(problem: Problem, terms: Terms) -> Trial | None:
    """The least noisy trial that the terms pay for, at its own ε where `base_epsilon` says it; None if none."""
    base = base_named(terms.base)
    facts = base.facts(problem, score_share=terms.score_share, batch_size=terms.batch_size)
    cost = _largest_trial_cost(terms, facts)
    return None if cost is None else base.trial(cost, facts)


def trial_cap(law: Stopping, *, epsilon: float, delta: float) -> int:
    """The cap K_max on trials, the least with a tail (1 + e^ε)·Pr[K > K_max] ≤ δ; refused if it is millions."""
    try:
        return law.cap(delta / (1.0 + math.exp(min(epsilon, 700.0))) * (1.0 - 1e-12))
    except ValueError:
        pass
    raise StudyInvalid(
        "hide_duration would run millions of trials",
        cause="δ is tiny against e^ε, or the mean is large",
        remedy="lower epsilon or steps, or leave hide_duration out",
    )


@lru_cache(maxsize=64)  # a study is planned several times, and a calibration may take a good part of a second
def _largest_trial_cost(terms: Terms, facts: TrialFacts) -> float | None:
    """The largest cost of a trial with which the selection stays within the terms' ε; None if none does."""
    base = base_named(terms.base)

    def affordable(cost: float) -> bool:
        trial = base.trial(cost, facts).curve
        price = selection_epsilon(
            terms.law, trial, lower=terms.lower, upper=terms.upper, delta=terms.delta, calibration=terms.calibration
        )
        return math.isfinite(price) and spent_units(price) <= allowed_units(terms.epsilon)

    fixed_epsilon = terms.base_epsilon
    if fixed_epsilon is None:
        return largest(affordable)
    fixed = largest(lambda cost: trial_epsilon(base.trial(cost, facts).curve, terms.delta) <= fixed_epsilon)
    return fixed if fixed is not None and affordable(fixed) else None
