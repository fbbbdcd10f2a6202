"""An estimator that a study file names as "module:name": an object in a file beside the study, or in a package.

A file beside the study is code that its author wrote, and it is run to make the object; whoever may start studies
of others may not name one (`study.run.refuse_beside`). Its module is known by a hash of its text, so that another
text is another module, and a class that is defined in it another class.
"""

import hashlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from dpbo_core.errors import StudyInvalid
from dpbo_core.models.import_path import check_verbs, named_object
from dpbo_core.models.installed import distributions_of_packages

BESIDE = "dpbo_beside_study_"
EXAMPLE = 'estimator = "risk_model:pipeline", and in risk_model.py: pipeline = make_pipeline(...)'


def file_beside(path: str, folder: str | Path) -> Path | None:
    """The file beside the study that `path` ("risk_model:pipeline") names; None where there is none."""
    module, colon, _ = path.partition(":")
    file = Path(folder) / f"{module}.py"
    return file if colon and module.isidentifier() and file.is_file() else None


def estimator_named(path: str, folder: str | Path) -> Any:
    """The object at `path`; it was made when its module was imported, and is cloned before it is used.

    Args:
        path: "module:name". The module is a file beside the study; else one of an installed package.
        folder: of the study file.

    Raises:
        StudyInvalid: there is no such object, its module cannot be imported, or it is no estimator.
    """
    module, _, name = path.partition(":")
    if not name.isidentifier() or name.startswith("_"):
        raise StudyInvalid(
            f"{path!r} names no estimator",
            cause="a module, a colon and a name are needed",
            remedy=f"write {EXAMPLE}",
        )
    file = file_beside(path, folder)
    if file is not None:
        found = getattr(_imported(file), name, None)
    elif "." not in module and module not in _distributions():
        raise StudyInvalid(
            f"there is no file {module}.py beside the study, which names the estimator {path!r}",
            cause="the file lies elsewhere or has another name, and no installed package has it",
            remedy=f"write {EXAMPLE}",
        )
    else:
        found = named_object(f"{module}.{name}")
    if found is None:
        raise StudyInvalid(
            f"{module}.py has no {name!r}",
            cause="a misspelt name",
            remedy=f"write {EXAMPLE}, at the top of the file",
        )
    if isinstance(found, type) or not hasattr(found, "get_params"):
        raise StudyInvalid(
            f"{path!r} is no estimator but {'a class' if isinstance(found, type) else 'a ' + type(found).__name__}",
            cause="the name is that of a function that makes it, or of its class",
            remedy=f"name the object itself: {EXAMPLE}",
        )
    check_verbs(found, path)
    return found


def _distributions() -> set[str]:
    return {*distributions_of_packages(), "sklearn"}


def _imported(file: Path) -> ModuleType:
    text, failed = file.read_bytes(), ""
    name = BESIDE + hashlib.sha256(text).hexdigest()[:16]
    if name in sys.modules:
        return sys.modules[name]
    module = ModuleType(name)
    module.__file__ = str(file)
    sys.modules[name] = module
    try:
        exec(compile(text, str(file), "exec"), module.__dict__)  # noqa: S102  the study's author wrote it
    except (Exception, SystemExit) as error:  # noqa: BLE001  a module may do anything when it is imported
        said = (str(error).strip().splitlines() or [""])[0][:200]
        failed = f"{type(error).__name__}: {said}"
    if failed:
        del sys.modules[name]
        raise StudyInvalid(
            f"{file.name}, which names the study's estimator, cannot be imported",
            cause=failed,
            remedy="run it with python; it can import installed packages, and no other file beside it",
        )
    return module
