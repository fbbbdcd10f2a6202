"""What the certificates of a report and of a watch must show, declared beside the methods'."""

from dpbo_core.evaluation import KIND as KIND
from dpbo_core.evaluation.watch import KIND as WATCH
from dpbo_core.evaluation.watch.watch_shown import shown as shown_of_watch
from dpbo_core.mechanisms.histogram import LaplaceHistogram
from dpbo_core.methods import CERTIFIED as OF_METHODS
from dpbo_core.privacy.certified import MEANS, RECORDS, Declared, Shown, counted_of_one, only_shows
from dpbo_core.privacy.release import Release
from dpbo_core.privacy.unit import PrivacyUnit

DRAW = "histogram"
UNITS = (*RECORDS, PrivacyUnit.TRAINING_RECORD)  # of private training: whose validation record it may be too
PARTS = ("table", "metrics", "roc", "confusion", "calibration", "classes", "errors", "binning", "groups")


def shown(release: Release) -> Shown:
    """One draw for the whole table, which a unit's records can move by two each: out of a cell and into another.

    Where each person counts once, in persons: by two, however many records a person has.

    Raises:
        KeyError, TypeError, ValueError: the release shows something else than a report, or its facts do not say.
    """
    if not only_shows(release, *PARTS):
        raise ValueError("value")
    moved = 2.0 if "n_persons" in release.facts else 2.0 * counted_of_one(release)
    return Shown({DRAW: tuple(LaplaceHistogram.WORTH)}, moved, units=UNITS, relations=MEANS)


CERTIFIED = Declared({**OF_METHODS.methods, KIND: shown, WATCH: shown_of_watch}, OF_METHODS.mechanisms)
