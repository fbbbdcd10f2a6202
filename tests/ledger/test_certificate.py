"""A release's certificate: composed again from its draws alone; every planted edit is caught."""

import copy
import json
import math
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_contract import VARIANTS, real
from worlds import problem, run, smooth_table

from dpbo_core.errors import CertificateFalse, StudyInvalid
from dpbo_core.ledger.accounting.account import PrivacyBudget, balance_after, balances
from dpbo_core.ledger.accounting.certificate import read_certificate, recompute
from dpbo_core.ledger.accounting.composition import ZERO_TOTAL, Filter
from dpbo_core.ledger.charge import Charge, QueryKey
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.methods import EXCHANGES, METHODS
from dpbo_core.methods.certified import CERTIFIED


def document(name, **facts):
    world = problem(**facts)
    return json.loads(json.dumps(run(VARIANTS[name], world, smooth_table(world, best=4), real()).to_json()))


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("epsilon", [0.1, 3.0])
def test_an_honest_release_is_worth_its_promise(name, epsilon):
    found = recompute(read_certificate(document(name, epsilon=epsilon, steps=7), CERTIFIED), CERTIFIED)
    assert found.epsilon <= epsilon * (1 + 1e-12)
    assert found.epsilon == pytest.approx(epsilon, rel=1e-6)
    assert found.by_price == (("best of private trials",) if name.startswith("hypo") else ())


def test_the_composition_lies_between_two_independent_accountants():
    """For the continuous Gaussian dp-accounting's loss distribution is the truth, its RDP an upper bound."""
    from dp_accounting import ComposedDpEvent, GaussianDpEvent
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.rdp import RdpAccountant

    release = read_certificate(document("trajectory", steps=10), CERTIFIED)
    event = ComposedDpEvent([GaussianDpEvent(spend.noise_scale / spend.sensitivity) for spend in release.spends])
    exact, renyi = (a().compose(event).get_epsilon(1e-6) for a in (PLDAccountant, RdpAccountant))
    assert exact <= recompute(release, CERTIFIED).epsilon <= renyi * 1.01


