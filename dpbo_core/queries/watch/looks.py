"""One look at today's table: holds or ALARM, and nothing more; all looks for one price until the first alarm.

    look_once(spec, run, vaults=…, name=…)   one look; asked again under its name, the same bit
    open_look(spec, run, …)                  the same in pieces, for a scheduler: .finish(run, vaults)

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
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.mechanisms.above_threshold import alarm
from dpbo_core.mechanisms.noise import NoiseSource, try_out
from dpbo_core.mechanisms.noise_vault import NoiseVault, Shredded, VaultContents
from dpbo_core.models.estimators import Model
from dpbo_core.preparation.preconditions import check_accepted, opening_cap
from dpbo_core.preparation.run import Run
from dpbo_core.privacy.plan import Spend
from dpbo_core.privacy.sealing import messages, sealed
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.queries.query import Charged, PrivateQuery, charged
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
from dpbo_core.sections.reading import check_name
from dpbo_core.study_file import StudySpec, WatchSection
from dpbo_core.versions import library_version


def look_once(
    study: StudySpec,
    *,
    ledger: PrivacyLedger,
    vaults: str | Path,
    name: str,
    folder: str | Path = ".",
    section: WatchSection | None = None,
) -> Look:
    """Look once whether the released model's score has fallen on today's table.

    Args:
        study: as written.
        ledger: where budgets are.
        vaults: the curator's own folder, in which the watch keeps its secret noise; the same for every look.
        name: of the look, the caller's own: a date, say. Asked again, it is the same look.
        folder: the folder that the study's data paths are relative to.
        section: drop, ε and the rest, in the place of the study's [watch].

    Raises:
        StudyInvalid: nothing to watch, a table that is too small, or the watch is over or open on other terms.
        BudgetRefused, AssumptionNotAccepted: nothing was charged.
        DpboError: the secret noise is not here, or is older than the ledger's last look.
        Sealed: something failed on sensitive data; nothing of it is told, and a rerun continues.
    """
    run = Run(ledger, folder)
    opened = open_look(study, run, name=name, section=section, vaults=vaults)
    return opened if isinstance(opened, Look) else opened.finish(run, vaults)


def open_look(
    study: StudySpec,
    run: Run,
    *,
    name: str,
    section: WatchSection | None = None,
    vaults: str | Path | None = None,
) -> "OpenLook | Look":
    """Everything of a look that can be refused or can fail, from public facts alone; or the bit that was recorded.

    Args, Raises: as `look_once`. Nothing is charged. Where `vaults` is given, the noise of a watch that is over is
    destroyed.
    """
    check_name("the look", name)
    section = section_of(study, section)
    watch = watching(study, run, section)
    library_version()
    history = history_of(run.ledger, watch.key.fingerprint)
    look = known_look(run, watch, name, history, replayed=True)
    if vaults is not None and any(look.alarm for look in history):
        _vault(vaults, watch).shred()
    if look is not None:
        return look
    check_going_on(name, history)
    check_accepted(study, watch.price, watch.public.problem.unlisted)
    table = todays_table(study, run.folder, watch.public, section.table)
    if table.n < watch.terms.least_records:
        raise StudyInvalid(
            f"today's table has {table.n:,} records, and this watch needs {watch.terms.least_records:,}",
            cause="its noise was made for tables of at least so many: in a smaller one a record weighs more",
            remedy="look again when the table is whole; or open another watch with a smaller least_records",
        )
    watch = watch.with_threshold()
    opened = OpenLook(watch, name, table, watch.model())
    try_out(opened.query.draws)
    return opened


@dataclass(frozen=True, eq=False, repr=False)
class OpenLook:
    """A look of which all that is public is done: the model is trained, nothing is charged, no record was read."""

    watch: Watching
    name: str
    table: TodaysTable
    model: Model

    @property
    def query(self) -> PrivateQuery:
        """The private query of all looks of the watch, at its one price."""
        watch, made = self.watch, self.watch.terms.mechanism(self.watch.measure)
        return PrivateQuery(
            watch.key,
            watch.price,
            self.table.sources(),
            opening_cap(watch.spec),
            watch.spec.privacy.max_records_per_person,
            draws=tuple((part.spend(""), part) for part in (made.of_threshold, made.of_comparison)),
        )

    def finish(self, run: Run, vaults: str | Path) -> Look:
        """Reserve, draw, read, compare, record; the bit.

        Args, Raises: as `look_once`.
        """
        with run.padded():
            watch, vault = self.watch, _vault(vaults, self.watch)
            with vault.locked():
                # another look may have been recorded meanwhile
                history = history_of(run.ledger, watch.key.fingerprint)
                try:
                    look = known_look(run, watch, self.name, history, replayed=True) or self._looked(
                        run, vault, history
                    )
                except WatchOver:  # the ledger has an alarm
                    vault.shred()
                    raise
                if look.release is not None:
                    vault.shred()
                return look

    def _looked(self, run: Run, vault: NoiseVault, history: tuple[RecordedLook, ...]) -> Look:
        watch, public = self.watch, messages(DpboError, LedgerDamaged, StudyInvalid, WatchOver)
        check_going_on(self.name, history)
        charge = charged(self.query, run)
        sealed(lambda: self._settled(charge, run, vault, len(history)), message=public)
        history = history_of(run.ledger, watch.key.fingerprint)
        if all(look.name != self.name for look in history):
            check_going_on(self.name, history)
            sealed(lambda: self._recorded(charge, vault, run.source, len(history) + 1), message=public)
            history = history_of(run.ledger, watch.key.fingerprint)
        look = known_look(run, watch, self.name, history, replayed=False)
        if look is None:
            raise LedgerDamaged("the look was recorded, and the ledger does not have it")
        return look

    def _settled(self, charge: Charged, run: Run, vault: NoiseVault, n: int) -> None:
        """The vault, open and whole; bits that were known when a look was killed are recorded first, in order.

        So nobody who kills a look at its alarm can look on.
        """
        watch = self.watch
        made, drawn = watch.terms.mechanism(watch.measure), run.ledger.drawn(watch.key.fingerprint)
        kept = _opened(vault, charge, drawn, watch, lambda: made.draw_threshold(run.source))
        pending = {
            name: look.above
            for name, look in kept.looks.items()
            if look.above is not None and look_of(name) not in drawn
        }
        for number, (name, above) in enumerate(pending.items(), n + 1):
            _record_bit(charge, watch, name, number, above=above)

    def _recorded(self, charge: Charged, vault: NoiseVault, source: NoiseSource, number: int) -> None:
        """The bit, recorded; every line is durable before the next begins."""
        name, watch = self.name, self.watch
        made = watch.terms.mechanism(watch.measure)
        kept = vault.opened(lambda: made.draw_threshold(source))
        kept = vault.begun(kept, name, lambda: made.draw_comparison(source))
        look = kept.looks[name]
        begun = charge.record(_spend(watch, noise_of(name)), lambda: {"noise": look.identity})
        if begun["noise"] != look.identity:
            raise older()
        above = self._compared(kept, charge.recorded(THRESHOLD))
        vault.compared(kept, name, above=above)
        _record_bit(charge, watch, name, number, above=above)

    def _compared(self, kept: VaultContents, fixed: Mapping[str, Any] | None) -> bool:
        """Today's table is read here, and nowhere else."""
        watch, terms = self.watch, Terms.from_json(fixed or {})
        measure, reference = watch.measure, terms.reference
        scorer = sealed(self.table.opened(watch.public), message=messages(StudyInvalid))
        return alarm(
            measure.value(scorer, self.model, reference),
            fall=measure.fall(reference, self.table.n),
            threshold=terms.threshold or 0,
            of_threshold=kept.threshold,
            of_look=kept.looks[self.name].noise,
        )


