"""`dpbo curate` and `dpbo model`: their flags, their exit codes, their JSON, and nothing charged on refusal."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from exchanges import write_csv

PUBLISH = ("curate", "publish", "X.csv", "--out", "Z.parquet", "--dataset", "people")
PRICE = ("--epsilon", 3, "--delta", 1e-6)
BOUND = ("--norm-bound", 4)
ANSWER = ("curate", "answer", "Q.json", "--answers", "Y.csv", "--out", "A.json")
SUGGEST = ("model", "suggest", "Z.parquet", "--state", "S", "--out", "Q.json")
UPDATE = ("model", "update", "A.json", "--state", "S")


@pytest.fixture
def dpbo(dpbo, here):
    """The command, beside the curator's two files."""
    X = np.random.default_rng(0).normal(size=(50, 2))
    write_csv(here / "X.csv", X)
    write_csv(here / "Y.csv", -(X**2).sum(axis=1, keepdims=True))
    return dpbo


def test_a_whole_exchange(dpbo):
    assert dpbo("budget", "set", "people", "--epsilon", 20, "--delta", 1e-5)[0] == 0
    code, out, err = dpbo(*PUBLISH, *PRICE, *BOUND, "--json")
    assert (code, err) == (0, "")
    release = json.loads(out)
    assert release["replayed"] is False
    assert release["method"] == "outsourced"
    assert release["guarantee"]["relation"] == "replace_one"
    assert release["guarantee"]["unit"] == "candidate_row"
    assert release["guarantee"]["assumptions"] == []
    assert release["spends"][0]["noise_scale"] > 0
    assert pq.read_table("Z.parquet").column_names == ["z0", "z1"]
    code, out, err = dpbo(*PUBLISH, *PRICE, *BOUND)
    assert (code, err) == (0, "")
    assert "nothing was drawn or spent now" in out
    for step in (1, 2, 3):
        code, out, err = dpbo(*SUGGEST, "--json")
        assert (code, err) == (0, "")
        assert json.loads(out)["step"] == step
        code, out, err = dpbo(*ANSWER, "--accept", "answers_public", "--json")
        assert (code, err) == (0, "")
        assert json.loads(out)["noise_scale"] == 0.0
        code, out, err = dpbo(*UPDATE, "--json")
        assert (code, err) == (0, "")
        assert json.loads(out)["steps"] == step
    assert "row" in dpbo(*SUGGEST)[1]
    assert "answered" in dpbo(*ANSWER, "--accept", "answers_public")[1]
    assert "4 answers" in dpbo(*UPDATE)[1]
    (account,) = json.loads(dpbo("budget", "--json")[1])["datasets"]
    assert [entry["method"] for entry in account["entries"]] == ["outsourced"]


def test_private_answers_on_the_command_line(dpbo):
    dpbo("budget", "set", "people", "--epsilon", 20, "--delta", 1e-5)
    dpbo(*PUBLISH, *PRICE, *BOUND)
    dpbo(*SUGGEST)
    private = (*ANSWER, "--private-answers", -10, 0, "--epsilon", 1, "--delta", 1e-6)
    code, out, err = dpbo(*private, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["noise_scale"] > 1.0
    assert dpbo(*private, "--json")[1] == out
    (account,) = json.loads(dpbo("budget", "people", "--json")[1])["datasets"]
    assert len(account["entries"]) == 2


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((*PUBLISH, *PRICE), 2, "--norm-bound"),
        ((*PUBLISH, *PRICE, "--norm-bound", "nan"), 2, "norm bound"),
        ((*PUBLISH, "--epsilon", 0, "--delta", 1e-6, *BOUND), 2, "no guarantee"),
        ((*PUBLISH, *PRICE, *BOUND, "--transform", "gausian"), 2, "did you mean 'gaussian'"),
        ((*PUBLISH, *PRICE, *BOUND, "--relation", "replace_on"), 2, "did you mean 'replace_one'"),
        ((*PUBLISH, *PRICE, *BOUND, "--dim", 0), 2, "--dim"),
        ((*PUBLISH[:2], "missing.csv", *PUBLISH[3:], *PRICE, *BOUND), 2, "missing.csv"),
        ((*PUBLISH, "--epsilon", 30, "--delta", 1e-6, *BOUND), 3, "limit"),
        ((*PUBLISH[:-1], "nobody", *PRICE, *BOUND), 3, "no privacy budget"),
        ((*PUBLISH, *PRICE, "--transform", "published"), 3, "false"),
        ((*PUBLISH, *PRICE, "--relation", "row_moves_by_one"), 3, "another kind"),
        (ANSWER, 2, "Q.json"),
        ((*ANSWER, "--accept", "answers_publi"), 2, "did you mean 'answers_public'"),
        ((*ANSWER, "--private-answers", 0, 1), 2, "--epsilon"),
        ((*ANSWER, "--private-answers", 1, 0, "--epsilon", 1, "--delta", 1e-6), 2, "LOW below HIGH"),
        ((*ANSWER, "--epsilon", 1), 2, "--private-answers"),
        (SUGGEST, 2, "Z.parquet"),
        (UPDATE, 2, "A.json"),
    ],
)
def test_refusals_are_one_line_and_cost_nothing(dpbo, words, code, said):
    dpbo("budget", "set", "people", "--epsilon", 20, "--delta", 1e-5)
    found, out, err = dpbo(*words)
    assert (found, out) == (code, "")
    assert err.startswith("dpbo: ")
    assert err.count("\n") == 1
    assert said in err
    (account,) = json.loads(dpbo("budget", "people", "--json")[1])["datasets"]
    assert account["entries"] == []
    assert not Path("Z.parquet").exists()
    assert "Traceback" in dpbo(*words, "--debug")[2]


def test_answers_without_noise_need_their_assumption(dpbo):
    dpbo("budget", "set", "people", "--epsilon", 20, "--delta", 1e-5)
    dpbo(*PUBLISH, *PRICE, *BOUND)
    dpbo(*SUGGEST)
    code, _, err = dpbo(*ANSWER)
    assert code == 4
    assert "answers_public" in err
    assert not Path("A.json").exists()


def test_the_published_transform_runs_on_public_data_alone(dpbo):
    dpbo("budget", "set", "open", "--public")
    words = (*PUBLISH[:-1], "open", *PRICE, "--transform", "published", "--dim", 10)
    code, out, _ = dpbo(*words, "--json")
    release = json.loads(out)
    assert code == 0
    assert release["guarantee"]["epsilon"] is None
    assert release["guarantee"]["evidence"] == "refuted"
    assert pq.read_table("Z.parquet").num_columns == 10
    assert "No privacy guarantee" in dpbo(*words)[1]


def test_a_modeller_makes_no_store(dpbo, here):
    dpbo("budget", "set", "people", "--epsilon", 20, "--delta", 1e-5)
    dpbo(*PUBLISH, *PRICE, *BOUND)
    (here / "mlruns").rename(here / "elsewhere")
    assert dpbo(*SUGGEST)[0] == 0
    assert not (here / "mlruns").exists()
