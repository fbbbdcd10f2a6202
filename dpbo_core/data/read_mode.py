"""How a table's file is read: what its messages may say, what in it may raise, and what of its values is kept."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self


@dataclass(frozen=True)
class ReadMode:
    """The rules of one reading; of a sensitive file MATH §1 (Totality).

    Attributes:
        repeats_names: whether messages may repeat what the header and the path hold. A header line that is missing
            makes the first RECORD the header.
        refuses_records: whether a record or a column that cannot be read raises; if not it is a broken one.
        leaves_core_dumps: whether a crash of this process may leave its memory in a file from now on.
        takes_loose_decimals: whether decimals in byte arrays of any length are taken, of which ONE can fail all
            records of its group.
        keeps_cells: whether raw cells are kept beside the values, for an estimator that takes the file's columns.
    """

    repeats_names: bool
    refuses_records: bool
    leaves_core_dumps: bool
    takes_loose_decimals: bool
    keeps_cells: bool = False

    def with_cells(self) -> Self:
        """This read mode with the raw cells kept too."""
        return replace(self, keeps_cells=True)

    def with_cells_for(self, columns: Sequence[object] | None) -> Self:
        """This read mode, with the raw cells kept if an estimator takes `columns` as they are."""
        return self if columns is None else self.with_cells()


PUBLIC_FILE = ReadMode(repeats_names=True, refuses_records=True, leaves_core_dumps=True, takes_loose_decimals=True)
SENSITIVE_FILE = ReadMode(
    repeats_names=False, refuses_records=False, leaves_core_dumps=False, takes_loose_decimals=False
)
