"""OpenDP and Opacus spend a dataset's budget beside dpbo, booked at the prices that they state themselves."""

import json
import warnings

import dp_accounting as dp
import opacus
import opendp.prelude as opendp
import pytest
import torch
from opacus.accountants import create_accountant

from dpbo import Budget
from dpbo_core.errors import AlreadySpent, BudgetExceeded

CAP = ("--epsilon", 3, "--delta", "1e-5", "--relation", "add_or_remove_one", "--accept", "charge_fixed_beforehand")
N_RECORDS, EPOCHS, DELTA = 200, 3, 1e-7


@pytest.fixture
def clinic(dpbo):
    """An empty ledger with a cap for the dataset "clinic"."""
    assert dpbo("budget", "set", "clinic", *CAP)[0] == 0
    return Budget("clinic")


@pytest.fixture
def count():
    """An OpenDP count with discrete Laplace noise; `map` states its price for one record more or less."""
    opendp.enable_features("contrib")
    return opendp.m.make_laplace(opendp.atom_domain(T=int), opendp.absolute_distance(T=int), scale=2.0)


@pytest.fixture
def network():
    """A model, its engine, optimizer and loader, as Opacus makes them private. Nothing is trained."""
    X = torch.rand(N_RECORDS, 4)
    records = torch.utils.data.TensorDataset(X, (X[:, 0] > 0.5).long())
    model = torch.nn.Linear(4, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        engine = opacus.PrivacyEngine()
        private, optimizer, loader = engine.make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.5),
            data_loader=torch.utils.data.DataLoader(records, batch_size=20),
            noise_multiplier=1.5,
            max_grad_norm=1.0,
        )
    return engine, private, optimizer, loader


def planned(optimizer, loader):
    """What Opacus's accountant will hold after the training."""
    return [(optimizer.noise_multiplier, loader.sample_rate, EPOCHS * len(loader))]


def event_of(history):
    """The history of an Opacus accountant as an event."""
    steps = [
        dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(noise)), times)
        for noise, rate, times in history
    ]
    return dp.ComposedDpEvent(steps)


def trained(private, optimizer, loader):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(EPOCHS):
            for X, y in loader:
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(private(X), y).backward()
                optimizer.step()


def test_a_count_and_a_training_share_one_cap_by_prices_of_their_own(clinic, count, network):
    engine, private, optimizer, loader = network
    with clinic.spending(epsilon=count.map(1), what="beds", tool="opendp", name="monday") as spend:
        assert isinstance(count(217), int)
    assert spend.epsilon == pytest.approx(0.5)
    history = planned(optimizer, loader)
    with clinic.spending(event=event_of(history), what="network", tool="opacus", name="network"):
        trained(private, optimizer, loader)
    assert engine.accountant.history == history  # so that what was booked is what ran
    with (
        pytest.raises(AlreadySpent),
        clinic.spending(epsilon=count.map(1), what="beds", tool="opendp", name="monday"),
    ):
        raise AssertionError("the count ran twice at one price")


def test_a_training_beyond_the_cap_is_refused_before_it_runs(clinic, count, network):
    engine, private, optimizer, loader = network
    clinic.charge(epsilon=2.5, what="last year", tool="tumult")
    accountant = create_accountant("prv")
    accountant.history = planned(optimizer, loader)
    epsilon = float(accountant.get_epsilon(DELTA))
    assert epsilon > 0.5
    with (
        pytest.raises(BudgetExceeded),
        clinic.spending(epsilon=epsilon, delta=DELTA, what="network", tool="opacus"),
    ):
        trained(private, optimizer, loader)
    assert engine.accountant.history == []
    with clinic.spending(epsilon=count.map(1) / 2, what="beds", tool="opendp"):
        count(217)


def test_the_command_books_both_and_refuses_what_is_beyond_the_cap(dpbo, clinic, count, network, here):
    _, _, optimizer, loader = network
    event = {
        "class_name": "SelfComposedDpEvent",
        "count": EPOCHS * len(loader),
        "event": {
            "class_name": "PoissonSampledDpEvent",
            "sampling_probability": loader.sample_rate,
            "event": {"class_name": "GaussianDpEvent", "noise_multiplier": optimizer.noise_multiplier},
        },
    }
    (here / "network.json").write_text(json.dumps(event))
    booked = ("budget", "charge", "clinic", "--what")
    assert dpbo(*booked, "beds", "--epsilon", count.map(1), "--tool", "opendp", "--id", "monday")[0] == 0
    training = (*booked, "network", "--event", "network.json", "--tool", "opacus")
    assert dpbo(*training, "--id", "first")[0] == 0
    for _ in range(2):
        assert dpbo(*booked, "beds", "--epsilon", 3.0, "--tool", "opendp")[0] == 3
    (dataset,) = json.loads(dpbo("budget", "--json")[1])["datasets"]
    assert [entry["study"] for entry in dataset["entries"]] == ["beds", "network"]
    assert dataset["spent"]["epsilon"] < 3.0
