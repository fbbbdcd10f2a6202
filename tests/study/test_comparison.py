"""The comparison: tables are of real trainings, rivals are what they claim, the page says what was measured."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.compare import cell_runs, rivals, tasks
from benchmarks.compare.__main__ import main
from benchmarks.compare.cell_runs import METHODS_COMPARED, NOT_PRIVATE, cells_of, measured_at, names_of, trained
from benchmarks.compare.page import draw, markdown
from benchmarks.compare.rivals import run_on
from benchmarks.compare.tasks import TASKS, ScoreTable, Task, on_table
from dpbo_core.errors import StudyInvalid
from dpbo_core.methods import METHODS
from dpbo_core.methods.private_grid import PrivateGrid
from dpbo_core.methods.private_trajectory import PrivateTrajectory
from dpbo_core.study import StudySpec, data_split

MODEL = {"estimator": "logistic", "score": "sigmoid", "steepness": 10.0}
SPACE = {"lambda": {"low": 1e-4, "high": 10.0, "log": True, "points": 32}}  # an eighth of the task's own


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    few = Task("breast_cancer", lambda: tasks._bundled_task("breast_cancer", MODEL, SPACE))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cell_runs, "TASKS", (few, *TASKS[1:]))
        yield tmp_path_factory.mktemp("kept")


@pytest.fixture(scope="module")
def bench(kept):
    return trained("breast_cancer", kept)


def test_the_table_is_what_a_study_would_see(bench):
    """Sum by sum, against the sealed objective of a study on the same data; no noise is drawn."""
    problem, table = bench
    spec = StudySpec.from_dict(
        {
            "study": {"name": "same", "method": "private_grid"},
            "privacy": {"dataset": "d", "epsilon": 1.0},
            "data": {"source": "breast_cancer"},
            "model": MODEL,
            "space": SPACE,
        }
    )
    public = data_split.public_half(spec, ".")
    objective = data_split.sensitive_half(spec, ".", public)
    assert public.problem.candidates.points == problem.candidates.points
    for index in (0, 13, 31):
        assert objective.evaluate(public.problem.train(index)).expose() == table.sums[index]
        assert public.problem.public_score(index) == table.public[index]


def test_what_was_trained_is_kept(bench, kept, monkeypatch):
    first = bench[1]
    monkeypatch.setattr("benchmarks.compare.tasks.Task.table", lambda *_: pytest.fail("trained again"))
    again = trained("breast_cancer", kept)[1]
    assert (first.sums == again.sums).all()
    assert (first.public == again.public).all()


def test_every_method_that_tunes_a_model_on_validation_records_is_compared():
    """What protects training records has another guarantee, so no row beside these."""
    tuning = {kind for kind, cls in METHODS.items() if not cls.trains_privately}
    assert {method.kind for _, method in METHODS_COMPARED} == tuning


@pytest.fixture(scope="module")
def cells(bench):
    return cells_of("breast_cancer", *bench, 1.0, 2)


def test_auto_is_one_of_a_cells_rows(cells):
    by_name = {cell.contender: cell for cell in cells}
    assert any(replace(by_name["auto"], contender=name) == cell for name, cell in by_name.items() if name != "auto")
    assert all(cell.regret is None or cell.regret >= 0 for cell in cells)


def test_a_cell_is_reproducible_and_measured_on_its_own_the_same(cells, kept):
    """What a worker does with a name, an ε and a folder is what one process does with the table in hand."""
    assert measured_at("breast_cancer", 1.0, 2, kept) == cells


def small(scores, steps=8, epsilon=1.0, m=500):
    from test_advice import synthetic

    world = synthetic(d=1, size=len(scores), steps=steps, m=m, epsilon=epsilon)
    table = ScoreTable(np.rint(np.array(scores) * m * 2**24).astype(np.int64), np.array(scores))
    return (*on_table(world, table), np.array(scores))


def test_the_non_private_search_finds_the_top_of_a_smooth_score():
    x = small([0.5] * 64)[0].candidates.encoded[:, 0]
    problem, _, scores = small(np.sin(3 * x) / 2 + 0.4, steps=12)
    for seed in range(5):
        assert scores.max() - scores[rivals.gp_ucb(problem, scores, seed=seed).index] < 1e-3


def test_random_search_with_laplace_spends_epsilon_over_its_trials():
    """The mean of |noise|/scale over 2,000 runs of one candidate, within 4.5 standard errors (0.1)."""
    problem, _, scores = small([0.5], steps=1, epsilon=0.4)
    noise = [rivals.random_search_with_laplace(problem, scores, seed=s).score - 0.5 for s in range(2_000)]
    assert np.mean(np.abs(noise)) * 500 * 0.4 == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("epsilon", [0.3, pytest.param(3.0, marks=pytest.mark.slow)])
def test_uniform_selection_is_priced_by_papernot_and_steinke(epsilon):
    """Theorem 6 worked by hand over the orders: ε′ = ε(λ) + μ·δ̂ + log(μ)/(λ − 1), δ̂ at ε̂ = log(1 + 1/(λ − 1))."""
    from dp_accounting import GaussianDpEvent
    from dp_accounting.rdp import RdpAccountant

    problem, *_ = small([0.5] * 4, epsilon=epsilon)
    ratio, mean, delta = rivals.selection_noise(problem) / rivals.change(problem), 8.0, problem.delta
    best = math.inf
    for order in [1.5, 2, 3, 5, 8, 12, 20, 30, 50, 80, 128, 256]:
        base = RdpAccountant().compose(GaussianDpEvent(ratio))
        tail = base.get_delta(math.log1p(1 / (order - 1)))
        rdp = order / (2 * ratio**2) + mean * tail + math.log(mean) / (order - 1)
        best = min(best, rdp + math.log1p(-1 / order) - math.log(delta * order) / (order - 1))
    assert best >= epsilon * (1 - 1e-3)  # fewer orders than the library: never below it
    assert best <= epsilon * 1.1


@pytest.mark.parametrize("method", [PrivateGrid(evaluate="sobol"), PrivateTrajectory()], ids=lambda m: m.kind)
def test_a_contender_is_the_method_itself(method):
    """The same release as the three verbs give under the same noise."""
    from worlds import Memory, run

    from dpbo_core.mechanisms.noise import InjectedNoise, Noise

    problem, scorer, _ = small(np.linspace(0.2, 0.9, 20))
    direct = run(method, problem, scorer, Noise(InjectedNoise(np.random.default_rng(4)), Memory()))
    found = run_on(method, problem, scorer, seed=4)
    assert problem.candidates.points[found.index] == direct.value["hyperparameters"]
    assert found.score == direct.value["score"]
    assert direct.noise == "injected"
    assert direct.guarantee.epsilon == math.inf


def test_an_unknown_data_set_is_refused():
    with pytest.raises(StudyInvalid, match="digits"):
        names_of(("digit",))
    assert names_of(()) == tuple(task.name for task in TASKS)


def test_the_page_shows_every_row_and_the_picture_every_task(cells):
    page = markdown(cells)
    assert all(f"| {cell.contender} |" in page for cell in cells)
    figure = draw(cells)
    assert len(figure.axes) == 1
    assert NOT_PRIVATE in [text.get_text() for text in figure.legends[0].get_texts()]


@pytest.mark.slow
def test_the_command_prints_one_object_and_writes_the_page(here, capsys):
    assert main(["--json", "--repetitions", "2", "--only", "breast_cancer"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {cell["epsilon"] for cell in document["cells"]} == {0.1, 0.3, 1.0, 3.0}
    assert {file.name for file in (here / "comparison").iterdir()} == {
        "comparison.md",
        "comparison.json",
        "pictures",
    }
