"""A champion that lies in MLflow, fetched for a comparison."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from dpbo.flows.stores import Stores
from dpbo.tasks.reporting.logged_model import fetch_model
from dpbo_core.study import StudySpec

ADDRESSES = ("models:/", "runs:/")


@contextmanager
def local_champion(study: StudySpec) -> Iterator[StudySpec]:
    """The study with a folder as its champion, instead of an address in MLflow; the folder ends with this.

    Raises:
        StudyInvalid: MLflow has no such model.
    """
    section = study.evaluation
    if section is None or section.against is None or not section.against.startswith(ADDRESSES):
        yield study
        return
    with TemporaryDirectory() as folder:
        place = fetch_model(section.against, Stores().tracking, Path(folder))
        yield study.replace(evaluation=section.replace(against=str(place.resolve())))
