"""Each private training against independent oracles: its curve, its sensitivity, its model at no noise."""

import math

import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld import privacy_loss_distribution
from private_worlds import a_row, records, with_record
from scipy import optimize, special
from worlds import Watch

from dpbo.features.private_training import dp_sgd, noisy_gradient_descent, output_perturbation, solving
from dpbo.features.private_training.base import check_axes
from dpbo.features.private_training.dp_sgd import DpSgd
from dpbo.features.private_training.gradients import STEPS, clipped_sum, sum_sensitivity
from dpbo.features.private_training.noisy_gradient_descent import NoisyGradientDescent
from dpbo.features.private_training.objective_perturbation import ObjectivePerturbation
from dpbo.features.private_training.output_perturbation import OutputPerturbation
from dpbo_core.data import Encoded
from dpbo_core.errors import MechanismRefused, StudyInvalid
from dpbo_core.mechanisms.noise import InjectedNoise, OperatingSystemNoise
from dpbo_core.mechanisms.vectors import DiscreteGaussianVector, DiscreteLaplaceVector, poisson_sample
from dpbo_core.models.linear.tilted import _accelerated_descent, minimise_tilted
from dpbo_core.privacy.renyi import RenyiCurve
from dpbo_core.theorems.chaudhuri_2011 import corollary_8_sensitivity, theorem_9_jacobian
from dpbo_core.theorems.sampled_gaussian import replace_one_renyi
from dpbo_core.theorems.wang_2023 import best_epsilon

SYSTEM = OperatingSystemNoise()


def quiet(factor=0.0, seed=0):
    return InjectedNoise(np.random.default_rng(seed), factor)


def test_a_pure_curve_is_randomised_response():
    for epsilon in (1e-7, 0.01, 1.0, 8.0):
        p = math.exp(epsilon) / (1 + math.exp(epsilon))
        P, Q = np.array([p, 1 - p]), np.array([1 - p, p])
        curve = RenyiCurve(epsilon=epsilon)
        for alpha in (1.01, 2.0, 30.0):
            exact = math.log(float((P**alpha * Q ** (1 - alpha)).sum())) / (alpha - 1)
            assert curve.at(alpha) >= exact - 1e-14
            assert curve.at(alpha) <= exact + 1e-12 * (1 + 1 / (alpha - 1)) + 1e-9 * exact
        assert curve.at(1e9) <= epsilon * (1 + 1e-12)


def test_curves_add_and_tables_look_upwards():
    table = RenyiCurve(table=((2.0, 0.5), (4.0, 1.0)))
    assert table.at(1.5) == pytest.approx(0.5)
    assert table.at(3.0) == pytest.approx(1.0)
    assert table.at(5.0) == math.inf
    total = table + RenyiCurve(rho=0.1, epsilon=0.2) + RenyiCurve(table=((3.0, 0.25),))
    assert total.at(3.0) == pytest.approx(1.0 + 0.3 + RenyiCurve(epsilon=0.2).at(3.0) + 0.25)
    assert total.orders == (2.0, 3.0, 4.0)
    for bad in (
        {"rho": -1.0},
        {"epsilon": math.nan},
        {"table": ((1.0, 0.1),)},
        {"table": ((3.0, 0.1), (2.0, 0.1))},
    ):
        with pytest.raises(ValueError, match="Rényi"):
            RenyiCurve(**bad)


@pytest.mark.parametrize(("rate", "sigma"), [(0.01, 1.0), (0.1, 3.0)])
def test_the_library_s_loss_distribution_is_never_above_the_curve(rate, sigma):
    T, delta = 1000, 1e-5
    pair = privacy_loss_distribution.from_gaussian_mechanism(
        sigma, sampling_prob=rate, neighboring_relation=NeighboringRelation.REPLACE_ONE
    )
    least = pair.self_compose(T).get_epsilon_for_delta(delta)
    curve = dp_sgd._renyi_curve(sigma, rate, T)
    ours = best_epsilon(curve.at, curve.orders, delta=delta)
    assert least <= ours <= 1.15 * least
    if rate == 0.01:
        assert (least, ours) == (pytest.approx(2.844, abs=0.001), pytest.approx(3.111, abs=0.001))


