"""The JSON Schema of a study file, for editors: made from its sections and the installed methods and scores.

It accepts every study that `read_study` accepts. It refuses unknown keys, wrong types, misspelt names and numbers
beyond their limits; what sections must agree on is for `dpbo plan` to say.
"""

import re
from collections.abc import Iterator
from typing import Any

from pydantic import TypeAdapter

from dpbo_core.methods import METHODS
from dpbo_core.methods.advice import AUTO
from dpbo_core.models.scores.union import MARGIN_SCORES, PAIR_SCORES, SCORES
from dpbo_core.privacy.named_parts import declared
from dpbo_core.study.spec import SECTION_NAMES, StudyHead, StudySpec

DIALECT = "https://json-schema.org/draft/2020-12/schema"
ATTRIBUTES = re.compile(r"^ {4}(\w+): (.+(?:\n {5,}.+)*)", re.MULTILINE)  # of a class's docstring
PATH_PATTERN, SCORE_PATH_PATTERN = "[.:]", r"\."


def study_schema() -> dict[str, Any]:
    """Return the JSON Schema of a study file, as plain JSON."""
    document = StudySpec.model_json_schema()
    kinds, sections = document["$defs"], document["properties"]
    _make_plain(kinds)
    _names(kinds)
    head = StudyHead.model_json_schema()
    head["properties"]["method"] = {"enum": [AUTO, *METHODS], "description": "how candidates are chosen"}
    tables = {"study": head, **{name: sections[name] for name in SECTION_NAMES}, "method": {"type": "object"}}
    _make_plain(tables)
    tables["space"]["minProperties"] = 1
    core = {
        "required": ["study", "privacy", "data", "model", "space"],
        "properties": tables,
        "additionalProperties": False,
        "allOf": [_options(kind) for kind in METHODS],
    }
    features = [{"required": [name]} for name in declared("dpbo.sections")]
    if features:  # what a feature's own section brings with it is the feature's to check
        core = {"if": {"anyOf": features}, "then": {"properties": {"study": head}}, "else": core}
    return {"$schema": DIALECT, "title": "A study of dpbo", "type": "object", "$defs": kinds, **core}


def _nodes(node: Any) -> Iterator[dict[str, Any]]:
    """Yield every table of a schema, the inner ones first."""
    for item in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _nodes(item)
    if isinstance(node, dict):
        yield node


def _make_plain(schema: Any) -> None:
    """Take away what TOML has not (null) and what no editor shows, and say what a key means where one asks."""
    for node in _nodes(schema):
        _make_node_plain(node)


def _make_node_plain(node: dict[str, Any]) -> None:
    if node.get("default", ...) is None:
        del node["default"]
    kinds = [kind for kind in node.get("anyOf", ()) if kind != {"type": "null"}]
    if len(kinds) == 1:
        del node["anyOf"]
        node.update(kinds[0] | {name: text for name, text in node.items() if name != "remedy"})
    elif kinds:
        node["anyOf"] = kinds
    if isinstance(remedy := node.pop("remedy", None), str):
        node.setdefault("description", remedy)
    if isinstance(node.get("title"), str):
        del node["title"]
    text, keys = node.get("description"), node.get("properties")
    if isinstance(text, str) and isinstance(keys, dict):
        for name, meaning in ATTRIBUTES.findall(text):
            if name in keys:
                keys[name]["description"] = " ".join(meaning.split())
        node["description"] = text.partition("\n\nAttributes:")[0]


def _names(kinds: dict[str, Any]) -> None:
    """Add the names that a text may be, and what an axis needs: the types of the sections do not state them."""
    usual = {"enum": [*SCORES]}
    models: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "LinearSection": ({}, {"enum": [*MARGIN_SCORES, *PAIR_SCORES]}),
        "PredictionsSection": ({}, usual),
        "EstimatorSection": ({"pattern": PATH_PATTERN}, usual),
        "FunctionSection": ({"pattern": PATH_PATTERN}, {"pattern": SCORE_PATH_PATTERN}),
    }
    for name, (estimator, score) in models.items():
        kinds[name]["properties"]["estimator"].update(estimator)
        kinds[name]["properties"]["score"].update(score)
    ends = {"required": ["low", "high"], "properties": {"values": False}}
    kinds["AxisSection"]["oneOf"] = [ends, {"required": ["values"], "properties": {"low": False, "high": False}}]


def _options(kind: str) -> dict[str, Any]:
    """Return the condition that a study by this method has the method's own keys in [method]."""
    options = TypeAdapter(METHODS[kind]).json_schema()
    _make_plain(options)
    del options["properties"]["kind"]
    method = {"properties": {"method": {"const": kind}}, "required": ["method"]}
    return {
        "if": {"properties": {"study": method}, "required": ["study"]},
        "then": {"properties": {"method": options | {"additionalProperties": False}}},
    }
