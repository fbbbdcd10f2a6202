"""One look at today's table: holds or ALARM, and nothing more; all looks for one price until the first alarm.

    look_once(spec, ledger=…, vaults=…, name=…)   one look; asked again under its name, the same bit
    open_look(…)                                  the same in pieces, for a scheduler: .finish(ledger, vaults)
    plan_watch(spec, ledger=…)                    the price, and how it errs; no sensitive file is opened

The order of what is made durable, at each of which a kill may come:

    reserve the price · z into the vault · its terms into the ledger
    ν_t into the vault · that the look began into the ledger · (the table is read) · the bit into the vault
    the bit into the ledger · (the bit is shown) · at an alarm the release

So no noise is drawn twice for one look, a bit that is known is never found anew on another day's table, and the
ledger knows whether the vault still has all that was drawn.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dpbo_core.accounting.ledger import PrivacyLedger, Reservation, StudyKey
from dpbo_core.accounting.policy import Use
from dpbo_core.errors import DpboError, LedgerDamaged, StudyInvalid
from dpbo_core.evaluation.watch.measure import MeanMeasure
from dpbo_core.evaluation.watch.power import Noise, Power, power, smallest_drop
from dpbo_core.evaluation.watch.terms import THRESHOLD, Terms, look_of, noise_of
from dpbo_core.evaluation.watch.todays_table import TodaysTable, todays_table
from dpbo_core.evaluation.watch.watch_shown import alarm_release
from dpbo_core.evaluation.watch.watching import Watching, watching
from dpbo_core.mechanisms.above_threshold import alarm
from dpbo_core.mechanisms.noise import NoiseSource, OperatingSystemNoise, standing_of, try_out
from dpbo_core.mechanisms.noise_vault import Kept, NoiseVault
from dpbo_core.models.trainer import Model
from dpbo_core.privacy.guarantee import PrivacyGuarantee
from dpbo_core.privacy.plan import PrivacyPlan, Spend
from dpbo_core.privacy.release import Release
from dpbo_core.privacy.sealing import messages, sealed
from dpbo_core.spec import StudySpec, WatchSection
from dpbo_core.spec.reading import check_name
from dpbo_core.study.run import check_accepted, opening_cap, padded
from dpbo_core.versions import library_version


class WatchOver(StudyInvalid):
    """An earlier look raised the alarm: what was paid for is used."""


@dataclass(frozen=True)
class RecordedLook:
    """One look that the ledger has: its bit, its number from 1, and when it was recorded, UTC."""

    name: str
    number: int
    alarm: bool
    recorded_at: str


@dataclass(frozen=True)
class Look:
    """What a look gives back.

    Attributes:
        alarm: whether the score is said to have fallen.
        name: the look's.
        number: how many looks were recorded up to this one.
        guarantee: of all looks of this watch.
        history: every recorded look, in order.
        replayed: whether it had been recorded before, and nothing was read now.
        release: what the ledger keeps of an alarm; None while the watch goes on.
        key: what the ledger knows the watch by.
        terms: on which it is open.
    """

    alarm: bool
    name: str
    number: int
    guarantee: PrivacyGuarantee
    history: tuple[RecordedLook, ...]
    replayed: bool
    release: Release | None
    key: StudyKey
    terms: Terms


@dataclass(frozen=True)
class WatchPlan:
    """The price of a watch and how it errs, before anything is spent.

    Attributes:
        price: of all looks.
        terms: on which it is, or would be, opened.
        threshold: θ in units of the score.
        noise: what is added to a fall, in the same.
        spread: standard deviation of a record's score that was reckoned with; None where pairs are counted.
        power: how often it errs.
        smallest: the least fall that it would find fairly at this price.
        open: whether it is open already.
    """

    price: PrivacyPlan
    terms: Terms
    threshold: float
    noise: Noise
    spread: float | None
    power: Power
    smallest: float
    open: bool

    @property
    def records(self) -> int:
        """m, the fewest records of a table; or persons."""
        return self.terms.least_records

    @property
    def sampling(self) -> float:
        """Standard deviation of the score of a table of m."""
        return self.noise.of_sampling


def plan_watch(
    study: StudySpec, *, ledger: PrivacyLedger, folder: str | Path = ".", wanted: WatchSection | None = None
) -> WatchPlan:
    """The price of a watch and how it errs, from public facts alone. Charges nothing.

    Args, Raises: as `look_once`; a study that released nothing yet is planned with the widest scores there are.
    """
    asked = watching(study, ledger, folder, _wanted(study, wanted), planned=True).with_threshold()
    terms, measure, spread = asked.terms, asked.measure, asked.spread
    noise = terms.noise(measure, terms.least_records, spread)
    theta = (terms.threshold or 0) * measure.unit
    return WatchPlan(
        price=asked.price,
        terms=terms,
        threshold=theta,
        noise=noise,
        spread=spread if isinstance(measure, MeanMeasure) else None,
        power=power(terms.drop, noise, theta),
        smallest=smallest_drop(noise),
        open=asked.fixed,
    )


def look_once(
    study: StudySpec,
    *,
    ledger: PrivacyLedger,
    vaults: str | Path,
    name: str,
    folder: str | Path = ".",
    wanted: WatchSection | None = None,
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
        wanted: drop, ε and the rest, in the place of the study's [watch].
        source: where noise comes from; the operating system unless a test says otherwise.
        pad: seconds; what is done with the table takes a whole number of them.
        owner: whether the data's owner asks; not so for what Prefect starts.

    Raises:
        StudyInvalid: nothing to watch, a table that is too small, or the watch is over or open on other terms.
        BudgetRefused, AssumptionNotAccepted: nothing was charged.
        DpboError: the secret noise is not here, or is older than the ledger's last look.
        Sealed: something failed on sensitive data; nothing of it is told, and a rerun continues.
    """
    opened = open_look(study, ledger=ledger, name=name, folder=folder, wanted=wanted)
    if isinstance(opened, Look):
        return opened
    return opened.finish(ledger, vaults, source, pad=pad, owner=owner)


