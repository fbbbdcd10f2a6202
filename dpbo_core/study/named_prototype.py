"""The estimator that a study names as "module:name", with the study's own fixed parameters."""

from pathlib import Path

from dpbo_core.models.estimators import check_names
from dpbo_core.models.named_estimator import estimator_named
from dpbo_core.models.prototype import Prototype
from dpbo_core.spec import StudySpec


def named_prototype(spec: StudySpec, folder: str | Path) -> Prototype | None:
    """By example; None where the study names a class, or a model of ours.

    Args:
        spec: the study.
        folder: of the study file.

    Raises:
        StudyInvalid: there is no such estimator, or it has no such parameter.
    """
    if not spec.model.names_object:
        return None
    from sklearn.base import clone

    estimator = clone(estimator_named(spec.model.estimator, folder))
    check_names(list(spec.model.params), list(estimator.get_params(deep=True)), shown_as=spec.model.estimator)
    estimator.set_params(**spec.model.params)
    return Prototype(estimator, spec.search.seed, spec.model.regression)