def test_no_pair_of_gradients_costs_more_than_the_opposite_ones():
    """Two dimensions, by a grid: shifts of any angle and any length up to 1, at the price of the pair."""
    sigma, rate, alpha = 0.8, 0.2, 3.0
    bound = replace_one_renyi(alpha=alpha, rate=rate, noise_multiplier=sigma)
    x, y = np.meshgrid(*2 * (np.linspace(-9, 9, 361),))
    base = np.exp(-(x**2 + y**2) / (2 * sigma**2))
    for a, angle in ((1.0, math.pi), (1.0, 2.5), (0.6, math.pi), (1.0, 1.0), (0.0, 0.0)):
        P, Q = (
            (1 - rate) * base + rate * np.exp(-((x - u) ** 2 + (y - v) ** 2) / (2 * sigma**2))
            for u, v in ((1.0, 0.0), (a * math.cos(angle), a * math.sin(angle)))
        )
        for first, second in ((P, Q), (Q, P)):
            cost = math.log((first**alpha * second ** (1 - alpha)).sum() / base.sum()) / (alpha - 1)
            assert cost <= bound + 1e-12
            assert cost > 0.999 * bound or (a, angle) != (1.0, math.pi)


def gradients(data, W, C):
    """Each record's gradient by itself, clipped: the slow way."""
    total = np.zeros_like(W)
    for x, label in zip(data.X, data.labels, strict=True):
        if W.shape[1] == 1:
            y = 1.0 if label != 0 else -1.0
            g = np.outer(x, [-y / (1 + math.exp(y * float(x @ W[:, 0])))])
        else:
            s = x @ W
            p = np.exp(s - s.max()) / np.exp(s - s.max()).sum()
            p[label] -= label >= 0
            g = np.outer(x, p)
        norm = np.linalg.norm(g)
        total += g * min(1.0, C / norm) if norm > 0 else 0.0
    return total


@pytest.mark.parametrize("classes", [2, 3])
def test_clipping_in_closed_form_is_clipping_one_by_one(classes):
    data = records(n=40, n_classes=classes)
    K = 1 if classes == 2 else classes
    W = np.random.default_rng(1).normal(size=(4, K))
    for C in (0.05, 0.4, 5.0):
        total = clipped_sum(data, W, C).reshape(4, K) * C / STEPS
        np.testing.assert_allclose(total, gradients(data, W, C), rtol=1e-6, atol=40 * C / STEPS)


@pytest.mark.parametrize("classes", [2, 5])
def test_no_replaced_record_moves_the_sum_further_than_said(classes):
    rng = np.random.default_rng(2)
    data, K = records(n=30, n_classes=classes), 1 if classes == 2 else classes
    worst = 0.0
    for _ in range(300):
        W, C = rng.normal(size=(4, K)) * rng.choice([0.1, 3.0]), float(rng.choice([0.01, 0.3, 2.0]))
        row, label = (np.zeros(4), -1) if rng.random() < 0.1 else (a_row(rng, 4), int(rng.integers(classes)))
        other = with_record(data, 3, row, label)
        moved = np.linalg.norm(clipped_sum(data, W, C) - clipped_sum(other, W, C))
        assert moved <= sum_sensitivity(moves=2, n_records=30, size=4 * K)
        joined = np.ones(30, dtype=bool)
        joined[3] = False
        removed = np.linalg.norm(clipped_sum(data, W, C) - clipped_sum(data, W, C, joined))
        assert removed <= sum_sensitivity(moves=1, n_records=30, size=4 * K)
        worst = max(worst, moved / sum_sensitivity(moves=2, n_records=30, size=4 * K))
    assert worst > 0.9  # the bound is met: half of it would be caught


