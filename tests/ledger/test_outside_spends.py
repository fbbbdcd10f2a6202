"""Spends made by other tools: every form, refusals, replays, the guard for code, kills, receipts, random mixes."""

import json
import os
from functools import cache
from multiprocessing import get_context
from random import Random

import dp_accounting as dp
import pytest
from dp_accounting.pld import common
from dp_accounting.pld import privacy_loss_distribution as pld
from spend_kills import campaign

from dpbo_core.errors import (
    AlreadySpent,
    AssumptionNotAccepted,
    BudgetExceeded,
    DpboError,
    NoBudget,
    PolicyRefused,
    StudyInvalid,
)
from dpbo_core.ledger import audit
from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.accounting.certificate import read_certificate, recompute
from dpbo_core.ledger.accounting.composition import ZERO_TOTAL, Filter, compose
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.outside_spends import DECLARED_STANDING, Budget, Price
from dpbo_core.privacy.guarantee import NeighboringRelation, PrivacyUnit
from dpbo_core.report.certified import CERTIFIED
from dpbo_core.study import StudySpec
from dpbo_core.study.tuning import run_study

KEEPS_DELTA = ("charge_fixed_beforehand",)
DP_SGD = dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.02, dp.GaussianDpEvent(2.0)), 100)


def clinic(url, *, accepts=KEEPS_DELTA, epsilon=5.0, relation=NeighboringRelation.ADD_OR_REMOVE_ONE):
    budget = PrivacyBudget.of("clinic", epsilon=epsilon, delta=1e-5, accepts=accepts, relation=relation)
    PrivacyLedger(url).set_budget(budget)
    return Budget("clinic", url)


def entries(url):
    (account,) = PrivacyLedger(url).accounts("clinic")
    return account.entries


def test_a_spend_is_charged_once_by_its_name(url):
    budget = clinic(url)
    first = budget.charge(epsilon=0.5, what="weekly counts", tool="opendp", name="week 1")
    again = budget.charge(epsilon=0.5, what="weekly counts", tool="opendp", name="week 1")
    assert (first.epsilon, first.delta, first.replayed, again.replayed) == (0.5, 0.0, False, True)
    assert first.receipt == again.receipt
    for other in ({"epsilon": 0.6}, {"epsilon": 0.5, "tool": "tumult"}):
        with pytest.raises(StudyInvalid, match="another price"):
            budget.charge(**{"what": "weekly counts", "tool": "opendp", "name": "week 1"} | other)
    budget.charge(epsilon=0.5, what="weekly counts")
    budget.charge(epsilon=0.5, what="weekly counts")
    assert [entry.epsilon for entry in entries(url)] == [0.5] * 3
    assert {entry.declared for entry in entries(url)} == {True}
    assert audit.verify(url)


def test_what_the_cap_has_no_room_for_is_refused(url):
    with pytest.raises(NoBudget):
        Budget("nobody", url).charge(epsilon=0.5, what="x")
    budget = clinic(url)
    budget.charge(epsilon=4.5, what="x")
    with pytest.raises(BudgetExceeded) as refused:
        budget.charge(epsilon=0.6, what="y")
    assert refused.value.exit_code == 3
    assert len(entries(url)) == 1


def test_a_spend_with_a_delta_needs_a_cap_that_keeps_some(url):
    budget = clinic(url, accepts=())
    with pytest.raises(AssumptionNotAccepted, match="charge_fixed_beforehand"):
        budget.charge(epsilon=0.5, delta=1e-7, what="x")
    assert budget.charge(epsilon=0.5, what="pure").receipt.guarantee.assumptions == ()
    assert budget.charge(rho=0.01, what="Gaussian").receipt.guarantee.assumptions == ()


def test_what_happened_already_is_recorded_beyond_the_cap_and_ends_it(url):
    budget = clinic(url, accepts=())
    spend = budget.charge(epsilon=9.0, delta=1e-3, what="last year's table", already_happened=True)
    assert spend.overdrawn
    assert spend.receipt.guarantee.assumptions == KEEPS_DELTA
    for price in ({"epsilon": 1e-6}, {"rho": 1e-9}):
        with pytest.raises(BudgetExceeded):
            budget.charge(what="x", **price)
    assert audit.verify(url)


def test_a_named_spend_enters_its_block_once_even_if_the_block_fails(url):
    budget, runs = clinic(url), []

    def run():
        with budget.spending(epsilon=0.1, what="counts", name="once") as spend:
            assert len(entries(url)) == 1  # charged before the block
            runs.append(spend.epsilon)
            raise OSError

    with pytest.raises(OSError):  # noqa: PT011  the block's own
        run()
    with pytest.raises(AlreadySpent):
        run()
    assert runs == [0.1]
    for _ in range(2):
        with budget.spending(epsilon=0.1, what="counts"):
            pass
    assert len(entries(url)) == 3


