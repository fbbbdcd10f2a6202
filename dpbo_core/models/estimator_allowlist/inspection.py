"""The check that an estimator, its parameters and its fitted attributes consist of allowlisted classes alone.

Classes are compared by identity, never by name, because another package's class may have any name. The first part
that is neither plain data nor on the list is reported by name; none of its code is called.
"""

import importlib
import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, partial, partialmethod
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from dpbo_core.errors import StudyInvalid
from dpbo_core.models.estimator_allowlist.classes import (
    CHECK_FUNCTION,
    DISTRIBUTIONS,
    FUNCTIONS,
    PARTS,
    PREDICTORS,
    REVIEWED_VERSIONS,
    SCIKIT_LEARN,
    TRANSFORMERS,
    AllowlistEntry,
)

_PLAIN_TYPES = (type(None), bool, int, float, complex, str, bytes, range, type(...))
_SEQUENCE_TYPES = (list, tuple, set, frozenset)
REQUEST_METHOD = "sklearn.utils._metadata_requests.RequestMethod"
_CALLABLE_TYPES = (FunctionType, BuiltinFunctionType, MethodType, ModuleType, np.ufunc)


def unlisted_part(estimator: Any) -> str:
    """Return why an estimator is not on the allowlist, its first unlisted part or package version; "" if it is."""
    return unread_version() or next(_unlisted_parts(estimator, {}, set()), "")


def check_listed(estimator: Any) -> None:
    """Refuse a fitted estimator that holds something off the allowlist, by a hyperparameter or by fitting."""
    if part := unlisted_part(estimator):
        raise StudyInvalid(
            f"{type(estimator).__name__} was guaranteed without an assumption, and it holds {part}",
            cause="a hyperparameter, or fitting, put something into it that is not known to predict each row alone",
            remedy='use rowwise = "enforced", accept "rowwise_predictions", or leave those hyperparameters out',
        )


def _unlisted_parts(item: Any, seen: dict[int, Any], checked: set[int]) -> Iterator[str]:
    """Yield as text every part not on the allowlist; skips and extends objects `seen` and classes `checked`."""
    kind = type(item)
    if _among(kind, _PLAIN_TYPES) or _plain_of_numpy(item) or id(item) in seen:
        return
    seen[id(item)] = item  # kept alive so that no number is used twice
    if kind is slice:
        yield from _unlisted_parts([item.start, item.stop, item.step], seen, checked)
    elif _among(kind, _SEQUENCE_TYPES):
        for inner in item:
            yield from _unlisted_parts(inner, seen, checked)
    elif kind is dict:
        for key, value in item.items():
            yield from _unlisted_parts(key, seen, checked)
            yield from _unlisted_parts(value, seen, checked)
    elif kind is np.ndarray:
        for inner in item.ravel().tolist():  # of objects: numbers were plain
            yield from _unlisted_parts(inner, seen, checked)
    elif _among(kind, _CALLABLE_TYPES) or issubclass(kind, type):
        if not _is_listed(item):
            yield _name_in_words(item)
    else:
        entry = _entry(kind)
        if entry is None:
            yield _name_in_words(kind)
            return
        if id(kind) not in checked:
            checked.add(id(kind))
            yield from filter(None, (_replaced(kind), unread_version(entry.package)))
        if entry.closed:
            return
        if kind is partial and item.func is not imported(CHECK_FUNCTION):
            yield f"a partial of {_name_in_words(item.func)}"  # an `out` or a `where` shows what lay in memory
        hidden = [name for name in getattr(item, "__dict__", {}) if callable(getattr(kind, name, None))]
        if hidden:
            yield f"{kind.__name__} with its {hidden[0]} replaced"
        held = _contents(item, entry)
        if refusal := entry.refusal(held):
            yield f"{kind.__name__} with {refusal}"
        # A listed class's own methods may be among its parameters; they were checked with the class.
        own = [member for owner in kind.__mro__ for member in vars(owner).values() if type(member) is FunctionType]
        others = {name: value for name, value in held.items() if not any(value is method for method in own)}
        yield from _unlisted_parts(others, seen, checked)


def _plain_of_numpy(item: Any) -> bool:
    kind = type(item)
    if kind is np.ndarray:
        return not item.dtype.hasobject
    return _among(kind, _numbers_of_numpy()) and not (kind is np.void and item.dtype.hasobject)


@cache
def _numbers_of_numpy() -> tuple[type, ...]:
    described = [getattr(np.dtypes, name) for name in np.dtypes.__all__]
    return tuple(dict.fromkeys([*np.sctypeDict.values(), *described]))


def _among(kind: object, kinds: Iterable[object]) -> bool:
    """Return whether `kind` is one of `kinds`, by identity, so that no metaclass's equality is called."""
    return any(kind is other for other in kinds)


def _contents(item: Any, entry: AllowlistEntry) -> dict[str, Any]:
    """Return what an object of a listed class holds, by name: attributes, items, a compiled one's pickled state."""
    held = dict(getattr(item, "__dict__", {}))  # the class is listed, so nothing of a stranger's is called
    if entry.compiled:
        held |= {"pickled": list(item.__reduce_ex__(2)[1:])}
    elif type(item) is partial:
        held |= {"func": item.func, "args": item.args, "keywords": item.keywords}
    elif isinstance(item, dict):
        held |= dict(item)
        if type(item) is defaultdict:
            held |= {"default_factory": item.default_factory}
    return held


