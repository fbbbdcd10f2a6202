"""An estimator that is given the table's own columns: public types, total on every cell, a record's own affair."""

import datetime as dt
import io
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from worlds import at_length, mostly_slow, search_of

from dpbo_core import FinalModel, PrivacyLedger, Real, data, read_study, run_study
from dpbo_core.data import Preprocessing
from dpbo_core.data.frames import frame_of
from dpbo_core.data.header import PUBLIC_FILE, SENSITIVE_FILE
from dpbo_core.data.named_columns import data_frame
from dpbo_core.errors import AssumptionNotAccepted, PolicyRefused, StudyInvalid
from dpbo_core.models.estimator_allowlist.inspection import unlisted_part
from dpbo_core.models.estimators import fitted
from dpbo_core.models.final_model import dpbo_served_model
from dpbo_core.models.final_model.storage import _dumped
from dpbo_core.models.integer_sums import GRID
from dpbo_core.models.rowwise import check_rowwise
from dpbo_core.models.scores.accuracy import Correct
from dpbo_core.models.scores.brier import Brier
from dpbo_core.models.scoring.in_memory import exact_totals
from dpbo_core.study.preconditions import refuse_beside

N = 80
WARDS = ("north", "south", "east")


def table(n=N, seed=0):
    """Patients with every kind of column, gaps among them."""
    rng = np.random.default_rng(seed)
    age, ward = rng.integers(20, 90, n).astype(float), rng.choice(WARDS, n)
    found = pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.1, math.nan, age),
            "ward": ward,
            "note": [f"{' '.join(rng.choice(['pain', 'felt', 'well'], 3))} {i}" for i in range(n)],
            "seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n), "D"),
            "smoker": rng.random(n) < 0.3,
            "readmitted": (age / 90 + (ward == "east") * 0.4 + rng.normal(0, 0.2, n) > 0.75).astype(int),
        }
    )
    return found.assign(ward=found["ward"].where(rng.random(n) > 0.1))


def pipeline(*, unknown="ignore", words=None):
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    return make_pipeline(
        ColumnTransformer(
            [
                ("numbers", numbers, make_column_selector(dtype_include="number")),
                ("ward", OneHotEncoder(handle_unknown=unknown), ["ward"]),
                ("note", words or HashingVectorizer(n_features=16), "note"),
                ("seen", StandardScaler(), ["seen"]),
                ("smoker", "passthrough", ["smoker"]),
            ]
        ),
        LogisticRegression(),
    )


def public(frame=None):
    """The public table as it was read, its map and rows."""
    frame = table() if frame is None else frame
    given_ = frame_of(frame.drop(columns="readmitted"), frame["readmitted"], display_name="X")
    read = given_.table_with_cells(target_name="readmitted", source="X")
    made = Preprocessing.named(read, "readmitted", hints=given_.hints())
    return made, made.transform(read)


def model_of(estimator, made, encoded):
    return fitted(estimator, encoded.X, encoded.truth, display_name="it", columns=made.columns)


@pytest.fixture(scope="module")
def trained():
    made, encoded = public()
    return made, encoded, model_of(pipeline(), made, encoded)


def test_in_memory_and_in_files_the_estimator_gets_the_columns_with_their_types(tmp_path):
    frame, wanted = table(), {"age": "f", "ward": "O", "note": "O", "seen": "M", "smoker": "b"}
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    tables = [data.read_table(tmp_path / f"t.{kind}", mode=PUBLIC_FILE.with_cells(), display_name=f"t.{kind}")
              for kind in ("csv", "parquet")]  # fmt: skip
    for given_ in (frame, pl.from_pandas(frame)):
        features = (
            given_.drop("readmitted") if isinstance(given_, pl.DataFrame) else given_.drop(columns="readmitted")
        )
        read = frame_of(features, given_["readmitted"], display_name="X")
        tables.append(read.table_with_cells(target_name="readmitted", source="X"))
    for read in tables:
        made = Preprocessing.named(read, "readmitted")
        found = data_frame(made.columns, made.transform(read).X)
        assert {name: np.asarray(found[name]).dtype.kind for name in found} == wanted
        assert found["seen"].tolist() == frame["seen"].tolist()
        assert found["note"].tolist() == frame["note"].tolist()
        np.testing.assert_array_equal(found["age"], frame["age"])
        assert found["ward"].isna().tolist() == frame["ward"].isna().tolist()


