"""What a candidate is trained to, and what it is scored by: closed unions."""

from dpbo_core.models.estimators import FittedEstimator
from dpbo_core.models.linear.fit import LinearModel
from dpbo_core.models.scores.pairs import PairScore
from dpbo_core.models.scores.record import RecordScore
from dpbo_core.models.scores.union import MarginScore

Model = LinearModel | FittedEstimator
Score = MarginScore | RecordScore | PairScore
