"""Objects that a record may hold and that fight back: whatever code of theirs is run says so in `RAN`.

Each comes with what it means: the plain value that it holds as a built-in, or None. A study must read it as that
value, or as nothing, and must run none of its code.
"""

import datetime
import enum
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

CANARY = "canary-4711-of-a-record"
RAN: list[str] = []

ENDINGS = (
    ValueError, TypeError, OverflowError, AttributeError, StopIteration, RecursionError, MemoryError,
    KeyboardInterrupt, SystemExit, GeneratorExit, BaseException,
)  # fmt: skip
VERBS = re.findall(
    r"\w+",
    """
    __array__ __array_interface__ __array_struct__ __array_ufunc__ __array_function__ __array_priority__
    __buffer__ __len__ __length_hint__ __iter__ __next__ __reversed__ __contains__ __getitem__ __eq__ __ne__
    __lt__ __le__ __gt__ __ge__ __hash__ __repr__ __str__ __bytes__ __format__ __float__ __int__ __index__
    __complex__ __bool__ __trunc__ __round__ __floor__ __abs__ __neg__ __pos__ __add__ __radd__ __sub__ __rsub__
    __mul__ __rmul__ __truediv__ __copy__ __deepcopy__ __reduce__ __reduce_ex__ __getattr__ __sizeof__ __dir__
    __fspath__ __arrow_array__ __arrow_c_array__ __arrow_c_stream__ __dataframe__ __narwhals_series__ strip
    lower decode encode is_integer is_finite as_tuple item tolist to_list as_py isoformat isprintable
""",
)


@dataclass(frozen=True, eq=False)
class Hostile:
    """One such object, with a name for the tests and what it means."""

    name: str
    value: Any
    means: Any = None

    def __repr__(self) -> str:
        return self.name


def raising(verb: str, ending: type[BaseException] = ValueError) -> Callable[..., Any]:
    """A method that notes that it ran, and raises."""

    def method(*_: Any, **__: Any) -> Any:
        RAN.append(verb)
        raise ending(CANARY)

    return method


def lying(verb: str, answer: Any) -> Callable[..., Any]:
    """A method that notes that it ran, and answers nonsense."""

    def method(*_: Any, **__: Any) -> Any:
        RAN.append(verb)
        return answer

    return method


def everything(base: type, method: Callable[[str], Any], **own: Any) -> type:
    """A subclass of `base` with every verb replaced, and `__class__` too."""
    body: dict[str, Any] = {verb: method(verb) for verb in VERBS}
    body["__class__"] = property(method("__class__"))
    body["__getattribute__"] = method("__getattribute__")
    return type(f"hostile_{base.__name__}", (base,), body | own)


BASES: tuple[tuple[type, tuple[Any, ...], Any], ...] = (
    (object, (), None), (str, ("hostile",), "hostile"), (str, (" 1.5 ",), "1.5"), (str, ("0",), "0"),
    (bytes, (b"1",), b"1"), (int, (1,), 1), (int, (10**400,), 10**400), (float, (0.5,), 0.5),
    (float, (float("nan"),), float("nan")), (Decimal, ("1",), Decimal(1)), (Decimal, ("sNaN",), Decimal("sNaN")),
    (complex, (1.0,), 1.0), (complex, (1j,), None), (Fraction, (1, 3), None), (list, ([1.0],), None),
    (tuple, ((1.0,),), None), (dict, ({"a": 1.0},), None), (set, ((1.0,),), None), (bytearray, (b"1",), None),
    (np.float64, (0.5,), 0.5), (np.str_, ("1",), "1"), (np.bytes_, (b"1",), b"1"), (np.float32, (0.5,), None),
    (np.int64, (1,), None), (datetime.date, (2020, 1, 1), None), (datetime.datetime, (2020, 1, 1), None),
    (datetime.timedelta, (1,), None), (type, ("t", (), {}), None), (Exception, ("x",), None),
)  # fmt: skip


def _subclasses() -> Iterator[Hostile]:
    for base, arguments, means in BASES:
        for ending in (ValueError, KeyboardInterrupt):
            cls = everything(base, lambda verb, ending=ending: raising(verb, ending))
            yield Hostile(
                f"{base.__name__}{arguments!r:.20} {ending.__name__}", base.__new__(cls, *arguments), means
            )
    for ending in ENDINGS:
        for base, argument, means in ((object, (), None), (str, ("1",), "1")):
            cls = everything(base, lambda verb, ending=ending: raising(verb, ending))
            yield Hostile(f"{base.__name__} that raises {ending.__name__}", base.__new__(cls, *argument), means)
    for answer in (None, 3.0, -1, "text", [], float("nan"), NotImplemented, 2**80):
        cls = everything(object, lambda verb, answer=answer: lying(verb, answer))
        yield Hostile(f"all verbs answer {answer!r}", object.__new__(cls))


