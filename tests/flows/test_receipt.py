"""Receipts: a stranger verifies who released what; nothing else than the release is in them, the key nowhere."""

import base64
import json
import shutil
import subprocess
import sys
from pathlib import Path

import cffi
import cryptography
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from test_show import released  # noqa: F401  a fixture

from dpbo.tasks.reporting.mlflow_run import log_release
from dpbo_core.ledger.ledger import PrivacyLedger

ROOT = Path(__file__).parents[2]
MADE = {}  # by method: its release, and the folder


@pytest.fixture
def signed(dpbo, released, here, tmp_path_factory, request):  # noqa: F811
    """A release with its receipt, and the key's public half, in the current folder: a copy of the first one's."""
    method = getattr(request, "param", "private_grid")
    if method in MADE:
        shutil.copytree(MADE[method][1], here, dirs_exist_ok=True)
        return MADE[method][0]
    release, folder = released(method=method), tmp_path_factory.mktemp("signed")
    assert dpbo("budget", "keys", "new")[0] == 0
    assert dpbo("show", "trial", "--out", "release.json", "--json")[0] == 0
    shutil.copytree(here, folder, dirs_exist_ok=True)
    MADE[method] = release, folder
    return release


def envelope_of(name="release.intoto.json"):
    return json.loads(Path(name).read_text())


def statement_of(name="release.intoto.json"):
    return json.loads(base64.b64decode(envelope_of(name)["payload"]))


def verified(dpbo, *words):
    code, out, err = dpbo("verify", "release.json", *(words or ("--key", "mlruns/signing.pub")))
    return code, " ".join(out.split()) + err


def test_a_signed_release_verifies_and_says_by_which_key(dpbo, signed):
    code, words = verified(dpbo)
    before = Path("release.intoto.json").read_bytes()
    assert dpbo("show", "trial", "--out", "release.json", "--json")[0] == 0
    assert (code, Path("release.intoto.json").read_bytes()) == (0, before)  # signed again it is the same
    assert signed.guarantee.in_words() in words
    assert f"Signed by key {envelope_of()['signatures'][0]['keyid']}." in words
    assert Path("release.pub").read_text() == Path("mlruns/signing.pub").read_text()


def test_the_envelope_is_dsse_and_the_statement_in_toto(signed):
    """Checked by hand against DSSE's PAE: "DSSEv1" SP len SP type SP len SP body."""
    envelope, statement = envelope_of(), statement_of()
    payload, kind = base64.b64decode(envelope["payload"]), envelope["payloadType"]
    assert kind == "application/vnd.in-toto+json"
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"].startswith("urn:")
    pae = b" ".join([b"DSSEv1", str(len(kind)).encode(), kind.encode(), str(len(payload)).encode(), payload])
    key = load_pem_public_key(Path("release.pub").read_bytes())
    assert isinstance(key, Ed25519PublicKey)
    key.verify(base64.b64decode(envelope["signatures"][0]["sig"]), pae)


def test_epsilon_and_delta_of_the_receipt_are_the_releases_and_nothing_else_is_in_it(signed):
    statement, release = statement_of(), json.loads(Path("release.json").read_text())
    assert statement["predicate"]["guarantee"] == release["guarantee"]
    assert statement["predicate"].items() <= release.items()
    assert set(statement) == {"_type", "subject", "predicateType", "predicate"}


def test_a_changed_payload_is_refused(dpbo, signed):
    envelope, statement = envelope_of(), statement_of()
    statement["predicate"]["guarantee"]["epsilon"] = 0.1  # as long as it was
    envelope["payload"] = base64.b64encode(json.dumps(statement, ensure_ascii=False).encode()).decode()
    Path("release.intoto.json").write_text(json.dumps(envelope))
    code, words = verified(dpbo)
    assert (code, "signed by none of the keys" in words) == (1, True)


def test_a_changed_release_is_refused(dpbo, signed):
    text = Path("release.json").read_text()
    for changed in (text + " ", text.replace("0.5", "0.4")):
        Path("release.json").write_text(changed)
        code, words = verified(dpbo)
        assert (code, "is another release's" in words) == (1, True)


def test_another_key_is_refused_and_a_rotated_one_accepted(dpbo, signed):
    old = Path("old.pub")
    Path("mlruns/signing.key").unlink()
    Path("mlruns/signing.pub").rename(old)
    assert dpbo("budget", "keys", "new")[0] == 0
    code, words = verified(dpbo)
    assert (code, "signed by none of the keys" in words) == (1, True)
    both = ("--key", "mlruns/signing.pub", "--key", str(old))
    assert verified(dpbo, *both)[0] == 0
    Path("all.pub").write_text(old.read_text() + Path("mlruns/signing.pub").read_text())
    assert verified(dpbo, "--key", "all.pub")[0] == 0
    assert dpbo("show", "trial", "--out", "release.json", "--json")[0] == 0  # signed anew, at no price
    assert verified(dpbo)[0] == 0


