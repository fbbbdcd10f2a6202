"""The owner's key, without which nobody can continue or replace the history unnoticed.

| symbol | name here | meaning |
|---|---|---|
| K | `secret` | 32 random bytes, kept outside the ledger |
| h_n | — | hash of entry n, which seals every entry before it |
| — | `mac` | the key's name, and HMAC-SHA256(K, h_n) |

A SQLite ledger's key is drawn when it is first written to, and lies in the generation beside it. DPBO_LEDGER_KEY
names a file with a key of one's own: the only way for a PostgreSQL ledger, whose machines must all have the same.
"""

import hashlib
import hmac
import os
import secrets
import stat
from collections.abc import Iterable
from dataclasses import dataclass

from dpbo_core.errors import StudyInvalid

SETTING = "DPBO_LEDGER_KEY"
BYTES = 32


@dataclass(frozen=True, repr=False)
class LedgerKey:
    """The secret that seals a ledger's entries, kept outside its database."""

    secret: bytes

    @classmethod
    def drawn(cls) -> "LedgerKey":
        """A new key, from the operating system's randomness."""
        return cls(secrets.token_bytes(BYTES))

    @classmethod
    def from_hex(cls, text: str) -> "LedgerKey":
        """The key of hexadecimal digits that `hex` wrote.

        Raises:
            ValueError: it is no key.
        """
        key = cls(bytes.fromhex(text))
        if len(key.secret) != BYTES:
            raise ValueError("not a key")
        return key

    @property
    def hex(self) -> str:
        """The key in hexadecimal digits, as its file keeps it."""
        return self.secret.hex()

    @property
    def name(self) -> str:
        """A public name of the key: 16 digits that reveal nothing of it."""
        return hashlib.sha256(b"the name of a dpbo ledger key\n" + self.secret).hexdigest()[:16]

    def mac(self, sealed: str) -> str:
        """The key's message authentication code for the entry hash `sealed`."""
        return f"{self.name}:{hmac.new(self.secret, sealed.encode(), hashlib.sha256).hexdigest()}"


def key_of_setting() -> LedgerKey | None:
    """The key in the file that DPBO_LEDGER_KEY names, if it names one.

    Raises:
        StudyInvalid: the file is missing, is no key or no ordinary file, or may be read by others.
    """
    named = os.environ.get(SETTING)
    if not named:
        return None
    try:
        with open(os.open(named, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:  # noqa: PTH123  a handle
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise OSError
            shared = mode & (stat.S_IRWXG | stat.S_IRWXO)
            key = LedgerKey.from_hex(file.read(4096).decode("ascii").strip())
    except (OSError, ValueError):
        problem = "holds no key of 64 hexadecimal digits, or cannot be read"
    else:
        if not shared:
            return key
        problem = "may be read by others than its owner"
    raise StudyInvalid(
        f"the file that {SETTING} names {problem}",
        cause="a mistyped path, another file, or its mode",
        remedy="make one with: (umask 077; openssl rand -hex 32 > ledger.key), and give every machine the same",
    )


def made_by(mac: str, sealed: str, keys: Iterable[LedgerKey]) -> bool | None:
    """Whether one of `keys` made this mac of `sealed`; None if it names a key that is not among them."""
    for key in keys:
        if mac.startswith(f"{key.name}:"):
            return hmac.compare_digest(mac.encode(), key.mac(sealed).encode())
    return None
