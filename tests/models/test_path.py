"""Starts along the regularisation path: they save time and change no guarantee.

The oracle is the cold start: two certified models of one λ lie within the sum of their certificates of each other.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_training import DEGENERATE, LAMBDAS, world

from dpbo_core.models.linear import newton
from dpbo_core.models.linear.fit import minimise, train
from dpbo_core.models.linear.newton import Start
from dpbo_core.models.linear.signed_rows import SignedRows
from dpbo_core.models.linear_trainer import LinearTrainer
from dpbo_core.models.scores.sigmoid import Sigmoid


def trainer(X, signs, tolerance=None):
    return LinearTrainer(X, signs, "logistic", Sigmoid(10.0), tolerance)


def bits(trained):
    return {lam: (model.weights.tobytes(), model.certificate) for lam, model in trained.items()}


@pytest.mark.parametrize("seed", range(2))
def test_a_model_is_the_same_whichever_were_trained_before_it(seed):
    X, signs = world(400, 7)
    lambdas = [float(lam) for lam in np.geomspace(1e-5, 30.0, 12)]
    alone = {lam: trainer(X, signs).train({"lambda": lam}) for lam in lambdas}
    order = np.random.default_rng(seed).permutation(lambdas)
    together = trainer(X.copy(order="F"), signs)
    assert bits({float(lam): together.train({"lambda": float(lam)}) for lam in order}) == bits(alone)


@pytest.mark.parametrize("name", DEGENERATE)
def test_every_model_of_the_path_is_certified_like_a_cold_one(name):
    X, signs = DEGENERATE[name]
    models = trainer(X, signs)
    for lam in LAMBDAS:
        ours, cold = models.train({"lambda": lam}), train(X, signs, loss="logistic", regularization=lam)
        assert ours.certificate <= 1e-6
        apart = np.linalg.norm(ours.weights - cold.weights)
        assert apart <= (ours.certificate + cold.certificate) * (1 + 1e-9)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), log_lam=st.floats(-4, 2), scale=st.floats(-3, 4), rank=st.integers(0, 5))
def test_no_start_however_bad_changes_what_a_certificate_says(seed, log_lam, scale, rank):
    rng, (X, signs) = np.random.default_rng(seed), world(40, 5)
    A = rng.normal(size=(5, rank)) * 10.0 ** rng.uniform(-4, 2)
    lam = 10.0**log_lam
    start = Start(10.0**scale * rng.normal(size=5), newton.factored(A @ A.T, lam))
    ours = minimise(SignedRows.of(X, signs), loss="logistic", regularization=lam, start=start)
    cold = train(X, signs, loss="logistic", regularization=lam)
    assert ours.certificate <= 1e-6
    assert np.linalg.norm(ours.weights - cold.weights) <= ours.certificate + cold.certificate
