"""`PrivateSearch` beside scikit-learn's own searches: settings, progress, one table split in two."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn import config_context
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from test_estimator import X, Y, fit, search, spent

from dpbo_core import Categorical, PrivacyLedger
from dpbo_core.data import fingerprint
from dpbo_core.data.frames import frame_of
from dpbo_core.data.named_columns import fit_columns
from dpbo_core.errors import StudyInvalid
from dpbo_core.sklearn_api.split_by_position import halves, sequence, validated_on

# --- one table


def test_rows_are_chosen_by_position_alone_and_stay_on_their_side():
    assert sequence(3).tolist() == [0.9837361178801614, 0.22616172080669703, 0.7065107018869536]  # for ever
    chosen = validated_on(1000, 0.3)
    assert 250 < chosen.sum() < 350
    assert (validated_on(1500, 0.3)[:1000] == chosen).all()  # rows at the end move no other
    assert validated_on(1000, 0.4)[chosen].all()  # a larger share keeps those of a smaller one
    for share in (0, 1.0, 30, True, "0.3", float("nan")):
        with pytest.raises(StudyInvalid, match="validation_size"):
            validated_on(1000, share)
    with pytest.raises(StudyInvalid, match="one half empty"):
        validated_on(2, 0.1)


@pytest.mark.parametrize(
    "of",
    [
        *(lambda t: t, lambda t: t.to_numpy(), pl.from_pandas),
        lambda t: pa.Table.from_pandas(t, preserve_index=False),
    ],
    ids=["pandas", "numpy", "polars", "arrow"],
)
def test_one_table_is_split_as_if_two_had_been_given(url, of):
    found = search(url).fit(of(X), Y, validation_size=0.5)
    assert set(found.predict(of(X))) <= set(found.classes_)
    assert hasattr(found, "feature_names_in_") == (not isinstance(of(X), np.ndarray))
    chosen = validated_on(len(X), 0.5)
    assert found.validation_rows_.tolist() == np.flatnonzero(chosen).tolist()
    with pytest.warns(UserWarning, match="nothing was drawn or spent this time"):  # the same study, in two tables
        two = search(url).fit(of(X[~chosen]), Y[~chosen], X_validation=of(X[chosen]), y_validation=Y[chosen])
    assert (two.release_, hasattr(two, "validation_rows_")) == (found.release_, False)


def test_what_a_sensitive_row_holds_is_not_in_the_types_of_the_public_half(url):
    """A category of its own stood in the released model's encoder, and a gap in its class made fit raise."""
    place = int(np.flatnonzero(validated_on(len(X), 0.5))[3])

    def labelled(kind, label):
        hostile = Y.astype(kind)
        hostile[place] = label
        return hostile

    table = X.assign(city="x", wards=np.arange(len(X)) % 3)
    table.loc[::3, "city"] = "y"
    other = table.astype({"wards": object})
    other.loc[place, "city"] = other.loc[place, "wards"] = "CANARY"
    for text in ("category", object):
        ours = halves(table.astype({"city": text}), Y.astype(object), 0.5)[:2]
        for label in (None, "CANARY", 7):
            theirs = halves(other.astype({"city": text}), labelled(object, label), 0.5)[:2]
            pd.testing.assert_frame_equal(ours[0], theirs[0])
            assert (ours[1].dtype, ours[1].tolist()) == (theirs[1].dtype, theirs[1].tolist())
    words = labelled(str, "CANARY")  # as a reader has them where one is a text
    assert halves(X, words, 0.5)[1].tolist() == halves(X, Y, 0.5)[1].tolist()
    for edition, one in enumerate((labelled(float, np.nan), labelled(object, None), labelled(object, "CANARY"))):
        assert search(url, edition=str(edition)).fit(X, one, validation_size=0.5).classes_.dtype == np.int64


