"""What a viewer finds in MLflow: numbers, pictures, certificate, model; and that it survives a move."""

import ast
import copy
import json
import math
import re
import shutil
import sqlite3
from dataclasses import replace
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from conftest import STUDY
from markdown_it import MarkdownIt
from of_features import installed
from test_evaluation import in_an_interval
from worlds import Memory, mostly_slow, problem, smooth_table, with_method

from dpbo.tasks.reporting.certificate_words import guess
from dpbo.tasks.reporting.logged_numbers import score_rows
from dpbo.tasks.reporting.mlflow_run import find_release, log_release
from dpbo.tasks.reporting.mlflow_store import NOTE_TAG, newest_page, open_store
from dpbo.tasks.reporting.pictures import slice_through_choice
from dpbo.tasks.reporting.release_document import next_step, verdict
from dpbo.tasks.reporting.release_page import page
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.mechanisms.noise import Noise, OperatingSystemNoise
from dpbo_core.methods import METHODS
from dpbo_core.methods.private_trajectory import PrivateTrajectory
from dpbo_core.privacy.guarantee import NeighboringRelation, PrivacyUnit
from dpbo_core.privacy.release import displayed_metric
from dpbo_core.study import StudySpec
from dpbo_core.study.data_files import training_digest
from dpbo_core.study.final_training import FinalModel
from dpbo_core.study.tuning import run_study

LEFT = ("budget/spent", "budget/left")
SCORES = ("sigmoid", "score/low", "score/high", "score/constant")  # by edition, in the metric's own unit
CHARTED = {  # where the metric is the score itself; in every method a name means the same
    *(*SCORES, *LEFT, "steps/noised"),
}


def showing(folder, tables):
    """Run a study and show it in the folder's MLflow: (client, run, release)."""
    from mlflow.tracking import MlflowClient

    ledger = PrivacyLedger(f"sqlite:///{folder / 'mlruns' / 'ledger.db'}")
    uri = f"sqlite:///{folder / 'mlruns' / 'mlflow.db'}"

    def show(edition="1", method="private_trajectory", registered=False, **more):
        with_method(tables, method)["study"]["edition"] = edition
        for where, value in more.items():
            tables.setdefault(where, {}).update(value)
        spec = StudySpec.from_dict(tables)
        release = run_study(spec, ledger=ledger).release
        (account,) = ledger.accounts("people")
        model = FinalModel.of_release(spec, ".", release)
        tracked = log_release(release, account, uri, model=model, registered=registered)
        assert find_release(release, uri) == tracked
        assert bool(tracked.model_uri) == bool(registered and model)
        client = MlflowClient(tracking_uri=uri, registry_uri=uri)
        return client, client.get_run(tracked.run_id), release

    return show


