"""Models as they were trained, so that what was tried out, scored and is published is one training.

Some of scikit-learn's models count what they were asked (nearest neighbours do), so what has scored a sensitive
record is never published: a copy from before is.
"""

import pickle
from contextlib import suppress
from typing import TYPE_CHECKING

from dpbo_core.models.scoring.partitioned import CACHE_GIGABYTES
from dpbo_core.study import StudySpec

if TYPE_CHECKING:
    from dpbo_core.models.estimators import Model


class TrainedModels:
    """Models as they were trained, before any of them scored a record, by point: each is trained once.

    Bytes are kept, and each call opens them anew. Which are kept follows from the order of the trainings and from
    their sizes, all of it public; beyond the limit a model is trained again.
    """

    def __init__(self, limit: int = int(CACHE_GIGABYTES * 1e9)) -> None:
        """None kept yet, and at most `limit` bytes of them."""
        self._pickled: dict[str, bytes] = {}
        self._left = limit

    def keep(self, name: str, model: "Model") -> None:
        """Cache a model by its point's `name`, if pickle can and it fits; it must not have scored sensitive
        records.
        """
        if name in self._pickled:
            return
        with suppress(Exception):  # whatever a foreign estimator raises: it is trained again
            pickled = pickle.dumps(model, protocol=5)
            if len(pickled) <= self._left:
                self._left -= len(pickled)
                self._pickled[name] = pickled

    def get(self, name: str) -> "Model | None":
        """A copy of the model of a point's `name`; None where it is not kept."""
        if name not in self._pickled:
            return None
        model: Model = pickle.loads(self._pickled[name])  # noqa: S301  pickled above, and held in memory since
        return model


def memory_limit(spec: StudySpec) -> int:
    """The bytes that each of encoded records, public rows and models may take in memory."""
    files = spec.data.divided
    stated = None if files is None else files.memory_limit
    return int((CACHE_GIGABYTES if stated is None else stated) * 1e9)