def _vault(vaults: str | Path, watch: Watching) -> NoiseVault:
    """The folder of one watch."""
    return NoiseVault(Path(vaults) / watch.key.fingerprint[:16])


def _opened(
    vault: NoiseVault,
    charge: Charged,
    drawn: Mapping[str, tuple[Mapping[str, Any], str]],
    watch: Watching,
    draw: Callable[[], Sensitive[int]],
) -> VaultContents:
    """The vault that this watch was opened with, whole; or opened now, its terms recorded.

    Raises:
        DpboError: it is not here, is older than the ledger, or newer.
    """
    fixed = charge.recorded(THRESHOLD)
    try:
        kept = vault.contents()
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
        terms = {"vault": kept.identity, **watch.terms.to_json()}
        fixed = charge.record(_spend(watch, THRESHOLD), lambda: terms)
    if kept.identity != fixed["vault"]:
        raise elsewhere()
    if any(mine.get(what) != identity for what, identity in begun.items()):
        raise older()
    if any(look.above is not None and noise_of(name) not in begun for name, look in kept.looks.items()):
        raise newer()
    return kept


def _record_bit(charge: Charged, watch: Watching, name: str, number: int, *, above: bool | None) -> None:
    """Whatever copies of the vault there are: the ledger takes one bit after the other, and none after an alarm."""
    spend = _spend(watch, look_of(name))
    charge.record(spend, lambda: {"look": number, "alarm": above}, check=partial(check_next, name, number))


def _spend(watch: Watching, what: str) -> Spend:
    """What the ledger writes beside a draw: the one price, which is charged once, in the reservation."""
    (spend,) = watch.price.spends
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
