"""The short form of the kill campaign: whatever moment a study dies at, it is released once and paid once."""

import pytest
from audit.kills import campaign, one_study
from worlds import PATHS

from dpbo_core.methods import METHODS
from dpbo_core.study import StudySpec


def test_a_killed_study_is_released_once_and_paid_once(tables, tmp_path):
    spec = StudySpec.from_dict(tables)
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    figures = campaign(spec, tuple(METHODS), lambda _: url, kills=6, together=4)
    assert figures.kills >= 6
    assert figures.clean, figures


@pytest.mark.parametrize("form", PATHS)
def test_a_killed_path_of_algorithm_3_is_released_once_and_paid_once(tables, tmp_path, form):
    """A rerun finds the same path, and trains again what it needs."""
    tables["search"]["steps"], tables["space"]["lambda"]["points"] = 3, 6
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    figures = campaign(StudySpec.from_dict(tables), (form,), lambda _: url, kills=2, together=3)
    assert figures.clean, figures


def test_a_ledger_that_draws_again_is_caught(tables, tmp_path, monkeypatch):
    """The planted fault: a rerun that redraws instead of reading back shows two releases."""
    from dpbo_core.ledger.reservation import Reservation

    monkeypatch.setattr(Reservation, "conclude", lambda self, release, **_: release)
    monkeypatch.setattr(Reservation, "record", lambda self, spend, draw, **_: draw())
    monkeypatch.setattr(Reservation, "recorded", lambda self, what: None)
    spec = StudySpec.from_dict(tables | {"study": {"name": "trial", "method": "private_grid"}})
    figures = one_study(spec, f"sqlite:///{tmp_path / 'ledger.db'}", life=60.0, together=1)
    assert (figures.double_or_lost, figures.unfinished) == (1, 0)
    assert not (figures + figures).clean
