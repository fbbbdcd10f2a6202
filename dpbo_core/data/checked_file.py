"""A file that is opened only if it is the one that somebody was asked about, whatever lies under its name since."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from dpbo_core.errors import StudyInvalid


@dataclass(frozen=True)
class CheckedFile:
    """A file by its path, and the device and inode that it must have when it is opened.

    Attributes:
        path: where it is.
        inodes: "device:inode:" of each file that may be opened.
        shown_as: the path as the study has it.
    """

    path: Path
    inodes: frozenset[str]
    shown_as: str

    @property
    def suffix(self) -> str:
        """The suffix of its name."""
        return self.path.suffix

    def open(self, mode: Literal["rb"] = "rb") -> BinaryIO:
        """Return the open file, compared by its own descriptor, so that no name can be changed in between.

        Raises:
            StudyInvalid: another file was put in its place. OSError: it cannot be opened.
        """
        file = self.path.open(mode)
        status = os.fstat(file.fileno())
        if f"{status.st_dev}:{status.st_ino}:" not in self.inodes:
            file.close()
            raise StudyInvalid(
                f"{self.shown_as} is not the file that the owner's policy was asked about",
                cause="another file was put in its place while the study began",
                remedy="run the study again, when nobody writes the file",
            )
        return file
