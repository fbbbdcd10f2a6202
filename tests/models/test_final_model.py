"""The final model goes to disk and comes back the same, and no file of it can bring code along."""

import ast
import json
import re
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from of_features import parts
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from worlds import at_length

from dpbo_core.data import Preprocessing, fingerprint, read_table, table_of
from dpbo_core.data.frames import frame_of
from dpbo_core.data.header import PUBLIC_FILE, SENSITIVE_FILE
from dpbo_core.data.named_columns import data_frame, refuse_unreadable
from dpbo_core.errors import StudyInvalid
from dpbo_core.models.estimators import fitted
from dpbo_core.models.final_model.dpbo_served_model import ESTIMATOR, TRUSTED_TYPES, _load_pyfunc
from dpbo_core.models.final_model.storage import NUMBERS, write_served_code
from dpbo_core.models.linear.fit import train
from dpbo_core.study.final_training import FinalModel

ROOT = Path(__file__).parents[2]
RNG = np.random.default_rng(5)
N = 60
FIRST, SECOND = RNG.normal(size=N), RNG.normal(size=N) * 1e-7 + 1e9
COLUMNS = {
    "a": list(FIRST),
    "b": [*SECOND[:-1], float("nan")],
    "colour": list(RNG.choice(["red", "grün", "a,b"], size=N)),
    "y": ["yes" if x > 0.0 else "no" for x in FIRST],
}
REGRESSION = COLUMNS | {"y": list(3.0 * FIRST + 1.0)}
ROWS = [{name: COLUMNS[name][i] for name in COLUMNS if name != "y"} for i in range(N)]
CLASSIFIERS = [
    LogisticRegression(),
    make_pipeline(StandardScaler(), PolynomialFeatures(), LogisticRegression()),
    RandomForestClassifier(5, random_state=0),
    DecisionTreeClassifier(random_state=0),
    SVC(),
    GradientBoostingClassifier(n_estimators=5, random_state=0),
    HistGradientBoostingClassifier(max_iter=5, random_state=0),
    KNeighborsClassifier(algorithm="kd_tree"),
    KNeighborsClassifier(algorithm="ball_tree", metric="manhattan"),
    GaussianNB(),
    MLPClassifier((4,), max_iter=300, tol=0.01, random_state=0),
    GaussianProcessClassifier(ConstantKernel(1.0, "fixed") * RBF()),
]


def preprocessing(*, unit_ball=False, **more):
    return Preprocessing.fit(table_of(COLUMNS), "y", unit_ball=unit_ball, missing="mean", **more)


def estimator_model(estimator):
    told = preprocessing()
    encoded = told.transform(table_of(COLUMNS))
    return FinalModel(told, fitted(estimator, encoded.X, encoded.labels, display_name="it"))


def linear_model():
    told = preprocessing(unit_ball=True, bias=0.6)
    encoded = told.transform(table_of(COLUMNS))
    return FinalModel(told, train(encoded.X, encoded.signs, loss="logistic", regularization=0.013), "logistic")


def regression_model(estimator=None):
    told = Preprocessing.fit(table_of(REGRESSION), "y", unit_ball=False, missing="mean", regression=True)
    encoded = told.transform(table_of(REGRESSION))
    return FinalModel(
        told, fitted(Ridge() if estimator is None else estimator, encoded.X, encoded.targets, display_name="it")
    )


def inside(model):
    """Everything a preprocessing holds, NaN as itself."""
    return repr(model.preprocessing)


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=lambda e: f"{type(e).__name__}-{CLASSIFIERS.index(e)}")
def test_an_estimator_comes_back_and_predicts_the_same(estimator, tmp_path):
    model = estimator_model(estimator)
    back = FinalModel.load(model.save(tmp_path / "model"))
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == [ESTIMATOR, NUMBERS]
    assert inside(back) == inside(model)
    assert np.array_equal(back.model.stand_in, model.model.stand_in)
    assert list(back.predict(COLUMNS)) == list(model.predict(COLUMNS))
    rows = RNG.normal(size=(200, len(model.model.stand_in)))
    for verb in ("predict_proba", "decision_function"):
        if hasattr(model.model.estimator, verb):
            one, other = (getattr(m.model.estimator, verb)(rows) for m in (model, back))
            assert np.array_equal(one, other)


