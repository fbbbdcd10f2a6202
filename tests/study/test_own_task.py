"""`--task FILE.npz`: what such a file holds, what is wrong with one, and that it is compared so."""

import json

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from benchmarks.compare.__main__ import main
from benchmarks.compare.cell_runs import auto_of, cells_of, measured_own
from benchmarks.compare.own_task import read_task
from dpbo_core.errors import StudyInvalid
from dpbo_core.models.integer_sums import GRID

N, M_RECORDS, PUBLIC = 12, 60, 40


def arrays(*, graded=True, G=1.0, seed=0):
    rng = np.random.default_rng(seed)
    top = 0.8 - (np.linspace(0, 1, N) - 0.4) ** 2
    scores, public = (np.clip(top + 0.1 * rng.normal(size=(n, N)), 0, 1) for n in (M_RECORDS, PUBLIC))
    if not graded:
        scores, public = (scores > 0.75).astype(int), (public > 0.75).astype(int)
    line = np.linspace(0, 1, N)[:, None]
    return {"scores": G * scores, "public_scores": G * public, "candidates": line, "score_range": G}


def written(path, **changes):
    held = {name: array for name, array in (arrays() | changes).items() if array is not None}
    np.savez(path, **held)
    return path


def test_a_task_is_read_as_it_was_written(tmp_path):
    made = arrays(G=(G := 4.6))
    problem, table = read_task(written(tmp_path / "mine.npz", **made))
    assert (problem.n_validation, problem.n_training, len(problem.candidates)) == (M_RECORDS, PUBLIC, N)
    assert problem.score_range == G
    assert problem.score.graded
    assert (problem.candidates.encoded == made["candidates"]).all()
    assert (table.steps == np.rint(made["scores"] / G * GRID)).all()
    assert table.sums * problem.score_per_step == pytest.approx(made["scores"].mean(axis=0), abs=1e-7)
    assert table.public == pytest.approx(made["public_scores"].mean(axis=0), abs=1e-7 * G)
    assert problem.public_score(3) == table.public[3]
    assert (problem.public_steps(3) == table.public_steps[:, 3]).all()


def test_right_or_wrong_is_accuracy_and_is_not_paired(tmp_path):
    problem, _ = read_task(written(tmp_path / "mine.npz", **arrays(graded=False)))
    assert not problem.score.graded
    assert auto_of(problem) == "private_grid, base measure"
    graded, _ = read_task(written(tmp_path / "graded.npz"))
    assert auto_of(graded) == "private_grid, base measure, paired"


def of_pairs(seed=0):
    """Decision values with ties, and labels of which a third are positive."""
    rng, line = np.random.default_rng(seed), np.linspace(0, 1, N)[:, None]
    halves = {"candidates": line}
    for before, n in (("", 300), ("public_", 150)):
        labels = (rng.random(n) < 0.3).astype(int)
        noise = rng.normal(size=(n, N))
        halves |= {
            f"{before}labels": labels,
            f"{before}decision_values": np.round(labels[:, None] * line.T + noise, 1),
        }
    return halves


def test_a_task_of_pairs_is_scored_as_scikit_learn_ranks(tmp_path):
    made = of_pairs()
    np.savez(tmp_path / "pairs.npz", **made)
    problem, table = read_task(tmp_path / "pairs.npz")
    for before, areas in (("", table.sums / table.pairs), ("public_", table.public)):
        truth, values = made[f"{before}labels"], made[f"{before}decision_values"]
        assert areas == pytest.approx([roc_auc_score(truth, values[:, i]) for i in range(N)], abs=1e-12)
    assert problem.positives == made["public_labels"].mean()
    cells = {cell.contender: cell for cell in cells_of("pairs", problem, table, 1_000.0, 2)}
    assert cells["auto"].regret < 0.02  # ε = 1,000 leaves next to no noise
    assert cells["private_grid, all"].score_error < 0.02
    np.savez(tmp_path / "wrong.npz", **(made | {"labels": made["labels"] + 1}))
    with pytest.raises(StudyInvalid, match="'labels' has 300 of them for 300 records"):
        read_task(tmp_path / "wrong.npz")


