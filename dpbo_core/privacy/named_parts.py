"""A closed table of named parts, each imported when it is asked for, so that a study loads only what it names."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, TypeVar

T = TypeVar("T")


class NamedParts(Mapping[str, T]):
    """The parts of one package by name; its names and their order are known without importing any part."""

    def __init__(self, package: str, homes: Mapping[str, str]) -> None:
        """Take the name of every part and its home, "module.attribute" inside `package`."""
        self._package, self._homes = package, homes

    def __getitem__(self, name: str) -> T:
        module, _, attribute = self._homes[name].rpartition(".")
        part: Any = getattr(import_module(f"{self._package}.{module}"), attribute)
        return part  # type: ignore[no-any-return]

    def __contains__(self, name: object) -> bool:
        return name in self._homes

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)
