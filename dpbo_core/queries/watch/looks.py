"""One look at today's table: holds or ALARM, and nothing more; all looks for one price until the first alarm.

    look_once(spec, ledger=…, vaults=…, name=…)   one look; asked again under its name, the same bit
    open_look(…)                                  the same in pieces, for a scheduler: .finish(ledger, vaults)

The order of what is made durable, at each of which a kill may come:

    reserve the price · z into the vault · its terms into the ledger
    ν_t into the vault · that the look began into the ledger · (the table is read) · the bit into the vault
    the bit into the ledger · (the bit is shown) · at an alarm the release · the noise is destroyed

So no noise is drawn twice for one look, a bit that is known is never found anew on another day's table, and the
ledger knows whether the vault still has all that was drawn. After the alarm nothing looks into the vault again: z
and the ν_t would tell how near the score came to the threshold. Whoever asks for a look then, of whatever name,
destroys them if a kill came before that, and so with a copy that was put back.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from dpbo_core.errors import DpboError, LedgerDamaged, StudyInvalid
from dpbo_core.ledger.ledger import PrivacyLedger, Reservation
from dpbo_core.ledger.policy import Use
from dpbo_core.mechanisms.above_threshold import alarm
from dpbo_core.mechanisms.noise import NoiseSource, OperatingSystemNoise, standing_of, try_out
from dpbo_core.mechanisms.noise_vault import Kept, NoiseVault, Shredded
from dpbo_core.models.estimators import Model
from dpbo_core.preparation.preconditions import check_accepted, opening_cap
from dpbo_core.privacy.plan import Spend
from dpbo_core.privacy.sealing import messages, sealed
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.queries.tuning.run import padded
from dpbo_core.queries.watch.recorded_looks import (
    Look,
    RecordedLook,
    WatchOver,
    check_going_on,
    check_next,
    history_of,
    known_look,
)
from dpbo_core.queries.watch.terms import THRESHOLD, Terms, look_of, noise_of
from dpbo_core.queries.watch.todays_table import TodaysTable, todays_table
from dpbo_core.queries.watch.watching import Watching, section_of, watching
from dpbo_core.study_file import StudySpec, WatchSection
from dpbo_core.study_file.reading import check_name
from dpbo_core.versions import library_version


def look_once(
    study: StudySpec,
    *,
    ledger: PrivacyLedger,
    vaults: str | Path,
    name: str,
    folder: str | Path = ".",
    section: WatchSection | None = None,
    source: NoiseSource | None = None,
    pad: float = 0.0,
    owner: bool = True,
) -> Look:
    """Look once whether the released model's score has fallen on today's table.

    Args:
        study: as written.
        ledger: where budgets and looks are kept.
        vaults: the curator's own folder, in which the watch keeps its secret noise; the same for every look.
        name: of the look, the caller's own: a date, say. Asked again, it is the same look.
        folder: the folder that the study's data paths are relative to.
        section: drop, ε and the rest, in the place of the study's [watch].
        source: where noise comes from; the operating system unless a test says otherwise.
        pad: seconds; what is done with the table takes a whole number of them.
        owner: whether the data's owner asks; not so for what Prefect starts.

    Raises:
        StudyInvalid: nothing to watch, a table that is too small, or the watch is over or open on other terms.
        BudgetRefused, AssumptionNotAccepted: nothing was charged.
        DpboError: the secret noise is not here, or is older than the ledger's last look.
        Sealed: something failed on sensitive data; nothing of it is told, and a rerun continues.
    """
    opened = open_look(study, ledger=ledger, name=name, folder=folder, section=section, vaults=vaults)
    if isinstance(opened, Look):
        return opened
    return opened.finish(ledger, vaults, source, pad=pad, owner=owner)


def open_look(
    study: StudySpec,
    *,
    ledger: PrivacyLedger,
    name: str,
    folder: str | Path = ".",
    section: WatchSection | None = None,
    vaults: str | Path | None = None,
) -> "OpenLook | Look":
    """Everything of a look that can be refused or can fail, from public facts alone; or the bit that was recorded.

    Args, Raises: as `look_once`. Nothing is charged. Where `vaults` is given, the noise of a watch that is over is
    destroyed.
    """
    check_name("the look", name)
    section = section_of(study, section)
    asked = watching(study, ledger, folder, section)
    library_version()
    history = history_of(ledger, asked.key.fingerprint)
    known = known_look(ledger, asked, name, history, replayed=True)
    if vaults is not None and any(look.alarm for look in history):
        _vault(vaults, asked).shred()
    if known is not None:
        return known
    check_going_on(name, history)
    price = asked.price
    check_accepted(study, price, asked.public.problem.unlisted)
    table = todays_table(study, folder, asked.public, section.table)
    if table.n < asked.terms.least_records:
        raise StudyInvalid(
            f"today's table has {table.n:,} records, and this watch needs {asked.terms.least_records:,}",
            cause="its noise was made for tables of at least so many: in a smaller one a record weighs more",
            remedy="look again when the table is whole; or open another watch with a smaller least_records",
        )
    asked = asked.with_threshold()
    made = asked.terms.mechanism(asked.measure)
    try_out([(part.spend(""), part) for part in (made.of_threshold, made.of_comparison)])
    return OpenLook(asked, name, table, asked.model())


@dataclass(frozen=True, eq=False, repr=False)
class OpenLook:
    """A look of which all that is public is done: the model is trained, nothing is charged, no record was read."""

    asked: Watching
    name: str
    table: TodaysTable
    model: Model

    def finish(
        self,
        ledger: PrivacyLedger,
        vaults: str | Path,
        source: NoiseSource | None = None,
        *,
        pad: float = 0.0,
        owner: bool = True,
    ) -> Look:
        """Reserve, draw, read, compare, record; the bit.

        Args, Raises: as `look_once`.
        """
        with padded(pad):
            asked, source = self.asked, source or OperatingSystemNoise()
            vault = _vault(vaults, asked)
            with vault.locked():
                history = history_of(ledger, asked.key.fingerprint)  # another look may have been recorded meanwhile
                known = known_look(ledger, asked, self.name, history, replayed=True)
                try:
                    found = known or self._looked(ledger, vault, source, history, owner=owner)
                except WatchOver:  # the ledger has an alarm
                    vault.shred()
                    raise
                if found.release is not None:
                    vault.shred()
                return found

    def _looked(
        self,
        ledger: PrivacyLedger,
        vault: NoiseVault,
        source: NoiseSource,
        history: tuple[RecordedLook, ...],
        *,
        owner: bool,
    ) -> Look:
        asked, told = self.asked, messages(DpboError, LedgerDamaged, StudyInvalid, WatchOver)
        check_going_on(self.name, history)
        reservation = self._reserved(ledger, source, owner=owner)
        sealed(lambda: self._settled(reservation, ledger, vault, source, len(history)), message=told)
        history = history_of(ledger, asked.key.fingerprint)
        if all(look.name != self.name for look in history):
            check_going_on(self.name, history)
            sealed(lambda: self._recorded(reservation, vault, source, len(history) + 1), message=told)
            history = history_of(ledger, asked.key.fingerprint)
        known = known_look(ledger, asked, self.name, history, replayed=False)
        if known is None:
            raise LedgerDamaged("the look was recorded, and the ledger does not have it")
        return known

    def _reserved(self, ledger: PrivacyLedger, source: NoiseSource, *, owner: bool) -> Reservation:
        spec = self.asked.spec
        return ledger.reserve(
            self.asked.key,
            self.asked.price,
            noise=standing_of(source),
            opening=opening_cap(spec),
            max_records_per_person=spec.privacy.max_records_per_person,
            use=Use(self.table.sources(), owner),
        )

    def _settled(
        self, reservation: Reservation, ledger: PrivacyLedger, vault: NoiseVault, source: NoiseSource, n: int
    ) -> None:
        """The vault, open and whole; bits that were known when a look was killed are recorded first, in order.

        So nobody who kills a look at its alarm can look on.
        """
        asked = self.asked
        made, drawn = asked.terms.mechanism(asked.measure), ledger.drawn(asked.key.fingerprint)
        kept = _opened(vault, reservation, drawn, asked, lambda: made.draw_threshold(source))
        pending = {
            name: look.above
            for name, look in kept.looks.items()
            if look.above is not None and look_of(name) not in drawn
        }
        for number, (name, above) in enumerate(pending.items(), n + 1):
            _record_bit(reservation, asked, name, number, above=above)

    def _recorded(self, reservation: Reservation, vault: NoiseVault, source: NoiseSource, number: int) -> None:
        """The bit, recorded; every line is durable before the next begins."""
        name, asked = self.name, self.asked
        made = asked.terms.mechanism(asked.measure)
        kept = vault.opened(lambda: made.draw_threshold(source))
        kept = vault.begun(kept, name, lambda: made.draw_comparison(source))
        look = kept.looks[name]
        begun = reservation.record(_spend(asked, noise_of(name)), lambda: {"noise": look.identity})
        if begun["noise"] != look.identity:
            raise older()
        above = self._compared(kept, reservation.recorded(THRESHOLD))
        vault.compared(kept, name, above=above)
        _record_bit(reservation, asked, name, number, above=above)

    def _compared(self, kept: Kept, fixed: Mapping[str, Any] | None) -> bool:
        """Today's table is read here, and nowhere else."""
        asked, terms = self.asked, Terms.from_json(fixed or {})
        measure, reference = asked.measure, terms.reference
        scorer = sealed(self.table.opened(asked.public), message=messages(StudyInvalid))
        return alarm(
            measure.value(scorer, self.model, reference),
            fall=measure.fall(reference, self.table.n),
            threshold=terms.threshold or 0,
            of_threshold=kept.threshold,
            of_look=kept.looks[self.name].noise,
        )


