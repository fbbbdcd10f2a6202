"""A study's files: the checks of their headers before a record is read, and the training records as written.

A check needs neither a ledger nor a method, so a mistyped name is answered before those are imported.
"""

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dpbo_core import data
from dpbo_core.data.addresses import list_parquet_files, list_parts, parse_place
from dpbo_core.data.header import PUBLIC_FILE, SENSITIVE_FILE, check_record_count
from dpbo_core.errors import StudyInvalid
from dpbo_core.study import DataSection, StudySpec
from dpbo_core.study.section import require
from dpbo_core.study.spec import space_of

if TYPE_CHECKING:
    from dpbo_core.data import Table
    from dpbo_core.data.preprocessing import Preprocessing
    from dpbo_core.data.table_parts import TableParts
    from dpbo_core.models.prototype import Prototype


def training_parts(spec: StudySpec, folder: str | Path) -> "tuple[TableParts, str] | None":
    """Return the PUBLIC training set in a folder of Parquet files, by its headers, and its target; or None."""
    section = spec.data.divided
    if section is None:
        return None
    place = Path(folder) / section.training
    paths = list_parquet_files(place)
    if not paths:
        with suppress(OSError):  # no name a file could have: whoever opens it says so
            require(
                not place.is_dir(),
                f"the folder {section.training} holds no Parquet file",
                cause="the path is misspelt, or the files are of another format",
                remedy="name a folder of .parquet files, or one .csv or .parquet",
            )
        return None
    if not spec.model.linear:
        raise StudyInvalid(
            f"{section.training} is a folder of training files, and its estimator is trained in memory",
            cause="an estimator of scikit-learn's kind is handed all of its records at once",
            remedy='write the records to one file, or choose estimator = "logistic" or "hinge"',
        )
    if section.drops_unlabelled:
        raise StudyInvalid(
            f'missing_target = "drop" is of one training file, and {section.training} is a folder',
            remedy="leave the public records without a label out of its files",
        )
    from dpbo_core.data.table_parts import TableParts

    return TableParts.of(paths, section.target, display_name=section.training), section.target


def left_out(spec: StudySpec) -> frozenset[str]:
    """Return the names of columns that are no features: ignored ones and the column of persons."""
    return frozenset(spec.data.ignored) | ({spec.privacy.person} if spec.privacy.person else set())


def public_columns(spec: StudySpec, folder: str | Path) -> tuple[str, ...]:
    """Return the public training set's features and target, by its header; refused without the target."""
    parts = training_parts(spec, folder)
    if parts is None:
        path, file_name = Path(folder) / spec.data.training_file, spec.data.training_file
        columns = data.read_header(path, mode=PUBLIC_FILE, display_name=file_name).columns
    else:
        columns = parts[0].columns
    features = tuple(name for name in columns if name not in left_out(spec))
    data.check_target(features, spec.data.target_column, mode=PUBLIC_FILE)
    return features


def check_validation(spec: StudySpec, folder: str | Path, features: Sequence[str]) -> None:
    """Refuse a validation file or folder that is missing, the training file, or not as stated by its headers: with
    the columns `features` (target included) and, unless that is private, the study's number of records.
    """
    section, file_name = spec.data, spec.data.validation_file
    place = parse_place(folder, file_name)
    parts = list_parts(place, display_name=file_name)
    if isinstance(place, Path):
        training = Path(folder) / section.training_file
        check_distinct(
            list_parquet_files(training) or (training,),
            list_parquet_files(place) or (place,),
            display_name=file_name,
        )
    if parts and section.sensitive_training:
        raise StudyInvalid(
            f"{file_name} is a folder, and models of a sensitive training set are scored on one file",
            cause="parts are scored apart, by models that are public",
            remedy="write the validation records to one file",
        )
    if parts and spec.privacy.person is not None and section.person_count is None:
        raise StudyInvalid(
            f"{file_name} is a folder of files, and privacy.person counts a person's records over one file",
            cause="a person's records may lie in several parts, and each part is scored by itself",
            remedy="give one file; or data.n_persons instead of n_validation, which counts each person once",
        )
    n_records = 0
    for path in parts or (place,):
        header = data.read_header(path, mode=SENSITIVE_FILE, display_name=file_name)
        check_names(spec, header.columns, features, display_name=file_name)
        n_records += header.n_records
    check_n_validation(spec, n_records, display_name=file_name)


def check_distinct(training: Sequence[Path], validation: Sequence[Path], *, display_name: str) -> None:
    """Refuse a file that is both for training and validation, or twice in the latter; files that are missing pass.

    Files with equal content are not looked for (`data.aliasing` says why).
    """
    with suppress(OSError):  # missing, or no name a file could have: the reader says so
        own, others = [path.stat() for path in training], [path.stat() for path in validation]
        places = [(one.st_dev, one.st_ino) for one in others]
        if any((one.st_dev, one.st_ino) in places for one in own):
            raise StudyInvalid(
                f"{display_name} is both the training file and the validation file",
                cause="one file was named twice, and a record in both is protected in neither",
                remedy="split the records into two files that share no person",
            )
        if len(set(places)) < len(places):
            raise StudyInvalid(
                f"two files of {display_name} are one file under two names",
                cause="a link to one of them lies in the folder, and its records would count twice",
                remedy="remove the link",
            )


