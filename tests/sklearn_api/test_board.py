"""The demonstration of a cheater: an exact board teaches coin flips, a private one does not."""

import importlib.util
from pathlib import Path

import pytest

BOARD = Path(__file__).parents[2] / "examples" / "board.py"


@pytest.mark.slow
def test_a_cheater_learns_hidden_labels_on_an_exact_board_alone(tmp_path):
    """On the private one the vote was 0.542 ± 0.013 in 40 runs: 0.60 is beyond it by 4.5 deviations."""
    spec = importlib.util.spec_from_file_location("board", BOARD)
    board = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(board)
    exact, private, objective = board.cheat(f"sqlite:///{tmp_path}/ledger.db")
    assert exact[-1] >= 0.65
    assert private[-1] <= 0.60
    assert objective.scores_left == 0
    board.draw(exact, private, tmp_path / "board.png")
    assert (tmp_path / "board.png").stat().st_size > 10_000
