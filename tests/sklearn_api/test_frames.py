"""A failure at a door that takes sensitive tables in memory brings no frame that holds one.

What notebooks and loggers print of an exception with its variables, and what a debugger steps into, are its frames.
"""

import io
import traceback

import numpy as np
import pytest
from rich.console import Console
from rich.traceback import Traceback
from sklearn.naive_bayes import GaussianNB

from dpbo_core import PrivateSearch, PrivateSelection
from dpbo_core.errors import DpboError

CANARY = 271828.25
X = np.random.default_rng(0).normal(size=(40, 2))
Y = (X[:, 0] > 0.0).astype(int)
V = X[:20].copy()
V[3, 1] = CANARY


class Interrupts(GaussianNB):
    """Training that the operator interrupts."""

    def fit(self, X, y):
        raise KeyboardInterrupt


def settings(folder, **changes):
    fixed = {"epsilon": 1.0, "dataset": "clinic", "budget": (9.0, 1e-3), "accepts": ("rowwise_predictions",)}
    return fixed | {"ledger": f"sqlite:///{folder / 'ledger.db'}"} | changes


def search(folder, estimator=None, **changes):
    space = {"var_smoothing": [1e-3, 1e-1]}
    return PrivateSearch(estimator or GaussianNB(), space, method="private_grid", **settings(folder, **changes))


def fitted(folder):
    return search(folder).fit(X, Y, X_validation=V, y_validation=Y[:20])


FAILURES = {
    "other lengths": lambda here: search(here).fit(X, Y, X_validation=V, y_validation=Y),
    "over the cap": lambda here: search(here, epsilon=10.0).fit(X, Y, X_validation=V, y_validation=Y[:20]),
    "interrupted": lambda here: search(here, Interrupts()).fit(X, Y, X_validation=V, y_validation=Y[:20]),
    "one table": lambda here: search(here).fit(V, Y[:20], validation_size=7),
    "report": lambda here: fitted(here).evaluate(X, Y, X_validation=V, y_validation=Y[:20], epsilon=9.0),
    "selection": lambda here: PrivateSelection(["x0"], labels=(0, 1), **settings(here)).fit(V, Y),
}


def check_frames(error, file):
    """No frame that travels with the error holds a table, but those of the test in `file`."""
    assert error.__cause__ is error.__context__ is None
    for frame, _ in traceback.walk_tb(error.__traceback__):
        assert frame.f_code.co_filename == file or frame.f_locals.keys() == {"door", "raised"}
    shown = Console(record=True, width=200, file=io.StringIO())
    shown.print(Traceback.from_exception(type(error), error, error.__traceback__, show_locals=True))
    assert f"{CANARY:.0f}"[:6] not in shown.export_text()


@pytest.mark.parametrize("failure", FAILURES)
def test_no_frame_of_a_failure_holds_a_table(here, failure):
    with pytest.raises((DpboError, KeyboardInterrupt)) as told:
        FAILURES[failure](here)
    check_frames(told.value, __file__)
