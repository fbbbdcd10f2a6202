"""The closed union of ways in which a score aggregates."""

from dpbo_core.models.aggregates.mean_of_records import MeanOfRecords
from dpbo_core.models.aggregates.pair_count import PairCount

Aggregate = MeanOfRecords | PairCount
