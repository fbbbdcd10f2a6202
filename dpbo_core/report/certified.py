"""The certificate of a release: what it must show, and the figures of a published table that it recomputes."""

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from dpbo_core.ledger import outside_spends
from dpbo_core.mechanisms.histogram import LaplaceHistogram
from dpbo_core.methods.certified import CERTIFIED as OF_METHODS
from dpbo_core.privacy.certified import (
    MEAN_RELATIONS,
    QUERIES,
    RECORD_UNITS,
    CertificateRules,
    Declared,
    counted_of_one,
    only_shows,
)
from dpbo_core.privacy.guarantee import PrivacyUnit
from dpbo_core.privacy.named_parts import library_version
from dpbo_core.privacy.release import NO_SCORE, Release
from dpbo_core.report import COMPARISON, KIND
from dpbo_core.report.comparison_query import DRAW as DIFFERENCE
from dpbo_core.report.comparison_query import difference_stated
from dpbo_core.report.evaluated_model import CELL_KINDS
from dpbo_core.report.noised_table import NoisedTable, report
from dpbo_core.report.request import DRAW_NAME

MAX_COUNT = 2**53  # of records and of a noised cell: every such integer is a double
MAX_CELLS = 10**6
TOLERANCE = 1e-6  # relative: of sums in another order, on another machine
PARSE_ERRORS = (AttributeError, LookupError, TypeError, ValueError, ArithmeticError, RecursionError, MemoryError)


def certified_table(release: Release) -> NoisedTable:
    """The noised table of a report, refused unless its size and noise scale are those that the release states."""
    written = release.value["table"]
    table = NoisedTable.from_json(written, CELL_KINDS[written.get("kind")])
    by_person = "n_persons" in release.facts
    counts = (table.n_records, table.weight, *table.drawn)
    if not all(type(count) is int and abs(count) <= MAX_COUNT for count in counts):
        raise TypeError("a count")
    if not (table.n_records >= 1 and table.weight >= 1 and (by_person or table.weight == 1)):
        raise ValueError("n_records")
    if table.n_records != release.facts["n_persons" if by_person else "n_validation"]:
        raise ValueError("another number of records than in the facts")
    (spend,) = release.spends
    sound = type(table.scale) in (int, float) and 0.0 < table.scale < math.inf
    if not sound or table.scale != spend.noise_scale:
        raise ValueError("another noise scale than in the spend")
    if not all(isinstance(name, str) for name in table.groups) or len(set(table.groups)) < len(table.groups):
        raise ValueError("groups")
    n_cells = 1 + max(1, len(table.groups)) * math.prod(table.kind.shape)
    if not len(table.drawn) == n_cells <= MAX_CELLS or not _alike(table.to_json(), written):
        raise ValueError("cells")
    return table


def figures_agree(release: Release) -> bool:
    """Return whether a report's figures follow from its table; of another version only its parts are compared.

    Intervals come from a simulation with a fixed seed, so recomputing them gives the same numbers.
    """
    try:
        with np.errstate(all="ignore"):
            expected = report(certified_table(release))
    except PARSE_ERRORS:
        return False
    if release.facts.get("version") != library_version():  # whose figures may be computed otherwise
        return set(expected) == set(release.value)
    return _alike(expected, release.value)


def figures_in_words(release: Release) -> str:
    """Return whether `figures_agree` computes a report's figures again: "recomputed", or not and who made them."""
    version = release.facts.get("version")
    if version == library_version():
        return "recomputed"
    stated = type(version) is str and re.fullmatch(r"[\w.+!-]{1,40}", version, re.ASCII)
    return f"not recomputed, made by dpbo {version}" if stated else "not recomputed, made by an unknown version"


def _alike(expected: Any, shown: Any) -> bool:
    if isinstance(expected, Mapping):
        same = isinstance(shown, Mapping) and expected.keys() == shown.keys()
        return same and all(_alike(item, shown[key]) for key, item in expected.items())
    if isinstance(expected, list | tuple):
        return isinstance(shown, list | tuple) and len(expected) == len(shown) and all(map(_alike, expected, shown))
    if isinstance(expected, int | float) and not isinstance(expected, bool):
        numbers = isinstance(shown, int | float) and not isinstance(shown, bool)
        return numbers and math.isclose(expected, shown, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return type(expected) is type(shown) and bool(expected == shown)


CERTIFIED_UNITS = (*RECORD_UNITS, PrivacyUnit.TRAINING_RECORD)  # of private training: a validation record's too
REPORT_PARTS = (
    *("table", "metrics", "roc", "confusion", "calibration", "classes", "errors", "binning", "groups"),
    NO_SCORE,
)


def report_shown(release: Release) -> CertificateRules:
    """What a certificate must state of an evaluation (one draw, its sensitivity); refused if it shows more."""
    if not only_shows(release, *REPORT_PARTS) or not isinstance(release.value["table"], dict):
        raise ValueError("value")
    moved = 2.0 if "n_persons" in release.facts else 2.0 * counted_of_one(release)
    return CertificateRules(
        {DRAW_NAME: tuple(LaplaceHistogram.WORTH)},
        moved,
        units=CERTIFIED_UNITS,
        relations=MEAN_RELATIONS,
        agrees=figures_agree,
        figures=figures_in_words(release),
    )


def comparison_shown(release: Release) -> CertificateRules:
    """What a certificate must state of a comparison (one draw, its sensitivity); refused if it shows more."""
    if not only_shows(release, "difference", "sums"):
        raise ValueError("value")
    moved = 2.0 if "n_persons" in release.facts else 2.0 * counted_of_one(release)
    return CertificateRules(
        {DIFFERENCE: tuple(LaplaceHistogram.WORTH)},
        moved,
        relations=MEAN_RELATIONS,
        agrees=_difference_agrees,
        figures="recomputed",
    )


def _difference_agrees(release: Release) -> bool:
    try:
        return _alike(difference_stated(release), release.value["difference"])
    except PARSE_ERRORS:
        return False


CERTIFIED = Declared(
    {
        **{kind: query.certificate_rules for kind, query in QUERIES.items()},
        **OF_METHODS.methods,
        KIND: report_shown,
        COMPARISON: comparison_shown,
        outside_spends.KIND: outside_spends.certificate_rules,
    },
    {**OF_METHODS.mechanisms, **outside_spends.WORTH},
)
