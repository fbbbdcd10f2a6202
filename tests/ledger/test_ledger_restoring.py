"""Restoring never grants budget: random sequences of spending, copying, restoring, accepting and recovering."""

import json
import shutil
import sqlite3
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from test_ledger import GUARANTEE, SYSTEM, key, plan
from test_ledger_audit import exported

from dpbo_core.errors import BudgetExceeded, LedgerDamaged
from dpbo_core.ledger import audit
from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.charge import Charge
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.recovery import Recovered, accept, recover
from dpbo_core.privacy.release import Release

CAP, COST = 5, 10**12  # studies of ε = 1 each


def outcomes(history):
    """What was drawn, as the history tells it; every draw gives a number of its own."""
    return {json.loads(link.row)["outcome"]["draw"] for link in history if link.about == "draws"}


class Restoring(RuleBasedStateMachine):
    """The ledger, copies of its file, and exports. What was drawn is counted apart from all of them."""

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "ledger.db"
        self.url = f"sqlite:///{self.path}"
        self.copies, self.exports, self.drawn = [], [], 0
        self.book = PrivacyLedger(self.url)
        self.book.set_budget(PrivacyBudget.of("d", epsilon=float(CAP), delta=0.0))

    def teardown(self):
        shutil.rmtree(self.folder)

    def known(self):
        """What the ledger here tells was drawn, read past dpbo."""
        with sqlite3.connect(self.path) as connection:
            rows = connection.execute("SELECT outcome FROM draws").fetchall()
        connection.close()
        return {json.loads(row)["draw"] for (row,) in rows}

    def ask(self, name):
        before, known = self.spent(), self.known()
        try:
            reservation = self.book.reserve(Charge(key(name), plan(1.0)), noise=SYSTEM)
        except BudgetExceeded:
            assert before + COST > CAP * COST
            return None
        if self.spent() > before:
            assert (len(known) + 1) <= CAP  # of all that this ledger and its exports know, no more than the cap
            assert self.spent() <= CAP * COST
        return reservation

    def draw(self):
        self.drawn += 1
        return {"draw": self.drawn}

    def spent(self):
        return self.book.accounts("d")[0].spent.epsilon_units

    @rule(name=st.sampled_from("abcdef"))
    def spend(self, name):
        reservation = self.ask(name)
        if reservation is not None:
            reservation.record(plan(1.0).spends[0], self.draw)
            reservation.conclude(release_of(name))

    @rule(name=st.sampled_from("abcdef"))
    def begin(self, name):
        self.ask(name)

    @rule()
    def copy(self):
        place = self.folder / f"copy-{len(self.copies)}.db"
        shutil.copy(self.path, place)
        self.copies.append((place, exported(self.url)))

    @rule()
    def export(self):
        self.exports.append(exported(self.url))

    @precondition(lambda self: self.copies)
    @rule(data=st.data())
    def restore_and_accept(self, data):
        """With no export, or with any there is."""
        self.restored(data.draw(st.sampled_from(self.copies)), data.draw(st.sampled_from([(), *self.exports])))

    def restored(self, kept, copy):
        (place, told), now = kept, exported(self.url)
        shutil.copy(place, self.path)
        if told[-1] != now[-1]:
            with pytest.raises(LedgerDamaged):
                PrivacyLedger(self.url)
        accept(self.url, copy)
        assert self.known() >= outcomes(told) | outcomes(copy)

    @precondition(lambda self: self.exports)
    @rule(data=st.data())
    def find_an_export(self, data):
        self.found(data.draw(st.sampled_from(self.exports)))

    def found(self, copy):
        before = self.known()
        recover(self.url, copy)
        assert self.known() >= before | outcomes(copy)
        assert recover(self.url, copy) == Recovered()
        audit.verify(self.url)

    @invariant()
    def everything_known_is_counted(self):
        assert self.spent() >= COST * len(self.known())


def release_of(name, dataset="d"):
    return Release({"score": 0.5}, GUARANTEE, plan(1.0).spends, name, "1", "private_grid", dataset)


@pytest.mark.parametrize("history", ["restored", "another"])
def test_a_query_that_lives_on_while_its_ledger_is_replaced_draws_into_no_other_query(
    tmp_path, monkeypatch, history
):
    """Its row's number is another query's there, or its own, charged anew; nobody edited anything."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path, copy = tmp_path / "ledger.db", tmp_path / "copy.db"
    url, spend = f"sqlite:///{path}", plan(1.0).spends[0]
    book = PrivacyLedger(url)
    for name in "de":
        book.set_budget(PrivacyBudget.of(name, epsilon=5.0, delta=0.0))
    shutil.copy(path, copy)
    charged = [book.reserve(Charge(key(name), plan(1.0)), noise=SYSTEM) for name in ("alive", "drawn")]
    charged[1].record(spend, lambda: {"draw": 1})
    if history == "restored":
        shutil.copy(copy, path)
        accept(url, ())
    else:
        (tmp_path / "state").rename(tmp_path / "lost")
        for file in path.parent.glob("ledger.db*"):
            file.unlink()
        for name in "de":
            PrivacyLedger(url).set_budget(PrivacyBudget.of(name, epsilon=5.0, delta=0.0))
    now = PrivacyLedger(url)
    others = [now.reserve(Charge(key(name, "e"), plan(1.0)), noise=SYSTEM) for name in ("other", "third")]
    for one in charged:
        for use in (
            lambda one=one: one.recorded(spend.what),
            lambda one=one: one.record(spend, lambda: pytest.fail("it was drawn")),
            lambda one=one: one.conclude(release_of("alive")),
            lambda one=one: one.assumed(GUARANTEE),
        ):
            with pytest.raises(LedgerDamaged, match="not the ledger in which the running query was charged"):
                use()
    assert [one.record(spend, lambda: {"draw": 7}) for one in others] == [{"draw": 7}] * 2
    assert others[0].conclude(release_of("other", "e")).dataset == "e"
    again = now.reserve(Charge(key("alive"), plan(1.0)), noise=SYSTEM)
    assert again.record(spend, lambda: {"draw": 8}) == {"draw": 8}
    spent = {account.budget.dataset: account.spent.epsilon_units for account in now.accounts()}
    assert spent == {"d": COST, "e": 2 * COST}
    audit.verify(url)


few = {"deadline": None, "suppress_health_check": list(HealthCheck)}
TestRestoring = Restoring.TestCase
TestRestoring.settings = settings(max_examples=6, stateful_step_count=8, **few)


@pytest.mark.slow
def test_restoring_never_grants_budget_in_many_sequences():
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(Restoring, settings=settings(max_examples=60, stateful_step_count=20, **few))