@pytest.fixture
def shown(here, tables):
    return showing(here, tables)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A folder of two editions of the plain study, a trajectory and a grid, the second shown twice."""
    folder, tables = tmp_path_factory.mktemp("shown"), copy.deepcopy(STUDY)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        show = showing(folder, tables)
        shown = [show(), *(show("2", "private_grid", registered=True) for _ in range(2))]
    return folder, shown[:2]


@pytest.fixture
def two(here, monkeypatch, store):
    """The two editions, each as (client, run, release), from their folder; nothing is changed there."""
    monkeypatch.chdir(store[0])
    return store[1]


@pytest.fixture(scope="module")
def released(store):
    """A release of the plain study, for tests of what is made of one."""
    return store[1][0][2]


def test_every_number_is_the_releases_own(two):
    (client, run, release), (_, second, _) = two
    metrics = run.data.metrics
    assert run.data.params["lambda"] == f"{release.value['hyperparameters']['lambda']:.4g}"
    assert len(run.data.params) <= 12
    assert not [text for text in run.data.params.values() if text.count(" ") > 2]
    assert (run.data.params["epsilon"], run.data.params["delta"]) == ("1", "1e-06")
    assert metrics["budget/spent"] + metrics["budget/left"] == pytest.approx(3.0)
    assert second.data.metrics["budget/spent"] > metrics["budget/spent"]
    places = [client.get_metric_history(r.info.run_id, "budget/spent")[0].step for r in (run, second)]
    assert places == [0, 0]  # a bar; a line of one dot at any other step
    metric = displayed_metric(release)
    assert metric.value == min(max(release.value["score"], 0.0), 1.0)
    assert metrics[metric.name] == float(f"{metric.value:.4g}")  # MLflow's lists show every digit
    assert set(metrics) == CHARTED
    tags = client.get_experiment(run.info.experiment_id).tags
    assert tags["mlflow.experimentKind"] == "custom_model_development"
    columns = json.loads(tags["mlflow.sharedViewState.dpbo"])["selectedColumns"]
    assert {"metrics.`sigmoid`", "metrics.`budget/left`", "params.`epsilon`", "params.`lambda`"} <= {*columns}
    history = client.get_metric_history(run.info.run_id, "steps/noised")
    drawn = [float(f"{point['score']:.4g}") for point in release.value["trajectory"]]
    assert [(one.step, one.value) for one in history] == list(enumerate(drawn, start=1))
    note = client.get_experiment(run.info.experiment_id).tags["mlflow.note.content"]
    assert "differentially private" in note
    assert all(f"`{name.partition('/')[0]}" in note for name in set(metrics) - {metric.name})


def test_the_posterior_in_the_picture_is_the_methods_own():
    """Against the state of the search that made the release, at every candidate. The released score and the width
    of its interval stand at the choice, and the rest follows as of normal variables."""
    world = problem(steps=8, n_validation=400, lengthscale="fit")
    method = PrivateTrajectory()
    search, noise = method.start(world, method.plan(world)), Noise(OperatingSystemNoise(), Memory())
    table = smooth_table(world, best=5)
    everywhere = np.arange(len(world.candidates))

    def moments():
        found = search._bo.mixture()
        means, deviations = search._bo.domain.moments(found, everywhere)
        mean = found.weights @ means
        deviation = np.sqrt(found.weights @ deviations**2 + found.weights @ (means - mean) ** 2)
        return search._map.unmapped(mean), 1.6448536269514722 * search._map.scale * deviation

    for _ in range(8):
        search.step(table, noise)
    release = search.finish(noise)
    cut, (mean, half_width) = slice_through_choice(release), moments()
    lambdas = [point["lambda"] for point in world.candidates.points]
    place = lambdas.index(release.value["hyperparameters"]["lambda"])
    _, whole = search._bo.mixture().joint(world.candidates.encoded, np.zeros(len(lambdas)))
    variance, covariance = np.diagonal(whole), whole[:, place]
    assert np.allclose(np.sqrt(variance) * 1.6448536269514722 * search._map.scale, half_width, atol=1e-9)
    gain, (low, high) = covariance / variance[place], release.value["interval"]
    middle = mean + gain * (release.value["score"] - mean[place])
    width = np.sqrt(
        half_width**2 * (1 - covariance**2 / variance / variance[place]) + (gain * (high - low) / 2) ** 2
    )
    drawn = [np.interp(np.log(lambdas), np.log(cut.grid), line) for line in (cut.mean, cut.half_width)]
    assert np.allclose(drawn, [middle, width], atol=2e-3)
    assert drawn[0][place] == pytest.approx(release.value["score"], abs=2e-3)
    assert drawn[1][place] == pytest.approx((high - low) / 2, abs=2e-3)


def test_a_run_opens_with_the_certificate_in_short(shown):
    """What came out, how sure, what of a person, what is left, how the model is used; nobody's markup."""
    name = "a|b <b>c</b> [d](http://e)"
    _, run, release = shown(study={"name": name})
    note = MarkdownIt("gfm-like", {"linkify": False, "html": True}).render(run.data.tags[NOTE_TAG])
    text = unescape(re.sub(r"<[^>]*>", "", note))
    metric, (word, numbers) = displayed_metric(release), verdict(release)
    low, high = metric.interval
    chosen = release.value["hyperparameters"]["lambda"]
    for told in (f"{chosen:.4g}", f"{metric.value:.4f}", word):
        assert f"<strong>{told}</strong>" in note
    assert in_an_interval((low, high)) in text
    assert f"{word}{numbers}" in text
    assert text.index(word) < text.index(f"{metric.value:.4f}")
    assert f"Next: {next_step(release)}." in text
    assert f"{release.guarantee.in_words()} {guess(release)}" in text
    spent = f"ε {run.data.metrics['budget/spent']:.4g} of 3 spent"
    assert f"{spent}, " in text
    assert "all draws together cost less than the ε stated (1 so far), at the cap's δ = 1e-05" in text
    assert f'load_model("runs:/{run.info.run_id}/model")' in text
    assert f'href="get-artifact?path=release.html&amp;run_uuid={run.info.run_id}"' in note
    assert f'src="get-artifact?path=plots%2Ftrajectory.png&amp;run_uuid={run.info.run_id}"' in note
    assert set(re.findall(r"<(\w+)", note)) == {"strong", "p", "pre", "code", "a", "img", "ul", "li"}


