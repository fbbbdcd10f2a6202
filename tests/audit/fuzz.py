"""What others write and dpbo reads, by the ten thousand, mutated: what must come is a message or a result.

Each target takes one input and does what the product does with it. Counted are: a stack trace (anything raised that
is no `DpboError`, or the command's last door), a hang (over 10 s of the processor), a message or a screen with a
control character, an exit code beyond the documented ones, and a charge where the answer was a refusal. All five
must be 0.
"""

import hashlib
import io
import json
import os
import random
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from of_features import merged

from audit.mutations import bent, grown
from audit.targets import TARGETS, Target
from dpbo_core.errors import DpboError

SEED = 20
LONGEST = 10  # seconds of the processor
CLOCK = 30  # times as long by the clock, which a busy machine lets pass
EXIT_CODES = {0, 1, 2, 3, 4, 130}  # as in dpbo_core/errors.py, and Ctrl-C
FULL = {  # inputs of each target: 108,900 in all, with those of every feature
    "study, bytes": 20_000, "study, tables": 20_000, "study, run": 400, "CSV, public": 10_000,
    "CSV, sensitive": 10_000, "Parquet": 6_000, "ledger names": 2_000, "ledger cells": 1_500,
    "ledger export": 2_500, "certificate": 10_000, "final model": 1_000, "command line": 1_000,
    **merged("FUZZED_TIMES"),
}  # fmt: skip


class Hang(BaseException):
    """Longer than `LONGEST`."""


@dataclass
class Row:
    """What became of one target's inputs; the last five counts must be 0."""

    target: str
    inputs: int = 0
    refused: int = 0
    slowest: float = 0.0
    traces: int = 0
    hangs: int = 0
    control: int = 0
    codes: int = 0
    charged: int = 0
    seen: Counter[str] = field(default_factory=Counter)  # which faults, for whoever mends them

    @property
    def clean(self) -> bool:
        return self.traces == self.hangs == self.control == self.codes == self.charged == 0


def campaign(share: float = 1.0, *, seed: int = SEED, only: tuple[str, ...] = ()) -> list[Row]:
    """A row for each target, `share` of the full number of inputs each."""
    assert set(FULL) == set(TARGETS)
    return [attack(name, max(3, round(FULL[name] * share)), seed=seed) for name in only or TARGETS]


def attack(name: str, inputs: int, *, seed: int = SEED) -> Row:
    """One target."""
    rng, row = random.Random(f"{seed} {name}"), Row(name)
    with TemporaryDirectory() as folder, standing_in(Path(folder)):
        target = TARGETS[name](Path(folder))
        for _ in range(inputs):
            _try(target, target.draw(rng) if target.draw else _mutant(target.corpus, rng), row)
    return row


def _mutant(corpus: tuple[Any, ...], rng: random.Random) -> Any:
    chosen = rng.choice(corpus)
    if not isinstance(chosen, bytes):
        return grown(chosen, rng)
    tree = _json(chosen)
    if tree is not None and rng.random() < 0.6:
        tree = grown(tree, rng)
        if isinstance(tree, dict) and "digest" in tree and rng.random() < 0.8:
            tree["digest"] = _digest(tree)  # no key protects it, so a hostile party writes it too
        raw = json.dumps(tree).encode()
        return raw if rng.random() < 0.8 else bent(raw, rng)
    return bent(chosen, rng, tuple(other for other in corpus if isinstance(other, bytes)))


def _json(raw: bytes) -> Any:
    try:
        tree = json.loads(raw)
    except ValueError:
        return None
    return tree if isinstance(tree, dict | list) else None


def _digest(message: dict[str, Any]) -> str:
    rest = {key: value for key, value in message.items() if key != "digest"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _try(target: Target, given: Any, row: Row) -> None:
    before = target.balance() if target.balance else None
    out, begun, message, refused = io.StringIO(), time.monotonic(), "", False
    try:
        with redirect_stdout(out), redirect_stderr(out), alarm():
            code = target.take(given)
        refused = bool(code)
        row.codes += code is not None and code not in EXIT_CODES
    except DpboError as error:
        message, refused = error.message(), True
        row.codes += error.exit_code not in EXIT_CODES
    except Hang:
        row.hangs += 1
        row.seen[f"hang {str(given)[:200]!r}"] += 1
    except Exception as error:  # noqa: BLE001  the campaign counts them
        row.traces += 1
        row.seen[f"{type(error).__name__}: {str(error)[:80]!r} at {_where(error)} of {str(given)[:200]!r}"] += 1
    said = out.getvalue() + message
    if "Traceback" in said or "Something unexpected" in said:
        row.traces += 1
        row.seen[f"{said[:200]!r} of {str(given)[:200]!r}"] += 1
    if any(not (c.isprintable() or c == "\n") for c in said):
        row.control += 1
        row.seen[f"control {said[:100]!r} of {str(given)[:100]!r}"] += 1
    if refused and target.balance and target.balance() != before:
        row.charged += 1
        row.seen[f"charged {str(given)[:200]!r}"] += 1
    row.inputs += 1
    row.refused += refused
    row.slowest = max(row.slowest, time.monotonic() - begun)


def _where(error: BaseException) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(last.filename).name}:{last.lineno}"


@contextmanager
def alarm() -> Iterator[None]:
    """A `Hang` after LONGEST seconds of the processor, or CLOCK times as long without it."""

    def ring(*_: Any) -> None:
        raise Hang

    limits = (
        (signal.SIGPROF, signal.ITIMER_PROF, LONGEST),
        (signal.SIGALRM, signal.ITIMER_REAL, LONGEST * CLOCK),
    )
    before = [signal.signal(sent, ring) for sent, _, _ in limits]
    for _, timer, seconds in limits:
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for (sent, timer, _), handler in zip(limits, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(sent, handler)


@contextmanager
def standing_in(folder: Path) -> Iterator[None]:
    """The current folder is `folder`, without the user's settings; a report's intervals come of 100 tables."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DPBO_", "MLFLOW_"))}
    old = Path.cwd()
    few = patch("dpbo_core.report.noised_table.PAIRS", 50)  # which verify computes anew each time
    with patch.dict(os.environ, kept, clear=True), few:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(old)


def faulty(name: str, broken: Callable[[Any], Any]) -> Any:
    """A target whose `take` is replaced: the campaign must count what is planted."""
    whole = TARGETS[name]
    return lambda folder: replace(whole(folder), take=broken)
