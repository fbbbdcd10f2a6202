"""The final model on disk: numbers as JSON, scikit-learn's estimators by skops. Nothing is unpickled.

    model.json         preprocessing; of a linear model ŵ, λ and its certificate; of an estimator its stand-in row
    booster.*          of LightGBM or XGBoost: its trees, in its own format, text or JSON; neither holds code
    estimator.skops    of any other, and what comes before a booster in a Pipeline: a zip of JSON and arrays
                       (`allow_pickle=False`), types named in the clear

skops builds only what it trusts by itself (scikit-learn's estimators, arrays, plain Python) and the types of a
list. That is a constant of `dpbo_served_model`, never read from a file, so no file can extend it. A type beyond it
is refused when saving and when loading.
A file changed by hand can still hold wrong numbers. What it cannot do is name code to run, hold a field of another
type (`fields`), or an index that points outside a tree, neighbours or support vectors (`structure`).

MLflow carries code along with a model (`write_served_code`): copies of the modules that encode a record and
predict. They stand in a package of another name, so that a model is served by the code that scored the validation
records: without dpbo, and beside an installed dpbo of another version too.
"""

import hashlib
import importlib
import inspect
import json
import re
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.data import Preprocessing
from dpbo_core.errors import StudyInvalid
from dpbo_core.models.final_model.dpbo_served_model import BOOSTER_FILES as BOOSTER_FILES
from dpbo_core.models.final_model.dpbo_served_model import ESTIMATOR as ESTIMATOR
from dpbo_core.models.final_model.dpbo_served_model import FORMAT_VERSION, Linear, Repaired, boosted
from dpbo_core.models.final_model.dpbo_served_model import NUMBERS as NUMBERS
from dpbo_core.models.final_model.dpbo_served_model import TRUSTED_TYPES as TRUSTED_TYPES
from dpbo_core.models.linear.fit import LinearModel

if TYPE_CHECKING:
    from dpbo_core.models.estimators import FittedEstimator, Model


def write(folder: Path, preprocessing: Preprocessing, model: "Model", loss: str | None) -> None:
    """Write a model, its preprocessing and a linear model's `loss` into `folder`; refused if unsafe to load."""
    fields = asdict(preprocessing) | {"ignored": sorted(preprocessing.ignored)}
    document: dict[str, Any] = {"format": FORMAT_VERSION, "preprocessing": fields}
    document |= (
        {"linear": linear_fields(model, loss)} if isinstance(model, LinearModel) else _write_fitted(folder, model)
    )
    (folder / NUMBERS).write_text(json.dumps(document, allow_nan=False), encoding="utf-8")


def _write_fitted(folder: Path, model: "FittedEstimator") -> dict[str, Any]:
    """Write the estimator of a model into `folder`; returns the JSON fields that say how to read it again."""
    fields: dict[str, Any] = {}
    estimator = model.estimator
    if isinstance(estimator, Repaired):
        fields["repaired"], estimator = estimator.terms, estimator.estimator
    if isinstance(estimator, Linear):
        return fields | {"linear": estimator.document}
    fields["stand_in"] = [None if cell != cell else cell for cell in model.stand_in.tolist()]
    return fields | _write_estimator(folder, estimator)


def _write_estimator(folder: Path, estimator: Any) -> dict[str, Any]:
    """Write an estimator into `folder`, foreign classes from a child process; returns how to read its booster."""
    from dpbo_core.models.isolated_estimator import IsolatedEstimator
    from dpbo_core.models.public_process import numbers_of

    if isinstance(estimator, IsolatedEstimator):
        fields = numbers_of(_write_pickled, estimator.pickled, folder.resolve())
        return dict(json.loads(fields.tobytes()))
    rest, booster = parted(estimator)
    if rest is not None:
        (folder / ESTIMATOR).write_bytes(_dumped(rest))
    if booster is None:
        return {}
    library = _library(booster)
    saved = booster.booster_ if library == "lightgbm" else booster
    saved.save_model(str(folder / BOOSTER_FILES[library][0]))
    return {"booster": {"library": library, "class": type(booster).__name__}}