def test_a_category_of_a_frame_stays_one_and_so_does_the_unit_and_the_zone_of_its_times():
    frame = table()
    frame["ward"] = pd.Categorical(frame["ward"].fillna("north"), categories=["south", "north", "east"])
    frame["seen"] = frame["seen"].dt.tz_localize("Europe/Berlin").astype("datetime64[ns, Europe/Berlin]")
    made, encoded = public(frame)
    found = data_frame(made.columns, encoded.X)
    assert found["ward"].dtype == frame["ward"].dtype
    assert (found["ward"] == frame["ward"]).all()
    assert found["seen"].dtype == frame["seen"].dtype
    assert (found["seen"] == frame["seen"]).all()


HOSTILE = [
    None, math.nan, math.inf, -math.inf, 1e300, -0.0, 10**400, 2**63, True, "", "north", "\0", "\ud800",
    "x" * 200_000, "9" * 400, "NaN", "2024-01-01", "2024-13-45", "0001-01-01T00:00:00Z", b"\xff", b"east", 1j,
    [1], {}, object(),
    dt.date(2024, 1, 1), dt.datetime(1, 1, 1),  # noqa: DTZ001
    dt.datetime(9999, 12, 31, tzinfo=dt.timezone(dt.timedelta(hours=-14))),
    dt.timedelta(1), np.datetime64("NaT"), np.datetime64(10**15, "Y"), np.datetime64("1500-01-01"), pd.NaT, pd.NA,
    pd.Timestamp("2024-02-02"), pd.Timestamp("2024-02-02", tz="UTC"), np.float32(3), np.int8(1), np.str_("south"),
]  # fmt: skip


class Mine(str):
    def __eq__(self, other):
        raise RuntimeError("a record speaks")

    __hash__ = None

    def encode(self, *_):
        raise RuntimeError("a record speaks")


class Dated(dt.datetime):
    @property
    def year(self):
        raise RuntimeError("a record speaks")


HOSTILE += [Mine("north"), Dated(2024, 1, 1)]


def sensitive(made, rows, labels):
    frame = pd.DataFrame({name: pd.Series([row[j] for row in rows], dtype=object)
                          for j, name in enumerate(["age", "ward", "note", "seen", "smoker"])})  # fmt: skip
    read = frame_of(frame, labels, display_name="X_validation").table_with_cells(
        target_name="readmitted", source="X_validation"
    )
    return made.transform(read)


COLUMNS = ("age", "ward", "note", "seen", "smoker")
WELL = [list(row) for row in table(12, seed=1)[list(COLUMNS)].astype(object).itertuples(index=False)]


