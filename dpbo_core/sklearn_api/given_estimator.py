"""What was given as the estimator to tune: an instance that predicts, before anything else is asked of it."""

from typing import Any

from dpbo_core.errors import StudyInvalid

PIPELINE = "make_pipeline(StandardScaler(), LogisticRegression())"


def check_predicts(estimator: Any) -> None:
    """The estimator is an instance that predicts: no class, no list of steps, no scaler or encoder alone.

    Raises:
        StudyInvalid: it is something else.
    """
    if isinstance(estimator, type) or not hasattr(estimator, "get_params"):
        what = f"the class {estimator.__name__}" if isinstance(estimator, type) else f"a {type(estimator).__name__}"
        raise StudyInvalid(
            f"the estimator is {what}",
            cause="a class without its parentheses, or steps without their Pipeline",
            remedy=f"give an instance, {PIPELINE} say",
        )
    if hasattr(estimator, "transform") and not hasattr(estimator, "predict"):
        raise StudyInvalid(
            f"{type(estimator).__name__} predicts nothing: it transforms columns",
            cause="a scaler or an encoder was given in the model's place, or stands last in a Pipeline",
            remedy=f"put it before the model in one Pipeline, {PIPELINE} say: public rows alone fit it",
        )
