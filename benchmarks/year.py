"""A year on one budget: a daily watch, a re-tune where it is needed, a quarterly report; beside 22 blind editions.

    python -m benchmarks.year [--json]

365 simulated days, real files, the product's own functions and a real ledger with one cap of (5, 1e-5). 3,000
people stay all year; each day's table is new measurements of them, a device's reading and a score of their
history. How well each of the two tells the truth drifts by a random walk of 0.004 a day; on day 120 the device
breaks (a reliability of −0.5), and on day 250 it is mended while the history is coded anew (0.3). The model is
a logistic regression of 2,000 public records from before the year, its hyperparameter the strength of a
penalty, which falls on the device's small numbers first. Each month's edition, (1, 1e-6) and T = 10 steps of
`private_trajectory`, is asked for at most once, at the first alarm since the last tune; a watch of ε = 0.25 for
a fall of 0.03 is opened for each model; a report of ε = 0.25 is made each quarter. The blind editions are
evenly spread and begin afresh, until the cap refuses the 23rd. Loss is the accuracy of the best candidate less
that of the one in use, on 4,000 records without noise, mean over all days. Years have seeds 0, 1 and 2; a day's
table is drawn from (seed, day).

Beside them a hospital whose patients change: each month's file has a cap of its own, and its edition begins with
what earlier months released.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from benchmarks.rows import Row, main
from dpbo.features.watch.looks import look_once
from dpbo.flows.private_flow import edition_at
from dpbo_core.errors import BudgetRefused
from dpbo_core.ledger import audit
from dpbo_core.ledger.accounting.account import Account
from dpbo_core.ledger.accounting.forecast import Forecast, forecast
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.report.evaluation import evaluate_study
from dpbo_core.study import StudySpec, WatchSection
from dpbo_core.study.preconditions import approve_study
from dpbo_core.study.query import QueryContext
from dpbo_core.study.run import Run
from dpbo_core.study.tuning import open_study, run_study

DAYS, PEOPLE, PUBLIC, TRUTH, SEEDS = 365, 3_000, 2_000, 4_000, 3
BROKEN, MENDED, WALK = 120, 250, 0.004
BEGIN = datetime(2026, 1, 1, 6, tzinfo=UTC)
DROP, WATCHED, REPORTED, BLIND = 0.03, 0.25, 0.25, 22
C = {"low": 1e-4, "high": 10.0, "log": True, "points": 33}
CAP = {"epsilon": 5.0, "delta": 1e-5}
CLOCKS = ("ledger", "reservation", "accounts")  # of dpbo_core.ledger: where the date of an entry is taken


Reliability = tuple[float, float]  # of the device and of the history, each from −1 to 1


def records(rng: np.random.Generator, n: int, reliable: Reliability = (1.0, 1.0)) -> pd.DataFrame:
    """What is known of n people, and whether they fall ill."""
    state, past, error, other = rng.normal(size=(4, n))
    ill = rng.random(n) < 1.0 / (1.0 + np.exp(-2.0 * (state + past)))
    device, history = reliable
    return pd.DataFrame(
        {
            "device": 0.3 * (device * state + (1.0 - device**2) ** 0.5 * error),
            "history": 3.0 * (history * past + (1.0 - history**2) ** 0.5 * other),
            "ill": ill.astype(int),
        }
    )


def reliabilities(seed: int) -> list[Reliability]:
    """Of each day."""
    walks = np.cumsum(WALK * np.random.default_rng((3, seed)).normal(size=(DAYS, 2)), axis=0)
    days = np.arange(DAYS)
    device = np.where((days >= BROKEN) & (days < MENDED), -0.5, 0.9) + walks[:, 0]
    history = np.where(days >= MENDED, 0.3, 0.9) + walks[:, 1]
    return [(float(a), float(b)) for a, b in np.clip(np.stack([device, history], axis=1), -0.99, 0.99)]


def study(edition: str, method: str = "private_trajectory", *, stays: bool = True, **sections: object) -> StudySpec:
    """The study of the panel that stays, or of patients who change."""
    where = {"dataset": "panel"} if stays else {"dataset": "patients {month}"}
    file = "panel.parquet" if stays else "patients-{month}.parquet"
    return StudySpec.from_dict(
        {
            "study": {"name": "penalty" if stays else "admissions", "edition": edition, "method": method},
            "privacy": {"epsilon": 1.0, "delta": 1e-6, **where},
            "budget": CAP,
            "data": {"training": "public.parquet", "validation": file, "n_validation": PEOPLE, "target": "ill"},
            "model": {"estimator": "sklearn.linear_model.LogisticRegression", "standardize": False},
            "space": {"C": C},
            "search": {"steps": 10},
            **sections,
        }
    )


@dataclass
class Year:
    """What happened, day by day.

    Attributes:
        in_use: the C of the model in use, (DAYS,).
        tuned, alarms, reported, refused: the days of each.
        account: the panel's at the end.
        foreseen: the forecast in the middle of the year.
    """

    in_use: list[float] = field(default_factory=list)
    tuned: list[int] = field(default_factory=list)
    alarms: list[int] = field(default_factory=list)
    reported: list[int] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)
    account: Account | None = None
    foreseen: Forecast | None = None


@dataclass(frozen=True)
class Clock:
    """The date of what is written into the ledger."""

    day: int

    def __call__(self) -> str:
        return (BEGIN + timedelta(days=self.day)).isoformat(timespec="seconds")


def watched(seed: int, folder: Path) -> Year:
    """The year with a watch: a tune at the start, and in each month in which an alarm was raised."""
    year, ledger = Year(), world(seed, folder)
    scheduled = QueryContext(ledger, folder, scheduled=True)
    edition, used, asked = "", 0.0, True
    for day, reliable in enumerate(reliabilities(seed)):
        records(np.random.default_rng((seed, day)), PEOPLE, reliable).to_parquet(folder / "panel.parquet")
        month = f"{BEGIN + timedelta(days=day):%Y-%m}"
        with at(day):
            if asked and month != edition:
                found = tried(lambda: open_study(Run.of(study(month), scheduled)).run())  # noqa: B023
                if found is None:
                    year.refused.append(day)
                else:
                    edition, used, asked = month, found.release.value["hyperparameters"]["C"], False
                    year.tuned.append(day)
            if not asked and falls(ledger, folder, edition, day):
                asked = True
                year.alarms.append(day)
            if day % 91 == 90:
                section = {"evaluation": {"epsilon": REPORTED, "edition": f"{day // 91 + 1}"}}
                tried(lambda: evaluate_study(study(edition, **section), ledger=ledger, folder=folder))  # noqa: B023
                year.reported.append(day)
        year.in_use.append(used)
        (year.account,) = ledger.accounts("panel")
        assert year.account.budget.admits(year.account.spent, year.account.unit, year.account.filtered)
        if day == DAYS // 2:
            year.foreseen = forecast(year.account, BEGIN + timedelta(days=day))
    audit.verify(f"sqlite:///{folder / 'ledger.db'}")
    return year


def blind(seed: int, folder: Path) -> Year:
    """The year with nothing but editions, evenly spread and one more than the cap holds."""
    year, ledger, used = Year(), world(seed, folder), 0.0
    due = {round(place * DAYS / BLIND) for place in range(BLIND)} | {DAYS - 1}
    for day, reliable in enumerate(reliabilities(seed)):
        if day in due:
            records(np.random.default_rng((seed, day)), PEOPLE, reliable).to_parquet(folder / "panel.parquet")
            with at(day):
                found = tried(lambda: run_study(study(str(day)), ledger=ledger, folder=folder))  # noqa: B023
            if found is None:
                year.refused.append(day)
            else:
                used = found.release.value["hyperparameters"]["C"]
                year.tuned.append(day)
        year.in_use.append(used)
    (year.account,) = ledger.accounts("panel")
    return year


def changing(seed: int, folder: Path) -> tuple[list[list[str]], list[float]]:
    """Months of other people: which editions each month's search began with, and the ε that its cap spent."""
    ledger, drift = world(seed, folder), reliabilities(seed)
    served = study("{month}", stays=False)
    approve_study(served, ledger=ledger, folder=folder)
    begun, spent = [], []
    for day in range(0, DAYS, 31):
        now = BEGIN + timedelta(days=day)
        rng = np.random.default_rng((seed, day, 1))
        records(rng, PEOPLE, drift[day]).to_parquet(folder / f"patients-{now:%Y-%m}.parquet")
        release = (
            open_study(Run.of(edition_at(served, now), QueryContext(ledger, folder, scheduled=True))).run().release
        )
        begun.append([item["edition"] for item in release.facts["learned_from"]])
        (account,) = ledger.accounts(release.dataset)
        spent.append(account.spent_epsilon[0])
    return begun, spent


