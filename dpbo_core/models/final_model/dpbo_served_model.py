"""A saved final model where dpbo is not installed: MLflow opens it by a copy of this module (`write_served_code`).

It encodes records by the modules that encode them for scoring, which are copied along. They need numpy, and for an
estimator skops, LightGBM or XGBoost, and pandas where it takes a table's own columns. What is allowed in the
estimator's files is said here and nowhere else.
"""

import importlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.data.preprocessing import Preprocessing
from dpbo_core.data.raw_cells import as_cells, cell_of, text_cell
from dpbo_core.data.table import table_of
from dpbo_core.data.values import shown
from dpbo_core.models.final_model.fields import VERBS, preprocessing_of

NUMBERS, ESTIMATOR = "model.json", "estimator.skops"
FORMAT_VERSION = 1
LOGISTIC = "logistic"  # the loss whose margins are log-odds
PREDICT = "predict"  # what is asked where nothing is said
PROBABILITY_FLOOR = 1e-9  # a probability nearer than this to 0 or 1 is taken for this

BOOSTER_FILES = {  # package → the file with its trees, in its own format; the classes that are made again from it
    "lightgbm": ("booster.txt", ("LGBMClassifier", "LGBMRegressor")),
    "xgboost": ("booster.json", ("XGBClassifier", "XGBRegressor", "XGBRFClassifier", "XGBRFRegressor")),
}

TRUSTED_TYPES = (  # what fitted estimators of scikit-learn hold besides what skops trusts: no function among them
    "numpy.dtype",
    "scipy.interpolate._bsplines.BSpline",
    "sklearn._loss.loss.HalfTweedieLossIdentity",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.compose._column_transformer._RemainderColsList",
    "sklearn.compose._column_transformer.make_column_selector",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.gaussian_process._gpc._BinaryGaussianProcessClassifierLaplace",
    "sklearn.gaussian_process.kernels.ConstantKernel",
    "sklearn.gaussian_process.kernels.DotProduct",
    "sklearn.gaussian_process.kernels.Exponentiation",
    "sklearn.gaussian_process.kernels.Matern",
    "sklearn.gaussian_process.kernels.Product",
    "sklearn.gaussian_process.kernels.RBF",
    "sklearn.gaussian_process.kernels.RationalQuadratic",
    "sklearn.gaussian_process.kernels.Sum",
    "sklearn.gaussian_process.kernels.WhiteKernel",
    "sklearn.metrics._dist_metrics.EuclideanDistance64",
    "sklearn.metrics._dist_metrics.ManhattanDistance64",
    "sklearn.neighbors._ball_tree.BallTree",
    "sklearn.neighbors._kd_tree.KDTree",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    "sklearn.tree._tree.Tree",
)


class ServedModel:
    """Raw columns in; classes, numbers, probabilities or decision values out."""

    def __init__(self, preprocessing: Preprocessing, estimator: Any) -> None:
        self.preprocessing, self.estimator = preprocessing, estimator

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        """Return the class or number predicted for each row or, by `params`, its probabilities or decision values;
        ValueError if the model has no such method.

        What has a value for each class comes as a data frame, a column named after each class.

        Args:
            model_input: a data frame with the columns of the training table.
            params: {"predict_method": "predict", "predict_proba" or "decision_function"}; "predict" where None.

        Raises:
            ValueError: another method, one that this model does not have, or a value that scoring could not read
                in a table's own column.
        """
        verb = (params or {}).get("predict_method", PREDICT)
        if verb not in VERBS:
            raise ValueError(f"predict_method is one of {', '.join(VERBS)}")
        rows, classes = model_rows(self.preprocessing, model_input), self.preprocessing.classes
        if not callable(getattr(self.estimator, verb, None)):
            raise ValueError(f"this model has no {verb}")
        predictions = np.asarray(getattr(self.estimator, verb)(rows))
        if verb == PREDICT:
            return np.array(classes)[predictions.astype(int)] if classes else predictions
        if predictions.ndim == 1:
            return predictions
        import pandas as pd

        return pd.DataFrame(predictions, columns=[shown(value) for value in classes])


def model_rows(preprocessing: Preprocessing, table: Any) -> Any:
    """Return the rows of `table` as the estimator takes them, encoded as scored records are.

    The table is a data frame or columns by name; a time may be a text in ISO 8601.
    """
    columns = {feature.name: listed(table[feature.name]) for feature in preprocessing.features}
    if preprocessing.columns is None:
        return preprocessing.rows(table_of(columns, texts=preprocessing.text_columns))
    csv = preprocessing.csv
    cells = {
        name: as_cells(text_cell(value) if csv and isinstance(value, str) else cell_of(value) for value in column)
        for name, column in columns.items()
    }
    return preprocessing.rows(replace(table_of(columns, texts=preprocessing.text_columns), cells=cells))


def listed(column: Any) -> list[Any]:
    """Return the values of a column in memory; times of a pandas.Series in a zone are converted to UTC."""
    zone = getattr(getattr(column, "dtype", None), "tz", None)
    return list(column if zone is None else column.dt.tz_convert("UTC"))


