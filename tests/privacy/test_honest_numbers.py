"""What people are shown of a score: its metric in its own unit, in its range, beside what it has to beat."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn import metrics
from sklearn.dummy import DummyClassifier, DummyRegressor
from test_evaluation import in_an_interval
from test_ledger import GUARANTEE
from worlds import Memory, problem, run, smooth_table

from dpbo.flows.cli.release_screen import print_document
from dpbo.tasks.reporting.mlflow_run import score_rows
from dpbo.tasks.reporting.release_document import release_document
from dpbo.tasks.reporting.release_files import page
from dpbo_core.mechanisms.noise import Noise, OperatingSystemNoise
from dpbo_core.methods.kusner_gp import ExactGP, NoisyGP
from dpbo_core.methods.lipschitz import Lipschitz
from dpbo_core.models.baseline import constant_margin, constant_score, person_weights
from dpbo_core.models.scores.accuracy import Accuracy
from dpbo_core.models.scores.kinds import Numbers
from dpbo_core.models.scores.union import RECORD_SCORES
from dpbo_core.privacy.release import Release, Spend, displayed_metric
from dpbo_core.theorems.feldman_cousins_1998 import bounded_laplace_interval

RNG = np.random.default_rng(5)
Y = RNG.choice(3, 400, p=[0.6, 0.3, 0.1])
P = RNG.dirichlet([1.0, 1.0, 1.0], 400).clip(0.02)
P /= P.sum(axis=1, keepdims=True)
TARGET = RNG.exponential(2.0, 400)
GUESS = TARGET + RNG.normal(0.0, 0.5, 400)
SHARES = tuple(np.bincount(Y) / 400)
NUMBERS = Numbers(10.0, SHARES, error_bound=30.0)


def brier(y, p, **weights):
    return metrics.brier_score_loss(y, p, scale_by_half=True, **weights)


def log_loss(y, p, **weights):
    return metrics.log_loss(y, p, **weights)


CLASSES = {"accuracy": metrics.accuracy_score, "balanced_accuracy": metrics.balanced_accuracy_score}
PROBABILITIES = {"brier": brier, "log_loss": log_loss}
LARGER_IS_BETTER = {*CLASSES}
ERRORS = {"absolute_error": metrics.mean_absolute_error, "squared_error": metrics.mean_squared_error}


def measures():
    for names, outcome, truth in ((CLASSES, P.argmax(axis=1), Y), (PROBABILITIES, P, Y), (ERRORS, GUESS, TARGET)):
        for name, oracle in names.items():
            yield pytest.param(name, oracle, outcome, truth, id=name)


@pytest.mark.parametrize(("name", "oracle", "outcome", "truth"), list(measures()))
def test_a_mean_score_in_its_natural_unit_is_scikit_learns_metric(name, oracle, outcome, truth):
    score = RECORD_SCORES[name](NUMBERS)
    mean = float(score.of(outcome, truth).mean())
    shown = score.natural_unit.metric(name, mean, (mean - 0.01, mean + 0.02))
    assert shown["value"] == pytest.approx(oracle(truth, outcome), abs=1e-9)
    assert shown["greater_is_better"] == (name in LARGER_IS_BETTER)
    low, high = shown["interval"]
    assert low < shown["value"] < high
    assert high - low == pytest.approx(0.03)


def test_every_score_has_been_compared():
    assert set(RECORD_SCORES) == {*CLASSES, *PROBABILITIES, *ERRORS}


def best_dummy(name, oracle, truth, weights):
    """What the best of scikit-learn's dummies reaches by the metric, when its rows have these weights."""
    X = np.zeros((len(truth), 1))
    if name == "balanced_accuracy":  # of the shares that the study states
        return max(np.average((truth == c) / (3 * SHARES[c]), weights=weights) for c in range(3))
    if name in ERRORS:
        dummies = [DummyRegressor(strategy=s).fit(X, truth, sample_weight=weights) for s in ("mean", "median")]
    else:
        dummies = [DummyClassifier(strategy="constant", constant=c).fit(X, truth) for c in range(3)]
        dummies.append(DummyClassifier(strategy="prior").fit(X, truth, sample_weight=weights))
    outcomes = [(one.predict_proba if name in PROBABILITIES else one.predict)(X) for one in dummies]
    figures = [oracle(truth, outcome, sample_weight=weights) for outcome in outcomes]
    return max(figures) if name in LARGER_IS_BETTER else min(figures)


