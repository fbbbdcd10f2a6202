"""One contract, every score. A score of the union is tested by being there, whatever class it is made of."""

import random
from dataclasses import dataclass
from itertools import islice, product

import numpy as np
import pytest
from neighbours import make_world
from worlds import at_length, study_of_files

from dpbo_core.errors import StudyInvalid
from dpbo_core.models.integer_sums import GRID, to_grid
from dpbo_core.models.scores.kinds import Numbers
from dpbo_core.models.scores.union import SCORES
from dpbo_core.study.named_score import score_on

SHARES, BOUND = (0.2, 0.3, 0.5), 1.5
NUMBERS = {"class_shares": {"shares": SHARES}, "error_bound": {"error_bound": BOUND}}  # for a score itself
WRITTEN = {"class_shares": {"no": 0.4, "yes": 0.6}, "error_bound": BOUND}  # in a study of two classes
NAMES = tuple(SCORES)
STRANGE = (0.0, 1.0, -1.0, 0.5, 1e308, -1e308, 1e-320, np.inf, -np.inf, np.nan)


def forms(declared):
    """Every choice of keys that a study may give with a score: what it needs, and each key it allows or not."""
    unknown = {*declared.needs, *declared.allows} - WRITTEN.keys()
    assert not unknown, f"{declared.name} takes {sorted(unknown)}: say in NUMBERS and WRITTEN what these may be"
    optional = product(*[((), (key,)) for key in declared.allows])
    return [(*declared.needs, *(key for keys in chosen for key in keys)) for chosen in optional]


def made(declared, keys):
    """The score of what an estimator predicts; None where these keys make it a count of pairs."""
    if declared.of_outcome is None or (declared.of_pairs is not None and "class_shares" not in keys):
        return None
    given = {name: value for key in keys for name, value in NUMBERS[key].items()}
    return declared.of_outcome(Numbers(10.0, **given))


def honest(score, *, regression, rng, k=200):
    """(outcome, truth) as a good estimator would give them for three classes, or numbers."""
    truth = rng.normal(size=k) * 3 if regression else rng.integers(-1, 3, size=k)  # −1: a class nobody knows
    if score.needs == "predict_proba":
        return np.vstack([rng.dirichlet(np.ones(3) * 0.3, size=k - 3), np.eye(3)]), truth
    if score.needs == "decision_function" or regression:
        return rng.normal(size=k) * 5, truth
    return np.where(rng.uniform(size=k) < 0.7, truth, rng.integers(3, size=k)), truth


def strange(score, *, regression):
    """(outcome, truth) of what no estimator should give, every pair of two."""
    rows = np.array(list(product(STRANGE, STRANGE)))
    truth = rows[:, 1] if regression else np.arange(len(rows)) % 4 - 1
    return (np.column_stack([rows, rows[:, :1]]) if score.needs == "predict_proba" else rows[:, 0]), truth


def check_score(declared):
    """A score of predictions stays in [0, G] by itself, and no record's is another's business."""
    for keys in forms(declared):
        score = made(declared, keys)
        if score is None:
            continue
        outcome, truth = honest(score, regression=declared.regression, rng=np.random.default_rng(5))
        scores, G = score.of(outcome, truth), score.score_range
        assert scores.shape == truth.shape
        assert ((scores >= -1e-9 * G) & (scores <= G * (1 + 1e-9))).all(), (declared.name, keys, "leaves [0, G]")
        outcome, truth = strange(score, regression=declared.regression)
        with np.errstate(all="ignore"):
            steps = to_grid(score.of(outcome, truth), G, broken_score=score.broken_score)
            assert ((steps >= 0) & (steps <= GRID)).all()
            for i in range(len(truth)):
                alone = score.of(outcome[i : i + 1], truth[i : i + 1])
                assert to_grid(alone, G, broken_score=score.broken_score)[0] == steps[i], (declared.name, "rows")


@pytest.mark.parametrize("name", NAMES)
def test_a_score_of_predictions_stays_in_its_range_and_leaves_other_records_alone(name):
    check_score(SCORES[name])


@pytest.mark.parametrize("name", [name for name in NAMES if SCORES[name].of_margin is not None])
def test_a_score_of_margins_rises_within_its_range(name):
    score = SCORES[name].of_margin(Numbers(10.0))
    scores = score.phi(np.array([-np.inf, -1e308, -1.0, -0.1, 0.0, 0.1, 1.0, 1e308, np.inf]))
    assert ((scores >= 0.0) & (scores <= score.score_range)).all()
    assert (np.diff(scores) >= 0.0).all()
    assert score.phi(np.array([np.nan]))[0] == score.phi(np.zeros(1))[0]
    assert score.span(0.0) == 0.0  # whatever the record: what Theorem 7's R starts from


