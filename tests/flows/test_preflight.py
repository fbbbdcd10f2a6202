"""`dpbo plan` is the preflight: `plan` and `tune` refuse 200 mistakes with the same words and exit code."""

import copy
import json
import random

import pytest
import tomli_w

from dpbo_core import PrivacyBudget, PrivacyLedger
from dpbo_core.models.estimator_trainer import EstimatorTrainer
from dpbo_core.models.linear.fit import LinearTrainer

LINEAR = {
    "study": {"name": "trial", "edition": "1", "method": "private_grid"},
    "privacy": {"dataset": "people", "epsilon": 1.0, "delta": 0.0},
    "budget": {"epsilon": 5.0, "delta": 1e-5},
    "data": {"training": "t.csv", "validation": "v.csv", "n_validation": 400, "target": "y"},
    "model": {"estimator": "logistic", "score": "accuracy"},
    "space": {"lambda": {"low": 1e-3, "high": 10.0, "log": True, "points": 4}},
    "search": {"seed": 0},
    "evaluation": {"epsilon": 0.5},
}
FOREIGN = LINEAR | {
    "model": {"estimator": "sklearn.linear_model.LogisticRegression", "score": "accuracy"},
    "space": {"C": {"low": 1e-3, "high": 10.0, "log": True, "points": 4}},
}
FUNCTION = "sklearn.preprocessing.FunctionTransformer"
N_FAST = 40


def but(study, section, **changes):
    """The study with other values in a section; None removes the key, and the section if it was its last."""
    changed = copy.deepcopy(study)
    table = {key: value for key, value in (changed.get(section, {}) | changes).items() if value is not None}
    return changed | {section: table}


def without(study, section):
    return {name: table for name, table in study.items() if name != section}


