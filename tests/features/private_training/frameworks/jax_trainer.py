"""A linear model of ten classes, trained by JAX-Privacy, as a trial's process imports it."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax_privacy import batch_selection, clipped_grad, noise_addition
from jax_privacy.experimental.accounting import dpsgd_event

RATE = 0.25
PADDED_TO = 64  # records, so that few sizes of a batch are compiled


class Linear:
    """Predicts the class with the largest score."""

    def __init__(self, weights):
        self.weights = np.asarray(weights)

    def predict(self, X):
        return np.argmax(X @ self.weights, axis=1)


def loss(weights, X, y):
    return optax.losses.softmax_cross_entropy_with_integer_labels(X @ weights, y).mean()


def train(params, data, trial):
    X, y = data
    steps, norm = params["steps"], params["max_grad_norm"]
    gradients = jax.jit(clipped_grad(loss, l2_clip_norm=norm, batch_argnums=(1, 2)))
    noise = noise_addition.gaussian_privatizer(stddev=trial.noise_multiplier * norm, prng_key=trial.jax_key())
    optimizer = optax.chain(noise, optax.sgd(params["lr"] / (RATE * len(y))))
    weights = jnp.zeros((X.shape[1], 10))
    state = optimizer.init(weights)
    batches = batch_selection.CyclicPoissonSampling(sampling_prob=RATE, iterations=steps)
    for batch in batches.batch_iterator(len(y), rng=trial.rng):
        padded = batch_selection.pad_to_multiple_of(batch, PADDED_TO)
        total = gradients(weights, X[padded], y[padded], is_padding_example=padded == -1)
        moved, state = optimizer.update(total, state)
        weights = optax.apply_updates(weights, moved)
    trial.spent(dpsgd_event(trial.noise_multiplier, steps, sampling_prob=RATE))
    return Linear(weights)
