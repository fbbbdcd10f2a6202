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
import pytest
from failure_rooms import ROOMS, UNREACHED
from of_features import merged
from worlds import Memory, NamedTrainer, plain, problem, run, smooth_table

import dpbo_core
from dpbo_core.errors import DpboError, MechanismRefused, Sealed, StudyInvalid
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.mechanisms import random_stopping
from dpbo_core.mechanisms.noise import Noise, OperatingSystemNoise, rehearse_draws
from dpbo_core.mechanisms.opendp_library import discrete_gaussian
from dpbo_core.mechanisms.random_stopping import NegativeBinomialStopping, PoissonStopping
from dpbo_core.methods import METHODS
from dpbo_core.models.scores.bounded_function import BoundedFunction
from dpbo_core.privacy import named_parts
from dpbo_core.privacy.sensitive import attempted, each, messages, sealed
from dpbo_core.study import StudySpec
from dpbo_core.study.tuning import run_study

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


# Densities, the law of K, ranges, versions


def test_the_bound_on_the_tail_of_k_is_above_it():
    """Chernoff's, of a Poisson law; the negative binomial's is held against its masses in test_random_stopping."""
    poisson, k = PoissonStopping(1e6), 10**7
    assert poisson.drawable
    assert poisson.log_tail >= float(mpmath.log(mpmath.gammainc(k + 1, 0, mpmath.mpf(10) ** 6, regularized=True)))
    assert not NegativeBinomialStopping(-0.8, 100_000.0).drawable  # no digits left to draw with


def test_the_drawing_cuts_nothing_off(monkeypatch):
    """The largest U gives the K with Pr[K > K] < 2⁻²⁵⁷: geometric, so (1 − γ)^K, and no cap on the way."""
    law = NegativeBinomialStopping(1.0, 40.0)
    monkeypatch.setattr(random_stopping, "_MAX_K", 50)
    expected = math.ceil(257 * math.log(2.0) / -math.log1p(-law.gamma))
    assert abs(law.quantile(2**256 - 1) - expected) <= 1


class Scaled(NamedTrainer):
    """Public scores in units of the range."""

    G = 1.0

    def public_score(self, point, *, seed):
        return super().public_score(point, seed=seed) * self.G


RANGED = {kind: plain(kind) for kind, cls in METHODS.items() if not cls.margins_only} | merged("RANGED")


@pytest.mark.parametrize("G", [1e-100, 1e100])
@pytest.mark.parametrize("method", RANGED.values(), ids=RANGED)
def test_every_range_that_a_study_may_have_is_released(method, G):
    world = problem(epsilon=3.0, steps=6)
    trainer = Scaled(world.trainer.lambdas)
    trainer.G = G
    world = replace(world, score=BoundedFunction("scores.f", 0.0, G), trainer=trainer)
    rehearse_draws(method.draws(world))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        release = run(method, world, smooth_table(world, best=4), Noise(SYSTEM, Memory()))
    json.dumps(release.to_json(), allow_nan=False)


def test_a_version_that_cannot_be_read_is_no_reason_to_fail(tables, tmp_path, monkeypatch):
    def absent(name):
        raise PackageNotFoundError(name)

    named_parts.library_version.cache_clear()
    monkeypatch.setattr("importlib.metadata.version", absent)
    released = run_study(StudySpec.from_dict(tables), ledger=PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}"))
    assert released.release.facts["version"] == named_parts.UNINSTALLED_VERSION
    named_parts.library_version.cache_clear()
    monkeypatch.setattr("importlib.metadata.version", raising(OSError))
    ledger = PrivacyLedger(f"sqlite:///{tmp_path / 'other.db'}")
    with pytest.raises(OSError, match="record"):
        run_study(StudySpec.from_dict(tables), ledger=ledger)
    assert ledger.accounts() == ()
    named_parts.library_version.cache_clear()


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
