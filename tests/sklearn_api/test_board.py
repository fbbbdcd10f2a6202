"""The demonstration of a cheater: an exact board teaches coin flips, a private one does not."""

import importlib.util
from pathlib import Path

import pytest

from dpbo_core.queries.objective_for_a_loop.score_session import Score

BOARD = Path(__file__).parents[2] / "examples" / "board.py"


def loaded():
    spec = importlib.util.spec_from_file_location("board", BOARD)
    board = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(board)
    return board


def test_scores_whose_intervals_meet_share_a_rank():
    teams = {"ann": 0.70, "bob": 0.72, "eve": 0.60, "joe": 0.59}
    lines = loaded().ranking(
        {name: Score(value, 0.01, (value - 0.02, value + 0.02)) for name, value in teams.items()}
    )
    assert [line.split()[:2] for line in lines] == [["1", "bob"], ["1", "ann"], ["3", "eve"], ["3", "joe"]]
    assert ["cannot be told apart" in line for line in lines] == [False, True, False, True]


@pytest.mark.slow
def test_a_cheater_learns_hidden_labels_on_an_exact_board_alone(tmp_path):
    """On the private one the vote was 0.543 ± 0.011 in 160 runs: 0.60 is beyond it by 5 deviations."""
    board = loaded()
    exact, private, objective = board.cheat(f"sqlite:///{tmp_path}/ledger.db")
    assert exact[-1] >= 0.65
    assert private[-1] <= 0.60
    assert objective.scores_left == 0
    board.draw(exact, private, tmp_path / "board.png")
    assert (tmp_path / "board.png").stat().st_size > 10_000