@settings(max_examples=at_length(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    place=st.integers(0, 11),
    one=st.tuples(*[st.sampled_from(HOSTILE) for _ in COLUMNS]),
    other=st.tuples(*[st.sampled_from(HOSTILE) | st.text(max_size=8) | st.floats() for _ in COLUMNS]),
)
def test_neighbouring_tables_differ_in_the_one_records_score_alone(trained, recwarn, place, one, other):
    made, _, model = trained
    labels, found = [0, 1] * 6, []
    for record in (one, other):
        rows = [list(row) for row in WELL]
        rows[place] = list(record)
        encoded = sensitive(made, rows, labels)
        scores = np.where(
            ~encoded.broken & (encoded.labels >= 0), model.scores(encoded.X, encoded.truth, Brier()), 0
        )
        found.append(
            (
                scores,
                exact_totals([model], encoded, Brier())[0][0],
                model.scores_by_content(encoded.X, encoded.truth, Brier()),
            )
        )
    (before, sum_before, content_before), (after, sum_after, content_after) = found
    others = np.arange(12) != place
    np.testing.assert_array_equal(before[others], after[others])
    np.testing.assert_array_equal(content_before[others], content_after[others])
    assert abs(sum_before - sum_after) <= GRID
    assert ((before >= 0) & (before <= 1)).all()
    assert not len(recwarn)


@pytest.mark.parametrize("cell", range(len(HOSTILE)))
def test_a_cell_that_no_column_holds_costs_its_own_record_and_says_nothing(trained, cell, capfd, caplog):
    made, _, model = trained
    rows = [list(row) for row in WELL]
    rows[3] = [HOSTILE[cell]] * 5
    encoded = sensitive(made, rows, [0, 1] * 6)
    scores = model.scores(encoded.X, encoded.truth, Correct())
    assert scores.shape == (12,)
    assert not encoded.broken[[0, 1, 2, 4]].any()
    assert capfd.readouterr() == ("", "")
    assert not caplog.records


def test_a_file_with_hostile_lines_is_as_long_as_it_is(tmp_path, trained):
    _, _, model = trained
    frame = table()
    frame.to_csv(tmp_path / "t.csv", index=False)
    read = data.read_table(tmp_path / "t.csv", mode=PUBLIC_FILE.with_cells(), display_name="t.csv")
    made = Preprocessing.named(read, "readmitted")
    lines = (tmp_path / "t.csv").read_bytes().splitlines(keepends=True)
    hostile = [
        b"\xff\xfe\n",
        b"1,2\n",
        b'"\n',
        b"inf,north,\0,9999-99-99,maybe,1\n",
        b",,,,,\n",
        b"1e999,a,b,2024-01-01T00:00Z,true,0\n",
    ]
    (tmp_path / "v.csv").write_bytes(b"".join([*lines[:6], *hostile, *lines[6:9]]))
    found = made.transform(
        data.read_table(tmp_path / "v.csv", mode=SENSITIVE_FILE.with_cells(), display_name="v.csv")
    )
    assert found.n_records == 5 + len(hostile) + 3
    assert found.broken.tolist() == [False] * 5 + [True] * 4 + [True, True] + [False] * 3
    model = model_of(pipeline(), made, made.transform(read))
    alone = model.scores(found.X[:5], found.truth[:5], Brier())
    np.testing.assert_allclose(model.scores(found.X, found.truth, Brier())[:5], alone, rtol=1e-9)


def test_a_record_that_the_pipeline_refuses_scores_the_constant_and_no_other_notices():
    frame = table().assign(ward=lambda found: found["ward"].fillna("north"))
    made, encoded = public(frame)
    model = model_of(pipeline(unknown="error"), made, encoded)
    rows = [[row[0], "north", *row[2:]] for row in WELL]
    before = model.scores(*(lambda e: (e.X, e.truth))(sensitive(made, rows, [1] * 12)), Brier())
    rows[5][1] = "nowhere"
    after = model.scores(*(lambda e: (e.X, e.truth))(sensitive(made, rows, [1] * 12)), Brier())
    assert after[5] == 0.0
    assert (np.delete(before, 5) == np.delete(after, 5)).all()


WORDS = {
    "hash": HashingVectorizer(n_features=16),
    "characters": HashingVectorizer(n_features=16, analyzer="char_wb", binary=True, norm="l1"),
    "counts": CountVectorizer(ngram_range=(1, 2)),
    "tf-idf": TfidfVectorizer(stop_words="english", sublinear_tf=True),
    "weighted": make_pipeline(CountVectorizer(min_df=2), TfidfTransformer(smooth_idf=False)),
}


@pytest.mark.parametrize("name", mostly_slow(WORDS, "counts"))
def test_listed_transformers_of_texts_leave_the_other_records_alone(name):
    made, encoded = public()
    model = model_of(pipeline(words=WORDS[name]), made, encoded)
    assert unlisted_part(model.estimator) == ""
    rng, strange = np.random.default_rng(1), ["", "pain " * 500, "\0", "∀", "the", "9" * 400, math.nan, "zz zz"]
    for cells in pairwise(strange):
        X = encoded.X[rng.integers(0, N, 30)].copy()
        other, j = X.copy(), int(rng.integers(30))
        X[j, 2], other[j, 2] = cells
        truth = rng.integers(0, 2, 30)
        before, after = (model.scores(rows, truth, Brier()) for rows in (X, other))
        np.testing.assert_array_equal(np.delete(before, j), np.delete(after, j))


def whole_text(text):
    return [text]


@pytest.mark.parametrize(
    "own", [{"tokenizer": whole_text}, {"analyzer": whole_text}, {"preprocessor": str.lower}, {"input": "filename"}]
)
def test_somebodys_own_function_of_texts_asks_for_the_assumption(own):
    assert unlisted_part(make_pipeline(HashingVectorizer(**own), LogisticRegression())) != ""


class Centred(TransformerMixin, BaseEstimator):
    """Subtracts the mean of the BATCH."""

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        return X.fillna(0.0) - X.fillna(0.0).mean()


class Remembers(Centred):
    """The largest age it ever saw."""

    def transform(self, X):
        self.most_ = max(getattr(self, "most_", 0.0), float(X["age"].fillna(0.0).max()))
        return X.fillna(0.0) / (self.most_ or 1.0)


@pytest.mark.parametrize("kind", [Centred, Remembers])
def test_a_transformer_that_looks_at_other_rows_does_not_slip_in(kind, tmp_path):
    frame = table()
    made, encoded = public(frame)
    strange = make_pipeline(make_column_transformer((kind(), ["age"])), LogisticRegression())
    assert unlisted_part(strange) != ""
    with pytest.raises(StudyInvalid, match="depends on"):
        check_rowwise(model_of(strange, made, encoded), encoded.X, needs="predict_proba")
    search = search_of(f"sqlite:///{tmp_path}/l.db", strange, {"logisticregression__C": Real(0.1, 1.0)})
    X, y = frame.drop(columns="readmitted"), frame["readmitted"]
    with pytest.raises(AssumptionNotAccepted, match=f"rowwise_predictions.*{kind.__name__}"):
        search.fit(X, y, X_validation=X.copy(), y_validation=y.copy())


STUDY = """
[study]
name = "risk"
method = "private_grid"
[privacy]
dataset = "risk"
epsilon = 20.0
[budget]
epsilon = 100.0
[data]
training = "train.csv"
validation = "validation.{suffix}"
n_validation = 150
target = "readmitted"
[model]
estimator = "risk_model:pipeline"
score = "roc_auc"
{also}
[space]
logisticregression__C = {{ low = 1e-2, high = 1.0, log = true, points = 2 }}
"""
MODULE = """
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

columns = make_column_transformer(
    (make_pipeline(SimpleImputer(), StandardScaler()), make_column_selector(dtype_include="number")),
    (OneHotEncoder(handle_unknown="ignore"), ["ward"]),
    (HashingVectorizer(n_features=16), "note"),
    (StandardScaler(), ["seen"]),
    remainder="passthrough",
)
pipeline = make_pipeline(columns, LogisticRegression())
"""


def write_study(folder, *, module=MODULE, also="", suffix="csv"):
    table().to_csv(folder / "train.csv", index=False)
    sensitive_ = table(150, seed=3)
    sensitive_.to_csv(folder / "validation.csv", index=False)
    sensitive_.to_parquet(folder / "validation.parquet")
    (folder / "risk_model.py").write_text(module)
    (folder / "study.toml").write_text(STUDY.format(also=also, suffix=suffix))
    return read_study(folder / "study.toml")


@pytest.mark.parametrize("suffix", mostly_slow(["csv", "parquet"], "parquet"))
def test_a_study_file_names_a_pipeline_and_its_final_model_takes_dicts(tmp_path, suffix):
    study, ledger = write_study(tmp_path, suffix=suffix), PrivacyLedger(f"sqlite:///{tmp_path}/l.db")
    import mlflow
    from mlflow.pyfunc.scoring_server import parse_csv_input

    from dpbo.tasks.reporting.logged_model import save_served

    result = run_study(study, ledger=ledger, folder=tmp_path)
    assert result.release.guarantee.assumptions == ()
    assert run_study(study, ledger=ledger, folder=tmp_path).replayed
    model = FinalModel.of_release(study, tmp_path, result.release)
    rows = table(5, seed=4).drop(columns="readmitted")
    assert model.predict_proba(rows).shape == (5, 2)
    row = {"age": None, "ward": "nowhere", "note": "pain", "seen": "2024-02-03", "smoker": True}
    assert model.predict_proba(row).shape == (1, 2)
    with pytest.raises(StudyInvalid, match="'age' of the table holds at record 1"):
        model.predict(row | {"age": "old"})
    model.save(tmp_path / "kept")
    loaded, own = FinalModel.load(tmp_path / "kept"), dpbo_served_model._load_pyfunc(str(tmp_path / "kept"))
    for asked in (rows, pd.DataFrame(model.example()), pd.DataFrame([row])):
        wanted = model.predict_proba(asked)
        assert (loaded.predict_proba(asked) == wanted).all()
        probabilities = own.predict(asked, {"predict_method": "predict_proba"})
        assert [*probabilities] == ["0", "1"]
        assert (probabilities == wanted).all(axis=None)
    save_served(model, tmp_path / "kept", tmp_path / "shown")
    shown = mlflow.pyfunc.load_model(str(tmp_path / "shown"))
    text = io.StringIO(rows.to_csv(index=False))
    for asked in (rows, parse_csv_input(text, shown.metadata.get_input_schema())):
        assert list(shown.predict(asked.astype(shown.input_example.dtypes))) == list(model.predict(rows))
    columns = model.preprocessing.columns
    cells = [model.preprocessing.transform(_with_target(rows)).X, data_frame]
    np.testing.assert_array_equal(
        model.model.estimator.predict_proba(cells[1](columns, cells[0])), model.predict_proba(rows)
    )


def _with_target(rows):
    return frame_of(rows, [0] * len(rows), display_name="rows").table_with_cells(
        target_name="readmitted", source="rows"
    )


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("", "risk_model.py has no 'pipeline'"),
        ("import no_such_package", "cannot be imported.*no_such_package"),
        ("def pipeline(): pass", "no estimator but a function.*name the object itself"),
        ("from sklearn.linear_model import LogisticRegression as pipeline", "no estimator but a class"),
        ("from sklearn.preprocessing import StandardScaler; pipeline = StandardScaler()", "predicts nothing"),
        ("from sklearn.svm import SVC; pipeline = SVC()", "no parameter 'logisticregression__C'"),
        (
            "from sklearn.linear_model import *; from sklearn.pipeline import *; "
            "pipeline = make_pipeline(LogisticRegression())",
            "could not convert string to float.*ColumnTransformer",
        ),
    ],
)  # fmt: skip
def test_the_letters_say_what_to_do(tmp_path, module, said):
    study = write_study(tmp_path, module=module)
    with pytest.raises(StudyInvalid, match=said):
        run_study(study, ledger=PrivacyLedger(f"sqlite:///{tmp_path}/l.db"), folder=tmp_path)


