"""`dpbo budget`: each data set's account and its entries, and how its budget burns down."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from dpbo.flows.cli.app import AsJson
from dpbo.flows.cli.running import own_ledger, seconds
from dpbo.flows.terminal import Screen, named, print_json
from dpbo_core.errors import StudyInvalid, suggestion
from dpbo_core.ledger.accounting.account import DECLARED_STANDING, MAX_COUNTED_ROOM, Account, Entry
from dpbo_core.ledger.accounting.admission import SHOWN_TOLERANCE, account_line, room_text
from dpbo_core.ledger.accounting.forecast import Forecast, end_line
from dpbo_core.ledger.accounting.forecast import forecast as forecast_of
from dpbo_core.ledger.accounts import DatasetAccount
from dpbo_core.privacy.amounts import from_units
from dpbo_core.privacy.certified import rounds_of

N_STUDIES_SHOWN = 3  # whose room is said: those that were charged last
N_ENTRIES_SHOWN = 20  # entries of a dataset that are shown; --json has all
COLUMN_NAMES = ("study", "edition", "method", "ε", "δ", "released")
USUAL_RHYTHM = "usual"
EMPTY_LEDGER_MESSAGE = "The ledger is empty. Open a cap: dpbo budget set DATASET --epsilon 5 --delta 1e-5"


class BudgetGroup(TyperGroup):
    """The group `dpbo budget`: a word that is none of its commands is a dataset to show."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words as click does, with `show` put before them where no command of the group comes first."""
        words = [arg for arg in args if not arg.startswith("-")]
        if "--help" not in args and (not words or words[0] not in self.commands):
            args = ["show", *args]
        for place, word in enumerate(args, 1):  # a bare --forecast is of the usual rhythm
            if word == "--forecast" and not re.fullmatch(r"\d+[smhd]", "".join(args[place : place + 1])):
                args = [*args[:place], USUAL_RHYTHM, *args[place:]]
                break
        return super().parse_args(ctx, args)


budget_app = typer.Typer(
    cls=BudgetGroup,
    add_completion=False,
    rich_markup_mode=None,
    help="Show each dataset's limit, what is spent, what remains, and the newest entries. With --forecast: when "
    "the budget ends (with --forecast 1d: if each study runs daily from now on). With --json: as one object.",
)


@budget_app.command("show", hidden=True)
def show_accounts(
    dataset: Annotated[str | None, typer.Argument()] = None,
    forecast: Annotated[
        str | None,
        typer.Option(help="Forecast when the budget ends; with 30d, if each study runs so often from now on."),
    ] = None,
    json: AsJson = False,
) -> None:
    """Show every dataset's account, or one; --forecast says when it ends."""
    ledger = own_ledger()
    accounts = ledger.accounts(dataset)
    if dataset is not None and not accounts:
        names = [account.budget.dataset for account in ledger.accounts()]
        raise StudyInvalid(
            f"the ledger knows no dataset {dataset!r}{suggestion(dataset, names)}",
            cause="a misspelt name, another folder's ledger, or nothing was ever spent on it",
            remedy="run dpbo budget to see them all",
        )
    if forecast is not None:
        rhythm = None if forecast == USUAL_RHYTHM else timedelta(seconds=seconds(forecast))
        now = datetime.now(UTC)
        burn_downs = tuple((account, forecast_of(account, now, rhythm)) for account in accounts)
        if not json:
            print_forecasts(burn_downs)
            return
        forecasts = [{"forecast": burn_down and burn_down.to_json()} for _, burn_down in burn_downs]
        print_json({"datasets": [account_json(one) | end for one, end in zip(accounts, forecasts, strict=True)]})
        return
    print_json({"datasets": [*map(account_json, accounts)]}) if json else print_accounts(accounts)


