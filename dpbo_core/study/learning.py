"""Warm starts: a search begins with the released scores of earlier editions of its series, and reads nothing else.

An edition is one run of a study on new data. A series is the editions of one study with the same model, space and
way of counting records, on one dataset or on datasets whose names differ in a date. Releases are public, so that
using them is post-processing: an edition's guarantee covers its own data. People in several editions pay for each.
"""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.charge import WarmStart
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.methods import METHODS
from dpbo_core.methods.advice import AUTO
from dpbo_core.methods.contract import Method
from dpbo_core.methods.problem import Problem
from dpbo_core.privacy.release import Release
from dpbo_core.search.candidates import EarlierEdition, ReleasedScore
from dpbo_core.study import StudySpec
from dpbo_core.study.context import QueryContext

EDITIONS, NO_EDITIONS = "editions", "nothing"
MAX_EDITIONS = 8  # editions that a search begins with: at a slow drift older ones add little


def learns(spec: StudySpec, method: Method, context: QueryContext) -> bool:
    """Return whether a study learns from earlier editions, and later ones from it: as stated, or if scheduled.

    Args:
        spec: the study.
        method: its own, or what the advice chose.
        context: one of a schedule learns unless the study says otherwise.
    """
    asked = spec.search.learn_from or (EDITIONS if context.scheduled else NO_EDITIONS)
    return asked == EDITIONS and method.learns


def check_learns(spec: StudySpec, method: Method) -> None:
    """Refuse a study that asks to learn from earlier editions, if its method cannot; one with "auto" passes."""
    if spec.search.learn_from == EDITIONS and spec.method != AUTO and not method.learns:
        able = ", ".join(kind for kind, cls in METHODS.items() if cls.learns)
        raise StudyInvalid(
            f'search.learn_from = "{EDITIONS}", and {method.kind} begins every search afresh',
            cause="its price or its proof holds for a search that is fixed in advance",
            remedy=f"leave learn_from out, or use one of {able}",
        )


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
    """Return the earlier editions (runs with own data and spend) that a search begins with; None for no warm start.

    Args:
        problem: whose candidates they are about.
        warm_start: which they are.
        ledger: that recorded them.

    Raises:
        LedgerDamaged: it has lost one.
    """
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
