"""The repaired model, behind `dpbo_served_model.Repaired`, which loads without dpbo."""

from dataclasses import replace

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
        return FinalModel(fitted, replace(model, estimator=Repaired(model.estimator, how | repair.terms)))
    if not isinstance(model, LinearModel):
        raise TypeError("only a model of two classes has a repair")
    ours = Linear(linear_fields(model, loss or WITHOUT_LOSS))
    return FinalModel(fitted, FittedEstimator(Repaired(ours, how | repair.terms), np.zeros(fitted.n_features)))
