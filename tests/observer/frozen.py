"""Frozen noise in every process of a run: each mechanism gives the output that it gave on the first world.

The outputs, not the noise: two neighbours with the same noise release other numbers, and all that follows from a
release may follow it. With the same outputs whatever still differs was no post-processing. The mechanisms run as
they do, on the operating system's noise; what they give is replaced inside the recording transaction. What else is
random and public (names of runs, the moment of a run) is frozen, and the curator's secret order with it; and a
server ends no sooner than it was asked for all its pages. How many trials `dp_hypo` makes is part of a world: it is
a secret like a record.
"""

import base64
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

TAPE, TRIALS, FAULT, ASKED = "OBSERVER_TAPE", "OBSERVER_TRIALS", "OBSERVER_FAULT", "OBSERVER_ASKED"
LONGEST = 200.0  # seconds that a server is asked
ROWS = "rows of a table"


def _tape(what: str, drawn: Any) -> Any:
    """What the first world's run drew under this name; now, where this is the first world."""
    path = Path(os.environ[TAPE])
    kept = json.loads(path.read_text()) if path.exists() else {}
    if what not in kept:
        kept[what] = drawn
        path.write_text(json.dumps(kept))
    return kept[what]


def _noise(module: ModuleType) -> None:
    def release(self: Any, spend: Any, mechanism: Any, value: Any, **public: int) -> Any:
        prepared = self._prepared.pop(spend.what, None) or mechanism.prepare(spend, self._source)
        return self._recorder.record(spend, lambda: {"draw": _tape(spend.what, prepared(value)), **public})

    module.Noise.release = release


def _rows(module: ModuleType) -> None:
    import numpy as np

    honest = module.GaussianRows.prepare

    def prepare(self: Any, spend: Any, source: Any) -> Callable[[Any], Any]:
        apply = honest(self, spend, source)

        def frozen(value: Any) -> Any:
            kept = _tape(ROWS, base64.b64encode(apply(value).astype("<i8").tobytes()).decode())
            return np.frombuffer(base64.b64decode(kept), dtype="<i8").reshape(self.shape).astype(np.int64)

        return frozen

    module.GaussianRows.prepare = prepare


def _trials(module: ModuleType) -> None:
    module._Law.draw = lambda self, source: int(os.environ[TRIALS])


def _tokens(module: ModuleType) -> None:
    module.secrets = SimpleNamespace(token_hex=lambda n_bytes: "5a" * n_bytes)


def _names(module: ModuleType) -> None:
    module.generate_slug = lambda n_words: "-".join(["name"] * n_words)


def _firing(module: ModuleType) -> None:
    from datetime import UTC, datetime

    module.fired_at = lambda: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def wait_until_asked(port: int) -> None:
    """A server is there until every page of it was asked for once; at once where nobody asks."""
    end = time.monotonic() + LONGEST
    while ASKED in os.environ and not Path(os.environ[ASKED], f"asked-{port}").exists():
        assert time.monotonic() < end, "the observer did not come to an end"
        time.sleep(0.2)


def _server(module: ModuleType) -> None:
    honest = module._send_pending_records

    def send_pending_records() -> None:
        from urllib.parse import urlsplit

        from prefect.settings import get_current_settings

        honest()
        wait_until_asked(urlsplit(get_current_settings().api.url).port)

    module._send_pending_records = send_pending_records


FROZEN: dict[str, Callable[[ModuleType], None]] = {
    "dpbo_core.mechanisms.noise": _noise,
    "dpbo_core.mechanisms.gaussian_rows": _rows,
    "dpbo_core.mechanisms.random_stopping": _trials,
    "dpbo.features.outsourced.curator": _tokens,
    "dpbo.features.outsourced.session": _tokens,
    "prefect.utilities.names": _names,
    "dpbo.flows.serve": _firing,
    "dpbo.flows.prefect_runtime.run_server": _server,
}


class _Loader(importlib.abc.Loader):
    """The real loader; then what is changed about the module."""

    def __init__(self, real: Any, change: Callable[[ModuleType], None]) -> None:
        self._real, self._change = real, change

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._real.exec_module(module)
        self._change(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, changes: dict[str, list[Callable[[ModuleType], None]]]) -> None:
        self._changes = changes

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name not in self._changes:
            return None
        found = importlib.machinery.PathFinder.find_spec(name, path, target)
        if found is None or found.loader is None:
            return found
        changes = self._changes[name]

        def change(module: ModuleType) -> None:
            for each in changes:
                each(module)

        found.loader = _Loader(found.loader, change)
        return found


def install() -> None:
    """Freeze what this process will import; plant the faults that the environment names."""
    if TAPE not in os.environ:
        return
    changes = {name: [change] for name, change in FROZEN.items()}
    if faults := os.environ.get(FAULT):
        from observer.planted import FAULTS

        for fault in faults.split("; "):
            name, change = FAULTS[fault]
            changes.setdefault(name, []).append(change)
    sys.meta_path.insert(0, _Finder(changes))
