"""The study that a flow run is of: from Prefect's form, or of a schedule's moment.

One run of a schedule is one edition of its study: names with fields are filled from the run's time, UTC.

    {year} 2026 · {month} 2026-11 · {week} 2026-W47 · {date} 2026-11-21 · {hour} 2026-11-21T02
    {time} 2026-11-21T02:00:00Z

Fields may stand in the edition, the dataset and the data paths. A dataset's name decides which people share a
budget, so it may change with the time only if the validation file changes with it, field for field.
"""

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dpbo.flows.owner import at_the_terminal
from dpbo_core.errors import PolicyRefused, StudyInvalid, suggestion
from dpbo_core.ledger.name_patterns import TIME_FIELDS, fields_of, filled_at
from dpbo_core.study import StudySpec
from dpbo_core.study.schedule import planned_for_schedule
from dpbo_core.study.spec import changed_study, read_study

HEAD_FIELDS = ("name", "edition", "method", "accepts")


def study_of(form: StudySpec | Mapping[str, Any]) -> StudySpec:
    """Return the study in a flow's parameter.

    It is a spec; or a mapping laid out as a study file; or a flat mapping from Prefect's form, in which None means
    "not given", the fields of [study] stand beside the sections, and `options` is the section [method].
    """
    if isinstance(form, StudySpec):
        return form
    if isinstance(form.get("study"), Mapping):
        return StudySpec.from_dict(form)
    fields = _without_none(form)
    tables: dict[str, Any] = {"study": {key: fields.pop(key) for key in HEAD_FIELDS if key in fields}}
    tables["method"] = fields.pop("options", {})
    return StudySpec.from_dict(tables | fields)


def scheduled_study(path: Path, frozen: str | None) -> StudySpec:
    """Return the study in the file that a scheduled run names, refused if its SHA-256 is not `frozen` (None: any).

    Args:
        path: a parameter of the run, which whoever may start runs can give.
        frozen: SHA-256 of the study that `dpbo serve` began with; None under a worker.

    Raises:
        StudyInvalid, PolicyRefused: it is not that. Where its owner did not call, one message stands for a missing,
            a forbidden and any other file.
    """
    try:
        if at_the_terminal() or os.path.isfile(path):  # noqa: PTH113  a terminal or a pipe would be read for ever
            return read_study(path, frozen=frozen)
    except (StudyInvalid, PolicyRefused):
        if at_the_terminal():
            raise
    if frozen is not None:
        raise changed_study(str(path))
    raise StudyInvalid(
        "the file that this run names is missing, cannot be read or is no study",
        cause="which of these is not said to whoever may start runs",
        remedy="its owner types dpbo plan and its name, which says what to mend",
    )


def _without_none(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    return value


def edition_at(spec: StudySpec, moment: datetime) -> StudySpec:
    """Return the study with fields such as {date} filled for `moment` in UTC, in paths too; an edition without a
    field becomes the time.

    A cap that does not say for how many editions it is planned is planned for as many as it holds.
    """
    check_fields(spec)
    moment = moment.astimezone(UTC)

    def filled(text: str) -> str:
        return filled_at(text, moment)

    edition = filled(spec.edition) if fields_of(spec.edition) else filled("{time}")
    privacy = spec.privacy.replace(dataset=filled(spec.privacy.dataset))
    return planned_for_schedule(spec).replace(edition=edition, data=spec.data.filled(filled), privacy=privacy)


def check_fields(spec: StudySpec) -> None:
    """Refuse unknown name fields (other than {date} and the like), or a dataset that changes without its file."""
    dataset, validation = fields_of(spec.privacy.dataset), fields_of(spec.data.validation_file)
    for name in (*fields_of(spec.edition), *dataset, *validation, *fields_of(spec.data.training_file)):
        if name not in TIME_FIELDS:
            raise StudyInvalid(
                f"{{{name}}} is no field of a scheduled study{suggestion(name, TIME_FIELDS)}",
                remedy=f"use {', '.join(f'{{{field}}}' for field in TIME_FIELDS)}",
            )
    if set(dataset) - set(validation):
        raise StudyInvalid(
            f"privacy.dataset = {spec.privacy.dataset!r} changes with the time, and the validation data does not",
            cause="the same people would get a new budget at every change",
            remedy="put the same field into data.validation, or keep one name for one group of people",
        )


def refuse_fields(spec: StudySpec) -> None:
    """Refuse a study run by hand whose edition, dataset or paths hold a schedule's {date} or similar ones."""
    texts = (spec.edition, spec.privacy.dataset, spec.data.training_file, spec.data.validation_file)
    names = [name for text in texts for name in fields_of(text) if name in TIME_FIELDS]
    if names:
        raise StudyInvalid(
            f"the study holds the field {{{names[0]}}}, which a schedule fills",
            cause="it was written for dpbo serve",
            remedy="run it with dpbo serve, or write the name out",
        )
