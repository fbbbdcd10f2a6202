"""One look at today's table: holds or ALARM, and nothing more; all looks for one price until the first alarm.

    look_once(spec, run, vaults=…, name=…)   one look; asked again under its name, the same bit
    open_look(spec, run, …)                  the same in pieces, for a scheduler: .finish(run, vaults)

The order of what is made durable, at each of which a kill may come:

    reserve the price · z into the vault · its terms into the ledger
    ν_t into the vault · that the look began into the ledger · (the table is read) · the bit into the vault
    the bit into the ledger · (the bit is shown) · at an alarm the release · the noise is destroyed

So no noise is drawn twice for one look, a bit that is known is never found again on another day's table, and the
ledger knows whether the vault still has all that was drawn. After the alarm nothing looks into the vault again: z
and the ν_t would tell how near the score came to the threshold. Whoever asks for a look then, of whatever name,
destroys them if a kill came before that, and so with a copy that was put back.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from dpbo.features.watch.recorded_looks import (
    Look,
    RecordedLook,
    WatchOver,
    check_going_on,
    check_next,
    history_of,
    recorded_look,
    tables_read,
)
from dpbo.features.watch.terms import THRESHOLD_NOISE, Terms, look_of, noise_of
from dpbo.features.watch.todays_table import TodaysTable, todays_table
from dpbo.features.watch.watching import Watching, section_of, watching
from dpbo_core.errors import DpboError, LedgerDamaged, StudyInvalid
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.mechanisms.above_threshold import alarm
from dpbo_core.mechanisms.noise import NoiseSource, rehearse_draws
from dpbo_core.mechanisms.noise_vault import NoiseVault, Shredded, VaultContents
from dpbo_core.models.estimators import Model
from dpbo_core.privacy.named_parts import library_version
from dpbo_core.privacy.release import Spend
from dpbo_core.privacy.sensitive import Sensitive, messages, sealed
from dpbo_core.study import StudySpec, WatchSection
from dpbo_core.study.preconditions import check_accepted, opening_cap
from dpbo_core.study.query import Charged, PrivateQuery, QueryContext, charged
from dpbo_core.study.section import check_name


def look_once(
    study: StudySpec,
    *,
    ledger: PrivacyLedger,
    vaults: str | Path,
    name: str,
    folder: str | Path = ".",
    section: WatchSection | None = None,
) -> Look:
    """Check once, for the watch's one price, if the score fell on today's table; the same `name`, the same result.

    Args:
        study: as written.
        ledger: where budgets are.
        vaults: the curator's own folder, in which the watch keeps its secret noise; the same for every look.
        name: of the look, the caller's own: a date, say. Asked again, it is the same look.
        folder: the folder that the study's data paths are relative to.
        section: drop, ε and the rest, instead of the study's [watch].

    Raises:
        StudyInvalid: nothing to watch, a table that is too small, or the watch is over or open on other terms.
        BudgetRefused, AssumptionNotAccepted: nothing was charged.
        DpboError: the secret noise is not here, or is older than the ledger's last look.
        Sealed: something failed on sensitive data; nothing of it is told, and a rerun continues.
    """
    context = QueryContext(ledger, folder)
    opened = open_look(study, context, name=name, section=section, vaults=vaults)
    return opened if isinstance(opened, Look) else opened.finish(context, vaults)


def open_look(
    study: StudySpec,
    context: QueryContext,
    *,
    name: str,
    section: WatchSection | None = None,
    vaults: str | Path | None = None,
) -> "OpenLook | Look":
    """Prepare a look, uncharged, or return the recorded one; with `vaults` an ended watch's noise is destroyed."""
    check_name("the look", name)
    section = section_of(study, section)
    watch = watching(study, context, section)
    library_version()
    history = history_of(context.ledger, watch.key.fingerprint)
    look = recorded_look(context, watch, name, history)
    if vaults is not None and any(look.alarm for look in history):
        _vault(vaults, watch).shred()
    if look is not None:
        return look
    check_going_on(name, history)
    check_accepted(study.accepts, watch.price, watch.public.problem.unlisted)
    before = tables_read(context.ledger, watch.key.fingerprint)
    table = todays_table(study, context.folder, watch.public, section, watch.terms, before)
    if table.n < watch.terms.least_records:
        raise StudyInvalid(
            f"today's table has {table.n:,} records, and this watch needs {watch.terms.least_records:,}",
            cause="its noise was made for tables of at least so many: in a smaller one a record weighs more",
            remedy="look again when the table is whole; or open another watch with a smaller least_records",
        )
    watch = watch.with_threshold()
    opened = OpenLook(watch, name, table, watch.model())
    rehearse_draws(opened.query.draws)
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
        """All private checks of the watch as one query to charge, at its one price."""
        watch, mechanism = self.watch, self.watch.terms.mechanism(self.watch.measure)
        return PrivateQuery(
            watch.key,
            watch.price,
            self.table.sources(),
            opening_cap(watch.spec),
            watch.spec.privacy.max_records_per_person,
            draws=tuple((part.spend(""), part) for part in (mechanism.of_threshold, mechanism.of_comparison)),
            useless=f"this watch would be useless: {watch.useless}" if watch.useless else "",
        )

    def finish(self, context: QueryContext, vaults: str | Path) -> Look:
        """Charge the watch once, read today's table and record whether its score fell; an alarm destroys noise."""
        watch, vault = self.watch, _vault(vaults, self.watch)
        with vault.locked():
            # another look may have been recorded meanwhile
            history = history_of(context.ledger, watch.key.fingerprint)
            try:
                look = recorded_look(context, watch, self.name, history) or self._look(context, vault, history)
            except WatchOver:  # the ledger has an alarm
                vault.shred()
                raise
            if look.release is not None:
                vault.shred()
            return look

    def _look(self, context: QueryContext, vault: NoiseVault, history: tuple[RecordedLook, ...]) -> Look:
        """Charge the watch once for all checks, record those of killed runs; unless one alarmed, make this one."""
        watch, public = self.watch, messages(DpboError, LedgerDamaged, StudyInvalid, WatchOver)
        check_going_on(self.name, history)
        charge = charged(self.query, context)
        sealed(lambda: self._record_pending(charge, context, vault, len(history)), message=public)
        history = history_of(context.ledger, watch.key.fingerprint)
        if all(look.name != self.name for look in history):
            check_going_on(self.name, history)
            sealed(lambda: self._record(charge, vault, context.source, len(history) + 1), message=public)
            history = history_of(context.ledger, watch.key.fingerprint)
        look = recorded_look(context, watch, self.name, history)
        if look is None:
            raise LedgerDamaged("the look was recorded, and the ledger does not have it")
        return sealed(lambda: replace(look, replayed=False))

    def _record_pending(self, charge: Charged, context: QueryContext, vault: NoiseVault, n: int) -> None:
        """Record results that a killed run left in the vault: who kills a run at its alarm could watch on."""
        watch = self.watch
        mechanism, drawn = watch.terms.mechanism(watch.measure), context.ledger.drawn(watch.key.fingerprint)
        contents = _sound_contents(vault, charge, drawn, watch, lambda: mechanism.draw_threshold(context.source))
        pending = {
            name: look.above
            for name, look in contents.looks.items()
            if look.above is not None and look_of(name) not in drawn
        }
        for number, (name, above) in enumerate(pending.items(), n + 1):
            _record_bit(charge, watch, name, {"look": number, "alarm": above})

    def _record(self, charge: Charged, vault: NoiseVault, source: NoiseSource, number: int) -> None:
        """Draw this check's noise, compare, record yes or no as check `number`: each durable before the next."""
        name, watch = self.name, self.watch
        mechanism = watch.terms.mechanism(watch.measure)
        contents = vault.opened(lambda: mechanism.draw_threshold(source))
        contents = vault.begun(contents, name, lambda: mechanism.draw_comparison(source))
        look = contents.looks[name]
        tables = {"tables": list(self.table.pooled)} if self.table.pooled else {}
        begun = charge.record(_spend(watch, noise_of(name)), lambda: {"noise": look.identity} | tables)
        if begun["noise"] != look.identity:
            raise vault_rolled_back()
        above = self._compare(contents, charge.recorded(THRESHOLD_NOISE))
        vault.compared(contents, name, above=above)
        _record_bit(charge, watch, name, {"look": number, "alarm": above})

    def _compare(self, contents: VaultContents, terms_draw: Mapping[str, Any] | None) -> bool:
        """Whether today's score is below the noisy threshold of the recorded terms; only here is the table read."""
        watch, terms = self.watch, Terms.from_json(terms_draw or {})
        measure, reference = watch.measure, terms.reference
        scorer = sealed(self.table.opened(watch.public), message=messages(StudyInvalid))
        return alarm(
            measure.value(scorer, self.model, reference),
            fall=measure.fall(reference, self.table.n),
            threshold=terms.threshold or 0,
            of_threshold=contents.threshold,
            of_look=contents.looks[self.name].noise,
        )


