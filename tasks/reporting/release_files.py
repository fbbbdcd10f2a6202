"""The files of a release: release.json, the page release.html, and the receipt, signed with the owner's key.

The page needs nothing else, not even a network, and everything in it is escaped here. It holds the release itself
as JSON, so that whoever has the page can check it with `dpbo verify`. The receipt is an in-toto statement in a DSSE
envelope, Ed25519:

| part | what it holds |
|---|---|
| statement | subject: SHA-256 of release.json; predicate: what `SIGNED_FIELDS` names of it, word for word |
| envelope | `TYPE`, the statement in base64, and signatures of "DSSEv1 len(TYPE) TYPE len(statement) statement" |
| keyid | SHA-256 of the 32 bytes of the public key: a hint, on which nothing rests |

`registry_entry` drafts an entry for the registry of differential privacy deployments. Its fields are those of the
registry's schema, by the authors of arXiv 2509.13509 (`deployments-schema.yaml` of
opendp/deployments-registry-data). What a release does not say stands there as `CURATOR_TODO`, for its owner to
write.

Sources: in-toto Attestation Framework v1, DSSE v1.0. The private key is a file of its owner alone. It is read here,
where a receipt is made: it is no argument of a task and no artifact, and no message repeats anything of it.
"""

import hashlib
import json
import os
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from contextlib import suppress
from html import escape
from pathlib import Path
from string import Template
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

from dpbo.tasks.reporting.document import Document, Fact, Note, Table
from dpbo.tasks.reporting.release_document import CHANGE_WORDS, meaning, noise_in_words, release_document, rests
from dpbo.tasks.reporting.report_document import BETTER_TEXT
from dpbo_core.errors import CertificateFalse, StudyInvalid
from dpbo_core.ledger.accounting.account import Account
from dpbo_core.ledger.address import STATE_FOLDER
from dpbo_core.privacy.atomically import create_atomically, replace_atomically
from dpbo_core.privacy.guarantee import PUBLIC_QUESTIONS
from dpbo_core.privacy.release import Release
from dpbo_core.report import BETTER

SETTING, DEFAULT = "DPBO_SIGNING_KEY", STATE_FOLDER / "signing.key"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT, PREDICATE = "https://in-toto.io/Statement/v1", "urn:dpbo:release:v1"
SIGNED_FIELDS = ("release_id", "released_at", "study", "edition", "method", "dataset", "guarantee", "noise")
PEM_END = "-----END PUBLIC KEY-----\n"
Keys = Mapping[str, Ed25519PublicKey]
CURATOR_TODO = "TO BE WRITTEN BY THE CURATOR"
CURATOR_TEXT = (
    "The curator reads the records, adds the noise and is trusted. Everybody else sees releases alone, and may be "
    "an adversary who knows all other records."
)
PAGE_TEMPLATE = Template("""\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>$title</title><style>
body{font:16px/1.5 system-ui,sans-serif;color:#1f2933;max-width:52rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin-bottom:0}h2{font-size:1.1rem;margin-top:2rem}.sub{color:#7b8794;margin-top:.2rem}
.value{display:flex;gap:1rem 2rem;flex-wrap:wrap;margin:1rem 0}.value div{max-width:24rem}
.value b{display:block;font-size:1.6rem;line-height:1.2}.good{color:#0f6b3d}
.guarantee{border-left:4px solid #486581;padding:.5rem 1rem;background:#f0f4f8;margin-bottom:1.2rem}
.guarantee h2{margin-top:0}.guarantee p{margin:.3rem 0}
table{border-collapse:collapse;font-size:.9rem}td,th{text-align:left;padding:.25rem .9rem .25rem 0;
vertical-align:top;border-bottom:1px solid #e4e7eb}img{max-width:100%}pre{white-space:pre-wrap;font-size:.75rem}
@media print{body{margin:0 auto}h2{break-after:avoid}img,table,ul,.guarantee{break-inside:avoid}}
</style></head><body>
<h1>$title</h1><p class="sub">$subtitle</p>
<div class="value">$answers</div>
$strong$facts$pictures$tables$notes
<p><strong>Next:</strong> $next_step.</p>
<h2>The release</h2><p>Check it: save the JSON below as <code>release.json</code> (in MLflow it is an artifact
of the same run) and run <code>dpbo verify release.json</code>. <code>dpbo report</code> says who asked for it, and
who set the budget's cap.</p>
<details><summary>release.json</summary><pre id="release">$attached</pre></details>
</body></html>
""")


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
            cause="it was changed, or signed with another key",
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


def page(release: Release, pictures: Iterable[Path], account: Account | None = None) -> str:
    """Return a release's certificate as one HTML page, with what is left of its dataset's `account`."""
    return html(release_document(release, account=account), pictures, attached=release_text(release))