def _amounts(account: Account) -> dict[str, Any]:
    """Return a dataset's cap, spent and left budget as JSON, by the cheaper composition; null for none or ∞."""
    budget = account.budget
    limit, delta = from_units(budget.epsilon_units), from_units(budget.delta_units)
    epsilon, paid = account.spent_epsilon
    finite = epsilon < float("inf")
    return {
        "name": budget.dataset,
        "public": budget.public,
        "limit": {"epsilon": None if budget.public else limit, "delta": None if budget.public else delta},
        "spent": {"epsilon": epsilon if finite else None, "delta": paid if finite else None},
        "remaining": {"epsilon": None if budget.public or not finite else max(0.0, limit - epsilon)},
    }


def account_json(account: DatasetAccount) -> dict[str, Any]:
    """Return a dataset's cap, spent and left budget and entries, as its object of `dpbo budget --json`."""
    budget = account.budget
    return _amounts(account) | {
        "relation": budget.relation.value,
        "accepts": list(budget.accepts),
        "max_records_per_person": account.records[-1] if account.records else None,
        "sources": [
            {"kind": item.source.kind, "name": item.source.name, "shared": item.shared} for item in account.sources
        ],
        "published": list(account.published),
        "shares_people_with": list(account.shares),
        "scores": list(account.scores),
        "readable": list(account.readable),
        "estimators": list(account.estimators),
        "a_day": None if account.a_day is None else from_units(account.a_day),
        "largest_epsilon": None if account.largest is None else from_units(account.largest),
        "room": account.rooms,
        "entries": [
            {
                "study": entry.study,
                "edition": entry.edition,
                "method": entry.method,
                "epsilon": entry.epsilon,
                "delta": entry.delta,
                "rho": entry.rho,
                "assumptions": list(entry.assumptions),
                "reserved_at": entry.reserved_at,
                "released_at": entry.released_at,
                "release_id": entry.release_id,
                "asked_by": entry.asked_by,
                "standing": DECLARED_STANDING if entry.declared else "",
            }
            | {f"{name}s": n for name, n in rounds(entry)}
            for entry in account.entries
        ],
    }


def print_accounts(accounts: tuple[DatasetAccount, ...]) -> None:
    """Print accounts as `dpbo budget` shows them: cap, spent, left and their newest entries."""
    screen = Screen()
    if not accounts:
        screen.say(EMPTY_LEDGER_MESSAGE)
    for place, account in enumerate(accounts):
        if place:
            screen.say()
        screen.say(f"[bold]{named(account_line(account))}[/]  {_bar(account, screen)}".rstrip())
        for line in approval_lines(account):
            screen.say(f"  {line}")
        if account.entries:
            if account.editions:
                newest = list(account.editions.items())[-N_STUDIES_SHOWN:]
                studies = "; or ".join(f"{named(study)}: {room_text(count)}" for study, count in reversed(newest))
                screen.say(f"  {studies} (at the price of its newest edition and report)")
            total = account.sum_of_entries
            if account.spent_epsilon[0] <= (1.0 - SHOWN_TOLERANCE) * total:
                screen.say(f"  its entries' ε add up to {total:.3g}; the noise of many draws adds up to less")
            entries = account.entries[-N_ENTRIES_SHOWN:]
            if len(entries) < len(account.entries):
                screen.say(f"  the newest {len(entries)} of {len(account.entries):,} entries; --json lists all")
            screen.table(COLUMN_NAMES, [_cells(entry) for entry in entries], left=3, wraps=0)
            for line in _unfinished(entries):
                screen.say(f"  {line}")
            if n_declared := sum(entry.declared for entry in entries):
                screen.say(f"  {n_declared:,} of them {DECLARED_STANDING}")
            for asker, count in Counter(entry.asked_by for entry in entries if entry.asked_by).items():
                screen.say(f"  {count:,} charged by {named(asker)}")
        else:
            screen.say("  nothing has been spent yet")


def _unfinished(entries: Sequence[Entry]) -> Iterator[str]:
    """A line for each charge without a release, with its date and what to do; running watches are left out."""
    for entry in entries:
        if entry.released_at is None and not rounds_text(entry):
            which, when = f"{named(entry.study)}:{named(entry.edition)}", named(entry.reserved_at[:10])
            yield (
                f"{which} was charged on {when} and has no release yet. If it is not running, run it again: "
                "it continues at no further cost"
            )


