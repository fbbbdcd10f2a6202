"""Reading a study: identity round trips, and a clear message for everything that cannot be."""

import copy
import hashlib
import itertools
import json
import math
import tomllib
import warnings

import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import at_length, with_method

from dpbo_core.errors import StudyInvalid
from dpbo_core.methods import METHODS
from dpbo_core.report.request import EvaluationQuery
from dpbo_core.search.search_space import Integer, Real
from dpbo_core.study import EstimatorSection, EvaluationSection, StudySpec
from dpbo_core.study.data_files import study_fingerprint
from dpbo_core.study.resolve import plan_study, planning_problem, problem_of
from dpbo_core.study.spec import read_study


@pytest.mark.parametrize("kind", METHODS)
def test_a_study_survives_toml_and_json(tables, kind):
    spec = StudySpec.from_dict(with_method(tables, kind))
    assert StudySpec.from_dict(tomllib.loads(tomli_w.dumps(spec.to_dict()))) == spec
    assert StudySpec.from_dict(json.loads(json.dumps(spec.to_dict()))) == spec


@settings(max_examples=at_length(100))
@given(
    st.floats(1e-6, 100),
    st.one_of(st.none(), st.floats(0, 0.5)),
    st.text("abcdef-é", min_size=1, max_size=20),
    st.lists(st.one_of(st.integers(), st.text(max_size=5), st.booleans()), min_size=1, max_size=4, unique_by=repr),
)
def test_any_valid_study_survives(epsilon, delta, name, values):
    tables = {
        "study": {"name": name, "method": "private_grid"},
        "privacy": {"dataset": "d", "epsilon": epsilon} | ({} if delta is None else {"delta": delta}),
        "data": {"source": "iris"},
        "model": {"estimator": "sklearn.svm.SVC"},
        "space": {"C": {"low": 1, "high": 2}, "kernel": {"values": values}},
    }
    spec = StudySpec.from_dict(tables)
    assert StudySpec.from_dict(tomllib.loads(tomli_w.dumps(spec.to_dict()))) == spec


def test_a_conditional_axis_survives(tables):
    tables["model"] = {"estimator": "sklearn.svm.SVC"}
    tables["space"] = {
        "kernel": {"values": ["linear", "rbf", "poly"]},
        "gamma": {"low": 0.1, "high": 1.0, "points": 3, "when": {"kernel": ["rbf", "poly"]}},
        "degree": {"low": 2, "high": 3, "integer": True, "when": {"kernel": "poly"}},
    }
    spec = StudySpec.from_dict(tables)
    assert StudySpec.from_dict(tomllib.loads(tomli_w.dumps(spec.to_dict()))) == spec
    assert StudySpec.from_dict(json.loads(json.dumps(spec.to_dict()))) == spec
    assert len(problem_of(spec, n_validation=9).candidates) == 1 + 3 + 3 * 2
    wrong = {"kernel": "sigmoid"}, {"kern": "rbf"}, {}, {"kernel": "rbf", "C": 1.0}, {"kernel": [["rbf"]]}, "a"
    for when in wrong:
        tables["space"]["gamma"]["when"] = when
        with pytest.raises(StudyInvalid):
            plan_study(StudySpec.from_dict(tables))


BAD = {
    "privacy.epsilon = 0": "privacy.epsilon = 0.0 is no privacy level",
    "privacy.epsilon = -1": "privacy.epsilon",
    "privacy.epsilon = nan": "privacy.epsilon",
    "privacy.epsilon = inf": "privacy.epsilon",
    "privacy.epsilon = 5000.0": "protects nothing",
    "privacy.delta = 1.0": "privacy.delta",
    "privacy.delta = -1e-9": "privacy.delta",
    "privacy.delta = nan": "privacy.delta",
    "privacy.max_records_per_person = 0": "max_records_per_person",
    "privacy.dataset = 'set'": "word of the command line",
    "budget.epsilon = 0": "budget.epsilon",
    "space.lambda.low = 0": "λ would take",
    "space.lambda.low = -1": "λ would take",
    "space.lambda.low = 10.0": "not below high",
    "space.lambda.low = 11.0": "not below high",
    "space.lambda.points = 0": "0 points",
    "space.lambda.points = 2000000000": "memory",
    "space.alpha.low = 1": "axis of [space]",
    "search.steps = 0": "search.steps = 0",
    "search.steps = -3": "search.steps",
    "search.steps = 2.5": "a whole number",
    "search.acquisition = 'ucbb'": "did you mean 'ucb'",
    "search.kernel = 'matern'": "did you mean 'matern52'",
    "search.lengthscale = 0": "lengthscale",
    "search.lengthscale = 'fitt'": "did you mean 'fit'",
    "search.beta = -1": "beta",
    "search.stepz = 4": "did you mean 'steps'",
    "study.method = 'private_trajectry'": "did you mean 'private_trajectory'",
    "study.name = ''": "study.name",
    "study.name = 7": "name",
    "model.estimator = 'logistc'": "did you mean 'logistic'",
    "model.score = 'acuracy'": "did you mean 'accuracy'",
    "model.steepness = 0": "steepness",
    "model.params = 3": "plain values",
    "data.memory_limit = 1": "memory_limit",
    "data.sorce = 'x'": "did you mean 'source'",
    "data.validation_share = 1.0": "validation_share",
    "data.source = 'breast_cancr'": "breast_cancer",
    "method.final_share = 1.0": "final_share",
    "method.final_shar = 0.1": "did you mean 'final_share'",
    "method.prior = 'some'": "'flat', 'public'",
    "privacy.epsilon = '1'": "a number",
    "privacy.epsilon = true": "a number",
    "search.one_pass = 1": "true or false",
    "search.seed = 1.0": "a whole number",
    "study.accepts = 'gp_prior'": "a list of texts",
}