def test_who_does_not_own_the_ledger_books_within_the_owners_limits(url, monkeypatch):
    budget = clinic(url)
    cap = PrivacyLedger(url).budget("clinic")
    PrivacyLedger(url).set_budget(cap, largest_epsilon=0.5, a_day=0.8)
    monkeypatch.setattr(PrivacyLedger, "is_ours", False)
    budget.charge(epsilon=0.5, what="x")
    for epsilon in (0.6, 0.4):  # more than one may ask for, and more than a day holds
        with pytest.raises(PolicyRefused):
            budget.charge(epsilon=epsilon, what="x")
    assert len(entries(url)) == 1


def test_every_form_is_charged_in_the_form_that_costs_least(url):
    budget = clinic(url)

    def spends(**price):
        return [
            (s.epsilon_units, s.delta_units, s.rho_units) for s in budget.charge(what="x", **price).receipt.spends
        ]

    assert spends(rho=0.02) == [(None, 0, 20_000_000_000)]
    assert spends(event=dp.GaussianDpEvent(5.0)) == [(None, 0, 20_000_000_000)]
    both = dp.ComposedDpEvent([dp.LaplaceDpEvent(10.0), dp.SelfComposedDpEvent(dp.GaussianDpEvent(10.0), 2)])
    assert spends(event=both) == [(10**11, 0, 5 * 10**9 + 1), (None, 0, 10**10)]  # rounded up
    ((pure, delta, rho),) = spends(event=DP_SGD)
    assert (pure, delta) == (None, 10**5)  # a hundredth of the cap's δ
    assert 0 < rho < 60_000_000_000
    ((pure, delta, rho),) = spends(
        renyi={"orders": [1.5, 2.0, 4.0, 8.0, 16.0, 64.0], "costs": [0.01] * 6}, delta=1e-7
    )
    assert (pure, delta) == (None, 10**5)
    assert audit.verify(url)


def test_a_cap_on_training_records_takes_every_form_as_one_pair(url):
    budget = clinic(url, accepts=())
    for price in ({"rho": 0.01}, {"event": DP_SGD}):
        spend = budget.charge(what="x", unit=PrivacyUnit.TRAINING_RECORD, **price)
        ((pure, delta),) = [(s.epsilon_units, s.delta_units) for s in spend.receipt.spends]
        assert pure is not None
        assert delta == 10**5


@pytest.mark.parametrize(
    ("price", "words"),
    [
        ({}, "exactly one form"),
        ({"epsilon": 1.0, "rho": 1.0}, "exactly one form"),
        ({"epsilon": -1.0}, "positive"),
        ({"epsilon": float("nan")}, "positive"),
        ({"epsilon": 1e300}, "several spends"),
        ({"epsilon": 10**400}, "several spends"),
        ({"epsilon": 1.0, "replaced_moves": float("nan")}, "replaced_moves is nan"),
        ({"event": dp.GaussianDpEvent(5.0), "replaced_moves": 0.0}, "replaced_moves is 0.0"),
        ({"epsilon": 1.0, "delta": "1e-6"}, "delta is"),
        ({"rho": 0.1, "delta": 1.0}, "delta is 1.0"),
        ({"event": dp.NoOpDpEvent()}, "costs nothing"),
        ({"event": dp.NonPrivateDpEvent()}, "NonPrivateDpEvent"),
        ({"event": dp.GaussianDpEvent(0.0)}, "positive scale"),
        ({"renyi": {"orders": [2.0], "costs": [1.0, 2.0]}}, "each of its rising orders"),
        ({"renyi": {"orders": [2.0]}}, "renyi cannot be read"),
        ({"renyi": [2.0]}, "renyi cannot be read"),
        ({"epsilon": 1.0, "what": " "}, "what is"),
        ({"epsilon": 1.0, "name": "a\x1b"}, "name is"),
    ],
)
def test_a_price_that_cannot_be_read_is_refused_and_nothing_is_charged(url, price, words):
    budget = clinic(url)
    with pytest.raises(StudyInvalid, match=words):
        budget.charge(**{"what": "x"} | price)
    assert entries(url) == ()


def test_an_event_under_replace_one_says_how_far_a_record_moves_its_sum(url):
    budget = clinic(url, relation=NeighboringRelation.REPLACE_ONE)
    with pytest.raises(StudyInvalid, match="replaced_moves"):
        budget.charge(event=dp.GaussianDpEvent(5.0), what="x")
    spend = budget.charge(event=dp.GaussianDpEvent(5.0), what="x", replaced_moves=2.0)
    assert spend.receipt.spends[0].rho == pytest.approx(0.08)


