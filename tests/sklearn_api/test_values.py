"""Values of hyperparameters in whole studies: none is lost, and none is taken for another's."""

import json
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from dpbo_core import (
    Categorical,
    FinalModel,
    PrivacyLedger,
    PrivateSearch,
    StudySpec,
    evaluate_study,
    read_study,
    run_study,
)
from dpbo_core.errors import StudyInvalid
from dpbo_core.models.prototype import Prototype
from dpbo_core.search.search_space import SearchSpace, sobol
from dpbo_core.sklearn_api.arguments import sections_of
from dpbo_core.study.data_files import study_fingerprint
from dpbo_core.study.editions import series_of

NAMES = [f"c{i:02d}" for i in range(40)]


def _rows(n, seed):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 40)), columns=NAMES)
    return X, (X["c39"] > 0).astype(int)


X, Y = _rows(150, 0)
X_VALIDATION, Y_VALIDATION = _rows(200, 1)


def searched(url, estimator, space, study="values", table=False, **settings):
    settings = {"epsilon": 2000.0, "dataset": "values", "budget": (1e6, 1e-3), "method": "private_grid"} | settings
    it = PrivateSearch(estimator, space, ledger=url, study=study, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if table:
            return it.fit(X, Y, X_validation=X_VALIDATION, y_validation=Y_VALIDATION)
        few = [one.iloc[:, -3:].to_numpy()[:60] for one in (X, X_VALIDATION)]
        return it.fit(few[0], Y[:60], X_validation=few[1], y_validation=Y_VALIDATION[:60])


def _columns(names):
    return ColumnTransformer([("n", StandardScaler(), names)])


def test_a_text_cut_short_loses_no_candidate_and_replays_no_other_study(url):
    some, every = _columns(NAMES[:35]), _columns(NAMES)
    pipe = Pipeline([("cols", some), ("lr", LogisticRegression())])
    for values in ([some, every], [every, some]):
        found = searched(url, pipe, {"cols": values}, study=f"both {values.index(some)}", table=True)
        assert len(found.best_params_["cols"].transformers[0][2]) == 40
    for values in ([some], [every]):
        found = searched(url, pipe, {"cols": values, "lr__C": [1.0]}, table=True)
        assert not found.replayed_
        assert (found.best_score_ > 0.8) == (values == [every])


@pytest.mark.parametrize(
    ("estimator", "one", "other"),
    [
        (GaussianProcessClassifier(), {"kernel": [RBF(30.0)]}, {"kernel": [RBF(30.0, "fixed")]}),
        (LogisticRegression(), {"C": [np.inf]}, {"C": [1.0]}),
        (LogisticRegression(), {"class_weight": [{0: 1, 1: 5}]}, {"class_weight": [{0: 1, 1: 5.0}]}),
        (LogisticRegression(), {"class_weight": [None]}, {"class_weight": ["balanced"]}),
        (DecisionTreeClassifier(), {"max_features": [1]}, {"max_features": [1.0]}),
        (MLPClassifier(max_iter=2), {"hidden_layer_sizes": [[2]]}, {"hidden_layer_sizes": [(2,)]}),
    ],
)
def test_studies_of_other_values_are_other_studies(url, estimator, one, other):
    first = searched(url, estimator, one)
    assert not searched(url, estimator, other).replayed_
    again = searched(url, estimator, one)
    assert again.replayed_
    assert again.release_ == first.release_
    (name,) = one
    assert repr(again.best_params_) == repr({name: one[name][0]})


def test_the_estimator_and_its_functions_are_part_of_the_study():
    def identity(name, text):
        names = {"__name__": "__main__"}
        exec(text, names)
        return Prototype(
            Pipeline([("f", FunctionTransformer(names[name])), ("lr", LogisticRegression())]), 0, False
        )

    first, second = (identity("cut", f"def cut(X):\n    return X[:, :{n}]\n").identity() for n in (1, 2))
    assert first != second
    assert Prototype(LogisticRegression(C=1), 0, False).identity() != (
        Prototype(LogisticRegression(C=1.0), 0, False).identity()
    )


def test_identities_of_earlier_ledgers_stay():
    """Of studies of plain values: what an earlier version charged is replayed by this one."""
    assert sections_of({"a": [1, 2.0, "x", True]})[1] == {}
    spec = StudySpec.from_dict(
        {
            "study": {"name": "a", "method": "private_grid"},
            "privacy": {"dataset": "c", "epsilon": 1.0},
            "data": {"source": "breast_cancer"},
            "model": {
                "estimator": "sklearn.linear_model.LogisticRegression",
                "params": {"a": 1, "b": "x"},
                "score": "accuracy",
            },
            "space": {
                "C": {"low": 0.1, "high": 2.0, "points": 3},
                "penalty": {"values": ["l1", "l2"]},
                "x": {"values": [1, 1.0, True, "1", 0.0]},
                "y": {"values": [1, 2], "when": {"penalty": "l1"}},
                "z": {"values": [1, 2], "when": {"penalty": ["l1", "l2"]}},
            },
        }
    )
    assert study_fingerprint(spec, "abc") == "bd65e18beed51813e31b8661dd5bbf166c11966748343712807a43d8c27bacee"
    assert series_of(spec) == "aa80b26d1bc83c3287ba2217d530cf1d3082bb7a173e4835aca12387fe182597"


def test_no_sobol_point_takes_an_equal_ones_place():
    space = SearchSpace({"x": Categorical([1, 1.0, True, "1", 0.0, -0.0])})
    values = [point["x"] for point in sobol(space, 256, seed=0).points]
    assert len(values) == 6
    assert {(type(value), repr(value)) for value in values} == {
        (int, "1"),
        (float, "1.0"),
        (bool, "True"),
        (str, "'1'"),
        (float, "0.0"),
        (float, "-0.0"),
    }


def test_one_and_one_as_a_share_are_two_candidates(url):
    found = searched(url, DecisionTreeClassifier(max_depth=2), {"max_features": [1, 1.0, True]}, n_candidates=64)
    assert len({repr(value) for value in (found.search_space_["max_features"].values)}) == 3
    point = found.release_.value["hyperparameters"]["max_features"]
    assert type(point) is float  # the one that sees every column is better than the one that sees one


def test_a_condition_on_an_object_holds_for_that_one(url):
    pipe = Pipeline([("s", StandardScaler()), ("c", LogisticRegression())])
    space = {
        "c": [LogisticRegression(), DecisionTreeClassifier(random_state=0)],
        "c__C": ([0.1, 1.0], {"c": LogisticRegression()}),
        "c__max_depth": ([1, 2], {"c": [DecisionTreeClassifier(random_state=0)]}),
    }
    sections, decode = sections_of(space)
    assert sections["c__C"].when == {"c": "LogisticRegression()"}
    assert list(decode) == ["c"]
    # a training leaves the objects as they were
    first, again = searched(url, pipe, space), searched(url, pipe, space)
    assert again.replayed_
    assert set(first.best_params_) in ({"c", "c__C"}, {"c", "c__max_depth"})


@pytest.mark.parametrize("wrapped", [list, Categorical])
def test_a_value_without_content_is_refused_by_its_axis_before_anything_is_charged(url, wrapped):
    pipe = Pipeline([("s", StandardScaler()), ("c", LogisticRegression())])
    for value in (FunctionTransformer(lambda one: one), np.random.RandomState(0), (one for one in (1, 2))):
        with pytest.raises(StudyInvalid, match="axis 's'") as refusal:
            searched(url, pipe, {"s": wrapped([value, None])})
        assert refusal.value.remedy
    assert PrivacyLedger(url).accounts() == ()


# --- a study file


@pytest.fixture
def study(here):
    """The text of a study of tables beside it, with an estimator, its [model] params and its [space]."""
    for name, X, y in (("train", X_FEW, Y[:80]), ("validation", X_VALIDATION.iloc[:80, -3:], Y_VALIDATION[:80])):
        X.assign(y=y.to_numpy()).to_csv(here / f"{name}.csv", index=False)

    def text(estimator, params, space, more=""):
        (here / "study.toml").write_text(
            f"""
            study = {{ name = "file", method = "private_grid" }}
            privacy = {{ dataset = "file", epsilon = 20.0, anyway = true }}
            budget = {{ epsilon = 500.0, delta = 1e-3 }}
            data = {{ training = "train.csv", validation = "validation.csv", n_validation = 80, target = "y" }}
            search = {{ candidates = "sobol", n_candidates = 64 }}
            model = {{ estimator = "{estimator}", score = "accuracy", params = {{ {params} }} }}
            {more}
            [space]
            {space}
            """
        )
        return "study.toml"

    return text


X_FEW = X.iloc[:80, -3:]
LINEAR = "sklearn.linear_model.LogisticRegression"


def strict(text):
    """The JSON document, refused where it has a token that JSON has not."""

    def refuse(token):
        raise AssertionError(token)

    return json.loads(text, parse_constant=refuse)


@pytest.mark.slow
def test_a_study_file_says_infinity_and_every_command_says_it_back(dpbo, study):
    file = study(LINEAR, "tol = 1e-3", "C = { values = [inf] }")
    assert dpbo("plan", file)[0] == 0
    code, out, _ = dpbo("tune", file, "--json")
    assert (code, strict(out)["value"]["hyperparameters"]) == (0, {"C": "inf"})
    for words in (
        ("show", "file", "--json"),
        ("evaluate", file, "--epsilon", 5, "--json"),
        ("tune", file, "--json"),
    ):
        code, out, said = dpbo(*words)
        assert code == 0, said
        strict(out)
    code, out, _ = dpbo("show", "file")
    assert "inf" in out
    study(LINEAR, "C = inf", "tol = { values = [1e-3] }")  # another study, which evaluate names by what changed
    code, _, said = dpbo("evaluate", file, "--epsilon", 5)
    assert code != 0
    assert "model.params" in said


def test_the_text_inf_is_no_infinity(tables):
    def fingerprint(values):
        tables["space"] = {"C": {"values": values}}
        tables["model"] = {"estimator": LINEAR, "score": "accuracy"}
        return study_fingerprint(StudySpec.from_dict(tables), "")

    nan = float("nan")
    values = [[np.inf], ["inf"], ["Infinity"], [-np.inf], [nan], ["nan"], [[1]], [["1"]], [{"a": 1}], [1], [[[1]]]]
    assert len({fingerprint(one) for one in values}) == len(values)
    assert fingerprint([nan]) == fingerprint([float("nan")])


def test_lists_are_values_in_a_study_file(url, here, study):
    space = """
            hidden_layer_sizes = { values = [[2], [2, 2]] }
            learning_rate_init = { values = [0.01, 0.1], when = { hidden_layer_sizes = [[2]] } }
    """
    spec = read_study(study("sklearn.neural_network.MLPClassifier", "max_iter = 2", space))
    release = run_study(spec, ledger=PrivacyLedger(url), folder=here).release
    assert release.value["hyperparameters"]["hidden_layer_sizes"] in ("[2]", "[2, 2]")
    assert FinalModel.of_release(spec, here, release).model.estimator.hidden_layer_sizes in ([2], [2, 2])


def test_infinity_is_a_value_and_a_parameter_in_a_study_file(url, here, study):
    spec, ledger = read_study(study(LINEAR, "C = inf", "C = { values = [inf] }")), PrivacyLedger(url)
    first = run_study(spec, ledger=ledger, folder=here).release
    assert strict(json.dumps(first.to_json()))["value"]["hyperparameters"] == {"C": "inf"}
    assert run_study(spec, ledger=ledger, folder=here).replayed
    assert np.inf == FinalModel.of_release(spec, here, first).model.estimator.C
    report = evaluate_study(spec, ledger=ledger, folder=here, epsilon=5.0)
    strict(json.dumps(report.release.to_json()))
    other = read_study(study(LINEAR, "C = 2.0", "C = { values = [inf] }"))
    with pytest.raises(StudyInvalid, match=r"model\.params"):  # which says what was changed, and that alone
        evaluate_study(other, ledger=ledger, folder=here, epsilon=5.0)


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ("class_weight = { well = 1, ill = 5 }", "class_weight is a dict"),
        ("tol = 1e-3, hidden_layer_sizes = [5, 5]", "hidden_layer_sizes is a list"),
        ("C = 1979-05-27", "C is a date"),
    ],
)
def test_a_parameter_that_no_study_file_states_is_named_with_what_takes_it(dpbo, study, params, named):
    code, _, said = dpbo("plan", study(LINEAR, params, "tol = { values = [1e-3] }"))
    assert code == 2
    assert named in said
    assert "an object in a file beside the study" in said
    assert '"module:name"' in said


def test_a_pickled_search_is_the_same_study():
    """Its values are equal then, and no longer the same objects: it would be charged again."""
    space = {"C": Categorical([0.1, 1.0, float("inf"), "a", 1, True, RBF(), [5]])}
    again = pickle.loads(pickle.dumps(space))
    assert repr(sections_of(again)) == repr(sections_of(space))
    assert len(sections_of(again)[1]["C"]) == 3
