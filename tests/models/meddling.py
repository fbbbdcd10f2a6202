"""An estimator of a package of its own whose every part writes down in which process it ran."""

import os
from contextlib import suppress
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

PARTS = Path(os.environ.get("PATH", "").split(":")[0])  # a folder that the test put first; all else is withheld


def ran(part):
    with suppress(OSError), (PARTS / part).open("a") as file:  # beside a record nothing can be opened
        file.write(f"{os.getpid()}\n")


ran("imported")


class Meddling(ClassifierMixin, BaseEstimator):
    def __init__(self, C=1.0):
        ran("built")
        self.C = C

    def fit(self, X, y):
        ran("fitted")
        self.classes_ = np.unique(y)
        return self

    def __getstate__(self):
        ran("pickled")
        return super().__getstate__()

    def __setstate__(self, state):
        ran("unpickled")
        super().__setstate__(state)

    def predict(self, X):
        ran("predicted")
        return (np.asarray(X)[:, 0] > self.C).astype(np.int64)