def test_a_missing_file_is_said_and_others_may_not_name_code_that_lies_beside_the_study(tmp_path):
    study = write_study(tmp_path)
    with pytest.raises(PolicyRefused, match=r"in a file beside it.*installed package"):
        refuse_beside(study, tmp_path)
    (tmp_path / "risk_model.py").unlink()
    with pytest.raises(StudyInvalid, match=r"no file risk_model\.py beside the study"):
        run_study(study, ledger=PrivacyLedger(f"sqlite:///{tmp_path}/l.db"), folder=tmp_path)
    refuse_beside(study.replace(model=study.model.replace(estimator="sklearn.svm.SVC")), tmp_path)


def test_another_pipeline_is_another_study_and_a_comment_is_none(tmp_path):
    from dpbo_core.study.data_files import training_digest

    study = write_study(tmp_path)
    first = training_digest(study, tmp_path)
    Path(tmp_path / "risk_model.py").write_text(MODULE + "# a comment\n")
    assert training_digest(study, tmp_path) == first
    Path(tmp_path / "risk_model.py").write_text(MODULE.replace("n_features=16", "n_features=32"))
    assert training_digest(study, tmp_path) != first
    Path(tmp_path / "risk_model.py").write_text(MODULE)
    raw = (tmp_path / "train.csv").read_text()
    (tmp_path / "train.csv").write_text(raw.replace("2024-01", "2024-02"))  # only what cells say changed
    assert training_digest(study, tmp_path) != first


