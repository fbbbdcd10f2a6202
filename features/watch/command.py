"""`dpbo watch`: whether the released model went stale; looks now or on a schedule, and how often they will err."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpbo.features.watch.look_document import ALL_LOOKS_NOTE, look_document
from dpbo.features.watch.looks import open_look
from dpbo.features.watch.recorded_looks import Look
from dpbo.features.watch.watching import DAYS_PER_WEEK, WatchPlan, plan_watch, why_drowned
from dpbo.flows.cli.app import Anyway, Port, Study, TrustServer
from dpbo.flows.cli.release_screen import print_document
from dpbo.flows.cli.running import (
    account_after,
    flows_here,
    own_ledger,
    prefect_failed,
    released_study,
    serve_schedule,
)
from dpbo.flows.prefect_runtime.flow_runs import quiet_environment
from dpbo.flows.private_flow import consent
from dpbo.flows.stores import Stores
from dpbo.flows.terminal import Screen, named, print_result
from dpbo.tasks.policies import without_prefect
from dpbo_core.errors import DpboError, StudyInvalid
from dpbo_core.ledger.accounting.account import Account
from dpbo_core.ledger.accounting.admission import account_line
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.sources import filled_at
from dpbo_core.study import StudySpec, WatchSection
from dpbo_core.study.query import IfUseless, QueryContext
from dpbo_core.study.spec import read_study

if TYPE_CHECKING:
    from dpbo.features.watch.flow import Watched


def watch(
    study: Study,
    drop: Annotated[
        float | None,
        typer.Option(help="The fall of the score that should raise an alarm; by default the study's [watch]."),
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="ε of ALL looks together, up to and including the first alarm.")
    ] = None,
    every: Annotated[str | None, typer.Option(help="How often to look, such as 1d or 6h.")] = None,
    cron: Annotated[str | None, typer.Option(help='When to look, UTC: "0 6 * * *", say.')] = None,
    once: Annotated[bool, typer.Option("--once", help="Look once, now.")] = False,
    look: Annotated[
        str | None,
        typer.Option(
            help="With --once: the look's name, by default today's date. The same name gives the same answer again."
        ),
    ] = None,
    table: Annotated[
        str | None, typer.Option(metavar="FILE", help="Today's sensitive file, such as day-{date}.csv.")
    ] = None,
    pool: Annotated[
        int | None, typer.Option(help="Pool the last N files of --table, to detect smaller falls.")
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Say how often it will err, and its price; charges nothing.")
    ] = False,
    port: Port = 4200,
    trust_server: TrustServer = False,
    anyway: Anyway = False,
) -> None:
    """Monitor a model's score over time at one fixed ε, until the first alarm."""
    section = read_study(study).watch or WatchSection()
    words = {"drop": drop, "epsilon": epsilon, "table": table, "pool": pool}
    changes = {name: value for name, value in words.items() if value is not None}
    section = section.replace(**changes)
    if plan:
        expected = _planned(released_study(study), study, section)
        print_result(lambda: plan_json(expected), lambda: print_plan(expected))
    elif once:
        watched, account = run(study, section, name=look, anyway=anyway)
        print_result(lambda: watched_json(watched), lambda: print_watched(watched, account))
    else:
        if (cron is None) == (every is None):
            raise StudyInvalid(
                "a watch needs to know when it looks: --every, --cron or --once, and one of them",
                remedy="add --every 1d, or --once to look now",
            )
        released_study(study)

        def story(interval: float | None) -> None:
            from dpbo.features.watch.schedule_flow import serve_watch
            from dpbo.flows.serve import Schedule

            serve_watch(study, section, Schedule(cron, interval, port, trust_server))

        serve_schedule(story, cron=cron, every=every, example="0 6 * * *")


def _planned(study: StudySpec, path: Path, section: WatchSection) -> WatchPlan:
    return plan_watch(study, ledger=PrivacyLedger(Stores().ledger), folder=path.parent, section=section)


