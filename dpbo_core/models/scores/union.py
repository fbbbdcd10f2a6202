"""The table of all scores, one file a score, and the substitutes to suggest for scikit-learn's other scores.

A score's file is imported when a study names it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from dpbo_core.errors import StudyInvalid
from dpbo_core.models.scores.accuracy import Accuracy
from dpbo_core.models.scores.kinds import Declared, Numbers, PairScore, RecordScore, Steep
from dpbo_core.privacy.named_parts import NamedParts

OF_MARGINS, OF_CLASSES = "sigmoid", "accuracy"  # where a study names no score
PROBABILITY_SCORES = ("log_loss", "brier")  # in place of a score that compares two classes

MarginScore = Accuracy | Steep
Score = MarginScore | RecordScore | PairScore
SCORES: Mapping[str, Declared] = NamedParts(
    "dpbo_core.models.scores",
    {
        "sigmoid": "sigmoid.SIGMOID",
        "ramp": "ramp.RAMP",
        "accuracy": "accuracy.ACCURACY",
        "roc_auc": "roc_auc.ROC_AUC",
        "balanced_accuracy": "balanced_accuracy.BALANCED_ACCURACY",
        "brier": "brier.BRIER",
        "log_loss": "log_loss.LOG_LOSS",
        "absolute_error": "regression_error.ABSOLUTE_ERROR",
        "squared_error": "regression_error.SQUARED_ERROR",
    },
)
T = TypeVar("T")


class _ScoreMakers(Mapping[str, Callable[[Numbers], T]]):
    """The makers of one kind of score, by the names of the scores that declare one."""

    def __init__(self, kind: str) -> None:
        """`kind` is the attribute of `Declared` that holds the maker."""
        self._kind = kind

    def __getitem__(self, name: str) -> Callable[[Numbers], T]:
        maker: Callable[[Numbers], T] | None = getattr(SCORES[name], self._kind)
        if maker is None:
            raise KeyError(name)
        return maker

    def __iter__(self) -> Iterator[str]:
        return (name for name, score in SCORES.items() if getattr(score, self._kind) is not None)

    def __len__(self) -> int:
        return len(tuple(iter(self)))


MARGIN_SCORES: Mapping[str, Callable[[Numbers], MarginScore]] = _ScoreMakers("of_margin")
RECORD_SCORES: Mapping[str, Callable[[Numbers], RecordScore]] = _ScoreMakers("of_outcome")
PAIR_SCORES: Mapping[str, Callable[[Numbers], PairScore]] = _ScoreMakers("of_pairs")


_SQUARED_ERROR_HINT = "choose by squared_error with a public error_bound"
_UNBOUNDED_REASON = "one record can move it without a bound, or it is no mean over records"
_AVERAGES = ("", "_macro", "_micro", "_weighted", "_samples")
_CLUSTERINGS = (
    "adjusted_mutual_info_score adjusted_rand_score completeness_score fowlkes_mallows_score homogeneity_score "
    "mutual_info_score normalized_mutual_info_score rand_score v_measure_score"
)


def _entries(names: str, cause: str, remedy: str) -> dict[str, tuple[str, str]]:
    return dict.fromkeys(names.split(), (cause, remedy))


_averaged = " ".join(f"{name}{how}" for name in ("f1", "precision", "recall", "jaccard") for how in _AVERAGES)
UNSUPPORTED_SCORES = {
    **_entries(
        f"{_averaged} average_precision matthews_corrcoef d2_brier_score d2_log_loss_score "
        "positive_likelihood_ratio neg_negative_likelihood_ratio",
        "it is a ratio of counts of the whole table, which one record moves by more than a mean",
        "choose by roc_auc or log_loss, and get it from `dpbo evaluate`",
    ),
    **_entries(
        "roc_auc_ovr roc_auc_ovo roc_auc_ovr_weighted roc_auc_ovo_weighted top_k_accuracy",
        "of several classes there are several such numbers, and their mean moves too far with one record",
        "choose by log_loss or brier, or make a study of one class against the rest",
    ),
    **_entries("neg_log_loss", "it is written here as a score with a public bound", 'write score = "log_loss"'),
    **_entries("neg_brier_score", "it is written here as a score", 'write score = "brier"'),
    **_entries(
        "neg_mean_absolute_error neg_median_absolute_error neg_mean_absolute_percentage_error "
        "d2_absolute_error_score",
        _UNBOUNDED_REASON,
        "choose by absolute_error with a public error_bound",
    ),
    **_entries(
        "r2 explained_variance",
        "its denominator is of the whole table, and one record can move it without a bound",
        f"{_SQUARED_ERROR_HINT}: of two models on one table the one with the smaller squared error "
        "has the larger value of it",
    ),
    **_entries(
        "neg_mean_squared_error neg_root_mean_squared_error max_error neg_max_error neg_mean_squared_log_error "
        "neg_root_mean_squared_log_error neg_mean_poisson_deviance neg_mean_gamma_deviance",
        _UNBOUNDED_REASON,
        _SQUARED_ERROR_HINT,
    ),
    **_entries(
        _CLUSTERINGS,
        "it compares two clusterings, and a study predicts a target",
        "choose by accuracy or balanced_accuracy",
    ),
}


NICKNAMES = {  # what people call a score: our name, and the cause to state
    "acc": ("accuracy", "an abbreviation"),
    "auc": ("roc_auc", "an abbreviation"),
    "brier_score": ("brier", "another name"),
    "cross_entropy": ("log_loss", "another name"),
    "logloss": ("log_loss", "another spelling"),
    "mae": ("absolute_error", "an abbreviation"),
    "mse": ("squared_error", "an abbreviation"),
    "pinball": ("absolute_error", "at the median it is half of it, and dpbo has no other quantile"),
    "rmse": ("squared_error", "its square ranks candidates alike, and is a mean over records"),
}


def other_score(name: str) -> StudyInvalid | None:
    """Return the error for a score name of scikit-learn's that dpbo does not have; None for any other name."""
    if name.lower() in NICKNAMES:
        own, note = NICKNAMES[name.lower()]
        return StudyInvalid(
            f"model.score = {name!r} is called {own!r} here", cause=note, remedy=f'write score = "{own}"'
        )
    if name not in UNSUPPORTED_SCORES:
        return None
    cause, remedy = UNSUPPORTED_SCORES[name]
    return StudyInvalid(
        f"model.score = {name!r} is no score that a study can choose by", cause=cause, remedy=remedy
    )
