"""docs/tables/estimators.txt: the estimators that need no assumption, and why, from the list itself."""

from dpbo_core.models.estimator_allowlist.classes import PREDICTORS, READ, TRANSFORMERS, Listed


def _versions() -> str:
    """The packages with the versions that were read."""
    said = [
        f"{name} {'.'.join(map(str, first))} to {'.'.join(map(str, last))}" for name, (first, last) in READ.items()
    ]
    return ", ".join(said[:-1]) + f" and {said[-1]}"


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
    """The whole list."""
    read = (
        f"The list holds for {_versions()}, whose code was read; the compiled part of the boosters as published.\n"
    )
    return (
        read + section("Classifiers and regressors", dict(PREDICTORS)) + section("Transformers", dict(TRANSFORMERS))
    )
