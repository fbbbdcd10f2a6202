"""The password of the Prefect server that `dpbo serve` starts: random, in a file that its owner alone reads."""

import os
import secrets
import stat
from pathlib import Path

from dpbo_core.errors import DpboError

NAME = "dpbo-password"


def password_in(folder: Path) -> tuple[str, Path]:
    """(password, file): made at first use and then the same, so that pages stay open and servers are found again.

    Raises:
        DpboError: somebody else can read or write the file, or it cannot be kept.
    """
    path = folder / NAME
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        try:
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
        except FileExistsError:
            pass
        else:
            with os.fdopen(handle, "w", encoding="ascii") as new:
                new.write(secrets.token_urlsafe(32) + "\n")
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(handle, encoding="ascii") as file:
            facts = os.fstat(file.fileno())
            private = facts.st_uid == os.geteuid() and not facts.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
            text = file.readline().strip()
    except (OSError, UnicodeDecodeError):
        private, text = False, ""
    if not private or len(text) < 32:
        raise DpboError(
            f"the file {path.name} in Prefect's folder is no password of yours alone",
            cause="it was copied, linked, cut short or opened to others",
            remedy=f"remove {path}; a new one is made",
        )
    return text, path
