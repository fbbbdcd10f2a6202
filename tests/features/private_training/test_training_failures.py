"""Built-in trainings cannot fail, and what could fail after the charge is refused before it."""

import math
from dataclasses import replace

import numpy as np
import pytest
from private_worlds import a_row, with_record
from test_dp_hypo import study
from test_failures import SECRET, SYSTEM, raising
from worlds import Memory, problem, run, smooth_table

from dpbo.features.private_training import hypo_search
from dpbo.features.private_training.base import Sizes
from dpbo.features.private_training.dp_hypo import DpHypo
from dpbo.features.private_training.dp_sgd import DpSgd
from dpbo.features.private_training.noisy_gradient_descent import NoisyGradientDescent
from dpbo.features.private_training.objective_perturbation import ObjectivePerturbation
from dpbo.features.private_training.output_perturbation import OutputPerturbation
from dpbo.features.private_training.solving import check_solvable, solvable, tolerance
from dpbo_core.data import Encoded
from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.mechanisms.noise import InjectedNoise, Noise
from dpbo_core.models.linear import tilted
from dpbo_core.study import StudySpec
from dpbo_core.study.resolve import plan_study
from dpbo_core.study.tuning import run_study
from dpbo_core.theorems.chaudhuri_2011 import corollary_8_sensitivity


def hostile(n, d, rng):
    """Data sets that break solvers, as signed rows of norm at most 1."""
    x = rng.normal(size=(n, d))
    x /= np.linalg.norm(x, axis=1)[:, None] * (1 + 1e-12)
    signs, side = rng.choice([-1.0, 1.0], n)[:, None], np.sign(x @ rng.normal(size=d))[:, None]
    same = np.repeat(x[:1], n, axis=0)
    against = same.copy()
    against[0] *= -1.0
    outlier = x * side
    outlier[0] *= -1.0
    nearly = same * (1 - 1e-9)
    nearly[:, -1] += rng.normal(size=n) * 1e-10
    return {
        "random": x * signs,
        "separable": x * side,
        "one class": np.abs(x),
        "collinear": np.outer(rng.uniform(-1, 1, n), x[0]),
        "duplicates": same,
        "duplicates, opposed": same * signs,
        "one against all": against,
        "one outlier": outlier,
        "nearly collinear": nearly,
        "zeros": np.zeros((n, d)),
        "one record": np.vstack([x[:1], np.zeros((n - 1, d))]),
        "tiny": 1e-9 * x * signs,
        "denormal": 1e-310 * x,
        "many scales": x * 10.0 ** -rng.uniform(0, 14, size=n)[:, None],
        "scales of features": x * 10.0 ** -np.linspace(0, 14, d),
    }


