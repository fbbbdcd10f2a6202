"""The repaired model in classes that load without dpbo: scikit-learn's where they can carry it, else the served.

scikit-learn's LogisticRegression, alone or at the end of a Pipeline, takes (a, b) into its own coefficients, and a
`FixedThresholdClassifier` around it the threshold. Any other model stands behind `dpbo_served_model.Repaired`.
"""

import math
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np

from dpbo_core.final_model import FinalModel
from dpbo_core.final_model.dpbo_served_model import Linear, Repaired
from dpbo_core.final_model.storage import linear_fields
from dpbo_core.models.estimators import FittedEstimator
from dpbo_core.models.linear.fit import LinearModel
from dpbo_core.queries.evaluation.evaluated_model import EvaluatedModel
from dpbo_core.queries.evaluation.repair import Repair

WITHOUT_LOSS = "none"


def repaired_model(evaluated: EvaluatedModel, repair: Repair, loss: str | None) -> FinalModel:
    """The evaluated model with the repair applied, as one that can be saved.

    Args:
        evaluated: trained on the public set, or read.
        repair: of its report.
        loss: of a linear model; None of any other.
    """
    fitted, model, public = evaluated.preprocessing, evaluated.model, evaluated.public
    how = {"verb": public.verb, "logistic": public.logistic}
    if isinstance(model, FittedEstimator):
        model = replace(model, alone=None, cells=None)
        changed = _in_scikit_learn(model.estimator, repair)
        if changed is not None:
            return FinalModel(fitted, replace(model, estimator=changed))
        return FinalModel(fitted, replace(model, estimator=Repaired(model.estimator, how | repair.terms)))
    if not isinstance(model, LinearModel):
        raise TypeError("only a model of two classes has a repair")
    ours = Linear(linear_fields(model, loss or WITHOUT_LOSS))
    return FinalModel(fitted, FittedEstimator(Repaired(ours, how | repair.terms), np.zeros(fitted.n_features)))


def _in_scikit_learn(estimator: Any, repair: Repair) -> Any:
    """The estimator with recalibrated coefficients and a fixed threshold; None where it cannot have them."""
    from sklearn import frozen, linear_model, model_selection, pipeline

    changed = deepcopy(estimator)
    last = changed.steps[-1][1] if type(changed) is pipeline.Pipeline else changed
    if type(last) is not linear_model.LogisticRegression or repair.probability is None:
        return None
    last.coef_ = repair.slope * last.coef_
    last.intercept_ = repair.slope * last.intercept_ + repair.intercept
    at_least = math.nextafter(repair.probability, 1.0)  # scikit-learn flags at its threshold, a report above it
    behind = model_selection.FixedThresholdClassifier(
        frozen.FrozenEstimator(changed), threshold=at_least, response_method="predict_proba"
    )
    rows = np.zeros((2, last.n_features_in_))
    return behind.fit(rows, [0, 1])  # fits nothing: the estimator is frozen