def approval_lines(account: DatasetAccount) -> Iterator[str]:
    """Yield what the owner approved for a dataset, a line each, escaped for a screen."""
    for item in account.sources:
        yield f"scored on {named(str(item.source))}"
    for path in account.scores:
        yield f"may be scored by the function {named(path)}"
    for name in account.readable:
        yield f"Prefect's runs may read {named(name)}"
    for path in account.estimators:
        yield f"Prefect's runs may import {named(path)}"
    for name in account.published:
        yield f"the owner declared {named(name)} public; later releases assume published_records"
    if account.shares:
        yield (
            f"the same people are also in {', '.join(map(named, account.shares))}: their privacy loss is the "
            "sum of both accounts"
        )
    if account.a_day is not None:
        yield f"studies that Prefect starts may spend ε {from_units(account.a_day):g} within 24 hours"
    if account.largest is not None:
        yield f"a study that Prefect starts may spend ε {from_units(account.largest):g} at most"


def _bar(account: Account, screen: Screen) -> str:
    numbers = _amounts(account)
    spent, limit = numbers["spent"]["epsilon"], numbers["limit"]["epsilon"]
    return "" if spent is None or not limit else screen.bar(spent / limit)


def _cells(entry: Entry) -> tuple[str, ...]:
    unreleased = "taken over" if entry.taken_over else "not finished"
    if rounds_text(entry):
        unreleased = f"open, {rounds_text(entry)}"
    return (
        named(entry.study),
        named(entry.edition),
        named(entry.method),
        "∞" if entry.epsilon is None else f"{entry.epsilon:g}",
        f"{entry.delta:g}",
        named(entry.released_at[:10]) if entry.released_at else unreleased,
    )


def rounds(entry: Entry) -> tuple[tuple[str, int], ...]:
    """Return the name and number of an open query's rounds, such as a watch's looks; () for any other entry."""
    query = rounds_of(entry.method)
    return () if query is None or entry.released_at else ((query.round_name, query.n_rounds(entry.recorded)),)


def rounds_text(entry: Entry) -> str:
    """Return the number of an open query's rounds in words, such as "2 looks"; "" for any other entry."""
    return "".join(f"{n:,} {name}{'s' * (n != 1)}" for name, n in rounds(entry))


def print_forecasts(forecasts: tuple[tuple[DatasetAccount, Forecast | None], ...]) -> None:
    """Print each account in a line, its burn-down, and what is refused first."""
    screen = Screen()
    if not forecasts:
        screen.say(EMPTY_LEDGER_MESSAGE)
    for place, (account, burn_down) in enumerate(forecasts):
        if place:
            screen.say()
        screen.say(f"[bold]{named(account_line(account))}[/]")
        for line in _lines(burn_down, screen):
            screen.say(f"  {line}")


def _lines(burn_down: Forecast | None, screen: Screen) -> Iterator[str]:
    """A budget's forecast in lines: what is left and expected, how often each study runs, its end; or why none."""
    if burn_down is None or not burn_down.streams:
        yield end_line(burn_down) + ("" if burn_down is None else "; give --forecast 30d, for example")
        return
    for expected, words in ((False, "left so far"), (True, "left if the studies continue")):
        left = [max(0.0, burn_down.limit - point.spent) for point in burn_down.points if point.expected is expected]
        if left:
            yield f"{screen.spark([burn_down.limit, *left, 0.0])}  {words}"
    for stream, more in burn_down.streams:
        count = f"{more:,}" if more < MAX_COUNTED_ROOM else f"{MAX_COUNTED_ROOM:,} or more"
        yield f"{named(stream.name)} ({named(stream.newest.method)}), every {_duration(stream.every)}: {count} more"
    yield named(end_line(burn_down))


def _duration(every: timedelta) -> str:
    days = every.total_seconds() / 86400.0
    if days >= 2.0:
        return f"{days:.3g} days"
    minutes = 1440.0 * days
    if minutes >= 120.0:
        return f"{24.0 * days:.3g} hours"
    return f"{minutes:.3g} minutes" if minutes >= 2.0 else f"{60.0 * minutes:.3g} seconds"
