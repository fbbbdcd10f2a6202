"""The public half of a study of predictions made elsewhere: its candidates' names, and a public table if any."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core import data
from dpbo_core.data import Table
from dpbo_core.data.addresses import parse_place
from dpbo_core.data.header import SENSITIVE_FILE
from dpbo_core.data.predictions import PredictionColumns
from dpbo_core.data.values import shown, sorted_values, value_column
from dpbo_core.errors import StudyInvalid
from dpbo_core.methods.problem import Problem
from dpbo_core.models.predicted import PredictionsTrainer
from dpbo_core.models.scores.kinds import PairScore, RecordScore
from dpbo_core.models.scores.union import Score
from dpbo_core.search.search_space import Value
from dpbo_core.study import PredictionsSection, PredictionTable, StudySpec
from dpbo_core.study.data_files import check_distinct, check_n_validation, check_person, left_out
from dpbo_core.study.data_kinds import CANDIDATE_AXIS
from dpbo_core.study.data_split import Halves
from dpbo_core.study.named_score import score_on
from dpbo_core.study.public_half import PublicHalf

N_BINARY_CLASSES = 2


def _sections(spec: StudySpec) -> tuple[PredictionTable, PredictionsSection]:
    section, model = spec.data, spec.model
    if not isinstance(section, PredictionTable) or not isinstance(model, PredictionsSection):
        raise TypeError("no table of predictions")
    return section, model


def columns_of(spec: StudySpec) -> dict[str, tuple[str, ...]]:
    """Return each candidate's columns: its name, or `candidate:class` for probabilities of 3 or more classes."""
    section, model = _sections(spec)
    names = [str(name) for name in spec.space[CANDIDATE_AXIS].values or ()]
    classes = sorted_values(value_column(list(section.labels or ())))
    return candidate_columns(names, classes, score_on(model, classes))


def candidate_columns(names: Sequence[str], classes: tuple[Value, ...], score: Score) -> dict[str, tuple[str, ...]]:
    """Return the columns of predictions that the score needs of each candidate in `names`."""
    if isinstance(score, RecordScore) and score.needs == "predict_proba" and len(classes) > N_BINARY_CLASSES:
        return {name: tuple(f"{name}:{shown(value)}" for value in classes) for name in names}
    return {name: (name,) for name in names}


def names_classes(classes: tuple[Value, ...], score: Score) -> bool:
    """Return whether a prediction in the table is a class's name; otherwise it is a number."""
    return bool(classes) and isinstance(score, RecordScore) and score.needs == "predict"


def check_prediction_columns(public: PublicHalf, columns: Sequence[str], *, display_name: str) -> None:
    """Refuse a table of predictions that has other columns than the study's."""
    if not isinstance(public.preprocessing, PredictionColumns):
        raise TypeError("no table of predictions")
    public.preprocessing.check(columns, display_name=display_name)


def prediction_half(spec: StudySpec, problem: Problem, table: Table | None) -> PublicHalf:
    """Return the public half of a study of predictions: its columns, and the `table` on PUBLIC records if any."""
    section, model = _sections(spec)
    by_candidate = columns_of(spec)
    names = [name for columns in by_candidate.values() for name in columns]
    classes = sorted_values(value_column(list(section.labels or ())))
    score = score_on(model, classes)
    of_classes, ignored = names_classes(classes, score), left_out(spec)
    fitted = PredictionColumns.of(
        names, section.target, section.labels or (), of_classes=of_classes, ignored=ignored
    )
    X = np.zeros((0, len(names)))
    truth: NDArray[Any] = np.zeros(0, dtype=np.int64)
    if table is not None:
        encoded = fitted.transform(table)
        usable = encoded.labels >= 0
        if not usable.any():
            raise StudyInvalid(
                "no public record has a usable target",
                cause="data.target names another column, or data.labels other classes",
                remedy="correct them, or leave data.public out",
            )
        X, truth = encoded.X[usable], encoded.truth[usable]
        for column, name in enumerate(names):
            if not np.isfinite(X[:, column]).any():
                raise StudyInvalid(
                    f"no public record has a prediction in {name!r} that the score {model.score} can use",
                    cause="the column holds numbers where classes are asked for, or other names than data.labels",
                    remedy="write classes or probabilities; or a score of numbers, roc_auc say",
                )
    trainer = PredictionsTrainer(
        {name: tuple(names.index(column) for column in columns) for name, columns in by_candidate.items()},
        len(names),
        score,
        model.regression,
        X,
        truth,
    )
    problem = replace(problem, score=score, baseline=trainer.baseline(len(classes)), trainer=trainer)
    if isinstance(score, PairScore) and len(truth):
        problem = replace(problem, positives=float((truth == 1).mean()))
    return PublicHalf(
        problem=problem,
        preprocessing=fitted,
        columns=fitted.all_columns,
        target=section.target,
        fingerprint="" if table is None else data.fingerprint(table.without(ignored)),
    )


class PredictionHalves(Halves):
    """The halves of a study of predictions: the public table, if there is one, and the sensitive one."""

    def public(self, problem: Problem) -> PublicHalf:
        """Return the candidates' columns, and the public table, read, if there is one."""
        table = self.reading.take(self.spec, self.folder)[0] if self.spec.data.has_public_records else None
        return prediction_half(self.spec, problem, table)

    def check_headers(self, problem: Problem) -> None:
        """Refuse a table of predictions that is missing, or not as stated by its header."""
        self.check(prediction_half(self.spec, problem, None))

    def check(self, public: PublicHalf) -> None:
        """Refuse a table of predictions that is missing, or has other columns or numbers of records than stated."""
        section, file_name = self.spec.data, self.spec.data.validation_file
        place = parse_place(self.folder, file_name)
        if section.public_file and isinstance(place, Path):
            check_distinct((self.folder / section.public_file,), (place,), display_name=file_name)
        header = data.read_header(place, mode=SENSITIVE_FILE, display_name=file_name)
        check_person(self.spec, header.columns, display_name=file_name)
        check_prediction_columns(public, header.columns, display_name=file_name)
        check_n_validation(self.spec, header.n_records, display_name=file_name)
