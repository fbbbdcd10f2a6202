"""The closed union of scores: one file a score, and one line here."""

from collections.abc import Callable, Mapping

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