@pytest.mark.parametrize("name", [name for name in NAMES if SCORES[name].of_pairs is not None])
def test_a_score_of_pairs_has_a_cell_for_every_value(name):
    score = SCORES[name].of_pairs(Numbers(10.0))
    values = np.array(STRANGE)

    def asked(verb):
        return np.array([0, 1, 1, 0]) if verb == "predict" else np.linspace(-1.0, 1.0, 4)

    with np.errstate(all="ignore"):
        cells = score.cells("Model", asked).of(values, np.zeros(len(values)))
        margins = score.of_margins(values, 1.0)
    assert ((cells >= 1) & (cells <= score.n_cells)).all()
    assert ((margins >= 0) & (margins < score.n_cells)).all()


@dataclass(frozen=True)
class Unit:
    """Whom a study protects: a person of k records in a table of m, or one of n persons."""

    k: int = 1
    n_persons: int | None = None


UNITS = {"a record": Unit(), "a person of two": Unit(k=2), "a person's mean": Unit(n_persons=4)}


def estimators(declared):
    """One of each kind that the score is for."""
    if declared.of_margin is not None or declared.of_pairs is not None:
        yield "logistic", ()
    if declared.of_outcome is not None or declared.of_pairs is not None:
        kind = "Regressor" if declared.regression else "Classifier"
        for keys in forms(declared):
            yield f"sklearn.tree.DecisionTree{kind}", keys


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("name", NAMES)
def test_a_person_moves_the_sum_by_what_the_plan_says_at_most(name, unit, tmp_path):
    declared, protected, tried = SCORES[name], UNITS[unit], 0
    for estimator, keys in estimators(declared):
        written = {key: WRITTEN[key] for key in keys}
        pairs = declared.of_pairs is not None and "class_shares" not in keys
        if pairs and protected.n_persons is not None:
            continue  # pairs are counted between records
        world = make_world(
            tmp_path, estimator=estimator, score=name, k=protected.k, n_persons=protected.n_persons, keys=written
        )
        model = world.problem.train(2)
        for one, other in islice(world.pairs(random.Random(3)), at_length(64)):
            sums = [world.objective(lines).evaluate(model).expose() for lines in (one, other)]
            assert abs(sums[0] - sums[1]) <= world.problem.record_steps, (estimator, keys)
            assert all(0 <= total <= world.problem.range_steps for total in sums)
        tried += 1
    assert tried or declared.of_pairs is not None


def study(declared, keys):
    """The [model] of a study that gives these keys with the score."""
    kind = "Regressor" if declared.regression else "Classifier"
    model = {"estimator": f"sklearn.tree.DecisionTree{kind}", "score": declared.name} | keys
    return study_of_files(model, {"max_depth": {"values": [1, 2]}}).model


OF_OUTCOMES = [name for name in NAMES if SCORES[name].of_outcome is not None or SCORES[name].of_pairs is not None]


@pytest.mark.parametrize("name", OF_OUTCOMES)
def test_a_study_gives_the_keys_that_a_score_takes_and_no_others(name):
    declared = SCORES[name]
    for keys in forms(declared):
        study(declared, {key: WRITTEN[key] for key in keys})
    for key in declared.needs:
        with pytest.raises(StudyInvalid, match=f"needs model.{key}"):
            study(declared, {other: WRITTEN[other] for other in declared.needs if other != key})
    for key in WRITTEN.keys() - {*declared.needs, *declared.allows}:
        with pytest.raises(StudyInvalid, match="does not use it"):
            study(declared, {needed: WRITTEN[needed] for needed in (*declared.needs, key)})


def check_shares_are_checked(declared):
    """Shares that are none, or of other classes than the training set's, are refused."""
    written = {key: WRITTEN[key] for key in (*declared.needs, "class_shares")}
    score_on(study(declared, written), ("no", "yes"))
    for shares, classes in (
        ({"no": 0.4, "yes": 0.4}, ("no", "yes")),
        ({"no": 0.0, "yes": 1.0}, ("no", "yes")),
        ({"no": 0.4, "maybe": 0.6}, ("no", "yes")),
        ({"no": 0.4, "yes": 0.6}, ("maybe", "no", "yes")),
    ):
        with pytest.raises(StudyInvalid, match="class_shares"):
            score_on(study(declared, written | {"class_shares": shares}), classes)


def takes_shares(declared):
    """Whether a study may give it the public shares of classes."""
    return "class_shares" in (*declared.needs, *declared.allows)


@pytest.mark.parametrize("name", [name for name in NAMES if takes_shares(SCORES[name])])
def test_whoever_takes_class_shares_has_them_checked(name):
    check_shares_are_checked(SCORES[name])