def test_a_class_takes_columns_where_the_study_says_so(tmp_path):
    frame = table().drop(columns=["note", "ward", "seen"])
    frame.to_csv(tmp_path / "train.csv", index=False)
    text = STUDY.format(also="columns = true", suffix="csv").split("[space]")[0]
    text = text.replace("risk_model:pipeline", "sklearn.ensemble.HistGradientBoostingClassifier")
    frame.to_csv(tmp_path / "validation.csv", index=False)
    text = text.replace("n_validation = 150", f"n_validation = {N}")
    (tmp_path / "study.toml").write_text(text + "[space]\nmax_iter = { values = [3, 5] }\n")
    study = read_study(tmp_path / "study.toml")
    release = run_study(study, ledger=PrivacyLedger(f"sqlite:///{tmp_path}/l.db"), folder=tmp_path).release
    model = FinalModel.of_release(study, tmp_path, release)
    assert isinstance(model.model.estimator, HistGradientBoostingClassifier)
    assert list(model.model.estimator.feature_names_in_) == ["age", "smoker"]


def test_a_category_that_boosting_encodes_itself_is_not_written_and_a_way_is_named():
    X = pd.DataFrame({"ward": pd.Categorical(["north", "south"] * 20), "age": np.arange(40.0)})
    y = np.arange(40) // 20
    boosting = HistGradientBoostingClassifier(max_iter=2)
    with pytest.raises(StudyInvalid, match=r"functools\.partial.*from_dtype.*categorical_features=None"):
        _dumped(boosting.fit(X, y))
    columns = make_column_transformer((OrdinalEncoder(), ["ward"]), remainder="passthrough")
    named = make_pipeline(columns, HistGradientBoostingClassifier(max_iter=2, categorical_features=None))
    assert len(_dumped(named.fit(X, y))) > 0


