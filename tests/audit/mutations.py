"""Hostile bytes, hostile words and hostile trees, from a seeded generator."""

import json
import random
from collections.abc import Mapping
from typing import Any

ESC = "\x1b[2J\x1b]0;owned\x07"
WORDS = (
    "", " ", "../../etc/passwd", "/etc/passwd", "..", "~", "a/b", "C:\\x", "people'; DROP TABLE reservations; --",
    "' OR '1'='1", '"; --', "%s%n%x", "{0.__class__}", "${HOME}", "$(id)", "`id`", "\x00", "a\nb", "a\rb", ESC,
    "\u202egnp", "\ufeff", "people\u200b", "ｐｅｏｐｌｅ", "\ud800",
    "[red]x[/]", "[/]", "<script>alert(1)</script>",
    "=cmd|' /C calc'!A0", "x" * 101, "x" * 10_000, "nan", "inf", "-inf", "1e999", "-0.0", "0x10", "9" * 400,
    "True", "null", "None", "os.system", "sklearn.externals", "builtins.eval", "__class__", "subprocess.Popen",
    "breast_cancer", "private_grid", "outsourced", "lambda", "C", "é", "日本", "-", "--", "--help", "-1", "*",
)  # fmt: skip
NUMBERS = (
    0, -1, 1, 2, 3, 10**9, 2**31, 2**63, -(2**63), 10**30, 0.0, -0.0, 0.5, 1e-300, 5e-324, 1e308, float("inf"),
    float("-inf"), float("nan"), True, False,
)  # fmt: skip
TOKENS = (
    *(word.encode("utf-8", "surrogatepass") for word in WORDS),
    b"[", b"]", b"{", b"}", b'"', b"'", b'"""', b"=", b",", b"\n", b"\r\n", b"#", b"\\",
    b"\\u0000", b"\xff", b"\xfe",
    b"[[x]]", b"a.b.c.d=1", b"[" * 2000, b"{" * 2000,
    b"a={" * 300, b'{"a":' * 2000, b"9" * 5000, b"1e400", b"NaN",
    b"Infinity", b"null", b"1979-05-27T07:32:00Z", b"07:32:00", b"0b1", b"1_000", b"PAR1", b"x=" + b"a." * 1000,
)  # fmt: skip


def bent(raw: bytes, rng: random.Random, others: tuple[bytes, ...] = ()) -> bytes:
    """`raw` after one to four mutations."""
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(raw) + 1)
        end = min(len(raw), at + rng.choice((1, 1, 2, 8, 64)))
        kind = rng.randrange(7)
        if kind == 0:
            raw = raw[:at] + rng.randbytes(end - at) + raw[end:]
        elif kind == 1:
            raw = raw[:at] + raw[end:]
        elif kind == 2:
            raw = raw[:at] + rng.choice(TOKENS) + raw[at:]
        elif kind == 3:
            raw = raw[:at] + rng.choice(TOKENS) + raw[end:]
        elif kind == 4:
            raw = raw[:end] + raw[at:]
        elif kind == 5 and rng.random() < 0.2:
            raw = raw[:at]
        elif kind == 6 and others:
            other = rng.choice(others)
            raw = raw[:at] + other[rng.randrange(len(other) + 1) :]
    return raw


def hostile(rng: random.Random, depth: int = 0) -> Any:
    """A value of any type that JSON or TOML has."""
    kind = rng.randrange(10 if depth < 3 else 8)
    if kind < 4:
        return rng.choice(WORDS)
    if kind < 7:
        return rng.choice(NUMBERS)
    if kind == 7:
        return [] if rng.random() < 0.3 else {}
    if kind == 8:
        return [hostile(rng, depth + 1) for _ in range(rng.randint(1, 3))]
    return {rng.choice(WORDS): hostile(rng, depth + 1) for _ in range(rng.randint(1, 3))}


def grown(tree: Any, rng: random.Random) -> Any:
    """A copy of `tree` with one to three places replaced, removed, renamed or added to."""
    tree = json.loads(json.dumps(tree))
    for _ in range(rng.randint(1, 3)):
        holder, key = rng.choice(list(_places(tree)) or [(tree, None)])
        kind = rng.random()
        if key is None:
            continue
        if kind < 0.6:
            holder[key] = _near(holder[key], rng) if kind < 0.3 else hostile(rng)
        elif kind < 0.75:
            del holder[key]
        elif isinstance(holder, Mapping):
            holder[rng.choice(WORDS)] = holder.pop(key) if kind < 0.85 else hostile(rng)
        else:
            holder.insert(0, hostile(rng))
    return tree


def _near(value: Any, rng: random.Random) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return rng.choice((*NUMBERS, value * rng.choice((-1, 0.5, 2, 10)), value + 1))
    if isinstance(value, str):
        return rng.choice((*WORDS, value + rng.choice(WORDS), value[1:], value.upper()))
    return hostile(rng)


def _places(tree: Any) -> Any:
    if isinstance(tree, dict):
        pairs = list(tree.items())
    elif isinstance(tree, list):
        pairs = list(enumerate(tree))
    else:
        return
    for key, value in pairs:
        yield tree, key
        yield from _places(value)
