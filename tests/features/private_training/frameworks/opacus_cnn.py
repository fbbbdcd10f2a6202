"""Opacus trains a small network on digits inside `PrivateTrials`. Run by `make frameworks`, which installs it."""

import warnings

import opacus
import pytest
import torch
from opacus_trainer import correct, train

from dpbo import DpSgd, PrivateTrials
from dpbo_core.errors import StudyInvalid

pytest_plugins = "trainer_checks"  # beside this file


def search(**others):
    settings = {
        "epsilon": 8.0,
        "delta": 1e-5,
        "neighbours": "add_or_remove",
        "dataset": "digits",
        "budget": (8.0, 1e-5),
        "training": DpSgd(batch_size=270, epochs="epochs"),
        "score": correct,
        "trials": 5,
        "run": 8,
        "people": "disjoint",
        "accepts": ("declared_cost", "disjoint_people", "contained_elsewhere"),
    }
    space = {"lr": [0.5, 1.0, 3.0], "max_grad_norm": [0.5, 2.0], "epochs": [5, 10]}
    return PrivateTrials(others.pop("train", train), space, **settings | others)


@pytest.fixture
def halves(digits):
    """Two tables: under "add_or_remove" dpbo divides none."""
    X, y = digits
    return (X[450:], y[450:]), (X[:450], y[:450])


def test_opacus_samples_and_counts_as_dp_sgd_is_declared():
    """At batches of 256 of 1,078 records its rate is 1/5, and 30 epochs have 150 steps."""
    data = torch.utils.data.TensorDataset(torch.zeros(1078, 1), torch.zeros(1078, dtype=torch.long))
    model = torch.nn.Linear(1, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        engine = opacus.PrivacyEngine()
        _, _, loader = engine.make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            data_loader=torch.utils.data.DataLoader(data, batch_size=256),
            noise_multiplier=1.0,
            max_grad_norm=1.0,
        )
    assert DpSgd(batch_size=256, epochs=30).key({}, 1078) == (loader.sample_rate, 30 * len(loader))


def test_the_best_of_a_hidden_number_of_networks_is_released(checked, halves):
    assert search().rehearse(*halves)["spent"]
    found = checked(search, *halves)
    assert "reported" in found.checked
    assert found.params["epochs"] in (5, 10)
    assert found.model(torch.zeros(1, 1, 8, 8)).shape == (1, 10)


def test_a_seed_set_to_a_constant_is_found(here, halves):
    with pytest.raises(StudyInvalid, match="constant"):
        search(train=train_with_a_seed).rehearse(*halves)


def train_with_a_seed(params, data, trial):
    model = train(params, data, trial)
    torch.manual_seed(0)
    return model