def test_a_damaged_receipt_is_refused_in_words(dpbo, signed):
    typed = json.dumps(envelope_of() | {"payloadType": "text/plain"})
    for damage in ("", "[]", "{}", '{"payload": 3}', '{"payload": "%"}', "[" * 100_000, typed):
        Path("release.intoto.json").write_text(damage)
        code, words = verified(dpbo)
        assert (code, "signed by none of the keys" in words, "What to do" in words) == (1, True, True), damage[:20]


def test_without_a_receipt_or_a_key_the_remedy_is_said(dpbo, signed):
    assert "What to do" in verified(dpbo, "--key", "release.json")[1]
    assert verified(dpbo, "--key", "mlruns/signing.key")[0] == 2
    Path("release.intoto.json").unlink()
    code, words = verified(dpbo)
    assert (code, "dpbo show STUDY --out release.json writes both" in words) == (2, True)


def test_the_private_key_is_its_owners_alone_and_nothing_repeats_it(dpbo, signed):
    private = Path("mlruns/signing.key")
    assert private.stat().st_mode & 0o777 == 0o600
    secret = private.read_text().splitlines()[1]
    code, out, err = dpbo("budget", "keys", "new")
    assert (code, "there is a key already" in err, secret in out + err) == (2, True, False)
    others = [path for path in Path().rglob("*") if path.is_file() and path != private]
    assert not any(secret.encode() in path.read_bytes() for path in others)
    private.chmod(0o640)
    code, out, err = dpbo("show", "trial", "--out", "again.json")
    assert (code, "can be read by others" in err, Path("again.json").exists()) == (2, True, False)


def test_mlflow_has_the_receipt_beside_the_release_and_never_the_key(dpbo, signed, here):
    (account,) = PrivacyLedger(f"sqlite:///{here / 'mlruns' / 'ledger.db'}").accounts("people")
    tracked = log_release(signed, account, f"sqlite:///{here / 'mlruns' / 'mlflow.db'}")
    assert not tracked.missing
    for name in ("release.json", "release.intoto.json", "release.pub"):
        (artifact,) = (here / "mlruns").rglob(name)
        assert artifact.read_bytes() == (here / name).read_bytes()
    secret = Path("mlruns/signing.key").read_bytes().splitlines()[1]
    others = [path for path in (here / "mlruns").rglob("*") if path.is_file() and path.name != "signing.key"]
    assert not any(secret in path.read_bytes() for path in others)


def test_without_a_key_a_release_is_written_alone(dpbo, released):  # noqa: F811
    released()
    assert dpbo("show", "trial", "--out", "release.json", "--json")[0] == 0
    assert Path("release.json").exists()
    assert not Path("release.intoto.json").exists()


@pytest.mark.parametrize("signed", ["private_grid", "private_trajectory"], indirect=True)  # pure, and by zCDP
def test_twenty_lines_without_dpbo_check_a_receipt(signed, tmp_path):
    """In an interpreter that sees the standard library and `cryptography`, and nothing else that is installed."""
    program = (ROOT / "examples" / "check_receipt.py").read_text()
    assert sum(bool(line) for line in program.splitlines()) <= 20
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "check_receipt.py").write_text(program)
    site = Path(cryptography.__file__).parents[1]
    backends = [path.name for path in site.glob("_cffi_backend*")]
    for name in ("cryptography", *backends, Path(cffi.__file__).parent.name):
        (bare / name).symlink_to(site / name)

    def run():
        command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(bare)!r}); "
                   "import runpy; sys.argv[1:] = ['release.json', 'release.pub']; "
                   "assert __import__('importlib.util').util.find_spec('dpbo_core') is None; "
                   f"runpy.run_path({str(bare / 'check_receipt.py')!r})"]  # fmt: skip
        return subprocess.run(command, capture_output=True, text=True, env={}, check=False)

    done = run()
    assert (done.returncode, done.stderr) == (0, "")
    assert f"epsilon {signed.guarantee.epsilon} delta {signed.guarantee.delta}" in done.stdout
    price = float(done.stdout.split()[-1])
    assert 0.97 * signed.guarantee.epsilon < price < 1.001 * signed.guarantee.epsilon
    text = Path("release.json").read_text()
    Path("release.json").write_text(text.replace('"epsilon": 0.5', '"epsilon": 0.4'))
    assert run().returncode != 0
    Path("release.json").write_text(text)
    envelope = envelope_of()
    envelope["signatures"][0]["sig"] = base64.b64encode(bytes(64)).decode()
    Path("release.intoto.json").write_text(json.dumps(envelope))
    assert run().returncode != 0