def check_names(spec: StudySpec, columns: Sequence[str], features: Sequence[str], *, display_name: str) -> None:
    """Refuse a validation header with other columns than the training file's `features`, but for those left out.

    The message repeats only names that are public: where the training header is sensitive too, those that the study
    states.
    """
    check_person(spec, columns, display_name=display_name)
    own = [name for name in columns if name not in left_out(spec)]
    data.check_columns(features, own, display_name=display_name, named=spec.data.named_columns)


def check_person(spec: StudySpec, columns: Sequence[str], *, display_name: str) -> None:
    """Refuse a header without the column of persons that the study names."""
    if spec.privacy.person is not None and spec.privacy.person not in columns:
        raise StudyInvalid(
            f"{display_name} has no column {spec.privacy.person!r}, which says whose record it is",
            cause="a misspelt name in [privacy], or the column was dropped",
            remedy="name the column as in the file's header, or leave person out",
        )


def n_public(spec: StudySpec, folder: str | Path) -> int | None:
    """Return the number n of PUBLIC training records, by their header; None if absent or in many files."""
    public = spec.data.public_file
    if spec.data.sensitive_training or not public:
        return None if spec.data.sensitive_training else spec.data.n_trained
    if list_parquet_files(Path(folder) / public):  # they are counted when they are read
        return None
    return data.read_header(Path(folder) / public, mode=PUBLIC_FILE, display_name=public).n_records


def check_n_validation(spec: StudySpec, n_records: int, *, display_name: str = "the validation file") -> None:
    """Refuse another number of validation records than the study states, unless m is private."""
    stated = spec.data.n_scored
    if stated is not None:
        check_record_count(n_records, stated, display_name=display_name)


def training_table(
    spec: StudySpec,
    folder: str | Path,
    fitted: "Preprocessing | None" = None,
    *,
    inodes: frozenset[str] | None = None,
    cells: bool = False,
) -> "tuple[Table, str]":
    """Read the training records, public or SENSITIVE, and the target's name; of predictions the public table.

    Columns have the types that the preprocessing of another model was `fitted` to; raw `cells` are kept for a data
    frame. `inodes`: "device:inode:" of each PUBLIC file that the owner's policy was asked about; any where None.
    """
    section, tables = spec.data, spec.data.tables()
    if tables is not None:
        return tables[0], section.target_column
    file_name = section.training_file
    require(bool(file_name), "the study names no public predictions", remedy="give data.public")
    mode = SENSITIVE_FILE if section.sensitive_training else replace(PUBLIC_FILE, inodes=inodes)
    if fitted is not None:
        mode = mode.of_map(fitted)
    elif cells or spec.model.takes_columns:
        mode = mode.with_cells()
    table = data.read_table(Path(folder) / file_name, mode=mode, display_name=file_name)
    return labelled(section, table), section.target_column


def labelled(section: DataSection, table: "Table") -> "Table":
    """Return the PUBLIC training records in `table`, without those that have no label where the study says so."""
    dropped = section.drops_unlabelled and section.target_column in table.columns
    return table.having(section.target_column) if dropped else table


class TrainingReading:
    """A cache of a study's training table, so that its digest and the public half need one reading only.

    `inodes`: of the PUBLIC files that may be read; of any where None.
    """

    def __init__(self, inodes: frozenset[str] | None = None) -> None:
        self._read: tuple[Table, str] | None = None
        self._inodes = inodes

    def peek(self, spec: StudySpec, folder: str | Path) -> "Table":
        """Return the table, read unless it was, and kept."""
        if self._read is None:
            self._read = training_table(spec, folder, inodes=self._inodes)
        return self._read[0]

    def take(self, spec: StudySpec, folder: str | Path) -> "tuple[Table, str]":
        """Return the table and the target's name, read unless it was, and kept no longer."""
        read, self._read = self._read or training_table(spec, folder, inodes=self._inodes), None
        return read


def training_digest(spec: StudySpec, folder: str | Path, reading: TrainingReading | None = None) -> str:
    """Return a hash of the PUBLIC training data, read for it unless in `reading`; "" if there are none."""
    if not spec.data.has_public_records or spec.data.sensitive_training:
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
    """Return the ledger's key of a study: a hash of `StudySpec.tuned` and of its public training data's digest."""
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
    check_names(list(spec.model.params), list(estimator.get_params(deep=True)), display_name=spec.model.estimator)
    estimator.set_params(**spec.model.params)
    return Prototype(estimator, spec.search.seed, spec.model.regression, space_of(spec).meant)
