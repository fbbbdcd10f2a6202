"""What the trainers of other libraries share: digits, and what every search must show."""

import time

import numpy as np
import pytest
from sklearn.datasets import load_digits

from dpbo_core.ledger.ledger import PrivacyLedger


@pytest.fixture
def digits():
    X, y = load_digits(return_X_y=True)
    return (X / 16.0).astype(np.float32), y.astype(np.int64)


@pytest.fixture
def checked(here):
    def check(search, *data):
        """Run a search twice: its release, of twelve candidates, charged once, its model alone in one folder."""
        begun = time.monotonic()
        made = search()
        found = made.fit(*data)
        print(f"{made.run} trainings: {time.monotonic() - begun:.0f} s")
        assert found.release.facts["n_candidates"] == 12
        assert found.guarantee.epsilon == made.epsilon
        assert found.model_file is not None
        (account,) = PrivacyLedger(f"sqlite:///{here}/mlruns/ledger.db").accounts("digits")
        assert len(account.entries) == 1
        again = search().fit(*data)
        assert again.replayed
        assert again.release == found.release
        assert [*(here / "mlruns").rglob("*.pkl")] == [found.model_file.resolve()]
        assert [*(here / "mlruns" / "curator").iterdir()] == []
        return found

    return check
