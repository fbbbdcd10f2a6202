"""A failure is an output: what is raised after the charge, and trainings that cannot fail."""

import itertools
import json
import math
import os
import signal
import subprocess
import sys
import threading
import warnings
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import mpmath
import numpy as np
import pytest
from failure_rooms import ROOMS, UNREACHED
from private_worlds import a_row, with_record
from test_dp_hypo import study
from worlds import Memory, NamedTrainer, plain, problem, run, smooth_table

import dpbo_core
from dpbo.features.private_training import hypo_search
from dpbo.features.private_training.algorithm import Sizes
from dpbo.features.private_training.dp_hypo import DpHypo
from dpbo.features.private_training.dp_sgd import DpSgd
from dpbo.features.private_training.noisy_gradient_descent import NoisyGradientDescent
from dpbo.features.private_training.objective_perturbation import ObjectivePerturbation
from dpbo.features.private_training.output_perturbation import OutputPerturbation
from dpbo.features.private_training.solving import check_solvable, solvable, tolerance
from dpbo_core.data import Encoded
from dpbo_core.errors import DpboError, MechanismRefused, Sealed, StudyInvalid
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.mechanisms import random_stopping
from dpbo_core.mechanisms.noise import InjectedNoise, Noise, OperatingSystemNoise, try_out
from dpbo_core.mechanisms.opendp_library import discrete_gaussian
from dpbo_core.mechanisms.random_stopping import NegativeBinomialStopping, PoissonStopping
from dpbo_core.methods import METHODS
from dpbo_core.models.linear import tilted
from dpbo_core.models.scores.bounded_function import BoundedFunction
from dpbo_core.privacy import library_version
from dpbo_core.privacy.sealing import attempted, each, messages, sealed
from dpbo_core.study import StudySpec
from dpbo_core.study.resolve import plan_study
from dpbo_core.study.tuning import run_study
from dpbo_core.theorems.chaudhuri_2011 import corollary_8_sensitivity

HERE = Path(__file__).parents[1]
SYSTEM = OperatingSystemNoise()
SECRET = "record 17 has income 123456789"


# What is raised after `reserve`


@pytest.mark.slow
def test_every_failing_call_comes_out_as_its_room_says(tmp_path):
    """In a process in which the probes were there first: an error, a panic, an interrupt and an exit."""
    environment = os.environ | {"PYTHONPATH": f"{HERE.parent}{os.pathsep}{HERE}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", HERE / "failing.py", tmp_path / "here", "1", "0"]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    seen = json.loads(ran.stdout.splitlines()[-1])
    assert seen["wrong"] == []
    assert seen["planted"] > 1000


def test_every_room_of_the_house_says_what_may_come_out_of_it():
    house = Path(dpbo_core.__file__).parent
    rooms = {path.stem for path in house.iterdir() if (path / "__init__.py").exists() or path.suffix == ".py"}
    features = {f"features.{path.parent.name}" for path in (house.parent / "features").glob("*/__init__.py")}
    named = {name.partition(":")[0] for name in ROOMS}
    told = {".".join(name.split(".")[: 2 if name.startswith("features.") else 1]) for name in named}
    assert told | UNREACHED == (rooms - {"__init__"}) | features
    homes = {name: house.parent if name.startswith("features.") else house for name in named}
    for path in (home.joinpath(*name.split(".")) for name, home in homes.items()):
        assert path.is_dir() or path.with_suffix(".py").is_file(), path


# The seal


class Panic(BaseException):
    """What an extension module raises."""


class Talks(Exception):
    """Says a secret whichever way it is asked."""

    @property
    def what(self):
        raise ValueError(SECRET)


def raising(kind):
    def work(*_, **__):
        raise kind(SECRET)

    return work


def test_nothing_of_what_was_raised_leaves_the_seal():
    kinds = ValueError, Panic, KeyboardInterrupt, SystemExit, GeneratorExit, Talks, MemoryError
    for kind, message in itertools.product(
        kinds, (None, messages(StudyInvalid), raising, lambda error: error.what)
    ):
        assert attempted(raising(kind), 7) == 7
        assert each(raising(kind), range(3), None) == [None] * 3
        message = raising(kind) if message is raising else message
        with pytest.raises(Sealed) as caught:
            sealed(raising(kind), message=message)
        error = caught.value
        assert error.__cause__ is None
        assert error.__context__ is None
        assert not hasattr(error, "__notes__")
        frame = error.__traceback__
        while frame is not None:  # the frames that travel with it hold it nowhere
            inside = frame.tb_frame.f_code.co_filename.endswith("sealing.py")
            assert not inside or SECRET not in repr(frame.tb_frame.f_locals)
            frame = frame.tb_next


def test_a_letter_is_made_anew_and_only_of_its_kind():
    message = StudyInvalid("public", cause="a", remedy="b")
    message.note = SECRET

    def fails():
        raise message from ValueError(SECRET)

    with pytest.raises(StudyInvalid, match="public") as caught:
        sealed(fails, message=messages(StudyInvalid))
    assert caught.value is not message
    assert caught.value.__cause__ is None
    assert not hasattr(caught.value, "note")

    class Sub(StudyInvalid):
        pass

    with pytest.raises(Sealed):
        sealed(raising(Sub), message=messages(StudyInvalid))
    with pytest.raises(Sealed):
        sealed(raising(DpboError), message=messages(StudyInvalid))


