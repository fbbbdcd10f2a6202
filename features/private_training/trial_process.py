"""One process for one training or scoring: silent, without secrets, and ended with all that it started."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from dpbo.features.private_training.trial_child import PLACE
from dpbo_core.models.public_process import INHERITED_VARIABLES

_BOOT = (
    "import json, sys; sys.path[:0] = [p for p in json.loads(sys.argv[3]) if p not in sys.path]; "
    "from dpbo.features.private_training.trial_child import supervise; "
    "sys.exit(supervise(int(sys.argv[1]), json.loads(sys.argv[2])))"
)


@dataclass(frozen=True)
class Confinement:
    """How the processes of a search are confined."""

    hidden: tuple[str, ...] = ()  # folders and files that no trial may see
    contained: bool = False  # whether a process gets namespaces of its own, without which it does not run then
    timeout: float | None = None  # seconds after which a process is ended; None for no limit
    rehearsal: bool = False  # whether the records are nobody's, so that an error may be shown

    def run(self, job: dict[str, Any], folder: Path) -> tuple[dict[str, Any], bytes] | None:
        """Do a job in a process of its own: its answer, a table and bytes; None if it gave none in time."""
        import cloudpickle

        with tempfile.TemporaryFile() as answer:
            home = PLACE if self.contained else str(folder)
            environment = {name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ}
            environment |= dict.fromkeys(("HOME", "TMPDIR"), home) | {"PYTHONDONTWRITEBYTECODE": "1"}
            request = {"folder": str(folder), **asdict(self)}
            paths = [os.path.abspath(path) for path in sys.path]  # noqa: PTH100
            process = subprocess.Popen(  # noqa: S603  this interpreter
                [
                    sys.executable,
                    "-s",
                    "-P",
                    "-c",
                    _BOOT,
                    str(answer.fileno()),
                    json.dumps(request),
                    json.dumps(paths),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment,
                cwd="/",
                pass_fds=[answer.fileno()],
                start_new_session=True,
            )
            try:
                process.communicate(cloudpickle.dumps(job))
            finally:
                with contextlib.suppress(ProcessLookupError):  # whatever it started and left
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            answer.seek(0)
            return _read(answer.read()) if process.returncode == 0 else None


def _read(content: bytes) -> tuple[dict[str, Any], bytes] | None:
    head, _, body = content.partition(b"\n")
    with contextlib.suppress(ValueError):
        table = json.loads(head)
        if isinstance(table, dict):
            return table, body
    return None


@cache
def namespaces_available() -> bool:
    """Return whether this system gives a process user namespaces, tried once in a process that does nothing."""
    with tempfile.TemporaryDirectory() as folder:
        return Confinement(contained=True).run({"what": "nothing"}, Path(folder)) is not None


def stores_to_hide(places: Iterable[Path], ledger: str) -> tuple[str, ...]:
    """Return what a trial must not see: the folders of stores and of a ledger, or else the ledger's files.

    A folder from which code is imported, or with temporary files, cannot be hidden.
    """
    needed = [Path(path).resolve() for path in (*sys.path, sys.prefix, tempfile.gettempdir()) if path]

    def can_hide(folder: Path) -> bool:
        return folder.is_dir() and not any(path.is_relative_to(folder) for path in needed)

    file = Path(ledger.removeprefix("sqlite:///")).resolve() if ledger.startswith("sqlite:///") else None
    hidden = {place.resolve() for place in (*places, *([] if file is None else [file.parent])) if can_hide(place)}
    if file is not None and file.parent not in hidden:
        hidden |= set(file.parent.glob(f"{file.name}*"))
    return tuple(sorted(map(str, hidden)))