def test_a_linear_model_comes_back_to_the_last_bit(tmp_path):
    model = linear_model()
    back = FinalModel.load(model.save(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == [NUMBERS]
    assert inside(back) == inside(model)
    assert model.model.weights.tobytes() == back.model.weights.tobytes()
    assert (model.model.regularization, model.model.certificate) == (
        back.model.regularization,
        back.model.certificate,
    )
    assert list(back.predict(COLUMNS)) == list(model.predict(COLUMNS))
    assert set(model.predict(COLUMNS)) == {"yes", "no"}


def test_a_model_of_a_version_that_did_not_say_how_texts_were_read_loads(tmp_path):
    path = linear_model().save(tmp_path) / NUMBERS
    document = json.loads(path.read_text())
    del document["preprocessing"]["csv"]
    path.write_text(json.dumps(document))
    assert inside(FinalModel.load(tmp_path)) == inside(linear_model())
    assert not _load_pyfunc(str(tmp_path)).preprocessing.csv


@pytest.mark.parametrize("estimator", [Ridge(), RandomForestRegressor(5, random_state=0)])
def test_a_regression_predicts_numbers_and_comes_back(estimator, tmp_path):
    model = regression_model(estimator)
    found = model.predict(REGRESSION)
    assert np.corrcoef(found, REGRESSION["y"])[0, 1] > 0.9
    assert np.array_equal(FinalModel.load(model.save(tmp_path)).predict(REGRESSION), found)


class Foreign(LogisticRegression):
    """An estimator of somebody else's."""


def doubled(X):
    return 2.0 * X


FOREIGN = {
    "an estimator": Foreign(),
    "a function": make_pipeline(FunctionTransformer(doubled), LogisticRegression()),
}


@pytest.mark.parametrize("which", FOREIGN)
def test_foreign_code_is_refused_by_a_letter_when_saving(which, tmp_path):
    with pytest.raises(StudyInvalid, match=r"not written.*test_final_model"):
        estimator_model(FOREIGN[which]).save(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("load", "letter"), [(FinalModel.load, StudyInvalid), (_load_pyfunc, ValueError)])
@pytest.mark.parametrize("which", FOREIGN)
def test_a_file_that_names_foreign_code_is_refused_before_anything_is_built(
    which, load, letter, tmp_path, monkeypatch
):
    """By us, and by the module that travels with the model."""
    from skops import io

    estimator_model(LogisticRegression()).save(tmp_path)
    (tmp_path / ESTIMATOR).write_bytes(io.dumps(FOREIGN[which]))
    monkeypatch.setattr(io, "loads", lambda *_, **__: pytest.fail("it was built"))
    with pytest.raises(letter, match=r"names .*test_final_model"):
        load(str(tmp_path))


def test_a_damaged_file_is_a_letter(tmp_path):
    estimator_model(DecisionTreeClassifier()).save(tmp_path)
    rng = np.random.default_rng(1)
    for name in (NUMBERS, ESTIMATOR):
        whole = (tmp_path / name).read_bytes()
        broken = [b"", b"{}", b"[" * 100_000, b"null", b'{"format": 1}', b"\xff\x00", whole[: len(whole) // 2]]
        broken += [whole[:at] + whole[at + 5 :] for at in rng.integers(len(whole) - 5, size=30)]
        for content in broken:
            (tmp_path / name).write_bytes(content)
            with suppress(StudyInvalid):
                FinalModel.load(tmp_path)  # a digit less is another number: only its form can be checked
        (tmp_path / name).write_bytes(whole)
    (tmp_path / NUMBERS).unlink()
    with pytest.raises(StudyInvalid, match="missing"):
        FinalModel.load(tmp_path)


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("format",), 2), (("linear", "weights"), ["x"]), (("linear", "weights"), [1.0]),
        (("preprocessing", "features"), [{"name": "a"}]), (("preprocessing", "radius"), float("inf")),
    ],
)  # fmt: skip
def test_numbers_of_another_form_are_refused(where, value, tmp_path):
    linear_model().save(tmp_path)
    document = json.loads((tmp_path / NUMBERS).read_text())
    place = document
    for key in where[:-1]:
        place = place[key]
    place[where[-1]] = value
    (tmp_path / NUMBERS).write_text(json.dumps(document))
    with pytest.raises(StudyInvalid, match="no final model can be read"):
        FinalModel.load(tmp_path)


def test_the_trusted_types_are_scikit_learns_classes_and_no_functions():
    """A function among them could be called with a file's arguments."""
    import importlib
    import inspect

    assert list(TRUSTED_TYPES) == sorted(TRUSTED_TYPES)
    for path in TRUSTED_TYPES:
        module, _, name = path.rpartition(".")
        assert module.split(".")[0] in ("sklearn", "scipy", "numpy")
        found = getattr(importlib.import_module(module), name, None)
        assert inspect.isclass(found) or name == "_RemainderColsList"  # gone from scikit-learn 1.9


WORDS = ("pickle", "dill", "marshal", "shelve", "load", "array", "weights", "eval", "exec", "compile", "import__")
CODE = re.compile(  # what could turn bytes into code
    r"^\s*(?:import|from) (?:c?_?pickle|cloudpickle|dill|marshal|shelve)\b"
    r"|\b(?:joblib|yaml|torch)\.load\b|\b(?:read_pickle|unsafe_load|read_array)\b|allow_pickle=True|weights_only=False"
    r"|(?<![\w.])(?:builtins\.)?(?:eval|exec|compile|__import__)\(",
    re.IGNORECASE | re.MULTILINE,
)


def test_nothing_of_ours_turns_bytes_into_code():
    files = [path for room in ("dpbo_core", "tasks", "flows", "features") for path in (ROOT / room).rglob("*.py")]
    assert len(files) > 100
    texts = {path: path.read_text().lower() for path in files}
    spoken = [path for path, text in texts.items() if any(word in text for word in WORDS)]
    found = {path.relative_to(ROOT).as_posix() for path in spoken if CODE.search(texts[path])}
    # records scored alone: the curator pickles, and what unpickles is a process that holds one record and 8 bytes
    alone = {file for files in parts("PICKLES") for file in files}
    alone.add("dpbo_core/models/isolated_estimator.py")
    # public work apart: its process reads what the one that started it pickled, and answers in plain numbers
    apart = {"dpbo_core/models/public_process.py"}
    apart.add("dpbo_core/study/trained_models.py")  # what this process pickled and never let go of
    assert found == alone | apart | {"dpbo_core/models/import_path.py"}  # a study's own code, beside its file


def test_a_release_with_a_model_of_foreign_code_is_shown_without_it(tmp_path):
    from dpbo.tasks.reporting import logged_model as tracked

    told = {}

    class Store:
        class client:  # noqa: N801
            set_tag = staticmethod(lambda run, key, value: told.update({(run, key): value}))

        def put(self, *_):
            pytest.fail("it was kept")

    tracked.put_model(Store(), "r1", None, estimator_model(Foreign()), tmp_path)
    assert "not written" in told["r1", tracked.REFUSED_TAG]


def test_rows_may_be_dicts_a_frame_or_columns_and_say_the_same():
    import pandas as pd
    import polars as pl

    model = estimator_model(RandomForestClassifier(5, random_state=0))
    expected = model.predict_proba(COLUMNS)
    assert expected.shape == (N, 2)
    assert np.allclose(expected.sum(axis=1), 1.0)
    for rows in (ROWS, tuple(ROWS), pd.DataFrame(COLUMNS), pl.DataFrame(COLUMNS)):
        assert np.array_equal(model.predict_proba(rows), expected)
    assert np.array_equal(model.predict_proba(ROWS[3]), expected[3:4])
    assert list(model.predict(COLUMNS)) == [model.classes[i] for i in expected.argmax(axis=1)]
    gap = {name: value for name, value in ROWS[3].items() if name != "b"}
    with_nothing = model.predict_proba([ROWS[0], gap | {"b": None}])
    assert np.array_equal(model.predict_proba([ROWS[0], gap]), with_nothing)


@pytest.mark.parametrize(
    ("rows", "letter"),
    [
        ([], "empty"), ([[1.0, 2.0]], "not of dicts"), ({"a": 1.0}, "lacks the column 'b'"),
        (np.zeros((2, 3)), "no named columns"), (COLUMNS | {"a": [1.0]}, "differ in length"),
    ],
)  # fmt: skip
def test_rows_that_are_none_are_a_letter(rows, letter):
    with pytest.raises(StudyInvalid, match=letter):
        linear_model().predict(rows)


def test_a_verb_that_the_model_lacks_is_no_attribute():
    logistic, unknown = linear_model(), FinalModel(*vars_of(linear_model()), loss="hinge")
    assert not hasattr(unknown, "predict_proba")
    margins = logistic.decision_function(COLUMNS)
    assert np.array_equal(margins, unknown.decision_function(COLUMNS))
    assert np.allclose(logistic.predict_proba(COLUMNS)[:, 1], 1.0 / (1.0 + np.exp(-margins)), atol=1e-15)
    assert [logistic.classes[int(margin > 0.0)] for margin in margins] == list(logistic.predict(COLUMNS))
    assert not hasattr(FinalModel(*vars_of(linear_model()), loss="huber_svm"), "predict_proba")
    assert not any(hasattr(regression_model(), verb) for verb in ("predict_proba", "decision_function"))
    svc, forest = estimator_model(SVC()), estimator_model(RandomForestClassifier(2, random_state=0))
    assert (hasattr(svc, "predict_proba"), hasattr(svc, "decision_function")) == (False, True)
    assert (hasattr(forest, "predict_proba"), hasattr(forest, "decision_function")) == (True, False)


def vars_of(model):
    return model.preprocessing, model.model


KINDS = {
    "linear": linear_model,
    "svc": lambda: estimator_model(SVC()),
    "forest": lambda: estimator_model(RandomForestClassifier(3, random_state=0)),
    "ridge": regression_model,
}
HOSTILE = {  # what a client may send: each column's own meaning of nothing, of a number and of a text
    "a": [None, "2.5", " 1e3 ", True, float("inf"), 1e300, "x"],
    "b": [1e9, None, "1_0", 3, False, -1e300, float("nan")],
    "colour": ["red", " red ", "blue", None, 3.0, "", "a,b"],
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_module_that_travels_with_a_model_answers_as_the_model_does(kind, tmp_path):
    model = KINDS[kind]()
    served = _load_pyfunc(str(model.save(tmp_path)))
    for rows in (COLUMNS, HOSTILE):
        assert list(served.predict(rows)) == list(model.predict(rows))
        for verb in ("predict_proba", "decision_function"):
            asked = {"predict_method": verb}
            if hasattr(model, verb):
                assert np.array_equal(served.predict(rows, asked), getattr(model, verb)(rows))
            else:
                with pytest.raises(ValueError, match=f"no {verb}"):
                    served.predict(rows, asked)
    with pytest.raises(ValueError, match="predict_method is one of"):
        served.predict(COLUMNS, {"predict_method": "save"})


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """The module that MLflow loads a model by, imported from the copies that travel with the model."""
    folder = tmp_path_factory.mktemp("code")
    _, loader = write_served_code(folder)
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(folder)
        yield import_module(loader)


def test_the_code_that_travels_is_short_and_needs_numpy_alone(tmp_path):
    package, loader = write_served_code(tmp_path)
    written = {path.relative_to(tmp_path).with_suffix("").as_posix().replace("/", "."): ast.parse(path.read_text())
               for path in package.rglob("*.py")}  # fmt: skip
    assert loader in written
    assert len(written) < 20
    imported = {name for tree in written.values() for node in tree.body
                for name in ([node.module] if isinstance(node, ast.ImportFrom) else
                             [one.name for one in node.names] if isinstance(node, ast.Import) else [])}  # fmt: skip
    assert {name for name in imported if name.startswith("dpbo")} <= {*written}
    assert {name.split(".")[0] for name in imported} - sys.stdlib_module_names == {"numpy", package.name}


AMBIGUOUS = [
    "05/06/2024",
    "31/12/2024",
    "May 6, 2024",
    "2024",
    "2024-05",
    "20240506",
    "45000",
    "2024-05-06",
    "NA",
    " ",
]
AMBIGUOUS += [
    "2024-05-06T00:00:00Z",
    "2024-05-06 10:11:12.5",
    "1,250",
    "1_0",
    "1E1",
    "inf",
    "-NaN",
    "null",
    "TRUE",
    "no",
]
ANY = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(AMBIGUOUS)
    | st.dates() | st.datetimes(timezones=st.none() | st.just(UTC)) | st.decimals() | st.binary(max_size=3)
)  # fmt: skip
ONE_EACH = st.fixed_dictionaries(dict.fromkeys(("a", "b", "colour"), ANY))


PUBLIC = {
    "number": [1.5, 2.0],
    "truth": [True, False],
    "text": ["x", "y"],
    "time": pd.to_datetime(["2024-01-01", "2024-06-01"]),
    "zone": pd.to_datetime(["2024-01-01", "2024-06-01"], utc=True),
    "category": pd.Categorical(["u", "v"]),
}


def read_in_memory(columns):
    return frame_of(pd.DataFrame(columns), [0, 1], display_name="the table").table_with_cells(
        target_name="y", source="the table"
    )


def read_from_csv(columns, folder):
    pd.DataFrame(columns).assign(y=[0, 1]).to_csv(folder / "rows.csv", index=False)
    return read_table(folder / "rows.csv", mode=SENSITIVE_FILE.with_cells(), display_name="the table")


@settings(max_examples=at_length(60), deadline=None)
@given(rows=st.lists(ONE_EACH, min_size=1, max_size=4))
@pytest.mark.parametrize("kind", ["linear", "forest"])
def test_a_served_record_is_encoded_as_a_scored_one_to_the_last_bit(copied, kind, rows):
    fitted = KINDS[kind]().preprocessing
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    scored = fitted.transform(table_of(columns | {"y": ["no"] * len(rows)}))
    frame = pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})
    served = copied.model_rows(copied.preprocessing_of(document_of(fitted)), frame)
    assert served.tobytes() == scored.X.tobytes()


