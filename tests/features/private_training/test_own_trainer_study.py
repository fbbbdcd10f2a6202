"""A study file with a [trial]: priced, rehearsed and tuned by a trainer of one's own."""

import json

import numpy as np
import pytest
import tomli_w
from own_trainers import records
from test_own_trainer import in_this_process

from dpbo.features.private_training.trial_study import TrialStudy
from dpbo.flows.cli.running import feature_study
from dpbo_core.errors import StudyInvalid
from dpbo_core.study.spec import read_study

TABLES = {
    "study": {"name": "own", "method": "dp_hypo", "accepts": ["declared_cost", "contained_elsewhere"]},
    "privacy": {"dataset": "clinic", "epsilon": 4.0, "delta": 0.0, "neighbours": "zero_out"},
    "data": {
        "sensitive": "training",
        "training": "train.csv",
        "n_training": 60,
        "validation": "validation.csv",
        "n_validation": 40,
        "target": "ill",
    },
    "method": {"base": "own_trainers:laplace", "run": 2},
    "trial": {"mechanism": "pure"},
    "space": {"sign": {"values": [-1, 1]}},
    "search": {"steps": 2},
}
CAP = ("--epsilon", 4, "--relation", "zero_out", "--accept", "declared_cost", "--accept", "contained_elsewhere")


def tables(**changes):
    return {name: {**table, **changes.get(name, {})} for name, table in TABLES.items()}


@pytest.fixture
def study(here, dpbo):
    """The study's file, its two tables, its cap and its owner's permission."""
    for name, n, seed in (("train", 60, 0), ("validation", 40, 1)):
        X, y = records(n, seed)
        rows = [",".join(map(str, (*x, label))) for x, label in zip(X.tolist(), y.tolist(), strict=True)]
        (here / f"{name}.csv").write_text("\n".join(["a,b,c,ill", *rows]) + "\n")
    (here / "own.toml").write_text(tomli_w.dumps(TABLES))
    assert dpbo("budget", "set", "clinic", *CAP)[0] == 0
    return here / "own.toml"


def test_a_study_file_is_planned_and_tuned(study, dpbo, monkeypatch):
    done = in_this_process(monkeypatch)
    code, out, err = dpbo("tune", study, "--direct")
    assert (code, out) == (3, "")
    assert "own_trainers:laplace" in err
    assert "--as score" in err
    assert dpbo("budget", "allow", "clinic", "own_trainers:laplace", "--as", "score")[0] == 0
    code, out, err = dpbo("plan", study, "--rehearse", "--json")
    assert (code, err) == (0, "")
    planned = json.loads(out)
    assert planned["neighbours"] == "zero_out"
    assert planned["rehearsal"]["spent"] == pytest.approx(planned["one_training"])
    assert done == ["train", "score"]
    code, out, err = dpbo("tune", study, "--direct", "--json")
    assert code == 0
    released = json.loads(out)
    assert released["guarantee"]["relation"] == "zero_out"
    assert released["value"]["hyperparameters"]["sign"] in (-1, 1)
    assert not released["replayed"]
    assert released["tracking"]["experiment"] == "clinic"
    assert len(done) == 6
    code, out, err = dpbo("tune", study, "--direct")
    assert code == 0
    assert "chosen for it" in out
    assert len(done) == 6
    assert dpbo("show", "own:1")[1:] == dpbo("show", study)[1:]
    for words in (("evaluate", study, "--epsilon", 1), ("serve", study, "--every", "6h")):
        code, out, err = dpbo(*words)
        assert (code, out) == (2, "")
        assert "planned, tuned and shown" in err
    code, out, err = dpbo("budget", "clinic", "--json")
    assert json.loads(out)["datasets"][0]["spent"]["epsilon"] == 4.0


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"method": {"base": "own_trainers"}}, "package.module:function"),
        ({"method": {"stopping": "one"}}, "stopping"),
        ({"study": {"method": "private_grid"}}, "dp_hypo"),
        ({"data": {"source": "digits"}}, "neither a bundled set"),
        ({"data": {"classes": ["no", 1]}}, "list every class"),
        ({"trial": {"mechanism": "laplace"}}, "dp_sgd"),
        ({"trial": {"mechanism": "declared"}}, "needs epsilon"),
        ({"trial": {"mechanism": "declared", "epsilon": 1.0, "delta": 1.0}}, "below 1"),
        ({"trial": {"mechanism": "pure", "score": "auc"}}, "package.module:function"),
        ({"trial": {"mechanism": "dp_sgd", "batch_size": 5, "epochs": "epochs"}}, "no axis"),
    ],
)
def test_what_a_study_file_cannot_say_is_refused(tmp_path, changes, refusal):
    with pytest.raises(StudyInvalid, match=refusal):
        _ = TrialStudy(tables(**changes), tmp_path).trials.planned(60, 40, disjoint=False, divided=False)


def test_files_with_other_numbers_of_records_are_refused_before_a_charge(study, here):
    stated = tables(data={"n_validation": 41})
    with pytest.raises(StudyInvalid, match="41"):
        TrialStudy(stated, here).check_files()
    with pytest.raises(StudyInvalid, match="sick"):
        TrialStudy(tables(data={"target": "sick"}), here).check_files()


def test_records_are_read_as_they_are_and_a_folder_is_handed_over_unread(study, here):
    (here / "train.csv").write_text("a,b,c,ill\n1,x,3,1\n" + "broken\n" + "1,2,3,0\n" * 58)
    (X, y), (held_out, _) = TrialStudy(tables(), here).load()
    assert (X.shape, y.shape, held_out.shape) == ((60, 3), (60,), (40, 3))
    assert np.isnan(X[0, 1])
    assert np.isnan(X[1]).all()
    (here / "images").mkdir()
    training, _ = TrialStudy(tables(data={"training": "images"}), here).load()
    assert training == str(here / "images")


@pytest.mark.parametrize(
    ("classes", "label", "read"), [(None, "x", np.nan), ((0, 1), "x", 0), (("no", "yes"), "x", "no")]
)
def test_one_label_changes_the_type_of_no_other(study, here, classes, label, read):
    named = {"0": "no", "1": "yes"} if classes == ("no", "yes") else {"0": "0", "1": "1"}
    loaded = {}
    for last in (named["1"], label):
        labels = [named["0"], named["1"]] * 29 + [named["0"], last]
        rows = "".join(f"1,2,3,{label}\n" for label in labels)
        (here / "train.csv").write_text("a,b,c,ill\n" + rows)
        loaded[last] = TrialStudy(tables(data={} if classes is None else {"classes": list(classes)}), here).load()
    (_, usual), (_, odd) = (training for training, _ in loaded.values())
    assert usual.dtype == odd.dtype
    assert (usual[:-1] == odd[:-1]).all()
    np.testing.assert_equal(odd[-1], read)


def test_other_studies_are_the_cores(here, request):
    path = here / "study.toml"
    path.write_text(tomli_w.dumps(request.getfixturevalue("tables")))
    assert feature_study(path) is None
    assert read_study(path).name == "trial"
