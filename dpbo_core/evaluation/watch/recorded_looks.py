"""The looks that the ledger has of a watch, the first alarm among them, and what it releases then."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpbo_core.accounting.ledger import PrivacyLedger, StudyKey
from dpbo_core.errors import DpboError, StudyInvalid
from dpbo_core.evaluation.watch.terms import Terms, look_of
from dpbo_core.evaluation.watch.watch_shown import alarm_release
from dpbo_core.evaluation.watch.watching import Watching
from dpbo_core.privacy.guarantee import PrivacyGuarantee
from dpbo_core.privacy.release import Release


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


def history_of(ledger: PrivacyLedger, fingerprint: str) -> tuple[RecordedLook, ...]:
    """Every look that the ledger has under a watch's key, in order."""
    prefix = look_of("")
    looks = [
        RecordedLook(what.removeprefix(prefix), int(outcome["look"]), bool(outcome["alarm"]), when)
        for what, (outcome, when) in ledger.drawn(fingerprint).items()
        if what.startswith(prefix)
    ]
    return tuple(sorted(looks, key=lambda look: look.number))


def known_look(
    ledger: PrivacyLedger, asked: Watching, name: str, history: tuple[RecordedLook, ...], *, replayed: bool
) -> Look | None:
    """The look that was recorded under this name; None if there is none. A recorded alarm is concluded first."""
    over = next((look for look in history if look.alarm), None)
    release = None if over is None else _concluded(ledger, asked, over)
    found = next((look for look in history if look.name == name), None)
    if found is None:
        return None
    return Look(
        alarm=found.alarm,
        name=name,
        number=found.number,
        guarantee=asked.price.guarantee,
        history=history,
        replayed=replayed,
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


def check_going_on(name: str, history: tuple[RecordedLook, ...]) -> None:
    """No look has alarmed yet.

    Raises:
        WatchOver: one has.
    """
    over = next((look for look in history if look.alarm), None)
    if over is not None:
        raise is_over(over.name, name)


def is_over(alarmed: str, name: str) -> WatchOver:
    """The message where a look raised the alarm and another is asked for."""
    return WatchOver(
        f"this watch is over: look {alarmed!r} raised the alarm, and {name!r} would be one more",
        cause="its price pays for all looks up to and including the first alarm, and for none after it",
        remedy="tune again, or open another watch: a new edition in [watch], which is a new spend",
    )


def check_next(name: str, number: int, drawn: Mapping[str, Mapping[str, Any]]) -> None:
    """By the draws of the very transaction that would record it, this look's bit is the next, and none alarmed.

    Raises:
        WatchOver: a look has, by another copy of the noise perhaps.
        DpboError: other looks were recorded while this one was made.
    """
    bits = {what.removeprefix(look_of("")): bit for what, bit in drawn.items() if what.startswith(look_of(""))}
    alarmed = next((before for before, bit in bits.items() if bit["alarm"]), None)
    if alarmed is not None:
        raise is_over(alarmed, name)
    if number != len(bits) + 1:
        raise DpboError(
            f"another look was recorded while {name!r} was made",
            cause="two looks ran at once, with two copies of the watch's folder or where its lock does not hold",
            remedy="look again, with the newest copy alone",
        )
