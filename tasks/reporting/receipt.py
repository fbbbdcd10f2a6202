"""The receipt of a release, signed with the owner's key: an in-toto statement in a DSSE envelope, Ed25519.

| part | what it holds |
|---|---|
| statement | subject: SHA-256 of release.json; predicate: what `SIGNED_FIELDS` names of it, word for word |
| envelope | `TYPE`, the statement in base64, and signatures of "DSSEv1 len(TYPE) TYPE len(statement) statement" |
| keyid | SHA-256 of the 32 bytes of the public key: a hint, on which nothing rests |

Sources: in-toto Attestation Framework v1, DSSE v1.0. The private key is a file of its owner alone. It is read here,
where a receipt is made: it is no argument of a task and no artifact, and no message repeats anything of it.
"""

import hashlib
import json
import os
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from dpbo_core.errors import CertificateFalse, StudyInvalid
from dpbo_core.ledger.address import STATE_FOLDER
from dpbo_core.privacy.atomically import create_atomically, replace_atomically
from dpbo_core.privacy.release import Release

SETTING, DEFAULT = "DPBO_SIGNING_KEY", STATE_FOLDER / "signing.key"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT, PREDICATE = "https://in-toto.io/Statement/v1", "urn:dpbo:release:v1"
SIGNED_FIELDS = ("release_id", "released_at", "study", "edition", "method", "dataset", "guarantee", "noise")
PEM_END = "-----END PUBLIC KEY-----\n"
Keys = Mapping[str, Ed25519PublicKey]


def release_text(release: Release) -> str:
    """Return the text of release.json, byte for byte what its receipt signs."""
    return json.dumps(release.to_json(), indent=2, ensure_ascii=False, allow_nan=False)


def write_release(release: Release, file: Path) -> tuple[Path, ...]:
    """Write a release to `file`, and a receipt and the public key beside it if there is a key: the paths."""
    key, text = signing_key(), release_text(release)
    contents = {file: text}
    if key is not None:
        contents |= {receipt_of(file): receipt(text, key), file.with_suffix(".pub"): pem_of(key).decode()}
    for path, content in contents.items():
        replace_atomically(path, content.encode(), mode=0o644)
    return tuple(contents)


def receipt_of(file: Path) -> Path:
    """Return the path of a release's receipt: release.intoto.json beside release.json."""
    return file.with_suffix(".intoto.json")


def receipt(text: str, key: Ed25519PrivateKey) -> str:
    """Return the signed receipt of a release's text, as JSON; the same key signs the same text identically."""
    release = json.loads(text)
    statement = {
        "_type": STATEMENT,
        "subject": [{"name": "release.json", "digest": {"sha256": hashlib.sha256(text.encode()).hexdigest()}}],
        "predicateType": PREDICATE,
        "predicate": {name: release[name] for name in SIGNED_FIELDS},
    }
    payload = json.dumps(statement, ensure_ascii=False, allow_nan=False).encode()
    signature = {"keyid": key_id(key.public_key()), "sig": b64encode(key.sign(signed_bytes(payload))).decode()}
    envelope = {"payloadType": PAYLOAD_TYPE, "payload": b64encode(payload).decode(), "signatures": [signature]}
    return json.dumps(envelope, indent=2)


def signed_bytes(payload: bytes) -> bytes:
    """DSSE's pre-authentication encoding of a payload of our type: the bytes that are signed."""
    return b"DSSEv1 %d %s %d %s" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(payload), payload)


def pem_of(key: Ed25519PrivateKey) -> bytes:
    """Return the public half of a key as a PEM file."""
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def key_id(key: Ed25519PublicKey) -> str:
    """SHA-256 of the raw public key, in hex."""
    return hashlib.sha256(key.public_bytes(Encoding.Raw, PublicFormat.Raw)).hexdigest()


def new_key() -> tuple[Path, Path, str]:
    """Write a key pair, refused if there is one: the private file, its owner's alone, the public file, its id."""
    private, key = Path(os.environ.get(SETTING) or DEFAULT), Ed25519PrivateKey.generate()
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    if not create_atomically(private, lambda file: replace_atomically(file, secret)):
        raise StudyInvalid(
            f"there is a key already at {str(private)!r}",
            cause="it was made before, and signs every release",
            remedy="to change it, keep the old public file for those who verify, and move both files away first",
        )
    public = private.with_suffix(".pub")
    replace_atomically(public, pem_of(key), mode=0o644)
    return private, public, key_id(key.public_key())


