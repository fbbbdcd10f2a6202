"""[data] where others made the predictions: nothing is trained, its columns are the candidates."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from dpbo_core.problem.reading import Section, require
from dpbo_core.study_file.public_data import Labels, NRecords, check_target


@dataclass(frozen=True)
class PredictionTable(Section):
    """A SENSITIVE file of what public models, each a candidate, said of every record: they are chosen by it, and
    nothing is trained.

    Attributes:
        predictions: path; a row a record, the columns of each candidate, and the target.
        n_validation: m, its number of records.
        target: the column that was to be predicted.
        labels: the classes, the one that a single column of probabilities is of last; None for a regression.
        public: path of a file with the same columns on PUBLIC records, if there is one.
        ignore: columns that are no predictions.
    """

    heading: ClassVar[str] = "data"
    predictions: str
    n_validation: NRecords
    target: str
    labels: Labels | None = None
    public: str | None = None
    ignore: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_target(self.target, self.ignore)


def read_predictions(table: Mapping[str, Any]) -> PredictionTable:
    """The [data] section, checked, of a study of predictions that were made elsewhere.

    Raises:
        StudyInvalid: one is missing, or belongs to another way of giving data.
    """
    keys = [item.name for item in fields(PredictionTable)]
    other = [key for key in table if key not in keys]
    require(
        not other,
        f"[data] gives {', '.join(other)} beside predictions",
        cause="of a table of predictions nothing is trained, and there is one sensitive file",
        remedy=f"keep {', '.join(keys)}",
    )
    lacking = [key for key in ("n_validation", "target") if key not in table]
    require(
        not lacking,
        f"[data] lacks {', '.join(lacking)}",
        cause="a table of predictions has a public number of records, and a column that says what is right",
        remedy="add the missing keys",
    )
    return PredictionTable(**table)