def _write_pickled(estimator: Any, folder: Path) -> NDArray[np.uint8]:
    """Return `_write_estimator`'s result as JSON in an array: the child process alone may unpickle it."""
    from dpbo_core.models.isolated_estimator import opened

    return np.frombuffer(json.dumps(_write_estimator(folder, opened(estimator))).encode(), dtype=np.uint8)


def linear_fields(model: LinearModel, loss: str | None) -> dict[str, Any]:
    """Return the fields of `model.json` for a linear model."""
    return {
        "weights": model.weights.tolist(),
        "lambda": model.regularization,
        "certificate": model.certificate,
        "loss": loss,
    }


def read(folder: Path) -> "tuple[Preprocessing, Model, str | None]":
    """Return the preprocessing, model and loss that `write` wrote; None unless linear and not recalibrated."""
    from dpbo_core.models.estimators import FittedEstimator
    from dpbo_core.models.final_model.fields import cells_of, linear_of, preprocessing_of, row_of, terms_of

    try:
        document = json.loads((folder / NUMBERS).read_text(encoding="utf-8"), parse_constant=_not_finite)
        if document["format"] != FORMAT_VERSION:
            raise ValueError
        preprocessing, loss = preprocessing_of(document["preprocessing"]), None
        if "linear" in document:
            weights, regularization, certificate, loss = linear_of(document["linear"], preprocessing.n_features)
            ours = LinearModel(weights, regularization, certificate)
            model: Model = ours
            if "repaired" in document:
                repaired = Repaired(Linear(linear_fields(ours, loss)), terms_of(document["repaired"]))
                model, loss = FittedEstimator(repaired, np.zeros(preprocessing.n_features)), None
        else:
            columns, stand_in = preprocessing.columns, document["stand_in"]
            stand_in = (
                row_of(stand_in, preprocessing.n_features) if columns is None else cells_of(stand_in, columns)
            )
            estimator = _estimator(folder, document.get("booster"))
            if "repaired" in document:
                estimator = Repaired(estimator, terms_of(document["repaired"]))
            model = FittedEstimator(estimator, stand_in, columns=columns)
    except StudyInvalid:
        raise
    except (OSError, AttributeError, LookupError, TypeError, ValueError, ArithmeticError, RecursionError):
        pass
    else:
        return preprocessing, model, loss
    raise _unreadable_model(folder / NUMBERS)


def parted(estimator: Any) -> tuple[Any, Any]:
    """Split an estimator into (the part before a booster at its end, that booster); None for what it lacks."""
    from sklearn.pipeline import Pipeline

    if isinstance(estimator, Repaired):
        estimator = estimator.estimator
    if _library(estimator):
        return None, estimator
    if type(estimator) is Pipeline and len(estimator.steps) > 1 and _library(estimator.steps[-1][1]):
        return estimator[:-1], estimator.steps[-1][1]
    return estimator, None


def packages_of(estimator: Any) -> tuple[str, ...]:
    """Return the installed distribution (xgboost-cpu, say) of the estimator's boosting library: a name or none."""
    from dpbo_core.models.import_path import distributions_of_packages
    from dpbo_core.models.isolated_estimator import IsolatedEstimator

    if isinstance(estimator, IsolatedEstimator):
        packages = (name.partition(".")[0] for name in estimator.modules)
        library = next((name for name in packages if name in BOOSTER_FILES), "")
    else:
        library = _library(parted(estimator)[1])
    return tuple(distributions_of_packages()[library][:1]) if library else ()


def is_linear(estimator: Any) -> bool:
    """Whether the estimator is dpbo's own linear model, recalibrated, which needs no scikit-learn to be loaded."""
    return isinstance(estimator, Repaired) and isinstance(estimator.estimator, Linear)


def _library(estimator: Any) -> str:
    """Return the package of a booster that its saved trees determine completely; "" for any other estimator."""
    kind = type(estimator)
    if callable(getattr(estimator, "objective", None)) or getattr(estimator, "pred_early_stop", False):
        # A custom objective function, or early stopping, changes predictions, and is not saved with the trees.
        return ""
    library = kind.__module__.partition(".")[0]
    if library not in BOOSTER_FILES or kind.__name__ not in BOOSTER_FILES[library][1]:
        return ""
    return library if getattr(importlib.import_module(library), kind.__name__, None) is kind else ""