OTHER = {"discrete Laplace": "permute-and-flip", "discrete Gaussian": "discrete Gaussian rows"}
EDITS = {
    "a smaller ε": lambda d: d["guarantee"].update(epsilon=d["guarantee"]["epsilon"] * 0.99),
    "ε = −0": lambda d: d["guarantee"].update(epsilon=-0.0),
    "an ε below the smallest amount": lambda d: d["guarantee"].update(epsilon=1e-13),
    "a smaller δ": lambda d: d["guarantee"].update(delta=d["guarantee"]["delta"] / 10),
    "cheaper draws": lambda d: [s.update(rho=s["rho"] * 0.9) for s in d["spends"]],
    "less noise": lambda d: d["spends"][0].update(noise_scale=d["spends"][0]["noise_scale"] * 0.99),
    "more sensitivity": lambda d: d["spends"][0].update(sensitivity=d["spends"][0]["sensitivity"] * 1.01),
    "a pure ε for a Gaussian": lambda d: d["spends"][0].update(epsilon=1e-6),
    "no noise": lambda d: d["spends"][0].update(noise_scale=0.0),
    "one more draw": lambda d: d["spends"].append(d["spends"][0] | {"what": "one more"}),
    "refuted evidence": lambda d: d["guarantee"].update(evidence="refuted"),
    "injected noise": lambda d: d.update(noise="injected"),
    "no ε": lambda d: d["guarantee"].update(epsilon=None),
    "the first draw left out": lambda d: d.update(spends=d["spends"][1:]),
    "the last draw left out": lambda d: d.update(spends=d["spends"][:-1]),
    "one draw twice, another never": lambda d: d.update(spends=[d["spends"][0], *d["spends"][:-1]]),
    "draws under other names": lambda d: [s.update(what=f"draw {n}") for n, s in enumerate(d["spends"])],
    "draws of a mechanism whose price is taken as printed": lambda d: [
        s.update(mechanism="best of private trials", epsilon=1e-3, rho=1e-6) for s in d["spends"]
    ],
    "another mechanism of the same formula": lambda d: [
        s.update(mechanism=OTHER.get(s["mechanism"], s["mechanism"])) for s in d["spends"]
    ],
    "a mechanism that nobody declared": lambda d: d["spends"][0].update(mechanism="unheard of"),
    "another unit": lambda d: d["guarantee"].update(unit="training_record"),
    "the rows of a table": lambda d: d["guarantee"].update(unit="candidate_row"),
    "persons of no column": lambda d: d["guarantee"].update(unit="person"),
    "a column, and no persons": lambda d: d["guarantee"].update(person="who"),
    "another relation": lambda d: d["guarantee"].update(relation="add_or_remove_one"),
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("name", ["trajectory with a final choice", "grid"])
def test_an_edit_is_caught(name, edit):
    honest = document(name, steps=5)
    edited = copy.deepcopy(honest)
    EDITS[edit](edited)
    if (name, edit) == ("grid", "a smaller δ"):  # it is 0 already
        recompute(read_certificate(edited, CERTIFIED), CERTIFIED)
        return
    with pytest.raises(CertificateFalse):
        recompute(read_certificate(edited, CERTIFIED), CERTIFIED)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(JSON, st.sampled_from(["guarantee", "spends", "value", "facts", "study", "noise"]))
def test_whatever_the_file_holds_it_is_a_letter(junk, where):
    for candidate in (junk, HONEST | {where: junk}):
        with suppress(StudyInvalid, CertificateFalse):
            recompute(read_certificate(candidate, CERTIFIED), CERTIFIED)


HONEST = document("grid", steps=3)


def test_the_balance_after_an_edition_includes_the_report_that_was_charged_with_it(here):
    """MLflow's metrics and its page then state one number; a report of another day counts on that day."""
    ledger = PrivacyLedger(f"sqlite:///{here / 'ledger.db'}")
    ledger.set_budget(PrivacyBudget.of("d", epsilon=9.0, delta=1e-5))
    price = VARIANTS["grid"].plan(problem(steps=3))
    for n, (name, edition) in enumerate(
        [("s", "1"), ("s/evaluation", "1"), ("s", "2"), ("t", "1"), ("s/evaluation", "2")]
    ):
        ledger.reserve(Charge(QueryKey(f"{n:064d}", "d", name, edition, "grid"), price), noise="operating_system")
    (account,) = ledger.accounts("d")
    entries = [replace(entry, release_id=str(n)) for n, entry in enumerate(account.entries)]
    account = replace(account, entries=tuple(entries))
    assert [balance_after(account, str(n)).position for n in range(5)] == [2, 2, 3, 4, 5]


def test_the_balance_after_each_study_is_the_ledgers_own(here):
    ledger = PrivacyLedger(f"sqlite:///{here / 'ledger.db'}")
    ledger.set_budget(PrivacyBudget.of("d", epsilon=9.0, delta=1e-5))
    spent = []
    for n, name in enumerate(["grid", "trajectory", "lipschitz", "trajectory"]):
        price = VARIANTS[name].plan(problem(steps=3))
        ledger.reserve(Charge(QueryKey(f"{n:064d}", "d", "s", str(n), name), price), noise="operating_system")
        (account,) = ledger.accounts("d")
        spent.append(account.spent_epsilon[0])
    found = list(balances(account))
    assert [item.spent for item in found] == spent
    assert [item.position for item in found] == [1, 2, 3, 4]
    assert [*balances(account, lambda entry: entry.edition in ("1", "3"))] == found[1::2]
    filtered = Filter.of(account.budget.epsilon_units, account.budget.delta_conversion)
    for entry in account.entries:
        filtered = filtered.after(entry.draws, entry.cost)
    assert account.spent == sum((entry.cost for entry in account.entries), ZERO_TOTAL)
    assert account.filtered == filtered
    assert np.allclose([item.spent + item.remaining for item in found], 9.0)
    assert all(item.share == item.spent / 9.0 for item in found)
    assert balance_after(account, "unknown") is None
    ledger.set_budget(PrivacyBudget.without_limit("open"))
    price = VARIANTS["grid"].plan(problem())
    ledger.reserve(Charge(QueryKey("f" * 64, "open", "s", "1", "grid"), price), noise="injected")
    (item,) = balances(ledger.accounts("open")[0])
    assert (item.remaining, item.share) == (math.inf, 0.0)
    assert replace(item, spent=math.inf).remaining == math.inf  # a Gaussian's draw without a δ
    assert replace(found[-1], spent=math.inf).remaining == 0.0


DIVIDED = ("epsilon", "delta", "rho", "sensitivity", "noise_scale")


@pytest.mark.parametrize("kind", ["unheard_of", "", "Private_Grid"])
def test_a_method_that_nobody_declared_is_refused(kind):
    """As it was reported: a release whose spends were all divided by four was accepted as ε = 1."""
    honest = document("grid", steps=5)
    divided = honest | {
        "spends": [spend | {n: (spend[n] or 0.0) / 4 for n in DIVIDED} for spend in honest["spends"]]
    }
    for edited in (divided | {"method": kind}, honest | {"method": kind}):
        with pytest.raises(StudyInvalid, match="cannot check"):
            recompute(read_certificate(edited, CERTIFIED), CERTIFIED)
    with pytest.raises(CertificateFalse):
        recompute(read_certificate(divided, CERTIFIED), CERTIFIED)


def test_every_method_and_every_mechanism_is_declared():
    """Of the methods the closed unions; of the mechanisms every class of the package that prices a draw."""
    import importlib
    import inspect
    import pkgutil

    from dpbo_core import mechanisms

    assert set(CERTIFIED.methods) == set(METHODS) | set(EXCHANGES)
    named = set()
    for module in pkgutil.iter_modules(mechanisms.__path__):
        rooms = vars(importlib.import_module(f"dpbo_core.mechanisms.{module.name}")).values()
        for cls in rooms:
            if (
                inspect.isclass(cls)
                and cls.__module__.startswith("dpbo_core.mechanisms.")
                and hasattr(cls, "spend")
                and not getattr(cls, "_is_protocol", False)
                and cls.__name__ != "StoredRows"  # which prices nothing itself
            ):
                named |= set(cls.WORTH)
    assert set(CERTIFIED.mechanisms) == named
    drawn = {spend.mechanism for box in VARIANTS.values() for spend in box.plan(problem(steps=3)).spends}
    assert drawn <= named
    assert len(drawn) >= 4


UNREADABLE = {
    "no trajectory": lambda d: d["value"].pop("trajectory"),
    "a trajectory of another kind": lambda d: d["value"].update(trajectory={"steps": d["value"]["trajectory"]}),
    "a shorter one": lambda d: d["value"]["trajectory"].pop(),
    "no options": lambda d: d["facts"].pop("options"),
    "no draws": lambda d: d.update(spends=[]),
    "m in words": lambda d: d["facts"].update(n_validation="1e400"),
    "m without end": lambda d: d["facts"].update(n_validation=math.inf),
    "m of a share": lambda d: d["facts"].update(n_validation=1e-3),
    "k of a share": lambda d: d["facts"].update(max_records_per_person=1e-3),
    "k as a truth value": lambda d: d["facts"].update(max_records_per_person=True),
    "no range": lambda d: d["facts"].update(score_range=0.0),
}


@pytest.mark.parametrize("edit", UNREADABLE)
def test_facts_that_say_nothing_are_no_release(edit):
    edited = document("trajectory", steps=5)
    UNREADABLE[edit](edited)
    with pytest.raises(StudyInvalid):
        read_certificate(edited, CERTIFIED)


@pytest.mark.parametrize("kind", [*METHODS, *EXCHANGES])
def test_a_release_under_another_methods_name_is_caught(kind):
    """With every amount divided by four: methods that bound less than one record's share are no way around."""
    honest = document("grid", steps=5)
    divided = [
        spend | {n: (spend[n] or 0.0) / 4 for n in DIVIDED if n != "noise_scale"} for spend in honest["spends"]
    ]
    guarantee = honest["guarantee"] | {"epsilon": honest["guarantee"]["epsilon"] / 4}
    edited = honest | {"method": kind, "spends": divided, "guarantee": guarantee}
    with pytest.raises((CertificateFalse, StudyInvalid)):
        recompute(read_certificate(edited, CERTIFIED), CERTIFIED)


@pytest.mark.parametrize("name", ["noisy GP under the prior", "exact GP under the prior"])
def test_an_assumption_that_was_left_out_is_missed(name):
    honest = document(name)
    recompute(read_certificate(honest, CERTIFIED), CERTIFIED)
    assert honest["guarantee"]["assumptions"]
    honest["guarantee"]["assumptions"] = []
    with pytest.raises(CertificateFalse, match="cannot keep"):
        recompute(read_certificate(honest, CERTIFIED), CERTIFIED)