def test_runs_are_found_by_guarantee_study_edition_and_method_and_stand_below_their_study(two, monkeypatch):
    """docs/how_to/read_a_release.md's own searches; the study's own run has a point an edition in its charts."""
    import mlflow

    (client, first, _), (_, second, _) = two
    landing = f"#/experiments/{second.info.experiment_id}/runs/{second.info.run_id}?"
    assert newest_page(open_store(client.tracking_uri)).startswith(landing)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", client.tracking_uri)
    page = (Path(__file__).parents[2] / "docs" / "how_to" / "read_a_release.md").read_text()
    (block,) = re.findall(r"```python\nimport mlflow\n(.*?)```", page, re.DOTALL)
    searches = [ast.unparse(line.value) for line in ast.parse(block).body]
    found = [set(eval(words, {"mlflow": mlflow}).run_id) for words in searches]
    assert found == [{first.info.run_id, second.info.run_id}, {second.info.run_id}, {first.info.run_id}]
    (series,) = client.search_runs([first.info.experiment_id], "tags.`dpbo.kind` = 'study'")
    assert {run.data.tags["mlflow.parentRunId"] for run in (first, second)} == {series.info.run_id}
    assert (series.info.run_name, series.info.status) == ("study trial", "FINISHED")
    assert set(series.data.metrics) == {*LEFT, *SCORES}
    for name in SCORES:
        points = client.get_metric_history(series.info.run_id, name)
        each = [run.data.metrics[name] for run in (first, second)]
        assert [(point.step, point.value) for point in sorted(points, key=lambda point: point.step)] == [
            *enumerate(each, 1)
        ]
    table = json.loads(Path(client.download_artifacts(series.info.run_id, "editions.json")).read_text())
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
    assert [row["edition"] for row in rows] == ["1", "2"]
    for row, run in zip(rows, (first, second), strict=True):
        assert row["value"] == run.data.metrics["sigmoid"]
        assert (row["low"], row["high"]) == tuple(run.data.metrics[name] for name in ("score/low", "score/high"))
        assert row["epsilon"] == 1.0
    assert Path(client.download_artifacts(series.info.run_id, "plots/editions.png")).stat().st_size > 5000
    for name in LEFT:
        points = client.get_metric_history(series.info.run_id, name)
        assert [(p.step, p.value) for p in points] == [
            (1, first.data.metrics[name]),
            (2, second.data.metrics[name]),
        ]
    note = MarkdownIt("gfm-like", {"linkify": False}).render(series.data.tags[NOTE_TAG])
    assert "Every edition of the study trial" in note
    lows, highs = ([row[end] for row in rows] for end in ("low", "high"))
    told = "All intervals overlap" if max(lows) <= min(highs) else "Not all intervals overlap"
    assert f"2 editions; the newest has sigmoid {rows[1]['value']:.4f}" in note
    assert told in note
    assert f"path=plots%2Feditions.png&amp;run_uuid={series.info.run_id}" in note


