"""How a table's file is read: what its messages may say, what in it may raise, and what of its values is kept."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self


@dataclass(frozen=True)
class ReadMode:
    """The rules of one reading.

    Attributes:
        sensitive: MATH §1 (Totality). A record or a column that cannot be read is a broken one and raises nothing;
            no message repeats what the header or the path hold, for a header line that is missing makes the first
            RECORD the header; a crash of this process leaves no memory in a file from now on; decimals in byte
            arrays of any length are refused, since ONE of them can fail all records of its group.
        keeps_cells: whether raw cells are kept beside the values, for an estimator that takes the file's columns.
        inodes: "device:inode:" of each file that may be opened, as the owner's policy was asked about it; any file
            where None. Whatever was put in its place since is refused when it is opened.
    """

    sensitive: bool
    keeps_cells: bool = False
    inodes: frozenset[str] | None = None

    def with_cells(self) -> Self:
        """The same read mode, but with the file's own values kept beside the numbers."""
        return replace(self, keeps_cells=True)

    def of_inodes(self, inodes: frozenset[str] | None) -> Self:
        """The same read mode, in which a file with none of the `inodes` is refused; any is read for None."""
        return replace(self, inodes=inodes)

    def with_cells_for(self, columns: Sequence[object] | None) -> Self:
        """This read mode, with the file's own values read too where `columns`, of an estimator that takes data
        frames, is not None.
        """
        return self if columns is None else self.with_cells()


PUBLIC_FILE, SENSITIVE_FILE = ReadMode(sensitive=False), ReadMode(sensitive=True)