def _verbs() -> Iterator[Hostile]:
    for verb in (*VERBS, "__getattribute__"):
        cls = type(f"only_{verb}", (), {verb: raising(verb)})
        yield Hostile(f"object with {verb}", object.__new__(cls))
    yield Hostile("property __class__", type("C", (), {"__class__": property(raising("__class__"))})())
    yield Hostile("says it is a float", type("C", (), {"__class__": property(lying("__class__", float))})())
    yield Hostile("says it is a text", type("C", (), {"__class__": property(lying("__class__", str))})())


def _metaclasses() -> Iterator[Hostile]:
    for verb in ("__instancecheck__", "__subclasscheck__", "__hash__", "__eq__", "__getattribute__", "__repr__"):
        meta = type(f"meta_{verb}", (type,), {verb: raising(verb, SystemExit)})
        yield Hostile(f"metaclass with {verb}", object.__new__(meta("C", (), {})))
        yield Hostile(f"text, metaclass with {verb}", str.__new__(meta("C", (str,), {}), "1"), "1")


class _Word(enum.StrEnum):
    ONE = "1"


class _Number(enum.IntEnum):
    ONE = 1


def _of_libraries() -> Iterator[Hostile]:
    recursive: list[Any] = []
    recursive.append(recursive)
    zero_d = np.empty((), dtype=object)
    zero_d[()] = recursive
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    values: dict[str, tuple[Any, Any]] = {
        "pandas NA": (pd.NA, None),
        "pandas NaT": (pd.NaT, None),
        "pandas timestamp": (pd.Timestamp("2020-01-01"), None),
        "pandas period": (pd.Period("2020"), None),
        "pandas interval": (pd.Interval(0, 1), None),
        "pandas series": (pd.Series([1.0]), None),
        "arrow scalar": (pa.scalar(1.0), None),
        "arrow table": (pa.table({"a": [1]}), None),
        "whole number of 5,000 digits": (10**5000, float("inf")),
        "negative, of 5,000 digits": (-(10**5000), float("-inf")),
        "lone surrogate": ("\ud800", "\ud800"),
        "lone surrogate, a number beside it": ("1\udc80", "1\udc80"),
        "null character": ("1\0", "1\0"),
        "a long text": ("1" * 1_000_000, float("inf")),
        "bytes that are no text": (b"\xff\xfe", None),
        "bytes": (b"1", b"1"),
        "void": (np.void(b"1"), None),
        "structured": (np.array((1.0, 2), dtype=[("a", float), ("b", int)])[()], None),
        "array of no dimension": (np.array(1.0), None),
        "object array of no dimension": (zero_d, None),
        "array": (np.ones(3), None),
        "recursive list": (recursive, None),
        "list of 100,000 levels": (deep, None),
        "list of another length": ([1, 2, 3, 4, 5], None),
        "signalling NaN": (Decimal("sNaN"), None),
        "Decimal beyond any double": (Decimal("1e999999"), float("inf")),
        "fraction": (Fraction(1, 3), None),
        "complex": (1 + 1j, None),
        "numpy complex": (np.complex64(1j), None),
        "numpy datetime": (np.datetime64("2020-01-01"), None),
        "numpy timedelta, an integer to isinstance": (np.timedelta64(1, "D"), None),
        "numpy half": (np.float16(0.5), 0.5),
        "numpy long double": (np.longdouble(0.5), 0.5),
        "numpy long double beyond any double": (np.longdouble("1e4000"), float("inf")),
        "numpy bool": (np.bool_(True), True),
        "text by an enumeration": (_Word.ONE, "1"),
        "number by an enumeration": (_Number.ONE, 1),
        "masked": (np.ma.masked, None),
        "a class": (int, None),
        "a module": (datetime, None),
        "a function": (len, None),
        "a generator": ((i for i in ()), None),
        "ellipsis": (..., None),
        "NotImplemented": (NotImplemented, None),
        "an exception": (KeyboardInterrupt(CANARY), None),
        "memory": (memoryview(b"1"), None),
        "set": ({1.0}, None),
        "range": (range(1), None),
        "infinity": (float("inf"), float("inf")),
        "minus zero": (-0.0, -0.0),
    }
    for name, (value, means) in values.items():
        yield Hostile(name, value, means)


def zoo() -> list[Hostile]:
    """All of them, freshly made; what making them ran is forgotten."""
    made = [*_subclasses(), *_verbs(), *_metaclasses(), *_of_libraries()]
    RAN.clear()
    return made
