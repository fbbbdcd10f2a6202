"""What a study file alone can tell: a class by its import path, its parameters. scikit-learn is not imported."""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from dpbo_core.models.listed.entry import DISTRIBUTIONS, READ, SCIKIT_LEARN
from dpbo_core.models.listed.predictors import PREDICTORS


def version_was_read(package: str = SCIKIT_LEARN) -> str:
    """What is wrong with the installed package; "" where the list's sentences were read from its code."""
    installed = next(filter(None, map(_installed, DISTRIBUTIONS.get(package, (package,)))), "")
    try:
        number = tuple(int(part) for part in installed.split(".")[:2])
    except ValueError:
        return f"a {package} without a version"
    first, last = READ[package]
    if first <= number <= last:
        return ""
    return f"{package} {installed}, whose code was not read for the list of known classes"


@cache  # read from the disk once: what a process has imported stays what it is
def _installed(distribution: str) -> str:
    """Its version; "" where it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""


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
    wrong = version_was_read() or version_was_read(entry.package)
    return wrong or (f"{path.rpartition('.')[2]} with {refused}" if refused else "")