def test_a_receipt_states_its_standing_and_is_a_certificate(url):
    budget = clinic(url)
    for price in ({"epsilon": 0.5}, {"rho": 0.02}, {"event": DP_SGD}):
        receipt = budget.charge(what="x", tool="opacus", version="1.6", **price).receipt
        read = read_certificate(json.loads(json.dumps(receipt.to_json())), CERTIFIED)
        price = recompute(read, CERTIFIED)
        assert price.epsilon <= receipt.guarantee.epsilon
        assert price.by_price == ("declared by CALLER",)
        assert DECLARED_STANDING in receipt.guarantee.in_words()
        assert (receipt.value["tool"], receipt.value["version"]) == ("opacus", "1.6")


def test_dpbo_opendp_and_an_opacus_training_share_one_cap(url):
    import opendp.prelude as opendp

    budget = clinic(url, epsilon=3.0, relation=NeighboringRelation.REPLACE_ONE)
    study = {
        "study": {"name": "first", "method": "private_grid"},
        "privacy": {"dataset": "clinic", "epsilon": 1.0},
        "data": {"source": "breast_cancer"},
        "model": {"estimator": "logistic", "score": "accuracy"},
        "space": {"lambda": {"low": 1e-4, "high": 10.0, "log": True, "points": 2}},
    }
    run_study(StudySpec.from_dict(study), ledger=PrivacyLedger(url))
    opendp.enable_features("contrib")
    domain = opendp.atom_domain(T=int), opendp.absolute_distance(T=int)
    count = opendp.m.make_laplace(*domain, scale=2.0)
    with budget.spending(epsilon=count.map(1), what="beds", tool="opendp") as spend:
        count(217)
    assert spend.epsilon == pytest.approx(0.5)
    history = [(1.0, 0.25, 40)]  # of opacus.accountants: noise multiplier, sampling rate, steps
    events = [
        dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(noise)), steps)
        for noise, rate, steps in history
    ]
    with (
        pytest.raises(BudgetExceeded),
        budget.spending(event=dp.ComposedDpEvent(events), what="model", tool="opacus", replaced_moves=2.0),
    ):
        raise AssertionError("the block ran")
    assert [entry.method for entry in entries(url)] == ["private_grid", "declared"]


# Kills


@pytest.mark.parametrize(
    ("stride", "rounds"),
    [pytest.param(1, 3, marks=pytest.mark.slow, id="everywhere"), pytest.param(13, 1, id="every 13th place")],
)
def test_killed_anywhere_a_spend_is_charged_once_or_not_and_its_block_runs_at_most_once(
    ledger_url, stride, rounds, tmp_path
):
    tally = campaign(ledger_url, tmp_path / "ran", stride=stride, rounds=rounds)
    assert tally.clean
    assert tally.kills > 0
    assert audit.verify(ledger_url)


def book_when_both_are_ready(url, name, ready):
    ready.wait()
    try:
        Budget("clinic", url).charge(epsilon=0.7, what="counts", name=name)
    except BudgetExceeded:
        os._exit(3)
    os._exit(0)


def test_of_two_processes_that_book_at_once_a_cap_for_one_admits_one(ledger_url):
    clinic(ledger_url, epsilon=1.0)
    processes = get_context("fork")
    ready = processes.Barrier(2)
    both = [processes.Process(target=book_when_both_are_ready, args=(ledger_url, name, ready)) for name in "ab"]
    for process in both:
        process.start()
    for process in both:
        process.join()
    assert sorted(process.exitcode for process in both) == [0, 3]
    (entry,) = entries(ledger_url)
    assert entry.edition == "ab"[[process.exitcode for process in both].index(0)]
    (account,) = PrivacyLedger(ledger_url).accounts("clinic")
    assert account.spent.epsilon_units == 7 * 10**11


# Random mixes against the accounting library, which composes the loss distributions of what was really declared

CAP = PrivacyBudget.of(
    "clinic", epsilon=2.0, delta=1e-4, accepts=KEEPS_DELTA, relation=NeighboringRelation.ADD_OR_REMOVE_ONE
)
GRID = {"value_discretization_interval": 2e-3}
CURVE = {"orders": [1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0, 64.0]}
PAIR = common.DifferentialPrivacyParameters(0.3, 2e-6)
MIX = {  # a price, and the loss distribution of a mechanism that has it
    "pair": (Price(0.3, 2e-6), lambda: pld.from_privacy_parameters(PAIR, **GRID)),
    "pure": (Price(0.4), lambda: pld.from_laplace_mechanism(2.5, **GRID)),
    "rho": (Price(rho=0.03), lambda: pld.from_gaussian_mechanism((1 / 0.06) ** 0.5, **GRID)),
    "curve": (
        Price(delta=1e-6, renyi=CURVE | {"costs": [0.02 * a for a in CURVE["orders"]]}),
        lambda: pld.from_gaussian_mechanism(5.0, **GRID),
    ),
    "event": (
        Price(delta=1e-6, event=DP_SGD),
        lambda: pld.from_gaussian_mechanism(2.0, sampling_prob=0.02, **GRID).self_compose(100),
    ),
}
UNIT = PrivacyUnit.VALIDATION_RECORD


