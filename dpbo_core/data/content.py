"""Keys of hyperparameter values by their content, to compare values in every process, and short texts for people.

Two values have the same key exactly if they have the same content. Values that Python calls equal may differ: 1,
1.0, True and "1" are four values, and so are 0.0 and -0.0, [5] and (5,). NaN is the same as itself. A NumPy scalar
is the Python value that it holds, and dicts and sets have no order.

A value whose content cannot be determined is refused: a lambda or a local function, which cannot be imported, an
open file, a generator, or a random generator, whose state changes with use.
"""

import copyreg
import functools
import hashlib
import math
import random
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from dpbo_core.errors import StudyInvalid

MAX_TEXT_LENGTH = 60  # characters of a value's short text
PLAIN_TYPES = (str, int, float, bool)
OWN_PACKAGES = (
    "dpbo_core",
    "dpbo_beside_study_",
)  # ours; a module beside a study has a hash of its text in its name
NUMPY_SCALAR_TYPES = (np.bool_, np.integer, np.floating, np.complexfloating, np.str_, np.bytes_)
GENERATOR_TYPES = (np.random.RandomState, np.random.Generator, np.random.BitGenerator, random.Random)


def is_plain(value: Any) -> bool:
    """Return whether a value is a text, a truth value or a finite number of Python's own, as JSON has it."""
    return type(value) in PLAIN_TYPES and (type(value) is not float or math.isfinite(value))


def unwrap_numpy(value: Any) -> Any:
    """Return a number, truth value or text of NumPy as the Python value that it holds; anything else as it is."""
    return (
        value.item() if isinstance(value, NUMPY_SCALAR_TYPES) and not isinstance(value, np.timedelta64) else value
    )


def content_key(value: Any) -> str:
    """Return the key of a value: a text that says its type and its content, the same in every process.

    An estimator's is that of its unfitted copy, which is what is trained.
    """
    value = unwrap_numpy(value)
    if type(value) in PLAIN_TYPES or value is None:
        return f"{type(value).__name__} {value!r}"
    return content_digest(copy_value(value))[0]


def copy_value(value: Any) -> Any:
    """Return a copy of a value by scikit-learn's own rule, so that no training changes what was given."""
    from sklearn.base import clone

    if type(value) is dict:
        return {name: copy_value(item) for name, item in value.items()}
    reason = ""
    try:
        return clone(value, safe=False)
    except Exception as error:  # noqa: BLE001  a value's own copying may raise anything
        reason = type(error).__name__
    raise no_content_error(f"a {type(value).__name__}", f"it cannot be copied ({reason})")


def point_key(point: Mapping[str, Any]) -> str:
    """Return the key of a point's hyperparameters, whatever their order."""
    return repr(sorted((name, content_key(value)) for name, value in point.items()))


def content_digest(value: Any) -> tuple[str, bool]:
    """Return a digest of a value's content, and whether its pickle would serve as well, in every process.

    A pickle does not if it has the user's own functions or classes, of which it has only the names, or a frozenset,
    whose order differs between processes.
    """
    walk, reason = _ContentWalk(), ""
    try:
        return walk.digest(value), walk.pickled
    except StudyInvalid:
        raise
    except Exception as error:  # noqa: BLE001  a value's own pickling may raise anything
        reason = type(error).__name__
    raise no_content_error(f"a {type(value).__name__}", f"its content cannot be read ({reason})")


def no_content_error(what: str, cause: str) -> StudyInvalid:
    """Return the error for a value without content of its own: `what` it is and the `cause`."""
    return StudyInvalid(
        f"{what} cannot be told from another by its content",
        cause=cause,
        remedy="give a number, a text or an object that pickle can write; define a function with def at the top of "
        "a module, and give a whole number as random_state",
    )


