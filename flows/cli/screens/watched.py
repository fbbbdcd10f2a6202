"""A watch: what one look says, and, before anything is spent, how often it will err."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dpbo.flows.cli.screens.account_tables import account_line
from dpbo.flows.cli.screens.terminal import Screen, named
from dpbo_core.accounting.accounts import Account

if TYPE_CHECKING:
    from dpbo.flows.watch import Watched
    from dpbo_core.evaluation.watch.watching import WatchPlan

ALL = " All looks together, up to and including the first alarm."


def print_watched(watched: "Watched", account: Account) -> None:
    """What a look says, and nothing more."""
    screen, look = Screen(), watched.look
    word = "[bold red]ALARM[/]" if look.alarm else "[bold]holds[/]"
    screen.say(f"{named(look.key.study)} · {named(look.key.edition)} · look {named(look.name)}\n")
    screen.facts(_facts(watched, word, account))


def _facts(watched: "Watched", word: str, account: Account) -> Iterator[tuple[str, str]]:
    look = watched.look
    fallen = f"the score has fallen by about {look.terms.drop:g}" if look.alarm else "no fall is seen"
    again = "; recorded before, and nothing was read now" if look.replayed else ""
    yield "score", f"{word}: {fallen}{again}"
    yield "looks", f"{look.number} up to this one; ε = {look.guarantee.epsilon:g} was spent once for all of them"
    yield "guarantee", named(look.guarantee.in_words()) + ALL
    yield "budget", account_line(account)
    if watched.tuned is not None:
        yield "tuned", f"anew, as edition {named(watched.tuned.result.release.edition)}: dpbo show prints it"
    elif look.alarm:
        yield "next", "this watch is over: tune again, or open another (a new edition in \\[watch])"
    if watched.tracked is not None:
        place = f"MLflow experiment {named(repr(watched.tracked.experiment))}, run {watched.tracked.run_id[:8]}"
        yield "timeline", f"dpbo ui   ({place})"


def watched_json(watched: "Watched") -> dict[str, Any]:
    """The object of `dpbo watch --json`."""
    look, tracked = watched.look, watched.tracked
    return {
        "alarm": look.alarm,
        "look": look.name,
        "looks": look.number,
        "replayed": look.replayed,
        "study": look.key.study,
        "edition": look.key.edition,
        "dataset": look.key.dataset,
        "spent": look.guarantee.to_json(),
        "terms": _terms(look.terms),
        "tuned": None if watched.tuned is None else watched.tuned.result.release.release_id,
        "tracking": None if tracked is None else {"experiment": tracked.experiment, "run_id": tracked.run_id},
    }


def print_plan(plan: "WatchPlan") -> None:
    """What `dpbo watch --plan` says: the price, how often it errs, and what it can find."""
    screen, power, terms = Screen(), plan.power, plan.terms
    screen.say("Nothing was charged, and no sensitive record was read.\n")
    of = "a table" if plan.spread is None else f"a table whose records' scores spread by {plan.spread:.2g}"
    screen.facts(
        [
            ("verdict", f"[bold]{power.verdict}[/]: {_sentence(plan)}"),
            ("seen", f"a fall of {terms.drop:g} within {_days(power.seen)}"),
            (
                "the same",
                f"within {len(power.seen)} days, looks at the same records: {_share(power.seen_same)}",
            ),
            ("false", f"alarms a year, at one look a day, while nothing fell: {_share(power.false_alarms)}"),
            ("least", f"fall that is found at this price: {plan.smallest:.2g}"),
            ("alarm", f"where the score seems {plan.threshold:.3g} below {terms.reference:.4g}"),
            ("table", f"at least {plan.records:,} records; {of} is off by {plan.sampling:.2g} as a sample"),
            ("noise", f"scale {plan.noise.of_look:.2g} on a look, {plan.noise.of_threshold:.2g} on its threshold"),
            ("guarantee", named(plan.price.guarantee.in_words()) + ALL),
        ]
    )
    if plan.open:
        screen.say("\nThis watch is open: these are its terms.")


def plan_json(plan: "WatchPlan") -> dict[str, Any]:
    """The object of `dpbo watch --plan --json`."""
    power = plan.power
    return {
        "verdict": power.verdict,
        "seen": list(power.seen),
        "seen_same_records": power.seen_same,
        "false_alarms_a_year": power.false_alarms,
        "smallest_drop": plan.smallest,
        "threshold": plan.threshold,
        "records": plan.records,
        "spread": plan.spread,
        "sampling": plan.sampling,
        "noise": {"look": plan.noise.of_look, "threshold": plan.noise.of_threshold},
        "terms": _terms(plan.terms),
        "guarantee": plan.price.guarantee.to_json(),
        "open": plan.open,
    }


def _terms(terms: Any) -> dict[str, Any]:
    return {name: value for name, value in terms.to_json().items() if name != "theta"}


def _sentence(plan: "WatchPlan") -> str:
    """What to expect, for the person who pays."""
    power, terms = plan.power, plan.terms
    at = f"at {plan.records:,} records"
    if power.verdict == "useless":
        return f"{at} a fall of {terms.drop:g} drowns; it would find one of {plan.smallest:.2g}"
    return (
        f"{at} a fall of {terms.drop:g} is seen within {len(power.seen)} days with {_share(power.seen[-1])}; "
        f"{_share(power.false_alarms)} false alarms a year"
    )


def _days(seen: tuple[float, ...]) -> str:
    return ", ".join(f"{n} day{'s' * (n > 1)} {_share(chance)}" for n, chance in enumerate(seen, 1))


def _share(chance: float) -> str:
    """In per cent, and never quite none or all."""
    return f"{100 * min(max(chance, 1e-4), 1 - 1e-4):.4g}%"
