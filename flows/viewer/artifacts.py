"""Artifacts of the store's own folder: opened name by name from its root, and no link of a name is followed.

MLflow takes an experiment's root as whoever made the experiment wrote it; so its server is never asked for a file.
"""

import mimetypes
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

PIECE = 2**16


class NotOurs(Exception):
    """A place is outside the store's root, a link, or missing."""


def names_below(location: str, root: Path, base: Path) -> tuple[str, ...]:
    """The path from `root` to an MLflow `location`, as folder names, relative ones from `base`."""
    parts = urlsplit(location)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        location = unquote(parts.path)
    elif parts.scheme or "\0" in location:
        raise NotOurs
    place = base / location
    if ".." in place.parts or not place.is_relative_to(root):
        raise NotOurs
    return place.relative_to(root).parts


def names_of(path: str) -> tuple[str, ...]:
    """The folder and file names in an artifact's path within its run, () for the run's folder; no ".."."""
    names = tuple(path.split("/")) if path else ()
    if any(name in ("", ".", "..") or "\0" in name or "\\" in name for name in names):
        raise NotOurs
    return names


@contextmanager
def opened(root: Path, names: tuple[str, ...]) -> Iterator[int]:
    """Context with a descriptor of the file or folder at `names` below `root`; NotOurs at a link or nothing."""
    handles: list[int] = []
    try:
        try:
            handles.append(os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW))
            for name in names:
                handles.append(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=handles[-1]))
        except (OSError, ValueError):
            raise NotOurs from None
        yield handles[-1]
    finally:
        for handle in handles:
            os.close(handle)


def listing(root: Path, names: tuple[str, ...], path: str) -> list[dict[str, Any]]:
    """A folder's files and folders, without links, as MLflow's API lists them below `path`; [] for a file."""
    entries = []
    with opened(root, names) as folder:
        if not stat.S_ISDIR(os.fstat(folder).st_mode):
            return []
        for name in sorted(os.listdir(folder)):  # noqa: PTH208  by descriptor
            facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
            below = f"{path}/{name}" if path else name
            if stat.S_ISDIR(facts.st_mode):
                entries.append({"path": below, "is_dir": True})
            elif stat.S_ISREG(facts.st_mode):
                entries.append({"path": below, "is_dir": False, "file_size": facts.st_size})
    return entries


def content(root: Path, names: tuple[str, ...]) -> tuple[str, bytes]:
    """The media type and the bytes of a file; NotOurs for a link, a folder or nothing there."""
    with opened(root, names) as handle:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise NotOurs
        pieces = []
        while piece := os.read(handle, PIECE):
            pieces.append(piece)
    kind = "text/plain" if names[-1] == "MLmodel" else mimetypes.guess_type(names[-1])[0]
    return kind or "application/octet-stream", b"".join(pieces)
