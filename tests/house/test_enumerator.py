"""A seeded part of the enumeration that `make audit` does in full: every kind of door, on a few small tables."""

import pytest
from audit.doors import doors
from audit.enumerator import enumerated, one_of_each, some

CHOSEN = one_of_each(doors())


@pytest.mark.parametrize("door", CHOSEN, ids=lambda door: door.kind)
def test_neighbours_cannot_be_told_apart(door):
    figures = enumerated(some(door, 4, of_interest=3))
    assert figures.pairs >= 3
    assert not figures.found, "\n".join(map(str, figures.found[:3]))