def _vault(vaults: str | Path, watch: Watching) -> NoiseVault:
    return NoiseVault(Path(vaults) / watch.key.fingerprint[:16])


def _sound_contents(
    vault: NoiseVault,
    charge: Charged,
    drawn: Mapping[str, tuple[Mapping[str, Any], str]],
    watch: Watching,
    draw: Callable[[], Sensitive[int]],
) -> VaultContents:
    """Return the watch's secret noise, refused unless it agrees with the ledger; a new watch's is drawn now."""
    terms_draw = charge.recorded(THRESHOLD_NOISE)
    try:
        contents = vault.contents()
    except Shredded:  # at an alarm, and the ledger has none
        raise ledger_rolled_back() from None
    if terms_draw is not None and contents is None:
        raise vault_missing()
    contents = contents or vault.opened(draw)
    begun = {what: outcome["noise"] for what, (outcome, _) in drawn.items() if what.startswith(noise_of(""))}
    in_vault = {noise_of(name): look.identity for name, look in contents.looks.items()}
    if terms_draw is None:
        if any(look.above is not None for look in contents.looks.values()):
            raise ledger_rolled_back()
        terms = {"vault": contents.identity, **watch.terms.to_json()}
        terms_draw = charge.record(_spend(watch, THRESHOLD_NOISE), lambda: terms)
    if contents.identity != terms_draw["vault"]:
        raise vault_missing()
    if any(in_vault.get(what) != identity for what, identity in begun.items()):
        raise vault_rolled_back()
    if any(look.above is not None and noise_of(name) not in begun for name, look in contents.looks.items()):
        raise ledger_rolled_back()
    return contents