def run(path: Path, section: WatchSection, *, name: str | None, anyway: bool) -> "tuple[Watched, Account]":
    """Take one look (private check) as a Prefect flow, charged if a watch's first: its result and the account.

    A look without a name is today's, UTC. What could not be published is told on standard error; the bit stands.
    """
    study, now = released_study(path, anyway=anyway), datetime.now(UTC)
    look = name or filled_at("{date}", now)
    section = section.at(now)
    if consent(study, _planned(study, path, section).useless, may_ask=True) is IfUseless.SPEND:
        study = study.replace(privacy=study.privacy.replace(anyway=True))
    quiet_environment()
    folder = os.path.relpath(str(path.parent))
    try:
        with flows_here(study.name):
            from dpbo.features.watch.flow import watch_privately

            called = getattr(watch_privately, "fn", watch_privately) if without_prefect() else watch_privately
            watched = called(study, look, folder, section)
    except Exception as error:  # noqa: BLE001  what Prefect raises is of no kind of ours
        raise prefect_failed(error, _recorded(study, section, folder, look)) from None
    return watched, account_after(study, watched.warnings)


def _recorded(study: StudySpec, section: WatchSection, folder: str, name: str) -> tuple[str, str] | None:
    """Return what the ledger has recorded of the look `name`, and what to do, as two texts; None if nothing."""
    try:
        look = open_look(study, QueryContext(own_ledger(), folder), name=name, section=section)
    except DpboError:
        return None
    if not isinstance(look, Look):
        return None
    return (
        f"look {name!r} is recorded ({'ALARM' if look.alarm else 'holds'})",
        "the same command again publishes it, reads nothing and spends nothing",
    )


def print_watched(watched: "Watched", account: Account) -> None:
    """Print a look's (private check's) result, holds or ALARM, its price and where it is shown."""
    tracked, timeline = watched.tracked, ""
    if tracked is not None:
        timeline = f"dpbo ui   (MLflow experiment {tracked.experiment!r}, run {tracked.run_id[:8]})"
    print_document(look_document(watched.look, budget=account_line(account), timeline=timeline))


def watched_json(watched: "Watched") -> dict[str, Any]:
    """Return the result and price of a look (private check), as the JSON object of `dpbo watch --json`."""
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
        "tracking": None if tracked is None else {"experiment": tracked.experiment, "run_id": tracked.run_id},
    }


def print_plan(plan: WatchPlan) -> None:
    """Print what `dpbo watch --plan` says: the price, how often it errs, and what it can find."""
    screen, power, terms = Screen(), plan.power, plan.terms
    screen.say("Nothing was charged, and no sensitive record was read.\n")
    of = "a table" if plan.spread is None else f"a table whose records' scores spread by {plan.spread:.2g}"
    together = "" if terms.pool == 1 else f" in {terms.pool} tables, {terms.rows} of one person"
    screen.facts(
        [
            ("verdict", f"[bold]{power.verdict}[/]: {_sentence(plan)}"),
            ("finds", f"a fall of {terms.drop:g} within {_days(power.seen)}"),
            *_compared(plan),
            ("false alarm", f"in a year of one look a day, while nothing fell: {_share(power.false_alarms)}"),
            ("smallest", f"a fall of {plan.smallest:.2g} is the smallest that this price finds"),
            ("alarms", f"where the score seems {plan.threshold:.3g} below {terms.reference:.4g}"),
            (
                "table" if terms.pool == 1 else "tables",
                f"at least {terms.least_records:,} records{together}; "
                f"{of} is off by {plan.noise.of_sampling:.2g} as a sample",
            ),
            *_assumed(plan),
            ("noise", f"scale {plan.noise.of_look:.2g} on a look, {plan.noise.of_threshold:.2g} on its threshold"),
            ("guarantee", named(plan.price.guarantee.in_words()) + ALL_LOOKS_NOTE),
        ]
    )
    if plan.open:
        screen.say("\nThis watch is open: these are its terms.")


