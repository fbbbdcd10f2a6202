"""What the certificates of a report, a watch and a private objective must show, declared beside the methods'."""

from dpbo_core.mechanisms.above_threshold import AboveThreshold
from dpbo_core.mechanisms.exponential import PERMUTE_AND_FLIP
from dpbo_core.mechanisms.gaussian import DiscreteGaussian
from dpbo_core.mechanisms.histogram import LaplaceHistogram
from dpbo_core.methods.certified import CERTIFIED as OF_METHODS
from dpbo_core.methods.pair_draws import one_unit_moves, relations_of
from dpbo_core.privacy.assumption import PUBLIC_QUESTIONS
from dpbo_core.privacy.certified import (
    MEANS,
    RECORDS,
    CertificateRules,
    Declared,
    counted_of_one,
    only_shows,
    stated_steps,
)
from dpbo_core.privacy.release import ALL_PAIRS, COUNTS, NO_SCORE, PAIRS, Release
from dpbo_core.privacy.unit import PrivacyUnit
from dpbo_core.queries.evaluation import KIND
from dpbo_core.queries.evaluation.certified_table import figures_agree, figures_in_words
from dpbo_core.queries.evaluation.request import DRAW
from dpbo_core.queries.objective_for_a_loop import KIND as OBJECTIVE
from dpbo_core.queries.objective_for_a_loop.price import CHOICE, score_name
from dpbo_core.queries.watch import KIND as WATCH
from dpbo_core.queries.watch.terms import LOOKS

UNITS = (*RECORDS, PrivacyUnit.TRAINING_RECORD)  # of private training: whose validation record it may be too
PARTS = ("table", "metrics", "roc", "confusion", "calibration", "classes", "errors", "binning", "groups", NO_SCORE)
WATCH_PARTS = ("alarm", "look", "looks")


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


def watch_shown(release: Release) -> CertificateRules:
    """What a certificate must state of a watch (one draw, its sensitivity); raises unless it shows an alarm alone.

    Raises:
        KeyError, TypeError, ValueError: the release shows something else than an alarm, or its facts do not say.
    """
    if not only_shows(release, *WATCH_PARTS) or release.value["alarm"] is not True:
        raise ValueError("value")
    per_record, k, least = (release.facts[name] for name in ("per_record", "rows", "least_records"))
    if not (type(k) is type(least) is int and k >= 1 and least >= 1 and float(per_record) > 0.0):
        raise ValueError("facts")
    sensitivity = float(per_record) * min(k, least) / least
    return CertificateRules({LOOKS: tuple(AboveThreshold.WORTH)}, sensitivity, relations=MEANS)


def objective_shown(release: Release) -> CertificateRules:
    """What a certificate must state of a private objective (its draws); raises if the release shows more.

    Raises:
        KeyError, TypeError, ValueError: the release shows more scores than that, or its facts do not say.
    """
    n, scores = stated_steps(release), release.value["trajectory"]
    shown = only_shows(release, "hyperparameters", "score", "interval", "trajectory", PAIRS, NO_SCORE)
    if not shown or [score["step"] for score in scores] != list(range(1, len(scores) + 1)) or len(scores) > n:
        raise ValueError("value")
    draws = {score_name(t): tuple(DiscreteGaussian.WORTH) for t in range(1, n + 1)}
    if COUNTS in release.facts:
        if [spend.what for spend in release.spends].count(ALL_PAIRS) != 1:
            raise ValueError(ALL_PAIRS)
        draws[ALL_PAIRS] = tuple(DiscreteGaussian.WORTH)
    if release.facts["choice_share"] != 0.0:
        draws[CHOICE] = (PERMUTE_AND_FLIP,)
    return CertificateRules(
        draws, one_unit_moves(release), assumptions=(PUBLIC_QUESTIONS.name,), relations=relations_of(release)
    )


CERTIFIED = Declared(
    {
        **OF_METHODS.methods,
        KIND: report_shown,
        WATCH: watch_shown,
        OBJECTIVE: objective_shown,
    },
    OF_METHODS.mechanisms,
)
