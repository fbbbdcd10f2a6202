"""Standardised rows as mantissas times one power of two a row, and their clipping to the unit ball.

| symbol | name here | meaning | shape |
|---|---|---|---|
| z | | standardised row, (raw − center)/scale; may lie beyond the largest double | (d, r) |
| y, e | `mantissas`, `exponents` | z = y·2^e, a nonzero row's largest y_j in ±[½, 2) | (d, r), (r,) |
| R | `radius` | the length that becomes 1, from the training rows | scalar |
| B | `bound` | rows are clipped to ‖z/R‖₂ ≤ B | scalar |

Arrays are feature by record: a record's norm is summed feature by feature in one order, so it is the same
double whichever records stand beside it.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Records = slice | NDArray[np.intp]
Fill = Callable[[Records, NDArray[np.float64]], Iterator[slice]]

_MAX_EXACT_SQUARE = 2.0**900  # a squared norm up to which doubles themselves serve
_MAX_EXACT_RADIUS = 2.0**400  # nor is a radius this large, or its inverse
_VALUES_PER_BLOCK = 2**18  # keeps the scratch arrays in the cache
_MIN_RECORDS_PER_BLOCK = 1024  # and so does this of wide tables, beside what it costs to begin a block
_MANTISSA_BLOCK_RECORDS = 4096  # that are computed by mantissas
_EXTRA_SLOTS = 16  # places for records beyond that, of every so many, computed whether needed or not
_MIN_EXPONENT = -100_000  # below that of any quotient of doubles


def scaled_rows(
    raw: NDArray[np.float64], center: NDArray[np.float64], scale: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.intc]]:
    """Return standardised rows as mantissas (d, r) and exponents (r,) of finite `raw`. Cannot overflow."""
    # A quarter of each keeps the difference of two huge values finite; it is exact but for the last subnormal bits.
    top, top_exponent = np.frexp(raw * 0.25 - center[:, None] * 0.25)
    bottom, bottom_exponent = np.frexp(scale[:, None])
    mantissas = top / bottom
    exponents = np.where(top == 0.0, _MIN_EXPONENT, top_exponent - bottom_exponent + 2).astype(np.intc)
    largest = exponents.max(axis=0)
    return np.ldexp(mantissas, exponents - largest), largest


def norms(mantissas: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the norm ‖y‖₂ of each record's mantissas, (r,), with a relative error of at most (d + 2)·2⁻⁵³."""
    total = np.zeros(mantissas.shape[1])
    for feature in mantissas:  # not np.sum, whose order of summation depends on the shape
        total += feature * feature
    return np.sqrt(total)


def clipped(
    mantissas: NDArray[np.float64], exponents: NDArray[np.intc], *, radius: float, bound: float
) -> NDArray[np.float64]:
    """Return the scaled rows divided by `radius`, (d, r), each record clipped to norm `bound`.

    The norm of what is returned is at most B in exact arithmetic: clipping aims at B(1 − s) with
    s = max(1e-12, (d + 16)·2⁻⁵²), more than all rounding on the way can add.
    """
    slack = _slack(len(mantissas))
    top, top_exponent = np.frexp(radius)
    with np.errstate(divide="ignore", over="ignore", under="ignore"):  # infinite if the other one is meant
        factor = np.minimum(np.ldexp(1.0 / top, exponents - top_exponent), bound * (1.0 - slack) / norms(mantissas))
    return np.asarray(mantissas * factor, dtype=np.float64)


class Scaling(NamedTuple):
    """What features are standardised by: (x − center)/scale.

    Attributes:
        center: (d,).
        scale: (d,), positive.
    """

    center: NDArray[np.float64]
    scale: NDArray[np.float64]


def clipped_rows(
    fill: Fill,
    broken: NDArray[np.bool_],
    scaling: Scaling,
    out: NDArray[np.float64],
    *,
    radius: float,
    bound: float,
) -> None:
    """Write all records' standardised rows, divided by `radius` and clipped to norm `bound`, to `out` (m, d).

    The rows are those of `clipped(*scaled_rows(...))`, except for the last digits of subnormal numbers, and are
    within the same bound in exact arithmetic. Rows of records marked in `broken` are meaningless.

    Plain doubles are used unless a number overflows, as they then give the same digits: a power of two as the unit
    changes none. The few records whose numbers overflow are computed by mantissas. A fixed number of places per
    table is computed in this way, needed or not, so that the running time tells nothing of up to that many such
    records.

    Args:
        fill: writes raw features of some records, (d, r), and yields the features that it has just written.
        broken: (m,) records without a meaning, true once `fill` has seen them.
        scaling: center and scale of every feature.
        out: where to.
        radius: R.
        bound: B.
    """
    m, d = out.shape
    center, scale = scaling
    size = min(m, max(_MIN_RECORDS_PER_BLOCK, _VALUES_PER_BLOCK // max(1, d)))
    scratch, squares, far = np.empty((d, size)), np.empty((2, size)), []
    aim = bound * (1.0 - _slack(d))
    farthest = _MAX_EXACT_SQUARE if 1.0 / _MAX_EXACT_RADIUS < radius < _MAX_EXACT_RADIUS else -1.0
    with np.errstate(all="ignore"):
        for start in range(0, m, max(1, size)):
            rows = slice(start, min(start + size, m))
            z, (total, square) = scratch[:, : rows.stop - start], squares[:, : rows.stop - start]
            total[:] = 0.0
            for features in fill(rows, z):
                for row, middle, unit in zip(z[features], center[features], scale[features], strict=True):
                    np.subtract(row, middle, out=row)
                    np.divide(row, unit, out=row)
                    np.multiply(row, row, out=square)
                    total += square  # feature by feature, as `norms`
            far.append(start + np.flatnonzero(~((total <= farthest) | broken[rows])))
            z *= np.minimum(1.0 / radius, aim / np.sqrt(total))
            out[rows] = z.T
    places = np.concatenate([*far, np.empty(0, dtype=np.intp)])
    n_far, places_made = len(places), _EXTRA_SLOTS * -(-m // _MANTISSA_BLOCK_RECORDS)
    if m:
        places = np.append(places, np.zeros(-n_far % places_made if n_far else places_made, dtype=np.intp))
    for start in range(0, len(places), _MANTISSA_BLOCK_RECORDS):
        some = places[start : start + _MANTISSA_BLOCK_RECORDS]
        raw = np.empty((d, len(some)))
        for _ in fill(some, raw):
            pass
        rows_far = clipped(*scaled_rows(raw, center, scale), radius=radius, bound=bound).T[: max(0, n_far - start)]
        out[some[: len(rows_far)]] = rows_far


def _slack(d: int) -> float:
    """Return a bound on the relative rounding error of a clipped norm in d dimensions."""
    return max(1e-12, (d + 16) * 2.0**-52)
