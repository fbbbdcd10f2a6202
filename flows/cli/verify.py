"""`dpbo verify`: a release in a stranger's hands, recomputed, and its receipt checked."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self

import typer

from dpbo.flows.cli.running import is_there, text_of
from dpbo.flows.stores import Stores
from dpbo.flows.terminal import print_result, print_sentence
from dpbo_core.errors import DpboError, LedgerDamaged, printable
from dpbo_core.ledger import lookup
from dpbo_core.ledger.accounting.certificate import Recomputed, read_certificate, recompute
from dpbo_core.privacy.release import Release
from dpbo_core.report.certified import CERTIFIED


def verify(
    certificate: Annotated[Path, typer.Argument(metavar="release.json", help="A release's JSON file.")],
    key: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="The owner's public keys, with which the receipt is checked too."),
    ] = None,
) -> None:
    """Recompute a release's ε and δ from its certificate; if its ledger is here, it must contain the release."""
    signed = "" if key is None else check_signature(certificate, key)
    checked = Checked.of(certificate)
    print_result(checked.to_json, lambda: print_sentence(f"OK: {checked.in_words()}{signed}"))


def check_signature(file: Path, keys: Iterable[Path]) -> str:
    """Who signed a release, in a sentence; raises if no receipt is beside it, or no trusted key signed it."""
    from dpbo.tasks.reporting.release_files import check_receipt, public_keys

    text_of(file)  # that it can be read
    return f" Signed by key {check_receipt(file, file.read_bytes(), public_keys(keys))}."


@dataclass(frozen=True)
class Checked:
    """A release whose numbers support its guarantee."""

    release: Release  # as the file has it
    price: Recomputed  # as its draws cost, computed again
    ledger: str  # what there is to say of it in the ledger here; "" for nothing

    @classmethod
    def of(cls, file: Path) -> Self:
        """Return the ε and δ of a release in `file`, recomputed; refused if its numbers do not support them."""
        release = release_of(file)
        return cls(release, recompute(release, CERTIFIED), ledger_remark(release))

    def in_words(self) -> str:
        """Return the result of checking a release, as a sentence or two."""
        release, price = self.release, self.price
        kind = f"ε = {price.epsilon:.6g}"
        if price.delta != 0.0:
            kind = f"(ε, δ) = ({price.epsilon:.6g}, {price.delta:.6g})"
        by_price = f" Priced as printed: {', '.join(price.by_price)}." if price.by_price else ""
        draws = "1 draw costs" if price.draws == 1 else f"{price.draws} draws cost"
        near = f" Its score is {price.score_bound}." if price.score_bound else ""
        figures = f" Figures: {price.figures}." if price.figures else ""
        sentence = (
            f"{release.study}, edition {release.edition}: {draws} {kind}.{by_price} {release.guarantee.in_words()}"
        )
        return printable(sentence + near + figures + self.ledger)

    def to_json(self) -> dict[str, Any]:
        """Return what was found, as the JSON object of `dpbo verify --json`."""
        release, price = self.release, self.price
        return {
            "release_id": release.release_id,
            "study": release.study,
            "edition": release.edition,
            "epsilon": price.epsilon,
            "delta": price.delta,
            "draws": price.draws,
            "by_price": list(price.by_price),
            "guarantee": release.guarantee.to_json(),
            "figures": price.figures or None,
            "ledger": self.ledger.strip() or None,
        }


def check_certificate(file: Path) -> str:
    """Return a sentence with a release's ε and δ, recomputed from `file`; raises as `Checked.of`."""
    return Checked.of(file).in_words()


def release_of(file: Path) -> Release:
    """Return the release in a file such as release.json; StudyInvalid where the file holds none."""
    text = text_of(file, remedy="take release.json from mlruns/artifacts/RUN/artifacts, or from dpbo ui")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    return read_certificate(document, CERTIFIED)


def ledger_remark(release: Release) -> str:
    """Return a sentence if the ledger here lost the release to an accepted older copy, or cannot be read.

    It is "" if the ledger has the release, is another one, or is not here; a loss otherwise is an error.
    """
    url = Stores().ledger
    try:
        standing = lookup.standing_of(release, url) if is_there(url) else "another"
    except LedgerDamaged:
        raise
    except DpboError:
        return " The ledger could not be asked whether it has this release."
    return " The ledger does not have it any more: an older copy was accepted since." * (standing == "accepted")
