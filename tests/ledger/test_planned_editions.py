"""For how many editions a cap is planned: counted by a schedule, said in [budget]; what the grid makes of it."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from dpbo.flows.private_flow import edition_at
from dpbo_core.errors import BudgetExceeded, StudyInvalid
from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.charge import Charge
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.mechanisms.exponential import EXPONENTIAL
from dpbo_core.mechanisms.noisy_max import NOISY_MAX
from dpbo_core.study import StudySpec
from dpbo_core.study.data_files import study_fingerprint
from dpbo_core.study.editions import editions_held, planned_for_schedule, planned_if_scheduled
from dpbo_core.study.query import QueryContext
from dpbo_core.study.resolve import plan_study, resolve
from dpbo_core.study.run import Run
from dpbo_core.study.tuning import open_study, run_study

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def study(tables, *, epsilon=0.3, method="auto", edition="1", dataset="d", **budget):
    tables["study"] |= {"name": "nightly", "method": method, "edition": edition}
    tables["privacy"] |= {"dataset": dataset, "epsilon": epsilon, "delta": 1e-6}
    tables["budget"] = {"epsilon": 5.0, "delta": 1e-5} | budget
    return StudySpec.from_dict(tables)


def choice_of(spec):
    return resolve(spec).plan.spends[0].mechanism


@pytest.mark.parametrize("method", ["auto", "private_grid"])
def test_a_schedule_chooses_by_what_its_cap_holds(tables, method):
    """At ε = 1 five editions fit, too few to choose otherwise; at 0.3 many."""
    rare, often = (edition_at(study(tables, method=method, epsilon=e), NOON) for e in (1.0, 0.3))
    assert (rare.budget.editions, often.budget.editions) == (5, 57)
    assert (choice_of(rare), choice_of(often)) == (NOISY_MAX, EXPONENTIAL)
    assert choice_of(study(tables, method=method)) == NOISY_MAX  # by hand it is the only one
    assert "exponential mechanism" in resolve(often).plan.guarantee.evidence.note


def test_the_number_is_what_the_ledger_admits(tables, tmp_path):
    spec = edition_at(study(tables, epsilon=0.6), NOON)
    plan, ledger = plan_study(spec), PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}")
    budget = PrivacyBudget.of("d", epsilon=5.0, delta=1e-5)
    ledger.set_budget(budget)
    for n in range(spec.budget.editions):
        key = replace(resolve(spec).key("t"), fingerprint=f"{n:064x}", edition=str(n))
        ledger.reserve(Charge(key, plan), noise="operating_system")
    with pytest.raises(BudgetExceeded):
        ledger.reserve(Charge(replace(key, fingerprint="f" * 64, edition="more"), plan), noise="operating_system")
    assert editions_held(budget, plan) == spec.budget.editions > 6


def test_a_dataset_of_its_own_for_every_edition_is_planned_for_one(tables):
    tables["data"] = {"training": "t.csv", "validation": "v-{month}.csv", "n_validation": 900, "target": "y"}
    monthly = study(tables, edition="{month}", dataset="visits {month}")
    nightly = study(tables, edition="{date}", dataset="visits {month}")
    assert planned_for_schedule(monthly).budget.editions == 1
    assert planned_for_schedule(nightly).budget.editions > 6
    # its time is its edition
    assert planned_for_schedule(study(tables, dataset="visits {month}")).budget.editions > 6


def test_what_is_said_is_believed_and_makes_no_other_study(tables):
    plain, few, many = study(tables), study(tables, editions=2), study(tables, editions=12)
    assert edition_at(few, NOON).budget.editions == 2
    assert (choice_of(few), choice_of(many)) == (NOISY_MAX, EXPONENTIAL)
    assert len({study_fingerprint(spec, "t") for spec in (plain, few, many)}) == 1
    assert StudySpec.from_dict(many.to_dict()) == many
    with pytest.raises(StudyInvalid, match=r"budget.editions = 0"):
        study(tables, editions=0)
    tables.pop("budget")
    tables["study"]["edition"] = "{date}"
    assert planned_if_scheduled(StudySpec.from_dict(tables)).budget is None


@pytest.mark.parametrize("method", ["auto", "private_grid"])
@pytest.mark.parametrize(("charged", "today"), [(1, 12), (12, 1)])
def test_a_study_that_was_charged_goes_on_by_the_number_of_then(tables, tmp_path, method, charged, today):
    then, now = (study(tables, method=method, editions=n) for n in (charged, today))
    ledger = PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}")
    open_study(Run.of(then, QueryContext(ledger)))
    released = run_study(now, ledger=ledger).release
    assert released.spends == resolve(then).plan.spends != resolve(now).plan.spends
    assert len(ledger.accounts("d")[0].entries) == 1


def test_only_names_with_fields_show_a_schedule(tables):
    assert planned_if_scheduled(study(tables)).budget.editions is None
    assert planned_if_scheduled(study(tables, edition="{week}")).budget.editions == 57