def json_form(value: Any) -> Any:
    """Return tables, lists and plain values in a form that strict JSON can hold: infinity and NaN become texts."""
    if isinstance(value, Mapping):
        return {str(name): json_form(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_form(item) for item in value]
    return repr(value) if type(value) is float and not math.isfinite(value) else value


def value_names(values: Sequence[Any], keys: Sequence[str]) -> tuple[Any, ...]:
    """Return a name for each of several values with these keys: itself if it is plain, else a short text.

    If two values would have the same text, a part of the key's hash is added to each such text.
    """
    names = [value if is_plain(value) else shown(value) for value in values]
    taken = Counter(name for name in names if type(name) is str)
    return tuple(
        name if is_plain(value) or taken[name] == 1 else f"{name} #{hashlib.sha256(key.encode()).hexdigest()[:8]}"
        for value, name, key in zip(values, names, keys, strict=True)
    )


def shown(value: Any) -> str:
    """Return a short text of a value for people, the same in every process; it may leave something out."""
    text = " ".join(_value_text(value, 0).split())
    return text if len(text) <= MAX_TEXT_LENGTH else f"{text[: MAX_TEXT_LENGTH - 1]}…"


def _value_text(value: Any, depth: int) -> str:
    value = unwrap_numpy(value)
    if type(value) in PLAIN_TYPES or value is None:
        return repr(value)
    if isinstance(value, type | FunctionType | BuiltinFunctionType):
        return value.__name__
    if depth > 3:
        return "…"
    if isinstance(value, np.ndarray):
        return f"array {value.dtype} {value.shape} {_value_text(value.ravel()[:4].tolist(), depth)}"
    if type(value) in (list, tuple, set, frozenset):
        parts = [_value_text(item, depth + 1) for item in value]
        parts = parts if isinstance(value, list | tuple) else sorted(parts)
        left, right = "[]" if type(value) is list else "()" if type(value) is tuple else "{}"
        return f"{left}{', '.join(parts)}{',' if type(value) is tuple and len(parts) == 1 else ''}{right}"
    if isinstance(value, Mapping):
        pairs = (f"{_value_text(name, depth + 1)}: {_value_text(item, depth + 1)}" for name, item in value.items())
        return "{" + ", ".join(sorted(pairs)) + "}"
    if hasattr(value, "get_params") and not isinstance(value, type):
        return f"{type(value).__name__}({_changed_parameters(value, depth)})"
    if isinstance(value, functools.partial):
        parts = [*value.args, *(value.keywords[name] for name in sorted(value.keywords))]
        return f"partial({', '.join(_value_text(item, depth + 1) for item in (value.func, *parts))})"
    return type(value).__name__


def _changed_parameters(estimator: Any, depth: int) -> str:
    """Return the parameters of an estimator that are not its class's defaults, as text; those of a kernel all."""
    import inspect

    try:
        defaults = inspect.signature(type(estimator).__init__).parameters
        values = estimator.get_params(deep=False)
        return ", ".join(
            f"{name}={_value_text(value, depth + 1)}"
            for name, value in values.items()
            if name not in defaults
            or defaults[name].default is inspect.Parameter.empty
            or _value_text(defaults[name].default, 0) != _value_text(value, 0)
        )
    except Exception:  # noqa: BLE001  a class of somebody else's may raise anything
        return ""


class _ContentWalk:
    """One walk through a value, which makes each part's digest from its type and the digests of its own parts."""

    def __init__(self) -> None:
        self.pickled = True  # whether a pickle would identify all that was visited so far (`content_digest`)
        self._above: list[int] = []  # the objects that the walk is inside of
        self._done: dict[int, tuple[Any, str]] = {}  # by id, with the object, so that no other gets its id

    def digest(self, value: Any) -> str:
        """Return the digest of a value."""
        value = unwrap_numpy(value)
        if type(value) in (*PLAIN_TYPES, type(None), complex, bytes, type(Ellipsis)):
            return _digest_texts(type(value).__name__, repr(value))
        if id(value) in self._above:  # a cycle: the value is identified by how many levels above it is
            return _digest_texts("inside", str(len(self._above) - self._above.index(id(value))))
        if id(value) in self._done:
            return self._done[id(value)][1]
        self._above.append(id(value))
        try:
            digest = self._of(value)
        finally:
            self._above.pop()
        self._done[id(value)] = value, digest
        return digest

    def _of(self, value: Any) -> str:
        if isinstance(value, (Iterator, GENERATOR_TYPES)):
            raise no_content_error(f"a {type(value).__name__}", "it changes when it is used")
        if type(value) in (list, tuple):
            return _digest_texts(type(value).__name__, *map(self.digest, value))
        if type(value) in (set, frozenset):
            self.pickled = self.pickled and type(value) is set
            return _digest_texts(type(value).__name__, *sorted(map(self.digest, value)))
        if type(value) is dict:
            pairs = (_digest_texts("item", self.digest(name), self.digest(item)) for name, item in value.items())
            return _digest_texts("dict", *sorted(pairs))
        if type(value) is np.ndarray:
            return self._array(value)
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, MethodType):
            return _digest_texts("method", self.digest(value.__self__), self.digest(value.__func__))
        if type(value).__module__.partition(".")[0] == "pandas" and hasattr(value, "to_dict"):
            return self._frame(value)
        return self._reduced(value)

    def _array(self, array: Any) -> str:
        kind = ("array", str(array.dtype), str(array.dtype.descr), str(array.shape))
        if array.dtype.hasobject:
            return _digest_texts(*kind, *map(self.digest, array.ravel().tolist()))
        return _digest_texts(*kind, hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest())

    def _frame(self, frame: Any) -> str:
        columns = [frame[name] for name in frame.columns] if hasattr(frame, "columns") else []
        names = [list(getattr(frame, "columns", ())), getattr(frame, "name", None)]
        index = frame.index.tolist() if hasattr(frame, "index") else None
        cells = [(str(one.dtype), one.tolist()) for one in columns] or [(str(frame.dtype), frame.tolist())]
        return _digest_texts(type(frame).__name__, self.digest([names, index, cells]))

    def _class(self, kind: type) -> str:
        name = f"{kind.__module__}.{kind.__qualname__}"
        if _is_installed(kind.__module__):
            return _digest_texts("class", name)
        self.pickled = False
        members = {
            item: getattr(member, "__func__", None) or getattr(member, "fget", None) or member
            for item, member in vars(kind).items()
            if item not in ("__dict__", "__weakref__", "__doc__", "__module__", "__annotations__")
        }
        parts = [
            _digest_texts(item, self._code(member) if isinstance(member, FunctionType) else self._attempted(member))
            for item, member in sorted(members.items())
        ]
        return _digest_texts("class", name, *map(self.digest, kind.__bases__), *parts)

    def _attempted(self, value: Any) -> str:
        """Return the digest of a value, or of its type alone where it has no content of its own."""
        try:
            return self.digest(value)
        except Exception:  # noqa: BLE001  a class's member may be anything
            return _digest_texts("some", type(value).__name__)

    def _function(self, function: FunctionType) -> str:
        name = f"{function.__module__}.{function.__qualname__}"
        if not all(part.isidentifier() for part in name.split(".")):
            raise no_content_error(f"the function {function.__qualname__}", "it is a lambda or a local function")
        if _is_installed(str(function.__module__)):
            return _digest_texts("function", name)
        self.pickled = False
        return _digest_texts("function", name, self._code(function))

    def _code(self, function: FunctionType) -> str:
        """Return the digest of what a function does: its code, its defaults, and what it takes from elsewhere."""
        defaults = (function.__defaults__, function.__kwdefaults__)
        return _digest_texts(
            "code", code_text(function.__code__), self._attempted(defaults), *self.beside(function)
        )

    def beside(self, function: FunctionType) -> list[str]:
        """Return the digests of what a function uses from elsewhere: its closure and its module's global names.

        It is [] for an installed function, which its name identifies.
        """
        if _is_installed(str(function.__module__)):
            return []
        names = sorted(_names_in(function.__code__))
        used = [(name, function.__globals__[name]) for name in names if name in function.__globals__]
        return [
            *map(self._enclosed, function.__closure__ or ()),
            *(_digest_texts(name, self._attempted(item)) for name, item in used if not _is_named(item)),
        ]

    def _enclosed(self, cell: Any) -> str:
        """Return the digest of what a function encloses: of another function its code, whatever its name."""
        try:
            item = cell.cell_contents
        except ValueError:  # nothing yet
            return _digest_texts("nothing")
        if id(item) in self._above:
            return _digest_texts("inside")
        self._above.append(id(item))
        try:
            return self._code(item) if isinstance(item, FunctionType) else self._attempted(item)
        finally:
            self._above.pop()

    def _reduced(self, value: Any) -> str:
        """Return the digest of any other object, by what pickle would write of it."""
        reducer = copyreg.dispatch_table.get(type(value))
        reduced = value.__reduce_ex__(4) if reducer is None else reducer(value)
        if isinstance(reduced, str):  # the name of something in a module
            return _digest_texts("global", str(getattr(value, "__module__", "")), reduced)
        function, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
        if isinstance(state, dict):  # the same content under another version of scikit-learn is the same
            state = {name: part for name, part in state.items() if name != "_sklearn_version"}
        return _digest_texts(
            "object",
            self.digest(type(value)),
            self.digest(function),
            self.digest(arguments),
            self.digest(state),
            *([] if items is None else map(self.digest, items)),
            *([] if pairs is None else (self.digest(pair) for pair in pairs)),
        )


