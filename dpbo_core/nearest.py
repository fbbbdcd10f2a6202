"""The nearest valid name, for letters about misspelt ones."""

from collections.abc import Iterable
from difflib import get_close_matches


def suggestion(name: str, valid: Iterable[str]) -> str:
    """The words ", did you mean 'x'?" for the nearest of `valid`, or nothing if none is near."""
    near = get_close_matches(name.lower(), list(valid), n=1, cutoff=0.5)
    return f", did you mean {near[0]!r}?" if near else ""