def _vault(vaults: str | Path, asked: Watching) -> NoiseVault:
    """The folder of one watch."""
    return NoiseVault(Path(vaults) / asked.key.fingerprint[:16])


def _opened(
    vault: NoiseVault,
    reservation: Reservation,
    drawn: Mapping[str, tuple[Mapping[str, Any], str]],
    asked: Watching,
    draw: Callable[[], Sensitive[int]],
) -> Kept:
    """The vault that this watch was opened with, whole; or opened now, its terms recorded.

    Raises:
        DpboError: it is not here, is older than the ledger, or newer.
    """
    fixed = reservation.recorded(THRESHOLD)
    try:
        kept = vault.kept()
    except Shredded:  # at an alarm, and the ledger has none
        raise newer() from None
    if fixed is not None and kept is None:
        raise elsewhere()
    kept = kept or vault.opened(draw)
    begun = {what: outcome["noise"] for what, (outcome, _) in drawn.items() if what.startswith(noise_of(""))}
    mine = {noise_of(name): look.identity for name, look in kept.looks.items()}
    if fixed is None:
        if any(look.above is not None for look in kept.looks.values()):
            raise newer()
        terms = {"vault": kept.identity, **asked.terms.to_json()}
        fixed = reservation.record(_spend(asked, THRESHOLD), lambda: terms)
    if kept.identity != fixed["vault"]:
        raise elsewhere()
    if any(mine.get(what) != identity for what, identity in begun.items()):
        raise older()
    if any(look.above is not None and noise_of(name) not in begun for name, look in kept.looks.items()):
        raise newer()
    return kept


