"""The page docs/estimators.md: which estimators need no assumption, and why, from the list itself."""

from dpbo_core.models.estimator_allowlist.classes import PREDICTORS, READ, TRANSFORMERS, Listed


def _versions() -> str:
    """The packages with the versions that were read."""
    said = [
        f"{name} {'.'.join(map(str, first))} to {'.'.join(map(str, last))}" for name, (first, last) in READ.items()
    ]
    return ", ".join(said[:-1]) + f" and {said[-1]}"


HEAD = f"""# Which estimators

Any scikit-learn estimator can be tuned. What the guarantee then rests on is one of three things.

1. **A class on the list below.** Its prediction of a record is a function of that record alone: of the record, its
   place in the table, the number of records and what was fitted, and of no value in another record. Nothing is
   assumed. The list holds for {_versions()}, whose
   code was read; the compiled part of the boosters as it is published. A class is recognised by identity, never by
   its name, and everything that an estimator holds, its
   parameters and what fitting left in it, is looked at to the bottom: a Pipeline is on the list as far as its steps
   are, and a subclass is another class.
2. **`rowwise = "enforced"`** in `[model]` (`PrivateSearch(rowwise="enforced")`): every sensitive record is
   predicted, and scored, alone by a fresh copy in a process of its own. Nothing is assumed. It takes milliseconds a
   record; `dpbo plan` says how long a study takes.
3. **Your word**: `accepts = ["rowwise_predictions"]`. The estimator runs in the curator's process; it is tried on
   public rows, which proves nothing, and the release says what it rests on.

Models of other frameworks, and predictions made elsewhere: [any model](any_model.md).

Your own score function is called with one record at a time, and nobody knows what it remembers: it needs 2 or 3.

The list was tried on neighbouring tables, with values that no public row holds: no other record's score moved, not
by its last bit ([the audit](audit.md)). This page is written by `make pages`.
"""


def section(title: str, entries: dict[str, Listed]) -> str:
    """A table a title: names beside the reason that they share."""
    grouped: dict[tuple[str, str], set[str]] = {}
    for path, entry in entries.items():
        grouped.setdefault((entry.because, _limits(entry)), set()).add(f"`{path.rpartition('.')[2]}`")
    lines = [f"\n## {title}\n\n| class | a record's outcome comes from | where |\n|---|---|---|\n"]
    for (because, limits), names in sorted(grouped.items()):
        lines.append(f"| {', '.join(sorted(names))} | {because} | {limits or 'always'} |\n")
    return "".join(lines)


def _limits(entry: Listed) -> str:
    return "; ".join(
        f"`{name}` is {' or '.join(f'`{value!r}`' for value in values)}" for name, values in entry.only.items()
    )


def page() -> str:
    """The whole page."""
    return (
        HEAD + section("Classifiers and regressors", dict(PREDICTORS)) + section("Transformers", dict(TRANSFORMERS))
    )
