"""The public half of a study whose training set is a folder of Parquet files. Linear models only.

The files are read three times, a few columns or one file in memory at once: for centres and scales, for the
quantile of the rows' lengths (all lengths at once, 8 bytes each, so that it is exact), and for the rows. Map, rows
and models are those of one table, by the same sums in the same order; the fingerprint covers the files' content in
the order of their names.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpbo_core.data import Preprocessing
from dpbo_core.data.table_parts import PartsFingerprint, TableParts
from dpbo_core.models.linear.signed_rows import StoredRows, stored
from dpbo_core.models.linear_trainer import check_two_classes
from dpbo_core.models.scores.pairs import PairScore
from dpbo_core.objective.partitioned import KEPT_AT_MOST
from dpbo_core.problem import Problem
from dpbo_core.spec import LinearSection, PersonFiles, PublicFiles, StudySpec
from dpbo_core.study.public_half import PublicHalf, fitted_map, linear_problem
from dpbo_core.study.training_set import left_out


def half_of_parts(spec: StudySpec, problem: Problem, table: TableParts, target: str) -> PublicHalf:
    """What a public training table in many files becomes.

    Args:
        spec: the study, of a linear model.
        problem: the problem it poses.
        table: the training records.
        target: the column to predict.

    Raises:
        StudyInvalid: a file cannot be read, the training data cannot be used as the study says, or there is no room
            for the rows.
    """
    model, table = spec.model, table.without(left_out(spec))
    if not isinstance(model, LinearSection):
        raise TypeError("an estimator is trained on records in memory")
    fitted = fitted_map(spec, table, target)
    check_two_classes(len(fitted.classes), model.estimator)
    reading = _Reading(fitted, table)
    Z = stored(reading.signed_rows(), (table.n_records, fitted.n_features), _limit(spec))
    labels = np.concatenate(reading.labels)
    rows = StoredRows(Z, np.where(labels == 1, 1.0, -1.0), _limit(spec))
    problem = linear_problem(model, problem, rows, labels)
    if isinstance(problem.score, PairScore):
        problem = replace(problem, positives=float((labels == 1).mean()))
    return PublicHalf(
        problem=problem,
        preprocessing=fitted,
        columns=table.columns,
        target=target,
        fingerprint=reading.fingerprint.hexdigest(),
    )


class _Reading:
    """One reading of all files: their rows, and on the way their labels and fingerprint."""

    def __init__(self, fitted: Preprocessing, table: TableParts) -> None:
        self._fitted, self._table = fitted, table
        self.labels: list[NDArray[np.int64]] = []
        self.fingerprint = PartsFingerprint()

    def signed_rows(self) -> Iterator[NDArray[np.float64]]:
        """z_i of the records of each file, (n_j, d)."""
        for part in self._table.parts():
            self.fingerprint.add(part)
            encoded = self._fitted.transform(part)
            self.labels.append(encoded.labels)
            yield encoded.X * np.where(encoded.labels == 1, 1.0, -1.0)[:, None]


def _limit(spec: StudySpec) -> int:
    """Bytes of rows that stay in an array."""
    given = spec.data
    stated = given.memory_limit if isinstance(given, PublicFiles | PersonFiles) else None
    return int((KEPT_AT_MOST if stated is None else stated) * 1e9)