def falls(ledger: PrivacyLedger, folder: Path, edition: str, day: int) -> bool:
    """One look at today's table, by the watch of the edition's model."""
    wanted = WatchSection(drop=DROP, epsilon=WATCHED, edition=edition)
    name = f"{BEGIN + timedelta(days=day):%Y-%m-%d}"
    spec, vaults = study(edition), folder / "vaults"
    look = tried(lambda: look_once(spec, ledger=ledger, folder=folder, vaults=vaults, name=name, section=wanted))
    return look is not None and look.alarm


def tried(work: Callable):  # type: ignore[no-untyped-def, type-arg]
    """What came of it; None where the budget refused."""
    try:
        return work()
    except BudgetRefused:
        return None


def world(seed: int, folder: Path) -> PrivacyLedger:
    """The public records, and a new ledger."""
    records(np.random.default_rng((4, seed)), PUBLIC).to_parquet(folder / "public.parquet")
    return PrivacyLedger(f"sqlite:///{folder / 'ledger.db'}")


def at(day: int) -> ExitStack:
    """The ledger's entries bear this day's date inside."""
    stack = ExitStack()
    for name in CLOCKS:
        stack.enter_context(mock.patch(f"dpbo_core.ledger.{name}.utc_now", Clock(day)))
    return stack


