"""Whether a study may read its records from the objects of a store, who sees how often each is asked for."""

from pathlib import Path

from dpbo_core.data.addresses import FolderAddress, is_address, place_of
from dpbo_core.errors import StudyInvalid
from dpbo_core.methods.contract import Method
from dpbo_core.spec import PersonFiles, PublicFiles, StudySpec


def check_asks(spec: StudySpec, method: Method) -> None:
    """A method whose number of evaluations is hidden asks no store for the parts once an evaluation.

    Raises:
        StudyInvalid: it would.
    """
    given = spec.data
    if not method.hides_evaluations or not isinstance(given, PublicFiles | PersonFiles):
        return
    if is_address(given.validation) and isinstance(place_of(Path(), given.validation), FolderAddress):
        raise StudyInvalid(
            f"{method.kind} hides how many candidates it scores, and its records are in a folder of a store",
            cause="each scoring asks the store for every part, and whoever runs the store could count",
            remedy="copy the parts to a folder of files; or write one object, which is asked for once",
        )