def encoded(Z):
    labels = np.ones(len(Z), dtype=np.int64)
    labels[: len(Z) // 5] = -1  # broken: the zero row
    Z = Z.copy()
    Z[: len(Z) // 5] = 0.0
    return Encoded(Z, labels, labels < 0, 2)


def least_lambda(n, d, tilt_norm=0.0):
    low, high = -60.0, 0.0
    for _ in range(50):
        middle = 0.5 * (low + high)
        fine = solvable(n_records=n, n_features=d, regularization=math.exp(middle), tilt_norm=tilt_norm)
        low, high = (low, middle) if fine else (middle, high)
    return math.exp(high)


@pytest.mark.parametrize(("n", "d"), [(1, 1), (30, 5)])
def test_no_data_set_makes_a_built_in_training_fail(n, d):
    rng = np.random.default_rng(n)
    sizes = Sizes(n, d, 2)
    small = least_lambda(n, d)
    perturbed = [{"lambda": value} for value in (small, 1e-5, 1.0, 1e99)]
    steps = [
        {"learning_rate": rate, "clipping_norm": clip, "epochs": 2}
        for rate, clip in ((1e-100, 1e100), (1.0, 1.0), (1e100, 1e-100))
    ]
    for algorithm, points in (
        (OutputPerturbation(1.0), perturbed),
        (ObjectivePerturbation(60.0), perturbed[1:]),
        (NoisyGradientDescent("logistic", 0.5), steps),
        (NoisyGradientDescent("softmax", 0.5), steps),
        (DpSgd("logistic", 2.0, 0.5, 2.0), steps),
    ):
        for point in points:
            try:
                algorithm.check(sizes, point)
            except StudyInvalid:
                assert isinstance(algorithm, ObjectivePerturbation)  # the tilt's Jacobian costs more than ε
                continue
            for name, Z in hostile(n, d, rng).items():
                with np.errstate(all="ignore"):
                    weights = algorithm.train(encoded(Z), point, SYSTEM).weights
                assert np.isfinite(weights).all(), (name, point)


def test_the_minimum_is_certified_for_hostile_data_sets_down_to_the_least_lambda():
    rng, worst = np.random.default_rng(2), 0.0
    for n, d in ((5, 2), (60, 4), (400, 12)):
        for lam in (least_lambda(n, d), 1e-8, 1e-4, 1.0, 1e50):
            tau = tolerance(n_records=n, n_features=d, regularization=lam)
            for Z in hostile(n, d, rng).values():
                with np.errstate(all="ignore"):
                    w = tilted.minimise_tilted(Z, lam, np.zeros(d), tau)
                    worst = max(worst, tilted._visit(Z, w, lam, np.zeros(d))[3] / tau)
    assert 0.1 < worst <= 1.0


def test_a_singular_system_falls_to_the_descent(monkeypatch):
    """Collinear rows, the solver refusing: what comes out is as near to the minimum as what Newton gives."""
    rng = np.random.default_rng(3)
    Z, lam = np.outer(rng.uniform(-1, 1, 30), a_row(rng, 3)), 1e-3
    tau = tolerance(n_records=30, n_features=3, regularization=lam)
    newton = tilted.minimise_tilted(Z, lam, np.zeros(3), tau)
    for step in (None, np.full(3, np.nan)):

        def refuse(*_, step=step):
            if step is None:
                raise np.linalg.LinAlgError(SECRET)
            return step

        monkeypatch.setattr(np.linalg, "solve", refuse)
        fallen = tilted.minimise_tilted(Z, lam, np.zeros(3), tau)
        monkeypatch.undo()
        assert 0.0 < np.linalg.norm(fallen - newton) <= 2.0 * tau


def test_the_steps_of_the_descent_hold_their_promise_without_a_certificate(monkeypatch):
    """‖w_k − w*‖ ≤ τ/2 after `descent_steps`, on hostile data sets, w* by Newton far below τ."""
    rng = np.random.default_rng(4)
    visit = tilted._visit
    for lam, tilt in ((1e-3, np.array([5.0, -20.0, 1.0])), (10.0, np.zeros(3))):
        for name, Z in hostile(20, 3, rng).items():
            tau = 1e-5 / (20 * lam)
            exact = tilted.minimise_tilted(Z, lam, tilt, 1e-4 * tau)
            monkeypatch.setattr(tilted, "_visit", lambda *a: (*visit(*a)[:3], math.inf))
            w = tilted._accelerated_descent(Z, lam, tilt, tau)
            monkeypatch.undo()
            assert np.linalg.norm(w - exact) <= 0.51 * tau, (name, lam)


def test_output_perturbation_on_collinear_rows_tells_no_neighbours_apart():
    """MATH 6.9's example: no model on D, a model on D′. Now both have one, as near as guaranteed."""
    n, d = 12, 3
    rng = np.random.default_rng(5)
    lam = least_lambda(n, d)
    collinear = Encoded(
        np.outer(rng.uniform(0.5, 1, n), a_row(rng, d)), np.arange(n) % 2, np.zeros(n, dtype=bool), 2
    )
    other = with_record(collinear, 0, a_row(rng, d), 1)
    quiet = InjectedNoise(np.random.default_rng(0), factor=0.0)
    w, v = (OutputPerturbation(1.0).train(data, {"lambda": lam}, quiet).weights for data in (collinear, other))
    tau = tolerance(n_records=n, n_features=d, regularization=lam)
    assert np.linalg.norm(w - v) <= 1.01 * corollary_8_sensitivity(
        n_records=n, regularization=lam, solver_tolerance=tau
    )


@pytest.mark.parametrize("base", ["output_perturbation", "objective_perturbation"])
def test_a_lambda_that_doubles_cannot_solve_is_refused_before_the_charge(tmp_path, base):
    for low in (1e-20, 3e-20, 1e-19, 1e-12, 1e200):
        tables = study(tmp_path, base)
        tables["space"] = {"lambda": {"low": low, "high": max(1.0, 10.0 * low), "log": True, "points": 3}}
        tables["privacy"]["epsilon"] = tables["budget"]["epsilon"] = 300.0
        spec = StudySpec.from_dict(tables)
        with pytest.raises(StudyInvalid, match="lambda"):
            plan_study(spec)
    ledger = PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}")
    with pytest.raises(StudyInvalid, match="lambda"):
        run_study(spec, ledger=ledger, folder=tmp_path)
    assert ledger.accounts() == ()


def test_the_letter_names_a_lambda_that_can_be_solved():
    with pytest.raises(StudyInvalid) as refused:
        check_solvable("output_perturbation", n_records=1000, n_features=20, regularization=1e-20)
    least = float(refused.value.remedy.split()[-3])
    assert 1e-12 < least < 1e-8
    assert solvable(n_records=1000, n_features=20, regularization=least)
    assert not solvable(n_records=1000, n_features=20, regularization=least / 2.0)
    with pytest.raises(StudyInvalid, match="cannot be certified"):
        OutputPerturbation(1.0).check(Sizes(10**9, 3, 2), {"lambda": 1.0})


def test_millions_of_records_are_solved_to_what_can_be_certified(monkeypatch):
    """At 1.5 million 10⁻⁴ of 1/(nλ) is below the certificate's own rounding; no descent is needed for τ."""
    n, d, lam = 1_500_000, 2, 0.1
    rng = np.random.default_rng(6)
    Z = rng.normal(size=(n, d)) * 0.3
    Z /= np.maximum(1.0, np.linalg.norm(Z, axis=1))[:, None]
    tau = tolerance(n_records=n, n_features=d, regularization=lam)
    assert 1e-4 / (n * lam) < tau < 0.1 / (n * lam)
    monkeypatch.setattr(tilted, "_accelerated_descent", raising(AssertionError))
    w = tilted.minimise_tilted(Z, lam, np.zeros(d), tau)
    assert tilted._visit(Z, w, lam, np.zeros(d))[3] <= tau
    for few in (80, 20_000, 400_000):  # where it could be certified it is what it was
        assert tolerance(n_records=few, n_features=10, regularization=lam) == 1e-4 / (few * lam)


def test_steps_and_noise_whose_numbers_are_none_are_refused_before_the_charge(tmp_path):
    tables = study(tmp_path)
    for axis, value in (("clipping_norm", 1e-150), ("clipping_norm", 1e150), ("learning_rate", 1e200)):
        tables["space"] = {axis: {"values": [value, 1.0]}}
        with pytest.raises(StudyInvalid, match=axis):
            plan_study(StudySpec.from_dict(tables))
    tables["space"] = {"epochs": {"values": [1, 1e30]}}
    ledger = PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}")
    with pytest.raises(StudyInvalid, match="noise of a private training"):
        run_study(StudySpec.from_dict(tables), ledger=ledger, folder=tmp_path)
    assert ledger.accounts() == ()