def test_models_are_searched_by_a_released_score_and_the_public_data_is_an_input(two):
    """No digest of a sensitive record: the one there is follows from the public half alone."""
    ((client, run, release), _) = two
    score, experiment = run.data.metrics["sigmoid"], [run.info.experiment_id]
    found = client.search_logged_models(
        experiment, f"metrics.`sigmoid` >= {score - 1e-9} AND metrics.`sigmoid` <= {score + 1e-9}"
    )
    (found,) = (model for model in found if model.source_run_id == run.info.run_id)
    above = client.search_logged_models(experiment, f"metrics.`sigmoid` > {score + 1e-9}")
    assert found.model_id not in [model.model_id for model in above]
    named = {entry.dataset.name: entry for entry in run.inputs.dataset_inputs}
    digest = training_digest(StudySpec.from_dict(with_method(copy.deepcopy(STUDY), "private_trajectory")), ".")
    assert {name: entry.dataset.digest for name, entry in named.items()} == {
        "people": "private",
        "trial (public rows)": digest[:16],
    }
    assert [named[name].tags[0].value for name in ("people", "trial (public rows)")] == ["validation", "training"]
    measured = {(m.key, m.value, m.dataset_name, m.dataset_digest) for m in found.metrics}
    assert measured == {("sigmoid", score, "people", "private")}
    assert len(client.get_metric_history(run.info.run_id, "sigmoid")) == 1
    assert release.release_id == found.tags["dpbo.release_id"]


def test_a_chart_has_a_score_that_can_be(released):
    """A score of 6.94 in [0, 1] stood in the chart."""
    drawn = {**released.value, "score": 6.94, "interval": [5.9, 7.9]}
    drawn.pop("metric", None)
    beyond = replace(released, value=drawn)
    assert score_rows(beyond)[:1] == [("score", 1.0, 0)]
    inside = replace(released, value={**drawn, "score": 0.6})
    assert score_rows(inside)[:1] == [("score", 0.6, 0)]


def test_a_guess_is_right_as_often_as_the_guarantee_allows(released):
    """Randomised response reaches e^ε/(1+e^ε); with a δ that shows all, (e^ε + δ)/(1 + e^ε)."""
    assert "in at most 73.1 of 100 cases" in guess(released)
    pure = replace(released, guarantee=replace(released.guarantee, epsilon=math.log(3.0), delta=0.0))
    assert "in at most 75 of 100 cases" in guess(pure)
    both = replace(released, guarantee=replace(released.guarantee, epsilon=math.log(3.0), delta=0.2))
    assert "in at most 80 of 100 cases" in guess(both)
    assert guess(replace(released, guarantee=replace(released.guarantee, epsilon=math.inf))) == ""


def test_what_no_release_holds_is_not_drawn(here, tables):
    with_method(tables, "private_trajectory")["method"] |= {"prior": "public"}
    release = run_study(StudySpec.from_dict(tables), ledger=PrivacyLedger("sqlite:///ledger.db")).release
    assert release.facts["options"]["prior"] == "public"
    assert slice_through_choice(release) is None


