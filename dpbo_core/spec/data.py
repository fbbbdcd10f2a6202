"""[data]: a closed union, one frozen dataclass for each way of giving data, each with the keys it has.

| the training set is | file |
|---|---|
| public | `public_data` |
| sensitive | `sensitive_data` |
| none: predictions were made elsewhere | `prediction_table` |
"""

from typing import Any, get_args

from dpbo_core.spec.prediction_table import PredictionTable, read_predictions
from dpbo_core.spec.public_data import BundledData, PublicData, read_public
from dpbo_core.spec.reading import one_of, require, typed_values, union_hints
from dpbo_core.spec.sensitive_data import SensitiveBundled, SensitiveData, read_sensitive

SENSITIVE = ("validation", "training")

Bundled = BundledData | SensitiveBundled
DataSection = PublicData | SensitiveData | PredictionTable


def read_data(table: Any) -> DataSection:
    """[data] from its table: every key known and of its type, and together one of the ways of giving data.

    Raises:
        StudyInvalid: they are none.
    """
    given = typed_values(union_hints(get_args(DataSection)), table, "[data]")
    given = {key: value for key, value in given.items() if value is not None}
    if "predictions" in given:
        return read_predictions(given)
    require("public" not in given, "[data] gives public without predictions", remedy="remove it")
    if "sensitive" in given:
        one_of("data.sensitive", given["sensitive"], SENSITIVE)
    return read_sensitive(given) if given.get("sensitive") == "training" else read_public(given)
