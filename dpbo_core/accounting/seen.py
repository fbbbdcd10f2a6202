"""The newest entry that this user saw of a ledger, in a folder of the user's own, wherever the study runs.

The generation lies beside a SQLite ledger, and for PostgreSQL in the folder of the study; this one lies in
$XDG_STATE_HOME/dpbo (~/.local/state/dpbo), 0700, one small file a ledger, named by a hash and holding a number and
a hash. So an old copy that was restored is noticed by every user who saw the newer one. Reading is what detects: an
entry that the history does not hold is a refusal, an older one that it holds is not. A folder that cannot be used
is a warning, and the study goes on.
"""

import hashlib
import os
import stat
import warnings
from pathlib import Path

from dpbo_core.accounting.generation import Generation, GenerationFile
from dpbo_core.errors import DpboError

SETTING = "XDG_STATE_HOME"


class Seen:
    """What one user saw of one ledger.

    Args:
        identity: of the ledger, which its copies share.
        place: of a SQLite file, whose copies elsewhere are ledgers of their own; empty for a database.
    """

    def __init__(self, identity: str, place: str = "") -> None:
        name = hashlib.sha256(f"{identity}\n{place}".encode("utf-8", "surrogateescape")).hexdigest()
        self._name = f"{name[:32]}.seen"

    @property
    def path(self) -> Path | None:
        """Where it is kept; None where the user has no such folder."""
        named = os.environ.get(SETTING, "")
        try:
            state = Path(named) if os.path.isabs(named) else Path.home() / ".local" / "state"  # noqa: PTH117
        except RuntimeError:  # a user without a home
            return None
        return state / "dpbo" / self._name

    def read(self) -> Generation:
        """The newest entry that was seen; the origin if none was, or it cannot be read."""
        path = self.path
        try:
            return Generation() if path is None else GenerationFile(path).read()
        except (DpboError, OSError, ValueError):
            _warn()
        return Generation()

    def keep(self, last: Generation, *, whatever: bool = False) -> None:
        """Keep `last` unless a later one is kept; `whatever` is kept if a person answered for it."""
        path = self.path
        try:
            if path is None:
                raise OSError
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            folder = path.parent.lstat()
            if not stat.S_ISDIR(folder.st_mode) or folder.st_uid != os.geteuid():
                raise OSError
            if stat.S_IMODE(folder.st_mode) != 0o700:
                path.parent.chmod(0o700)
            GenerationFile(path, durable=False).keep(last, whatever=whatever)
        except (DpboError, OSError, ValueError):
            _warn()


def _warn() -> None:
    warnings.warn(
        f"the newest entry of the ledger cannot be kept in your state folder ({SETTING}), so an older copy of the "
        "ledger would be noticed by its generation alone",
        stacklevel=2,
    )