def _record_bit(reservation: Reservation, asked: Watching, name: str, number: int, *, above: bool | None) -> None:
    """Whatever copies of the vault there are: the ledger takes one bit after the other, and none after an alarm."""
    spend = _spend(asked, look_of(name))
    reservation.record(spend, lambda: {"look": number, "alarm": above}, check=partial(check_next, name, number))


def _spend(asked: Watching, what: str) -> Spend:
    """What the ledger writes beside a draw: the one price, which is charged once, in the reservation."""
    (spend,) = asked.price.spends
    return replace(spend, what=what)


def elsewhere() -> DpboError:
    """The message where the vault here is not the one that the watch was opened with."""
    return DpboError(
        "the secret threshold of this watch is not here",
        cause="the look runs on another machine or in another folder than the first, or the folder was removed",
        remedy="look where the watch was opened; if its vault is lost the watch is over, and a new edition in "
        "[watch] is a new spend",
    )


def older() -> DpboError:
    """The message where the ledger knows of noise that the vault has not."""
    return DpboError(
        "the secret noise of this watch is older than its last look",
        cause="an old copy of its folder was restored: noise that was used would be drawn again",
        remedy="restore the newest copy; if there is none the watch is over, and a new edition in [watch] is a "
        "new spend",
    )


def newer() -> LedgerDamaged:
    """The message where the vault knows of looks that the ledger has not."""
    return LedgerDamaged(
        "the ledger is older than the watch's secret noise: looks that were made are not in it",
        cause="an old copy of the ledger was restored",
        remedy="restore the newest sound copy; run dpbo budget verify",
    )
