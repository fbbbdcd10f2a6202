"""Importing the estimator or score function that a study file names: from installed packages, by public names only.

A class is named by its import path, an object as "module:name". The module of an object may be a file beside the
study: code that the study's author wrote, and that is run to make the object; whoever may start studies of others
may not name one (`preconditions.refuse_beside`). Such a module is known by a hash of its text, so that another text
is another module, and a class that is defined in it another class.
"""

import difflib
import hashlib
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from dpbo_core.errors import StudyInvalid
from dpbo_core.models.estimator_allowlist.classes import PREDICTORS

_VERBS = ("fit", "predict", "get_params", "set_params")
STUDY_MODULE_PREFIX = "dpbo_beside_study_"
EXAMPLE_REFERENCE = 'estimator = "risk_model:pipeline", and in risk_model.py: pipeline = make_pipeline(...)'


def function_at(path: str) -> Callable[..., Any]:
    """Import the score function at a path such as "ourpackage.scores.utility"."""
    function = named_object(path, "function", "ourpackage.scores.utility", "[model] score")
    if not callable(function) or inspect.isclass(function):
        raise StudyInvalid(
            f"{path!r} is not a function",
            cause="it cannot be called, or it is a class",
            remedy="name a function of one record: its truth and its prediction",
        )
    return function  # type: ignore[no-any-return]


def estimator_class(path: str) -> type[Any]:
    """Import the estimator class at `path`, such as "sklearn.ensemble.RandomForestClassifier"; another is refused.

    Nothing is imported before the path is a dotted chain of public names whose first one an installed distribution
    provides: a study file cannot run a file that happens to lie beside it, nor reach into the standard library.
    """
    estimator_class = named_object(path)
    check_verbs(estimator_class, path)
    if not inspect.isclass(estimator_class):
        raise StudyInvalid(
            f"{path!r} is not a scikit-learn estimator",
            cause="it is not a class",
            remedy="name a class with " + ", ".join(_VERBS),
        )
    return estimator_class


