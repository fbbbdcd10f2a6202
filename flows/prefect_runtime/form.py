"""A study as Prefect's form gives it: the fields of `StudySpec` as plain JSON, or the tables of a study file."""

from collections.abc import Mapping
from typing import Any

from dpbo_core.spec import StudySpec

HEAD = ("name", "edition", "method", "accepts")


def study_of(given: StudySpec | Mapping[str, Any]) -> StudySpec:
    """The study itself, read as strictly as a file.

    Raises:
        StudyInvalid: with the message that the same mistake in a file would get.
    """
    if isinstance(given, StudySpec):
        return given
    if isinstance(given.get("study"), Mapping):
        return StudySpec.from_dict(given)
    fields = _without_none(given)
    tables: dict[str, Any] = {"study": {key: fields.pop(key) for key in HEAD if key in fields}}
    tables["method"] = fields.pop("options", {})
    return StudySpec.from_dict(tables | fields)


def _without_none(value: Any) -> Any:
    """A form sends null for what was left empty."""
    if isinstance(value, Mapping):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    return value
