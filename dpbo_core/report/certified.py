"""What the certificates of a report, and of the features' queries, must show, declared beside the methods'."""

from dpbo_core.mechanisms.histogram import LaplaceHistogram
from dpbo_core.methods.certified import CERTIFIED as OF_METHODS
from dpbo_core.privacy.certified import (
    MEANS,
    RECORDS,
    CertificateRules,
    Declared,
    counted_of_one,
    only_shows,
)
from dpbo_core.privacy.declared_query import QUERIES
from dpbo_core.privacy.release import NO_SCORE, Release
from dpbo_core.privacy.unit import PrivacyUnit
from dpbo_core.report import KIND
from dpbo_core.report.certified_table import figures_agree, figures_in_words
from dpbo_core.report.request import DRAW

UNITS = (*RECORDS, PrivacyUnit.TRAINING_RECORD)  # of private training: whose validation record it may be too
PARTS = ("table", "metrics", "roc", "confusion", "calibration", "classes", "errors", "binning", "groups", NO_SCORE)


def report_shown(release: Release) -> CertificateRules:
    """What a certificate must state of an evaluation (one draw, its sensitivity); raises if the release shows more.

    Raises:
        KeyError, TypeError, ValueError: the release shows something else than a report, or its facts do not say.
    """
    if not only_shows(release, *PARTS) or not isinstance(release.value["table"], dict):
        raise ValueError("value")
    moved = 2.0 if "n_persons" in release.facts else 2.0 * counted_of_one(release)
    return CertificateRules(
        {DRAW: tuple(LaplaceHistogram.WORTH)},
        moved,
        units=UNITS,
        relations=MEANS,
        agrees=figures_agree,
        figures=figures_in_words(release),
    )


CERTIFIED = Declared(
    {
        **{kind: query.certificate_rules for kind, query in QUERIES.items()},
        **OF_METHODS.methods,
        KIND: report_shown,
    },
    OF_METHODS.mechanisms,
)