def html(document: Document, pictures: Iterable[Path], *, attached: str) -> str:
    """Return a document as one HTML page with pictures, and the text `attached` for whoever checks it."""
    images = (
        f'<p><img alt="{escape(path.stem)}" src="data:image/png;base64,'
        f'{b64encode(path.read_bytes()).decode()}"></p>'
        for path in pictures
    )
    answers = document.verdict_first
    caveats = [fact for fact in answers if not fact.strong]
    facts = Table(
        ("", ""), tuple((fact.name, f"{fact.strong}{fact.text}") for fact in (*caveats, *document.facts_on_a_page))
    )
    return PAGE_TEMPLATE.substitute(
        title=escape(document.title),
        subtitle=escape(" · ".join(filter(None, (document.subtitle, document.origin)))),
        answers="".join(_answer(fact) for fact in answers if fact.strong),
        strong="".join(f'<div class="guarantee">{_note(note)}</div>' for note in document.notes if note.strong),
        pictures="".join(images),
        tables="".join(map(_table, document.tables)),
        facts=_table(facts),
        notes="".join(_note(note) for note in document.notes if not (note.strong or note.lesson)),
        next_step=escape(document.next_step),
        attached=escape(attached),
    )


def _answer(fact: Fact) -> str:
    good = ' class="good"' if fact.strong in (BETTER, BETTER_TEXT) else ""
    strong = f'<b data-value="{escape(fact.name)}"{good}>{escape(fact.strong)}</b>'
    return f"<div>{escape(fact.name)}{strong}{escape(fact.text.lstrip(' ,:'))}</div>"


def _note(note: Note) -> str:
    several = len(note.sentences) > 1 and not note.strong
    items = (f"<li>{escape(line)}</li>" if several else f"<p>{escape(line)}</p>" for line in note.sentences)
    text = "".join(items)
    return f"<h2>{escape(note.title)}</h2>{f'<ul>{text}</ul>' if several else text}"


def _table(table: Table) -> str:
    heading = f"<h2>{escape(table.title)}</h2>" if table.title else ""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.header) if any(table.header) else ""
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    return f'{heading}<div style="overflow-x:auto"><table><tr>{head}</tr>{body}</table></div>'


def registry_entry(release: Release) -> dict[str, Any]:
    """A draft entry of a release for the registry of DP deployments, as JSON; refused if it guarantees nothing."""
    guarantee = release.guarantee
    if guarantee.evidence.refuted:
        raise StudyInvalid("the release guarantees nothing", remedy="register a release that is private")
    name = f"{release.study}, edition {release.edition}"
    basic = {
        "name": name,
        "data_curators": [CURATOR_TODO],
        "description": f"{release.method} on the dataset {release.dataset}. {guarantee.in_words()}",
        "intended_use": CURATOR_TODO,
        "data_product_type": "Machine learning model"
        if "hyperparameters" in release.value
        else "Summary statistics",
        "data_product_region": CURATOR_TODO,
        "publication_date": release.released_at[:10],
    }
    variant = {
        "variant_name": "Pure DP" if guarantee.delta == 0.0 else "Approximate DP",
        "data_domain": "Tables with the columns that the study names, and any values in them",
        "unprotected_quantities": "The study, its public data, that it ran and when, what it states of its records",
    }
    loss = {
        "privacy_unit": guarantee.protected,
        "privacy_unit_details": CHANGE_WORDS[guarantee.relation].format(one=guarantee.one_protected),
        "privacy_parameters": {"epsilon": guarantee.epsilon, "delta": guarantee.delta},
        "privacy_parameters_details": meaning(release),
    }
    model = {
        "model_name": "Central",
        "actors": CURATOR_TEXT,
        "release_type": "One release",
        "release_type_details": "Every release about the dataset is charged to one cap, which is never refilled.",
        "data_source_type": "Static",
        "access_type": "Interactive"
        if PUBLIC_QUESTIONS.name in release.guarantee.assumptions
        else "Non-interactive",
    }
    accounting = {
        "composition": "The sum of the draws' ε, or of their ρ (zCDP) converted at δ, whichever holds at less.",
        "post_processing": "Intervals and figures are computed from the noised values alone.",
    }
    implementation = {
        "preprocessing_and_hyperparameter_tuning": "By public data, or paid for by the draws of this release.",
        "mechanisms": f"{noise_in_words(release)}; drawn from the operating system's source.",
        "justification": " ".join(rests(release)),
    }
    parts = {
        "basic": basic,
        "dp_variant": variant,
        "privacy_loss": loss,
        "deployment_model": model,
        "accounting": accounting,
        "implementation": implementation,
        "administrative": {"notes": f"Release {release.release_id}", "registry_authors": [CURATOR_TODO]},
    }
    slug = re.sub(r"[^a-z0-9]+", "-", f"{release.dataset}-{name}".lower()).strip("-")
    return {"url_slug": slug, "status": "Draft", "tier": 3, "deployment": parts}
