"""What a manager asks of every dataset and study, answered from the ledger alone: the facts of `dpbo report`.

| question | answer |
|---|---|
| Ship it? | the newest comparison's verdict; else that of the report or the release; "no" after an alarm |
| Which number? | a figure of the newest report; the private score if there is none since the newest release |
| Better than last time? | whether that number's interval lies beyond the one before, of the same kind |
| When does the budget end? | what `dpbo budget --forecast` says |
| Who asked, who set the budget? | the account that charged it; whose account set the cap, and when |
| What did it cost? | ε of the newest edition with its report, and of all |
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import chain
from typing import Any

from dpbo.tasks.reporting.document import NO_NUMBER, Document, Fact, Table, end, interval, number, score
from dpbo.tasks.reporting.logged_numbers import figures
from dpbo.tasks.reporting.release_document import (
    BETTER_TEXT,
    CONSTANT_FIGURES,
    NO_BETTER_TEXT,
    NOT_COMPARED,
    next_step,
    verdict,
)
from dpbo.tasks.reporting.report_document import is_report, title
from dpbo_core.ledger.accounting.account import Entry
from dpbo_core.ledger.accounting.admission import room_text
from dpbo_core.ledger.accounting.forecast import Forecast, account_line, alert_share, end_line, forecast
from dpbo_core.ledger.accounts import DatasetAccount
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.privacy.amounts import from_units
from dpbo_core.privacy.certified import rounds_of
from dpbo_core.privacy.release import Release, displayed_metric
from dpbo_core.report import ACCURACY, BETTER, COMPARED, WORSE

YES, FIRST, NO, UNSURE, NO_VERDICT = "yes", "yes, as a first model", "no", "cannot tell", "no verdict"
SHIP_WORDS = {BETTER_TEXT: FIRST, BETTER: YES, NO_BETTER_TEXT: NO, WORSE: NO}
COMPARE_HINT = "dpbo evaluate STUDY.toml --against MODEL compares it with the model in use, for ε of its own"
N_EDITIONS_SHOWN = 24  # of a trend; the newest
TUNE_AGAIN = "dpbo tune with a new edition, which spends budget again"
LOSSES = ("mae", "rmse")  # figures of a report of which less is better
EVALUATION, PRIVATE_SCORE = "evaluation", "private score"


@dataclass(frozen=True)
class Quotable:
    """A released number with its interval.

    Attributes:
        name: of the figure, for people.
        value: as it is shown, in its range.
        interval: its 90% interval, or None.
        covers: what the interval covers: noise alone, or noise and sampling.
        source: an evaluation or a private score.
        edition: whose.
        date: of its release, UTC.
        greater_is_better: false for a loss.
    """

    name: str
    value: float
    interval: tuple[float, float] | None
    covers: str
    source: str
    edition: str
    date: str
    greater_is_better: bool = True

    @property
    def quoted(self) -> str:
        """The value, or at least what where it is at the end of its interval, beyond which no score lies."""
        at_end = self.greater_is_better and self.interval is not None and self.value >= self.interval[1]
        return f"{end(self.interval[0])} or more" if self.interval and at_end else score(self.value)

    @property
    def dated(self) -> str:
        """Its date in brackets, where its edition is not named by it."""
        return f" ({self.date})" * (self.date != self.edition)


@dataclass(frozen=True)
class StudyOverview:
    """The answers about one study; a text is "" where the ledger holds nothing of the kind."""

    name: str
    ship: str  # YES, FIRST, NO, UNSURE or NO_VERDICT
    why: str
    quoted: Quotable | None
    trend: tuple[Quotable, ...]  # numbers of the quoted kind, oldest first
    change: str
    cost: str
    room: str
    asked_by: str
    guarantee: str
    released: str  # what was chosen, or which draws were released
    remarks: tuple[str, ...]  # watches that hold, charges without a release, what the number does not say
    alarms: tuple[str, ...]
    next_step: str


@dataclass(frozen=True)
class DatasetOverview:
    """A dataset's budget, and its studies, those charged last first."""

    account: DatasetAccount
    burn_down: Forecast | None
    studies: tuple[StudyOverview, ...]

    @property
    def alarms(self) -> tuple[str, ...]:
        """The alarms of its studies, and one of a budget that is nearly spent."""
        share = self.share
        spent = () if share is None or share < alert_share() else (f"{share:.0%} of the budget is spent",)
        return (*spent, *(f"{one.name}: {alarm}" for one in self.studies for alarm in one.alarms))

    @property
    def share(self) -> float | None:
        """The share of the cap that is spent, in [0, 1]; None for a dataset that is declared public."""
        budget = self.account.budget
        limit = from_units(budget.epsilon_units)
        if budget.public:
            return None
        return min(1.0, self.account.spent_epsilon[0] / limit) if limit else 1.0

    @property
    def approval(self) -> str:
        """Which cap allows what is spent, and since when."""
        budget, since = self.account.budget, self.account.opened_at[:10]
        by = f" by {self.account.cap_set_by}" if self.account.cap_set_by else ""
        if budget.public:
            return f"without limit: declared public{by} on {since}"
        delta = from_units(budget.delta_units)
        return f"of ε = {from_units(budget.epsilon_units):g}, δ = {delta:g}, set{by} on {since}"

    def to_json(self) -> dict[str, Any]:
        """Return what the page shows as plain JSON, with null for what is unknown or without limit."""
        account, end = self.account, self.burn_down and self.burn_down.ends
        return {
            "name": account.budget.dataset,
            "budget": account_line(account),
            "spent_share": self.share,
            "ends": end and end.date().isoformat(),
            "end": end_line(self.burn_down),
            "approved": self.approval,
            "alarms": list(self.alarms),
            "studies": [asdict(study) for study in self.studies],
        }


