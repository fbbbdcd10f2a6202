"""The map from raw columns to X and labels, fitted to the PUBLIC table; no record of another table makes it fail.

| symbol | name here | meaning | shape |
|---|---|---|---|
| d | `n_features` | features, the bias feature included | scalar |
| b | `bias` | constant last feature of usable records; rows are clipped to √(1−b²) BEFORE it is appended | scalar |
| R | `radius` | the `clip_quantile`-quantile of the training rows' norms; rows are divided by it | scalar |

Every row of the result is a function of that record alone, to the last bit.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.data.features import (
    Category,
    Feature,
    Fill,
    Missing,
    Number,
    Records,
    Scaling,
    check_targets,
    class_labels,
    clipped_rows,
    fit_feature,
    norms,
    scaled_rows,
)
from dpbo_core.data.header import PUBLIC_FILE, SENSITIVE_FILE, check_columns, check_target, column_count_text
from dpbo_core.data.named_columns import UNCONVERTIBLE, NamedColumn, data_frame, fit_columns, refuse_unreadable
from dpbo_core.data.table import Encoded, Table
from dpbo_core.data.values import Value, canonical_text, numbers, positions, sorted_values, value_column
from dpbo_core.errors import StudyInvalid

if TYPE_CHECKING:
    from dpbo_core.data.table_parts import TableParts

_RECORDS_PER_BLOCK = 4096  # keeps the scratch arrays of wide tables in the cache


@dataclass(frozen=True)
class Preprocessing:
    """The public map from a table to `Encoded`."""

    target: str  # the column to predict
    # the training classes, sorted; a label is an index into it, +1 the larger of two; none at all for a regression
    classes: tuple[Value, ...]
    # one a column, in the training table's order; columns as they are, where the estimator takes them
    features: tuple[Feature | NamedColumn, ...]
    unit_ball: bool  # whether rows are scaled by 1/radius and clipped; if not they are standardised only
    bias: float  # b in [0, 1); 0 for no bias feature
    radius: float  # R > 0; 1 without `unit_ball`
    ignored: frozenset[str] = frozenset()  # columns that a table may have and that are no features
    csv: bool = False  # whether the table's own columns were read from lines of text, as texts to predict then are

    @classmethod
    def fit(
        cls,
        table: "Table | TableParts",
        target: str,
        *,
        standardize: bool = True,
        clip_quantile: float = 0.9,
        bias: float = 0.0,
        unit_ball: bool,
        regression: bool = False,
        missing: Missing = "refuse",
    ) -> "Preprocessing":
        """Return the preprocessing whose features, scaling and classes are fitted to the PUBLIC table.

        With `unit_ball` rows are divided by a quantile of their norms and clipped to norm 1.

        Args:
            table: the training records; of parts the same map, by one column or one part in memory at a time.
            target: the column to predict.
            standardize: subtract the training mean and divide by the deviation, column by column.
            clip_quantile: q in (0, 1], the share of the training rows left unclipped. `unit_ball` only.
            bias: b in [0, 1), the constant feature. `unit_ball` only.
            unit_ball: for the linear models, whose theorems need ‖x‖₂ ≤ 1.
            regression: whether the target is a number to be predicted, not a class.
            missing: "refuse" gaps in the features, or put the training "mean" instead of a number.
        """
        check_target(table.columns, target, mode=PUBLIC_FILE)
        _refuse_incomplete(table)
        features = []
        for name, column in table.each_column():
            if name != target:
                features.append(fit_feature(name, column, standardize=standardize, missing=missing))
        labels = table if isinstance(table, Table) else table.only(target)
        if regression:
            check_targets(target, labels)
        classes = () if regression else class_labels(target, labels)
        fitted = cls(target, classes, tuple(features), unit_ball, bias, radius=1.0)
        if unit_ball:
            return replace(fitted, radius=fitted._length_quantile(table, clip_quantile))
        for part in table.parts():
            _refuse_broken(fitted.transform(part).broken, part)
        return fitted

    @classmethod
    def public(
        cls,
        columns: tuple[str, ...],
        target: str,
        *,
        labels: tuple[object, ...],
        bounds: Mapping[str, tuple[float, ...]],
        bias: float = 0.0,
    ) -> "Preprocessing":
        """Return a preprocessing from public facts, for a sensitive training table: nothing is fitted.

        Each column is mapped from its bounds to [−1, 1], and the row is divided by √d. A row within the bounds then
        has norm at most 1; any other is clipped to norm 1. Among `bounds`, [low, high] by column, "*" serves for
        every column that has none of its own.
        """
        check_target(columns, target, mode=SENSITIVE_FILE)
        names = [name for name in columns if name != target]
        unnamed = [name for name in names if name not in bounds]
        if unnamed and "*" not in bounds:
            raise StudyInvalid(
                f"[data.bounds] says nothing of {column_count_text(len(unnamed))} of the training table",
                cause="nothing is fitted to a sensitive training set, so every column needs its public bounds; or "
                "the header line is missing",
                remedy='add a line for each, or "*" = [low, high] for all the others',
            )
        n_values = sum(not isinstance(canonical_text(name), str) for name in unnamed)
        if n_values:
            raise StudyInvalid(
                f"the header of the training table has {column_count_text(n_values)} named as a value is",
                cause="the header line is missing, and the first record would stand in the released model as names",
                remedy="write the column names in the first line; a number as a name needs its own line in "
                "[data.bounds]",
            )
        for name in sorted(set(bounds) - {*names, "*"}):
            raise StudyInvalid(f"[data.bounds] names {name!r}, which is no feature", remedy="remove it")
        if not names:
            raise StudyInvalid("the table has no column but the target", remedy="give a table with features")
        ends = [bounds[name] if name in bounds else bounds["*"] for name in names]
        features = tuple(
            Number(name, low / 2.0 + high / 2.0, high / 2.0 - low / 2.0)
            for name, (low, high) in zip(names, ends, strict=True)
        )
        radius = math.sqrt(len(names))
        return cls(target, stated_classes(labels), features, unit_ball=True, bias=bias, radius=radius)

    @classmethod
    def named(
        cls, table: Table, target: str, *, regression: bool = False, hints: Mapping[str, Any] | None = None
    ) -> "Preprocessing":
        """Return a preprocessing for estimators that take the table's own columns: only their types are fitted.

        The PUBLIC `table` has its cells; `hints` are the pandas types of a table in memory, by column.
        """
        check_target(table.columns, target, mode=PUBLIC_FILE)
        _refuse_incomplete(table)
        if regression:
            check_targets(target, table)
        classes = () if regression else class_labels(target, table)
        columns = fit_columns(table, target, hints)
        return cls(target, classes, columns, unit_ball=False, bias=0.0, radius=1.0, csv=table.csv)

    @property
    def columns(self) -> tuple[NamedColumn, ...] | None:
        """The table's own columns, where the estimator takes a data frame; None if features are made of them."""
        named = tuple(feature for feature in self.features if isinstance(feature, NamedColumn))
        return named if len(named) == len(self.features) else None

    @property
    def text_columns(self) -> frozenset[str]:
        """The columns that hold texts in the training table, so that their values are read as they were written."""
        named = {one.name for one in self.features if isinstance(one, NamedColumn) and one.kind == "text"}
        values = {one.name: one.values for one in self._encoded_features if isinstance(one, Category)}
        values[self.target] = self.classes
        return frozenset(named | {name for name, of in values.items() if of and all(type(v) is str for v in of)})

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the d features: a column's, `column=category`, and `bias` last if there is one."""
        names = tuple(name for feature in self.features for name in feature.feature_names)
        return (*names, "bias") if self.bias > 0.0 else names

    @property
    def n_features(self) -> int:
        """The number d of features."""
        return len(self.feature_names)

    def transform(self, table: Table) -> Encoded:
        """Return the encoded records, an unusable one as zeros or `UNCONVERTIBLE`; only column names can raise."""
        table = table.without(self.ignored)
        names = [*(feature.name for feature in self.features), self.target]
        check_columns(names, table.columns, named=(self.target,))  # a sensitive header may have named the others
        X, broken = self._encoded(table)
        return self._with_target(X, table, broken, 0.0 if self.columns is None else UNCONVERTIBLE)

    def rows(self, table: Table) -> Any:
        """Return records to predict as the estimator takes them: numbers (m, d), or a data frame.

        They are encoded as by `transform`; a record that cannot be used is a row of zeros among numbers. A value
        that none of the table's own columns can hold is refused, by its place.
        """
        X, broken = self._encoded(table)
        if self.columns is None:
            X[broken] = 0.0
            return X
        for column, cells in zip(self.columns, X.T, strict=True):
            refuse_unreadable(column, cells, table)
        return data_frame(self.columns, X)

    def _encoded(self, table: Table) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return the rows (m, d) of a table, and a mask (m,) of those that cannot be used and mean nothing."""
        broken = table.broken.copy()
        if self.columns is not None:
            X = np.empty((table.n_records, len(self.columns)), dtype=object)
            for j, column in enumerate(self.columns):
                X[:, j] = [column.cell(cell) for cell in table.cells_of(column.name)]
                broken |= np.array([cell is UNCONVERTIBLE for cell in X[:, j]], dtype=np.bool_)
            return X, broken
        X = np.zeros((table.n_records, self.n_features))
        bound = math.sqrt((1.0 - self.bias) * (1.0 + self.bias))
        width = self.n_features - (self.bias > 0.0)
        with np.errstate(all="ignore"):
            scaling = self._centers_and_scales()
            if self.unit_ball:
                fill = self._fill(table, broken)
                clipped_rows(fill, broken, scaling, X[:, :width], radius=self.radius, bound=bound)
            for rows, raw in () if self.unit_ball else self._raw_blocks(table, broken):
                block = np.ldexp(*scaled_rows(raw, *scaling))
                # scikit-learn's trees and neighbours compute in float32, and refuse numbers that overflow there
                broken[rows] |= ~np.isfinite(block.astype(np.float32)).all(axis=0)
                X[rows, :width] = block.T
        if self.bias > 0.0:
            X[:, -1] = self.bias
        return X, broken

    def _with_target(self, X: NDArray[Any], table: Table, broken: NDArray[np.bool_], replaced: object) -> Encoded:
        """Return the encoded records, label −1 and a row `replaced` where broken or without label or target."""
        column = table.columns[self.target]
        if not self.classes:
            values = numbers(column)
            labels = np.where(np.isfinite(values) & ~broken, np.int64(0), np.int64(-1))
            X[labels < 0] = replaced
            return Encoded(X, labels, broken, 0, np.where(labels < 0, 0.0, values))
        labels = positions(column, self.classes)
        labels[broken] = -1
        X[labels < 0] = replaced
        return Encoded(X, labels, broken, len(self.classes))

    @property
    def _encoded_features(self) -> tuple[Feature, ...]:
        """The features that are made of columns, without columns that are taken as they are."""
        return tuple(feature for feature in self.features if not isinstance(feature, NamedColumn))

    def _centers_and_scales(self) -> Scaling:
        """Return the center and the scale of every feature, (d,) each, without the bias."""
        widths = [len(feature.feature_names) for feature in self._encoded_features]
        pairs = [feature.center_and_scale for feature in self._encoded_features]
        center, scale = np.repeat(np.reshape(pairs, (-1, 2)).T, widths, axis=1)
        return center, scale

    def _fill(self, table: Table, broken: NDArray[np.bool_]) -> Fill:
        """Return a function that writes the raw features of chosen records, and yields which features it wrote.

        It goes column by column. Records with a gap are marked in `broken`, if they are chosen by a slice (a view).
        """
        features = self._encoded_features
        widths = [len(feature.feature_names) for feature in features]
        ends = np.cumsum(widths).tolist()

        def fill(rows: Records, raw: NDArray[np.float64]) -> Iterator[slice]:
            unusable = broken[rows]
            for feature, width, end in zip(features, widths, ends, strict=True):
                feature.fill(table.columns[feature.name][rows], raw[end - width : end], unusable)
                yield slice(end - width, end)

        return fill

    def _raw_blocks(self, table: Table, broken: NDArray[np.bool_]) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Yield blocks of rows and their raw features (d, r); records with a gap are marked in `broken`."""
        fill, d = self._fill(table, broken), self.n_features - (self.bias > 0.0)
        for start in range(0, table.n_records, _RECORDS_PER_BLOCK):
            rows = slice(start, min(start + _RECORDS_PER_BLOCK, table.n_records))
            raw = np.empty((d, rows.stop - start))
            for _ in fill(rows, raw):
                pass
            yield rows, raw

    def _length_quantile(self, table: "Table | TableParts", share: float) -> float:
        """Return the quantile `share` of the standardised rows' norms; if it is 0 the largest norm, or 1."""
        # all-zero rows are common (unseen categories, constant columns), and a radius must be positive
        lengths = np.concatenate([self._lengths(part) for part in table.parts()])
        return float(np.quantile(lengths, share)) or float(lengths.max()) or 1.0

    def _lengths(self, table: Table) -> NDArray[np.float64]:
        """Return the norms of the standardised PUBLIC rows, (m,), refused where one is not finite."""
        broken = np.zeros(table.n_records, dtype=np.bool_)
        with np.errstate(all="ignore"):
            scaled = (scaled_rows(raw, *self._centers_and_scales()) for _, raw in self._raw_blocks(table, broken))
            lengths = np.concatenate([np.ldexp(norms(y), e) for y, e in scaled] or [np.empty(0)])
        _refuse_broken(~np.isfinite(lengths), table)
        return lengths


def stated_classes(labels: Sequence[object]) -> tuple[Value, ...]:
    """Return the classes that a study states, sorted; refused if two are the same."""
    classes = sorted_values(value_column(labels))
    if len(classes) != len(labels):
        raise StudyInvalid("two of data.labels are the same, or one is empty", remedy="give each label once")
    return classes


def _refuse_incomplete(table: "Table | TableParts") -> None:
    """Refuse a PUBLIC table with no feature, no record, or one that cannot be read."""
    broken = isinstance(table, Table) and table.broken.any()
    if len(table.columns) < 2 or not table.n_records or broken:
        raise StudyInvalid(
            f"{table.source} has no column but the target, no records, or records that cannot be read",
            remedy="give a training table with features and whole records",
        )


def _refuse_broken(broken: NDArray[np.bool_], table: Table) -> None:
    """Refuse a PUBLIC table with a record, marked in `broken`, that is too large to compute with."""
    if broken.any():
        raise StudyInvalid(
            f"{table.place(int(np.argmax(broken)))} of {table.source} holds a value too large to compute with",
            cause="standardize = false on values of very different sizes, or a sentinel such as 1e300",
            remedy="standardise, or correct the value",
        )
