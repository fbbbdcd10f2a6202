"""An estimator of a package of its own whose every part writes down in which process it ran."""

import os
from contextlib import suppress
from pathlib import Path

import numpy as np

PARTS = Path(os.environ.get("PATH", "").split(":")[0])  # a folder that the test put first; all else is withheld


def ran(part):
    with suppress(OSError), (PARTS / part).open("a") as file:  # beside a record nothing can be opened
        file.write(f"{os.getpid()}\n")


ran("imported")


class Meddling:
    """It has scikit-learn's verbs, and imports nothing of it: that takes a second in each process."""

    def __init__(self, C=1.0):
        ran("built")
        self.C = C

    def get_params(self, deep=True):
        return {"C": self.C}

    def set_params(self, **params):
        vars(self).update(params)
        return self

    def fit(self, X, y):
        ran("fitted")
        self.classes_ = np.unique(y)
        return self

    def __getstate__(self):
        ran("pickled")
        return vars(self)

    def __setstate__(self, state):
        ran("unpickled")
        vars(self).update(state)

    def predict(self, X):
        ran("predicted")
        return (np.asarray(X)[:, 0] > self.C).astype(np.int64)
