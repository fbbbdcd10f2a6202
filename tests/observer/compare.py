"""Nothing may differ between two worlds but what differs between runs on one world, by a written list.

Two kinds of items. *Exact* ones are equal in every run, whatever the world; one that is not is a finding, even if
it differs between two runs on one world: what varies must be on the list, with its reason. *Counted* ones are on
the list: they vary from run to run, so worlds are told apart by a permutation test over all of them together (the
largest studentised difference of means, Westfall and Young 1993): with n runs on each of two worlds all
2n-choose-n ways of sharing the runs out are as likely, so p is at most any level with a probability of that level,
for a way of running as a whole, however many items there are.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from observer.run import Seen

COUNTED: tuple[tuple[str, str, str], ...] = (
    ("durations", "*", "stated: whoever sees durations learns them"),
    (
        "network of the kernel",
        "*",
        "polls, heartbeats and acknowledgements come by the clock: bytes and segments vary",
    ),
    ("files", "*<random> is", "it may last shorter than a look; its events are exact"),
    ("files", "*<random> links", "it may last shorter than a look; its events are exact"),
    ("files", "*<random> size", "it may last shorter than a look; its events are exact"),
    ("files", "*etilqs_*", "pages that SQLite spills when its memory is full, which goes by the clock"),
    (
        "files",
        "*/training.parquet [ocr]*",
        "workers open the public table together, and equal events in a row are one to the kernel",
    ),
    (
        "answers of ports",
        "*: ports",
        "how many are reached before they close goes by the clock; what each kind answers is exact",
    ),
    ("Prefect's home", "*dpbo-password* digest", "a random password in a file of its owner's"),
    (
        "Prefect by the clock",
        "*",
        "of workers the order in which public work ends; of serve all events: a process that ends loses some",
    ),
    ("processes", "title git *", "asked by a library: shorter than a look"),
    ("processes", "title *leashed_process.py*", "it lives for a moment, until it has become what it starts"),
    ("processes", "title fc-list *", "a font's list, asked for by matplotlib: shorter than a look"),
    ("processes", "title uname *", "the machine's name, asked for by a library: shorter than a look"),
    (
        "processes",
        "* /*",
        "memory, processor time, faults, switches, threads: stated as visible; a look may miss what lasts shorter",
    ),
)
LARGEST = 60  # of a text that is shown


@dataclass(frozen=True)
class Difference:
    """One item that differs, and between whom."""

    channel: str
    key: str
    told: str

    def __str__(self) -> str:
        return f"{self.channel}: {self.key}: {self.told}"


def listed(channel: str, key: str) -> str | None:
    """Why this item may vary from run to run, or None."""
    for where, what, why in COUNTED:
        if fnmatchcase(channel, where) and fnmatchcase(key, what):
            return why
    return None


def exact(seen: Sequence[tuple[str, Seen]]) -> list[Difference]:
    """Every exact item that is not the same in all runs which watched its channel."""
    found = []
    for channel in sorted({channel for _, run in seen for channel in run.items}):
        runs = [(world, run.items[channel]) for world, run in seen if channel in run.items]
        for key in sorted({key for _, items in runs for key in items}):
            values = [items.get(key) for _, items in runs]
            if listed(channel, key) is None and any(value != values[0] for value in values):
                within = [
                    [v for (w, _), v in zip(runs, values, strict=True) if w == world] for world in _worlds(runs)
                ]
                how = "varies on one world" if any(v != vs[0] for vs in within for v in vs) else "differs"
                found.append(Difference(channel, key, f"{how}: {_short(runs, values)}"))
    return found


def _worlds(runs: Iterable[tuple[str, Any]]) -> list[str]:
    return list(dict.fromkeys(world for world, _ in runs))


def _short(runs: Sequence[tuple[str, Any]], values: Sequence[Any]) -> str:
    """What differs, at the first place where two texts do."""
    texts = ["".join(v) if isinstance(v, list) else str(v) for v in values]
    other = next(text for text in texts if text != texts[0])
    place = next((i for i, (a, b) in enumerate(zip(texts[0], other, strict=False)) if a != b), 0)
    start = max(0, place - LARGEST // 2)
    shown = [f"{world}: {text[start : start + LARGEST]!r}" for (world, _), text in zip(runs, texts, strict=True)]
    return " | ".join(dict.fromkeys(shown))


def counted(first: Sequence[Seen], second: Sequence[Seen]) -> tuple[int, float | None, str]:
    """(how many items, p-value, the item that differs most) of the counted items of two worlds."""
    runs = [*first, *second]
    names, columns = [], []
    channels = set.intersection(*(set(run.items) for run in runs))
    for channel in sorted(channels):
        for key in sorted({key for run in runs for key in run.items[channel]}):
            if listed(channel, key) is not None:
                for name, column in _columns(key, [run.items[channel].get(key) for run in runs]):
                    names.append(f"{channel}: {name}")
                    columns.append(column)
    n, whole = len(first), len(runs)
    shares = [set(share) for share in combinations(range(whole), n) if 0 in share or 2 * n != whole]
    if len(shares) < 20 or not columns:
        return len(names), None, ""
    X = np.array(columns)
    masks = np.array([[i in share for i in range(whole)] for share in shares], dtype=float)
    statistics = _studentised(X, masks)
    largest = statistics.max(axis=1)
    own = next(i for i, share in enumerate(shares) if share == set(range(n)))
    p = float((largest >= largest[own] * (1 - 1e-12)).mean())
    return len(names), p, names[int(statistics[own].argmax())]


def _columns(key: str, values: list[Any]) -> list[tuple[str, list[float]]]:
    """An item as numbers: itself, or for each text whether it was seen; and whether it is there at all."""
    if all(isinstance(value, float | int) or value is None for value in values):
        found = [(key, [math.nan if v is None else float(v) for v in values])]
        if any(v is None for v in values):
            found = [(f"{key} there", [float(v is not None) for v in values])]
        return [] if len(set(found[0][1])) == 1 else found
    texts = sorted({text for value in values if isinstance(value, list) for text in value})
    told = [(f"{key} {t!r}", [float(isinstance(v, list) and t in v) for v in values]) for t in texts[:20]]
    return [(name, column) for name, column in told if len(set(column)) > 1]


def _studentised(X: NDArray[np.float64], masks: NDArray[np.float64]) -> NDArray[np.float64]:
    """(shares, items): |difference of means| over its standard error; infinite where nothing varies within."""
    X = (X - X.mean(axis=1, keepdims=True)) / X.std(axis=1, keepdims=True)
    means, variances = [], []
    for chosen in (masks, 1.0 - masks):
        n = chosen.sum(axis=1, keepdims=True)
        mean = chosen @ X.T / n
        variance = (chosen @ (X**2).T / n - mean**2) / (n - 1.0)
        means.append(mean)
        variances.append(np.where(variance < 1e-12, 0.0, variance))  # rounding, of numbers of size 1
    gap = np.abs(means[0] - means[1])
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(gap < 1e-9, 0.0, gap / np.sqrt(variances[0] + variances[1]))