@pytest.fixture
def interruptible():
    """Python's own handler: a shell that starts the tests in the background has SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_the_operators_interrupt_is_told_from_a_records(interruptible):
    def interrupted(*_):
        signal.raise_signal(signal.SIGINT)
        raise ValueError(SECRET)  # whatever a library makes of it

    before = signal.getsignal(signal.SIGINT)
    for run_it in (
        lambda: sealed(interrupted),
        lambda: attempted(interrupted, 1),
        lambda: each(interrupted, [1, 2], None),
        lambda: sealed(lambda: attempted(interrupted, 1)),
    ):
        with pytest.raises(KeyboardInterrupt) as caught:
            run_it()
        assert caught.value.args == ()
        assert caught.value.__context__ is None
        assert signal.getsignal(signal.SIGINT) is before
    kept = []
    thread = threading.Thread(target=lambda: kept.append(attempted(raising(KeyboardInterrupt), 5)))
    thread.start()
    thread.join()
    assert kept == [5]


# Built-in trainings cannot fail


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


# Densities, the law of K, ranges, versions


@pytest.mark.parametrize("bounds", [(1.0, 2.0), (0.75, 1.0), (1.0, 1.0), (1.0 - 1e-12, 1.0 + 1e-12), (0.999, 1e6)])
def test_no_density_seals_a_study(bounds):
    """Studies of 25 trials on average: 7 of 8 were sealed at c = 1, and failing implied K ≥ 2."""
    lower, upper = bounds
    world = problem(epsilon=100.0, n_candidates=12, steps=25)
    method = DpHypo(sampler="gaussian_process", lower=lower, upper=upper)
    for seed in range(3):
        release = run(method, world, smooth_table(world, best=seed), Noise(SYSTEM, Memory()))
        assert release.value["hyperparameters"] in world.candidates.points


def test_the_bound_on_the_tail_of_k_is_above_it():
    """Chernoff's, of a Poisson law; the negative binomial's is held against its masses in test_random_stopping."""
    poisson, k = PoissonStopping(1e6), 10**7
    assert poisson.drawable
    assert poisson.log_tail >= float(mpmath.log(mpmath.gammainc(k + 1, 0, mpmath.mpf(10) ** 6, regularized=True)))
    assert not NegativeBinomialStopping(-0.8, 100_000.0).drawable  # no digits left to draw with


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


def test_the_drawing_cuts_nothing_off(monkeypatch):
    """The largest U gives the K with Pr[K > K] < 2⁻²⁵⁷: geometric, so (1 − γ)^K, and no cap on the way."""
    law = NegativeBinomialStopping(1.0, 40.0)
    monkeypatch.setattr(random_stopping, "_LARGEST_K", 50)
    expected = math.ceil(257 * math.log(2.0) / -math.log1p(-law.gamma))
    assert abs(law.quantile(2**256 - 1) - expected) <= 1


class Scaled(NamedTrainer):
    """Public scores in units of the range."""

    G = 1.0

    def public_score(self, point, *, seed):
        return super().public_score(point, seed=seed) * self.G


@pytest.mark.parametrize("G", [1e-100, 1e100])
@pytest.mark.parametrize(
    "kind", [*(kind for kind, cls in METHODS.items() if not cls.traits.margins_only), "adaptive"]
)
def test_every_range_that_a_study_may_have_is_released(kind, G):
    adaptive = DpHypo(sampler="gaussian_process", lower=0.9, upper=1.1, inverse_temperature=9e5)
    method = adaptive if kind == "adaptive" else plain(kind)
    world = problem(epsilon=3.0, steps=6)
    trainer = Scaled(world.trainer.lambdas)
    trainer.G = G
    world = replace(world, score=BoundedFunction("scores.f", 0.0, G), trainer=trainer)
    try_out(method.draws(world))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        release = run(method, world, smooth_table(world, best=4), Noise(SYSTEM, Memory()))
    json.dumps(release.to_json(), allow_nan=False)


def test_a_version_that_cannot_be_read_is_no_reason_to_fail(tables, tmp_path, monkeypatch):
    def absent(name):
        raise PackageNotFoundError(name)

    library_version.library_version.cache_clear()
    monkeypatch.setattr(library_version, "version", absent)
    released = run_study(StudySpec.from_dict(tables), ledger=PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}"))
    assert released.release.facts["version"] == library_version.UNINSTALLED
    library_version.library_version.cache_clear()
    monkeypatch.setattr(library_version, "version", raising(OSError))
    ledger = PrivacyLedger(f"sqlite:///{tmp_path / 'other.db'}")
    with pytest.raises(OSError, match="record"):
        run_study(StudySpec.from_dict(tables), ledger=ledger)
    assert ledger.accounts() == ()
    library_version.library_version.cache_clear()


def test_a_draw_that_a_library_refuses_costs_nothing(tables, tmp_path, monkeypatch):
    from opendp import measurements

    ledger = PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}")
    monkeypatch.setattr(measurements, "make_gaussian", raising(MechanismRefused))
    discrete_gaussian.cache_clear()  # others have drawn at this scale
    with pytest.raises(MechanismRefused):
        run_study(StudySpec.from_dict(tables), ledger=ledger)
    assert ledger.accounts() == ()
    monkeypatch.undo()
    assert run_study(StudySpec.from_dict(tables), ledger=ledger).release.value