@cache
def priced(form):
    price, make = MIX[form]
    spends = price.spends(CAP, UNIT)
    return compose(spends), tuple((spend.epsilon_units, spend.rho_units) for spend in spends), make()


def _excess(seed):
    """By how much the exact δ of a random mix that the cap admits exceeds the cap's."""
    rng = Random(seed)
    total, filtered, exact = ZERO_TOTAL, Filter.of(CAP.epsilon_units, CAP.delta_conversion), None
    forms = list(MIX)
    while True:
        cost, draws, one = priced(rng.choice(forms))
        total, filtered = total + cost, filtered.after(draws, cost)
        if not CAP.admits(total, UNIT, filtered):
            return -1e-4 if exact is None else exact.get_delta_for_epsilon(2.0) - 1e-4
        exact = one if exact is None else exact.compose(one)


def test_no_mix_of_forms_that_a_cap_admits_costs_more_than_the_cap():
    assert max(map(_excess, range(300))) <= 0.0


@pytest.mark.slow
def test_no_mix_of_many_costs_more_than_the_cap():
    assert max(map(_excess, range(10_000))) <= 0.0


def test_the_command_books_refuses_and_replays(dpbo):
    assert dpbo("budget", "charge", "clinic", "--epsilon", 1, "--what", "x")[0] == 3
    dpbo("budget", "set", "clinic", "--epsilon", 5, "--delta", "1e-5", "--relation", "add_or_remove_one")
    words = ("budget", "charge", "clinic", "--what", "weekly counts", "--tool", "opendp 0.16", "--id", "week 1")
    first, again = (json.loads(dpbo(*words, "--epsilon", 0.5, "--json")[1]) for _ in range(2))
    assert (first["replayed"], again["replayed"], first["id"]) == (False, True, "week 1")
    assert dpbo(*words, "--epsilon", 0.6)[0] == 2
    assert dpbo(*words[:-1], "week 2", "--epsilon", 50)[0] == 3
    assert dpbo(*words[:-1], "week 2", "--epsilon", 0.5, "--delta", "1e-7")[0] == 4
    with open("event.json", "w") as file:  # noqa: PTH123
        json.dump({"class_name": "GaussianDpEvent", "noise_multiplier": 5.0}, file)
    code, out, _ = dpbo("budget", "charge", "clinic", "--event", "event.json", "--what", "table", "--id", "g")
    assert code == 0
    assert DECLARED_STANDING in " ".join(out.split())
    with open("event.json", "w") as file:  # noqa: PTH123
        json.dump({"orders": [2.0, 8.0], "costs": [0.01, 0.05]}, file)
    curve = ("budget", "charge", "clinic", "--rdp", "event.json", "--delta", "1e-7", "--what", "training")
    assert dpbo(*curve)[0] == 4  # read as a curve, whose δ this cap does not accept
    for bad in ('{"class_name": "os.system", "command": "true"}', "[]", "{"):
        with open("event.json", "w") as file:  # noqa: PTH123
            file.write(bad)
        assert dpbo("budget", "charge", "clinic", "--event", "event.json", "--what", "table")[0] == 2
    assert DECLARED_STANDING in " ".join(dpbo("budget")[1].split())
    assert DECLARED_STANDING in " ".join(dpbo("budget", "status")[1].split())
    shown = json.loads(dpbo("budget", "--json")[1])["datasets"][0]["entries"]
    assert [entry["standing"] for entry in shown] == [DECLARED_STANDING] * 2
    dpbo("show", "weekly counts", "--out", "receipt.json")
    code, out, _ = dpbo("verify", "receipt.json")
    assert code == 0
    assert "declared by CALLER" in out
    code, out, _ = dpbo(*words[:-1], "old", "--epsilon", 9, "--already-happened")
    assert code == 0
    assert "overdrawn" in out


def test_an_event_is_read_by_our_own_list_alone():
    from dpbo_core.theorems.events import event_from_json, event_json

    for event in (DP_SGD, dp.ComposedDpEvent([dp.NoOpDpEvent(), dp.ZCDpEvent(0.1, 0.0)])):
        assert event_from_json(json.loads(json.dumps(event_json(event)))) == event
    with pytest.raises(ValueError, match="class_name"):
        event_from_json({"class_name": "NonPrivateDpEvent"})
    with pytest.raises(ValueError, match="fields"):
        event_from_json({"class_name": "GaussianDpEvent", "sigma": 1.0})
    with pytest.raises(ValueError, match="number"):
        event_from_json({"class_name": "GaussianDpEvent", "noise_multiplier": "1"})
    assert issubclass(AlreadySpent, DpboError)