DAYS = pd.date_range("2020-01-01", periods=len(X), freq="D")
RIGHT = {  # a column as its reader typed it where every row fits, and as texts where one did not
    "times": (DAYS, DAYS.strftime("%Y-%m-%d")),
    "times of a zone": (DAYS.tz_localize("UTC"), DAYS.strftime("%Y-%m-%dT00:00+00:00")),
    "numbers": (np.arange(len(X)) / 4, [str(i / 4) for i in range(len(X))]),
    "numbers of truths": (np.arange(len(X)) % 2 == 0, ["True", "False"] * (len(X) // 2)),
}


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_one_unreadable_cell_of_a_sensitive_row_changes_no_public_column(library):
    """A reader that infers a type from all rows gives texts where one is unreadable: dates became categories."""
    for kind, (typed, texts) in RIGHT.items():
        place = int(np.flatnonzero(validated_on(len(X), 0.5))[3])
        hostile = list(texts)
        hostile[place] = "2020-99-99"
        halved = []
        for values in (typed, hostile):
            frame = pd.DataFrame({"when": values, "age": np.arange(len(X)), "ward": ["a", "b"] * (len(X) // 2)})
            public = halves(frame if library == "pandas" else pl.from_pandas(frame), Y, 0.5)[0]
            read = frame_of(public, None, display_name="X")
            table = read.table_with_cells(target_name="y", source="X")
            halved.append(
                (fit_columns(table, "y", read.hints()), fingerprint(table), list(map(str, table.cells["when"])))
            )
        assert halved[0] == halved[1]
        assert halved[0][0][0].kind == kind.split()[0].removesuffix("s")


def test_one_table_is_refused_where_it_would_not_do(url):
    with pytest.raises(StudyInvalid, match="both a validation set and validation_size"):
        search(url).fit(X, Y, X_validation=X, validation_size=0.3)
    with pytest.raises(StudyInvalid, match="a person's rows would lie on both sides"):
        search(url, person="who").fit(X, Y, validation_size=0.3)
    with pytest.raises(StudyInvalid, match="X has 178 rows, y has 100"):
        search(url).fit(X, Y[:100], validation_size=0.3)
    with pytest.raises(StudyInvalid, match="which declares all other rows public"):
        cross_val_score(search(url), X, Y, error_score="raise")
    assert PrivacyLedger(url).accounts("wine") == ()


def test_the_report_of_one_table(url):
    found = search(url).fit(X, Y, validation_size=0.5)
    report = found.evaluate(X, Y, validation_size=0.5, epsilon=1.0)
    rows = found.validation_rows_
    same = found.evaluate(
        X.drop(index=rows), Y.drop(index=rows), X_validation=X.loc[rows], y_validation=Y[rows], epsilon=1.0
    )
    assert (same.replayed, same.release.release_id) == (True, report.release.release_id)


def test_a_report_mends_probabilities_and_threshold_at_no_price(url):
    rng = np.random.default_rng(5)

    def records(slope, intercept):
        z = pd.DataFrame({"z": rng.normal(size=2_000)})
        return z, (rng.random(2_000) < 1.0 / (1.0 + np.exp(-slope * z["z"] - intercept))).astype(int)

    (X, public), (z, shifted) = records(3.0, 0.0), records(1.0, -1.5)
    given = {"X_validation": z, "y_validation": shifted}
    found = search(url, inner=LogisticRegression(), scoring="log_loss", error_bound=3.0, budget=(5.0, 1e-5))
    found.fit(X, public, **given)
    plain, before = found.evaluate(X, public, **given, epsilon=2.0), spent(url)
    report = found.evaluate(X, public, **given, epsilon=2.0, repair=True, threshold="recall=0.95")
    assert (report.replayed, report.release, spent(url)) == (True, plain.release, before)
    assert (plain.repair, plain.repaired_model) == (None, None)
    own = found.predict_proba(z)[:, 1].mean()
    mended = report.repaired_model.predict_proba(z)[:, 1].mean()
    assert abs(mended - shifted.mean()) < 0.05 < abs(own - shifted.mean())
    flagged = report.repaired_model.predict(z) == 1
    assert flagged[shifted == 1].mean() > 0.9  # by its own threshold .81; the noise moves it by .01
    with pytest.raises(StudyInvalid, match="states a threshold, and repairs nothing"):
        found.evaluate(X, public, **given, epsilon=2.0, threshold="recall=0.8")


# --- settings


NOT_FOLLOWED = (
    ({"refit": "roc_auc"}, "one score is released"),
    ({"error_score": np.nan}, "a validation record that cannot be scored is never an error"),
    ({"n_jobs": 0}, "a number of processes"),
    ({"n_jobs": 1.5}, "a number of processes"),
    ({"random_state": np.random.RandomState(0)}, "a generator changes in use"),
    ({"verbose": -1}, "give 0 or 1"),
)


def test_settings_that_cannot_be_followed_are_messages(url):
    for setting, says in NOT_FOLLOWED:
        with pytest.raises(StudyInvalid, match=says):
            fit(search(url, **setting))
    assert PrivacyLedger(url).accounts("wine") == ()


def test_without_refit_nothing_is_trained_at_the_end(url):
    found = fit(search(url, refit=False))
    assert set(found.best_params_) == {"C"}
    assert not hasattr(found, "best_estimator_")
    for verb in ("predict", "predict_proba", "decision_function", "score"):
        assert not hasattr(found, verb)
        with pytest.raises(AttributeError, match="has no attribute"):
            getattr(found, verb)


@pytest.mark.slow
def test_public_work_by_two_processes_is_the_same_study(url):
    found = fit(search(url, n_jobs=2))
    assert not found.replayed_
    with pytest.warns(UserWarning, match="nothing was drawn"):
        assert fit(search(url)).release_ == found.release_
    with pytest.raises(StudyInvalid, match="C"):  # what a public training says in another process
        fit(search(url, n_jobs=2, inner=LogisticRegression(), space={"C": Categorical([-1.0, 1.0])}))


def test_a_seed_of_none_is_that_of_0(url):
    found = fit(search(url, random_state=None))
    with pytest.warns(UserWarning, match="nothing was drawn"):
        assert fit(search(url, random_state=np.int64(0))).release_ == found.release_


@pytest.mark.parametrize("notebook", [False, True])
def test_progress_says_public_facts_and_releases(url, capsys, monkeypatch, notebook):
    monkeypatch.setattr("dpbo_core.sklearn_api.search_run.can_overwrite", lambda: notebook)
    found = fit(search(url, method="private_trajectory", n_candidates=8, verbose=1))
    said = capsys.readouterr().err
    for step in found.trajectory_:
        assert f"step {step['step']} of 3, private score {step['score']:.4g}" in said
    assert said.startswith("\r" if notebook else "private_trajectory: training on the public rows\n")
    assert said.count("\n") == (1 if notebook else 6)
    fit(search(url, edition="2", dataset="quiet"))
    assert capsys.readouterr().err == ""


def test_progress_of_a_method_that_hides_its_trials_counts_none(url, capsys):
    fit(search(url, verbose=1))  # private_grid releases its choice alone
    assert "private score" not in capsys.readouterr().err


def test_scikit_learns_bar_counts_the_steps_and_another_callback_is_refused_by_name(url, monkeypatch):
    callback = pytest.importorskip("sklearn.callback", reason="scikit-learn before 1.9 has no callbacks")
    seen = []
    for hook in ("setup", "on_fit_task_begin", "on_fit_task_end", "teardown"):
        monkeypatch.setattr(
            callback.ProgressBar,
            hook,
            lambda self, estimator, context, hook=hook: seen.append((hook, context.task_name)),
        )
    watched = search(url, method="private_trajectory", n_candidates=8).set_callbacks(callback.ProgressBar())
    fit(watched)
    step = [("on_fit_task_begin", "step"), ("on_fit_task_end", "step")]
    first, last = (
        [("setup", "fit"), ("on_fit_task_begin", "fit")],
        [("on_fit_task_end", "fit"), ("teardown", "fit")],
    )
    assert seen == [*first, *step * 3, *last]
    with pytest.raises(StudyInvalid, match="no callback ScoringMonitor"):
        watched.set_callbacks(callback.ScoringMonitor(scoring="accuracy"))
    seen.clear()
    fit(watched.set_callbacks().set_params(edition="2"))
    assert seen == []


def test_values_that_a_study_can_only_name_are_given_back(url):
    space = {"class_weight": [None, "balanced"]}
    found = fit(search(url, space=space, method="private_trajectory"))
    assert {point["class_weight"] for point in found.cv_results_["params"]} <= {None, "balanced"}


# --- where scikit-learn asks for more


def test_set_output_reaches_the_transformers(url):
    inner = make_pipeline(StandardScaler(), LogisticRegression(max_iter=50, tol=10.0))
    found = search(url, inner=inner, space={"logisticregression__C": [0.1, 1.0]}).set_output(transform="pandas")
    best = fit(found).best_estimator_
    assert isinstance(best[-1][0].transform(np.zeros((1, 13))), pd.DataFrame)
    found.set_output(transform="default")
    assert isinstance(best[-1][0].transform(np.zeros((1, 13))), np.ndarray)
    assert search(url).set_output(transform="pandas") is not None  # nothing inside that hands anything on


def test_one_table_is_routed_through_a_pipeline(url):
    with config_context(enable_metadata_routing=True):
        inner = search(url).set_fit_request(validation_size=True)
        pipe = Pipeline([("scale", StandardScaler()), ("search", inner)]).fit(X, Y, validation_size=0.5)
    assert len(pipe[-1].validation_rows_) == validated_on(len(X), 0.5).sum()


# --- weights of public rows


WEIGHTS = np.where(np.arange(len(X)) % 5 == 0, 9.0, 0.5)


def trained(monkeypatch):
    """The weights and the numbers of rows of each training."""
    calls, fit_it = [], LogisticRegression.fit

    def fit_and_note(self, rows, y, sample_weight=None):
        calls.append((len(y), None if sample_weight is None else np.asarray(sample_weight).tolist()))
        return fit_it(self, rows, y, sample_weight)

    monkeypatch.setattr(LogisticRegression, "fit", fit_and_note)
    return calls


@pytest.mark.parametrize(("routed", "piped"), [(False, False), (True, True)])
def test_public_rows_count_by_their_weight_in_every_training(url, monkeypatch, routed, piped):
    calls = trained(monkeypatch)
    with config_context(enable_metadata_routing=routed):
        model = LogisticRegression()
        model = model.set_fit_request(sample_weight=True) if routed else model
        model, name = (make_pipeline(model), "logisticregression__C") if piped else (model, "C")
        mine = search(url, inner=model, space={name: Categorical([0.1, 1.0])}, accepts=("rowwise_predictions",))
        weighed = mine.fit(X, Y, validation_size=0.5, sample_weight=WEIGHTS)
        public = WEIGHTS[~validated_on(len(X), 0.5)].tolist()
        assert calls
        assert all(weights == public for _, weights in calls)
        last = weighed.best_estimator_[-1]
        last = last[-1] if piped else last
        rows = weighed.best_estimator_[0].transform(X[~validated_on(len(X), 0.5)])
        alone = LogisticRegression(C=last.C).fit(rows, Y[~validated_on(len(X), 0.5)], public)
        np.testing.assert_allclose(last.coef_, alone.coef_)
        again = search(url, inner=model, space={name: Categorical([0.1, 1.0])}, accepts=("rowwise_predictions",))
        assert not again.fit(X, Y, validation_size=0.5).replayed_  # other weights are another study
        report = weighed.evaluate(X, Y, validation_size=0.5, sample_weight=WEIGHTS, epsilon=0.5)
        assert report.release.guarantee.epsilon == 0.5


def test_a_weight_is_a_public_number_and_no_sensitive_rows_is_looked_at(url):
    chosen = validated_on(len(X), 0.5)
    hostile = [object() if sensitive else 1.0 for sensitive in chosen]
    assert search(url).fit(X, Y, validation_size=0.5, sample_weight=hostile).best_score_ is not None
    for wrong in ([1.0] * 3, [-1.0] * len(X), [float("nan")] * len(X), ["one"] * len(X)):
        with pytest.raises(StudyInvalid, match="weight"):
            search(url, edition="2").fit(X, Y, validation_size=0.5, sample_weight=wrong)