@pytest.mark.parametrize("classes", [2, 3])
def test_without_noise_gradient_descent_finds_the_model(classes):
    data = records(n=200, n_classes=classes)
    estimator = "logistic" if classes == 2 else "softmax"
    point = {"learning_rate": 4.0, "clipping_norm": 10.0, "epochs": 100}
    model = NoisyGradientDescent(estimator, rho=1.0).train(data, point, quiet())
    if classes == 2:
        right = (data.X @ model.weights > 0) == (data.labels == 1)
    else:
        right = model.predicted(data.X) == data.labels
    assert right.mean() > 0.85
    batches = DpSgd(estimator, noise_multiplier=1.0, rate=0.1, most_epochs=5.0)
    sampled = batches.train(data, {"learning_rate": 2.0, "clipping_norm": 10.0, "epochs": 5}, quiet())
    assert np.abs(sampled.weights).max() > 0.1


def test_the_noise_of_every_step_has_the_scale_that_its_price_asks_for():
    data, rho, T, watch = records(n=50), 0.02, 4, Watch()
    for _ in range(60):
        NoisyGradientDescent("logistic", rho).train(data, {"epochs": T}, watch)
    noise = np.concatenate(watch.drawn)
    sigma = sum_sensitivity(moves=2, n_records=50, size=4) / math.sqrt(2 * rho / T)
    assert len(watch.drawn) == 60 * T
    # the sample deviation of 960 normals: 6 standard errors
    assert abs(noise.std() / sigma - 1) < 6 / math.sqrt(2 * noise.size)


def test_hostile_records_and_rates_never_raise():
    data = Encoded(np.zeros((5, 3)), np.full(5, -1, dtype=np.int64), np.ones(5, dtype=bool), 3)
    for eta in (1e-300, 1.0, 1e300):
        point = {"learning_rate": eta, "clipping_norm": 1.0, "epochs": 3}
        model = NoisyGradientDescent("softmax", rho=0.1).train(data, point, SYSTEM)
        assert np.isfinite(model.weights).all()
    blank = Encoded(np.zeros((5, 3)), np.full(5, -1, dtype=np.int64), np.ones(5, dtype=bool), 2)
    for algorithm in (OutputPerturbation(0.5), ObjectivePerturbation(5.0)):
        assert np.isfinite(algorithm.train(blank, {"lambda": 0.1}, SYSTEM).weights).all()


def logistic_minimum(Z, lam, tilt):
    def value(w):
        m = Z @ w
        f = np.logaddexp(0, -m).mean() + lam / 2 * w @ w + tilt @ w / len(Z)
        return f, lam * w - Z.T @ (special.expit(-m)) / len(Z) + tilt / len(Z)

    start = np.zeros(Z.shape[1])
    return optimize.minimize(value, start, jac=True, method="BFGS", options={"gtol": 1e-11}).x


@pytest.mark.parametrize("lam", [1e-3, 0.1, 5.0])
def test_the_tilted_minimum_is_within_its_tolerance(lam):
    data = records(n=50)
    Z = data.X * data.signs[:, None]
    for tilt in (np.zeros(4), np.array([3.0, -40.0, 0.1, 7.0])):
        exact = logistic_minimum(Z, lam, tilt)
        tau = 1e-6 / (50 * lam)
        assert np.linalg.norm(minimise_tilted(Z, lam, tilt, tau) - exact) <= tau + 1e-6 * np.linalg.norm(exact)
        if lam >= 0.1:  # the way that needs no certificate gets there too
            assert np.linalg.norm(_accelerated_descent(Z, lam, tilt, tau) - exact) <= tau + 1e-6 * np.linalg.norm(
                exact
            )


def test_no_replaced_record_moves_the_weights_further_than_corollary_8():
    rng, worst = np.random.default_rng(4), 0.0
    for lam in (0.01, 0.1, 1.0):
        bound = corollary_8_sensitivity(n_records=8, regularization=lam, solver_tolerance=1e-9)
        for _ in range(40):
            data = records(n=8, seed=int(rng.integers(1000)))
            row = a_row(rng, 4)
            same = with_record(data, 0, row, 1), with_record(data, 0, -row, 1)
            w, v = (minimise_tilted(s.X * s.signs[:, None], lam, np.zeros(4), 1e-9) for s in same)
            worst = max(worst, float(np.linalg.norm(w - v)) / bound)
            assert np.linalg.norm(w - v) <= bound
    assert worst > 0.3


