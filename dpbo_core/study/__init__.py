"""A study as people write it: one Pydantic model a section, read strictly, written back unchanged.

Every key a study may hold is a field here; every default is the one shown in the documentation. An unknown key,
a wrong type or an impossible number is a message that names the key and the nearest valid one.
"""

from dpbo_core.study.data_kinds import PersonFiles, PredictionTable, PublicFiles
from dpbo_core.study.data_section import DataSection
from dpbo_core.study.model import EstimatorSection, FunctionSection, LinearSection, ModelSection, PredictionsSection
from dpbo_core.study.sections import (
    AxisSection,
    BudgetSection,
    EvaluationSection,
    ObjectiveSection,
    PrivacySection,
    SearchSection,
    WatchSection,
)
from dpbo_core.study.spec import StudySpec

__all__ = [
    "AxisSection",
    "BudgetSection",
    "DataSection",
    "EstimatorSection",
    "EvaluationSection",
    "FunctionSection",
    "LinearSection",
    "ModelSection",
    "ObjectiveSection",
    "PersonFiles",
    "PredictionTable",
    "PredictionsSection",
    "PrivacySection",
    "PublicFiles",
    "SearchSection",
    "StudySpec",
    "WatchSection",
]
