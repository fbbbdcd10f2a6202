"""The score that the [model] of a study names, as an object. Every sensitivity depends on its range.

score_of(model)            from the study alone
score_on(model, classes)   with what only the training set can tell
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dpbo_core.data.values import public_column, shown
from dpbo_core.errors import StudyInvalid
from dpbo_core.models.scores.accuracy import ACCURACY
from dpbo_core.models.scores.kinds import Numbers, PairScore, RecordScore, check_two_classes
from dpbo_core.models.scores.regression_error import ABSOLUTE_ERROR
from dpbo_core.models.scores.union import (
    MARGIN_SCORES,
    PAIR_SCORES,
    PROBABILITY_SCORES,
    RECORD_SCORES,
    SCORES,
    MarginScore,
    Score,
)
from dpbo_core.search.search_space import Value
from dpbo_core.study.model import (
    EstimatorSection,
    FunctionSection,
    LinearSection,
    ModelSection,
    PredictionsSection,
    RecordModel,
    SoftmaxSection,
)

FIGURES = {ACCURACY.name: ACCURACY.name, ABSOLUTE_ERROR.name: "mae"}  # of a report, by the study's score
MIN_SCORE_RANGE = 1e-100  # range of a record's score; its square is still a number


def score_of(model: ModelSection) -> Score:
    """Return the score (its function, range and sort) that a study names; needs no data."""
    return margin_score(model) if isinstance(model, LinearSection) else record_score(model)


def pair_score(model: ModelSection) -> PairScore | None:
    """Return the study's score if it counts pairs, as AUC does; None if it is a mean, or uses class shares."""
    by_pairs = PAIR_SCORES.get(model.score_name)
    return None if by_pairs is None or model.stated_shares is not None else by_pairs(Numbers(model.steepness))


def margin_score(model: LinearSection) -> MarginScore | PairScore:
    """Return the score of a linear model's study: a mean over the margins y·wᵀx, or a count of pairs (AUC)."""
    return pair_score(model) or MARGIN_SCORES[model.score_name](Numbers(model.steepness))


def record_score(model: RecordModel) -> RecordScore | PairScore:
    """Return the score of the predictions of a model that is not linear, as the study names it."""
    pairs = pair_score(model)
    if pairs is not None:
        return pairs
    score: RecordScore
    match model:
        case FunctionSection():
            from dpbo_core.models.scores.bounded_function import BoundedFunction

            score = BoundedFunction(model.score, model.score_low, model.score_high)
        case EstimatorSection() | PredictionsSection():
            shares = tuple(_shares(model).values())
            score = RECORD_SCORES[model.score_name](Numbers(model.steepness, shares, model.error_bound))
        case SoftmaxSection():
            score = RECORD_SCORES[model.score_name](Numbers(model.steepness))
    if not MIN_SCORE_RANGE <= score.score_range <= 1.0 / MIN_SCORE_RANGE:
        raise StudyInvalid(
            f"the score of a record runs over {score.score_range:g}",
            cause="score bounds, an error bound or a class share beyond what double precision can count in",
            remedy="choose a range between 1e-100 and 1e100",
        )
    return score


def _shares(model: RecordModel) -> dict[Any, float]:
    """Return the public share of each class that a study states, numbers before texts; empty if it states none."""
    shares = model.stated_shares or {}
    by_class = dict(zip(public_column(list(shares)).tolist(), shares.values(), strict=True))
    if len(by_class) < len(shares) or not all(type(share) in (int, float) for share in shares.values()):
        raise StudyInvalid(
            "model.class_shares names a class twice, or a share is no number",
            cause='1 and "1.0" are one class',
            remedy="write each class once, with its share",
        )
    ordered = sorted(by_class, key=lambda value: (isinstance(value, str), value))
    return {name: float(by_class[name]) for name in ordered}


def score_on(
    model: RecordModel, classes: tuple[Value, ...], function: Callable[[Any, Any], float] | None = None
) -> RecordScore | PairScore:
    """Return the study's score, checked to fit the public `classes`; a user's own score gets its `function`."""
    score = record_score(model)
    if isinstance(score, PairScore):
        allowed = SCORES[model.score_name].allows
        also = f" (or give model.{' and '.join(allowed)})" if allowed else ""
        check_two_classes(model.score_name, len(classes), instead=PROBABILITY_SCORES, also=also)
    if model.stated_shares is not None:  # whichever score takes them
        named = tuple(_shares(model))
        if named != classes:
            raise StudyInvalid(
                f"model.class_shares names {', '.join(map(shown, named))}; "
                f"the training classes are {', '.join(map(str, classes))}",
                cause="a class is missing or misspelt",
                remedy="give the share of every class of the training set",
            )
    if function is None:
        return score
    from dpbo_core.models.scores.bounded_function import BoundedFunction

    return replace(score, function=function) if isinstance(score, BoundedFunction) else score
