"""Closed tables of named parts, each imported when it is requested, and what the installed features declare.

A feature declares its parts as entry points (pyproject.toml). Only those of the distribution `dpbo` itself that lie
under `dpbo.features.` are read, and none replaces a part of the core: another installed package is no door.

The version that releases state.
"""

from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, TypeVar

T = TypeVar("T")
DISTRIBUTION, FEATURES = "dpbo", "dpbo.features."


@cache
def declared(group: str) -> Mapping[str, str]:
    """Return what the installed features declare in an entry point group: "module:attribute" by name, in order."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        points = distribution(DISTRIBUTION).entry_points
    except PackageNotFoundError:  # a checkout that is not installed has the core alone
        return {}
    values = {point.name: point.value for point in points if point.group == group}
    return {name: value for name, value in sorted(values.items()) if value.startswith(FEATURES)}


def load(value: str) -> Any:
    """Return the part at "module:attribute", importing its module."""
    module, _, attribute = value.partition(":")
    return getattr(import_module(module), attribute)


class NamedParts(Mapping[str, T]):
    """The parts of one package by name, then the features' parts of one group; no part is imported to list them."""

    def __init__(self, package: str, homes: Mapping[str, str], *, group: str = "") -> None:
        """Take the home of each part, "module.attribute" inside `package`, and the features' entry point group."""
        self._package, self._homes, self._group = package, homes, group

    def __getitem__(self, name: str) -> T:
        if name not in self._homes:
            return load(declared(self._group)[name])  # type: ignore[no-any-return]
        module, _, attribute = self._homes[name].rpartition(".")
        return load(f"{self._package}.{module}:{attribute}")  # type: ignore[no-any-return]

    def __contains__(self, name: object) -> bool:
        return name in self._homes or name in self._declared()

    def __iter__(self) -> Iterator[str]:
        yield from self._homes
        yield from (name for name in self._declared() if name not in self._homes)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _declared(self) -> Mapping[str, str]:
        return declared(self._group) if self._group else {}


UNINSTALLED_VERSION = "uninstalled"  # run from a source folder: its files say nothing of a version


@lru_cache(maxsize=1)  # read from the disk once, before a study is charged, and never again
def library_version() -> str:
    """Return the installed version of dpbo, or "uninstalled" where it runs from a source folder."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("dpbo")
    except PackageNotFoundError:
        return UNINSTALLED_VERSION