def check_verbs(estimator_class: Any, path: str) -> None:
    """Refuse a class without the methods fit, predict, get_params and set_params."""
    missing = [verb for verb in _VERBS if not callable(getattr(estimator_class, verb, None))]
    if "predict" in missing and callable(getattr(estimator_class, "transform", None)):
        raise StudyInvalid(
            f"{path!r} predicts nothing: it transforms columns",
            cause="it has no predict: a scaler or an encoder was named in the model's place",
            remedy="name the model; numbers are scaled before it unless [model] has standardize = false",
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
    """Import the object at a path into an installed package; an error says `what` it is, `example` and `key`."""
    article = "an" if what[0] in "aeiou" else "a"
    names = path.split(".") if isinstance(path, str) else []
    if len(names) < 2 or not all(name.isidentifier() and not name.startswith("_") for name in names):
        raise StudyInvalid(
            f"{path!r} is not the import path of {article} {what}",
            cause="a package, a dot and a name are needed, and no name may start with an underscore",
            remedy=f'write it like "{example}"',
        )
    if names[0] != "sklearn" and not is_provided(names[0]):  # scikit-learn came with dpbo
        hint = f" (pip install {PREDICTORS[path].package})" if path in PREDICTORS else ""
        raise StudyInvalid(
            f"{path!r} is not in an installed package",
            cause=f"no installed distribution provides {names[0]!r}",
            remedy=f"install the package in this environment{hint}, or correct the first name",
        )
    module_path, _, class_name = path.rpartition(".")
    member, why = None, f"{module_path!r} has no {class_name!r}"
    try:
        member = getattr(importlib.import_module(module_path), class_name, None)
    except (Exception, SystemExit) as error:  # noqa: BLE001  a module may do anything when it is imported
        why = f"importing {module_path!r} failed with {type(error).__name__}"
    if member is None:
        raise StudyInvalid(
            f"no {what} could be imported from {path!r}", cause=why, remedy=f"correct the path in {key}"
        )
    return member


def file_beside(path: str, folder: str | Path) -> Path | None:
    """Return the Python file beside the study that `path` ("risk_model:pipeline") names; None if there is none."""
    module, colon, _ = path.partition(":")
    file = Path(folder) / f"{module}.py"
    return file if colon and module.isidentifier() and file.is_file() else None


def estimator_named(path: str, folder: str | Path) -> Any:
    """Return the estimator object at "module:name", of a package or a Python file beside the study, which runs."""
    module, _, name = path.partition(":")
    if not name.isidentifier() or name.startswith("_"):
        raise StudyInvalid(
            f"{path!r} names no estimator",
            cause="a module, a colon and a name are needed",
            remedy=f"write {EXAMPLE_REFERENCE}",
        )
    file = file_beside(path, folder)
    if file is not None:
        estimator = getattr(_import_file(file), name, None)
    elif "." not in module and module != "sklearn" and not is_provided(module):
        raise StudyInvalid(
            f"there is no file {module}.py beside the study, which names the estimator {path!r}",
            cause="the file lies elsewhere or has another name, and no installed package has it",
            remedy=f"write {EXAMPLE_REFERENCE}",
        )
    else:
        estimator = named_object(f"{module}.{name}")
    if estimator is None:
        raise StudyInvalid(
            f"{module}.py has no {name!r}",
            cause="a misspelt name",
            remedy=f"write {EXAMPLE_REFERENCE}, at the top of the file",
        )
    if isinstance(estimator, type) or not hasattr(estimator, "get_params"):
        kind = "a class" if isinstance(estimator, type) else f"a {type(estimator).__name__}"
        raise StudyInvalid(
            f"{path!r} is no estimator but {kind}",
            cause="the name is that of a function that makes it, or of its class",
            remedy=f"name the object itself: {EXAMPLE_REFERENCE}",
        )
    check_verbs(estimator, path)
    return estimator


def _import_file(file: Path) -> ModuleType:
    """Run a Python file as a module named by a hash of its text, once a process; refused if it raises."""
    text, failed = file.read_bytes(), ""
    name = STUDY_MODULE_PREFIX + hashlib.sha256(text).hexdigest()[:16]
    if name in sys.modules:
        return sys.modules[name]
    module = ModuleType(name)
    module.__file__ = str(file)
    sys.modules[name] = module
    try:
        exec(compile(text, str(file), "exec"), module.__dict__)  # noqa: S102  the study's author wrote it
    except (Exception, SystemExit) as error:  # noqa: BLE001  a module may do anything when it is imported
        message = (str(error).strip().splitlines() or [""])[0][:200]
        failed = f"{type(error).__name__}: {message}"
    if failed:
        del sys.modules[name]
        raise StudyInvalid(
            f"{file.name}, which names the study's estimator, cannot be imported",
            cause=failed,
            remedy="run it with python; it can import installed packages, and no other file beside it",
        )
    return module


def is_provided(package: str) -> bool:
    """Return whether an installed distribution provides a package; for speed that of the same name comes first."""
    with suppress(metadata.PackageNotFoundError):
        own = metadata.distribution(package)
        names = f"{own.read_text('top_level.txt')}\n{own.read_text('RECORD')}"
        if re.search(rf"^{re.escape(package)}(/|\.py,|$)", names, re.MULTILINE):
            return True
    return package in distributions_of_packages()


def distributions_of_packages() -> Mapping[str, list[str]]:
    """Return the installed distributions that provide each importable package.

    To read the lists of all that is installed takes half a second, and a study asks for each name in it: they are
    read again only when a folder has changed.
    """
    folders = [Path(str(folder)) for folder in sys.path]
    changed = tuple((folder, folder.is_dir() and folder.stat().st_mtime_ns) for folder in folders)
    return _look_up(metadata.packages_distributions, changed)


@lru_cache(maxsize=2)
def _look_up(
    look: Callable[[], Mapping[str, list[str]]], _: tuple[tuple[Path, int], ...]
) -> Mapping[str, list[str]]:
    return look()


def check_names(names: list[str], valid: list[str], *, display_name: str) -> None:
    """Refuse a hyperparameter that is no parameter of the estimator."""
    for name in names:
        if name not in valid:
            by_case = {other.lower(): other for other in valid}
            near = difflib.get_close_matches(name.lower(), by_case, n=1, cutoff=0.0)
            raise StudyInvalid(
                f"{display_name} has no parameter {name!r}",
                cause="a misspelt name in [space] or [model]",
                remedy=f"the nearest valid name is {by_case[near[0]]!r}" if near else "it takes no parameters",
            )
