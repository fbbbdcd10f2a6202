"""The study that an estimator's parameters describe: what each of ours says of one, read off it in one place."""

from collections.abc import Mapping
from typing import Any

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


def described(
    estimator: Any,
    *,
    data: DataSection,
    model: ModelSection,
    space: Mapping[str, AxisSection],
    search: SearchSection,
    choice: str,
) -> StudySpec:
    """The study of these parameters on these sections.

    Args:
        estimator: ours, whose parameters say the rest.
        data: [data].
        model: [model].
        space: [space].
        search: [search].
        choice: what is to be released, for the message: "hyperparameters".

    Raises:
        StudyInvalid: a parameter no study can have, or a method that releases no choice.
    """
    cap = estimator.budget
    spec = StudySpec(
        name=estimator.study,
        edition=estimator.edition,
        method=estimator.method,
        accepts=tuple(estimator.accepts),
        privacy=PrivacySection(
            dataset=estimator.dataset,
            epsilon=float(estimator.epsilon),
            delta=float(estimator.delta),
            max_records_per_person=int(estimator.max_records_per_person),
            person=estimator.person,
        ),
        budget=None if cap is None else BudgetSection(float(cap[0]), float(cap[1])),
        data=data,
        model=model,
        space=space,
        search=search,
        options=dict(estimator.options or {}),
    )
    named = None if estimator.method == AUTO else method_named(estimator.method, spec.options)
    if named is not None and not named.releases_hyperparameters:
        raise StudyInvalid(f"{estimator.method} releases no {choice}", remedy='use method = "auto"')
    return spec
