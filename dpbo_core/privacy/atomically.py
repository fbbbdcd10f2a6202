"""A file that is either whole or not there, even if the process that makes it is killed."""

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def create_atomically(path: Path, make: Callable[[Path], object]) -> bool:
    """Let `make` build a file beside `path`, then give it that name; False, and nothing changed, if one is there.

    `make` has closed the file when it returns. The folder of `path` is made if need be.
    """
    if path.exists():
        return False
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{path.name}-", dir=path.parent) as folder:
        built = Path(folder) / path.name
        make(built)
        built.chmod(0o600)
        with suppress(FileExistsError):
            os.link(built, path)  # fails, rather than replaces, if another process was first
            return True
    return False


def replace_atomically(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Replace the file at `path`: even after a crash it holds the whole old or the whole new content."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            Path(name).unlink()
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the new name itself
    finally:
        os.close(folder)


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Context for one process and thread at a time, the others waiting; the folder is made for its owner alone."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
