"""Restoring what a third-party estimator's classes and modules changed while it predicted.

What such a class keeps of sensitive rows would reach whatever it does next in this process, such as the public
training of a later study. Put back are the attributes of the classes that the estimator is made of and of those
beside them in their modules, and the globals that their methods name, with what plain containers in these, and in
the methods' default arguments and closures, hold. State elsewhere (an object, a file, a large array) is not seen:
`rowwise = "enforced"` leaves none anywhere.
"""

import sys
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import CodeType, FunctionType
from typing import Any, cast

import numpy as np

_LIBRARY_PACKAGES = (
    "builtins",
    "collections",
    "dpbo",
    "dpbo_core",
    "joblib",
    "numpy",
    "pandas",
    "scipy",
    "sklearn",
)
_PLAIN_TYPES = (type(None), bool, int, float, complex, str, bytes, tuple)
_CONTAINER_TYPES = (list, dict, set, deque, bytearray, np.ndarray)
MAX_OBJECTS = 10_000  # that are looked through in an estimator, or in what its classes hold
MAX_BYTES = 2**24  # of a container: a larger one is a table to look things up in, and is not copied
_ABSENT_VALUE = object()


def foreign_classes(estimator: Any) -> tuple[type, ...]:
    """Return the third-party classes of an estimator and its parts, and all other classes in the same modules."""
    classes = {kind for part in _parts(estimator) for kind in type.mro(type(part)) if _is_foreign(kind)}
    spaces = {module: vars(sys.modules[module]) for module in map(_module_of, classes) if module in sys.modules}
    beside = [
        kind
        for module, space in spaces.items()
        for kind in tuple(space.values())
        if issubclass(type(kind), type) and _module_of(kind) == module
    ]
    return tuple(dict.fromkeys((*classes, *beside)))


@contextmanager
def restored(classes: tuple[type, ...]) -> Iterator[None]:
    """Context that restores the classes' attributes, and the globals that their methods name, when it ends.

    Lists, dicts, sets and small arrays in these are restored in place, so that every reference to them sees it.
    """
    if not classes:
        yield
        return
    before = [(kind, dict(_namespace(kind))) for kind in classes]
    functions = list(_functions(classes))
    modules = [
        (f.__globals__, {name: f.__globals__.get(name, _ABSENT_VALUE) for name in _names(f.__code__)})
        for f in functions
    ]
    parts = [part for function in functions for part in _parts_of_function(function)]
    held = _contents([*parts, *(value for _, items in (*before, *modules) for value in items.values())])
    try:
        yield
    finally:
        for kind, attributes in before:
            _put_back(kind, attributes)
        for space, items in modules:
            for name, value in items.items():
                if value is _ABSENT_VALUE:
                    space.pop(name, None)
                elif type(value) in _PLAIN_TYPES or type(value) in _CONTAINER_TYPES:
                    space[name] = value
        for container, content in held:
            with suppress(Exception):  # whatever an element says of itself
                _refill(container, content)


def _namespace(kind: type) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", type.__dict__["__dict__"].__get__(kind))


def _module_of(kind: type) -> str:
    name = _namespace(kind).get("__module__")
    return name if type(name) is str else ""


def _is_foreign(kind: type) -> bool:
    return _module_of(kind).partition(".")[0] not in ("", *_LIBRARY_PACKAGES)


def _parts(estimator: Any) -> Iterator[Any]:
    """Yield the estimator and the objects in its attributes, each once, up to `MAX_OBJECTS`; none is called."""
    seen: dict[int, Any] = {}
    waiting = [estimator]
    while waiting and len(seen) < MAX_OBJECTS:
        part = waiting.pop()
        kind = type(part)
        if id(part) in seen or kind in (*_PLAIN_TYPES[:-1], np.ndarray, FunctionType) or issubclass(kind, type):
            continue
        seen[id(part)] = part
        yield part
        if kind is dict:
            waiting.extend(part.values())
        elif kind in (list, tuple, set):
            waiting.extend(part)
        else:
            with suppress(AttributeError):
                waiting.extend(dict.values(object.__getattribute__(part, "__dict__")))


def _functions(classes: tuple[type, ...]) -> Iterator[FunctionType]:
    for kind in classes:
        for value in tuple(_namespace(kind).values()):
            function = value
            if type(value) in (classmethod, staticmethod, property):
                function = value.fget if type(value) is property else value.__func__
            if type(function) is FunctionType:
                yield function


def _parts_of_function(function: FunctionType) -> Iterator[Any]:
    yield from (function.__dict__, *(function.__defaults__ or ()), function.__kwdefaults__)
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # it is empty
            yield cell.cell_contents


def _names(code: CodeType) -> Iterator[str]:
    """Yield the names of globals and attributes in a function's code, and in those that are defined in it."""
    yield from code.co_names
    for constant in code.co_consts:
        if type(constant) is CodeType:
            yield from _names(constant)


def _contents(values: list[Any]) -> list[tuple[Any, Any]]:
    """Return each plain container among the values, and inside others, with a copy of its content."""
    held: dict[int, tuple[Any, Any]] = {}
    waiting = list(values)
    while waiting and len(held) < MAX_OBJECTS:
        value = waiting.pop()
        if type(value) not in _CONTAINER_TYPES or id(value) in held:
            continue
        if (value.nbytes if type(value) is np.ndarray else 8 * len(value)) > MAX_BYTES:
            continue
        held[id(value)] = (value, value.copy())
        if type(value) is dict:
            waiting.extend(value.values())
        elif type(value) in (list, deque):
            waiting.extend(value)
    return list(held.values())


def _refill(container: Any, content: Any) -> None:
    if type(container) is np.ndarray:
        container[...] = content
    elif type(container) in (list, bytearray):
        container[:] = content
    else:
        container.clear()
        (container.extend if type(container) is deque else container.update)(content)


def _put_back(kind: type, before: Mapping[str, Any]) -> None:
    """Restore a class's attributes: reset changed and removed ones, delete new ones, except for Python's own."""
    now = dict(_namespace(kind))
    for name in {*before, *now} - {"__dict__", "__weakref__", "_abc_impl"}:
        with suppress(Exception):  # a class that lets nobody change it was not changed
            if name not in before:
                type.__delattr__(kind, name)
            elif now.get(name, _ABSENT_VALUE) is not before[name]:
                type.__setattr__(kind, name, before[name])
