"""An estimator by example: cloned, never changed, and named by a hash that is the same in every process.

What identifies it is its class and parameters as joblib hashes them; a score function is named by where it stands
and what it does. Both go into the study's fingerprint beside the public training data.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpbo_core.data.content import content_digest, copy_value, function_text
from dpbo_core.data.named_columns import NamedColumn
from dpbo_core.errors import StudyInvalid
from dpbo_core.models.estimator_allowlist.inspection import unlisted_part
from dpbo_core.models.estimators import FittedEstimator, check_task, cloned, decoded, fitted, seeded
from dpbo_core.models.import_path import check_names


@dataclass(frozen=True, eq=False, repr=False)
class Prototype:
    """An estimator by example. `decode` maps the texts by which a study names other values back to the values."""

    estimator: Any  # unfitted or not; it is cloned
    seed: int  # for every `random_state` left free
    regression: bool  # what it must be
    decode: Mapping[str, Mapping[Any, Any]] = field(default_factory=dict)  # axis → (name → value)
    # of the data frame that it is given; None if it is given numbers
    columns: tuple[NamedColumn, ...] | None = None

    @property
    def takes_columns(self) -> bool:
        """Whether the estimator is or holds a Pipeline or ColumnTransformer, and so is fitted on a data frame."""
        from sklearn import compose, pipeline

        parts = [self.estimator, *_parts(list(self.estimator.get_params(deep=True).values()))]
        return any(isinstance(part, pipeline.Pipeline | compose.ColumnTransformer) for part in parts)

    @property
    def name(self) -> str:
        """The name of the estimator's class, for messages."""
        return type(self.estimator).__name__

    def decoded(self, hyperparameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return hyperparameters with the values that a study can only name, by `decode`."""
        return decoded(hyperparameters, self.decode)

    def build(self, hyperparameters: Mapping[str, Any]) -> Any:
        """Return an unfitted clone with these hyperparameters, seeded; names that it lacks are refused."""
        estimator = cloned(self.estimator)
        values = self.decoded(hyperparameters)
        for name in sorted(values, key=lambda name: name.count("__")):  # a part first, whose own are named after it
            check_names([name], list(estimator.get_params(deep=True)), display_name=self.name)
            estimator.set_params(**{name: copy_value(values[name])})
        check_task(estimator, self.name, regression=self.regression)
        return seeded(estimator, self.seed)

    def train(
        self, X: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None, /, **hyperparameters: Any
    ) -> FittedEstimator:
        """Return a new clone, fitted on public rows at these hyperparameters, with weights (n,) if any."""
        return fitted(self.build(hyperparameters), X, y, weights, display_name=self.name, columns=self.columns)

    def unlisted(self) -> str:
        """Return why the estimator or an axis's value is not on the allowlist: a part, or a version; or ""."""
        values = [value for names in self.decode.values() for value in names.values()]
        return next(filter(None, map(unlisted_part, [cloned(self.estimator), *values])), "")

    def identity(self) -> str:
        """Return a hash of the estimator's class, parameters and `decode` values, the same in every process."""
        import joblib

        digest, cause = "", ""
        try:
            own, named = cloned(self.estimator), {axis: dict(names) for axis, names in self.decode.items()}
            content, pickled = content_digest(
                [own, {axis: copy_value(names) for axis, names in named.items() if names}]
            )
            pickled = pickled and not any(named.values())
            digest = joblib.hash([type(self.estimator).__module__, self.name, own]) if pickled else content
        except StudyInvalid as error:
            cause = f"{error.what}: {error.cause}"
        except Exception:  # noqa: BLE001  a parameter's own pickling may raise anything
            cause = "a lambda or a local function among them"
        if not digest:
            raise StudyInvalid(
                f"the parameters of {self.name} cannot be pickled, or have no content that stays",
                cause=cause,
                remedy="define the function at the top of a module; give a whole number as random_state",
            )
        return digest


def function_name(function: Any) -> str:
    """Return a score function's import name and a hash of its code; refuse a lambda, local function or object."""
    name = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', '')}"
    code: CodeType | None = getattr(function, "__code__", None)
    if code is None or not all(part.isidentifier() for part in name.split(".")):
        raise StudyInvalid(
            "the score function cannot be found again by its name",
            cause="it is a lambda, a local function or an object",
            remedy="define it with def at the top of a module",
        )
    return f"{name}.{hashlib.sha256(function_text(function).encode()).hexdigest()[:8]}"


def _parts(values: list[Any]) -> list[Any]:
    """Return the estimators and callables among `values`, at any depth of lists and mappings."""
    nested = []
    for value in values:
        if isinstance(value, list | tuple):
            nested += _parts(list(value))
        elif isinstance(value, Mapping):
            nested += _parts(list(value.values()))
        elif isinstance(value, type) and issubclass(value, np.generic):
            continue  # a type of numbers, such as OneHotEncoder's, calls nothing
        elif hasattr(value, "get_params") or callable(value):
            nested.append(value)
        elif type(value).__name__.startswith("PyFuncDistance"):
            nested.append(type(value))
    return nested