def test_the_tilt_of_an_objective_has_the_scale_that_its_price_asks_for():
    """A replaced record moves the sum of gradients by 2 in length, so by 2√d in ℓ₁."""
    n, d, runs, epsilon, lam = 5, 16, 50, 6.0, 0.3
    algorithm, watch = ObjectivePerturbation(epsilon), Watch()
    for _ in range(runs):
        algorithm.train(records(n=n, d=d), {"lambda": lam}, watch)
    tilts = np.array(watch.drawn[::2]) * 2.0**-20  # the other draw hides how the minimum was computed
    b = 2.0 * math.sqrt(d) / algorithm.tilt_epsilon(n_records=n, regularization=lam)
    assert tilts.shape == (runs, d)
    assert abs(np.abs(tilts).mean() / b - 1) < 6 / math.sqrt(runs * d)


def test_output_perturbation_honours_its_promise_in_one_dimension():
    """The released integer is round(w/h) plus discrete Laplace noise: the loss is |shift|/b, both measured."""
    n, lam, epsilon = 5, 0.3, 0.7
    shifts = []
    for row, label in ((1.0, 1), (-1.0, 1)):
        data = Encoded(np.full((n, 1), 0.2), np.ones(n, dtype=np.int64), np.zeros(n, dtype=bool), 2)
        data = with_record(data, 0, np.array([row]), label)
        shifts.append(OutputPerturbation(epsilon).train(data, {"lambda": lam}, quiet()).weights[0])
    tau = solving.TOLERANCE / (n * lam)
    sensitivity = corollary_8_sensitivity(n_records=n, regularization=lam, solver_tolerance=tau)
    assert 0.2 * sensitivity < abs(shifts[0] - shifts[1]) <= sensitivity
    watch = Watch()
    for _ in range(300):
        OutputPerturbation(epsilon).train(data, {"lambda": lam}, watch)
    h = 2.0 ** (math.floor(math.log2(sensitivity)) - 20)
    b = np.abs(np.array(watch.drawn)).mean() * h  # the mean of |Laplace| is its scale; 6 standard errors
    assert abs(b / (sensitivity / epsilon) - 1) < 6 / math.sqrt(300)


@pytest.mark.parametrize("lam", [0.02, 0.2])
def test_objective_perturbation_needs_exactly_its_two_parts_in_one_dimension(lam):
    """The density of the exact minimiser, change of variables and all, on the two worst neighbours."""
    n, epsilon = 4, 6.0
    jacobian = theorem_9_jacobian(n_records=n, regularization=lam, curvature=0.25)
    beta = epsilon - jacobian  # density of the tilt ∝ exp(−β|b|); on one feature neighbours move b by at most 1
    assert beta > 0
    w = np.linspace(-12, 12, 48_001)

    def log_density(z):
        m = np.outer(z, w)
        sigma = 1 / (1 + np.exp(m))
        b = -n * lam * w + (z[:, None] * sigma).sum(axis=0)
        slope = n * lam + (z[:, None] ** 2 * sigma * (1 - sigma)).sum(axis=0)
        return -beta * np.abs(b) + np.log(slope)

    common = np.full(n - 1, 1e-9)
    worst = 0.0
    for first in (1.0, -1.0, 0.5, 0.0):
        for second in (1.0, -1.0, 0.5, 0.0):
            loss = np.abs(log_density(np.append(common, first)) - log_density(np.append(common, second))).max()
            worst = max(worst, float(loss))
    assert worst <= epsilon + 1e-9
    assert worst > beta + 0.1 * jacobian  # with the Jacobian left out this fails
    inside = ObjectivePerturbation(epsilon).tilt_epsilon(n_records=n, regularization=lam)
    assert inside < epsilon - jacobian