def overview(ledger: PrivacyLedger, now: datetime) -> tuple[DatasetOverview, ...]:
    """Return the overview of every dataset in the ledger at the time `now`; nothing is written or charged."""
    datasets = []
    for account in ledger.accounts():
        releases = {
            item.release_id: item.release
            for item in ledger.editions(None, dataset=account.budget.dataset)
            if item.release is not None
        }
        series: dict[str, list[Entry]] = {}
        for entry in account.entries:
            series.setdefault(entry.study.removesuffix(f"/{entry.method}"), []).append(entry)
        newest_first = sorted(series.items(), key=lambda item: item[1][-1].moment, reverse=True)
        rooms = account.editions
        studies = tuple(_study(name, entries, releases, rooms.get(name)) for name, entries in newest_first)
        datasets.append(DatasetOverview(account, forecast(account, now), studies))
    return tuple(datasets)


def overview_document(dataset: DatasetOverview) -> Document:
    """Return what a screen shows of a dataset: its budget, and a row for each study."""
    rows = tuple(
        (
            study.name,
            study.ship,
            NO_NUMBER if (one := study.quoted) is None else f"{one.name} {score(one.value)}",
            NO_NUMBER if one is None else interval(one.interval),
            study.change.partition(":")[0] or NO_NUMBER,
        )
        for study in dataset.studies
    )
    return Document(
        title=account_line(dataset.account),
        subtitle=end_line(dataset.burn_down),
        tables=(Table(("study", "ship it?", "number to quote", "90% interval", "since"), rows, left=5),),
        facts=tuple(Fact("ALARM", alarm) for alarm in dataset.alarms),
    )


def quotable(release: Release) -> Quotable | None:
    """Return the number of a release to quote: the figure a report's verdict rests on, else the score; or None."""
    edition, date = release.edition, release.released_at[:10]
    if cells := dict(figures(release)):
        own = (ACCURACY,) if release.facts.get("score") == ACCURACY else ()  # as the verdict has it
        preferred = (*own, *CONSTANT_FIGURES, ACCURACY, *LOSSES, *cells)
        name = next(name for name in preferred if name in cells)
        ends, covers = cells[name]["sampling_interval"], "noise and sampling"
        if ends is None:
            ends, covers = cells[name]["noise_interval"], "noise alone"
        if ends is None:  # the value is noise
            return None
        heading = "difference from the champion" if name == COMPARED else title(name)
        return Quotable(
            heading, cells[name]["value"], (ends[0], ends[1]), covers, EVALUATION, edition, date, name not in LOSSES
        )
    if is_report(release):
        return None
    metric = displayed_metric(release)
    if metric is None:
        return None
    heading, ends = metric.name.replace("_", " "), metric.interval
    return Quotable(
        heading, metric.value, ends, "noise alone", PRIVATE_SCORE, edition, date, metric.greater_is_better
    )


def change(trend: Sequence[Quotable]) -> str:
    """Whether the newest number of a trend is better than the one before: only if their intervals are apart."""
    if len(trend) < 2:
        return "first number: there is none before it" if trend else ""
    before, newest = trend[-2:]
    word = UNSURE
    if before.interval is not None and newest.interval is not None:
        if newest.interval[0] > before.interval[1]:
            word = "better" if newest.greater_is_better else "worse"
        elif newest.interval[1] < before.interval[0]:
            word = "worse" if newest.greater_is_better else "better"
    overlap = "; the intervals overlap" if word == UNSURE else ""
    moved = newest.value - before.value
    return f"{word}: {moved:+.4f} since edition {before.edition}{before.dated}{overlap}"


