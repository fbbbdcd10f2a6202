"""A value that hides: everything Python does with a value by habit is refused here.

`expose()` is the only way in. Only `objective`, the mechanisms and the method files may call it; a test
walks the syntax tree of the whole project to see that nobody else does.
"""

from typing import Generic, NoReturn, TypeVar

T = TypeVar("T")


class Opaque:
    """A base for handles that hold sensitive state: a constant repr, and no way to another process or a file."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    __str__ = __repr__

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        """Raise TypeError: what Python calls to pickle or copy the handle."""
        raise TypeError("a handle on sensitive data stays in its process")

    __reduce__ = __reduce_ex__ = __getstate__ = __copy__ = __deepcopy__ = _refuse


class Sensitive(Generic[T]):
    """Holds one value that must leave only through a mechanism.

    Its repr, hash and truth value say nothing; it cannot be pickled, copied, compared, iterated, measured,
    formatted with a format specification, turned into JSON or into an array.
    """

    __slots__ = ("__value",)

    def __init__(self, value: T) -> None:
        self.__value = value

    def expose(self) -> T:
        """The sensitive value itself. Whoever calls this answers for what happens to it."""
        return self.__value

    def __repr__(self) -> str:
        return "<sensitive>"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return "<sensitive>"

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        """Raise TypeError: what Python calls to pickle, copy, compare, convert, iterate or add the value."""
        raise TypeError("a sensitive value leaves only through a mechanism")

    __reduce__ = __reduce_ex__ = __getstate__ = __copy__ = __deepcopy__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = _refuse
    __bool__ = __len__ = __iter__ = __contains__ = __getitem__ = _refuse
    __int__ = __float__ = __index__ = __complex__ = __bytes__ = _refuse
    __array__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse
