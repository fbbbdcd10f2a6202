"""What a private training algorithm is, and what it is trained on."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from dpbo_core.data import Encoded
from dpbo_core.errors import StudyInvalid, suggestion
from dpbo_core.mechanisms.noise import NoiseSource
from dpbo_core.models.linear.fit import LinearModel, SoftmaxModel
from dpbo_core.privacy.renyi import RenyiCurve

PrivateModel = LinearModel | SoftmaxModel


@dataclass(frozen=True)
class Sizes:
    """The public sizes of a sensitive training set: n, d and the number of classes."""

    n_records: int
    n_features: int
    n_classes: int


class PrivateTraining(Protocol):
    """A private training algorithm, calibrated to its price."""

    @property
    def curve(self) -> RenyiCurve:
        """The Rényi cost of one training under replace-one, the supremum over Λ and over all neighbours."""

    def check(self, sizes: Sizes, point: Mapping[str, Any]) -> None:
        """Refuse, before the charge, a `point` at which some data set of these sizes cannot be trained on."""

    def train(self, records: Encoded, point: Mapping[str, Any], source: NoiseSource) -> PrivateModel:
        """The private model at `point`; all randomness is `source`'s, and nothing raises whatever the records."""


@dataclass(frozen=True)
class Axis:
    """A hyperparameter that a training algorithm understands: its default, and whether it is a whole number."""

    default: float | None
    integer: bool = False


def check_axes(algorithm: str, axes: Mapping[str, Axis], points: tuple[Mapping[str, Any], ...]) -> None:
    """Refuse hyperparameters that the algorithm lacks, that are not positive, or missing without a default."""
    names = set(points[0])
    for name in names - set(axes):
        raise StudyInvalid(
            f"{algorithm} has no hyperparameter {name!r}{suggestion(name, axes)}",
            cause="a misspelt axis, or one of another algorithm",
            remedy=f"its axes in [space] are {', '.join(axes)}",
        )
    for name, axis in axes.items():
        if axis.default is None and name not in names:
            raise StudyInvalid(f"[space] lacks {name}, which {algorithm} needs", remedy=f"add the axis {name}")
        for point in points:
            value = point.get(name, axis.default)
            whole = not axis.integer or float(value).is_integer() if isinstance(value, int | float) else False
            if not whole or not (math.isfinite(value) and value > 0):
                raise StudyInvalid(
                    f"{name} takes the value {value!r}",
                    cause="it must be a positive number" + (", and a whole one" if axis.integer else ""),
                    remedy="correct the axis in [space]",
                )


def check_moderate(what: str, value: float) -> None:
    """Refuse a hyperparameter outside [1e-100, 1e100], where its square or quotient overflows; `what` names it."""
    if not 1e-100 <= value <= 1e100:
        raise StudyInvalid(
            f"{what} takes the value {value:g}",
            cause="its square or its quotient would be no number in double precision",
            remedy="correct the axis in [space]: between 1e-100 and 1e100",
        )


def value_of(name: str, axes: Mapping[str, Axis], point: Mapping[str, Any]) -> float:
    """The point's value of a hyperparameter, or the hyperparameter's default."""
    default = axes[name].default
    return float(point[name]) if name in point or default is None else default