def losses(seed: int, *years: list[float]) -> list[float]:
    """Accuracy of the best candidate less that of the one in use, mean over each year's days."""
    public = records(np.random.default_rng((4, seed)), PUBLIC)
    X, ill = public[["device", "history"]].to_numpy(), public.ill
    strengths = np.geomspace(C["low"], C["high"], C["points"])
    models = [LogisticRegression(C=strength).fit(X, ill) for strength in strengths]
    lost = np.zeros((DAYS, len(years)))
    for day, reliable in enumerate(reliabilities(seed)):
        truth = records(np.random.default_rng((5, seed)), TRUTH, reliable)
        seen = truth[["device", "history"]].to_numpy()
        right = np.array([model.score(seen, truth.ill) for model in models])
        used = [int(np.argmin(np.abs(np.log(strengths / year[day])))) for year in years]
        lost[day] = right.max() - right[used]
    return [float(loss) for loss in lost.mean(axis=0)]


def rows(seeds: int = SEEDS) -> Iterator[Row]:
    years, blinds, lost, blindly = [], [], [], []
    for seed in range(seeds):
        with TemporaryDirectory() as one, TemporaryDirectory() as two:
            years.append(watched(seed, Path(one)))
            blinds.append(blind(seed, Path(two)))
        for told, loss in zip((lost, blindly), losses(seed, years[-1].in_use, blinds[-1].in_use), strict=True):
            told.append(loss)
    left = [5.0 - year.account.spent_epsilon[0] for year in years]  # type: ignore[union-attr]
    each = f"{seeds} years"
    yield Row("ε left of 5 at the end of the year", min(left), unit="", at_least=0.0, low=min(left), high=max(left))
    over = sum(
        not year.account.budget.admits(year.account.spent, year.account.unit, year.account.filtered)  # type: ignore[union-attr]
        for year in (*years, *blinds)
    )
    yield Row("accounts over their cap", over, unit="", at_most=0.0, note=each)
    for what, told in (("tunes", "tuned"), ("alarms", "alarms"), ("reports", "reported"), ("refusals", "refused")):
        counts = [len(getattr(year, told)) for year in years]
        yield Row(f"{what} in a year", float(np.mean(counts)), unit="", low=min(counts), high=max(counts))
    late = [
        min((a for a in year.alarms if a >= day), default=DAYS) - day for year in years for day in (BROKEN, MENDED)
    ]
    yield Row("days from a break to its alarm", float(np.mean(late)), unit="", low=min(late), high=max(late))
    yield Row("mean daily loss of accuracy, watched", float(np.mean(lost)), unit="", low=min(lost), high=max(lost))
    counts = [len(year.tuned) for year in blinds]
    yield Row(
        "blind editions that the cap held", float(np.mean(counts)), unit="", low=min(counts), high=max(counts)
    )
    note = "and nothing is left for a report"
    yield Row(
        "mean daily loss, blind", float(np.mean(blindly)), unit="", low=min(blindly), high=max(blindly), note=note
    )
    ratios = np.array(lost) / np.array(blindly)
    yield Row(
        "loss watched by loss blind", float(np.mean(lost) / np.mean(blindly)), low=ratios.min(), high=ratios.max()
    )


if __name__ == "__main__":
    asked = [int(word) for word in sys.argv[1:] if word.isdigit()]
    main(lambda: rows(*asked))