def mistakes():
    """Yield (name, study) of every mistake: keys, values, files, budgets, models, scores, methods, reports."""
    for section, table in LINEAR.items():
        yield f"misspelt section {section}", without(LINEAR, section) | {section[:-1] + "x": table}
        for key, value in table.items():
            if section != "space":
                yield f"misspelt {section}.{key}", but(LINEAR, section, **{key: None, f"{key}x": value})
            for wrong in ({"a": 1}, [[1]], -1 if isinstance(value, int | float) else 7):
                if section != "search" or wrong != -1:
                    yield f"{section}.{key} = {wrong}", but(LINEAR, section, **{key: wrong})
        for key in table if section in ("study", "privacy", "model") else ():
            if key not in ("edition", "delta", "score"):
                yield f"no {section}.{key}", but(LINEAR, section, **{key: None})
    for key in ("training", "validation", "n_validation", "target"):
        yield f"no data.{key}", but(LINEAR, "data", **{key: None})
    for key in ("low", "high", "points"):
        axis = {name: value for name, value in LINEAR["space"]["lambda"].items() if name != key}
        if key != "points":
            yield f"no {key}", but(LINEAR, "space", **{"lambda": axis})
        yield f"misspelt {key}", but(LINEAR, "space", **{"lambda": axis | {f"{key}x": 1}})
    for name in (
        "none.csv",
        "bare.csv",
        "other.csv",
        "twice.csv",
        "t.xlsx",
        "folder",
        "x" * 400 + ".csv",
        "one.csv",
    ):
        for key in ("training", "validation"):
            if (key, name) != ("validation", "one.csv"):
                yield f"{key} {name[:20]}", but(LINEAR, "data", **{key: name})
    yield "same file", but(LINEAR, "data", validation="t.csv", n_validation=200)
    yield "same file, linked", but(LINEAR, "data", validation="link.csv", n_validation=200)
    for n in (399, 401, 0, 10**9):
        yield f"n_validation {n}", but(LINEAR, "data", n_validation=n)
    yield "target z", but(LINEAR, "data", target="z")
    yield "ignored target", but(LINEAR, "data", ignore=["y"])
    yield "missing", but(LINEAR, "data", missing="drop")
    yield "another dataset's file", but(LINEAR, "data", validation="w.csv")
    yield "public what is sensitive", but(LINEAR, "data", training="w.csv")
    for epsilon in (0.0, 6.0, 1e9, float("nan"), float("inf")):
        yield f"epsilon {epsilon}", but(LINEAR, "privacy", epsilon=epsilon)
    for delta in (1.0, 1.5, float("nan")):
        yield f"delta {delta}", but(LINEAR, "privacy", delta=delta)
    yield "over with the report", but(LINEAR, "evaluation", epsilon=4.5)
    yield "another cap", but(LINEAR, "privacy", dataset="capped")
    yield (
        "a cap that accepts nothing",
        but(
            but(LINEAR, "privacy", dataset="capped", epsilon=0.5)
            | {"study": {"name": "n", "method": "noisy_gp", "accepts": ["gp_prior"]}, "budget": {"epsilon": 3.0}},
            "privacy",
            delta=1e-6,
        ),
    )
    yield "reserved dataset", but(LINEAR, "privacy", dataset="set")
    yield "person unknown", but(LINEAR, "privacy", person="who")
    yield "relation", but(LINEAR, "privacy", neighbours="other")
    yield "k", but(LINEAR, "privacy", max_records_per_person=0)
    for method in ("private_gird", "noisy_gp", "exact_gp", "outsourced", ""):
        yield f"method {method}", but(LINEAR, "study", method=method)
    for method, options in (
        ("private_grid", {"evaluat": "tried"}), ("private_grid", {"evaluate": "nothing"}),
        ("auto", {"evaluate": "tried"}),
        ("private_trajectory", {"final_choice": "exponential"}), ("lipschitz", {"calibration": "none"}),
        ("lipschitz", {"evaluate": "path", "train": "twice"}), ("noisy_gp", {"calibration": "published"}),
        ("dp_hypo", {"base": "nothing"}),
    ):  # fmt: skip
        yield f"option {method} {options}", but(LINEAR, "study", method=method) | {"method": options}
    for score in ("acuracy", "mse", "mae", "rmse", "pinball", "f1", "auc", "AUC", "absolute_error", "predictions"):
        yield f"score {score}", but(LINEAR, "model", score=score)
        yield f"score {score} of another model", but(FOREIGN, "model", score=score)
    for estimator in (
        "logistc",
        "sklearn.linear_model.Logistic",
        "nowhere.Model",
        "os.path",
        "sklearn",
        "a:b",
        "json.dumps",
    ):
        yield f"estimator {estimator}", but(FOREIGN, "model", estimator=estimator)
    for params in (
        {"class_weight": {"well": 1, "ill": 5}},
        {"C": [1.0, 2.0]},
        {"C_": 1.0},
        {"C": -1.0},
        {"penalty": "l3"},
        {"C": {"a": 1}},
        {"solver": 3},
        5,
    ):
        yield (
            f"params {params}",
            but(without(FOREIGN, "space"), "model", params=params) | {"space": {"tol": {"values": [1e-3, 1e-4]}}},
        )
    for axis in (
        {"values": ["l2", "l1"]},
        {"values": []},
        {"values": [1, 1]},
        {"low": 2.0, "high": 1.0},
        {"low": 1.0},
    ):
        yield f"axis {axis}", but(FOREIGN, "space", C=None, penalty=axis)
    for axis in (
        {"low": 0.0, "high": 1.0, "log": True},
        {"low": 0.1, "high": 1.0, "points": 0},
        {"low": -1.0, "high": 1.0},
    ):
        yield f"lambda {axis}", but(LINEAR, "space", **{"lambda": axis})
    yield "an axis too many", but(LINEAR, "space", C={"low": 0.1, "high": 1.0})
    yield "no parameter", but(FOREIGN, "space", sea={"low": 0.1, "high": 1.0, "points": 2})
    yield "a grid with n_candidates", but(LINEAR, "search", n_candidates=16)
    for key, value in (
        ("steps", 0), ("steps", 10**7), ("seed", -1), ("acquisition", "thompson"), ("kernel", "cubic"),

        ("lengthscale", -1.0), ("one_pass", 3), ("n_candidates", 0),
    ):  # fmt: skip
        yield f"search.{key} = {value}", but(LINEAR, "search", **{key: value})
    yield "one_pass", but(but(LINEAR, "search", one_pass=True), "study", method="lipschitz")
    for changes in (
        {"group": "zz"}, {"group": "y"}, {"bins": 1}, {"epsilon": 1e-13}, {"epsilon": 0.0},
        {"false_positive_cost": -1.0},
        {"prevalence": 2.0}, {"groups": ["a"]}, {"repair": True, "threshold": "nothing"},
    ):  # fmt: skip
        yield f"evaluation {changes}", but(LINEAR, "evaluation", **changes)
    for against in ("nowhere", "t.csv", "folder", "models:/trial/1", "runs:/1/model", "column:a", "column:zz"):
        yield f"champion {against}", but(LINEAR, "evaluation", against=against)
    yield (
        "champion column:zz, accepted",
        but(LINEAR, "evaluation", against="column:zz", accepts=["rowwise_predictions"]),
    )
    yield "a choice of noise", but(LINEAR, "privacy", epsilon=0.0005)
    yield "a report of noise", but(LINEAR, "evaluation", epsilon=0.0005)
    yield "a report of no model", but(but(LINEAR, "study", method="lipschitz"), "model", score="sigmoid")
    yield "FunctionTransformer", but(FOREIGN, "model", estimator=FUNCTION)
    yield (
        "a class that is not on the list",
        but(FOREIGN, "model", estimator="unlisted_model.Odd") | {"space": {"a": {"values": [1, 2]}}},
    )
    yield "rowwise", but(LINEAR, "model", rowwise="enforced")
    yield "fields", but(LINEAR, "study", edition="{date}", name="x\x1b")
    yield "no toml", "this is no study"
    yield "an empty file", ""