def test_a_category_that_no_public_row_holds_is_not_known():
    """A data frame that was split keeps in its type what its other rows held."""
    city = pd.Categorical(["a", "b", "a", "b", "CANARY", "c"], categories=["c", "b", "a", "CANARY"])
    whole = pd.DataFrame({"city": city, "age": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]})
    public = frame_of(whole[:4], [0, 1, 0, 1], display_name="X")
    fitted = Preprocessing.named(
        public.table_with_cells(target_name="y", source="X"), "y", regression=False, hints=public.hints()
    )
    assert fitted.columns[0].values == ("b", "a")
    assert "CANARY" not in repr(fitted)


def test_a_pipeline_whose_transformers_hand_on_polars_takes_either_kind_of_frame(tmp_path):
    rng = np.random.default_rng(0)
    whole = pd.DataFrame({"age": rng.normal(50.0, 10.0, 200), "ward": rng.choice(["a", "b"], 200)})
    y = (whole["age"] > 50.0).astype(int).to_numpy()
    columns = make_column_transformer(
        (StandardScaler(), ["age"]), (OneHotEncoder(sparse_output=False, handle_unknown="ignore"), ["ward"])
    )
    model = make_pipeline(columns, LogisticRegression()).set_output(transform="polars")
    scores = []
    for kind, frame in (("pandas", whole), ("polars", pl.from_pandas(whole))):
        given_ = {"epsilon": 1000.0, "budget": (2000.0, 0.0)}
        search = search_of(
            f"sqlite:///{tmp_path}/{kind}.db", model, {"logisticregression__C": [0.1, 10.0]}, **given_
        )
        search.fit(frame[:100], y[:100], X_validation=frame[100:], y_validation=y[100:])
        assert search.guarantee_.assumptions == ()
        assert isinstance(search.best_estimator_[-1][0].transform(whole[:2]), pl.DataFrame)
        scores.append(search.best_score_)
    assert scores[0] == pytest.approx(scores[1], abs=0.01)
    assert scores[0] > 0.9
