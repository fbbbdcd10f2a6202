"""A fitted third-party estimator that this process never unpickles: child processes train it and predict with it.

What `fit`, unpickling or predicting changes in modules ends with the child process, so that none of it reaches the
process that reads sensitive records.

The module also has `contained`, for third-party code that does see sensitive rows: its output may quote a record.
"""

import io
import json
import logging
import pickle
import pickletools
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from dpbo_core.data.named_columns import FrameEstimator
from dpbo_core.errors import StudyInvalid
from dpbo_core.models.import_path import STUDY_MODULE_PREFIX
from dpbo_core.models.public_process import Pickle, no_result_error, numbers_of

_VERBS = ("predict", "predict_proba", "decision_function")


@dataclass(frozen=True, repr=False, eq=False)
class IsolatedEstimator:
    """The pickle of a fitted estimator, which only child processes open, and its trainer's facts. Public."""

    pickled: Pickle  # what rows (k, d) are given to
    name: str  # of its class
    verbs: tuple[str, ...]  # those that it has
    modules: tuple[str, ...]  # of every class and function that its pickle names

    def __getattr__(self, verb: str) -> Callable[[Any], NDArray[Any]]:
        """Return what it predicts for PUBLIC rows, as it takes them."""
        if verb in _VERBS and verb in self.verbs:
            return partial(numbers_of, predictions, self.pickled, verb)
        raise AttributeError(verb)

    @classmethod
    def of(cls, estimator: Any) -> "IsolatedEstimator":
        """Return a fitted estimator in pickled form, with the names of its class, methods and modules."""
        inner, pickled = opened(estimator), Pickle(pickled_form(estimator, "the fitted estimator"))
        verbs = tuple(verb for verb in _VERBS if callable(getattr(inner, verb, None)))
        return cls(pickled, type(inner).__name__, verbs, tuple(sorted(modules_of(estimator))))

    def to_bytes(self) -> NDArray[np.uint8]:
        """Return the unopened pickle as bytes, after a line of JSON with the class name, methods and modules."""
        line = json.dumps({"name": self.name, "verbs": self.verbs, "modules": self.modules}).encode()
        return np.frombuffer(line + b"\n" + self.pickled, dtype=np.uint8)

    @classmethod
    def of_bytes(cls, content: NDArray[np.uint8]) -> "IsolatedEstimator":
        """Return the estimator in bytes that `to_bytes` made, still pickled; other bytes are refused."""
        line, _, pickled = content.tobytes().partition(b"\n")
        try:
            header = json.loads(line)
            verbs, modules = (tuple(map(str, header[key])) for key in ("verbs", "modules"))
            return cls(Pickle(pickled), str(header["name"]), verbs, modules)
        except (ValueError, KeyError, TypeError):
            pass
        raise no_result_error("what came back is no estimator")


def predictions(estimator: Any, verb: str, rows: Any) -> NDArray[Any]:
    """Return what the estimator's method `verb` gives for PUBLIC rows, computed in this process."""
    return np.asarray(getattr(opened(estimator), verb)(rows))


def opened(estimator: Any) -> Any:
    """Return the estimator inside a `FrameEstimator`, or the estimator itself; nothing is unpickled."""
    return estimator.estimator if isinstance(estimator, FrameEstimator) else estimator


def modules_of(item: Any) -> set[str]:
    """Return the modules of every class and function that the item's pickle names."""
    if isinstance(item, IsolatedEstimator):
        return set(item.modules)
    text = pickle.dumps(item, protocol=3)  # which has one opcode for a name, with the name in it
    names = {str(argument).split(" ")[0] for code, argument, _ in pickletools.genops(text) if code.name == "GLOBAL"}
    if FrameEstimator.__module__ in names:
        names.add("pandas")  # of which it makes its data frame; else it would not be there
    return names - {"builtins", "__builtin__", "copy_reg", "copyreg"}


def pickled_form(item: Any, display_name: str) -> bytes:
    """Return the item's pickle, of an `IsolatedEstimator` the one that it holds; refused if it has none."""
    if isinstance(item, IsolatedEstimator):
        return item.pickled
    try:
        return pickle.dumps(item, protocol=5)
    except Exception as error:  # noqa: BLE001  a class may raise anything when it is pickled; it is public
        name = type(error).__name__
    raise StudyInvalid(
        f"{display_name} cannot be pickled",
        cause=f"{name}; a lambda, a local function or an open file in it, say",
        remedy='define what it holds at the top of a module, or accept "rowwise_predictions"',
    )


def check_importable(modules: set[str]) -> None:
    """Refuse modules that a child process cannot import: a file beside the study, or the script that runs."""
    beside = any(name.startswith(STUDY_MODULE_PREFIX) for name in modules)
    if beside or "__main__" in modules:
        raise StudyInvalid(
            "the estimator, a part of it or the score function is defined in "
            + ("a file beside the study" if beside else "a notebook or a script"),
            cause='rowwise = "enforced" loads it in processes of their own, which know installed packages alone',
            remedy="move the definition into an installed package, and import it from there",
        )


_PROCESS_LOCK = threading.RLock()  # what is replaced here belongs to the whole process


class _Silence(io.StringIO):
    """The stream that replaces standard output and standard error inside `contained`; its text is dropped."""


@contextmanager
def contained() -> Iterator[None]:
    """Context in which the whole process drops output, logs and warnings; another thread waits to enter one.

    joblib runs sequentially, because its workers would get the rows through shared memory, and OpenMP has one
    thread. A context inside another one does nothing: silencing every logger takes longer than a small prediction.
    """
    from joblib import parallel_config

    with _PROCESS_LOCK:
        silenced = isinstance(sys.stdout, _Silence) and isinstance(sys.stderr, _Silence)
        if silenced and logging.root.manager.disable == sys.maxsize:
            yield
            return
        silent, logged = _Silence(), logging.root.manager.disable
        try:
            logging.disable(sys.maxsize)  # some log above CRITICAL
            with warnings.catch_warnings(), redirect_stdout(silent), redirect_stderr(silent):
                warnings.simplefilter("ignore")
                with np.errstate(all="ignore"), parallel_config(backend="sequential"), one_thread():
                    yield
        finally:
            logging.disable(logged)


def one_thread() -> Any:
    """Context with one OpenMP thread: for few rows two of them take a hundred times as long on a busy machine."""
    return _threads().limit(limits=1, user_api="openmp")


@cache
def _threads() -> ThreadpoolController:
    return ThreadpoolController()