def _record_bit(charge: Charged, watch: Watching, name: str, bit: Mapping[str, Any]) -> None:
    """Record the yes or no of the check `name` (`bit`, with its number); refused out of turn or after an alarm."""
    charge.record(_spend(watch, look_of(name)), lambda: bit, check=partial(check_next, name, bit["look"]))


def _spend(watch: Watching, what: str) -> Spend:
    """The watch's one price under the name `what`, for a record of it; the reservation charges it only once."""
    (spend,) = watch.price.spends
    return replace(spend, what=what)


def vault_missing() -> DpboError:
    """Return the error to raise where this folder's secret noise is not the one that the watch was opened with."""
    return DpboError(
        "the secret threshold of this watch is not here",
        cause="the look runs on another machine or in another folder than the first, or the folder was removed",
        remedy="look where the watch was opened; if its vault is lost the watch is over, and a new edition in "
        "[watch] spends budget again",
    )


def vault_rolled_back() -> DpboError:
    """Return the error to raise where the ledger has checks of a watch that the secret folder has not."""
    return DpboError(
        "the secret noise of this watch is older than its last look",
        cause="an old copy of its folder was restored: noise that was used would be drawn again",
        remedy="restore the newest copy; if there is none the watch is over, and a new edition in [watch] is a "
        "new spend",
    )


def ledger_rolled_back() -> LedgerDamaged:
    """Return the error to raise where the secret folder has checks of a watch that the ledger has not."""
    return LedgerDamaged(
        "the ledger is older than the watch's secret noise: looks that were made are not in it",
        cause="an old copy of the ledger was restored",
        remedy="restore the newest sound copy; run dpbo budget verify",
    )
