"""When a budget ends, if its studies go on: by hand, by the ledger's rule, on the screen and in MLflow."""

import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from typer.testing import CliRunner

from dpbo.flows.cli.app import app
from dpbo.tasks.reporting.pictures import draw_budget
from dpbo_core.errors import BudgetExceeded
from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.accounting.forecast import FORECAST_HORIZON, forecast
from dpbo_core.ledger.charge import Charge, QueryKey
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.methods.private_grid import PrivateGrid
from dpbo_core.methods.private_trajectory import PrivateTrajectory
from dpbo_core.study import StudySpec
from dpbo_core.study.resolve import problem_of

DAY = timedelta(days=1)
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def problem(delta):
    spec = StudySpec.from_dict(
        {
            "study": {"name": "s", "method": "private_grid"},
            "privacy": {"dataset": "clinic", "epsilon": 1.0, "delta": delta},
            "data": {"training": "t.csv", "validation": "v.csv", "target": "y", "n_validation": 1000},
            "model": {"estimator": "logistic", "score": "accuracy"},
            "space": {"lambda": {"low": 1e-4, "high": 10.0, "log": True, "points": 4}},
            "search": {"steps": 3},
        }
    )
    return problem_of(spec, n_validation=1000)


def reserve(ledger, study, edition, method):
    world = problem(1e-6)
    key = QueryKey(f"{study}{edition}".rjust(64, "0"), "clinic", study, str(edition), method.kind)
    ledger.reserve(Charge(key, method.plan(world)), noise="operating_system")