def open_look(
    study: StudySpec,
    *,
    ledger: PrivacyLedger,
    name: str,
    folder: str | Path = ".",
    wanted: WatchSection | None = None,
) -> "OpenLook | Look":
    """Everything of a look that can be refused or can fail, from public facts alone; or the bit that was recorded.

    Args, Raises: as `look_once`. Nothing is charged.
    """
    check_name("the look", name)
    section = _wanted(study, wanted)
    asked = watching(study, ledger, folder, section)
    library_version()
    history = history_of(ledger, asked.key.fingerprint)
    known = _known(ledger, asked, name, history)
    if known is not None:
        return known
    _check_going_on(name, history)
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
            vault = NoiseVault(Path(vaults) / asked.key.fingerprint[:16])
            with vault.locked():
                history = history_of(ledger, asked.key.fingerprint)  # another look may have been recorded meanwhile
                if all(look.name != self.name for look in history):
                    _check_going_on(self.name, history)
                    reservation = self._reserved(ledger, source, owner=owner)
                    sealed(
                        lambda: self._recorded(reservation, ledger, vault, source, len(history) + 1),
                        message=messages(DpboError, LedgerDamaged, StudyInvalid),
                    )
                known = _known(ledger, asked, self.name, history_of(ledger, asked.key.fingerprint))
            if known is None:
                raise LedgerDamaged("the look was recorded, and the ledger does not have it")
            replayed = any(look.name == self.name for look in history)
            return replace(known, replayed=replayed)

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

    def _recorded(
        self, reservation: Reservation, ledger: PrivacyLedger, vault: NoiseVault, source: NoiseSource, number: int
    ) -> None:
        """The bit, recorded; every line is durable before the next begins."""
        name, asked = self.name, self.asked
        made = asked.terms.mechanism(asked.measure)
        kept = _opened(
            vault, reservation, ledger.drawn(asked.key.fingerprint), asked, lambda: made.draw_threshold(source)
        )
        kept = vault.begun(kept, name, lambda: made.draw_comparison(source))
        look = kept.looks[name]
        reservation.record(_spend(asked, noise_of(name)), lambda: {"noise": look.identity})
        above = look.above
        if above is None:
            above = self._compared(kept, reservation.recorded(THRESHOLD))
            vault.compared(kept, name, above=above)
        reservation.record(_spend(asked, look_of(name)), lambda: {"look": number, "alarm": above})

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