def check_served_as_scored(copied, fitted, frame, read, kind):
    """The same data frame where scoring reads every value, else a refusal in the words of a public table."""
    scored, encoder = fitted.transform(read), copied.preprocessing_of(document_of(fitted))
    if not scored.broken.any():
        pd.testing.assert_frame_equal(copied.model_rows(encoder, frame), data_frame(fitted.columns, scored.X))
        return
    with pytest.raises(ValueError, match="what a") as served:
        copied.model_rows(encoder, frame)
    column = next(one for one in fitted.columns if one.name == kind)
    with pytest.raises(StudyInvalid) as public:
        refuse_unreadable(column, [column.cell(cell) for cell in read.cells_of(kind)], replace(read, csv=False))
    assert str(served.value) == str(public.value)


@settings(max_examples=at_length(120), deadline=None)
@given(value=ANY, kind=st.sampled_from([*PUBLIC]))
@example(value="05/06/2024", kind="time")
@example(value="NA", kind="text")
def test_a_value_that_scoring_does_not_read_in_memory_is_refused_when_served(copied, value, kind):
    hints = frame_of(pd.DataFrame(PUBLIC), [0, 1], display_name="X").hints()
    fitted = Preprocessing.named(read_in_memory(PUBLIC), "y", hints=hints)
    frame = pd.DataFrame(PUBLIC | {kind: pd.Series([PUBLIC[kind][0], value], dtype=object)})
    check_served_as_scored(copied, fitted, frame, read_in_memory(frame), kind)


