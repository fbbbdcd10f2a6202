"""Everything outside itself that a study names: the list by which one rule decides what Prefect's runs may touch.

Whatever a study can name is here, so that a new key is decided upon (`tests/preparation/test_references.py` walks
the fields of every section). A host is named by its table's address, and an environment by nothing.
"""

from collections.abc import Iterator
from pathlib import Path

from dpbo_core.ledger.operators import Code, References
from dpbo_core.ledger.sources import Source
from dpbo_core.models.estimator_allowlist.classes import PREDICTORS
from dpbo_core.preparation.data_split import sources_of
from dpbo_core.problem.model import PredictionsSection
from dpbo_core.study_file import FunctionSection, StudySpec


def references_of(spec: StudySpec, folder: str | Path, *beside: Source) -> References:
    """What a study names; nothing is opened or imported.

    Args:
        spec: the study.
        folder: the folder that its paths are relative to.
        beside: what is read beside what a tune of it reads: a saved model, or the table of a look.
    """
    return References((*sources_of(spec, folder), *beside), tuple(_code_of(spec)))


def _code_of(spec: StudySpec) -> Iterator[Code]:
    """Its import paths, but for estimators that are ours or on the list: those are trusted whoever names them."""
    model = spec.model
    if not (model.ours or isinstance(model, PredictionsSection) or model.estimator in PREDICTORS):
        yield Code("estimator", model.estimator)
    if isinstance(model, FunctionSection):
        yield Code("score", model.score)
    if spec.search.own_acquisition:
        yield Code("acquisition", spec.search.acquisition)
    for key, value in spec.options.items():
        if isinstance(value, str) and ("." in value or ":" in value):
            yield Code(f"method.{key}", value)