@pytest.mark.parametrize("bounds", [(1.0, 2.0), (0.75, 1.0), (1.0, 1.0), (1.0 - 1e-12, 1.0 + 1e-12), (0.999, 1e6)])
def test_no_density_seals_a_study(bounds):
    """Studies of 25 trials on average: 7 of 8 were sealed at c = 1, and failing implied K ≥ 2."""
    lower, upper = bounds
    world = problem(epsilon=100.0, n_candidates=12, steps=25)
    method = DpHypo(sampler="gaussian_process", lower=lower, upper=upper)
    for seed in range(3):
        release = run(method, world, smooth_table(world, best=seed), Noise(SYSTEM, Memory()))
        assert release.value["hyperparameters"] in world.candidates.points


@pytest.mark.parametrize(("shape", "steps"), [(-0.8, 20), (-0.9, 5), (-0.5, 1000), (1.0, 150_000)])
def test_a_law_that_cannot_be_drawn_is_refused_and_the_letter_says_which_can(shape, steps):
    world = problem(epsilon=5.0, steps=steps) if steps <= 100_000 else replace(problem(epsilon=5.0), search=None)
    method, law = DpHypo(shape=shape), ("negative_binomial", shape)
    if world.search is None:
        assert not hypo_search._law(*law, steps).drawable
        message = hypo_search._too_long(*law, steps)
    else:
        with pytest.raises(StudyInvalid, match="ten million") as refused:
            method.plan(world)
        message = refused.value
    words = message.remedy.replace(",", "").split()
    most = int(words[words.index("most") + 1])
    assert hypo_search._law(*law, most).drawable
    assert not hypo_search._law(*law, most + 1).drawable
    eta = float(words[len(words) - words[::-1].index("shape") + 1 - 0]) if "more" in words else None
    if eta is not None:
        assert hypo_search._law("negative_binomial", eta, steps).drawable
        assert not hypo_search._law("negative_binomial", eta - 0.02, steps).drawable
