"""The closed union of scores: one file a score, and one line here; and what serves in place of scikit-learn's own.

No name of scikit-learn's is taken for a misspelling, and one that is not its own is none of this page's business.
"""

from collections.abc import Callable, Mapping

from dpbo_core.errors import StudyInvalid
from dpbo_core.models.scores.accuracy import ACCURACY, Accuracy
from dpbo_core.models.scores.balanced_accuracy import BALANCED_ACCURACY
from dpbo_core.models.scores.brier import BRIER
from dpbo_core.models.scores.declared import Declared, Numbers
from dpbo_core.models.scores.log_loss import LOG_LOSS
from dpbo_core.models.scores.pairs import PairScore
from dpbo_core.models.scores.ramp import RAMP, Ramp
from dpbo_core.models.scores.record import RecordScore
from dpbo_core.models.scores.regression_error import ABSOLUTE_ERROR, SQUARED_ERROR
from dpbo_core.models.scores.roc_auc import ROC_AUC
from dpbo_core.models.scores.sigmoid import SIGMOID, Sigmoid

OF_MARGINS, OF_CLASSES = SIGMOID.name, ACCURACY.name  # where a study names no score

MarginScore = Accuracy | Ramp | Sigmoid
Score = MarginScore | RecordScore | PairScore
SCORES: Mapping[str, Declared] = {
    score.name: score
    for score in (
        SIGMOID,
        RAMP,
        ACCURACY,
        ROC_AUC,
        BALANCED_ACCURACY,
        BRIER,
        LOG_LOSS,
        ABSOLUTE_ERROR,
        SQUARED_ERROR,
    )
}
MARGIN_SCORES: Mapping[str, Callable[[Numbers], MarginScore]] = {
    name: score.of_margin for name, score in SCORES.items() if score.of_margin is not None
}
RECORD_SCORES: Mapping[str, Callable[[Numbers], RecordScore]] = {
    name: score.of_outcome for name, score in SCORES.items() if score.of_outcome is not None
}
PAIR_SCORES: Mapping[str, Callable[[Numbers], PairScore]] = {
    name: score.of_pairs for name, score in SCORES.items() if score.of_pairs is not None
}


_RANKING = f"choose by {ROC_AUC.name} or {LOG_LOSS.name}, and get it from `dpbo evaluate`"
_MULTICLASS = f"choose by {LOG_LOSS.name} or {BRIER.name}, or make a study of one class against the rest"
_ABSOLUTE = f"choose by {ABSOLUTE_ERROR.name} with a public error_bound"
_SQUARED = f"choose by {SQUARED_ERROR.name} with a public error_bound"
_UNBOUNDED = "one record can move it without a bound, or it is no mean over records"
_TABLE = "it is a ratio of counts of the whole table, which one record moves by more than a mean"
_AVERAGES = ("", "_macro", "_micro", "_weighted", "_samples")
_CLUSTERINGS = (
    "adjusted_mutual_info_score adjusted_rand_score completeness_score fowlkes_mallows_score homogeneity_score "
    "mutual_info_score normalized_mutual_info_score rand_score v_measure_score"
)


def _entries(names: str, cause: str, remedy: str) -> dict[str, tuple[str, str]]:
    """The same cause and remedy of a refusal for each name in the space-separated `names`."""
    return dict.fromkeys(names.split(), (cause, remedy))


_averaged = " ".join(f"{name}{how}" for name in ("f1", "precision", "recall", "jaccard") for how in _AVERAGES)
ELSEWHERE = {
    **_entries(
        f"{_averaged} average_precision matthews_corrcoef d2_brier_score d2_log_loss_score "
        "positive_likelihood_ratio neg_negative_likelihood_ratio",
        _TABLE,
        _RANKING,
    ),
    **_entries(
        "roc_auc_ovr roc_auc_ovo roc_auc_ovr_weighted roc_auc_ovo_weighted top_k_accuracy",
        "of several classes there are several such numbers, and their mean moves too far with one record",
        _MULTICLASS,
    ),
    **_entries(
        "neg_log_loss", "it is written here as a score with a public bound", f'write score = "{LOG_LOSS.name}"'
    ),
    **_entries("neg_brier_score", "it is written here as a score", f'write score = "{BRIER.name}"'),
    **_entries("neg_mean_absolute_error neg_median_absolute_error", _UNBOUNDED, _ABSOLUTE),
    **_entries("neg_mean_absolute_percentage_error d2_absolute_error_score", _UNBOUNDED, _ABSOLUTE),
    **_entries(
        "r2 explained_variance",
        "its denominator is of the whole table, and one record can move it without a bound",
        f"{_SQUARED}: of two models on one table the one with the smaller squared error has the larger value of it",
    ),
    **_entries("neg_mean_squared_error neg_root_mean_squared_error max_error neg_max_error", _UNBOUNDED, _SQUARED),
    **_entries(
        "neg_mean_squared_log_error neg_root_mean_squared_log_error neg_mean_poisson_deviance "
        "neg_mean_gamma_deviance",
        _UNBOUNDED,
        _SQUARED,
    ),
    **_entries(
        _CLUSTERINGS,
        "it compares two clusterings, and a study predicts a target",
        f"choose by {ACCURACY.name} or {BALANCED_ACCURACY.name}",
    ),
}


def other_score(name: str) -> StudyInvalid | None:
    """The error for a score name of scikit-learn's that dpbo does not have; None for any other name."""
    if name not in ELSEWHERE:
        return None
    cause, remedy = ELSEWHERE[name]
    return StudyInvalid(
        f"model.score = {name!r} is no score that a study can choose by", cause=cause, remedy=remedy
    )