def _digest_texts(*parts: str) -> str:
    """Return the SHA-256 of texts, each with its length before it."""
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def _is_named(item: Any) -> bool:
    """Return whether its name identifies an item: it is a module, or an installed package's class or function."""
    if isinstance(item, ModuleType):
        return True
    return isinstance(item, type | FunctionType | BuiltinFunctionType) and _is_installed(str(item.__module__))


def _names_in(code: CodeType) -> set[str]:
    return set(code.co_names).union(*(_names_in(item) for item in code.co_consts if isinstance(item, CodeType)))


def function_text(function: FunctionType) -> str:
    """Return text that identifies what a function does: its code, its defaults, and what it uses from elsewhere."""
    defaults, walk = (function.__defaults__, function.__kwdefaults__), _ContentWalk()
    defaults_text = repr(defaults) if _is_constant(defaults) else walk.digest(defaults)
    return "".join([code_text(function.__code__), defaults_text, *walk.beside(function)])


def _is_constant(value: Any) -> bool:
    """Return whether a value is None, plain, or a list, tuple or dict of such, so that its repr identifies it."""
    if isinstance(value, dict):
        return type(value) is dict and all(map(_is_constant, (*value, *value.values())))
    if type(value) in (list, tuple):
        return all(map(_is_constant, value))
    return value is None or type(value) in PLAIN_TYPES


def code_text(code: CodeType) -> str:
    """Return a function's instructions, names and constants as text, so that equal texts mean equal behaviour.

    Nested functions are included, and the text is the same in every process.
    """
    constants = [code_text(item) if isinstance(item, CodeType) else _constant(item) for item in code.co_consts]
    return repr((code.co_code, code.co_names, constants))


def _constant(item: Any) -> str:
    """Return a code constant as text; a set's items are sorted, since their order differs between processes."""
    return f"frozenset({sorted(map(repr, item))})" if isinstance(item, frozenset) else repr(item)


@functools.lru_cache(maxsize=4096)
def _is_installed(module: str) -> bool:
    """Return whether a module is Python's or an installed package's, so that its name identifies its content."""
    if module.startswith(OWN_PACKAGES) or module.partition(".")[0] in sys.stdlib_module_names - {"__main__"}:
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return False
    folders = {sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib", "platstdlib")}
    return any(Path(file).is_relative_to(folder) for folder in folders) or "site-packages" in Path(file).parts
