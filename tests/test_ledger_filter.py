"""The ledger keeps Σr_i: it admits by it, seals it, finds it again in what an older version wrote."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from test_ledger import GUARANTEE, SYSTEM, key

from dpbo_core.accounting import audit, nodes
from dpbo_core.accounting.budget import PrivacyBudget
from dpbo_core.accounting.composition import largest_rho
from dpbo_core.accounting.history import links, unlike_totals
from dpbo_core.accounting.ledger import PrivacyLedger
from dpbo_core.accounting.renyi_filter import Filter, draw_units
from dpbo_core.accounting.store import LedgerStore
from dpbo_core.errors import BudgetExceeded
from dpbo_core.mechanisms.gaussian import DiscreteGaussian
from dpbo_core.mechanisms.laplace import DiscreteLaplace
from dpbo_core.privacy.amounts import spent_units
from dpbo_core.privacy.plan import PrivacyPlan

YESTERDAY = Path(__file__).parent / "yesterday" / "store"
GRID = PrivacyPlan(GUARANTEE, tuple(DiscreteLaplace(10, spent_units(e), 1.0).spend(str(e)) for e in (0.75, 0.25)))
TRAJECTORY = PrivacyPlan(GUARANTEE, (DiscreteGaussian(10, largest_rho(1.0, 1e-6), 1.0).spend("path"),))


def account(url):
    (found,) = PrivacyLedger(url).accounts("d")
    return found


def charged(url, plan, name):
    PrivacyLedger(url).reserve(key(name), plan, noise=SYSTEM)


def sealed(url):
    """(α*, Σr) as the newest entry has it, None where it knows none."""
    with LedgerStore(url).reading() as connection:
        told = json.loads(links(connection)[-1].totals)["totals"]
    return told.get("filter")


@pytest.fixture
def capped(ledger_url):
    PrivacyLedger(ledger_url).set_budget(PrivacyBudget.of("d", epsilon=5.0, delta=1e-5))
    return ledger_url


def test_what_was_mixed_goes_on_as_far_as_the_order_says(capped):
    for grid in range(2):
        charged(capped, GRID, f"grid {grid}")
    assert account(capped).rooms == {"private_grid": 3}
    for n in range(10):
        charged(capped, TRAJECTORY, f"path {n}")
    with pytest.raises(BudgetExceeded, match="adds up at one order, where it is more"):
        charged(capped, TRAJECTORY, "path 10")
    assert account(capped).rooms == {"private_grid": 0}  # all of them are called so here
    alpha, units = sealed(capped)
    expected = sum(draw_units((s.epsilon_units, s.rho_units), alpha) for p in [GRID] * 2 + [TRAJECTORY] * 10
                   for s in p.spends)  # fmt: skip
    assert Filter(alpha, units) == account(capped).filtered == Filter(alpha, expected)
    audit.verify(capped)


def test_a_dataset_without_a_delta_adds_its_epsilons(ledger_url):
    PrivacyLedger(ledger_url).set_budget(PrivacyBudget.of("d", epsilon=2.0, delta=0.0))
    assert account(ledger_url).rooms == {}
    for n in range(2):
        charged(ledger_url, GRID, str(n))
    with pytest.raises(BudgetExceeded):
        charged(ledger_url, GRID, "3")
    assert sealed(ledger_url) == [0.0, 0]


def older(monkeypatch):
    """An older version's hands: it reads and seals totals without a filter, and admits by Σρ alone."""
    honest, admits = nodes.Totals.from_json, PrivacyBudget.admits
    forgetful = classmethod(lambda _, data: replace(honest(data), filter=None))
    monkeypatch.setattr(nodes.Totals, "from_json", forgetful)
    monkeypatch.setattr(nodes.Node, "filtered", True)
    monkeypatch.setattr(PrivacyBudget, "admits", lambda self, total, unit=None, _=None: admits(self, total, unit))


def test_versions_that_take_turns_agree(capped, monkeypatch):
    charged(capped, GRID, "new")
    with monkeypatch.context() as patch:
        older(patch)
        charged(capped, TRAJECTORY, "old")
        charged(capped, TRAJECTORY, "older")
        assert sealed(capped) is None
    charged(capped, TRAJECTORY, "new again")
    assert Filter(*sealed(capped)) == account(capped).filtered
    audit.verify(capped)
    with LedgerStore(capped).reading() as connection:
        told = links(connection)
    node = nodes.Node.from_text(told[-1].totals)
    lower = replace(node, totals=replace(node.totals, filter=Filter(node.totals.filter.alpha, 1)))
    assert list(unlike_totals([*told[:-1], replace(told[-1], totals=lower.text())]))  # the planted fault


def test_what_an_older_version_left_has_the_room_it_always_had(tmp_path):
    """A ledger of 0.1.0: its first charge reads the whole history, and seals what all of it comes to."""
    shutil.copytree(YESTERDAY, tmp_path / "store")
    for name in ("ledger.db", "ledger.db.generation"):
        (tmp_path / "store" / name).chmod(0o600)
    url = f"sqlite:///{tmp_path / 'store' / 'ledger.db'}"
    (before,) = PrivacyLedger(url).accounts("wards")
    assert 0 < before.filtered.units < before.spent.rho_units
    PrivacyLedger(url).reserve(replace(key("now"), dataset="wards"), TRAJECTORY, noise=SYSTEM)
    (after,) = PrivacyLedger(url).accounts("wards")
    assert sealed(url) == [after.filtered.alpha, after.filtered.units]
    assert after.filtered.units == before.filtered.units + TRAJECTORY.spends[0].rho_units
    audit.verify(url)