@pytest.mark.parametrize(("name", "oracle", "outcome", "truth"), list(measures()))
def test_the_baseline_is_scikit_learns_dummy(name, oracle, outcome, truth):
    """On the same public rows; of persons, each counts once, and a record one over its person's number of them."""
    people = [None if i % 11 == 0 else f"p{i % 5 if i % 2 else i}" for i in range(len(truth))]
    by_person = person_weights(people)
    assert by_person.sum() == pytest.approx(len({person for person in people if person}))
    score, n_classes = RECORD_SCORES[name](NUMBERS), 0 if name in ERRORS else 3
    for weights in (np.ones(len(truth)), by_person):
        given = score.natural_unit.of(constant_score(score, truth, weights, n_classes=n_classes))
        assert given == pytest.approx(best_dummy(name, oracle, truth, weights), abs=1e-5)
    assert person_weights([None, None]) is None


def test_a_margin_scores_baseline_is_the_largest_class():
    assert constant_margin(Accuracy(), Y, np.ones(len(Y))) == pytest.approx(np.max(SHARES))


def test_a_class_of_probabilities_has_to_beat_the_best_class_and_not_the_most_frequent():
    """Right where the most probable class is off by one at most: the middle one always is."""
    near = SimpleNamespace(
        needs="predict_proba", score_range=1.0, of=lambda p, y: (abs(p.argmax(axis=1) - y) <= 1).astype(float)
    )
    truth = np.repeat([0, 1, 2], [40, 25, 35])
    assert constant_score(near, truth, np.ones(100), n_classes=3) == pytest.approx(1.0)


def release(**value):
    return Release(value, None, (), "s", "1", "private_grid", "d", {"score_range": 3.0, "baseline": 1.5})


def test_people_see_no_score_that_cannot_be_and_programs_the_raw_one():
    """A loss clipped at 3 whose noise made it negative."""
    metric = {"name": "log_loss", "value": -0.2, "greater_is_better": False, "interval": [0.0, 0.1]}
    made = release(score=3.2, interval=[2.9, 3.0], metric=metric)
    shown = displayed_metric(made)
    assert (shown.name, shown.value, shown.interval, shown.baseline) == ("log_loss", 0.0, (0.0, 0.1), 1.5)
    assert shown.outside
    assert shown.ends == pytest.approx((0.0, 3.0))
    assert not shown.greater_is_better
    assert made.value["score"] == 3.2


def test_a_release_that_named_no_metric_is_shown_by_its_score():
    shown = displayed_metric(release(score=1.25, interval=[1.0, 1.5]))
    assert (shown.name, shown.value, shown.interval, shown.outside) == ("score", 1.25, (1.0, 1.5), False)
    assert displayed_metric(release(hyperparameters={})) is None


def test_a_picture_shows_the_metric_and_what_it_has_to_beat():
    from dpbo.tasks.reporting.pictures import draw

    metric = {"name": "log_loss", "value": -0.2, "greater_is_better": False, "interval": [0.0, 0.1]}
    spends = (Spend("s", "discrete Laplace", 1, 0, 1, 1.0, 0.1),)
    made = replace(release(score=3.2, metric=metric), guarantee=GUARANTEE, spends=spends)
    (axes,) = draw(made).axes
    said = [text.get_text() for text in axes.get_legend().get_texts()]
    assert said == ["the same for every public row, 1.5", "released, 0 (less is better)"]
    assert axes.get_xlabel().startswith("log loss, with its 90% interval")


@pytest.mark.parametrize(
    "method",
    [Lipschitz(evaluate="path"), NoisyGP(), ExactGP(rate_constant=1e3, decay_constant=0.01)],
    ids=lambda method: method.kind,
)
def test_a_score_of_the_papers_algorithms_has_the_interval_of_its_noise_on_screen_page_and_mlflow(method, capsys):
    world = problem(steps=3)
    made = run(method, world, smooth_table(world, best=4), Noise(OperatingSystemNoise(), Memory()))
    made = replace(made, release_id="0" * 32, released_at="2026-01-02T00:00:00+00:00")
    ends = bounded_laplace_interval(made.value["score"], made.spends[-1].noise_scale, 1.0)
    assert made.value["interval"] == made.value["metric"]["interval"] == list(ends)
    print_document(release_document(made))
    assert f"90% interval {in_an_interval(ends)}" in capsys.readouterr().out
    assert in_an_interval(ends) in page(made, ())
    assert {(name, number) for name, number, _ in score_rows(made)} >= set(
        zip(("score/low", "score/high"), (float(f"{end:.4g}") for end in ends), strict=True)
    )
