"""A model's folder that somebody changed: it is refused before anything is asked of it, or does no harm."""

import io
import json
import sys
import zipfile
from contextlib import suppress
from copy import deepcopy
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from skops import io as skops_io
from test_final_model import COLUMNS, estimator_model, linear_model, regression_model

from dpbo_core.data.named_columns import NamedColumn
from dpbo_core.data.preprocessing import Preprocessing
from dpbo_core.data.raw_cells import as_cells
from dpbo_core.errors import StudyInvalid
from dpbo_core.models.estimators import FittedEstimator
from dpbo_core.models.final_model.dpbo_served_model import BOOSTER_FILES, ESTIMATOR
from dpbo_core.models.final_model.storage import NUMBERS, loaded_estimator
from dpbo_core.models.final_model.structure import check_structure
from dpbo_core.report.evaluated_model import read_model
from dpbo_core.study.final_training import FinalModel

VALUES = (None, True, -1, 2.5, 10**400, 1e999, "", "x", "\ud800", [], [1.0], {}, "gone")


def leaves(document, path=()):
    """Where each value of a JSON document is, the document's own parts among them."""
    yield path
    if isinstance(document, dict | list):
        for key in document if isinstance(document, dict) else range(len(document)):
            yield from leaves(document[key], (*path, key))


def changed(document, path, value):
    """A document with the value at `path` replaced or taken out, as text; infinity as readers of JSON take it."""
    copy = place = deepcopy(document)
    for key in path[:-1]:
        place = place[key]
    if value == "gone":
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return json.dumps(copy).replace("Infinity", "1e999")


def named_model():
    """A pipeline that takes a data frame's own columns."""
    frame = pd.DataFrame({name: COLUMNS[name] for name in ("a", "colour")})
    text = str(frame["colour"].dtype)
    columns = (NamedColumn("a", "number", "float64", (), False, 0.0), NamedColumn("colour", "text", text))
    transformer = make_column_transformer((StandardScaler(), ["a"]), (OneHotEncoder(), ["colour"]))
    estimator = make_pipeline(transformer, LogisticRegression()).fit(frame, np.array(COLUMNS["y"]) == "yes")
    told = Preprocessing("y", ("no", "yes"), columns, unit_ball=False, bias=0.0, radius=1.0)
    return FinalModel(told, FittedEstimator(estimator, as_cells([0.0, "red"]), columns=columns))


@pytest.mark.parametrize("make", [linear_model, regression_model, named_model])
def test_a_field_of_another_type_is_refused_or_predicts(make, tmp_path):
    """Every field, by every kind of value; what is taken raises nothing afterwards, and no raw error comes."""
    folder, refused = make().save(tmp_path), 0
    document = json.loads((folder / NUMBERS).read_text())
    document["preprocessing"]["classes"] = document["preprocessing"]["classes"][:3]
    for path in [path for path in leaves(document) if path]:
        for value in VALUES:
            (folder / NUMBERS).write_text(changed(document, path, value))
            try:
                model = FinalModel.load(folder)
            except StudyInvalid:
                refused += 1
            else:
                assert "inf" not in repr(model.preprocessing)
                names = [name for name in model.columns if name not in COLUMNS]
                with suppress(ValueError if make is named_model else ()):  # its pipeline knows its columns by name
                    model.predict(COLUMNS | dict.fromkeys(names, COLUMNS["a"]))
    assert refused > 200


TERMS = {"verb": "decision_function", "slope": 1.0, "intercept": 0.0, "threshold": 0.0, "logistic": True}


@pytest.mark.parametrize("name", TERMS)
def test_terms_of_another_type_are_refused(name, tmp_path):
    folder = linear_model().save(tmp_path)
    document = json.loads((folder / NUMBERS).read_text()) | {"repaired": TERMS}
    (folder / NUMBERS).write_text(json.dumps(document))
    FinalModel.load(folder).predict(COLUMNS)
    for value in ("x", None, [], 10**400, 1e999, "gone"):
        (folder / NUMBERS).write_text(changed(document, ("repaired", name), value))
        with pytest.raises(StudyInvalid, match="no final model can be read"):
            FinalModel.load(folder)


@pytest.mark.parametrize("kind", ["category", "int8", "Int64", "datetime64[us]", "datetime64[us, Nowhere]"])
@pytest.mark.parametrize("at", [0, 1])
def test_a_type_by_which_one_record_could_change_another_is_refused(kind, at, tmp_path):
    """As a category whose values are a batch's own, or a type that a large number does not fit."""
    folder = named_model().save(tmp_path)
    document = json.loads((folder / NUMBERS).read_text())
    FinalModel.load(folder).predict(COLUMNS)
    document["preprocessing"]["features"][at]["dtype"] = kind
    (folder / NUMBERS).write_text(json.dumps(document))
    with pytest.raises(StudyInvalid, match="no final model can be read"):
        FinalModel.load(folder)


def rewritten(path, change):
    """Rewrite each array of a skops file by `change`, in place; returns how many it changed."""
    with zipfile.ZipFile(path) as file:
        items = {name: file.read(name) for name in file.namelist()}
    n = 0
    for name in [name for name in items if name.endswith(".npy")]:
        array = np.load(io.BytesIO(items[name]), allow_pickle=False).copy()
        if change(array):
            n += 1
            np.save(made := io.BytesIO(), array, allow_pickle=False)
            items[name] = made.getvalue()
    with zipfile.ZipFile(path, "w") as file:
        for name, content in items.items():
            file.writestr(name, content)
    return n


