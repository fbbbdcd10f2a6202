"""`rowwise = "enforced"` without its processes: a record comes through the bytes that its own would get."""

import os

import numpy as np

from dpbo.features.isolation import available, enforced_model
from dpbo.features.isolation.child import Record, read_model, result_of, steps
from dpbo.features.isolation.engine import in_memory
from dpbo_core.models import estimator_trainer
from dpbo_core.models.integer_sums import GRID


class InProcess:
    """What stands for an engine."""

    def trial(self, model, record):
        with in_memory(model) as file, in_memory(record.to_bytes()) as sent:
            os.lseek(sent, 0, os.SEEK_SET)
            answer = steps(Record.of_file(sent), *read_model(file)).to_bytes(8, "little")
        return result_of(answer, GRID), 0, 0.0

    def steps(self, model, rows, truth):
        return np.array([self.trial(model, Record(rows[i], truth[i : i + 1]))[0] for i in range(len(rows))])


def without_processes(monkeypatch):
    """Nothing is started: how processes confine what runs in them test_enforced and test_public_process try."""
    monkeypatch.setattr(estimator_trainer, "numbers_of", lambda work, *arguments: work(*arguments))
    monkeypatch.setattr(available, "_obstacle", lambda process: "")
    monkeypatch.setattr(enforced_model, "scouted", lambda *_: ((), ""))
    monkeypatch.setattr(enforced_model, "engine", lambda *_: InProcess())
