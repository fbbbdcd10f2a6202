"""The editions of a study: which earlier ones a search begins with, and how many a schedule is planned for.

An edition is one run of a study on new data. A warm start takes the released scores of earlier editions and reads
nothing else. A series is the editions of one study with the same model, space and way of counting records, on one
dataset or on datasets whose names differ in a date. Releases are public, so that using them is post-processing: an
edition's guarantee covers its own data. People in several editions pay for each.

A schedule is planned for as many editions as the cap can pay, which follows from the study's price alone; no ledger
or file is read. A method may depend on this number: for many releases under one cap, a mechanism that composes
better is preferable.
"""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from dpbo_core.errors import DpboError
from dpbo_core.ledger.accounting.account import Account, PrivacyBudget
from dpbo_core.ledger.accounting.composition import compose, draws_of_spends
from dpbo_core.ledger.charge import WarmStart
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.sources import fields_of, is_pattern
from dpbo_core.methods import METHODS
from dpbo_core.methods.contract import Method
from dpbo_core.methods.problem import Problem
from dpbo_core.privacy.release import PrivacyPlan, Release
from dpbo_core.search.search_space import EarlierEdition, ReleasedScore
from dpbo_core.study import StudySpec
from dpbo_core.study.query import QueryContext
from dpbo_core.study.resolve import EDITIONS, plan_study

NO_EDITIONS = "nothing"
MAX_EDITIONS = 8  # editions that a search begins with: at a slow drift older ones add little


def learns(spec: StudySpec, method: Method, context: QueryContext) -> bool:
    """Return whether a study learns from earlier editions, and later ones from it: as stated, or if scheduled."""
    choice = spec.search.learn_from or (EDITIONS if context.scheduled else NO_EDITIONS)
    return choice == EDITIONS and method.learns


def series_of(spec: StudySpec) -> str:
    """Return a hash of what a study's editions have in common, so that one can learn from another's scores."""
    tables = spec.tuned.to_dict()
    identity = [
        spec.name,
        tables["model"],
        tables["space"],
        {key: spec.to_dict()["data"].get(key) for key in ("target", "ignore", "labels")},
        [spec.privacy.person, spec.privacy.max_records_per_person, "n_persons" in tables["data"]],
    ]
    text = json.dumps(identity, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def editions_to_learn_from(spec: StudySpec, ledger: PrivacyLedger) -> WarmStart:
    """Return the ids of earlier editions' newest releases that an uncharged study will learn from."""
    series = series_of(spec)
    releases = ledger.released_in(spec.privacy.dataset, series, most=MAX_EDITIONS)
    return WarmStart(series, tuple(release.release_id for release in releases))


def earlier_editions(
    problem: Problem, warm_start: WarmStart | None, ledger: PrivacyLedger
) -> tuple[EarlierEdition, ...] | None:
    """Return the earlier editions (runs with own data and spend) that a search begins with; None if it does not."""
    if warm_start is None:
        return None
    places = places_in(problem)
    return tuple(edition_of(release, places) for release in ledger.releases_named(warm_start.releases))


def places_in(problem: Problem) -> dict[str, int]:
    """Return the index of each candidate, by its hyperparameters' canonical text."""
    return {_canonical_text(point): index for index, point in enumerate(problem.candidates.points)}


def edition_of(release: Release, places: Mapping[str, int]) -> EarlierEdition:
    """Return an earlier edition with its released scores of candidates that the present study has too.

    `places` has the present candidates' indices by canonical text. A release that cannot be read gives no scores.
    """
    method, scores = METHODS.get(release.method), []
    if method is not None:
        with suppress(KeyError, TypeError, ValueError):
            for point, score, deviation in method.released_scores(release):
                index = places.get(_canonical_text(point))
                if index is not None:
                    scores.append(ReleasedScore(index, score, deviation))
    return EarlierEdition(release.edition, release.release_id, tuple(scores))


def _canonical_text(point: Mapping[str, Any]) -> str:
    """Return a point's hyperparameters in JSON, the names sorted: equal texts for equal points."""
    return json.dumps(dict(point), sort_keys=True)


MAX_COUNTED_EDITIONS = 1_000  # editions that are counted, for which any method says "many"


def planned_for_schedule(spec: StudySpec, folder: str | Path = ".") -> StudySpec:
    """Return a schedule's study with [budget] editions, unless stated, set to how many its cap holds, or to 1 if
    each edition has a dataset of its own; as it is without a cap.
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
        budget = PrivacyBudget.of("", epsilon=cap.epsilon, delta=cap.delta)
        editions = editions_held(budget, plan_study(many, folder))
    return spec.replace(budget=cap.replace(editions=max(1, editions)))


def planned_if_scheduled(spec: StudySpec, folder: str | Path = ".") -> StudySpec:
    """Return the study by `planned_for_schedule` if its edition or dataset has fields, as {date}; else as it is."""
    names = (spec.edition, spec.privacy.dataset)
    return planned_for_schedule(spec, folder) if any(is_pattern(name) for name in names) else spec


def editions_held(budget: PrivacyBudget, plan: PrivacyPlan) -> int:
    """Return how many runs at this plan's price a new dataset's cap admits: 0 to 1,000 (`MAX_COUNTED_EDITIONS`)."""
    account = replace(Account.opened(budget), unit=plan.guarantee.unit)
    return min(account.room_for(compose(plan.spends), draws_of_spends(plan.spends)), MAX_COUNTED_EDITIONS)