@pytest.mark.parametrize("kind", mostly_slow(METHODS, *installed("private_grid", "dp_hypo")))
def test_artifacts_survive_moving_the_folder(shown, here, store, tmp_path_factory, monkeypatch, kind):
    of_two = kind == "private_grid"
    _, run, release = store[1][1] if of_two else shown(method=kind, registered=True)
    new = tmp_path_factory.mktemp("elsewhere") / "project"
    if of_two:
        shutil.copytree(store[0], here, dirs_exist_ok=True)
    new.mkdir()
    shutil.move(here / "mlruns", new / "mlruns")
    monkeypatch.chdir(new)
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{new / 'mlruns' / 'mlflow.db'}")
    names = {item.path for item in client.list_artifacts(run.info.run_id)}
    assert {"release.json", "release.html", "plots"} <= names
    assert set(run.data.metrics) <= CHARTED | {metric.name for metric in (displayed_metric(release),) if metric}
    assert ("model" in names) == ("hyperparameters" in release.value and "model" not in release.value)
    fetched = json.loads(Path(client.download_artifacts(run.info.run_id, "release.json")).read_text())
    assert fetched == release.to_json()
    pictures = {Path(item.path).stem for item in client.list_artifacts(run.info.run_id, "plots")}
    assert pictures >= {"noise", "budget"}
    assert ("posterior" in pictures) == ("trajectory" in release.value)
    with sqlite3.connect(new / "mlruns" / "mlflow.db") as base:
        places = base.execute(
            "SELECT artifact_location FROM experiments WHERE experiment_id != 0 UNION SELECT artifact_uri FROM runs"
        )
        assert all(place.startswith("mlruns/artifacts") for (place,) in places)
    if "model" in names:
        (version,) = client.search_model_versions("name = 'trial'")
        assert version.run_id == run.info.run_id
        assert (new / version.source / "MLmodel").exists()


def test_the_model_is_the_public_one_and_predicts(two):
    import mlflow
    import pandas as pd

    from dpbo_core.data import bundled

    _, (client, run, _) = two
    assert len(client.search_model_versions("name = 'trial'")) == 1  # shown twice
    model = mlflow.pyfunc.load_model(f"{run.info.artifact_uri}/model")
    table = bundled.load("breast_cancer", 0.5)[0]
    columns = {name: np.asarray(column) for name, column in table.columns.items()}
    predicted = model.predict(pd.DataFrame(columns))
    assert np.mean(predicted == columns["target"]) > 0.6
    assert set(np.unique(predicted)) <= set(np.unique(columns["target"]))


CHANGES = (  # whose data may change, how, and of how many records a person: what the certificate says
    ("validation_record", "replace_one", None, 3, "Replace the data of any one record of the validation set by any",
     "Whoever owns at most 3 records of the validation set is protected as stated"),
    ("person", "add_or_remove_one", "who", 2, "Take away the data of any one person in the validation set, or add",
     "Of each person, as column &#x27;who&#x27; tells them apart, at most 2 records count"),
    ("training_record", "replace_one", None, 1, "any one record of the training set or of the validation set",
     "at most 1 record of the training and validation sets together is protected"),
    ("candidate_row", "row_moves_by_one", None, 1, "Move any one row of the candidate table by a distance of",
     "Whoever owns at most 1 record of the validation set is protected as stated"),
)  # fmt: skip


@pytest.mark.parametrize(("unit", "relation", "person", "k", "change", "owner"), CHANGES)
def test_the_certificate_says_whose_data_may_change_and_of_k_only_what_is_so(
    released, unit, relation, person, k, change, owner
):
    """With a column surplus records exist and score a constant; without one, nothing checks who owns how many."""
    promised = {"unit": PrivacyUnit(unit), "relation": NeighboringRelation(relation), "person": person}
    facts = {**released.facts, "max_records_per_person": k}
    html = page(replace(released, guarantee=replace(released.guarantee, **promised), facts=facts), [])
    assert change in html
    assert owner in html
    assert ("Anything about the training set" in html) == (unit != "training_record")
    assert ("which nothing checks" in html) == (person is None)
    assert ("keeps its place and scores a constant" in html) == (person is not None)


def test_a_hostile_name_stays_text(released):
    html = page(replace(released, study="<script>alert(1)</script>", dataset="a&b"), [])
    assert "<script" not in html
    assert "a&amp;b" in html


def test_only_a_recorded_release_is_shown(released, here):
    with pytest.raises(ValueError, match="recorded"):
        log_release(replace(released, release_id=""), None, "sqlite:///unused.db")
