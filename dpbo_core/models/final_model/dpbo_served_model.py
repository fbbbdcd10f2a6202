"""A saved final model where dpbo is not installed: MLflow carries this file along with the model, to open it.

It imports numpy, and for an estimator skops, LightGBM or XGBoost, and pandas where it takes a table's own columns:
nothing of dpbo, so that what serves the model needs no more. What is allowed in the files is said here and nowhere
else. For the same rows it answers as `FinalModel` does.
"""

import importlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

NUMBERS, ESTIMATOR = "model.json", "estimator.skops"
FORMAT = 1
LOGISTIC = "logistic"  # the loss whose margins are log-odds
PREDICT = "predict"  # what is asked where nothing is said
CERTAIN = 1e-9  # a probability nearer than this to 0 or 1 is taken for this
VERBS = (PREDICT, "predict_proba", "decision_function")

BOOSTERS = {  # package → the file with its trees, in its own format; the classes that are made again from it
    "lightgbm": ("booster.txt", ("LGBMClassifier", "LGBMRegressor")),
    "xgboost": ("booster.json", ("XGBClassifier", "XGBRegressor", "XGBRFClassifier", "XGBRFRegressor")),
}

TRUSTED = (  # what fitted estimators of scikit-learn hold besides what skops trusts: no function among them
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
    """Raw columns in; classes, numbers, probabilities or decision values out.

    Attributes:
        document: what `model.json` holds.
        estimator: fitted, with the verbs of scikit-learn.
    """

    def __init__(self, document: dict[str, Any], estimator: Any) -> None:
        self.document, self.estimator = document, estimator
        self.preprocessing = document["preprocessing"]
        self.classes = np.array(self.preprocessing["classes"])

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        """The class or number predicted for each row or, by `params`, its probabilities or decision values;
        ValueError if the model has no such method.

        What has a value for each class comes as a data frame, a column named after each class.

        Args:
            model_input: a data frame with the columns of the training table.
            params: {"predict_method": "predict", "predict_proba" or "decision_function"}; "predict" where None.

        Raises:
            ValueError: another method, or one that this model does not have.
        """
        verb = (params or {}).get("predict_method", PREDICT)
        if verb not in VERBS:
            raise ValueError(f"predict_method is one of {', '.join(VERBS)}")
        columns = self.preprocessing["features"]
        rows = data_frame(columns, model_input) if "kind" in columns[0] else self.encoded(model_input)
        if not callable(getattr(self.estimator, verb, None)):
            raise ValueError(f"this model has no {verb}")
        predictions = np.asarray(getattr(self.estimator, verb)(rows))
        if verb == PREDICT:
            return self.classes[predictions.astype(int)] if len(self.classes) else predictions
        if predictions.ndim == 1:
            return predictions
        import pandas as pd

        return pd.DataFrame(predictions, columns=[shown(value) for value in self.preprocessing["classes"]])

    def encoded(self, table: Any) -> NDArray[np.float64]:
        """The features (m, d) of `table`; all 0 for a row that lacks a required value."""
        fitted, raw, center, scale = self.preprocessing, [], [], []
        broken = np.zeros(len(table[fitted["features"][0]["name"]]), dtype=bool)
        for feature in fitted["features"]:
            texts = all(isinstance(category, str) for category in feature.get("values", [math.nan]))
            values = [written(value) if texts else meaning(value) for value in table[feature["name"]]]
            if "values" in feature:
                raw += [np.array([float(value == category) for value in values]) for category in feature["values"]]
                center += [0.0] * len(feature["values"])
                scale += [1.0] * len(feature["values"])
                continue
            column = np.array([value if isinstance(value, float) else math.nan for value in values])
            if feature["stand_in"] is not None:
                column = np.where(np.isfinite(column), column, feature["stand_in"])
            finite, varies = np.isfinite(column), feature["deviation"] > 0.0
            broken |= ~finite
            raw.append(np.where(finite & varies, column, 0.0))
            center.append(feature["mean"] if varies else 0.0)
            scale.append(feature["deviation"] if varies else 1.0)
        with np.errstate(all="ignore"):
            X = self._scaled(np.column_stack(raw), np.array(center), np.array(scale))
            if not fitted["unit_ball"]:
                broken |= ~np.isfinite(X.astype(np.float32)).all(axis=1)
        if fitted["bias"] > 0.0:
            X = np.column_stack([X, np.full(len(X), fitted["bias"])])
        X[broken] = 0.0
        return X

    def _scaled(
        self, raw: NDArray[np.float64], center: NDArray[np.float64], scale: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """The rows (raw − center)/scale, clipped to the unit ball for a linear model; nothing overflows."""
        top, up = np.frexp(raw * 0.25 - center * 0.25)
        bottom, down = np.frexp(scale)
        exponents = np.where(top == 0.0, -100_000, up - down + 2)
        largest = exponents.max(axis=1, keepdims=True)
        mantissas = np.ldexp(top / bottom, exponents - largest)
        if not self.preprocessing["unit_ball"]:
            return np.asarray(np.ldexp(mantissas, largest))
        bias, (radius, exponent) = self.preprocessing["bias"], math.frexp(self.preprocessing["radius"])
        bound = math.sqrt((1.0 - bias) * (1.0 + bias)) * (1.0 - 1e-12)
        lengths = np.sqrt((mantissas * mantissas).sum(axis=1, keepdims=True))
        return np.asarray(mantissas * np.minimum(np.ldexp(1.0 / radius, largest - exponent), bound / lengths))


class Linear:
    """A linear model of ours behind the verbs of a classifier of 0 and 1.

    Attributes:
        document: weights and loss, as `model.json` holds them.
    """

    def __init__(self, document: dict[str, Any]) -> None:
        self.document, self._weights = document, np.array(document["weights"])
        if document["loss"] == LOGISTIC:
            self.predict_proba = lambda rows: of_log_odds(self.decision_function(rows))

    def decision_function(self, rows: Any) -> NDArray[np.float64]:
        """The value wᵀx of each row, (m,)."""
        return np.asarray(rows @ self._weights)

    def predict(self, rows: Any) -> NDArray[np.intp]:
        """The predicted class of each row, (m,): 1 where wᵀx is above 0."""
        return np.asarray((self.decision_function(rows) > 0.0).astype(int))


class Repaired:
    """A classifier of two classes with recalibrated log-odds a·z + b, and a threshold of its own.

    Attributes:
        estimator: the classifier as it was.
        terms: "verb" by which it is asked; "slope" a and "intercept" b of its log-odds z, which are its decision
            values where it is "logistic"; "threshold" of what the verb gives, above which a row is of class 1.
    """

    def __init__(self, estimator: Any, terms: dict[str, Any]) -> None:
        self.estimator, self.terms = estimator, terms
        if terms["logistic"] or terms["verb"] == "predict_proba":
            self.predict_proba = lambda rows: of_log_odds(self.decision_function(rows))

    def decision_function(self, rows: Any) -> NDArray[np.float64]:
        """The recalibrated log-odds of each row, (m,); of a model without probabilities its own decision values."""
        values = self._decision_values(rows)
        if self.terms["verb"] == "predict_proba":
            values = np.clip(values, CERTAIN, 1.0 - CERTAIN)
            values = np.log(values) - np.log1p(-values)
        return np.asarray(self.terms["slope"] * values + self.terms["intercept"])

    def predict(self, rows: Any) -> NDArray[np.intp]:
        """The class of each row, (m,): 1 where its value before recalibration is above the repaired threshold."""
        return np.asarray((self._decision_values(rows) > self.terms["threshold"]).astype(int))

    def _decision_values(self, rows: Any) -> NDArray[np.float64]:
        """The wrapped classifier's decision values or, by its `verb`, probabilities of class 1, (m,)."""
        values = np.asarray(getattr(self.estimator, self.terms["verb"])(rows))
        return values[:, 1] if values.ndim == 2 else values


def of_log_odds(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities of both classes, (m, 2), from log-odds (m,)."""
    second = 0.5 * (1.0 + np.tanh(0.5 * values))
    return np.column_stack([1.0 - second, second])


class Trees:
    """LightGBM's trees behind the verbs of a classifier of 0, 1, …"""

    def __init__(self, booster: Any) -> None:
        self._booster = booster

    def predict_proba(self, rows: Any) -> NDArray[np.float64]:
        """The probability of each class, (m, C)."""
        probabilities = np.asarray(self._booster.predict(rows))
        return probabilities if probabilities.ndim == 2 else np.column_stack([1.0 - probabilities, probabilities])

    def predict(self, rows: Any) -> NDArray[np.intp]:
        """The index of the likeliest class of each row, (m,)."""
        return np.asarray(np.argmax(self.predict_proba(rows), axis=1))


class Behind:
    """A booster behind fitted transformers: it has the verbs that the booster has."""

    def __init__(self, before: Any, booster: Any) -> None:
        self._before, self._booster = before, booster

    def __getattr__(self, verb: str) -> Any:
        if verb not in VERBS:
            raise AttributeError(verb)
        asked = getattr(self._booster, verb)
        return lambda rows: asked(self._before.transform(rows))


def boosted(folder: Path, kind: Any, before: Any = None) -> Any:
    """Load the booster of library and class `kind` from `folder`, behind transformers `before`; else ValueError.

    Args:
        folder: of the model.
        kind: which it is, {"library", "class"}.
        before: fitted transformers that come before it; None where there are none.

    Raises:
        ValueError: it is none of those that are written, it is damaged, or its package is not installed.
    """
    library, kind = kind["library"], kind["class"]
    if library not in BOOSTERS or kind not in BOOSTERS[library][1]:
        raise ValueError("the model is of a booster that is not known here")
    path = folder / BOOSTERS[library][0]
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
    return booster if before is None else Behind(before, booster)


def data_frame(columns: list[dict[str, Any]], table: Any) -> Any:
    """The columns of `table` as a pandas.DataFrame of the types in training; refused where a value does not fit.

    Args:
        columns: what `model.json` says of them.
        table: a data frame or columns by name; a time may be a text in ISO 8601.

    Raises:
        ValueError: a value that cannot be put into its column; says where.
    """
    import pandas as pd

    return pd.DataFrame({column["name"]: series(column, list(table[column["name"]])) for column in columns})


def series(column: dict[str, Any], values: list[Any]) -> Any:
    """One column of the model's data frame, of the type that it had in training; refused where a value is not."""
    import pandas as pd

    kind, cells = column["kind"], []
    for row, value in enumerate(values):
        try:
            cells.append(cell(column, value))
        except (ValueError, TypeError, OverflowError):
            raise ValueError(f"column {column['name']!r} holds in row {row} what a {kind} cannot be") from None
    if kind == "category":
        return pd.Series(pd.Categorical(cells, categories=column["values"], ordered=column["ordered"]))
    if kind != "time":
        return pd.Series(np.array(cells, dtype=object), dtype=column["dtype"])
    times = pd.Series(np.array(cells, dtype="M8[us]"))
    return (times.dt.tz_localize("UTC") if "," in column["dtype"] else times).astype(column["dtype"])


def cell(column: dict[str, Any], value: Any) -> Any:
    """A value converted to its column's type, or refused, as a missing truth value is; other gaps are NaN or NaT.

    Raises:
        ValueError: it cannot be put into it.
    """
    import pandas as pd

    kind, missing = column["kind"], value is None or value is pd.NA or value is pd.NaT or value != value
    if kind == "time":
        time: Any = pd.NaT if missing else pd.Timestamp(value)
        if time is pd.NaT or (time.tzinfo is not None) != ("," in column["dtype"]):
            if time is pd.NaT:
                return np.datetime64("NaT", "us")
            raise ValueError
        return np.datetime64(time.tz_convert(None) if time.tzinfo is not None else time, "us")
    if kind == "truth":
        number = math.nan if missing else meaning(value)
        if number not in (0.0, 1.0):
            raise ValueError
        return bool(number)
    if missing:
        return math.nan
    if kind == "text":
        return shown(value)
    canonical = meaning(value)
    if kind == "category" and canonical not in column["values"]:
        raise ValueError
    if kind == "number" and not isinstance(canonical, float):
        raise ValueError
    return canonical


def shown(value: Any) -> str:
    """A value as a text: a whole number without its decimal point."""
    return str(int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value)


def written(value: Any) -> str:
    """The text that a value is in a column of texts."""
    number = value if isinstance(value, str | bool | np.bool_) else meaning(value)
    return "" if number in (math.inf, -math.inf) else shown(number).strip()


def meaning(value: Any) -> float | str:
    """The number or text that a value of a table stands for, NaN if neither."""
    if isinstance(value, bool | int | float | np.bool_ | np.integer | np.floating):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    if not isinstance(value, str):
        return math.nan
    text = value.strip()
    if "_" not in text:
        try:
            return float(text)
        except ValueError:
            pass
    word = text.lower()
    return float(word == "true") if word in ("true", "false") else text or math.nan


def _load_pyfunc(path: str) -> ServedModel:
    """MLflow's entry point that loads the model; nothing is unpickled.

    Raises:
        ValueError: it is of another format, or names a type that is not on the list.
    """
    folder = Path(path)
    document = json.loads((folder / NUMBERS).read_text(encoding="utf-8"))
    if document["format"] != FORMAT:
        raise ValueError("the model is of another format")
    estimator = Linear(document["linear"]) if "linear" in document else _fitted(folder, document.get("booster"))
    return ServedModel(document, Repaired(estimator, document["repaired"]) if "repaired" in document else estimator)


def _fitted(folder: Path, booster: Any) -> Any:
    """The saved estimator in a folder, its booster rebuilt if it has one; an untrusted type is refused.

    Raises:
        ValueError: it names a type that is not on the list.
    """
    if booster is not None and not (folder / ESTIMATOR).exists():
        return boosted(folder, booster)
    from skops import io

    data = (folder / ESTIMATOR).read_bytes()
    foreign = sorted({*io.get_untrusted_types(data=data)} - {*TRUSTED})
    if foreign:
        raise ValueError(f"the model names {foreign[0]}, which is not loaded")
    estimator = io.loads(data, trusted=list(TRUSTED))
    return estimator if booster is None else boosted(folder, booster, estimator)