@pytest.fixture
def ledger(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mlruns").mkdir()
    found = PrivacyLedger(f"sqlite:///{tmp_path / 'mlruns' / 'ledger.db'}")
    found.set_budget(PrivacyBudget.of("clinic", epsilon=5.0, delta=1e-5))
    return found


def dated(account, days):
    """The account with its entries on these days."""
    pairs = zip(account.entries, days, strict=True)
    entries = tuple(replace(e, reserved_at=(BEGIN + d * DAY).isoformat(timespec="seconds")) for e, d in pairs)
    return replace(account, entries=entries)


def test_it_ends_where_the_ledger_refuses(ledger):
    """The date and the count of a forecast, against the ledger asked until it says no."""
    for edition in range(2):
        reserve(ledger, "nightly", edition, PrivateTrajectory())
    (account,) = ledger.accounts("clinic")
    told = forecast(dated(account, [0, 30]), BEGIN + 40 * DAY)
    ((stream, more),) = told.streams
    assert stream.every == 30 * DAY
    assert told.refused == stream
    assert told.ends == BEGIN + (60 + 30 * more) * DAY
    assert more == account.rooms["private_trajectory"] == 20
    for edition in range(2, 2 + more):
        reserve(ledger, "nightly", edition, PrivateTrajectory())
    with pytest.raises(BudgetExceeded):
        reserve(ledger, "nightly", 99, PrivateTrajectory())
    (full,) = ledger.accounts("clinic")
    assert told.points[-1].spent == pytest.approx(full.spent_epsilon[0])
    assert [point.spent for point in told.points] == sorted(point.spent for point in told.points)
    assert sum(not point.expected for point in told.points) == 2


def test_two_studies_go_on_in_turn(ledger):
    """A monthly tune and a quarterly report share a cap: what they spend is admitted in the order of its dates."""
    for edition in range(4):
        reserve(ledger, "tune", edition, PrivateTrajectory())
    for edition in range(2):
        reserve(ledger, "report", edition, PrivateGrid())
    (account,) = ledger.accounts("clinic")
    account = dated(account, [0, 30, 60, 90, 1, 91])
    told = forecast(account, BEGIN + 95 * DAY)
    more = {stream.name: count for stream, count in told.streams}
    total, filtered, due = account.spent, account.filtered, {"tune": 120, "report": 181}
    entries = {"tune": account.entries[3], "report": account.entries[5]}
    expected = Counter()
    while True:
        name = min(due, key=due.get)
        entry = entries[name]
        total, filtered = total + entry.cost, filtered.after(entry.draws, entry.cost)
        if not account.budget.admits(total, account.unit, filtered):
            break
        expected[name] += 1
        due[name] += {"tune": 30, "report": 90}[name]
    assert Counter(more) == expected
    assert (told.refused.name, told.ends) == (name, BEGIN + due[name] * DAY)


def test_an_edition_and_its_report_are_one_price_of_a_forecast(ledger):
    """As many more as `dpbo budget` says: a choice is charged together with its report, or not at all."""
    reserve(ledger, "monthly", 1, PrivateGrid())
    reserve(ledger, "monthly/evaluation", 1, PrivateGrid())
    (account,) = ledger.accounts("clinic")
    told = forecast(account, BEGIN, every=30 * DAY)
    assert [(stream.name, more) for stream, more in told.streams] == [("monthly", account.editions["monthly"])]
    reserve(ledger, "other/evaluation", 1, PrivateTrajectory())  # a report by itself
    (account,) = ledger.accounts("clinic")
    named = [stream.name for stream, _ in forecast(account, BEGIN, every=30 * DAY).streams]
    assert named == ["monthly", "other/evaluation"]


def test_what_has_no_rhythm_and_what_has_no_end(ledger):
    (account,) = ledger.accounts("clinic")
    assert forecast(account, BEGIN) is None
    reserve(ledger, "nightly", 0, PrivateTrajectory())
    (account,) = ledger.accounts("clinic")
    account = dated(account, [0])
    assert forecast(account, BEGIN).streams == ()
    told = forecast(account, BEGIN, every=7 * DAY)
    assert told.streams[0][1] == 21
    seldom = forecast(account, BEGIN, every=FORECAST_HORIZON / 3)
    assert (seldom.ends, seldom.streams[0][1]) == (None, 3)
    late = forecast(account, BEGIN + 100 * DAY, every=7 * DAY)  # what was missed does not run in a burst
    assert late.ends == BEGIN + (100 + 7 * 21) * DAY
    assert forecast(replace(account, budget=PrivacyBudget.without_limit("clinic")), BEGIN) is None


def test_the_command_says_when_and_json_has_the_curve(ledger):
    for edition in range(3):
        reserve(ledger, "nightly", edition, PrivateTrajectory())
    shown = CliRunner().invoke(app, ["budget", "clinic", "--forecast", "30d"])
    assert shown.exit_code == 0
    assert "nightly (private_trajectory), every 30 days: 19 more" in shown.stdout
    assert "when nightly is refused" in shown.stdout
    told = json.loads(CliRunner().invoke(app, ["budget", "--forecast", "30d", "--json"]).stdout)
    (dataset,) = told["datasets"]
    found = dataset["forecast"]
    assert found["studies"] == [
        {"study": "nightly", "method": "private_trajectory", "every_days": 30.0, "more": 19}
    ]
    assert found["first_refused"] == "nightly"
    left = [point["remaining"] for point in found["burn_down"]]
    assert left == sorted(left, reverse=True)
    assert left[-1] < left[-2]
    (account,) = ledger.accounts("clinic")
    days = (datetime.fromisoformat(found["ends"]) - datetime.now(UTC)) / DAY
    assert days == pytest.approx(30 * 20, abs=1)
    assert dataset["entries"][0]["study"] == "nightly"
    assert account.budget.dataset == dataset["name"]


def test_the_chart_of_a_budget_has_the_cap_and_marks_the_first_refusal(ledger):
    """A forecast from the runs of one day would say nothing: such a chart has none, and counts studies."""
    for edition in range(2):
        reserve(ledger, "nightly", edition, PrivateTrajectory())
    (account,) = ledger.accounts("clinic")
    (axes,) = draw_budget(dated(account, [0, 30])).axes
    spent, _, cap, _, expected = axes.lines
    told = forecast(dated(account, [0, 30]), BEGIN + 30 * DAY)
    assert list(spent.get_ydata()) == pytest.approx([0.0, *(point.spent for point in told.points[:2])])
    assert set(cap.get_ydata()) == {5.0}
    assert len(expected.get_ydata()) == 1 + 20
    assert max(expected.get_ydata()) == pytest.approx(told.points[-1].spent)
    assert f"{told.ends:%Y-%m-%d}" in expected.get_label()
    (axes,) = draw_budget(dated(account, [0, 0])).axes
    assert [list(line.get_ydata()) for line in axes.lines[:1]] == [list(spent.get_ydata())]
    assert (len(axes.lines), list(axes.lines[0].get_xdata())) == (4, [0, 1, 2])
    assert len(draw_budget(replace(account, entries=account.entries[:1])).axes[0].lines) == 4