def history_of(ledger: PrivacyLedger, fingerprint: str) -> tuple[RecordedLook, ...]:
    """Every look that the ledger has under a watch's key, in order."""
    prefix = look_of("")
    looks = [
        RecordedLook(what.removeprefix(prefix), int(outcome["look"]), bool(outcome["alarm"]), when)
        for what, (outcome, when) in ledger.drawn(fingerprint).items()
        if what.startswith(prefix)
    ]
    return tuple(sorted(looks, key=lambda look: look.number))


def _opened(vault: NoiseVault, reservation: Reservation, drawn: Any, asked: Watching, draw: Any) -> Kept:
    """The vault that this watch was opened with, whole; or opened now, its terms recorded.

    Raises:
        DpboError: it is not here, is older than the ledger, or newer.
    """
    fixed, kept = reservation.recorded(THRESHOLD), vault.kept()
    if fixed is not None and (kept is None or kept.identity != fixed["vault"]):
        raise DpboError(
            "the secret threshold of this watch is not here",
            cause="the look runs on another machine or in another folder than the first, or the folder was removed",
            remedy="look where the watch was opened; if its vault is lost the watch is over, and a new edition in "
            "[watch] is a new spend",
        )
    kept = kept or vault.opened(draw)
    begun = {what: outcome["noise"] for what, (outcome, _) in drawn.items() if what.startswith(noise_of(""))}
    mine = {noise_of(name): look.identity for name, look in kept.looks.items()}
    if any(mine.get(what) != identity for what, identity in begun.items()):
        raise DpboError(
            "the secret noise of this watch is older than its last look",
            cause="an old copy of its folder was restored: noise that was used would be drawn again",
            remedy="restore the newest copy; if there is none the watch is over, and a new edition in [watch] is a "
            "new spend",
        )
    if any(look.above is not None and noise_of(name) not in begun for name, look in kept.looks.items()):
        raise LedgerDamaged(
            "the ledger is older than the watch's secret noise: looks that were made are not in it",
            cause="an old copy of the ledger was restored",
            remedy="restore the newest sound copy; run dpbo budget verify",
        )
    if fixed is None:
        reservation.record(_spend(asked, THRESHOLD), lambda: {"vault": kept.identity, **asked.terms.to_json()})
    return kept


def _known(ledger: PrivacyLedger, asked: Watching, name: str, history: tuple[RecordedLook, ...]) -> Look | None:
    """The look that was recorded under this name, with the watch's release where it alarmed."""
    found = next((look for look in history if look.name == name), None)
    if found is None:
        return None
    release = _concluded(ledger, asked, found) if found.alarm else None
    return Look(
        alarm=found.alarm,
        name=name,
        number=found.number,
        guarantee=asked.price.guarantee,
        history=history,
        replayed=True,
        release=release,
        key=asked.key,
        terms=asked.terms,
    )


def _concluded(ledger: PrivacyLedger, asked: Watching, look: RecordedLook) -> Release:
    """The release of an alarm, recorded now if a kill came before it was."""
    recorded = ledger.release_of(asked.key.fingerprint)
    if recorded is not None:
        return recorded
    price, problem = asked.price, asked.public.problem
    least = {"n_persons": asked.terms.least_records} if problem.n_persons is not None else {}
    reservation, standing = ledger.resumed(asked.key)
    return reservation.conclude(
        alarm_release(
            price,
            asked.terms,
            standing,
            study=(asked.key.study, asked.key.edition, asked.key.dataset),
            look=(look.name, look.number),
            per_record=asked.measure.per_record,
            counted=problem.max_records_per_person,
            least=asked.terms.least_records,
            **least,
        )
    )


def _check_going_on(name: str, history: tuple[RecordedLook, ...]) -> None:
    """No look has alarmed yet.

    Raises:
        WatchOver: one has.
    """
    over = next((look for look in history if look.alarm), None)
    if over is not None:
        raise WatchOver(
            f"this watch is over: look {over.name!r} raised the alarm, and {name!r} would be one more",
            cause="its price pays for all looks up to and including the first alarm, and for none after it",
            remedy="tune again, or open another watch: a new edition in [watch], which is a new spend",
        )


def _wanted(study: StudySpec, wanted: WatchSection | None) -> WatchSection:
    return wanted or study.watch or WatchSection()


def _spend(asked: Watching, what: str) -> Spend:
    """What the ledger writes beside a draw: the one price, which is charged once, in the reservation."""
    (spend,) = asked.price.spends
    return replace(spend, what=what)
