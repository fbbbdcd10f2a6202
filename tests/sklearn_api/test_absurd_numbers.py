"""Numbers that nothing can be counted with are refused in words, before anything is charged."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from dpbo_core import PrivacyLedger, PrivateSearch, PrivateSelection, StudyInvalid

RNG = np.random.default_rng(0)
X, V = RNG.normal(size=(30, 2)), RNG.normal(size=(20, 2))
Y, TRUTH = (X[:, 0] > 0).astype(int), (V[:, 0] > 0).astype(int)
PRICE = {"epsilon": 1.0, "delta": 1e-6, "dataset": "d", "budget": (5.0, 1e-5)}
ABSURD = (2**70, -(2**70), 10**400, 1e308, float("inf"), float("nan"), 1 + 0j, "9" * 400, Decimal("NaN"), 2.5)


@pytest.fixture
def url(here):
    url = f"sqlite:///{here / 'ledger.db'}"
    yield url
    assert PrivacyLedger(url).accounts() == ()


def refused(ask):
    with pytest.raises(StudyInvalid) as error:
        ask()
    assert len(error.value.message()) < 400


@pytest.mark.parametrize("number", ABSURD, ids=lambda number: str(number)[:9])
@pytest.mark.parametrize("name", ["n_jobs", "n_persons", "n_steps", "error_bound", "max_records_per_person"])
def test_of_a_search(url, name, number):
    if (name, number) == ("error_bound", 2.5):
        number = -2.5
    if name == "max_records_per_person" and number in (2**70, 1e308):
        number = -number  # no more than all records count
    settings = PRICE | {name: number} | ({"person": "who"} if name == "n_persons" else {})
    search = PrivateSearch(LogisticRegression(), {"C": [0.1, 1.0]}, ledger=url, **settings)
    refused(lambda: search.fit(X, Y, X_validation=V, y_validation=TRUTH))


@pytest.mark.parametrize("number", ABSURD, ids=lambda number: str(number)[:9])
def test_of_a_selection_and_advice(url, number):
    chosen = pd.DataFrame({"a": TRUTH, "b": 1 - TRUTH})
    accepts = ("rowwise_predictions",)
    refused(lambda: PrivateSelection(["a", "b"], labels=[0, 1], **PRICE).advise(n_validation=number))
    search = PrivateSearch(LogisticRegression(), {"C": [0.1, 1.0]}, **PRICE)
    refused(lambda: search.advise(X, Y, n_validation=number))
    if isinstance(number, complex | Decimal):
        selection = PrivateSelection(["a", "b"], labels=[0, number], accepts=accepts, ledger=url, **PRICE)
        refused(lambda: selection.fit(chosen, TRUTH))