MISTAKES = dict(mistakes())


@pytest.fixture
def folder(here):
    """Tables with a valid study's columns, and others; a ledger that has a cap and another dataset's file."""
    draw = random.Random(0)
    rows = [f"{(x := draw.gauss()):.3f},{draw.gauss():.3f},{int(x + draw.gauss() > 0)}" for _ in range(400)]
    tables = {"t.csv": ("a,b,y", rows[:200]), "v.csv": ("a,b,y", rows), "w.csv": ("a,b,y", rows)}
    tables |= {"one.csv": ("a,b,y", ["1,2,1"] * 400), "other.csv": ("a,c,y", rows), "twice.csv": ("a,a,y", rows)}
    tables |= {"bare.csv": (rows[0], rows[1:])}
    for name, (header, lines) in tables.items():
        (here / name).write_text("\n".join((header, *lines)) + "\n")
    (here / "link.csv").symlink_to("t.csv")
    (here / "t.xlsx").write_bytes(b"PK")
    (here / "folder").mkdir()
    return here


@pytest.fixture
def answers(folder, dpbo, monkeypatch, charged_elsewhere):
    """A function: (exit code, message) of `plan` and of `tune` for a study, and how many models tune trained."""
    trained = []
    for trainer in (LinearTrainer, EstimatorTrainer):
        honest = trainer.train
        monkeypatch.setattr(trainer, "train", lambda *args, _honest=honest: trained.append(1) or _honest(*args))

    def told(study):
        (folder / "s.toml").write_text(study if isinstance(study, str) else tomli_w.dumps(study))
        code, out, err = dpbo("plan", "s.toml", "--json")
        planned = json.loads(out).get("refused", "") if out and not err else err
        trained.clear()
        answered, _, said = dpbo("tune", "s.toml", "--direct")
        return (code, last(planned)), (answered, last(said)), len(trained)

    return told


def last(text):
    return text.strip().rpartition("\n")[2].removeprefix("dpbo: ")


@pytest.fixture
def charged_elsewhere(folder):
    """A ledger in which w.csv is another dataset's, and "capped" has a cap that accepts nothing."""
    from dpbo_core import StudySpec, run_study

    (folder / "mlruns").mkdir(mode=0o700)
    ledger = PrivacyLedger(f"sqlite:///{folder / 'mlruns' / 'ledger.db'}")
    ledger.set_budget(PrivacyBudget.of("capped", epsilon=3.0, delta=1e-5))
    other = but(but(LINEAR, "data", validation="w.csv"), "privacy", dataset="ward", anyway=True)
    run_study(StudySpec.from_dict(without(other, "evaluation")), ledger=ledger, folder=folder)


