"""What 500 submissions tell of hidden labels: the attacks of examples/demo.py on an exact and a private board."""

import importlib.util
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from audit.verdict import line, table
from sklearn.linear_model import LogisticRegression

from dpbo import PrivateObjective

ROOT = Path(__file__).parents[3]
RECORDS, SUBMISSIONS = 2000, 500
BOARDS = ("exact", "private, ε = 1 for all")


def demo():
    """The module examples/demo.py."""
    spec = importlib.util.spec_from_file_location("demo", ROOT / "examples" / "demo.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def exact_score(truth, vote, _):
    return float((vote == truth).mean())


def private_board(truth, submissions, folder):
    """A private objective on hidden labels: asked for the accuracy of predictions under a name."""
    rng = np.random.default_rng(1)
    X, Z = rng.normal(size=(40, 1)), rng.normal(size=(len(truth), 1))
    board = PrivateObjective(
        LogisticRegression(), epsilon=1.0, delta=1e-6, dataset="board", n_scores=submissions, budget=(1.0, 1e-6),
        accepts=("rowwise_predictions",), ledger=f"sqlite:///{folder}/ledger.db",
    ).fit(X, np.arange(40) % 2, X_validation=Z, y_validation=truth)  # fmt: skip
    return lambda vote, name: board.submit_predictions(vote, name=name).value


def row(board, worlds, submissions=SUBMISSIONS):
    """The cheater's accuracy on the hidden labels of so many worlds, and the labels read off pairs."""
    attack, reached, read = demo(), [], 0
    for seed in range(worlds):
        truth = np.random.default_rng([41, seed]).integers(0, 2, RECORDS)
        with TemporaryDirectory() as folder:
            hidden = board == BOARDS[0]
            score = partial(exact_score, truth) if hidden else private_board(truth, submissions, folder)
            rise, labels = attack.cheat(truth, score, submissions)
        reached, read = [*reached, rise[-1]], read + labels
    spread = np.std(reached, ddof=1) if worlds > 1 else 0.0
    figures = np.mean(reached), spread, min(reached), max(reached)
    return line(board, worlds, *(f"{figure:.3f}" for figure in figures), f"{read} of {worlds * attack.PAIRS}")


def _table(board, worlds, submissions=SUBMISSIONS):
    head = "board | worlds | the vote's accuracy, mean | standard deviation | least | most | labels read off pairs"
    return table(head, [row(board, worlds, submissions)])


def attacked(*, short: bool):
    exact, ours = (_table(board, *((1, 60) if short else (8,))) for board in BOARDS)
    return f"""The cheater of examples/demo.py on {RECORDS:,} coin flips, with {SUBMISSIONS}
submissions: random votes, summed by how far each score stood from a half (Blum and Hardt, 2015), and
twenty in pairs that differ in one record, whose label the larger score tells. On ours the mean must be
at most 0.56, and at most seven of ten labels right (guessing: a half; a false alarm has probability
below 1e-3).

{ours}

Planted faults; every row must learn. A board that shows exact scores:

{exact}"""
