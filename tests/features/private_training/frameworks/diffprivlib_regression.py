"""diffprivlib fits a logistic regression inside `PrivateTrials`. Run by `make frameworks`, which installs it."""

import diffprivlib_trainer

from dpbo import PrivateTrials, PureDp

pytest_plugins = "trainer_checks"  # beside this file


def search():
    return PrivateTrials(
        diffprivlib_trainer.train,
        {"C": [0.01, 0.1, 1.0, 10.0, 100.0, 1000.0], "fit_intercept": [True, False]},
        epsilon=8.0,
        delta=0.0,
        dataset="digits",
        budget=(8.0, 0.0),
        training=PureDp(),
        score=diffprivlib_trainer.odd_or_even,
        trials=5,
        run=8,
        accepts=("declared_cost", "contained_elsewhere"),
    )


def test_the_best_of_a_hidden_number_of_regressions_is_released(checked, digits):
    assert search().rehearse(digits)["spent"]
    found = checked(search, digits)
    assert "reported" in found.checked
    assert found.model.weights.shape == (64,)
