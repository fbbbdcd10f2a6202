"""The code that MLflow carries along with a model: copies of the modules that encode a record and predict.

They stand in a package of another name, so that a model is served by the code that scored the validation records:
without dpbo, and beside an installed dpbo of another version too.
"""

import hashlib
import inspect
import re
from importlib import import_module
from pathlib import Path

_LOADER = "models.final_model.dpbo_served_model"
_IMPORT = re.compile(r"^from dpbo_core\.([\w.]+) import", re.MULTILINE)


def write_served_code(folder: Path) -> tuple[Path, str]:
    """Write the package into `folder`; returns its path and the name of the module that loads the model.

    The package is named after its content: models of two versions of dpbo can be loaded in one process.
    """
    sources: dict[str, str] = {}
    waiting = [_LOADER]
    while waiting:
        name = waiting.pop()
        if name not in sources:
            sources[name] = Path(inspect.getfile(import_module(f"dpbo_core.{name}"))).read_text(encoding="utf-8")
            waiting += _IMPORT.findall(sources[name])
    digest = hashlib.sha256("".join(sources[name] for name in sorted(sources)).encode()).hexdigest()
    package = f"dpbo_served_{digest[:8]}"
    for name, source in sources.items():
        path = folder.joinpath(package, *name.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_IMPORT.sub(rf"from {package}.\1 import", source), encoding="utf-8")
    return folder / package, f"{package}.{_LOADER}"
