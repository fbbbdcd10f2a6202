"""The looks that the ledger has of a watch, what it releases at the first alarm, the edition that is watched."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpbo.features.watch.terms import Terms, look_of
from dpbo.features.watch.watching import Watching
from dpbo_core.errors import DpboError, StudyInvalid
from dpbo_core.ledger.charge import QueryKey
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.privacy.guarantee import PrivacyGuarantee
from dpbo_core.privacy.release import Release
from dpbo_core.study.query import PrivateQuery, QueryContext, replay, resumed


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
    """What a look gives back."""

    alarm: bool  # whether the score is said to have fallen
    name: str
    number: int  # how many looks were recorded up to this one
    guarantee: PrivacyGuarantee  # of all looks of this watch
    history: tuple[RecordedLook, ...]  # every recorded look, in order
    replayed: bool  # whether it had been recorded before, and nothing was read now
    release: Release | None  # what the ledger keeps of an alarm; None while the watch goes on
    key: QueryKey  # what the ledger knows the watch by
    terms: Terms  # on which it is open


def history_of(ledger: PrivacyLedger, fingerprint: str) -> tuple[RecordedLook, ...]:
    """Return every private check that the ledger has recorded of the watch with this fingerprint, in order."""
    prefix = look_of("")
    looks = [
        RecordedLook(what.removeprefix(prefix), int(outcome["look"]), bool(outcome["alarm"]), when)
        for what, (outcome, when) in ledger.drawn(fingerprint).items()
        if what.startswith(prefix)
    ]
    return tuple(sorted(looks, key=lambda look: look.number))


def tables_read(ledger: PrivacyLedger, fingerprint: str) -> frozenset[str]:
    """Return the files that the looks of the watch with this fingerprint pooled, as their studies named them."""
    outcomes = (outcome for outcome, _ in ledger.drawn(fingerprint).values())
    return frozenset(str(name) for outcome in outcomes for name in outcome.get("tables", ()))


def recorded_look(
    context: QueryContext, watch: Watching, name: str, history: tuple[RecordedLook, ...]
) -> Look | None:
    """The recorded result of check `name`, None if none; records an alarm's release if a killed run did not."""
    over = next((look for look in history if look.alarm), None)
    release = None if over is None else _concluded(context, watch, over)
    recorded = next((look for look in history if look.name == name), None)
    if recorded is None:
        return None
    return Look(
        alarm=recorded.alarm,
        name=name,
        number=recorded.number,
        guarantee=watch.price.guarantee,
        history=history,
        replayed=True,
        release=release,
        key=watch.key,
        terms=watch.terms,
    )


def _concluded(context: QueryContext, watch: Watching, look: RecordedLook) -> Release:
    """Return the release that ends a watch: that it alarmed, and when; recorded now if a killed run did not."""
    release = replay(watch.key, context)
    if release is not None:
        return release
    terms, problem = watch.terms, watch.public.problem
    persons = {"n_persons": terms.least_records} if problem.n_persons is not None else {}
    facts = {**terms.to_json(), "per_record": watch.measure.per_record, **persons}
    charge, value = resumed(watch.key, context), {"alarm": True, "look": look.name, "looks": look.number}
    return charge.conclude(PrivateQuery(watch.key, watch.price).release(value, charge.standing, facts))


def check_going_on(name: str, history: tuple[RecordedLook, ...]) -> None:
    """Refuse the private check `name` if one in `history` raised the alarm."""
    over = next((look for look in history if look.alarm), None)
    if over is not None:
        raise refusal_after_alarm(over.name, name)


def refusal_after_alarm(alarmed: str, name: str) -> WatchOver:
    """Return the error to raise for a check `name` of a watch after the check `alarmed` raised the alarm."""
    return WatchOver(
        f"this watch is over: look {alarmed!r} raised the alarm, and {name!r} would be one more",
        cause="its price pays for all looks up to and including the first alarm, and for none after it",
        remedy="tune again, or open another watch: a new edition in [watch], which spends budget again",
    )


def check_next(name: str, number: int, drawn: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse to record look `name` if it is not the next, as `number` says, or an alarm is among those `drawn`."""
    bits = {what.removeprefix(look_of("")): bit for what, bit in drawn.items() if what.startswith(look_of(""))}
    alarmed = next((before for before, bit in bits.items() if bit["alarm"]), None)
    if alarmed is not None:
        raise refusal_after_alarm(alarmed, name)
    if number != len(bits) + 1:
        raise DpboError(
            f"another look was recorded while {name!r} was made",
            cause="two looks ran at once, with two copies of the watch's folder or where its lock does not hold",
            remedy="look again, with the newest copy alone",
        )