@pytest.mark.parametrize(("d", "n", "lam", "epsilon"), [(2, 2, 0.02, 8.0), (3, 3, 0.05, 6.0)])
def test_the_density_of_tilted_minimisers_moves_within_its_price_in_more_dimensions(d, n, lam, epsilon):
    """By the tilt that each w is the minimiser of, and its Jacobian by complex steps: neither is the product's."""
    algorithm, rng, worst = ObjectivePerturbation(epsilon), np.random.default_rng(2), 0.0
    scale = algorithm._tilt(n, d, lam).scale * 2.0**-20

    def tilt(w, Z):
        return -n * lam * w + Z.T @ (1 / (1 + np.exp(Z @ w)))

    def log_density(w, Z):
        jacobian = np.stack([tilt(w + step, Z).imag for step in 1e-30j * np.eye(d)]) / 1e-30
        return -np.abs(tilt(w, Z)).sum() / scale + np.linalg.slogdet(jacobian)[1]

    for _ in range(1500):
        Z = np.stack([a_row(rng, d) for _ in range(n)])
        first = rng.choice([1.0, -1.0], d) / math.sqrt(d) if rng.random() < 0.5 else a_row(rng, d)
        other, w = np.vstack([first, Z[1:]]), -first * rng.uniform(0.0, 12.0) + rng.normal(size=d)
        worst = max(worst, abs(log_density(w, Z) - log_density(w, other)))
    assert np.linalg.norm(minimise_tilted(Z, lam, tilt(w, Z), 1e-9) - w) <= 1e-9
    price = algorithm.tilt_epsilon(n_records=n, regularization=lam)
    price += theorem_9_jacobian(n_records=n, regularization=lam, curvature=0.25)
    assert 0.5 * price < worst <= price < epsilon


def test_a_private_model_is_as_good_as_its_budget():
    data = records(n=2000, d=3)
    Z = data.X * data.signs[:, None]
    best = (logistic_minimum(Z, 0.01, np.zeros(3)) @ Z.T > 0).mean()
    for algorithm in (OutputPerturbation(20.0), ObjectivePerturbation(20.0)):
        model = algorithm.train(data, {"lambda": 0.05}, SYSTEM)
        assert (Z @ model.weights > 0).mean() > best - 0.05
    strong = NoisyGradientDescent("logistic", rho=2.0).train(data, {"learning_rate": 4.0}, SYSTEM)
    assert (Z @ strong.weights > 0).mean() > best - 0.05


def test_a_sample_joins_each_record_at_its_rate():
    joined = np.array([poisson_sample(1000, 0.2, SYSTEM).sum() for _ in range(50)])
    assert abs(joined.mean() - 200) < 6 * math.sqrt(1000 * 0.2 * 0.8 / 50)
    assert joined.std() > 5  # not a fixed size
    assert poisson_sample(3, 1.0, SYSTEM).all()


def test_a_miscalibrated_vector_is_refused(monkeypatch):
    for mechanism in (DiscreteGaussianVector(10.0, 0.5, 3), DiscreteLaplaceVector(10, 0.5, 3)):
        assert mechanism.draw(SYSTEM).shape == (3,)
        monkeypatch.setattr(type(mechanism), "scale", property(lambda self: 3.0))
        with pytest.raises(MechanismRefused, match="above the planned"):
            mechanism.draw(SYSTEM)
    monkeypatch.undo()
    with pytest.raises(MechanismRefused, match="64-bit"):
        DiscreteGaussianVector(1e30, 0.5, 3).draw(SYSTEM)


def test_axes_an_algorithm_does_not_know_are_refused():
    check_axes("dp_sgd", dp_sgd.AXES, ({"learning_rate": 0.5},))
    with pytest.raises(StudyInvalid, match="learning_rate"):
        check_axes("noisy_gradient_descent", noisy_gradient_descent.AXES, ({"learning_rat": 0.5},))
    with pytest.raises(StudyInvalid, match="lacks lambda"):
        check_axes("output_perturbation", output_perturbation.AXES, ({},))
    for value in (0.0, -1.0, math.nan, "x", 2.5):
        with pytest.raises(StudyInvalid, match="epochs takes"):
            check_axes("dp_sgd", dp_sgd.AXES, ({"epochs": value},))


def test_a_full_batch_costs_a_gaussian_that_moves_by_two():
    """At q = 1 a record's two versions are 2C apart, so ρ = 2/σ² a step."""
    full = DpSgd("logistic", 1.5, rate=1.0, most_epochs=3.0)
    for alpha in (1.5, 3.0, 16.0):
        assert full.cost.curve.at(alpha) == pytest.approx(3 * 2 * alpha / 1.5**2, rel=1e-10)