LINE = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"]), max_size=8).filter(
    lambda text: not set(text) & {'"', ","}
)


@settings(max_examples=at_length(120), deadline=None)
@given(
    value=LINE | st.sampled_from(AMBIGUOUS).filter(lambda text: "," not in text), kind=st.sampled_from([*PUBLIC])
)
@example(value="05/06/2024", kind="time")
@example(value="", kind="time")
def test_a_text_is_served_as_it_is_scored_in_a_csv_file(copied, tmp_path_factory, value, kind):
    folder = tmp_path_factory.getbasetemp()
    texts = {name: [str(one) for one in values] for name, values in PUBLIC.items()}
    fitted = Preprocessing.named(read_from_csv(texts, folder), "y")
    frame = pd.DataFrame(texts | {kind: [texts[kind][0], value]}, dtype=object)
    check_served_as_scored(copied, fitted, frame, read_from_csv(frame, folder), kind)


def document_of(fitted):
    """A preprocessing as `model.json` holds it."""
    return json.loads(json.dumps(asdict(fitted) | {"ignored": []}))


def test_the_example_is_made_up_from_public_means_and_categories():
    model, known = estimator_model(GaussianNB()), [value for value in COLUMNS["b"] if value == value]
    assert model.example()["colour"] == ["a,b", "red"]
    assert model.example()["a"] == pytest.approx([np.mean(FIRST), np.mean(FIRST) + np.std(FIRST)])
    assert model.example()["b"] == pytest.approx([np.mean(known), np.mean(known) + np.std(known)])
    assert not set(model.example()["a"]) & set(COLUMNS["a"])
    assert set(model.predict(model.example())) <= {"yes", "no"}


