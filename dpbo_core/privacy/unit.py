"""Whom a guarantee protects, and which data sets it calls neighbours."""

from enum import StrEnum


class PrivacyUnit(StrEnum):
    """Whom a guarantee protects: what one side of a neighbouring pair may differ in."""

    VALIDATION_RECORD = "validation_record"
    PERSON = "person"
    TRAINING_RECORD = "training_record"
    CANDIDATE_ROW = "candidate_row"


class NeighboringRelation(StrEnum):
    """Which data sets are neighbours. Guarantees under different relations never share a budget.

    REPLACE_ONE replaces records in their places, so neighbours have equally many. REPLACE_ONE_PERSON replaces all
    records of one person by any number of records of one person not otherwise present, or by none.
    """

    REPLACE_ONE = "replace_one"
    REPLACE_ONE_PERSON = "replace_one_person"
    ADD_OR_REMOVE_ONE = "add_or_remove_one"
    ROW_MOVES_BY_ONE = "row_moves_by_one"


def whom(unit: PrivacyUnit) -> str:
    """Whom the guarantee protects, in plain words: "each person in the validation set"."""
    return {
        PrivacyUnit.VALIDATION_RECORD: "each record of the validation set",
        PrivacyUnit.PERSON: "each person in the validation set",
        PrivacyUnit.TRAINING_RECORD: "each record of the training set and of the validation set",
        PrivacyUnit.CANDIDATE_ROW: "each row of the candidate table",
    }[unit]


def anyone(unit: PrivacyUnit) -> str:
    """One of those whom the guarantee protects, in plain words: "any one person in the validation set"."""
    return {
        PrivacyUnit.VALIDATION_RECORD: "any one record of the validation set",
        PrivacyUnit.PERSON: "any one person in the validation set",
        PrivacyUnit.TRAINING_RECORD: "any one record of the training set or of the validation set",
        PrivacyUnit.CANDIDATE_ROW: "any one row of the candidate table",
    }[unit]