def test_what_cannot_be_is_a_letter(tables):
    for line, says in BAD.items():
        path, value = line.split(" = ", 1)
        *where, key = path.split(".")
        table = changed = copy.deepcopy(tables)
        for name in where:
            table = table.setdefault(name, {})
        table[key] = tomllib.loads(f"x = {value}")["x"]
        with pytest.raises(StudyInvalid) as caught:
            plan_study(StudySpec.from_dict(changed))
        assert says in str(caught.value), line
        assert caught.value.exit_code == 2
        assert "\n" not in str(caught.value), line
        assert caught.value.__cause__ is caught.value.__context__ is None, line


def test_a_study_with_listed_values_is_serialized_without_a_warning(tables):
    """Prefect serializes the study as a flow's parameter, and a warning would stand on the user's screen."""
    tables["model"] |= {"estimator": "sklearn.svm.SVC", "params": {"C": 2.0}, "score": "accuracy"}
    tables["space"] = {"C": {"values": [1.0, 2.0], "when": {"kernel": ["rbf"]}}, "kernel": {"values": ["rbf"]}}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        spec = StudySpec.from_dict(tables).model_dump(mode="json")
    assert spec["space"]["C"]["values"] == [1.0, 2.0]


def test_a_changed_section_is_checked_as_a_new_one(tables):
    spec = StudySpec.from_dict(tables)
    assert spec.replace(privacy=spec.privacy.replace(epsilon=2)).privacy.epsilon == 2.0
    for changes in ({"epsilon": 0.0}, {"epsilon": "1"}, {"epsilonn": 1.0}, {"dataset": "set"}):
        with pytest.raises(StudyInvalid):
            spec.privacy.replace(**changes)
    with pytest.raises(StudyInvalid, match="λ would take"):
        spec.replace(space={"lambda": spec.space["lambda"].replace(low=-1.0)})


GOLDEN = "e8259bd11a126d466969298d6404557196e608e34f062d0e5b9391aabfe56e8f"
LABELLED = {"labels": ["no", "yes"], "target": "y", "n_validation": 40}
KINDS = {  # of data, as today's schema and the one before it write them down: no study is charged anew
    "bundled": {"source": "iris", "validation_share": 0.25, "ignore": ["a"]},
    "files": {"training": "t", "validation": "v", "n_validation": 4, "target": "y", "workers": 3},
    "persons": {"training": "t.csv", "validation": "v.csv", "n_persons": 40, "target": "y", "missing": "mean"},
    "predictions": {"predictions": "p.csv", "public": "q.csv", **LABELLED},
    "sensitive": {
        "sensitive": "training", "training": "t", "validation": "v", "n_training": 9, "bounds": {"*": [0, 1]},
        **LABELLED,
    },
    "sensitive bundled": {"source": "digits", "sensitive": "training"},
}  # fmt: skip


def test_no_study_has_another_key_than_under_the_schema_before_pydantic():
    keys = []
    for data in KINDS.values():
        tables = {
            "study": {"name": "n", "method": "auto", "accepts": ["gp_prior"]},
            "privacy": {"dataset": "d", "epsilon": 1} | ({"person": "who"} if "n_persons" in data else {}),
            "budget": {"epsilon": 5, "editions": 3},
            "data": data,
            "model": {"estimator": "sklearn.svm.SVC", "params": {"tol": math.inf, "shrinking": True}},
            "space": {"C": {"low": 1, "high": 2}, "kernel": {"values": ["rbf", 1, 1.0, [1, {"a": True}]]}},
            "search": {"beta": 2, "one_pass": True},
        }
        if "predictions" in data:
            tables |= {"model": {"estimator": "predictions"}, "space": {"candidate": {"values": ["a", "b"]}}}
        if data.get("sensitive") == "training":
            tables["model"] = {"estimator": "softmax"}
        keys.append(study_fingerprint(StudySpec.from_dict(tables), "x"))
    assert hashlib.sha256("".join(keys).encode()).hexdigest() == GOLDEN


def test_a_missing_table_is_named(tables):
    for table in ("study", "privacy", "data", "model", "space"):
        with pytest.raises(StudyInvalid, match=table):
            StudySpec.from_dict({name: section for name, section in tables.items() if name != table})