WITHOUT = """
import sys
class Closed:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("dpbo", "dpbo_core", "dpbo_flows"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Closed())
import json, mlflow, pandas as pd
for folder in sys.argv[2:]:
    model = mlflow.pyfunc.load_model(folder)
    rows = pd.DataFrame(json.load(open(sys.argv[1]))).astype(model.input_example.dtypes)
    assert model.metadata.get_input_schema().input_names() == list(rows)
    probabilities = model.predict(rows, params={"predict_method": "predict_proba"})
    print(json.dumps([list(model.predict(rows)), probabilities.values.tolist()]))
assert not any(name.split(".")[0] in ("dpbo", "dpbo_core") for name in sys.modules)
"""


def predicted_without_dpbo(models, folders, tmp_path, **tolerance):
    """Models predict the same from the folders that MLflow shows of them, in a process without dpbo."""
    for path in (path for folder in folders for path in folder.rglob("*")):
        assert path.suffix not in (".pkl", ".pickle", ".joblib")
    rows = {"a": [1, -1], "b": [10**9, 10**9], "colour": ["red", "grün"]}
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    out = subprocess.run(
        [sys.executable, "-c", WITHOUT, tmp_path / "rows.json", *folders],
        capture_output=True, text=True, check=True, cwd=tmp_path,
    ).stdout  # fmt: skip
    for line, model in zip(out.splitlines(), models, strict=True):
        classes, probabilities = json.loads(line)
        assert classes == list(model.predict(rows))
        assert np.allclose(probabilities, model.predict_proba(rows), **tolerance)


