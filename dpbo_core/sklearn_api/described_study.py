"""The study that an estimator's parameters describe: what each of ours says of one, read off it in one place."""

from collections.abc import Mapping
from typing import Any, Protocol

from dpbo_core.advice.choosing import AUTO
from dpbo_core.errors import StudyInvalid
from dpbo_core.methods import method_named
from dpbo_core.spec import (
    AxisSection,
    BudgetSection,
    DataSection,
    ModelSection,
    PrivacySection,
    SearchSection,
    StudySpec,
)


class Parameters(Protocol):
    """What every estimator of ours is given beside its data, its model and its space."""

    study: str
    edition: str
    method: str
    accepts: tuple[str, ...]
    dataset: str
    epsilon: float
    delta: float
    max_records_per_person: int
    person: str | None
    budget: tuple[float, float] | None
    options: Mapping[str, Any] | None


def described(
    given: Parameters,
    *,
    data: DataSection,
    model: ModelSection,
    space: Mapping[str, AxisSection],
    search: SearchSection,
    chosen: str,
) -> StudySpec:
    """The study of these parameters on these sections.

    Args:
        given: the estimator.
        data: [data].
        model: [model].
        space: [space].
        search: [search].
        chosen: what is to be released, for the message: "hyperparameters".

    Raises:
        StudyInvalid: a parameter no study can have, or a method that releases no choice.
    """
    spec = StudySpec(
        name=given.study,
        edition=given.edition,
        method=given.method,
        accepts=tuple(given.accepts),
        privacy=PrivacySection(
            dataset=given.dataset,
            epsilon=float(given.epsilon),
            delta=float(given.delta),
            max_records_per_person=int(given.max_records_per_person),
            person=given.person,
        ),
        budget=None if given.budget is None else _cap(*map(float, given.budget)),
        data=data,
        model=model,
        space=space,
        search=search,
        options=dict(given.options or {}),
    )
    named = None if given.method == AUTO else method_named(given.method, spec.options)
    if named is not None and not named.releases_hyperparameters:
        raise StudyInvalid(f"{given.method} releases no {chosen}", remedy='use method = "auto"')
    return spec


def _cap(epsilon: float, delta: float = 0.0) -> BudgetSection:
    return BudgetSection(epsilon, delta)
