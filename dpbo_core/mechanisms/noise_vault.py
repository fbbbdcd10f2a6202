"""Secret noise that outlives a process: drawn, written durably, and only then used. It never leaves its folder.

noise.json   the identity of the vault, z, and of every look its own identity, its ν_t, and the bit once it is known
             (after the alarm that it is over, and nothing else)
lock         held during a look

The ledger keeps the identities, which are random and say nothing of the noise: so it knows which vault a watch was
opened with, and whether the vault still has the noise of every look that began. What the file held before it was
replaced is overwritten, as far as a disk lets itself be: a copy, a snapshot or spare blocks keep what they have.
"""

import json
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from dpbo_core.errors import DpboError
from dpbo_core.privacy.atomically import locked_folder, replace_atomically
from dpbo_core.privacy.sensitive import Sensitive, attempted

IDENTITY_BYTES = 16  # bytes
SHREDDED_CONTENT = b'{"over": true}'


class Shredded(DpboError):
    """The vault's secret noise was destroyed because its watch had ended."""


@dataclass(frozen=True, eq=False)
class LookNoise:
    """One look's secret noise; `above` is None until the comparison was made."""

    identity: str
    noise: Sensitive[int] = field(repr=False)
    above: bool | None = None


@dataclass(frozen=True, eq=False)
class VaultContents:
    """Everything that one vault holds."""

    identity: str
    threshold: Sensitive[int] = field(repr=False)
    looks: Mapping[str, LookNoise] = field(default_factory=dict)


class NoiseVault:
    """The folder of one watch, its owner's alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def _file(self) -> Path:
        return self.folder / "noise.json"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Context with a lock on the vault, so that one look (private comparison) is taken at a time."""
        with locked_folder(self.folder):
            yield

    def contents(self) -> VaultContents | None:
        """The secret noise in the vault's file, of threshold and looks; None before any; raises once destroyed.

        Raises:
            DpboError: it cannot be read.
            Shredded: they were destroyed.
        """
        try:
            raw = self._file.read_bytes()
            contents = None if raw == SHREDDED_CONTENT else _from_text(raw.decode("ascii"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raw, contents = b"", None
        if raw == SHREDDED_CONTENT:
            raise Shredded(
                "the secret noise of this watch was destroyed at its alarm",
                remedy="open another watch: a new edition",
            )
        if contents is None:
            raise DpboError(
                "the secret noise of this watch cannot be read",
                cause="its file was edited, or the disk failed",
                remedy="restore the newest copy; without it the watch is over, and a new edition spends budget "
                "again",
            )
        return contents

    def opened(self, draw: Callable[[], Sensitive[int]]) -> VaultContents:
        """The vault's secret noise, begun on disk with the threshold's alone, by `draw`, if there is none."""
        return self.contents() or self._save(VaultContents(_random_identity(), draw()))

    def begun(self, contents: VaultContents, name: str, draw: Callable[[], Sensitive[int]]) -> VaultContents:
        """Return the secret noise with that of the private check `name`, drawn and written now if missing."""
        if name in contents.looks:
            return contents
        return self._save(replace(contents, looks={**contents.looks, name: LookNoise(_random_identity(), draw())}))

    def compared(self, contents: VaultContents, name: str, *, above: bool) -> VaultContents:
        """Add the result `above` of the look (check) `name` to the secret noise, write it to disk and return it."""
        look = replace(contents.looks[name], above=above)
        return self._save(replace(contents, looks={**contents.looks, name: look}))

    def shred(self) -> None:
        """Overwrite and delete the vault's secret noise, as far as the disk allows; never fails.

        Call it only after the ledger has recorded the alarm: without the noise the watch cannot go on.
        """
        attempted(self._overwrite_all, otherwise=None)

    def _overwrite_all(self) -> None:
        for left in self.folder.glob(f".{self._file.name}-*"):  # of a kill while the file was replaced
            with left.open("r+b") as file:
                _overwrite(file.fileno())
            left.unlink()
        if self._file.read_bytes() != SHREDDED_CONTENT:
            self._replace(SHREDDED_CONTENT)

    def _save(self, contents: VaultContents) -> VaultContents:
        self._replace(_as_json(contents).encode())
        return contents

    def _replace(self, content: bytes) -> None:
        """Replace the vault's file, durably, and then overwrite the old content."""
        try:
            before = os.open(self._file, os.O_RDWR)
        except FileNotFoundError:
            replace_atomically(self._file, content)
            return
        try:
            replace_atomically(self._file, content)
            with suppress(OSError):
                _overwrite(before)
        finally:
            os.close(before)


def _overwrite(handle: int) -> None:
    os.pwrite(handle, bytes(os.fstat(handle).st_size), 0)
    os.fsync(handle)


def _random_identity() -> str:
    return secrets.token_hex(IDENTITY_BYTES)


def _as_json(contents: VaultContents) -> str:
    looks = {name: [look.identity, look.noise.expose(), look.above] for name, look in contents.looks.items()}
    return json.dumps({"identity": contents.identity, "threshold": contents.threshold.expose(), "looks": looks})


def _from_text(text: str) -> VaultContents:
    """The contents that `_as_json` wrote; ValueError, LookupError, TypeError or AttributeError if it did not."""
    document = json.loads(text)
    looks = {
        name: LookNoise(str(identity), _sealed_integer(noise), above if above is None else bool(above))
        for name, (identity, noise, above) in document["looks"].items()
    }
    return VaultContents(str(document["identity"]), _sealed_integer(document["threshold"]), looks)


def _sealed_integer(number: object) -> Sensitive[int]:
    if type(number) is not int:
        raise TypeError
    return Sensitive(number)
