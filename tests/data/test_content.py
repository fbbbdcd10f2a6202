"""What a hyperparameter's value is by its content: equal is not same, and the same in every process is the same."""

import functools
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from dpbo_core import Categorical
from dpbo_core.data.content import content_key, function_text, json_form
from dpbo_core.errors import StudyInvalid

COLUMNS = [f"c{i:02d}" for i in range(40)]
LONG = np.arange(5000.0)
ANOTHER = LONG.copy()
ANOTHER[2500] = -1.0


def half(X, share=0.5):
    return X * share


def _columns(names):
    return ColumnTransformer([("n", StandardScaler(), names)])


def _decorated(body):
    @functools.wraps(body)
    def wrapper(truth, predicted):
        return body(truth, predicted)

    return wrapper


PAIRS = {
    "number and float": (1, 1.0),
    "number and truth": (1, True),
    "number and text": (1, "1"),
    "zeros": (0.0, -0.0),
    "infinity and text": (np.inf, "inf"),
    "nothing and text": (None, "None"),
    "list and tuple": ([5, 5], (5, 5)),
    "list of floats": ([1], [1.0]),
    "sets": ({1, 2}, frozenset({1, 2})),
    "kernels": (RBF(30.0), RBF(30.0, "fixed")),
    "columns": (_columns(COLUMNS[:35]), _columns(COLUMNS)),
    "last column": (_columns([*COLUMNS[:39], "c39"]), _columns([*COLUMNS[:39], "c38"])),
    "stop words": (CountVectorizer(stop_words=COLUMNS[:31]), CountVectorizer(stop_words=COLUMNS)),
    "long arrays": (LONG, ANOTHER),
    "types of arrays": (np.zeros(3), np.zeros(3, dtype=np.float32)),
    "shapes of arrays": (np.zeros((2, 3)), np.zeros((3, 2))),
    "arrays of objects": (np.array([1, "a"], dtype=object), np.array([1.0, "a"], dtype=object)),
    "data frames": (pd.DataFrame({"a": LONG}), pd.DataFrame({"a": ANOTHER})),
    "columns of data frames": (pd.DataFrame({"a": [1]}), pd.DataFrame({"b": [1]})),
    "pipelines": (
        make_pipeline(_columns(COLUMNS), LogisticRegression()),
        make_pipeline(_columns(COLUMNS), LogisticRegression(C=2.0)),
    ),
    "partial": (functools.partial(half, share=0.5), functools.partial(half, share=0.25)),
    "functions": (FunctionTransformer(np.log1p), FunctionTransformer(np.expm1)),
    "times": (np.datetime64(1, "ns"), 1),
    "dicts": ({0: 1, 1: 5}, {0: 1, 1: 5.0}),
    "texts cut by commas": (["a,b"], ["a", "b"]),
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS.keys())
def test_near_values_are_two(pair):
    one, other = pair
    assert content_key(one) != content_key(other)
    assert len(set(map(str, Categorical([one, other]).names))) == 2 or not {type(one), type(other)} - {
        int,
        float,
        bool,
        str,
    }


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (float("nan"), np.float64("nan")),
        (np.int64(1), 1),
        (np.float64(0.1), 0.1),
        (np.bool_(True), True),
        ({0: 1, 1: 5}, {1: 5, 0: 1}),
        ({"b", "a"}, {"a", "b"}),
        ([(1, 2), (1, 2)], [(1, 2), (1, 2)]),
        (["aa", "aa"], ["aa", "aaz".replace("z", "")]),
        (np.asfortranarray(np.eye(3)[:2]), np.eye(3)[:2]),
    ],
)
def test_the_same_content_is_the_same_value(one, other):
    assert content_key(one) == content_key(other)
    with pytest.raises(StudyInvalid, match="lists a value twice"):
        Categorical([one, other])


IN_ANOTHER_PROCESS = """
import sys; sys.path.insert(0, {folder!r})
from test_content import PAIRS
from dpbo_core import Categorical
from dpbo_core.data.content import function_text, content_key
from dpbo_core.models.prototype import Prototype
from sklearn.feature_extraction.text import CountVectorizer
from test_content import scored
print([(content_key(one), content_key(other), Categorical([one, other]).names) for one, other in PAIRS.values()])
print(Prototype(CountVectorizer(stop_words=frozenset("abcdefgh")), 0, False).identity(), function_text(scored))
"""


def scored(truth, predicted):
    return float(predicted in {"a", "b", "c", "d", "e"}) * THRESHOLD


THRESHOLD = 0.5


def test_every_process_has_the_same_keys_and_names():
    """Whatever the seed of Python's hashes, by which sets are ordered; and no name has an address in it."""
    script = IN_ANOTHER_PROCESS.format(folder=str(Path(__file__).parent))
    said = [
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert said[0] == said[1]
    assert " at 0x" not in said[0]


@pytest.mark.parametrize(
    "value",
    [
        lambda x: x,
        FunctionTransformer(lambda x: x),
        [{"f": lambda x: x}],
        functools.partial(lambda x: x, 1),
        (one for one in (1, 2)),
        iter([1, 2]),
        np.random.RandomState(0),
        np.random.default_rng(0),
        random.Random(0),
        LogisticRegression(random_state=np.random.RandomState(0)),
    ],
)
def test_what_has_no_content_of_its_own_is_refused(value):
    with pytest.raises(StudyInvalid, match="cannot be told from another by its content"):
        content_key(value)


def test_an_open_file_is_refused(tmp_path):
    with (tmp_path / "some.txt").open("w") as file, pytest.raises(StudyInvalid, match="by its content"):
        content_key(file)


def _compiled(text, name="utility"):
    names = {"__name__": "__main__", "functools": functools}
    exec(text, names)
    return names[name]


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("def utility(t, p):\n    return 1.0 * (t == p)\n", ("1.0", "2.0")),
        ("def utility(t, p, cut=[1, 2]):\n    return cut\n", ("[1, 2]", "[1, 3]")),
        ("CUT = 0.5\ndef utility(t, p):\n    return p > CUT\n", ("0.5", "0.6")),
        ("def inner(t):\n    return t\ndef utility(t, p):\n    return inner(t)\n", ("return t\n", "return -t\n")),
        (
            "def deco(f):\n    @functools.wraps(f)\n    def g(t, p):\n        return f(t, p)\n    return g\n"
            "@deco\ndef utility(t, p):\n    return 1.0\n",
            ("1.0", "2.0"),
        ),
        ("class utility:\n    def fit(self):\n        return 1\n", ("return 1", "return 2")),
    ],
)
def test_a_function_or_class_of_ones_own_is_what_it_does(text, change):
    before, after = _compiled(text), _compiled(text.replace(*change))
    again = _compiled(text)
    assert content_key(before) == content_key(again) != content_key(after)
    if not isinstance(before, type):
        assert function_text(before) == function_text(again) != function_text(after)


def test_names_say_what_they_can_and_collide_with_nothing():
    names = Categorical([0.1, np.inf, "inf", None, [5], RBF(2.0), *PAIRS["columns"]]).names
    assert names[0] == 0.1
    assert names[2] == "inf"
    assert names[3:5] == ("None", "[5]")
    assert names[1].startswith("inf #")
    assert names[5] == "RBF(length_scale=2.0)"
    assert len(set(names[6:])) == 2
    assert all("ColumnTransformer" in name and " #" in name for name in names[6:])


def test_numbers_that_json_lacks_are_texts_in_it():
    assert json_form({"a": [np.inf, -np.inf, float("nan"), 1.0, "x", None]}) == {
        "a": ["inf", "-inf", "nan", 1.0, "x", None]
    }