def test_a_column_of_true_and_false_is_served_as_a_csv_file_has_it(tmp_path):
    """As text, so that MLflow makes no False of a gap; the features and the fingerprint are those of 1 and 0."""
    from dpbo.tasks.reporting.logged_model import _column_type

    path = tmp_path / "train.csv"
    path.write_text("smoker,old,age,y\nTrue,1,51,yes\nfalse,0,52,no\nTRUE,1,53,yes\nfalse,0,54,no\n")
    table = read_table(path, mode=PUBLIC_FILE, display_name="train.csv")
    numbers = table_of(table.columns)
    one, other = (Preprocessing.fit(each, "y", unit_ball=False) for each in (table, numbers))
    types = {column.name: _column_type(column) for column in one.features}
    assert types == {"smoker": "string", "old": "double", "age": "double"}
    assert np.array_equal(one.transform(table).X, other.transform(numbers).X)
    assert fingerprint(table) == fingerprint(numbers)
    assert not read_table(path, mode=SENSITIVE_FILE, display_name="train.csv").cells


def test_mlflows_own_function_is_back_after_a_failure_and_after_two_at_once():
    import threading

    from mlflow.utils import environment

    from dpbo.tasks.reporting.logged_model import WARNING_FUNCTION, _requirements_not_compared

    own, first_is_out, second_is_in = getattr(environment, WARNING_FUNCTION), threading.Event(), threading.Event()

    def second():
        with _requirements_not_compared():
            second_is_in.set()
            first_is_out.wait(10)

    other = threading.Thread(target=second)
    with suppress(ZeroDivisionError), _requirements_not_compared():
        other.start()
        assert not second_is_in.wait(0.2)
        1 / 0  # noqa: B018
    first_is_out.set()
    other.join()
    assert second_is_in.is_set()
    assert getattr(environment, WARNING_FUNCTION) is own


