"""A value that hides: everything Python does with a value by habit is refused here.

`expose()` is the only way in. Only `objective`, the mechanisms and the method files may call it; a test
walks the syntax tree of the whole project to see that nobody else does.

The one place that turns whatever was raised near sensitive data into something that says nothing.

sealed(work)                  its result, or a bare error made here
attempted(work, otherwise)    its result, or a fixed value: for what may fail on a record's account
each(work, items, otherwise)  the same for every item on its own
without_frames(door)          the function, whose failures bring no frame of it: for doors that take tables

Nothing of what was raised leaves: not its text, type, cause, context, notes or frames. What leaves instead is
raised outside the except block, so that Python chains nothing to it, and nothing is called inside one, so that no
signal is handled there. Every BaseException counts: a panic of an extension module, a SystemExit, and a
KeyboardInterrupt that a record or an estimator raises. The operator's own interrupt, and that alone, leaves as a
new KeyboardInterrupt: it is told from the others by the signal, not by the type.
"""

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Generic, NoReturn, ParamSpec, TypeVar

from dpbo_core.errors import DpboError, Sealed

T = TypeVar("T")


class Opaque:
    """A base for handles that hold sensitive state: a constant repr, and no way to another process or a file."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    __str__ = __repr__

    def _refuse(self, *_: object, **__: object) -> NoReturn:
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
        """Return the sensitive value itself. Whoever calls this answers for what happens to it."""
        return self.__value

    def __repr__(self) -> str:
        return "<sensitive>"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return "<sensitive>"

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("a sensitive value leaves only through a mechanism")

    __reduce__ = __reduce_ex__ = __getstate__ = __copy__ = __deepcopy__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = _refuse
    __bool__ = __len__ = __iter__ = __contains__ = __getitem__ = _refuse
    __int__ = __float__ = __index__ = __complex__ = __bytes__ = _refuse
    __array__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse


P = ParamSpec("P")
D = TypeVar("D")
I = TypeVar("I")  # noqa: E741  an item
Message = Callable[[BaseException], BaseException | None]


def sealed(
    work: Callable[[], T], *, failure: Callable[[], BaseException] = Sealed, message: Message | None = None
) -> T:
    """Return the result of `work`; any exception but the operator's Ctrl-C becomes the error that `message` makes
    of it, or else `failure`, without data.

    Args:
        work: holds sensitive data.
        failure: makes the error that stands for all others.
        message: makes the public error that stands for what was raised; where it gives None, `failure` does.

    Raises:
        BaseException: `failure()`, or what `message` made, without cause or context.
        KeyboardInterrupt: the operator's own, made again.
    """
    raised: list[BaseException] = []
    with _noting_interrupts() as interrupted:
        try:
            return work()
        except BaseException as error:  # noqa: BLE001  logging it would be the leak; a panic is no Exception
            raised += (error,)
    stands = None if message is None or interrupted else attempted(lambda: message(raised[0]), None)
    raised.clear()  # the error below carries this frame
    raise KeyboardInterrupt if interrupted else stands or failure()


def without_frames(door: Callable[P, T]) -> Callable[P, T]:
    """Return the function wrapped so that its errors carry no stack frame of it and no cause.

    A debugger, a notebook or a logger prints the variables of frames, and tables in memory are among them.
    """

    @wraps(door)
    def call(*args: P.args, **named: P.kwargs) -> T:
        try:
            return door(*args, **named)
        except BaseException as error:  # noqa: BLE001  raised below, where no frame holds the arguments
            raised = error
        del args, named
        raised.__cause__ = raised.__context__ = None
        raise raised.with_traceback(None)

    return call


def messages(*kinds: type[DpboError]) -> Message:
    """Return a function that recreates an error of exactly one of these kinds, and returns None for any other."""

    def message(error: BaseException) -> BaseException | None:
        """Return the error again, with the same texts and without its cause; None unless of exactly these kinds."""
        if type(error) not in kinds or not isinstance(error, DpboError):
            return None
        return type(error)(error.what, cause=error.cause, remedy=error.remedy)

    return message


def attempted(work: Callable[[], T], otherwise: D) -> T | D:
    """Return the result of `work`, or `otherwise` if it raises anything but the operator's own Ctrl-C."""
    with _noting_interrupts() as interrupted:
        try:
            return work()
        except BaseException:  # noqa: BLE001, S110  as above
            pass
    if interrupted:
        raise KeyboardInterrupt
    return otherwise


def each(work: Callable[[I], T], items: Iterable[I], otherwise: D) -> list[T | D]:
    """The result of `work` for each item; `otherwise` where it raises anything but the operator's own Ctrl-C."""
    done: list[T | D] = []
    with _noting_interrupts() as interrupted:
        for item in items:
            outcome: T | D = otherwise
            try:  # noqa: SIM105  `suppress` would be a call inside
                outcome = work(item)
            except BaseException:  # noqa: BLE001, S110  as above
                pass
            if interrupted:
                break
            done.append(outcome)
    if interrupted:
        raise KeyboardInterrupt
    return done


@contextmanager
def _noting_interrupts() -> Iterator[list[int]]:
    """Return a context with a list that is empty until the operator presses Ctrl-C.

    Signals reach only the main thread. In other threads, and if Python does not handle the signal, no
    KeyboardInterrupt comes from the operator, and the list stays empty.
    """
    interrupts: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield interrupts
        return

    def noted(number: int, frame: object) -> None:
        interrupts.append(number)
        before(number, frame)  # type: ignore[arg-type]

    signal.signal(signal.SIGINT, noted)
    try:
        yield interrupts
    finally:
        if signal.getsignal(signal.SIGINT) is noted:
            signal.signal(signal.SIGINT, before)
