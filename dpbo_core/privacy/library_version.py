"""The version that releases state."""

from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version

UNINSTALLED = "uninstalled"  # run from a source folder: its files say nothing of a version


@lru_cache(maxsize=1)  # read from the disk once, before a study is charged, and never again
def library_version() -> str:
    """The installed version of dpbo, or "uninstalled" where it runs from a source folder."""
    try:
        return version("dpbo")
    except PackageNotFoundError:
        return UNINSTALLED
