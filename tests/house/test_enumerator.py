"""A seeded part of the enumeration that `make audit` does in full: every kind of door, on a few small tables."""

import pytest
from audit.cells import CONTAINERS, KINDS, TARGET, TARGETS, cell_doors, public_half, worlds
from audit.doors import doors
from audit.enumerator import enumerated, one_of_each, some

CHOSEN = one_of_each(doors())


@pytest.mark.parametrize("door", CHOSEN, ids=lambda door: door.kind)
def test_neighbours_cannot_be_told_apart(door):
    figures = enumerated(some(door, 4, of_interest=3))
    assert figures.pairs >= 3
    assert not figures.found, "\n".join(map(str, figures.found[:3]))


def whole_doors():
    """One of each kind of door that takes a cell, with worlds that NumPy or pandas gave another type once."""
    return one_of_each(
        [door for door in cell_doors(["NumPy", "pandas, converted"], ["NumPy"]) if "public half" not in door.kind]
    )


@pytest.mark.parametrize("door", whole_doors(), ids=lambda door: door.kind)
def test_no_kind_of_cell_can_be_told_from_another(door):
    figures = enumerated(some(door, 3, of_interest=2))
    assert figures.pairs == 3
    assert not figures.found, "\n".join(map(str, figures.found[:3]))


HALVES = (
    *(
        (container, "list", "texts", column)
        for container, (names, _) in CONTAINERS.items()
        for column in names[::2]
    ),
    *(("NumPy, numbers", target, of, TARGET) for target in TARGETS for of in ("truths", "texts")),
)[::4]
HALVES += (("NumPy, rows", "list", "texts", "number"),)  # of which one may be short


def test_no_kind_of_cell_changes_the_public_half_whatever_holds_it():
    """A container's type follows from all of its rows, and the public half from its own."""
    compared = 0
    for of_column in HALVES:
        held = dict(zip(("container", "target", "of"), of_column, strict=False))
        honest, *others = worlds(*of_column)
        expected = public_half(honest, held=held)
        for world in others:
            assert public_half(world, held=held) == expected, (of_column, world)
        compared += len(others)
    assert compared > len(KINDS) * len(HALVES) / 2  # what no container holds cannot exist