def signing_key() -> Ed25519PrivateKey | None:
    """Return the owner's private key, of the file DPBO_SIGNING_KEY, else of the default file; None without."""
    file, alone, key = Path(os.environ.get(SETTING) or DEFAULT), True, None
    if SETTING not in os.environ and not file.exists():
        return None
    with suppress(OSError, ValueError, TypeError, UnsupportedAlgorithm), file.open("rb") as opened:
        status = os.fstat(opened.fileno())
        alone = status.st_uid == os.geteuid() and not status.st_mode & 0o077
        key = load_pem_private_key(opened.read(), None)
    if alone and isinstance(key, Ed25519PrivateKey):
        return key
    raise StudyInvalid(
        f"the signing key {str(file)!r} " + ("cannot be used" if alone else "can be read by others"),
        cause="its file is missing, damaged or no Ed25519 key" if alone else "its mode or its owner was changed",
        remedy="make one: dpbo budget keys new"
        if alone
        else "take it as stolen, and make another: dpbo budget keys new",
    )


def public_keys(files: Iterable[Path]) -> Keys:
    """Return the public keys of PEM files, one or several a file, by their ids; a file without one is refused."""
    keys: dict[str, Ed25519PublicKey] = {}
    for file in files:
        try:
            blocks = file.read_text(encoding="ascii").split(PEM_END)[:-1]
            loaded: list[Any] = [load_pem_public_key((block + PEM_END).encode()) for block in blocks]
        except (OSError, ValueError, UnsupportedAlgorithm):
            loaded = []
        if not loaded or not all(isinstance(key, Ed25519PublicKey) for key in loaded):
            raise StudyInvalid(
                f"{str(file)!r} holds no Ed25519 public keys",
                cause="another file, or the private key",
                remedy="take the .pub file that dpbo budget keys new wrote, and ask its owner if it is that one",
            )
        keys |= {key_id(key): key for key in loaded}
    return keys


def check_receipt(file: Path, content: bytes, trusted: Keys) -> str:
    """Return the id of the trusted key that signed the receipt beside this release; refused if none did."""
    place = receipt_of(file)
    try:
        envelope = json.loads(place.read_bytes())
        payload = b64decode(envelope["payload"], validate=True)
        signatures = [b64decode(signature["sig"], validate=True) for signature in envelope["signatures"]]
        typed = envelope["payloadType"] == PAYLOAD_TYPE
    except OSError:
        raise StudyInvalid(
            f"there is no receipt {str(place)!r}",
            cause="the release was written where no key was, or its receipt was left behind",
            remedy="ask the owner of the data: dpbo show STUDY --out release.json writes both",
        ) from None
    except (ValueError, LookupError, TypeError, RecursionError):
        payload, signatures, typed = b"", [], False
    signer = next((name for name, key in trusted.items() if _has_valid_signature(key, payload, signatures)), None)
    if signer is None or not typed:
        raise CertificateFalse(
            f"the receipt {str(place)!r} is signed by none of the keys",
            cause="it was changed, or signed with another key, or with one that was revoked",
            remedy="ask the owner of the data for the key in use, and for a new receipt",
        )
    if not _is_about(payload, content):
        raise CertificateFalse(
            f"the receipt {str(place)!r} is another release's",
            cause="the release was changed after it was signed, if by an editor's new line, or files were mixed up",
            remedy="take the release and its receipt from one place",
        )
    return signer


def _has_valid_signature(key: Ed25519PublicKey, payload: bytes, signatures: Iterable[bytes]) -> bool:
    for signature in signatures:
        try:
            key.verify(signature, signed_bytes(payload))
        except InvalidSignature:
            continue
        return True
    return False


def _is_about(payload: bytes, content: bytes) -> bool:
    try:
        statement, release = json.loads(payload), json.loads(content)
        (subject,) = statement["subject"]
        return bool(
            (statement["_type"], statement["predicateType"]) == (STATEMENT, PREDICATE)
            and subject["digest"] == {"sha256": hashlib.sha256(content).hexdigest()}
            and statement["predicate"] == {name: release[name] for name in SIGNED_FIELDS}
        )
    except (ValueError, LookupError, TypeError, RecursionError):
        return False