@cache
def _entries_by_module() -> Mapping[str, Mapping[str, AllowlistEntry]]:
    entries: dict[str, dict[str, AllowlistEntry]] = defaultdict(dict)
    for path, entry in {**PREDICTORS, **TRANSFORMERS, **PARTS}.items():
        module, _, name = path.rpartition(".")
        entries[module][name] = entry
    return entries


@cache
def _listed_in(module: str) -> tuple[tuple[type, AllowlistEntry], ...]:
    classes = ((imported(f"{module}.{name}"), entry) for name, entry in _entries_by_module()[module].items())
    return tuple((kind, entry) for kind, entry in classes if isinstance(kind, type))


def _entry(kind: object) -> AllowlistEntry | None:
    loaded = (module for module in _entries_by_module() if module in sys.modules)
    return next((entry for module in loaded for listed, entry in _listed_in(module) if listed is kind), None)


@cache
def _listed_functions() -> tuple[Any, ...]:
    return tuple(function for path in FUNCTIONS if (function := imported(path)) is not None)


@cache
def imported(path: str) -> Any:
    """Return the object at an import path of the allowlist; None if the installed version has none."""
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None


def _is_listed(item: Any) -> bool:
    if type(item) is np.ufunc:
        return item.nin == item.nout == 1 and getattr(np, item.__name__, None) is item
    if issubclass(type(item), type):
        return _among(item, (bool, int, float, str, object, *_numbers_of_numpy())) or _entry(item) is not None
    return any(item is function for function in _listed_functions())


def _replaced(kind: type) -> str:
    """Return as text the first method of a class whose code is not in its own package, so was replaced; or ""."""
    for owner in kind.__mro__:
        home = _home(owner.__module__.partition(".")[0])
        if home is None:
            continue
        for name, member in vars(owner).items():
            if _is_foreign(member, owner) or any(
                not (Path(file).is_relative_to(home) or _of_python(file)) for file in _files(member)
            ):
                return f"{kind.__name__} with its {name} replaced"
    return ""


def _is_foreign(member: Any, owner: type) -> bool:
    """Return whether a class member comes from another package, or is code without a file, such as from `exec`.

    Classes with dataclass or named-tuple fields have generated methods without a file, which are allowed.
    """
    packages = {owner.__module__.partition(".")[0], *sys.stdlib_module_names}
    package = type(member).__module__.partition(".")[0]
    if type(member) is imported(REQUEST_METHOD):  # in every class of scikit-learn's; no verb of a study's
        return False
    if not (package in packages or package.startswith("_cython_")) or type(member) in (partial, partialmethod):
        return True
    generated = any(name in vars(owner) for name in ("__dataclass_fields__", "_fields"))
    typed = type(member) is FunctionType and member.__code__.co_filename.startswith("<")
    return typed and not generated


@cache
def _home(package: str) -> Path | None:
    file = getattr(importlib.import_module(package), "__file__", None)
    return None if file is None or package == "builtins" else Path(file).parent


def _of_python(file: str) -> bool:
    """Return whether a file is the standard library's own, and not of a package installed beside it."""
    path = Path(file)
    return path.is_relative_to(Path(os.__file__).parent) and not {"site-packages", "dist-packages"} & {*path.parts}


def _files(member: Any) -> Iterator[str]:
    """Yield the files that a method's code, and the code it wraps, come from; none for compiled code."""
    while member is not None:
        member = getattr(member, "__func__", None) or getattr(member, "fget", None) or member
        if type(member) is FunctionType and not member.__code__.co_filename.startswith("<"):
            yield member.__code__.co_filename
        member = getattr(member, "__wrapped__", None) or getattr(member, "fn", None)


def _name_in_words(item: Any) -> str:
    if type(item) is ModuleType:
        return f"the module {item.__name__}"
    module, name = getattr(item, "__module__", None), getattr(item, "__qualname__", None)
    return f"{module or 'unknown'}.{name or type(item).__name__}"


def unread_version(package: str = SCIKIT_LEARN) -> str:
    """Return why the allowlist does not cover a package's imported, else installed, version; "" if it does."""
    loaded = getattr(sys.modules.get("sklearn" if package == SCIKIT_LEARN else package), "__version__", "")
    installed = str(loaded) or next(filter(None, map(_installed, DISTRIBUTIONS.get(package, (package,)))), "")
    try:
        number = tuple(int(part) for part in installed.split(".")[:2])
    except ValueError:
        return f"a {package} without a version"
    first, last = REVIEWED_VERSIONS[package]
    if first <= number <= last:
        return ""
    return f"{package} {installed}, whose code was not read for the list of known classes"


def _installed(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""


def unlisted_name(path: str, params: Mapping[str, Any], axes: Mapping[str, Iterable[Any]]) -> str:
    """Return why an estimator of a study is not known to predict each row from that row alone; "" if it is.

    `params` are fixed; `axes` has the values that a search may give to each parameter.
    """
    entry = PREDICTORS.get(path)
    if entry is None:
        return path
    refused = entry.refusal(params)
    for name, values in axes.items():
        for value in values:
            refused = refused or entry.refusal({name: value})
    wrong = unread_version() or unread_version(entry.package)
    return wrong or (f"{path.rpartition('.')[2]} with {refused}" if refused else "")