def _dumped(estimator: Any) -> bytes:
    """Return the estimator in skops format; refused if loading it would need a function or an untrusted type."""
    from skops import io

    try:
        data: bytes = io.dumps(estimator)
        foreign = sorted({*io.get_untrusted_types(data=data)} - {*TRUSTED_TYPES})
    except Exception as error:  # noqa: BLE001  whatever a foreign estimator raises; it was trained on public rows
        foreign = [f"{type(estimator).__module__}.{type(estimator).__qualname__} ({type(error).__name__})"]
    if any(name.startswith("functools.partial") for name in foreign):
        raise StudyInvalid(
            "the final model is not written: it holds a function (functools.partial)",
            cause='HistGradientBoosting with categorical_features = "from_dtype", its default, keeps one '
            "where a column is a category; a step of your own may as well",
            remedy="encode the categories in a ColumnTransformer, and give it categorical_features=None",
        )
    if foreign:
        raise StudyInvalid(
            f"the final model is not written: {foreign[0]} could not be loaded without running its own code",
            cause="an estimator or a function that is not scikit-learn's",
            remedy="train it yourself on the public set at the released hyperparameters",
        )
    return data


def _estimator(folder: Path, booster: Any) -> Any:
    if booster is None:
        return loaded_estimator(folder / ESTIMATOR, verb="predict")
    before = loaded_estimator(folder / ESTIMATOR, verb="transform") if (folder / ESTIMATOR).exists() else None
    try:
        return boosted(folder, booster, before)
    except ValueError as error:
        raise StudyInvalid(
            f"no final model can be read from {str(folder)!r}",
            cause=str(error),
            remedy="install the package, or publish the release again",
        ) from None


def loaded_estimator(path: Path, *, verb: str, content: bytes | None = None) -> Any:
    """Return the estimator in a skops file (or its `content`), refused if untrusted, damaged or without `verb`."""
    from skops import io

    from dpbo_core.models.final_model.structure import check_structure, clear_padding

    try:
        data = path.read_bytes() if content is None else content
        foreign = sorted({*io.get_untrusted_types(data=data)} - {*TRUSTED_TYPES})
        estimator = None if foreign else io.loads(data, trusted=list(TRUSTED_TYPES))
        check_structure(estimator)
        clear_padding(estimator)
    except Exception:  # noqa: BLE001  a damaged zip fails in a hundred ways
        foreign, estimator = [], None
    if foreign:
        raise StudyInvalid(
            f"the model in {str(path)!r} names {foreign[0]}, which is not loaded",
            cause="another program wrote it, or somebody changed it",
            remedy="publish the release again; of a model of your own, use a column of its predictions",
        )
    if not callable(getattr(estimator, verb, None)):
        raise _unreadable_model(path)
    return estimator


def _not_finite(constant: str) -> float:
    raise ValueError(constant)


def _unreadable_model(path: Path) -> StudyInvalid:
    return StudyInvalid(
        f"no final model can be read from {str(path)!r}",
        cause="another version of dpbo or scikit-learn wrote it, or it is damaged or missing",
        remedy="publish the release again",
    )


_LOADER = "models.final_model.dpbo_served_model"
_IMPORT = re.compile(r"^from dpbo_core\.([\w.]+) import", re.MULTILINE)


def write_served_code(folder: Path) -> tuple[Path, str]:
    """Write the package into `folder`; returns its path and the name of the module that loads the model.

    The package is named after its content: models of two versions of dpbo can be loaded in one process.
    """
    sources: dict[str, str] = {}
    waiting = [_LOADER]
    while waiting:
        name = waiting.pop()
        if name not in sources:
            sources[name] = Path(inspect.getfile(import_module(f"dpbo_core.{name}"))).read_text(encoding="utf-8")
            waiting += _IMPORT.findall(sources[name])
    digest = hashlib.sha256("".join(sources[name] for name in sorted(sources)).encode()).hexdigest()
    package = f"dpbo_served_{digest[:8]}"
    for name, source in sources.items():
        path = folder.joinpath(package, *name.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_IMPORT.sub(rf"from {package}.\1 import", source), encoding="utf-8")
    return folder / package, f"{package}.{_LOADER}"
