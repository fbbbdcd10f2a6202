"""From an import path in a study file to an estimator class: installed packages only, public names only."""

import importlib
import inspect
from collections.abc import Callable
from typing import Any

from dpbo_core.errors import StudyInvalid
from dpbo_core.models.installed import distributions_of_packages
from dpbo_core.models.listed.classes import PREDICTORS

_VERBS = ("fit", "predict", "get_params", "set_params")


def function_at(
    path: str, key: str = "[model] score", of: str = "one record: its truth and its prediction"
) -> Callable[..., Any]:
    """The function at `path`, such as "ourpackage.scores.utility", under the same rules.

    Args:
        path: as the study has it.
        key: where it stands in the study.
        of: what it is a function of.

    Raises:
        StudyInvalid: a malformed path, a package that is not installed, an import that fails, or no function.
    """
    found = named_object(path, "function", "ourpackage.scores.utility", key)
    if not callable(found) or inspect.isclass(found):
        raise StudyInvalid(
            f"{path!r} is not a function",
            cause="it cannot be called, or it is a class",
            remedy=f"name a function of {of}",
        )
    return found  # type: ignore[no-any-return]


def estimator_class(path: str) -> type[Any]:
    """The class at `path`, such as "sklearn.ensemble.RandomForestClassifier".

    Nothing is imported before the path is a dotted chain of public names whose first one an installed distribution
    provides: a study file cannot run a file that happens to lie beside it, nor reach into the standard library.

    Raises:
        StudyInvalid: a malformed path, a package that is not installed, an import that fails, or an object that is
            not a class with fit, predict, get_params and set_params.
    """
    found = named_object(path)
    check_verbs(found, path)
    if not inspect.isclass(found):
        raise StudyInvalid(
            f"{path!r} is not a scikit-learn estimator",
            cause="it is not a class",
            remedy="name a class with " + ", ".join(_VERBS),
        )
    return found


def check_verbs(found: Any, path: str) -> None:
    """It can be fitted, predicts, and has parameters.

    Raises:
        StudyInvalid: it cannot.
    """
    missing = [verb for verb in _VERBS if not callable(getattr(found, verb, None))]
    if "predict" in missing and callable(getattr(found, "transform", None)):
        raise StudyInvalid(
            f"{path!r} predicts nothing: it transforms columns",
            cause="it has no predict: a scaler or an encoder was named in the model's place",
            remedy="name the model; numbers are scaled before it unless [model] says standardize = false",
        )
    if missing:
        raise StudyInvalid(
            f"{path!r} is not a scikit-learn estimator",
            cause="it has no " + ", ".join(missing),
            remedy="name a class with " + ", ".join(_VERBS),
        )


def named_object(
    path: str,
    what: str = "estimator",
    example: str = "sklearn.ensemble.RandomForestClassifier",
    key: str = "[model] estimator",
) -> Any:
    """Whatever is at `path`, under the same rules.

    Raises:
        StudyInvalid: a malformed path, a package that is not installed, an import that fails, or nothing there.
    """
    article = "an" if what[0] in "aeiou" else "a"
    names = path.split(".") if isinstance(path, str) else []
    if len(names) < 2 or not all(name.isidentifier() and not name.startswith("_") for name in names):
        raise StudyInvalid(
            f"{path!r} is not the import path of {article} {what}",
            cause="a package, a dot and a name are needed, and no name may start with an underscore",
            remedy=f'write it like "{example}"',
        )
    if names[0] != "sklearn" and names[0] not in distributions_of_packages():  # scikit-learn came with dpbo
        raise StudyInvalid(
            f"{path!r} is not in an installed package",
            cause=f"no installed distribution provides {names[0]!r}",
            remedy=f"install the package in this environment{_how(path)}, or correct the first name",
        )
    module_path, _, class_name = path.rpartition(".")
    found, why = None, f"{module_path!r} has no {class_name!r}"
    try:
        found = getattr(importlib.import_module(module_path), class_name, None)
    except (Exception, SystemExit) as error:  # noqa: BLE001  a module may do anything when it is imported
        why = f"importing {module_path!r} failed with {type(error).__name__}"
    if found is None:
        raise StudyInvalid(
            f"no {what} could be imported from {path!r}",
            cause=why,
            remedy=f"correct the path in {key}",
        )
    return found


def _how(path: str) -> str:
    """How a package whose classes are on the list is installed; "" for any other."""
    entry = PREDICTORS.get(path)
    return "" if entry is None else f" (pip install {entry.package})"