def set_nodes(names, value):
    """A change that writes `value` into these fields of the first node of each tree."""

    def change(array):
        hit = array.ndim == 1 and array.dtype.names is not None and {*names} <= {*array.dtype.names}
        for name in names if hit else ():
            array[name][0] = value
        return hit

    return change


def set_integers(value):
    """A change that writes `value` into every entry of the longer arrays of whole numbers."""

    def change(array):
        hit = array.dtype.names is None and array.dtype.kind == "i" and array.ndim == 1 and len(array) > 30
        array[:] = value if hit else array
        return hit

    return change


def set_counts(array):
    """A change of the numbers of support vectors a class."""
    hit = array.dtype == np.int32 and array.shape == (2,)
    array[...] = 2**30 if hit else array
    return hit


TREE, BOOSTED = ("left_child", "right_child"), ("left", "right")
TAMPERED = {
    "a child far outside": (DecisionTreeClassifier(), set_nodes(TREE, 2**40)),
    "a child before the first": (DecisionTreeClassifier(), set_nodes(TREE, -2)),
    "a node that is its own child": (DecisionTreeClassifier(), set_nodes(TREE, 0)),
    "a feature that is none": (DecisionTreeClassifier(), set_nodes(("feature",), 2**40)),
    "a boosted child far outside": (GradientBoostingClassifier(n_estimators=2), set_nodes(TREE, 2**40)),
    "a child of a histogram's": (HistGradientBoostingClassifier(max_iter=1), set_nodes(BOOSTED, 2**31)),
    "a loop of a histogram's": (HistGradientBoostingClassifier(max_iter=1), set_nodes(BOOSTED, 0)),
    "a feature of a histogram's": (HistGradientBoostingClassifier(max_iter=1), set_nodes(("feature_idx",), 2**30)),
    "a category of a histogram's": (HistGradientBoostingClassifier(max_iter=1), set_nodes(("is_categorical",), 1)),
    "a neighbour that is none": (KNeighborsClassifier(algorithm="kd_tree"), set_integers(2**40)),
    "rows of a neighbours' node": (KNeighborsClassifier(algorithm="ball_tree"), set_nodes(("idx_end",), 2**40)),
    "support vectors that are none": (SVC(), set_counts),
}


@pytest.mark.parametrize("how", TAMPERED)
def test_an_index_that_points_outside_an_estimator_is_refused(how, tmp_path):
    """Followed, it reads the memory of the process, or never ends, on records that one reader chose."""
    estimator, change = TAMPERED[how]
    folder = estimator_model(estimator).save(tmp_path)
    FinalModel.load(folder)
    assert rewritten(folder / ESTIMATOR, change)
    with pytest.raises(StudyInvalid, match="no final model can be read"):
        FinalModel.load(folder)


def test_a_narrower_estimator_inside_is_refused():
    """Boosting adds up as many columns as it has trees in a row, and forests ask their trees without a look."""
    model = GradientBoostingClassifier(n_estimators=2).fit(np.eye(6), [0, 1, 2] * 2)
    check_structure([{"inside": model}])
    model.estimators_ = np.hstack([model.estimators_, model.estimators_])
    with pytest.raises(ValueError, match="points outside"):
        check_structure([{"inside": model}])
    neighbours = KNeighborsClassifier().fit(np.eye(6), [0, 1] * 3)
    neighbours._fit_X = neighbours._fit_X[:, :2]
    with pytest.raises(ValueError, match="points outside"):
        check_structure(neighbours)


@pytest.mark.parametrize("library", BOOSTER_FILES)
def test_a_model_is_another_where_its_trees_are(library, tmp_path, monkeypatch):
    """Otherwise the report on one vendor's model would be returned for another's."""
    file, (kind, *_) = BOOSTER_FILES[library]
    booster = type(
        kind, (), {"load_model": lambda *_: None, "predict": lambda *_: None, "__init__": lambda *_, **__: None}
    )
    monkeypatch.setitem(sys.modules, library, SimpleNamespace(**{kind: booster, "Booster": booster}))
    folder = estimator_model(LogisticRegression()).save(tmp_path)
    (folder / ESTIMATOR).unlink()
    document = json.loads((folder / NUMBERS).read_text())
    (folder / NUMBERS).write_text(json.dumps(document | {"booster": {"library": library, "class": kind}}))
    digests = []
    for trees in ("one", "another", "one"):
        (folder / file).write_text(trees)
        digests.append(read_model(folder)[1])
    assert digests[0] == digests[2] != digests[1]


@pytest.mark.parametrize("estimator", [DecisionTreeClassifier(max_depth=8), RandomForestClassifier(3)])
def test_a_loaded_tree_holds_no_byte_of_the_memory_it_was_loaded_into(tmp_path, estimator):
    """Between the fields of its nodes: each load of one file was another model, with another private score."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    fitted = estimator.fit(X, X[:, 0] * X[:, 1] > 0)
    skops_io.dump(fitted, tmp_path / ESTIMATOR)
    loads = set()
    for _ in range(8):
        junk = [rng.bytes(len(tree) * 64) for tree in [bytes(n) for n in (9, 17, 33, 65)] for _ in range(20)]
        del junk
        loaded = loaded_estimator(tmp_path / ESTIMATOR, verb="predict")
        trees = [loaded.tree_] if hasattr(loaded, "tree_") else [each.tree_ for each in loaded.estimators_]
        nodes = [tree.__getstate__()["nodes"] for tree in trees]
        for array in nodes:
            assert not array.view(np.uint8).reshape(len(array), -1)[:, 57:].any()
        loads.add(b"".join(array.tobytes() for array in nodes))
    assert len(loads) == 1
