"""How many editions of a scheduled study its budget is planned for.

It is planned for as many as the cap can pay, which follows from the study's price alone; no ledger or file is read.
A method may depend on this number: for many releases under one cap, a mechanism that composes better is preferable.
"""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from dpbo_core.errors import DpboError
from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.accounting.composition import ZERO_TOTAL, Filter, compose
from dpbo_core.ledger.sources import fields_of, is_pattern
from dpbo_core.privacy.release import PrivacyPlan
from dpbo_core.study import StudySpec
from dpbo_core.study.resolve import plan_study

MAX_COUNTED_EDITIONS = 1_000  # editions that are counted, for which any method says "many"


def planned_for_schedule(spec: StudySpec, folder: str | Path = ".") -> StudySpec:
    """Return the study with [budget] editions set to how many its cap holds, or to 1 if each edition has a dataset
    of its own; as it is if they are stated already or it has no cap.

    Args:
        spec: as it is written for a schedule, with its fields.
        folder: of the study file.
    """
    cap = spec.budget
    if cap is None or cap.editions is not None:
        return spec
    of_dataset = set(fields_of(spec.privacy.dataset))
    changes = set(fields_of(spec.edition)) or {"time"}
    if of_dataset and changes <= of_dataset:
        return spec.replace(budget=cap.replace(editions=1))
    editions = 1
    with suppress(DpboError):  # whoever runs the study says so
        many = spec.replace(budget=cap.replace(editions=MAX_COUNTED_EDITIONS))
        editions = editions_held(
            PrivacyBudget.of("", epsilon=cap.epsilon, delta=cap.delta), plan_study(many, folder)
        )
    return spec.replace(budget=cap.replace(editions=max(1, editions)))


def planned_if_scheduled(spec: StudySpec, folder: str | Path = ".") -> StudySpec:
    """Return the study by `planned_for_schedule` if its edition or dataset has fields, as {date}; else as it is."""
    names = (spec.edition, spec.privacy.dataset)
    return planned_for_schedule(spec, folder) if any(is_pattern(name) for name in names) else spec


def editions_held(budget: PrivacyBudget, plan: PrivacyPlan) -> int:
    """Return how many runs at this plan's price a new dataset's cap admits: 0 to 1,000 (`MAX_COUNTED_EDITIONS`)."""
    price, unit, editions = compose(plan.spends), plan.guarantee.unit, 0
    filtered = Filter.of(budget.epsilon_units, budget.conversion_for(unit))
    draws, total = [(spend.epsilon_units, spend.rho_units) for spend in plan.spends], ZERO_TOTAL
    each = filtered.after(draws, price).units
    while editions < MAX_COUNTED_EDITIONS:
        total, filtered = total + price, replace(filtered, units=filtered.units + each)
        if not budget.admits(total, unit, filtered):
            break
        editions += 1
    return editions
