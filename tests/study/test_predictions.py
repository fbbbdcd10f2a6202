"""The door for predictions: candidates are columns of a table made elsewhere, and nothing is trained."""

import io
import json
import logging
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from dpbo_core import PrivateSelection, StudySpec
from dpbo_core.errors import AssumptionNotAccepted, DpboError, NoBudget, StudyInvalid
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.models.integer_sums import GRID
from dpbo_core.sklearn_api.private_selection import prediction_table
from dpbo_core.study.data_split import FileSplit
from dpbo_core.study.final_training import FinalModel, model_is_public
from dpbo_core.study.precomputed import PublicWork
from dpbo_core.study.query import QueryContext
from dpbo_core.study.resolve import advise_study, planning_problem, resolve
from dpbo_core.study.run import Run
from dpbo_core.study.tuning import run_study

ROOT = Path(__file__).parents[2]
M = 120
ACCEPTS = ("rowwise_predictions",)
COMMON = {"epsilon": 50.0, "dataset": "clinic", "labels": ("no", "yes"), "accepts": ACCEPTS}
STUDY = """
[study]
name = "readers"
method = "private_grid"
accepts = ["rowwise_predictions"]
[privacy]
dataset = "clinic"
epsilon = 50.0
[budget]
epsilon = 500.0
[data]
predictions = "predictions.csv"
n_validation = 120
target = "sick"
labels = ["no", "yes"]
ignore = ["id"]
[model]
estimator = "predictions"
score = "brier"
[space]
candidate = { values = ["small", "large"] }
"""


