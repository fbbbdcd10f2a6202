"""What a study file alone can tell: a class by its import path, its parameters. scikit-learn is not imported."""

from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from dpbo_core.models.listed.entry import READ
from dpbo_core.models.listed.predictors import PREDICTORS


def version_was_read() -> str:
    """What is wrong with the installed scikit-learn; "" where the list's sentences were read from its code."""
    try:
        installed = version("scikit-learn")
        number = tuple(int(part) for part in installed.split(".")[:2])
    except (PackageNotFoundError, ValueError):
        return "a scikit-learn without a version"
    if READ[0] <= number <= READ[1]:
        return ""
    return f"scikit-learn {installed}, whose code was not read for the list of known classes"


def unlisted_name(path: str, params: Mapping[str, Any], axes: Mapping[str, Iterable[Any]]) -> str:
    """Why an estimator named in a study file is not known to predict each row alone; "" where it is.

    Args:
        path: of its class.
        params: its fixed parameters.
        axes: the values of each categorical axis; what a number can do to an entry is nothing.
    """
    entry = PREDICTORS.get(path)
    if entry is None:
        return path
    refused = entry.refusal(params)
    for name, values in axes.items():
        for value in values:
            refused = refused or entry.refusal({name: value})
    return version_was_read() or (f"{path.rpartition('.')[2]} with {refused}" if refused else "")