WRONG = {
    "no scores": ({"scores": None}, "no array 'scores'"),
    "other candidates": ({"public_scores": np.zeros((5, N + 1))}, "'public_scores' has 13 candidates"),
    "outside the cube": ({"candidates": np.full((N, 2), 1.5)}, "outside \\[0, 1\\]"),
    "above the range": ({"scores": np.full((3, N), 1.2)}, "a score outside"),
    "below the range": ({"public_scores": np.full((3, N), -0.1)}, "a score outside"),
    "not finite": ({"scores": np.full((3, N), np.nan)}, "not finite"),
    "one dimension": ({"scores": np.zeros(N)}, "shape"),
    "no records": ({"scores": np.zeros((0, N))}, "no rows"),
    "texts": ({"scores": np.full((3, N), "a")}, "shape"),
    "no range": ({"score_range": 0.0}, "no positive number"),
    "a range of two": ({"score_range": np.ones(2)}, "no positive number"),
    "one candidate": (
        {"scores": np.zeros((4, 1)), "public_scores": np.zeros((4, 1)), "candidates": np.zeros((1, 1))},
        "1 columns",
    ),
}


def test_what_is_wrong_with_a_task_is_said(tmp_path):
    for changes, told in WRONG.values():
        with pytest.raises(StudyInvalid, match=told):
            read_task(written(tmp_path / "mine.npz", **changes))


def test_a_file_that_is_none_is_refused_and_never_unpickled(tmp_path):
    with pytest.raises(StudyInvalid, match="no file"):
        read_task(tmp_path / "missing.npz")
    (tmp_path / "text.npz").write_text("scores")
    with pytest.raises(StudyInvalid, match="no task"):
        read_task(tmp_path / "text.npz")
    objects = np.empty((2, N), dtype=object)
    np.savez(tmp_path / "objects.npz", **(arrays() | {"scores": objects}))
    with pytest.raises(StudyInvalid, match="no task"):
        read_task(tmp_path / "objects.npz")


@pytest.mark.slow
def test_every_contender_runs_on_it_and_auto_is_one(tmp_path):
    file = written(tmp_path / "mine.npz")
    cells = measured_own(file, 1.0, 3)
    by_name = {cell.contender: cell for cell in cells}
    assert {"auto", "public score alone", "private_grid, all", "private_grid, base measure"} <= set(by_name)
    assert {cell.task for cell in cells} == {"mine"}
    assert by_name["auto"].regret == by_name["private_grid, base measure, paired"].regret
    means = arrays()["scores"].mean(axis=0)
    chosen = int(np.argmax(arrays()["public_scores"].mean(axis=0)))
    assert by_name["public score alone"].regret == pytest.approx(means.max() - means[chosen], abs=1e-6)
    assert by_name["public score alone"].regret_error == pytest.approx(0.0)
    assert cells == cells_of("mine", *read_task(file), 1.0, 3)


@pytest.mark.parametrize(
    ("words", "told"), [(["--task", "missing.npz"], "no file"), (["--epsilon", "-1"], "no price")]
)
def test_the_command_refuses_before_it_starts_anything(here, words, told, capsys):
    assert main(words) == 2
    assert told in capsys.readouterr().err
    assert list(here.iterdir()) == []


@pytest.mark.slow
def test_the_command_compares_a_task_of_one_s_own(here, capsys):
    file = written(here / "mine.npz")
    words = ["--task", str(file), "--epsilon", "1", "--epsilon", "0.2", "--repetitions", "2", "--json"]
    assert main(words) == 0
    document = json.loads(capsys.readouterr().out)
    assert {(cell["task"], cell["epsilon"]) for cell in document["cells"]} == {("mine", 0.2), ("mine", 1.0)}
    assert (here / "comparison" / "comparison.md").exists()
