"""The SENSITIVE records of a study, in files or of a bundled set: read only after the charge."""

from pathlib import Path
from typing import TYPE_CHECKING

from dpbo_core import data
from dpbo_core.data import Preprocessing, Table
from dpbo_core.data.addresses import FolderAddress, Part, files_of, parts_of, place_of
from dpbo_core.data.read_mode import SENSITIVE_FILE
from dpbo_core.study_file import DataSection, StudySpec

if TYPE_CHECKING:
    from dpbo_core.data.fetched import Contents
    from dpbo_core.data.people import Person


def is_partitioned(spec: StudySpec, folder: str | Path) -> bool:
    """Whether the validation set is a folder of files, or of a store's objects; none is opened."""
    if spec.data.divided is None:
        return False
    place = place_of(folder, spec.data.validation_file)
    return isinstance(place, FolderAddress) or bool(files_of(place))


def validation_parts(spec: StudySpec, folder: str | Path) -> tuple[Part, ...]:
    """The files, or objects (their store is asked which), of a validation folder; empty for a single table."""
    if spec.data.divided is None:
        return ()
    return parts_of(place_of(folder, spec.data.validation_file), shown_as=spec.data.validation_file)


def each_file(spec: StudySpec, names: tuple[str, ...]) -> tuple[StudySpec, ...]:
    """Copies of the study, one for each validation file in `names`; the study itself where `names` is empty."""
    files = spec.data.divided
    if files is None or not names:
        return (spec,)
    return tuple(spec.replace(data=files.replace(validation=name)) for name in names)


def records_of(
    spec: StudySpec, folder: str | Path, fitted: Preprocessing | None = None
) -> "tuple[Table, tuple[Person, ...] | None]":
    """Read the SENSITIVE records: they, and the person of each (None without persons). Only after the charge."""
    section = spec.data
    if not section.has_validation:
        raise TypeError("there is no validation set")
    contents = _fetched(folder, section.validation_file) if section.validation_file else None
    return validation_table(section, folder, contents, fitted), people_of(spec, folder, contents)


def _fetched(folder: str | Path, place: str) -> "Contents":
    """The file of SENSITIVE records at a path or address of a study, fetched if it is elsewhere."""
    from dpbo_core.data.fetched import fetched

    return fetched(place_of(folder, place), shown_as=place)


def validation_table(
    section: DataSection,
    folder: str | Path,
    contents: "Contents | None" = None,
    fitted: Preprocessing | None = None,
) -> Table:
    """The SENSITIVE records, not sealed, fetched unless `contents` has them; only after the charge.

    Raw cells are kept where the preprocessing that was `fitted` takes the table's own columns.
    """
    tables = section.tables()
    if tables is not None:
        return tables[1]
    contents = contents or _fetched(folder, section.validation_file)
    mode = SENSITIVE_FILE.with_cells_for(None if fitted is None else fitted.columns)
    return data.read_table(contents, mode=mode, shown_as=section.validation_file)


def people_of(
    spec: StudySpec, folder: str | Path, contents: "Contents | None" = None
) -> "tuple[Person, ...] | None":
    """Each SENSITIVE record's person, fetched unless in `contents`; None where no column of persons is named."""
    person, place = spec.privacy.person, spec.data.validation_file
    if person is None or not spec.data.names_people:
        return None
    from dpbo_core.data.people import read_people

    return read_people(contents or _fetched(folder, place), person, shown_as=place)
