"""Trainers of somebody's own, as a trial's process imports them: light, and some of them careless."""

import ctypes
import os
import random
import signal
import socket
import sys
import time
import warnings
from pathlib import Path

import numpy as np


class Threshold:
    """Predicts 1 where the first feature is on the right side."""

    def __init__(self, sign, told=None):
        self.sign, self.told = sign, told

    def predict(self, X):
        return (self.sign * np.asarray(X)[:, 0] > 0).astype(int)


def records(n, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 3))
    return X, (X[:, 0] > 0).astype(int)


def laplace(params, data, trial):
    """Whether feature and class go together, with Laplace noise."""
    X, y = data
    total = float(np.sum(np.sign(X[:, 0]) * (2 * y - 1)))
    noised = total + trial.rng.laplace(scale=2.0 / trial.epsilon)
    trial.spent(trial.epsilon)
    return Threshold(params["sign"] * np.sign(noised))


def overspends(params, data, trial):
    trial.spent(2.0 * trial.epsilon)
    return Threshold(1)


def seeds_with_a_constant(params, data, trial):
    np.random.seed(7)  # noqa: NPY002
    return Threshold(1)


def raises(params, data, trial):
    raise ValueError(f"record {data[0][0]} is to blame")


def sleeps(params, data, trial):
    if not os.fork():
        os.setsid()
        time.sleep(600)
    time.sleep(600)


def begins_and_waits(params, data, trial):
    """Leaves a file in its folder, and waits until another one exists; the model says what was there before."""
    found = os.listdir(trial.folder)  # noqa: PTH208
    (trial.folder / "begun").write_text("begun")
    while not Path(params["until"]).exists():
        time.sleep(0.05)
    return Threshold(1, found)


def careless(params, data, trial):
    """Does all that tells of a trial, and says in its model what of it worked."""
    told = {}
    for name, file in params["files"].items():
        try:
            Path(file).write_text("a trial was here")
            told[name] = True
        except OSError:
            told[name] = False
    try:
        socket.create_connection(("127.0.0.1", params["port"]), timeout=5).close()
        told["socket"] = True
    except OSError:
        told["socket"] = False
    with socket.socket(socket.AF_UNIX) as local:
        told["socket on a file"] = local.connect_ex(params["local"]) == 0
    told["ledger"] = Path(params["ledger"]).exists()
    told["variables"] = sorted(name for name in os.environ if name.startswith(("DPBO", "MLFLOW", "PREFECT")))
    told["folder"] = [str(Path.cwd()) == str(trial.folder), os.listdir(".")]  # noqa: PTH208
    Path("checkpoint").write_text("kept")
    print("a line"), print("another", file=sys.stderr), os.write(2, b"raw"), warnings.warn("look", stacklevel=1)
    random.seed(trial.seed)
    if not os.fork():
        os.setsid()
        time.sleep(600)
    trial.report(1, 0.5)
    return Threshold(1, told)


def unscorable(model, record):
    """Fails on every record whose first feature is below 0, with the record in its message."""
    X, y = record
    if X[0, 0] < 0:
        raise ValueError(f"{X[0]}")
    return float(model.predict(X)[0] == y[0])


def ends_its_process(model, record):
    """Ends its process in one of several ways, which the first feature of a record names."""
    how = int(record[0][0, 0])
    if how == 1:
        os._exit(0)
    if how == 2:
        raise SystemExit
    if how > 2:
        signal.raise_signal(how)
    return 1.0


def has_a_limit(model, record):
    """1.0 where the record's scoring ends within a minute."""
    return float(0.0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 60.0)


def needs_a_number(model, record):
    """1.0 of a label that is a number."""
    return float(next(iter(np.isfinite(record[1]))))


def unmounts(params, data, trial):
    """Tries to take away, here and in namespaces below, what hides a folder; the model is what it then sees."""
    libc, new_users_and_mounts = ctypes.CDLL(None), 0x10000000 | 0x20000
    seen = []
    for _ in range(2):
        libc.umount(os.fsencode(params["hidden"]))
        seen += os.listdir(params["hidden"])  # noqa: PTH208
        libc.unshare(new_users_and_mounts)
    return seen