def _assumed(plan: WatchPlan) -> Iterator[tuple[str, str]]:
    """The row, name and text, of the share of positives that all of it assumes; none if no pairs are counted."""
    if plan.share is not None:
        p = plan.share
        rarer = min(p, 1.0 - p) / 2.0
        yield (
            "assumes",
            f"{p:.1%} positive in every table, as in the public one; at {rarer:.1%} of the rarer class only a "
            f"fall {p * (1 - p) / (rarer * (1 - rarer)):.2g} times as large is seen as often, and where the "
            "classes are more alike in number sampling raises more false alarms",
        )


def plan_json(plan: WatchPlan) -> dict[str, Any]:
    """Return a watch's price and rates of error, as the JSON object of `dpbo watch --plan --json`.

    `seen[i]` is the probability that a fall of the stated size is seen by day i + 1, `smallest_drop` the smallest
    fall that the watch is likely to see.
    """
    power = plan.power
    return {
        "verdict": power.verdict,
        "seen": list(power.seen),
        "false_alarms_a_year": power.false_alarms,
        "smallest_drop": plan.smallest,
        "compared": {
            str(pool): {
                "verdict": one.verdict,
                "days": len(one.seen),
                "seen": one.seen[-1],
                "false_alarms_a_year": one.false_alarms,
            }
            for pool, one in plan.compared.items()
        },
        "advised_pool": plan.advised,
        "threshold": plan.threshold,
        "records": plan.terms.least_records,
        "spread": plan.spread,
        **({} if plan.share is None else {"assumed_share": plan.share}),
        "sampling": plan.noise.of_sampling,
        "noise": {"look": plan.noise.of_look, "threshold": plan.noise.of_threshold},
        "terms": _terms(plan.terms),
        "guarantee": plan.price.guarantee.to_json(),
        "open": plan.open,
    }


def _terms(terms: Any) -> dict[str, Any]:
    """Return a watch's terms as JSON, without its secret threshold."""
    return {name: value for name, value in terms.to_json().items() if name != "theta"}


def _sentence(plan: WatchPlan) -> str:
    power, terms = plan.power, plan.terms
    return why_drowned(terms, plan.noise, power) or (
        f"at {terms.least_records:,} records a fall of {terms.drop:g} is seen within {len(power.seen)} days "
        f"with {_share(power.seen[-1])}; a false alarm in a year {_share(power.false_alarms)}"
    )


def _compared(plan: WatchPlan) -> Iterator[tuple[str, str]]:
    for pool, one in plan.compared.items():
        yield (
            "one table" if pool == 1 else f"pool {pool}",
            f"{one.verdict}: found within {len(one.seen)} days {_share(one.seen[-1])}, a false alarm in a year "
            f"{_share(one.false_alarms)}",
        )
    yield "advised", "one table a look" if plan.advised == 1 else f"--pool {plan.advised}"
    if plan.compared[1].verdict != "good" and plan.recurring:
        yield (
            "people",
            "who may come again counts in every table of a pool; where each is in one table alone, "
            'accepts = ["rows_in_one_table"] before the first tune takes that noise away',
        )


def _days(chances: tuple[float, ...]) -> str:
    """Return the chance of detecting the fall within 1, 2, … days, up to a week, and the last, as text."""
    rows = [(n, chance) for n, chance in enumerate(chances, 1) if n <= DAYS_PER_WEEK or n == len(chances)]
    return ", ".join(f"{n} day{'s' * (n > 1)} {_share(chance)}" for n, chance in rows)


def _share(chance: float) -> str:
    """Return a probability as text in per cent, never below 0.01% or above 99.99%."""
    return f"{100 * min(max(chance, 1e-4), 1 - 1e-4):.4g}%"
