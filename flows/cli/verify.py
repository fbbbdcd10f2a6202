"""A release in a stranger's hands: `dpbo verify`, `dpbo pool` of several sites', and `dpbo keys` that sign them."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import typer

from dpbo.flows.cli.report_screen import print_figures, report_facts
from dpbo.flows.cli.running import is_there
from dpbo.flows.cli.terminal import Screen, named, print_result, print_sentence
from dpbo.flows.cli.words import text_of, writing
from dpbo.flows.stores import Stores
from dpbo_core.accounting.certificate import Recomputed, read_certificate, recompute
from dpbo_core.errors import DpboError, LedgerDamaged, printable
from dpbo_core.ledger import lookup
from dpbo_core.privacy.release import Release
from dpbo_core.queries.evaluation.certified import CERTIFIED

Revoked = Annotated[list[Path] | None, typer.Option(metavar="FILE", help="Public keys that sign nothing any more.")]


def verify(
    certificate: Annotated[Path, typer.Argument(metavar="release.json", help="A release's own page.")],
    key: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="The owner's public keys: check the receipt too.")
    ] = None,
    revoked: Revoked = None,
) -> None:
    """Recompute a release's ε and δ from its certificate alone; its ledger, if it is here, must still have it."""
    signed = "" if key is None and revoked is None else check_signature(certificate, key or (), revoked or ())
    checked = Checked.of(certificate)
    print_result(checked.to_json, lambda: print_sentence(checked.in_words() + signed))


def check_signature(file: Path, keys: Iterable[Path], revoked: Iterable[Path] = ()) -> str:
    """Who signed a release, in a sentence; raises if no receipt is beside it, or no trusted key signed it.

    Raises:
        StudyInvalid: there is no receipt, or a file holds no keys.
        CertificateFalse: no key signed it that is not revoked, or it is another release's.
    """
    from dpbo.tasks.reporting.receipt import check_receipt, public_keys

    text_of(file)  # that it can be read
    dead = public_keys(revoked)
    trusted = {name: key for name, key in public_keys(keys).items() if name not in dead}
    return f" Signed by key {check_receipt(file, file.read_bytes(), trusted)}."


@dataclass(frozen=True)
class Checked:
    """A release whose numbers support its guarantee.

    Attributes:
        release: as the file has it.
        price: as its draws cost, computed anew.
        ledger: what there is to say of it in the ledger here; "" for nothing.
    """

    release: Release
    price: Recomputed
    ledger: str

    @classmethod
    def of(cls, file: Path) -> Self:
        """Recompute the ε and δ of a release in `file`; raises CertificateFalse where its numbers do not support
        them, LedgerDamaged where the ledger here lost it.

        Raises:
            StudyInvalid: the file is no release.
            CertificateFalse: its numbers do not support its guarantee.
            LedgerDamaged: the ledger here recorded it, and is older than it was.
        """
        release = release_of(file)
        return cls(release, recompute(release, CERTIFIED), _ledger_remark(release))

    def in_words(self) -> str:
        """What was found, as a sentence or two."""
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
        """What was found, as the JSON object of `dpbo verify --json`."""
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
    """Recompute the ε and δ of a release in `file`, and say them in a sentence; raises as `Checked.of`."""
    return Checked.of(file).in_words()


def release_of(file: Path) -> Release:
    """The release in a file such as release.json; StudyInvalid where the file holds none."""
    text = text_of(file, remedy="take release.json from mlruns/artifacts/RUN/artifacts, or from dpbo ui")
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


def pool(
    releases: Annotated[list[Path], typer.Argument(metavar="RELEASE.json...", help="One report a site.")],
    key: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="The sites' public keys: check every receipt too.")
    ] = None,
    revoked: Revoked = None,
) -> None:
    """Sum the noised tables of one model at several sites: one report, and whether the sites disagree."""
    from dpbo_core.queries.evaluation.pooled import pool as pooled

    reports = [release_of(file) for file in releases]
    for file, report in zip(releases, reports, strict=True):
        _ledger_remark(report)  # refuses one that the ledger here lost
        if key is not None or revoked is not None:
            check_signature(file, key or (), revoked or ())
    document = pooled(reports)
    print_result(lambda: document, lambda: print_pooled(document))


def print_pooled(document: dict[str, Any]) -> None:
    """Print the screen of a pooled report."""
    screen, value, sites = Screen(), document["value"], document["sites"]
    guarantee, test = document["guarantee"], document["disagreement"]
    screen.say(f"[bold]{len(sites)} sites[/]; nothing was drawn or spent.\n")
    print_figures(screen, value)
    names = [name for name, figure in value["metrics"].items() if figure["noise_interval"] is not None][:3]
    rows = [
        (named(site["dataset"]), site["release_id"], *(f"{site['metrics'][name]['value']:.3f}" for name in names))
        for site in sites
    ]
    screen.table(("site", "release", *(name.replace("_", " ") for name in names)), rows, left=2)
    screen.say()
    word = "[bold]disagree[/]" if test["disagree"] else "cannot be told apart"
    facts = {name: value["table"][name] for name in ("n_persons",) if name in value["table"]}
    screen.facts(
        [
            *report_facts(value, facts, screen),
            (
                "sites",
                f"{word}: p = {test['p_value']:.3g}, where noise and sampling alone say so in "
                f"{test['false_alarms']:.0%} of cases",
            ),
            ("noise", f"scale {value['table']['noise_scale']:.3g} in each cell, the root of the sites' squares"),
            (
                "guarantee",
                f"each site's own: ε = {guarantee['epsilon']:g} at most for who is at one site, "
                f"{guarantee['epsilon_at_every_site']:g} for who is at every one",
            ),
        ]
    )


def keys(word: Annotated[Literal["new"], typer.Argument(help="new: make a key pair, once.")]) -> None:
    """Make the key that signs every release from now on; nothing is charged, and no data is opened."""
    from dpbo.tasks.reporting.receipt import new_key

    Stores().make_folder()
    with writing("the key", remedy="set DPBO_SIGNING_KEY to another place"):
        private, public, name = new_key()
    print_sentence(f"{private} signs, and is for you alone; {public} verifies: publish it. Key {name}.")
