"""The demonstrations: what an exact board gives to a cheater and ours does not."""

import ast
import re
import runpy

import boards
import numpy as np
import pytest
from audit import verdict
from pages import PAGES

import dpbo
from dpbo.features.objective.price import Score
from dpbo.flows.cli.app import ALL_COMMANDS

PUBLIC = {"budget", "tune", "evaluate", "show", "verify"}  # commands that it runs


@pytest.fixture
def demo():
    return boards.demo()


@pytest.fixture
def board():
    """What examples/board.py holds, by name."""
    return runpy.run_path(str(boards.ROOT / "examples" / "board.py"))


@pytest.mark.parametrize("name", ["demo", "board"])
def test_an_example_is_made_of_public_commands_and_documented_names_alone(name):
    nodes = [*ast.walk(ast.parse((boards.ROOT / "examples" / f"{name}.py").read_text()))]
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    modules = [node.module for node in imports]
    modules += [one.name for node in nodes if isinstance(node, ast.Import) for one in node.names]
    assert {one for one in modules if one.partition(".")[0] in ("dpbo", "dpbo_core")} == {"dpbo"}
    names = {one.name for node in imports if node.module == "dpbo" for one in node.names}
    pages = "".join(page.read_text() for page in PAGES)
    assert [one for one in names if one not in dpbo.__all__ or one not in pages] == []
    assert [node.attr for node in nodes if isinstance(node, ast.Attribute) and re.match("_[^_]", node.attr)] == []
    calls = [node for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    first = [call.args[0] for call in calls if call.func.attr in ("run", "json") and call.args]
    words = {word.value for word in first if isinstance(word, ast.Constant)}
    assert words == (PUBLIC if name == "demo" else set())
    assert words <= {*ALL_COMMANDS}


def test_what_the_audit_counts_learns_from_an_exact_board():
    """With 40 submissions; on ours the vote of 40 more was 0.52: 0.60 is beyond it by more than 5 deviations."""
    exact, ours = (boards.row(board, 1, 40) for board in boards.BOARDS)
    assert (verdict.learned(verdict.rows(exact)[0]), exact.endswith("| 10 of 10 |")) == (True, True)
    assert float(verdict.rows(ours)[0][2]) <= 0.60


def test_exact_scores_teach_hidden_labels_and_two_read_one_off(demo):
    """The attack itself, without a private board: half a second."""
    truth = np.random.default_rng(0).integers(0, 2, 2000)
    rise, read = demo.cheat(truth, lambda vote, _: float((vote == truth).mean()))
    assert rise[-1] >= 0.65
    assert read == demo.PAIRS


@pytest.mark.slow
def test_the_demonstration_shows_what_its_page_says(demo, tmp_path):
    """A case of `make audit`; `demo` itself ends where a command does not exit as it must.

    On such a board a vote of 500 was 0.542 ± 0.013 in 40 runs: 0.60 is beyond it by 4.5 deviations.
    """
    figures = demo.demonstrate(tmp_path, tmp_path / "demo.png")
    exact, private = figures["exact"], figures["private"]
    assert max(exact, key=exact.get) == max(private, key=private.get) == figures["winner"]
    assert figures["left"][-1] >= 0.65
    assert figures["right"][-1] <= 0.60
    assert figures["read"][0] == demo.PAIRS
    before, after = figures["loss"]
    assert after < before
    assert figures["pooled"]["disagreement"]["disagree"]
    assert (tmp_path / "demo.png").stat().st_size > 10_000


def test_scores_whose_intervals_meet_share_a_rank(board):
    teams = {"ann": 0.70, "bob": 0.72, "eve": 0.60, "joe": 0.59}
    scores = {name: Score(value, 0.01, (value - 0.02, value + 0.02)) for name, value in teams.items()}
    lines = board["ranking"](scores)
    assert [line.split()[:2] for line in lines] == [["1", "bob"], ["1", "ann"], ["3", "eve"], ["3", "joe"]]
    assert ["cannot be told apart" in line for line in lines] == [False, True, False, True]


@pytest.mark.slow
def test_a_cheater_learns_hidden_labels_on_an_exact_board_alone(board, tmp_path):
    """On the private one the vote was 0.543 ± 0.011 in 160 runs: 0.60 is beyond it by 5 deviations."""
    exact, private, objective = board["cheat"](f"sqlite:///{tmp_path}/ledger.db")
    assert exact[-1] >= 0.65
    assert private[-1] <= 0.60
    assert objective.scores_left == 0
    board["draw"](exact, private, tmp_path / "board.png")
    assert (tmp_path / "board.png").stat().st_size > 10_000
