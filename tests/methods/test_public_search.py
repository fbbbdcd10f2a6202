"""Public cross-validation and the shortlist: against scikit-learn, and against everything that could go wrong."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import at_length, problem

from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.methods.private_grid import PrivateGrid
from dpbo_core.methods.private_trajectory import PrivateTrajectory
from dpbo_core.methods.public_search import doubt, head_start, public_shortlist, search_on_public_data
from dpbo_core.models.baseline import N_FOLDS, fold_of
from dpbo_core.models.estimator_trainer import EstimatorTrainer
from dpbo_core.models.estimators import EstimatorFactory
from dpbo_core.models.integer_sums import GRID
from dpbo_core.models.linear.fit import LinearTrainer
from dpbo_core.models.scores.sigmoid import Sigmoid
from dpbo_core.search import likelihood
from dpbo_core.search.search_space import Categorical, Integer, Real, SearchSpace, grid, sobol
from dpbo_core.study import StudySpec
from dpbo_core.study.query import QueryContext
from dpbo_core.study.run import Run
from dpbo_core.study.tuning import open_study


@settings(max_examples=at_length(100))
@given(st.lists(st.integers(0, 3), min_size=2, max_size=60), st.integers(0, 2**32 - 1))
def test_folds_are_stratified_and_the_seed_s_alone(labels, seed):
    labels = np.array(labels)
    folds = fold_of(labels, seed=seed)
    n_folds = min(N_FOLDS, len(labels))
    assert set(folds) == set(range(n_folds))
    for members in (np.ones(len(labels), bool), *(labels == c for c in np.unique(labels))):
        counts = np.bincount(folds[members], minlength=n_folds)
        assert counts.max() - counts.min() <= 1
    assert (folds == fold_of(labels, seed=seed)).all()


def test_one_record_cannot_be_cross_validated():
    with pytest.raises(StudyInvalid, match="1 record"):
        fold_of(np.array([0]), seed=0)


def data(n=90, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, (X[:, 0] + 0.7 * rng.normal(size=n) > 0).astype(np.int64)


def test_an_estimator_s_public_score_is_scikit_learn_s():
    from sklearn.model_selection import PredefinedSplit, cross_val_score
    from sklearn.tree import DecisionTreeClassifier

    X, y = data()
    trainer = EstimatorTrainer(X, y, EstimatorFactory("sklearn.tree.DecisionTreeClassifier", seed=5))
    split = PredefinedSplit(fold_of(y, seed=3))
    for depth in (1, 4):
        theirs = cross_val_score(DecisionTreeClassifier(max_depth=depth, random_state=5), X, y, cv=split)
        assert trainer.public_score({"max_depth": depth}, seed=3) == pytest.approx(theirs.mean())


def test_a_linear_public_score_is_that_of_scikit_learn_s_logistic_regression():
    from sklearn.linear_model import LogisticRegression

    X, y = data()
    X /= np.linalg.norm(X, axis=1).max()
    signs, score, lam, total = 2.0 * y - 1.0, Sigmoid(10.0), 0.05, 0.0
    folds = fold_of(np.where(y == 1, 1, -1), seed=3)
    for fold in range(N_FOLDS):
        out = folds == fold
        # scikit-learn's C multiplies a SUM of losses beside ½‖w‖²: C = 1/(λ n)
        theirs = LogisticRegression(C=1 / (lam * (~out).sum()), fit_intercept=False, tol=1e-12, max_iter=10_000)
        w = theirs.fit(X[~out], y[~out]).coef_[0]
        total += score.phi(signs[out] * (X[out] @ w)).sum()
    ours = LinearTrainer.of(X, y, "logistic", score=score, tolerance=None).public_score({"lambda": lam}, seed=3)
    assert ours == pytest.approx(total / len(y), abs=1e-6)


class Hill:
    """A public score with its top at `top`, one per axis in the cube; counts what it cross-validates."""

    n_records = 400

    def __init__(self, space, top, height=0.9, width=0.3):
        self.space, self.top, self.height, self.width, self.asked = space, np.array(top), height, width, []

    def public_score(self, point, *, seed):
        self.asked.append(tuple(point.items()))
        squared = ((self.space.encode(point) - self.top) ** 2).sum()
        return self.height * float(np.exp(-squared / self.width**2))

    def public_steps(self, point, *, seed):
        """Records whose scores differ by more, the farther two candidates are from one another."""
        where = self.space.encode(point).sum()
        scores = 0.5 + 0.3 * np.sin(np.arange(self.n_records) + 2.0 * where)
        return np.rint(scores * GRID).astype(np.int64)


MIXED = SearchSpace(
    {"C": Real(1e-3, 1e3, log=True), "depth": Integer(1, 40), "kernel": Categorical(["a", "b", "c"])}
)


def on(candidates, trainer, **search):
    return replace(problem(**search), candidates=candidates, trainer=trainer)


def test_in_a_mixed_space_of_thousands_the_shortlist_gathers_about_the_public_maximum():
    candidates = grid(MIXED, {"C": 60, "depth": 40})  # 7,200 candidates
    trainer = Hill(MIXED, [0.31, 0.77, 0.0, np.sqrt(0.5), 0.0])
    world = on(candidates, trainer, steps=20)
    chosen = public_shortlist(world, 20, search_on_public_data(world, 60))
    assert len(set(chosen)) == 20
    assert len(trainer.asked) == len(set(trainer.asked)) == 60
    true = np.array([Hill(MIXED, trainer.top).public_score(candidates.points[i], seed=0) for i in chosen])
    assert true[0] == true.max() > 0.97 * trainer.height  # 60 looks at 7,200 candidates
    assert np.median(true) > 0.5 * trainer.height
    anew = on(candidates, Hill(MIXED, trainer.top), steps=20)
    assert chosen == public_shortlist(anew, 20, search_on_public_data(anew, 60))


def test_where_the_public_set_says_nothing_the_shortlist_spreads_out():
    line = SearchSpace({"x": Real(0.0, 1.0)})
    flat, sharp = Hill(line, [0.5], height=0.0), Hill(line, [0.5], width=0.1)
    spread = {}
    for name, trainer in (("flat", flat), ("sharp", sharp)):
        world = on(grid(line, {"x": 60}), trainer, steps=20)
        spread[name] = world.candidates.encoded[
            list(public_shortlist(world, 8, search_on_public_data(world, 24)))
        ].std()
    assert spread["flat"] > 3 * spread["sharp"]
    assert spread["sharp"] < 0.1


def test_a_small_space_is_listed_whole():
    line = SearchSpace({"x": Real(0.0, 1.0)})
    world = on(grid(line, {"x": 9}), Hill(line, [0.5]), steps=20)
    assert public_shortlist(world, 9, search_on_public_data(world, 256)) == tuple(range(9))


def test_the_public_search_of_a_study_is_made_once(monkeypatch):
    """120 candidates, 32 of them cross-validated, each once, from what is prepared to what is chosen."""
    line = SearchSpace({"x": Real(0.0, 1.0)})
    fits, fit = [], likelihood.fit
    monkeypatch.setattr(likelihood, "fit", lambda *args: fits.append(1) or fit(*args))
    for method in (
        PrivateGrid(evaluate="public_shortlist", public_trials=32),
        PrivateTrajectory(prior="public", public_trials=32),
    ):
        trainer = Hill(line, [0.5])
        world = on(grid(line, {"x": 120}), trainer, steps=5)
        prepared = method.prepare(world)
        assert len(trainer.asked) == len(set(trainer.asked)) == 32
        fitted = len(fits)
        for _ in range(3):  # as a comparison starts it again and again
            method.start(prepared, method.plan(prepared))
        assert len(trainer.asked) == 32
        assert len(fits) == fitted
        other = replace(prepared, search=prepared.search.replace(seed=7))  # another search is not answered from it
        method.start(other, method.plan(other))
        assert len(trainer.asked) == 64


def test_the_head_start_is_the_precision_weighted_public_score():
    """argmax of f̃/ν² + p/e² is that of f̃ + (ν/e)²·p; in steps of the sum, relative to the best p."""
    line = SearchSpace({"x": Real(0.0, 1.0)})
    world = on(grid(line, {"x": 9}), Hill(line, [0.5], width=0.4), steps=20)
    found = search_on_public_data(world, 256)
    p, e = found.mean, doubt(world, float(found.mean.max()))
    for noise in (e / 100, e, 3 * e):
        b = head_start(world, tuple(range(9)), found, noise)
        exact = np.maximum(-((noise / e) ** 2) * (p.max() - p), -64 * noise)
        assert b * world.score_per_step == pytest.approx(exact, abs=world.score_per_step)
        assert b.max() == 0
    loud = head_start(world, tuple(range(9)), found, 1e6 * e)
    assert loud.min() * world.score_per_step == pytest.approx(-64e6 * e)  # it fits the sum's integers


def test_with_much_noise_the_choice_follows_the_public_score_and_with_little_the_sensitive_one():
    line = SearchSpace({"x": Real(0.0, 1.0)})
    method, chosen = PrivateGrid(evaluate="public_shortlist"), {}
    for epsilon in (1e-3, 1e3):
        world = replace(on(grid(line, {"x": 9}), Hill(line, [0.5], width=0.4), steps=20), epsilon=epsilon)
        sums = np.full(9, world.range_steps // 2)
        sums[0] += world.range_steps // 8  # the sensitive half prefers x = 0, by an eighth of the range
        ((_, selection), _) = method.draws(world)
        b = method.subset(world)[2]
        weights = np.exp((sums + b - (sums + b).max()) / selection.scale)
        chosen[epsilon] = int(np.argmax(weights))
        assert (weights > 0.9).sum() == 1
    assert chosen == {1e-3: 4, 1e3: 0}


def test_the_landscape_keeps_what_was_measured_and_guesses_the_rest_well():
    plane = SearchSpace({"x": Real(0.0, 1.0), "y": Real(0.0, 1.0)})
    trainer = Hill(plane, [0.4, 0.6], width=0.5)
    candidates = sobol(plane, 500, seed=1)
    found = search_on_public_data(on(candidates, trainer, steps=15), 45)
    assert len(found.tried) == 45 == len(set(found.tried))
    assert (found.mean[list(found.tried)] == found.scores).all()
    true = np.array([Hill(plane, [0.4, 0.6], width=0.5).public_score(p, seed=0) for p in candidates.points])
    assert np.abs(found.mean - true).mean() < 0.03
    assert true[np.argmax(found.mean)] > true.max() - 0.01


def test_a_public_training_that_fails_costs_nothing(tables, tmp_path, monkeypatch):
    tables["study"]["method"] = "private_grid"
    tables["method"] = {"evaluate": "public_shortlist"}

    def fails(*_, **__):
        raise StudyInvalid("the training did not converge")

    monkeypatch.setattr("dpbo_core.models.linear.fit.train", fails)
    book = PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}")
    with pytest.raises(StudyInvalid, match="converge"):
        open_study(Run.of(StudySpec.from_dict(tables), QueryContext(book)))
    assert book.accounts() == ()