@pytest.mark.slow  # a process that loads MLflow; test_dashboard predicts with the same model in this one
def test_what_mlflow_shows_loads_without_dpbo_and_has_a_signature(tmp_path, monkeypatch):
    from dpbo.tasks.reporting.logged_model import save_served

    looks = "mlflow.utils.requirements_utils._init_packages_to_modules_map"  # at every file that is installed
    models = [KINDS["linear"](), KINDS["forest"]()]
    folders = []
    for i, model in enumerate(models):
        folders.append(tmp_path / f"shown{i}")
        with monkeypatch.context() as watched:
            watched.setattr(looks, lambda: pytest.fail("installed packages were looked through"))
            save_served(model, model.save(tmp_path / f"data{i}"), folders[-1])
        assert "dpbo" not in (folders[-1] / "requirements.txt").read_text()
        assert json.loads((folders[-1] / "input_example.json").read_text())["columns"] == ["a", "b", "colour"]
    predicted_without_dpbo(models, folders, tmp_path, atol=1e-9)


def test_mlflows_scoring_server_takes_a_csv_file_and_refuses_a_word_in_a_column_of_numbers(tmp_path):
    """In this process, of a model whose `b` may be missing: what is typed, answered, named and refused."""
    import mlflow.pyfunc
    import pandas as pd
    from mlflow.pyfunc import scoring_server
    from starlette.testclient import TestClient

    from dpbo.tasks.reporting.logged_model import save_served

    model = KINDS["forest"]()
    save_served(model, model.save(tmp_path / "data"), tmp_path / "shown")
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "shown"))
    schema, (label,) = loaded.metadata.get_input_schema(), loaded.metadata.get_output_schema().inputs
    assert [(one.name, one.type.name) for one in schema.inputs if one.required] == [
        ("a", "double"), ("b", "double"), ("colour", "string")
    ]  # fmt: skip
    assert (label.name, label.type.name) == ("y", "string")
    client = TestClient(scoring_server.init(loaded))

    def post(table):
        text = table.to_csv(index=False)
        sent = client.post("/invocations", content=text, headers={"content-type": "text/csv"})
        return sent.status_code, sent.json()

    def asked(rows):
        return client.post(
            "/invocations", json={"dataframe_records": rows, "params": {"predict_method": "predict_proba"}}
        )

    rows = pd.DataFrame({"b": [10**9, None], "a": [1, -1], "colour": ["red", "grün"]})
    assert post(rows) == (200, {"predictions": list(model.predict(rows))})
    status, answer = post(rows.rename(columns={"b": "B"}))
    assert (status, "missing inputs ['b']" in answer["message"]) == (400, True)
    assert list(loaded.predict(rows.astype(loaded.input_example.dtypes))) == list(model.predict(rows))
    answers = asked(ROWS[:3]).json()["predictions"]
    assert [*answers[0]] == ["no", "yes"]
    assert np.allclose([[*one.values()] for one in answers], model.predict_proba(ROWS[:3]), atol=1e-9)
    assert post(rows.astype(object).replace(-1, "seventy"))[0] == 400
    refused = asked([ROWS[0], ROWS[1] | {"a": "seventy"}])
    assert refused.status_code == 400
    assert "column a to" in refused.json()["message"]
