"""The method of docs/adding_a_method.md is a method: the contract's laws hold for it, word for word as printed."""

import inspect
import sys
import types
from pathlib import Path

import pytest
import test_contract
from pages import blocks, code_of
from worlds import Memory, problem, run, smooth_table

from dpbo_core.mechanisms.noise import Noise, OperatingSystemNoise
from dpbo_core.methods.contract import Method

PAGE = Path(__file__).parents[2] / "docs" / "adding_a_method.md"
LAWS = [
    law
    for name, law in vars(test_contract).items()
    if name.startswith("test_") and list(inspect.signature(law).parameters) == ["method"]
]


@pytest.fixture(scope="module")
def method():
    code, _ = (code_of(block) for block in blocks(PAGE.read_text()) if block.kind == "python")
    room = types.ModuleType("every_score")
    sys.modules[room.__name__] = room  # where dataclasses look for the names in annotations
    exec(compile(code, str(PAGE), "exec"), room.__dict__)
    yield room.EveryScore()
    del sys.modules[room.__name__]


def marked(law):
    """A law as a parameter; the two hundred runs, which the methods of the package make too, are `make audit`'s."""
    name = law.__name__.removeprefix("test_")
    return pytest.param(law, id=name, marks=[pytest.mark.slow] * name.startswith("two_hundred_runs"))


@pytest.mark.parametrize("law", map(marked, LAWS))
def test_it_obeys_the_law(law, method):
    assert isinstance(method, Method)
    law(method)


def test_all_laws_are_tried():
    assert len(LAWS) == 9


@pytest.mark.parametrize("best", [0, 5, 11])
def test_without_noise_it_finds_the_best(method, best):
    test_contract.test_without_noise_it_finds_the_best_of_a_small_table(method, best)


def test_what_it_draws_and_what_it_costs(method):
    world = problem(n_candidates=6, epsilon=1.0)
    memory = Memory()
    release = run(method, world, smooth_table(world, best=2), Noise(OperatingSystemNoise(), memory))
    assert list(memory.kept) == [*(f"score {t}" for t in range(1, 7)), "score of the best"]
    assert sum(spend.epsilon_units for spend in release.spends) == 10**12
    assert 0 <= release.spends[-1].epsilon_units - 5 * 10**11 < 6  # what rounding down left goes to the last