def _study(name: str, entries: Sequence[Entry], recorded: dict[str, Release], room: int | None) -> StudyOverview:
    released = [recorded[entry.release_id] for entry in entries if entry.release_id in recorded]
    watches = [entry for entry in entries if rounds_of(entry.method) is not None]
    searches = [one for one in released if not is_report(one) and rounds_of(one.method) is None]
    reports = [one for one in released if is_report(one)]
    since = searches[-1].released_at if searches else ""
    current = [report for report in reports if report.released_at >= since]
    newest = next(reversed(current or searches), None)
    alone = [report for report in reports if COMPARED not in report.value]  # of the model, not of a difference
    scored = alone if alone and alone[-1].released_at >= since else searches or reports
    numbers = map(quotable, scored)
    trend = [one for one in numbers if one is not None]
    quoted = trend[-1] if trend else None
    trend = [one for one in trend if quoted is not None and one.name == quoted.name][-N_EDITIONS_SHOWN:]
    alarms = tuple(
        f"{query.alert} (since {entry.released_at[:10]})"
        for entry in watches
        if entry.released_at is not None and entry.released_at >= since and (query := rounds_of(entry.method))
    )
    comparison = next((report for report in reversed(current) if COMPARED in report.value), None)
    ship, why = _ship(comparison or newest, alarms)
    latest = entries[-1]
    return StudyOverview(
        name=name,
        ship=ship,
        why=why,
        quoted=quoted,
        trend=tuple(trend),
        change=change(trend),
        cost=_cost(entries, searches[-1].edition if searches else latest.edition),
        room="" if room is None else room_text(room),
        asked_by=latest.asked_by,
        guarantee="" if newest is None else newest.guarantee.in_words(),
        released=_choice(searches[-1]) if searches else "",
        remarks=tuple(_remarks(entries, newest, quoted, has_current_report=bool(current))),
        alarms=alarms,
        next_step=_next_step(comparison or newest, ship, alarms),
    )


def _ship(newest: Release | None, alarms: Sequence[str]) -> tuple[str, str]:
    if newest is None:
        return NO_VERDICT, "nothing is released yet"
    if alarms:
        return NO, alarms[-1]
    word, numbers = verdict(newest)
    if newest.guarantee.epsilon == float("inf"):
        return NO, "this release is not private"
    if not word:
        return NO_VERDICT, "the release states no score that has a baseline"
    if COMPARED in newest.value:
        difference = newest.value[COMPARED]
        than = " whether it is better" * (word == UNSURE)
        stays = ", which stays in use" * (word == UNSURE)
        beside = f"{word}{than} than the model in use on {newest.released_at[:10]}{stays}"
        ends = "" if difference["interval"] is None else f" ({interval(difference['interval'])})"
        numbers = f": by {difference['value']:.4f}{ends} in {newest.facts['score']}"
    else:
        beside = f"{word}; {NOT_COMPARED}" if word == BETTER_TEXT else word
    return SHIP_WORDS.get(word, UNSURE), beside + numbers


def _next_step(newest: Release | None, ship: str, alarms: Sequence[str]) -> str:
    if newest is None or alarms:
        return TUNE_AGAIN if alarms else ""
    return COMPARE_HINT if ship == FIRST else next_step(newest)


def _cost(entries: Sequence[Entry], edition: str) -> str:
    paid = [entry for entry in entries if not entry.taken_over]
    own: dict[str, list[float]] = {}
    for entry in paid:
        if entry.edition == edition:
            own.setdefault(entry.method, []).append(math.inf if entry.epsilon is None else entry.epsilon)
    total = math.fsum(chain.from_iterable(own.values()))
    parts = ", ".join(f"{method} {' + '.join(f'{one:g}' for one in prices)}" for method, prices in own.items())
    each = f" ({parts})" if len(own) > 1 else ""
    charges = f"{len(paid):,} charge{'s' * (len(paid) != 1)}"
    return f"ε {'∞' if math.isinf(total) else f'{total:g}'} for edition {edition}{each}; {charges} so far"


def _choice(release: Release) -> str:
    chosen = ", ".join(
        f"{name} = {number(item)}" for name, item in release.value.get("hyperparameters", {}).items()
    )
    return f"{chosen or 'no hyperparameters'}, edition {release.edition}, by {release.method}"


def _remarks(
    entries: Sequence[Entry], newest: Release | None, quoted: Quotable | None, *, has_current_report: bool
) -> Any:
    if newest is not None and not has_current_report:
        yield "no evaluation since the newest edition: dpbo evaluate measures the released model"
    if newest is not None and quoted is not None and "optimism" in newest.facts:
        yield str(newest.facts["optimism"])
    for entry in entries:
        if entry.released_at is not None or entry.taken_over:
            continue
        query, day = rounds_of(entry.method), entry.reserved_at[:10]
        if query is not None:
            n = query.n_rounds(entry.recorded)
            yield f"watched since {day}: no alarm in {n:,} check{'s' * (n != 1)}"
        elif entry.declared:
            yield f"ε {entry.epsilon:g} was spent by another tool on {day}" if entry.epsilon else f"spent on {day}"
        else:
            yield f"edition {entry.edition} was charged on {day} and has no release yet"
