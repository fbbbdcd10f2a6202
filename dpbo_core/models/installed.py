"""Which packages are installed, and by which distributions: looked up again only when a folder has changed.

To read the lists of all that is installed takes half a second, and a study asks for each name in it.
"""

import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path


def distributions_of_packages() -> Mapping[str, list[str]]:
    """The distributions that each package that can be imported came with, as of now."""
    from importlib.metadata import packages_distributions

    return _looked_up(packages_distributions, tuple((folder, _changed(folder)) for folder in sys.path))


def _changed(folder: str) -> int:
    """When something was last put into a folder or taken out of it, in nanoseconds; 0 where there is none."""
    try:
        return Path(folder).stat().st_mtime_ns
    except (OSError, TypeError, ValueError):  # no folder, or nothing that could name one
        return 0


@lru_cache(maxsize=2)
def _looked_up(
    look: Callable[[], Mapping[str, list[str]]], _: tuple[tuple[str, int], ...]
) -> Mapping[str, list[str]]:
    return look()
