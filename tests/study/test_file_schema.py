"""The JSON Schema of a study file: every study fits it, and the mistakes that an editor should mark do not."""

import copy
import json
import tomllib
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from pages import PAGES, blocks

from dpbo_core.errors import StudyInvalid
from dpbo_core.methods import METHODS
from dpbo_core.methods.advice import AUTO
from dpbo_core.study import StudySpec
from dpbo_core.study.file_schema import study_schema

ROOT = Path(__file__).parents[2]
STUDIES = {path.name: path.read_text() for path in (ROOT / "examples").glob("*.toml")} | {
    f"{page.name}:{block.line}": block.body
    for page in PAGES
    for block in blocks(page.read_text())
    if block.kind == "toml" and {"study", "data"} <= tomllib.loads(block.body).keys() and "[space" in block.body
}
INSTALLED = [name for name, text in STUDIES.items() if tomllib.loads(text)["study"]["method"] in {AUTO, *METHODS}]


@pytest.fixture(scope="module")
def validator():
    schema = study_schema()
    json.dumps(schema, allow_nan=False)
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@pytest.mark.parametrize("name", INSTALLED)
def test_every_study_of_the_examples_and_pages_fits_the_schema(validator, name):
    assert [error.message for error in validator.iter_errors(tomllib.loads(STUDIES[name]))] == []


MISTAKES = [  # section, key, value; None takes it away
    ("study", "name", 3),
    ("study", "method", "privat_grid"),
    ("study", "acepts", ["gp_prior"]),
    ("privacy", "dataset", None),
    ("privacy", "epsilon", -1.0),
    ("privacy", "epsilon", "1.0"),
    ("privacy", "delta", 1.0),
    ("privacy", "max_records_per_person", 0),
    ("privacy", "neighbours", "replace"),
    ("budget", "epsilon", 0.0),
    ("budget", "limit", 5.0),
    ("data", "validation_share", 1.5),
    ("data", "sourc", "breast_cancer"),
    ("model", "estimator", "logistc"),
    ("model", "score", "sigmod"),
    ("model", "steepness", 0.0),
    ("space", "lambda", {"low": 1e-4}),
    ("space", "lambda", {"low": 1e-4, "high": 1.0, "pts": 4}),
    ("search", "steps", 0),
    ("search", "acquisition", "thompson"),
    ("method", "look_shar", 0.25),
    ("method", "final_share", "0.8"),
    ("evaluation", "epsilon", False),
    ("serach", "steps", 20),
]


@pytest.mark.parametrize(("section", "key", "value"), MISTAKES, ids=[f"{a}.{b}={c}" for a, b, c in MISTAKES])
def test_a_mistake_in_a_study_does_not_fit_the_schema(validator, tables, section, key, value):
    """And dpbo refuses it too, now or, where it is the method's to say, when it is planned."""
    assert validator.is_valid(tables)
    wrong = copy.deepcopy(tables)
    wrong.setdefault(section, {})[key] = value
    if value is None:
        del wrong[section][key]
    assert not validator.is_valid(wrong)
    if section != "method" and key != "method":
        with pytest.raises(StudyInvalid):
            StudySpec.from_dict(wrong)


def test_an_editor_is_told_what_a_key_means(validator):
    kinds = validator.schema["$defs"]
    assert kinds["EvaluationSection"]["properties"]["bins"]["description"].startswith("of the decision values")
    assert "remedy" not in json.dumps(kinds)
    assert '"null"' not in json.dumps(validator.schema)