def test_a_study_file_that_is_not_there_or_not_toml(tmp_path):
    with pytest.raises(StudyInvalid, match=r"nothing\.toml.*no such file"):
        read_study(tmp_path / "nothing.toml")
    for content in (b"\xff\xfe", b"[study\n", b"x = 1"):
        (tmp_path / "bad.toml").write_bytes(content)
        with pytest.raises(StudyInvalid):
            read_study(tmp_path / "bad.toml")


def test_delta_is_zero_where_a_method_is_pure(tables):
    tables["study"]["method"] = "private_grid"
    assert plan_study(StudySpec.from_dict(tables)).guarantee.delta == 0.0
    tables["study"]["method"] = "private_trajectory"
    del tables["privacy"]["delta"]
    assert plan_study(StudySpec.from_dict(tables)).guarantee.delta == 1e-6


def test_gaussian_noise_without_delta_is_refused(tables):
    tables["privacy"]["delta"] = 0.0
    with pytest.raises(StudyInvalid, match="needs δ > 0"):
        plan_study(StudySpec.from_dict(tables))


def test_estimators_and_scores_must_fit(tables):
    spec = StudySpec.from_dict(tables)
    with pytest.raises(StudyInvalid, match="margin"):
        StudySpec.from_dict(tables | {"model": {"estimator": "sklearn.svm.SVC", "score": "sigmoid"}})
    for model in (spec.model.replace(score="accuracy"), EstimatorSection(estimator="sklearn.svm.SVC")):
        with pytest.raises(StudyInvalid, match="lipschitz cannot"):
            plan_study(spec.replace(model=model, method="lipschitz", options={}))


def test_a_path_that_no_file_can_have_is_refused_as_the_study_is_read(tables):
    for key, place in itertools.product(("training", "validation"), ("\x00", "\ud800", "a\nb.csv")):
        paths = {"training": "t.csv", "validation": "v.csv", key: place}
        tables["data"] = {**paths, "n_validation": 40, "target": "y"}
        with pytest.raises(StudyInvalid, match="characters that no name holds"):
            StudySpec.from_dict(tables)


@pytest.mark.parametrize("section", ["study", "privacy"])
def test_a_key_that_is_no_unicode_is_refused_by_its_table(tables, section):
    for more in ({}, {"nope": 1}):
        with pytest.raises(StudyInvalid, match=rf"\[{section}\] has a key that is no text"):
            StudySpec.from_dict(tables | {section: tables[section] | {"\ud800": 1} | more})


@pytest.mark.parametrize("digits", [400, 4000])
def test_a_number_of_hundreds_of_digits_is_refused_by_its_place(tables, digits):
    huge = int("9" * digits)
    for section, key in (
        ("privacy", "epsilon"),
        ("data", "validation_share"),
        ("search", "seed"),
        ("model", "bias"),
    ):
        for number in (huge, -huge):
            with pytest.raises(StudyInvalid, match=f"{section}.{key} is no number that can be computed with"):
                StudySpec.from_dict(tables | {section: tables.get(section, {}) | {key: number}})
    axis = {"lambda": {"values": [1.0, huge]}}
    with pytest.raises(StudyInvalid, match=r"space\.lambda\.values is no number"):
        StudySpec.from_dict(tables | {"space": axis})
    for kind in (Real, Integer):
        with pytest.raises(StudyInvalid, match="no finite number"):
            kind(1, huge)


@pytest.mark.parametrize("neighbours", ["add_or_remove", "zero_out"])
@pytest.mark.parametrize("kind", METHODS)
def test_a_relation_that_a_method_is_not_proved_for_is_refused_by_name(tables, kind, neighbours):
    tables = with_method(tables, kind)
    tables["privacy"]["neighbours"] = neighbours
    spec = StudySpec.from_dict(tables)
    assert StudySpec.from_dict(spec.to_dict()) == spec
    with pytest.raises(StudyInvalid, match=f'neighbours = "{neighbours}.*proved for "replace_one" alone'):
        plan_study(spec)


def test_an_evaluation_is_refused_a_relation_that_it_is_not_proved_for(tables):
    tables["privacy"]["neighbours"] = "zero_out"
    spec = StudySpec.from_dict(tables)
    request = EvaluationQuery(spec, planning_problem(spec), 0.5, EvaluationSection(epsilon=0.5))
    with pytest.raises(StudyInvalid, match='proved for "replace_one" alone'):
        request.plan("")


def test_the_usual_relation_written_out_is_the_same_study(tables):
    usual = StudySpec.from_dict(tables)
    tables["privacy"]["neighbours"] = "replace_one"
    assert StudySpec.from_dict(tables) == usual


def test_a_relation_is_for_records_and_has_a_known_name(tables):
    tables["privacy"]["neighbours"] = "add"
    with pytest.raises(StudyInvalid, match="choose one of replace_one, add_or_remove, zero_out"):
        StudySpec.from_dict(tables)