def check(answers, names):
    differing = {}
    for name in names:
        planned, tuned, trained = answers(MISTAKES[name])
        assert tuned[0] != 0, f"{name} is no mistake: it was charged"
        if planned != tuned or trained > 2:
            differing[name] = planned, tuned, trained

    assert differing == {}


def test_a_valid_study_is_planned(answers):
    assert answers(LINEAR)[0] == (0, "")


def test_a_byte_order_mark_is_no_mistake(folder, dpbo):
    (folder / "s.toml").write_text(tomli_w.dumps(LINEAR), encoding="utf-8-sig")
    assert dpbo("plan", "s.toml")[0] == 0


@pytest.mark.parametrize(
    "params", [{"class_weight": {"well": 1, "ill": 5}}, {"hidden_layer_sizes": [5, 5]}, {"C": {"a": 1.0}}]
)
def test_a_parameter_that_a_study_file_cannot_state_is_named_with_what_takes_it(folder, dpbo, params):
    (folder / "s.toml").write_text(tomli_w.dumps(but(FOREIGN, "model", params=params)))
    code, _, err = dpbo("plan", "s.toml")
    (name,) = params
    assert (code, f"values: {name} is a" in err, 'estimator = "module:name"' in err) == (2, True, True)


OWN_PIPELINE = """import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
def shifted(rows):
    return np.arcsinh(rows)
pipeline = make_pipeline(FunctionTransformer({function}), LogisticRegression())
"""


def test_plan_says_the_one_way_that_works_for_a_function_in_a_pipeline(folder, answers):
    """Without a cap the study may accept the assumption; an open cap without it leaves a NumPy function alone."""
    own = but(but(FOREIGN, "model", estimator="own_model:pipeline"), "space", C=None)
    own["space"] = {"logisticregression__C": {"low": 0.01, "high": 1.0, "log": True, "points": 2}}
    (folder / "own_model.py").write_text(OWN_PIPELINE.format(function="shifted"))
    for dataset, accepting in (("people", True), ("capped", False)):
        planned, tuned, _ = answers(without(but(own, "privacy", dataset=dataset), "" if accepting else "budget"))
        assert planned == tuned
        assert ('add accepts = ["rowwise_predictions"]' in planned[1]) is accepting
        assert "a NumPy function such as np.log1p" in planned[1]
        assert "dpbo_beside" not in planned[1]
    (folder / "own_model.py").unlink()
    (folder / "numpy_model.py").write_text(OWN_PIPELINE.format(function="np.arcsinh"))
    own["model"]["estimator"] = "numpy_model:pipeline"
    assert answers(without(but(own, "privacy", dataset="capped"), "budget"))[0] == (0, "")


@pytest.mark.parametrize(("nickname", "name"), [("mse", "squared_error"), ("RMSE", "squared_error"),
    ("mae", "absolute_error"), ("pinball", "absolute_error"), ("auc", "roc_auc")])  # fmt: skip
def test_a_nickname_of_a_score_is_answered_with_its_name(folder, dpbo, nickname, name):
    (folder / "s.toml").write_text(tomli_w.dumps(but(FOREIGN, "model", score=nickname)))
    code, _, err = dpbo("plan", "s.toml")
    assert (code, "misspelt" in err) == (2, False)
    assert f'write score = "{name}"' in err


def test_plan_and_tune_refuse_the_same(answers):
    names = list(MISTAKES)
    check(answers, names[:: len(names) // N_FAST])


def test_plan_refuses_a_champion_that_tune_could_not_load(answers):
    names = [name for name in MISTAKES if name.startswith("champion")]
    assert len(names) == 8
    check(answers, names)


@pytest.mark.parametrize("name", ["a choice of noise", "a report of noise"])
def test_plan_refuses_mostly_noise_as_tune_does(answers, name):
    planned, tuned, _ = answers(MISTAKES[name])
    assert planned == tuned
    assert (planned[0], "anyway = true in [privacy]" in planned[1]) == (3, True)
    anyway = copy.deepcopy(MISTAKES[name])
    anyway["privacy"]["anyway"] = True
    assert answers(anyway)[0] == (0, "")


@pytest.mark.slow
def test_plan_and_tune_refuse_the_same_two_hundred(answers):
    assert len(MISTAKES) >= 200
    check(answers, MISTAKES)
