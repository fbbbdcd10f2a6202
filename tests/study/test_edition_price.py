"""One price: what plan says is what tune charges, budget shows and a refusal counts."""

import json

import pytest

from dpbo_core import PrivacyBudget, PrivacyLedger, StudySpec
from dpbo_core.errors import BudgetExceeded
from dpbo_core.ledger.accounting.account import Account
from dpbo_core.ledger.accounting.admission import Price
from dpbo_core.report.evaluation import run_and_evaluate
from dpbo_core.report.request import own_evaluation
from dpbo_core.report.study_price import price_of
from dpbo_core.study.query import IfUseless, QueryContext
from dpbo_core.study.resolve import plan_study, resolve
from dpbo_core.study.run import Run
from dpbo_core.study.tuning import ready_study, run_study


def study(method="private_grid", edition="1", evaluation=1.0, limit=5.0):
    return StudySpec.from_dict(
        {
            "study": {"name": "ward", "method": method, "edition": edition},
            "privacy": {"dataset": "people", "epsilon": 1.0, "delta": 1e-6 if method != "private_grid" else 0.0},
            "budget": {"epsilon": limit, "delta": 1e-5},
            "data": {"source": "breast_cancer"},
            "model": {"estimator": "logistic", "score": "accuracy"},
            "space": {"lambda": {"low": 1e-3, "high": 1.0, "log": True, "points": 4}},
        }
        | ({} if evaluation is None else {"evaluation": {"epsilon": evaluation}})
    )


def ledger_in(folder):
    return PrivacyLedger(f"sqlite:///{folder}/ledger.db")


def test_a_choice_and_its_report_are_one_price_of_which_as_many_fit_as_are_admitted(tmp_path):
    ledger, admitted = ledger_in(tmp_path), 0
    for edition in range(1, 5):
        spec = study(edition=str(edition))
        price = price_of(resolve(spec), ledger)
        assert (price.epsilon, price.sums) == (2.0, "ε = 2: 1 (choice) + 1 (report)")
        if price.refusal is not None:
            break
        assert price.more == 2 - edition
        run_and_evaluate(spec, ledger=ledger)
        (account,) = ledger.accounts("people")
        assert account.left == pytest.approx(price.left, abs=1e-9)
        assert account.editions == {"ward": price.more}
        assert price_of(resolve(spec), ledger).afterwards.startswith(
            "already charged: running it again costs nothing"
        )
        admitted += 1
    assert admitted == 2
    ready = ready_study(Run.of(spec, QueryContext(ledger, if_useless=IfUseless.SPEND)))
    with pytest.raises(BudgetExceeded) as refused:
        ready.charge(own_evaluation(ready))
    assert refused.value.what == price.refusal.what
    assert "spent ε = 4; ε = 1 is left; this study asks for ε = 2" in refused.value.what


def test_a_study_that_was_changed_after_its_release_is_not_called_paid(tmp_path):
    ledger, released = ledger_in(tmp_path), study(evaluation=None)
    run_study(released, ledger=ledger)
    changed = released.replace(search=released.search.replace(seed=7))
    price = price_of(resolve(changed), ledger)
    assert (price.paid, price.counted) == (False, pytest.approx(1.0))
    assert "already released, with search.seed = " in price.change.what
    assert "spends ε = 1 more" in price.change.what
    again = price_of(resolve(released), ledger)
    assert (again.paid, again.change, again.counted) == (True, None, 0.0)
    renamed = changed.replace(edition="2")
    assert (price_of(resolve(renamed), ledger).change, price_of(resolve(renamed), ledger).paid) == (None, False)


@pytest.mark.parametrize("section", [{}, {"epsilon": 2.0}, {"edition": "b"}, {"bins": 7}])
def test_a_report_that_was_not_charged_with_its_choice_has_a_price_of_its_own(tmp_path, section):
    """Charged before were the choice alone, or the choice and another report."""
    ledger, told = ledger_in(tmp_path), study()
    if section:
        run_and_evaluate(told, ledger=ledger)
        told = told.replace(evaluation=told.evaluation.replace(**section))
    else:
        run_study(told, ledger=ledger)
    price, before = price_of(resolve(told), ledger), ledger.accounts("people")[0].spent_epsilon[0]
    assert not price.paid
    assert price.sums == f"ε = {section.get('epsilon', 1):g}: {section.get('epsilon', 1):g} (report)"
    assert price.afterwards == f"leaves {5 - before - price.epsilon:g} of 5"
    run_and_evaluate(told, ledger=ledger)
    assert ledger.accounts("people")[0].spent_epsilon[0] == pytest.approx(before + price.counted)
    assert price_of(resolve(told), ledger).paid


def test_a_refusal_says_nothing_was_spent_of_an_empty_ledger(tmp_path):
    spec = study(limit=1.5)
    assert "spent ε = 0; ε = 1.5 is left; this study asks for ε = 2" in price_of(resolve(spec), None).refusal.what
    with pytest.raises(BudgetExceeded, match=r"spent ε = 0; ε = 1\.5 is left; this study asks for ε = 2"):
        run_and_evaluate(spec, ledger=ledger_in(tmp_path))


def test_what_counts_less_than_its_epsilon_says_why():
    plan = plan_study(study("private_trajectory", evaluation=None))
    account = Account.opened(PrivacyBudget.of("people", epsilon=5.0, delta=1e-5))
    price = Price(account, {"choice": plan})
    assert price.counted < 0.95 < price.epsilon == 1.0
    assert "counts as ε = 0.8" in price.afterwards
    assert price.left == pytest.approx(5.0 - price.counted)
    assert price.more > 5  # of Gaussian noise more editions fit than five
    assert json.loads(json.dumps(price.to_json(), allow_nan=False))["parts"] == {"choice": 1.0}


def test_public_data_and_a_missing_cap_have_no_rest():
    plan = plan_study(study())
    for account in (None, Account.opened(PrivacyBudget.without_limit("people"))):
        price = Price(account, {"choice": plan})
        assert (price.counted, price.left, price.more, price.refusal, price.afterwards) == (
            None,
            None,
            None,
            None,
            "",
        )
