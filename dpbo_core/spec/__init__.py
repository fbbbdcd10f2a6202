"""A study as people write it: one frozen dataclass a section, read strictly, written back unchanged.

Every key a study may hold is a field here; every default is the one shown in the documentation. An unknown key,
a wrong type or an impossible number is a letter that names the key and the nearest valid one.
"""

from dpbo_core.spec.evaluation import EvaluationSection
from dpbo_core.spec.model import ModelSection
from dpbo_core.spec.sections import (
    AxisSection,
    BudgetSection,
    DataSection,
    PrivacySection,
    SearchSection,
)
from dpbo_core.spec.study import StudySpec

__all__ = [
    "AxisSection",
    "BudgetSection",
    "DataSection",
    "EvaluationSection",
    "ModelSection",
    "PrivacySection",
    "SearchSection",
    "StudySpec",
]