class Linear:
    """A linear model of ours, by its fields of `model.json`, behind the verbs of a classifier of 0 and 1."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document, self._weights = document, np.array(document["weights"])
        if document["loss"] == LOGISTIC:
            self.predict_proba = lambda rows: of_log_odds(self.decision_function(rows))

    def decision_function(self, rows: Any) -> NDArray[np.float64]:
        """Return the value wᵀx of each row, (m,)."""
        return np.asarray(rows @ self._weights)

    def predict(self, rows: Any) -> NDArray[np.intp]:
        """Return the predicted class of each row, (m,): 1 where wᵀx is above 0."""
        return np.asarray((self.decision_function(rows) > 0.0).astype(int))


class Repaired:
    """A classifier of two classes with recalibrated log-odds a·z + b, and a threshold of its own.

    Attributes:
        terms: "verb" by which it is asked; "slope" a and "intercept" b of its log-odds z, which are its decision
            values where it is "logistic"; "threshold" of what the verb gives, above which a row is of class 1.
    """

    def __init__(self, estimator: Any, terms: dict[str, Any]) -> None:
        self.estimator, self.terms = estimator, terms
        if terms["logistic"] or terms["verb"] == "predict_proba":
            self.predict_proba = lambda rows: of_log_odds(self.decision_function(rows))

    def decision_function(self, rows: Any) -> NDArray[np.float64]:
        """Return a·z + b of each row, (m,), with z its log-odds, or the decision value of a model without them."""
        values = self._decision_values(rows)
        if self.terms["verb"] == "predict_proba":
            values = np.clip(values, PROBABILITY_FLOOR, 1.0 - PROBABILITY_FLOOR)
            values = np.log(values) - np.log1p(-values)
        return np.asarray(self.terms["slope"] * values + self.terms["intercept"])

    def predict(self, rows: Any) -> NDArray[np.intp]:
        """Return each row's class, (m,): 1 if its value before recalibration is above the repaired threshold."""
        return np.asarray((self._decision_values(rows) > self.terms["threshold"]).astype(int))

    def _decision_values(self, rows: Any) -> NDArray[np.float64]:
        """Return the wrapped classifier's decision values or, by its `verb`, probabilities of class 1, (m,)."""
        values = np.asarray(getattr(self.estimator, self.terms["verb"])(rows))
        return values[:, 1] if values.ndim == 2 else values


def of_log_odds(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return probabilities of both classes, (m, 2), from log-odds (m,)."""
    second = 0.5 * (1.0 + np.tanh(0.5 * values))
    return np.column_stack([1.0 - second, second])


class Trees:
    """LightGBM's trees behind the verbs of a classifier of 0, 1, …"""

    def __init__(self, booster: Any) -> None:
        self._booster = booster

    def predict_proba(self, rows: Any) -> NDArray[np.float64]:
        """Return the probability of each class, (m, C)."""
        probabilities = np.asarray(self._booster.predict(rows))
        return probabilities if probabilities.ndim == 2 else np.column_stack([1.0 - probabilities, probabilities])

    def predict(self, rows: Any) -> NDArray[np.intp]:
        """Return the index of the likeliest class of each row, (m,)."""
        return np.asarray(np.argmax(self.predict_proba(rows), axis=1))


class TransformThenPredict:
    """A booster with fitted transformers applied first; it has the prediction methods that the booster has."""

    def __init__(self, before: Any, booster: Any) -> None:
        self._before, self._booster = before, booster

    def __getattr__(self, verb: str) -> Any:
        if verb not in VERBS:
            raise AttributeError(verb)
        method = getattr(self._booster, verb)
        return lambda rows: method(self._before.transform(rows))


def boosted(folder: Path, kind: Any, before: Any = None) -> Any:
    """Return the booster saved in `folder`, with the fitted transformers `before` it, if any, applied first.

    `kind` says which it is, {"library", "class"}.
    """
    library, kind = kind["library"], kind["class"]
    if library not in BOOSTER_FILES or kind not in BOOSTER_FILES[library][1]:
        raise ValueError("the model is of a booster that is not known here")
    path = folder / BOOSTER_FILES[library][0]
    try:
        module = importlib.import_module(library)
    except ImportError:
        raise ValueError(
            f"the model was trained by {library}, which is not installed: pip install {library}"
        ) from None
    try:
        if library == "lightgbm":
            booster = module.Booster(model_file=str(path))
            booster = Trees(booster) if kind == "LGBMClassifier" else booster
        else:
            booster = getattr(module, kind)()
            booster.load_model(str(path))
    except Exception:  # noqa: BLE001  each package has errors of its own for a damaged file
        raise ValueError(f"no booster can be read from {path.name}") from None
    return booster if before is None else TransformThenPredict(before, booster)


def _load_pyfunc(path: str) -> ServedModel:
    """MLflow's entry point that loads the model; nothing is unpickled.

    Raises:
        ValueError: it is of another format, or names a type that is not on the list.
    """
    folder = Path(path)
    document = json.loads((folder / NUMBERS).read_text(encoding="utf-8"))
    if document["format"] != FORMAT_VERSION:
        raise ValueError("the model is of another format")
    estimator = Linear(document["linear"]) if "linear" in document else _fitted(folder, document.get("booster"))
    if "repaired" in document:
        estimator = Repaired(estimator, document["repaired"])
    return ServedModel(preprocessing_of(document["preprocessing"]), estimator)


def _fitted(folder: Path, booster: Any) -> Any:
    """Return the saved estimator in a folder, its booster rebuilt if it has one; an untrusted type is refused."""
    if booster is not None and not (folder / ESTIMATOR).exists():
        return boosted(folder, booster)
    from skops import io

    data = (folder / ESTIMATOR).read_bytes()
    foreign = sorted({*io.get_untrusted_types(data=data)} - {*TRUSTED_TYPES})
    if foreign:
        raise ValueError(f"the model names {foreign[0]}, which is not loaded")
    estimator = io.loads(data, trusted=list(TRUSTED_TYPES))
    return estimator if booster is None else boosted(folder, booster, estimator)
