"""Searches that are not ours, on a private objective: their own documentation's examples, with ours for theirs."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.linear_model import SGDClassifier
from sklearn.svm import SVC

from dpbo import PrivateObjective
from dpbo_core import NoScoresLeft, PrivacyLedger

CANCER = load_breast_cancer(return_X_y=True)


@pytest.fixture
def objective(tmp_path):
    def made(estimator, data=CANCER, n_scores=12, **settings):
        X, y = data
        asked = PrivateObjective(
            estimator, epsilon=2.0, delta=1e-6, dataset="clinic", n_scores=n_scores, budget=(5.0, 1e-5),
            ledger=f"sqlite:///{tmp_path / 'ledger.db'}", **settings,
        )  # fmt: skip
        return asked.fit(X[0::2], y[0::2], X_validation=X[1::2], y_validation=y[1::2])

    yield made
    for account in PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}").accounts("clinic"):
        assert len(account.entries) == 1  # one price, whatever the search did


# Optuna: "Key Features" (conditional space), "Easy Parallelization", "Pruning" with SGD


def test_optunas_conditional_search_space(objective):
    """The classifier is one of the trial's choices: the other is dropped, by a text."""
    optuna = pytest.importorskip("optuna")
    asked = objective(VotingClassifier([("svc", SVC()), ("forest", RandomForestClassifier(n_estimators=10))]))

    def of_trial(trial):
        if trial.suggest_categorical("classifier", ["SVC", "RandomForest"]) == "SVC":
            return asked({"forest": "drop", "svc__C": trial.suggest_float("svc_c", 1e-10, 1e10, log=True)})
        depth = int(trial.suggest_float("rf_max_depth", 2, 32, log=True))
        return asked({"svc": "drop", "forest__max_depth": depth})

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
    study.optimize(of_trial, n_trials=12, catch=(NoScoresLeft,))
    assert {trial.params["classifier"] for trial in study.trials} == {"SVC", "RandomForest"}
    assert "drop" in asked.best().values()


def test_optunas_parallel_trials(objective):
    optuna = pytest.importorskip("optuna")
    asked = objective(SVC())
    study = optuna.create_study(direction="maximize")
    study.optimize(lambda trial: asked({"C": trial.suggest_float("C", 1e-3, 1e3, log=True)}), n_trials=12, n_jobs=4)
    assert asked.scores_left == 0
    assert len(study.trials) == 12
    with pytest.raises(NoScoresLeft, match="n_trials = scores_left"):
        study.optimize(lambda trial: asked({"C": trial.suggest_float("C", 1e-3, 1e3, log=True)}), n_trials=1)


def test_optunas_sgd_of_iris(objective):
    optuna = pytest.importorskip("optuna")
    asked = objective(SGDClassifier(max_iter=200, tol=None), load_iris(return_X_y=True))
    study = optuna.create_study(direction="maximize", pruner=optuna.pruners.MedianPruner())
    study.optimize(lambda trial: asked({"alpha": trial.suggest_float("alpha", 1e-5, 1e-1, log=True)}), n_trials=8)
    assert asked.scores_left == 4


def test_optunas_storage_says_nothing_of_the_records(objective, tmp_path):
    optuna = pytest.importorskip("optuna")
    X, y = (table.copy() for table in CANCER)
    X[1, 3] = CANARY = 41_937.0625  # the first row that is validated on
    asked, storage = objective(SVC(), (X, y)), f"sqlite:///{tmp_path / 'optuna.db'}"
    study = optuna.create_study(direction="maximize", storage=storage)
    study.set_user_attr("objective", repr(asked))
    study.optimize(
        lambda trial: asked({"C": trial.suggest_float("C", 1e-3, 1e3, log=True)}), n_trials=13, catch=NoScoresLeft
    )
    stored = (tmp_path / "optuna.db").read_bytes()
    assert b"PrivateObjective" in stored
    assert str(CANARY).encode() not in stored
    assert np.float64(CANARY).tobytes() not in stored
    scores = {step["score"] for step in asked.release_.value["trajectory"]}
    assert [trial.value for trial in study.trials if trial.value not in scores] == [None]


# scikit-optimize: "Getting started", "Hyperparameter optimization", "Askandtell"


def test_skopts_gp_minimize(objective):
    skopt = pytest.importorskip("skopt")
    asked = objective(SVC())
    found = skopt.gp_minimize(
        lambda x: -asked({"C": float(x[0])}), [(1e-3, 1e3, "log-uniform")], n_calls=12, n_initial_points=5
    )
    assert len(found.func_vals) == 12
    assert asked.scores_left == 0


def test_skopts_named_arguments(objective):
    pytest.importorskip("skopt")
    from skopt import forest_minimize
    from skopt.space import Integer
    from skopt.utils import use_named_args

    asked, space = objective(RandomForestClassifier(n_estimators=10)), [Integer(1, 8, name="max_depth")]

    @use_named_args(space)
    def loss(**params):
        return -asked(params)

    assert len(forest_minimize(loss, space, n_calls=10, n_initial_points=4).x_iters) == 10
    assert asked.scores_left >= 4  # depths that came again cost nothing


def test_skopts_ask_and_tell(objective):
    pytest.importorskip("skopt")
    from skopt import Optimizer

    asked, optimizer = objective(SVC()), Optimizer([(1e-3, 1e3, "log-uniform")], n_initial_points=4)
    for _ in range(10):
        point = optimizer.ask()
        optimizer.tell(point, -asked({"C": float(point[0])}))
    assert asked.scores_left == 2


# Ax: "Introduction" (ask and tell), noise that is known, and integers


def ax_client(parameters):
    pytest.importorskip("ax")
    from ax.api.client import Client

    client = Client()
    client.configure_experiment(parameters=parameters)
    client.configure_optimization(objective="accuracy")
    return client


def test_ax_is_told_the_noise(objective):
    pytest.importorskip("ax")
    from ax.api.configs import RangeParameterConfig

    asked = objective(SVC())
    client = ax_client([RangeParameterConfig("C", (1e-3, 1e3), parameter_type="float", scaling="log")])
    for _ in range(8):
        for number, params in client.get_next_trials(max_trials=1).items():
            score = asked.ask(params)
            client.complete_trial(trial_index=number, raw_data={"accuracy": (score.value, score.noise)})
    assert "C" in client.get_best_parameterization()[0]
    assert asked.scores_left == 4


def test_axs_integers_and_choices(objective):
    pytest.importorskip("ax")
    from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig

    asked = objective(RandomForestClassifier(n_estimators=10))
    client = ax_client([
        RangeParameterConfig("max_depth", (1, 8), parameter_type="int"),
        ChoiceParameterConfig("criterion", ["gini", "entropy"], parameter_type="str", is_ordered=False),
    ])  # fmt: skip
    for _ in range(6):
        for number, params in client.get_next_trials(max_trials=1).items():
            client.complete_trial(trial_index=number, raw_data={"accuracy": asked(params)})
    assert np.isfinite(asked.release_.value["score"])