def predicted(m=M, seed=0):
    """Probabilities of two candidates, the second much better, and the truth."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, m)
    small = np.clip(0.5 + 0.05 * (2 * y - 1) + 0.3 * rng.normal(size=m), 0.0, 1.0)
    large = np.clip(0.5 + 0.3 * (2 * y - 1) + 0.1 * rng.normal(size=m), 0.0, 1.0)
    return pd.DataFrame({"small": small, "large": large}), np.where(y == 1, "yes", "no")


def written(folder, name="predictions.csv", seed=0, m=M):
    table, truth = predicted(m, seed)
    pd.DataFrame({"id": range(m), **table, "sick": truth}).to_csv(folder / name, index=False)
    return table, truth


def study(**changes):
    """The study above with other tables, by section."""
    tables = tomllib.loads(STUDY)
    for section, table in changes.items():
        tables[section] = table if section == "space" else tables.get(section, {}) | table
    tables["data"] = {key: value for key, value in tables["data"].items() if value is not None}
    return StudySpec.from_dict(tables)


def ledger(tmp_path):
    return PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}")


def totals(spec, folder):
    """The exact sum of every candidate, in units of the score."""
    split = FileSplit(spec, folder)
    public = split.public(planning_problem(spec))
    split.check(public)
    objective, problem = split.sensitive(public), public.problem
    sums = [objective.evaluate(problem.train(i)).expose() for i in range(len(problem.candidates))]
    return [total * problem.score_per_step for total in sums]


def search(**options):
    usual = COMMON | {"budget": (500.0, 0.0), "scoring": "brier", "method": "private_grid"}
    return PrivateSelection(["small", "large"], **(usual | options))


def test_a_study_of_predictions_releases_a_name_and_its_score_and_the_same_again(tmp_path):
    table, truth = written(tmp_path)
    spec, budget = study(), ledger(tmp_path)
    first = run_study(spec, ledger=budget, folder=tmp_path)
    exact = 1.0 - brier_score_loss(truth == "yes", table["large"])
    assert first.release.value["hyperparameters"] == {"candidate": "large"}
    assert first.release.value["score"] == pytest.approx(exact, abs=0.01)  # scale 1/(120 · 12.5)
    assert first.release.guarantee.assumptions == ACCEPTS
    assert "chosen_by_advice" not in first.release.facts
    again = run_study(spec, ledger=budget, folder=tmp_path)
    assert again.replayed
    assert again.release.to_json() == first.release.to_json()
    (account,) = budget.accounts("clinic")
    assert account.entries[0].epsilon == 50.0
    assert len(account.entries) == 1


@pytest.mark.parametrize(("score", "reference"), [
    ("brier", lambda truth, p: 1.0 - brier_score_loss(truth == "yes", p)),
    ("log_loss", lambda truth, p: np.log(100.0) - log_loss(truth == "yes", np.clip(p, 0.01, 0.99))),
])  # fmt: skip
def test_probabilities_score_what_scikit_learn_says(score, reference, tmp_path):
    table, truth = written(tmp_path)
    found = totals(study(model={"score": score}), tmp_path)
    assert found == pytest.approx(
        [reference(truth, table[name]) for name in ("small", "large")], abs=0.02 if score == "log_loss" else 1e-6
    )


def test_pairs_classes_and_numbers_score_what_they_should(tmp_path):
    table, truth = written(tmp_path)
    spec = study(model={"score": "roc_auc"})
    split = FileSplit(spec, tmp_path)
    public = split.public(planning_problem(spec))
    objective = split.sensitive(public)
    pairs = objective.pairs().expose()
    areas = [objective.evaluate(public.problem.train(i)).expose() / pairs for i in range(2)]
    assert areas == pytest.approx([roc_auc_score(truth == "yes", table[name]) for name in table], abs=1e-3)
    said = pd.DataFrame({name: np.where(table[name] > 0.5, "yes", "no") for name in table})
    pd.DataFrame({**said, "sick": truth}).to_csv(tmp_path / "predictions.csv", index=False)
    found = totals(study(model={"score": "accuracy"}), tmp_path)
    assert found == pytest.approx([(said[name] == truth).mean() for name in table])
    numbers = pd.DataFrame({"small": [1.0, 5.0], "large": [2.0, 2.5], "sick": [2.0, 2.0]})
    numbers.to_csv(tmp_path / "predictions.csv", index=False)
    error = {"score": "absolute_error", "error_bound": 2.0}
    assert totals(study(model=error, data={"labels": None, "n_validation": 2}), tmp_path) == pytest.approx(
        [2.0 - 1.5, 2.0 - 0.25]
    )


def test_more_classes_have_a_column_each(tmp_path):
    rows = {"a:x": [0.7, 0.2], "a:y": [0.2, 0.2], "a:z": [0.1, 0.6], "t": ["x", "z"]}
    pd.DataFrame(rows).to_csv(tmp_path / "predictions.csv", index=False)
    data = {"labels": ["x", "y", "z"], "n_validation": 2, "target": "t"}
    (found,) = totals(study(data=data, space={"candidate": {"values": ["a"]}}), tmp_path)
    assert found == pytest.approx(1.0 - 0.25 * (0.3**2 + 0.2**2 + 0.1**2 + 0.2**2 + 0.2**2 + 0.4**2))


HOSTILE = ["", "nan", "inf", "-inf", "1e400", "oops", "'; x", "9" * 400, "\x00", "ÿ", "0x1p3", "yes", "-0.5", "7"]


@pytest.mark.parametrize(
    "score", ["brier", "log_loss", "accuracy", "roc_auc", "balanced_accuracy", "absolute_error"]
)
def test_a_hostile_cell_costs_its_candidate_its_record_and_nobody_else(score, tmp_path):
    """Neighbours: one record replaced by anything. No sum moves by more than its own record, no size, no error."""
    table, truth = predicted(12)
    numbers = score == "absolute_error"
    model = {"score": score} | ({"error_bound": 1.0} if numbers else {})
    data = {"n_validation": 12} | ({"labels": None} if numbers else {})
    spec = study(model=model, data=data)
    truth = (truth == "yes").astype(float) if numbers else truth
    cells = np.where(table > 0.5, "yes", "no") if score in ("accuracy", "balanced_accuracy") else table.to_numpy()
    rows = [[*map(str, cells[i]), str(truth[i])] for i in range(12)]
    problem = planning_problem(spec)

    def sums(rows):
        text = "\n".join(["small,large,sick", *(",".join(f'"{cell}"' for cell in row) for row in rows)])
        (tmp_path / "predictions.csv").write_text(text + "\n")
        split = FileSplit(spec, tmp_path)
        public = split.public(problem)
        split.check(public)
        objective = split.sensitive(public)
        return [objective.evaluate(public.problem.train(i)).expose() for i in range(2)]

    before = sums(rows)
    for cell in HOSTILE:
        after = sums([[cell, *rows[0][1:]], *rows[1:]])
        assert after[1] == before[1], cell  # the other candidate's is untouched
        assert abs(after[0] - before[0]) <= problem.record_steps
        for whole in ([cell] * 3, [rows[0][0], rows[0][1], cell]):
            after = sums([whole, *rows[1:]])
            assert all(abs(a - b) <= problem.record_steps for a, b in zip(after, before, strict=True))
    if score in ("brier", "accuracy"):
        assert before[0] - sums([["oops", *rows[0][1:]], *rows[1:]])[0] in range(GRID + 1)


def test_the_columns_are_the_studys_and_others_are_refused_by_number_alone(tmp_path):
    table, truth = predicted()
    for columns, says in (
        ({"small": table["small"], "sick": truth}, "lacks 'large'"),
        ({**table, "sick": truth, "canary_7319": 1}, "has 1 columns that the study does not know"),
        ({"small": table["small"], "secretly": 1, "sick": truth}, "lacks 'large' and has 1 columns"),
    ):
        pd.DataFrame(columns).to_csv(tmp_path / "predictions.csv", index=False)
        with pytest.raises(StudyInvalid) as refused:
            run_study(study(), ledger=ledger(tmp_path), folder=tmp_path)
        assert says in refused.value.message()
        assert "canary" not in refused.value.message()
        assert "secretly" not in refused.value.message()
    pd.DataFrame({**table[:5], "sick": truth[:5]}).to_csv(tmp_path / "predictions.csv", index=False)
    with pytest.raises(StudyInvalid, match="holds 5 records, the study has n_validation = 120"):
        run_study(study(), ledger=ledger(tmp_path), folder=tmp_path)


NO_STUDY = (
    ({"model": {"estimator": "logistic", "score": "sigmoid"}}, "go together"),
    ({"data": {"predictions": None, "source": "breast_cancer"}}, "go together|labels"),
    ({"space": {"C": {"low": 0.1, "high": 1.0}}}, "names its candidates"),
    ({"space": {"candidate": {"values": ["a", "a"]}}}, "names its candidates"),
    ({"space": {"candidate": {"values": ["sick", "a"]}}}, "two columns of the predictions are one"),
    ({"data": {"labels": None}}, "labels"),
    ({"data": {"training": "train.csv"}}, "beside predictions"),
    ({"model": {"score": "absolute_error", "error_bound": 1.0}}, "is of numbers"),
    ({"model": {"score": "sigmoid"}}, "needs the margin"),
    ({"model": {"rowwise": "enforced"}}, "made elsewhere"),
    ({"model": {"params": {"a": 1}}}, "predictions have none"),
    ({"study": {"method": "public"}, "method": {}}, "no public predictions"),
    ({"method": {"base_measure": "public"}}, "no public predictions"),
    ({"data": {"public": "predictions.csv"}}, "is both"),
)  # fmt: skip


def test_what_makes_no_study_of_predictions_is_said(tmp_path):
    written(tmp_path)
    for changes, says in NO_STUDY:
        with pytest.raises(StudyInvalid, match=says):
            run_study(study(**changes), ledger=ledger(tmp_path), folder=tmp_path)
    assert not ledger(tmp_path).accounts()


def test_the_word_is_asked_for_by_name(tmp_path):
    written(tmp_path)
    with pytest.raises(AssumptionNotAccepted) as refused:
        run_study(study(study={"accepts": []}), ledger=ledger(tmp_path), folder=tmp_path)
    assert "by a public model" in refused.value.message()
    assert "whoever made the table of predictions" in refused.value.message()


def test_the_plan_opens_no_file_and_public_predictions_open_more_methods(tmp_path):
    lines = {line.kind: line for line in advise_study(study()).methods}
    assert lines["public"].verdict == "refused"
    assert lines["private_grid"].verdict == "good"
    assert lines["private_grid"].assumptions == ACCEPTS
    spec = study(data={"public": "public.csv"}, study={"method": "public"})
    lines = {line.kind: line for line in advise_study(spec).methods}
    assert lines["public"].verdict == "good"
    written(tmp_path)
    written(tmp_path, "public.csv", seed=1, m=60)
    release = run_study(spec, ledger=ledger(tmp_path), folder=tmp_path).release
    assert release.value["hyperparameters"] == {"candidate": "large"}
    assert "baseline" in release.facts


@pytest.mark.parametrize("kind", ["private_trajectory", "private_grid", "auto"])
def test_methods_serve_with_and_without_public_predictions(kind, tmp_path):
    written(tmp_path)
    written(tmp_path, "public.csv", seed=1, m=60)
    spent = ledger(tmp_path)
    for i, public in enumerate((None, "public.csv")):
        options = {} if public is None or kind == "auto" else {
            "private_grid": {"base_measure": "public", "paired": True}, "private_trajectory": {"prior": "public"},
        }[kind]  # fmt: skip
        spec = study(study={"method": kind, "edition": str(i)}, privacy={"delta": 1e-6}, method=options,
                     data={"public": public}, budget={"delta": 1e-5}, search={"steps": 4})  # fmt: skip
        release = run_study(spec, ledger=spent, folder=tmp_path).release
        assert release.value["hyperparameters"] == {"candidate": "large"}


def test_nothing_is_trained_and_no_model_is_shown(tmp_path):
    written(tmp_path)
    work = PublicWork(Run.of(study(), QueryContext(PrivacyLedger(f"sqlite:///{tmp_path}/ledger.db"), tmp_path)))
    assert (work.to_train, work.to_cross_validate, work.to_try) == ((), (), ())
    release = run_study(study(), ledger=ledger(tmp_path), folder=tmp_path).release
    assert not model_is_public(release)
    assert FinalModel.of_release(study(), tmp_path, release) is None
    assert resolve(study()).n_steps == 2  # a step, and a task of the flow, a candidate


def test_a_persons_surplus_records_score_the_constant(tmp_path):
    table, truth = predicted(6)
    who = [1, 1, 1, 2, 3, 3]
    pd.DataFrame({**table, "who": who, "sick": truth}).to_csv(tmp_path / "predictions.csv", index=False)
    spec = study(data={"n_validation": 6}, privacy={"person": "who", "max_records_per_person": 2})
    kept = np.array([True, True, False, True, True, True])
    exact = ((1.0 - (table["large"] - (truth == "yes")) ** 2) * kept).mean()
    assert totals(spec, tmp_path)[1] == pytest.approx(exact, abs=1e-6)


CANARY = "canary_8472"


def test_nothing_of_a_record_leaves(tmp_path, capfd):
    """Canaries in cells, in the target and in a column that is ignored: nowhere on screen, in log or ledger."""
    table, truth = predicted()
    rows = pd.DataFrame({"id": CANARY, **table.astype(object), "sick": truth})
    rows.loc[0, ["small", "large"]] = CANARY
    rows.loc[1, "sick"] = CANARY
    rows.to_csv(tmp_path / "predictions.csv", index=False)
    heard = io.StringIO()
    handler = logging.StreamHandler(heard)
    logging.getLogger().addHandler(handler)
    try:
        release = run_study(study(), ledger=ledger(tmp_path), folder=tmp_path).release
    finally:
        logging.getLogger().removeHandler(handler)
    out = capfd.readouterr()
    told = [json.dumps(release.to_json()), repr(release), heard.getvalue(), out.out, out.err]
    told += [path.read_bytes().decode("latin-1") for path in tmp_path.iterdir() if "ledger" in path.name]
    assert not any(CANARY in text for text in told)


def test_in_memory_it_is_the_same_choice(tmp_path):
    table, truth = predicted()
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    chosen = search(ledger=url).fit(table, truth)
    assert chosen.best_candidate_ == "large"
    exact = 1.0 - brier_score_loss(truth == "yes", table["large"])
    assert chosen.best_score_ == pytest.approx(exact, abs=0.05)  # thirty times the scale of its noise
    assert (chosen.guarantee_.epsilon, chosen.guarantee_.assumptions) == (50.0, ACCEPTS)
    with pytest.warns(UserWarning, match="nothing was drawn"):
        again = clone(chosen).fit(table, truth)
    assert again.replayed_
    assert again.best_score_ == chosen.best_score_
    assert search(ledger=url, edition="2", method="public").fit(
        table, truth, X_public=predicted(60, 1)[0], y_public=predicted(60, 1)[1]
    ).best_candidate_ == "large"  # fmt: skip


def test_functions_are_asked_after_paying_alone_and_nothing_they_say_is_told(tmp_path, capfd):
    rows = np.column_stack([predicted()[0]["large"], np.arange(M)])
    truth = predicted()[1]
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    asked = []

    def large(X):
        asked.append(len(X))
        print(CANARY, X[0])
        return np.column_stack([1.0 - X[:, 0], X[:, 0]])

    def raises(X):
        raise ValueError(f"{CANARY} {X[0]}")

    candidates = {
        "large": large,
        "raises": raises,
        "short": lambda X: X[:0, 0],
        "small": lambda X: 0.5 + 0.0 * X[:, 1],
    }
    usual = COMMON | {"scoring": "brier", "ledger": url}
    with pytest.raises(NoBudget):
        PrivateSelection(candidates, **usual).fit(rows, truth)
    assert asked == []
    chosen = PrivateSelection(candidates, budget=(500.0, 0.0), method="private_grid", **usual).fit(rows, truth)
    assert (asked, chosen.best_candidate_) == ([M], "large")
    heard = capfd.readouterr()
    assert CANARY not in heard.out + heard.err + repr(chosen.release_)
    with pytest.raises(StudyInvalid, match="raises does not predict the public records"):
        PrivateSelection(candidates, **usual).fit(rows, truth, X_public=rows[:9].copy(), y_public=truth[:9].copy())


def _strict(X):
    if not np.isfinite(X).all():
        raise ValueError("a record has a gap")
    return X[:, 0]


ANSWERS = {  # functions that fail, or answer in another type, as soon as one record is unlike the others
    "raises on a gap": _strict,
    "drops gaps": lambda X: X[np.isfinite(X[:, 1]), 0],
    "drops an axis of one": lambda X: _strict(X).squeeze(),
    "a text among truth values": lambda X: [x >= 0.5 if np.isfinite(gap) else "unclear" for x, gap in X.tolist()],
    "a text among short numbers": lambda X: [np.float32(x) if np.isfinite(gap) else "unclear" for x, gap in X],
    "a list of another length": lambda X: [[1 - x, x] if np.isfinite(gap) else [x] * 3 for x, gap in X.tolist()],
    "two probabilities": lambda X: np.column_stack([1 - _strict(X), _strict(X)]),
}


@pytest.mark.parametrize("function", ANSWERS.values(), ids=ANSWERS)
@pytest.mark.parametrize("frame", [False, True])
def test_a_record_that_a_function_fails_on_costs_itself_alone(function, frame):
    """One record made a function raise for all of them, and all lost their predictions."""
    rows = np.column_stack([np.random.default_rng(0).uniform(size=37), np.zeros(37)])
    other = rows.copy()
    other[5, 1] = np.nan
    spec = search().set_params(candidates={"a": function})._spec(37, public=None)

    def asked(X):
        named = {"a": function if not frame else lambda table: function(table.to_numpy())}
        given = pd.DataFrame(X) if frame else X
        return prediction_table(spec, named, given, ["yes"] * 37, "target", source="X").columns["a"]

    before, after, others = asked(rows), asked(other), np.arange(37) != 5
    assert all(type(cell) is not str for cell in before)
    assert list(before[others]) == list(after[others])
    assert type(after[5]) is str or after[5] != after[5]


def test_what_cannot_be_selected_in_memory_is_said(tmp_path):
    table, truth = predicted()
    usual = {"ledger": f"sqlite:///{tmp_path / 'ledger.db'}"}
    for options, X, y, kwargs, says in (
        ({}, table[["small"]], truth, {}, "lacks 'large'"),
        ({}, table.assign(canary=1), truth, {}, "has 1 columns that the study does not know"),
        ({}, table, truth, {"X_public": table}, "go together"),
        ({}, table, truth, {"X_public": table, "y_public": truth}, "shares its memory"),
        ({"accepts": ()}, table, truth, {}, "rowwise_predictions"),
        ({"method": "exact_gp"}, table, truth, {}, "releases no candidate"),
        ({"candidates": "small"}, table, truth, {}, "no list of names"),
    ):
        with pytest.raises(DpboError, match=says):
            search(**usual).set_params(**options).fit(X, y, **kwargs)
    assert search().advise(n_validation=1000).recommended == "private_grid"


def test_probabilities_where_classes_are_asked_for_are_the_likelier_class(tmp_path):
    """A column of probabilities under accuracy released nothing but its noise."""
    table, truth = written(tmp_path)
    found = totals(study(model={"score": "accuracy"}), tmp_path)
    assert found == pytest.approx([((table[name] > 0.5) == (truth == "yes")).mean() for name in table])
    third = {"labels": ["maybe", "no", "yes"]}
    assert totals(study(model={"score": "accuracy"}, data=third), tmp_path) == [
        0.0,
        0.0,
    ]  # of three it says nothing


def test_public_predictions_that_the_score_cannot_use_are_refused_before_the_charge(tmp_path):
    table, truth = predicted()
    pd.DataFrame({"small": table["small"] - 7.0, "large": table["large"], "sick": truth}).to_csv(
        tmp_path / "predictions.csv", index=False
    )
    (tmp_path / "predictions.csv").with_name("public.csv").write_bytes((tmp_path / "predictions.csv").read_bytes())
    written(tmp_path)
    budget, spec = (
        ledger(tmp_path),
        study(model={"score": "accuracy"}, data={"public": "public.csv", "ignore": None}),
    )
    with pytest.raises(StudyInvalid, match="no public record has a prediction in 'small'"):
        run_study(spec, ledger=budget, folder=tmp_path)
    assert not budget.accounts()
