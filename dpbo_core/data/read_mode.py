"""How a table's file is read: what its messages may say, what in it may raise, and what of its values is kept."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from dpbo_core.data.preprocessing import Preprocessing


@dataclass(frozen=True)
class ReadMode:
    """The rules of one reading.

    Attributes:
        sensitive: MATH §1 (Totality). A record or a column that cannot be read is a broken one and raises nothing;
            no message repeats what the header or the path hold, for a header line that is missing makes the first
            RECORD the header; a crash of this process leaves no memory in a file from now on; decimals in byte
            arrays of any length are refused, since ONE of them can fail all records of its group.
        keeps_cells: whether raw cells are kept beside the values, for an estimator that takes the file's columns.
        texts: the columns that hold texts, by public facts, whose values are read as they were written. A PUBLIC
            file's other columns get their type from their values; a sensitive one's values are read one by one.
        inodes: "device:inode:" of each file that may be opened, as the owner's policy was asked about it; any file
            where None. Whatever was put in its place since is refused when it is opened.
    """

    sensitive: bool
    keeps_cells: bool = False
    texts: frozenset[str] = frozenset()
    inodes: frozenset[str] | None = None

    def with_cells(self) -> Self:
        """Return the same read mode, but with the file's own values kept beside the numbers."""
        return replace(self, keeps_cells=True)

    def of_inodes(self, inodes: frozenset[str] | None) -> Self:
        """Return the same read mode, in which a file with none of the `inodes` is refused; any is read for None."""
        return replace(self, inodes=inodes)

    def of_map(self, fitted: "Preprocessing") -> Self:
        """This read mode, with the column types that preprocessing was `fitted` to, and the file's own values where
        the estimator takes data frames.
        """
        return replace(self, texts=fitted.text_columns, keeps_cells=fitted.columns is not None)


PUBLIC_FILE, SENSITIVE_FILE = ReadMode(sensitive=False), ReadMode(sensitive=True)
