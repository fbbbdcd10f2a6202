"""Whom the guarantee of a study is made to, and which data sets it calls neighbours: as its sections say."""

from dpbo_core.privacy.unit import NeighboringRelation, PrivacyUnit
from dpbo_core.spec.public_data import PersonFiles
from dpbo_core.spec.sensitive_data import SensitiveData
from dpbo_core.spec.study import StudySpec


def unit_of(spec: StudySpec) -> PrivacyUnit:
    """Whom the guarantee of a study is made to."""
    if isinstance(spec.data, SensitiveData):
        return PrivacyUnit.TRAINING_RECORD
    return PrivacyUnit.VALIDATION_RECORD if spec.privacy.person is None else PrivacyUnit.PERSON


def relation_of(spec: StudySpec) -> NeighboringRelation:
    """Which data sets the guarantees of a study, and the cap that it opens, call neighbours."""
    if isinstance(spec.data, PersonFiles):
        return NeighboringRelation.REPLACE_ONE_PERSON
    return NeighboringRelation.REPLACE_ONE
