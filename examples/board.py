"""A cheater on two leaderboards: one shows exact accuracies, the other private ones at ε = 1.

2,000 coin flips are hidden, so that no model is better than 0.5 on new records. The cheater hands in 500 random
models and lets them vote by how far their scores stood from 0.5 (Blum and Hardt, 2015: the boosting attack). On the
exact board the vote rises far above 0.5 on the hidden records: it has learned their labels. On the private board
the scores say too little of any one record. `python examples/board.py` prints both and five ranks.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from sklearn.tree import ExtraTreeClassifier

from dpbo import PrivateObjective

SUBMISSIONS, RECORDS, PUBLIC, FEATURES, EPSILON = 500, 2000, 400, 40, 1.0


def world(seed=0):
    """Public rows, which the cheater's models are trained on, and hidden ones: labels are coin flips."""
    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(PUBLIC, FEATURES)), rng.normal(size=(RECORDS, FEATURES))
    return X, rng.integers(0, 2, PUBLIC), Z, rng.integers(0, 2, RECORDS)


def rising_vote(votes, scores, truth):
    """Accuracy on the hidden records of the first 1, 2, … submissions' vote, weighted by score − ½."""
    weighed = np.cumsum((scores - 0.5)[:, None] * (2 * votes - 1), axis=0)
    return ((weighed > 0) == truth).mean(axis=1)


def cheat(ledger, submissions=SUBMISSIONS, seed=0):
    """The cheater's rise on both boards, and the private objective that was asked."""
    X, y, Z, truth = world(seed)
    models = [ExtraTreeClassifier(random_state=number).fit(X, y) for number in range(submissions)]
    votes = np.array([model.predict(Z) for model in models])
    exact = (votes == truth).mean(axis=1)
    board = PrivateObjective(
        ExtraTreeClassifier(), epsilon=EPSILON, delta=1e-6, dataset="board", n_scores=submissions,
        budget=(EPSILON, 1e-6), ledger=ledger,
    ).fit(X, y, X_validation=Z, y_validation=truth)  # fmt: skip
    private = np.array([board({"random_state": number}) for number in range(submissions)])
    return rising_vote(votes, exact, truth), rising_vote(votes, private, truth), board


def ranking(scores):
    """Lines of a board: rank, name, released score and its 90% interval, the best first.

    Down to the first whose interval ends below that of the rank's first they share it: they cannot be told apart.

    Args:
        scores: by name, as the private objective released them; those without a value are left out.
    """
    scores = {name: score for name, score in scores.items() if score.value is not None}
    lines, rank, end = [], 0, np.inf
    for place, (name, score) in enumerate(sorted(scores.items(), key=lambda item: -item[1].value), start=1):
        low, high = score.interval
        apart = high < end
        rank, end = (place, low) if apart else (rank, end)
        said = "" if apart else f"   cannot be told apart from rank {rank}'s first"
        lines.append(f"{rank:4}  {name}  {score.value:.3f}  ({low:.3f} to {high:.3f}){said}")
    return lines


def draw(exact, private, path):
    """The picture of both rises."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 3.8), layout="constrained")
    axes = figure.subplots()
    axes.plot(np.arange(1, len(exact) + 1), exact, color="#c2410c", label="a board that shows exact scores")
    axes.plot(
        np.arange(1, len(private) + 1), private, color="#1f2933", label="a private board, ε = 1 for all scores"
    )
    axes.axhline(0.5, color="#7b8794", lw=0.8, ls=":", label="the truth: coin flips")
    axes.set(
        xlabel="submissions", ylabel="accuracy on the hidden records",
        title="500 random models, combined by the scores that the board gave them", ylim=(0.45, 0.75),
    )  # fmt: skip
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(frameon=False, fontsize=9, loc="upper left")
    figure.savefig(path, dpi=96)


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        exact, private, board = cheat(f"sqlite:///{folder}/ledger.db")
        print(f"exact board:   the cheater reaches {exact[-1]:.3f} on {RECORDS:,} coin flips")
        print(f"private board: the cheater reaches {private[-1]:.3f}; {board.guarantee_.in_words()}")
        first = {f"model {number}": board.ask({"random_state": number}) for number in range(5)}
        print("\n".join(ranking(first)))
    if len(sys.argv) > 1:
        draw(exact, private, Path(sys.argv[1]))
