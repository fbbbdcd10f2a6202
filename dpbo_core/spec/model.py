"""[model]: a closed union, one frozen dataclass for each kind of model, each with the keys it has.

| the estimator is | file |
|---|---|
| one of ours, by its name | `our_models` |
| anybody's, by its import path | `estimators_by_path` |
| none: predictions were made elsewhere | `prediction_table` |
"""

from dataclasses import fields
from typing import Any, get_args

from dpbo_core.errors import StudyInvalid
from dpbo_core.models.scores.bounded_function import FUNCTION
from dpbo_core.spec.estimators_by_path import EstimatorSection, FunctionSection
from dpbo_core.spec.our_models import LinearSection, SoftmaxSection
from dpbo_core.spec.prediction_table import PREDICTIONS, PredictionsSection
from dpbo_core.spec.reading import one_of, require, typed_values, union_hints
from dpbo_core.spec.written_model import LINEAR_ESTIMATORS, OUR_ESTIMATORS, check_rowwise, needed, unused

RecordModel = SoftmaxSection | EstimatorSection | FunctionSection | PredictionsSection
ModelSection = LinearSection | RecordModel


def read_model(table: Any) -> ModelSection:
    """[model] from its table: every key known and of its type, and together one of the kinds of models.

    Raises:
        StudyInvalid: they are none.
    """
    given = typed_values(union_hints(get_args(ModelSection)), table, "[model]")
    given = {key: value for key, value in given.items() if value is not None}
    require("estimator" in given, "[model] lacks estimator", remedy="add estimator to [model]")
    kind = _kind(given["estimator"], given.get("score", ""))
    known = {item.name for item in fields(kind)}
    if kind is FunctionSection:
        for key in FUNCTION.needs:
            if key not in given:
                raise needed(key, given["score"])
    model = kind(**{key: value for key, value in given.items() if key in known})
    for key in given:
        if key == "rowwise":
            check_rowwise(given[key])
            require(
                not (model.ours or isinstance(model, PredictionsSection)),
                f"model.rowwise is given, and {model.estimator} "
                + ("is ours and scores each record by itself" if model.ours else "were made elsewhere"),
                remedy="remove rowwise",
            )
        elif key == "columns" and not given[key]:
            continue
        elif key == "columns" and key not in known:
            raise StudyInvalid(
                f"model.columns is given, but {model.estimator} is ours and computes on numbers",
                remedy='remove it, or name an estimator: "sklearn.ensemble.HistGradientBoostingClassifier", say',
            )
        elif key not in known:
            raise unused(key, model.score_name)
    return model


def _kind(estimator: str, score: str) -> type[ModelSection]:
    if "." not in estimator and ":" not in estimator:
        one_of("model.estimator", estimator, (*OUR_ESTIMATORS, PREDICTIONS))
        if estimator == PREDICTIONS:
            return PredictionsSection
        return LinearSection if estimator in LINEAR_ESTIMATORS else SoftmaxSection
    return FunctionSection if "." in score else EstimatorSection
