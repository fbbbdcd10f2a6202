"""`dpbo verify`: ε and δ of a release recomputed from its certificate alone, without a ledger."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from dpbo.flows.cli.running import is_there
from dpbo.flows.cli.terminal import print_sentence
from dpbo.flows.cli.words import lines_of
from dpbo.flows.prefect_runtime.settings import Stores
from dpbo_core.accounting.certificate import read_certificate, recompute
from dpbo_core.errors import DpboError, LedgerDamaged, printable
from dpbo_core.ledger import lookup
from dpbo_core.privacy.release import Release
from dpbo_core.queries.evaluation.certified import CERTIFIED


def verify(
    certificate: Annotated[Path, typer.Argument(metavar="release.json", help="A release's own page.")],
    key: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="The owner's public keys: check the receipt too.")
    ] = None,
    revoked: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Public keys that sign nothing any more.")
    ] = None,
) -> None:
    """Recompute a release's ε and δ from its certificate alone; its ledger, if it is here, must still have it."""
    signed = "" if key is None and revoked is None else check_signature(certificate, key or (), revoked or ())
    print_sentence(check_certificate(certificate) + signed)


def check_signature(file: Path, keys: Iterable[Path], revoked: Iterable[Path] = ()) -> str:
    """Who signed a release, in a sentence; raises if no receipt is beside it, or no trusted key signed it.

    Raises:
        StudyInvalid: there is no receipt, or a file holds no keys.
        CertificateFalse: no key signed it that is not revoked, or it is another release's.
    """
    from dpbo.tasks.reporting.receipt import check_receipt, public_keys

    lines_of(file)  # that it can be read
    dead = public_keys(revoked)
    trusted = {name: key for name, key in public_keys(keys).items() if name not in dead}
    return f" Signed by key {check_receipt(file, file.read_bytes(), trusted)}."


def check_certificate(file: Path) -> str:
    """A sentence about a release, its ε and δ recomputed; CertificateFalse where its numbers do not support them.

    Raises:
        StudyInvalid: the file is no release.
        CertificateFalse: its numbers do not support its guarantee.
        LedgerDamaged: the ledger here recorded it, and is older than it was.
    """
    release = release_of(file)
    price = recompute(release, CERTIFIED)
    kind = (
        f"ε = {price.epsilon:.6g}" if price.delta == 0.0 else f"(ε, δ) = ({price.epsilon:.6g}, {price.delta:.6g})"
    )
    by_price = f" Priced as printed: {', '.join(price.by_price)}." if price.by_price else ""
    in_ledger = _ledger_remark(release)
    draws = "1 draw costs" if price.draws == 1 else f"{price.draws} draws cost"
    near = f" Its score is {price.score_bound}." if price.score_bound else ""
    sentence = (
        f"{release.study}, edition {release.edition}: {draws} {kind}.{by_price} {release.guarantee.in_words()}"
    )
    return printable(sentence + near + in_ledger)


def release_of(file: Path) -> Release:
    """The release in a file such as release.json; StudyInvalid where the file holds none."""
    text = "\n".join(
        lines_of(file, remedy="take release.json from mlruns/artifacts/RUN/artifacts, or from dpbo ui")
    )
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    return read_certificate(document, CERTIFIED)


def _ledger_remark(release: Release) -> str:
    """A sentence if the ledger here lost the release to an accepted older copy, or cannot be asked; "" if it has
    it, is another one or is not here; LedgerDamaged if it lost it otherwise.

    Raises:
        LedgerDamaged: it lost the release, and nobody accepted that.
    """
    url = Stores().ledger
    try:
        standing = lookup.standing_of(release, url) if is_there(url) else "another"
    except LedgerDamaged:
        raise
    except DpboError:
        return " The ledger could not be asked whether it has this release."
    return " The ledger does not have it any more: an older copy was accepted since." * (standing == "accepted")
