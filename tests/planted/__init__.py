"""Programming mistakes, one for each line of tests/promises.md, and the tests that must fail on them.

A feature's are in `tests/features/NAME/`, in files of the same names.

[id]                  the promise's id in promises.md
file = "dpbo_core/…"  where the mistake is made, from the root of the repository
old = "…"             what stands there, once in that file
new = "…"             the mistake
test = "tests/…::…"   the test that must pass without the mistake and fail with it; a list where several must

Code that moves takes its fault with it: the new `file`, and `old` as it reads there. A fault is taken away only
with the promise. `python -m planted` in tests/ plants each of them in a copy of the tree.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
OF_FEATURES = ROOT / "tests" / "features"
FAULTS = (Path(__file__).with_name("faults.toml"), *sorted(OF_FEATURES.glob("*/faults.toml")))
PROMISES = (ROOT / "tests" / "promises.md", *sorted(OF_FEATURES.glob("*/promises.md")))


@dataclass(frozen=True)
class Fault:
    """One mistake in one place, and the pytest nodes that catch it."""

    promise: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def plant(self, text: str) -> str:
        """The file's text with the mistake.

        Raises:
            ValueError: `old` does not stand there exactly once, or is what `new` is.
        """
        if text.count(self.old) != 1 or self.old == self.new:
            raise ValueError(f"{self.promise}: {self.file} has {self.old!r} {text.count(self.old)} times")
        return text.replace(self.old, self.new)


def faults() -> tuple[Fault, ...]:
    """All of them, in the order of the files."""
    return tuple(
        Fault(promise, table["file"], table["old"], table["new"], tuple(_as_list(table["test"])))
        for file in FAULTS
        for promise, table in tomllib.loads(file.read_text(encoding="utf-8")).items()
    )


def _as_list(test: str | list[str]) -> list[str]:
    return [test] if isinstance(test, str) else test
