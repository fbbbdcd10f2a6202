"""A study's training records as written, not encoded, and the fingerprint by which the ledger knows the study."""

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

from dpbo_core import data
from dpbo_core.data import Table
from dpbo_core.data.preprocessing import Preprocessing
from dpbo_core.data.read_mode import PUBLIC_FILE, SENSITIVE_FILE
from dpbo_core.study import DataSection, StudySpec
from dpbo_core.study.headers import left_out, training_parts
from dpbo_core.study.section import require
from dpbo_core.study.spec import space_of

if TYPE_CHECKING:
    from dpbo_core.models.prototype import Prototype


def training_table(
    spec: StudySpec,
    folder: str | Path,
    fitted: Preprocessing | None = None,
    *,
    inodes: frozenset[str] | None = None,
    cells: bool = False,
) -> tuple[Table, str]:
    """Read the training records, public or SENSITIVE, and the target's name; of predictions the public table.

    Args:
        spec: the study.
        folder: the folder that its paths are relative to.
        fitted: the preprocessing of a model, if it is another than the study's: columns have the types that it was
            fitted to, and raw cells are kept where it takes the table's own columns.
        inodes: "device:inode:" of each PUBLIC file that the owner's policy was asked about; any where None.
        cells: whether the raw cells are kept, for a data frame of the table's own columns.
    """
    section, tables = spec.data, spec.data.tables()
    if tables is not None:
        return tables[0], section.target_column
    shown = section.training_file
    require(bool(shown), "the study names no public predictions", remedy="give data.public")
    mode = SENSITIVE_FILE if section.sensitive_training else PUBLIC_FILE.of_inodes(inodes)
    if fitted is not None:
        mode = mode.of_map(fitted)
    elif cells or spec.model.takes_columns:
        mode = mode.with_cells()
    table = data.read_table(Path(folder) / shown, mode=mode, shown_as=shown)
    return labelled(section, table), section.target_column


def labelled(section: DataSection, table: Table) -> Table:
    """Return the PUBLIC training records in `table`, without those that have no label where the study says so."""
    dropped = section.drops_unlabelled and section.target_column in table.columns
    return table.having(section.target_column) if dropped else table


class TrainingReading:
    """A cache of a study's training table, so that its digest and the public half need one reading only."""

    def __init__(self, inodes: frozenset[str] | None = None) -> None:
        """Nothing read; of a PUBLIC file with none of the `inodes` nothing will be, of any where None."""
        self._read: tuple[Table, str] | None = None
        self._inodes = inodes

    def peek(self, spec: StudySpec, folder: str | Path) -> Table:
        """Return the table, read unless it was, and kept."""
        if self._read is None:
            self._read = training_table(spec, folder, inodes=self._inodes)
        return self._read[0]

    def take(self, spec: StudySpec, folder: str | Path) -> tuple[Table, str]:
        """Return the table and the target's name, read unless it was, and kept no longer."""
        read, self._read = self._read or training_table(spec, folder, inodes=self._inodes), None
        return read


def training_digest(spec: StudySpec, folder: str | Path, reading: TrainingReading | None = None) -> str:
    """Return a hash of the PUBLIC training data, read for it unless in `reading`; "" if there are none."""
    if not spec.data.has_public_records:
        return ""
    if spec.data.sensitive_training:
        return ""  # a hash of sensitive records would tell whether a guess of them is right
    parts = training_parts(spec, folder)
    if parts is not None:
        from dpbo_core.data.table_parts import parts_fingerprint

        return parts_fingerprint(parts[0].without(left_out(spec)))
    table = (reading or TrainingReading()).peek(spec, folder).without(left_out(spec))
    return fingerprint_with(data.fingerprint(table), named_prototype(spec, folder))


def fingerprint_with(table: str, prototype: "Prototype | None") -> str:
    """Return a public table's fingerprint, joined with that of an estimator object; unchanged for None."""
    if prototype is None:
        return table
    return hashlib.sha256(f"{table}\n{prototype.identity()}".encode()).hexdigest()


def study_fingerprint(spec: StudySpec, training: str) -> str:
    """Return the ledger's key of a study: a hash of `StudySpec.tuned` and of its public training data's digest.

    An infinite number is written as Infinity, which no text is: that stands in quotes.
    """
    text = json.dumps([spec.tuned.to_dict(), training], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def named_prototype(spec: StudySpec, folder: str | Path) -> "Prototype | None":
    """Return the estimator object that a study names, imported; None if it names a class or a model of dpbo."""
    if not spec.model.names_object:
        return None
    from dpbo_core.models.estimators import cloned
    from dpbo_core.models.import_path import check_names, estimator_named
    from dpbo_core.models.prototype import Prototype

    estimator = cloned(estimator_named(spec.model.estimator, folder))
    check_names(list(spec.model.params), list(estimator.get_params(deep=True)), shown_as=spec.model.estimator)
    estimator.set_params(**spec.model.params)
    return Prototype(estimator, spec.search.seed, spec.model.regression, space_of(spec).meant)
