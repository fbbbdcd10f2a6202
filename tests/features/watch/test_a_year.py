"""A simulated year on one budget ends with something left of it, nothing overspent, and a better model in use."""

import pytest

from benchmarks import year
from dpbo_core.ledger.ledger import PrivacyLedger

pytestmark = pytest.mark.slow


def test_a_year_is_paid_from_one_cap_and_serves_better_than_blind_editions(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    watched, blind = year.watched(0, one), year.blind(0, two)
    for told in (watched, blind):
        account = told.account
        assert account.budget.admits(account.spent, account.unit, account.filtered)
    assert watched.account.spent_epsilon[0] < 5.0
    assert watched.refused == []
    assert len(watched.reported) == 4
    assert watched.foreseen.ends is not None
    assert len(blind.tuned) == 22
    assert len(blind.refused) == 1  # the 23rd
    loss, blindly = year.losses(0, watched.in_use, blind.in_use)
    assert loss < blindly
    editions = PrivacyLedger(f"sqlite:///{one / 'ledger.db'}").editions("penalty")
    last = editions[-1].release
    assert [item["edition"] for item in last.facts["learned_from"]] == [item.edition for item in editions[:-1]][-8:]


def test_a_day_of_every_month_for_people_who_change(tmp_path):
    """Each month's cap pays for its own tune, and its search begins with the months before."""
    begun, spent = year.changing(0, tmp_path)
    months = [f"2026-{month:02d}" for month in range(1, 13)]
    assert begun == [months[max(0, place - 8) : place] for place in range(12)]
    assert max(spent) - min(spent) < 1e-9
    assert max(spent) < 1.0 + 1e-9
