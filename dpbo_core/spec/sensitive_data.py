"""[data] with a SENSITIVE training set: nothing is fitted to it, and what is public of it is said here."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from dpbo_core.errors import StudyInvalid
from dpbo_core.space.search_space import Value
from dpbo_core.spec.public_data import (
    FILES,
    check_labels,
    check_n_validation,
    check_places,
    check_share,
    refuse_files,
    require_files,
)
from dpbo_core.spec.reading import require

Bounds = Mapping[str, tuple[float, ...]]


@dataclass(frozen=True)
class SensitiveFiles:
    """Two files, both sensitive. Nothing is fitted to the training file: what is public of it is said here.

    Attributes:
        training: path.
        validation: path.
        n_validation: m.
        target: the column to predict.
        n_training: n.
        labels: the classes.
        bounds: [low, high] of each column; "*" for all others.
        validation_share: says nothing of files; it is part of every study's fingerprint.
        sensitive: "training".
    """

    training: str
    validation: str
    n_validation: int
    target: str
    n_training: int
    labels: tuple[Value, ...]
    bounds: Bounds
    validation_share: float = 0.5
    sensitive: Literal["training"] = "training"

    def __post_init__(self) -> None:
        _check_public_facts(self.n_training, self.labels, self.bounds)
        check_n_validation(self.n_validation)
        check_places(self.training, self.validation)


@dataclass(frozen=True)
class SensitiveTraining:
    """One sensitive file: models are trained on its records and scored on them.

    Attributes:
        training: path.
        target: the column to predict.
        n_training: n.
        labels: the classes.
        bounds: [low, high] of each column; "*" for all others.
        validation_share: says nothing of files; it is part of every study's fingerprint.
        sensitive: "training".
    """

    training: str
    target: str
    n_training: int
    labels: tuple[Value, ...]
    bounds: Bounds
    validation_share: float = 0.5
    sensitive: Literal["training"] = "training"

    def __post_init__(self) -> None:
        _check_public_facts(self.n_training, self.labels, self.bounds)
        check_places(self.training)


@dataclass(frozen=True)
class SensitiveBundled:
    """A bundled set whose training records are taken for sensitive too.

    Attributes:
        source: its name.
        validation_share: in (0, 1).
        labels: the classes; the set's own where None.
        bounds: [low, high] of each column; the set's own where None.
        sensitive: "training".
    """

    source: str
    validation_share: float = 0.5
    labels: tuple[Value, ...] | None = None
    bounds: Bounds | None = None
    sensitive: Literal["training"] = "training"

    def __post_init__(self) -> None:
        if self.labels is not None:
            check_labels(self.labels)
        _check_bounds(self.bounds or {})
        check_share(self.validation_share)


SensitiveData = SensitiveFiles | SensitiveTraining | SensitiveBundled


def read_sensitive(given: Mapping[str, Any]) -> SensitiveData:
    """[data] with a sensitive training set, from the keys that are given.

    Raises:
        StudyInvalid: together they are none of its three kinds.
    """
    require(
        "n_persons" not in given,
        "[data] gives n_persons for a sensitive training set",
        cause="private training protects one record of the training set and one of the validation set",
        remedy="leave one record a person in each file, and leave n_persons out",
    )
    require(
        "ignore" not in given and "missing" not in given,
        "[data] gives ignore or missing for a sensitive training set",
        cause="nothing may be fitted to it, not even the mean that would fill a gap",
        remedy="drop the columns from the files, or fill the gaps there",
    )
    bundled = "source" in given
    if bundled == ("n_training" in given):
        raise _n_training(given.get("n_training"))
    if bundled:
        refuse_files(given)
        return SensitiveBundled(**given)
    require(
        "labels" in given and "bounds" in given,
        "[data] lacks labels or bounds",
        cause="nothing is fitted to a sensitive training set, so what is public of it must be said",
        remedy='add labels = [0, 1] and [data.bounds] with "*" = [low, high] or one line a column',
    )
    alone = "validation" not in given and "n_validation" not in given
    require_files(given, ("training", "target") if alone else FILES)
    return SensitiveTraining(**given) if alone else SensitiveFiles(**given)


def _check_public_facts(n_training: int, labels: Sequence[Value], bounds: Bounds) -> None:
    if n_training < 1:
        raise _n_training(n_training)
    check_labels(labels)
    _check_bounds(bounds)


def _n_training(n_training: int | None) -> StudyInvalid:
    return StudyInvalid(
        f"data.n_training = {n_training}",
        cause="a sensitive training file needs its public number of records; a bundled set has its own",
        remedy="give the number of records of the training file, at least 1",
    )


def _check_bounds(bounds: Bounds) -> None:
    for name, ends in bounds.items():
        require(
            len(ends) == 2 and all(math.isfinite(end) and abs(end) < 1e100 for end in ends) and ends[0] < ends[1],
            f"data.bounds {name!r} = {list(ends)}",
            remedy="give the public [low, high] of the column, low below high",
        )
