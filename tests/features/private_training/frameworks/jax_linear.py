"""JAX-Privacy trains a linear model on digits inside `PrivateTrials`. Run by `make frameworks`."""

import jax_trainer

from dpbo import DpSgd, PrivateTrials

pytest_plugins = "trainer_checks"  # beside this file


def search():
    return PrivateTrials(
        jax_trainer.train,
        {"lr": [0.5, 2.0, 8.0], "max_grad_norm": [0.5, 2.0], "steps": [20, 40]},
        epsilon=8.0,
        delta=1e-5,
        neighbours="zero_out",  # what an ε of JAX-Privacy means
        dataset="digits",
        budget=(8.0, 1e-5),
        training=DpSgd(sampling_probability=jax_trainer.RATE, steps="steps"),
        score="accuracy",
        trials=5,
        run=8,
        accepts=("declared_cost", "contained_elsewhere"),
    )


def test_the_best_of_a_hidden_number_of_jax_trainings_is_released(checked, digits):
    assert search().rehearse(digits)["spent"]
    found = checked(search, digits)
    assert "reported" in found.checked
    assert found.model.weights.shape == (64, 10)
