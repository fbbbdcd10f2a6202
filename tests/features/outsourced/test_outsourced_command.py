"""`dpbo curate` and `dpbo model`: their flags, their exit codes, their JSON, and nothing charged on refusal."""

import json
import math
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import tomli_w
from exchanges import write_csv

from dpbo.features.outsourced.messages import read_published
from dpbo.features.outsourced.modeler import Modeler

PUBLISH = ("curate", "publish", "X.csv", "--out", "Z.parquet", "--dataset", "people")
PRICE = ("--epsilon", 3, "--delta", 1e-6)
BOUND = ("--relation", "replace_one", "--norm-bound", 4)
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
    assert "nothing was drawn or spent this time" in out
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


def test_what_a_table_will_be_good_for_is_said_from_public_numbers(dpbo, here):
    """By hand, on the paper's grid: its largest r, what Theorem 3 asks for, both kinds of distances and regrets."""

    def planned(*words, **stated):
        (here / "exchange.toml").write_text(tomli_w.dumps(stated))
        return dpbo("curate", "plan", "exchange.toml", *words)

    guesses = {"relation": "row_moves_by_one", "diameter": 50, "lengthscale": 200.0, "noise_variance": 0.5}
    grid = {"rows": 10000, "columns": 2, "epsilon": math.exp(1.1), "singular_value": 1030.88} | guesses
    code, out, err = planned("--json", **grid, information_gain=4)
    assert (code, err) == (0, "")
    told = json.loads(out)
    L, d2, beta = 3 * math.sqrt(1.5), 0.0625, 2 * math.log(10000 * 2500 * math.pi**2 / (6 * 0.025))
    assert told["largest_dim"] == 11  # the paper prints 10: see the errata
    assert told["noise_scale"] == pytest.approx(1.49, abs=0.005)
    assert told["told_apart"] == pytest.approx(told["noise_scale"] * 2)
    assert told["wanted_distortion"] == pytest.approx(0.1 / (2 * math.sqrt(3) * d2 * L))
    assert told["wanted_dim"] == math.ceil(8 * math.log(1e8 / 0.025) / told["wanted_distortion"] ** 2) == 11193
    assert told["dominant"] is False
    few, enough = ({line["dim"]: line for line in told["by_dim"]}[r] for r in (10, 11193))
    assert few["floor"] == pytest.approx(976.07, abs=0.01)
    assert (few["raised"], few["distortion"], few["regret"]) == (False, None, None)
    nu, raised = enough["distortion"], 1 + (enough["floor"] / 1030.88) ** 2
    assert enough["raised"] is True
    assert enough["distances"] == pytest.approx([1 - nu, (1 + nu) * raised])
    instead = 2 * math.sqrt(3) * L * max(d2 * nu, 1 - math.exp(-d2 / 2 * ((1 + nu) * raised - 1)))
    assert enough["approximation"] == pytest.approx(instead)
    C1, C2 = math.sqrt(1.5) * 3, 2 * L
    bound = (
        instead**2 + 24 * (C2 + C1 * math.sqrt(beta)) ** 2 * math.log(50) / 50 + 24 * beta * 4 / (50 * math.log(3))
    )
    assert enough["regret"] == pytest.approx(math.sqrt(bound))
    met = planned("--json", **grid | {"singular_value": 1e9})[1]
    kept = {line["dim"]: line for line in json.loads(met)["by_dim"]}[11193]
    assert kept["approximation"] == pytest.approx(0.1, rel=1e-3)  # ε_ucb again, as it was asked for
    wide = {"rows": 100, "columns": 2, "epsilon": 3.0, "norm_bound": 40}
    replaced = json.loads(planned("--json", **wide, relation="replace_one")[1])
    assert (replaced["useless"], replaced["noise_scale"]) == (True, pytest.approx(119.5, abs=0.1))
    assert json.loads(planned("--json", **wide)[1])["useless"] is False
    said = planned(**wide, relation="replace_one")[1]
    assert "useless: no two rows" in said
    assert "a whole row" in said
    assert "a distance of at most 1" in planned(**wide)[1]
    header = "\n".join(["x0,x1", *["nan,1e9"] * 50]) + "\n"  # nothing of a row is looked at
    (here / "X.csv").write_text(header)
    from_file = planned("--json", data="X.csv", norm_bound=4)[1]
    assert from_file == planned("--json", rows=50, columns=2, norm_bound=4)[1]
    assert not (here / "mlruns").exists()
    assert "none" in planned(data="X.csv", norm_bound=4)[1]
    for stated in (
        {"data": "X.csv"}, {"rows": 50}, {"data": "X.csv", "rows": 5, "columns": 2, "norm_bound": 4},
        {"data": "X.csv", "norm_bound": 4, "diameter": -1}, {"rows": 50.5, "columns": 2, "norm_bound": 4},
        {"rows": 50, "columns": 2, "norm_bound": "4"}, {"rows": 50, "columns": 2, "norm_bond": 4},
    ):  # fmt: skip
        code, _, err = planned(**stated)
        assert code == 2, stated
        assert err.count("\n") == 1


def test_a_search_in_files_asks_as_one_in_memory_does(dpbo, here):
    assert dpbo("budget", "set", "people", "--epsilon", 20, "--delta", 1e-5)[0] == 0
    assert dpbo(*PUBLISH, *PRICE, *BOUND)[0] == 0
    assert dpbo(*SUGGEST)[0] == 0
    rows = []
    for _ in range(3):
        assert dpbo(*ANSWER, "--accept", "answers_public")[0] == 0
        assert dpbo(*UPDATE)[0] == 0
        rows.append(json.loads(dpbo(*SUGGEST, "--json")[1])["row"])
    published, answered = read_published(here / "Z.parquet")[0], json.loads((here / "S").read_text())["answers"]
    alone = Modeler(published.rows, noise_scale=published.noise_scale)
    for one, row in zip(answered, rows, strict=True):
        alone.tell(one["row"], one["value"], one["noise_scale"])
        assert alone.suggest() == row


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


REFUSED = [
    ((*PUBLISH, *PRICE, "--relation", "replace_one"), 2, "--norm-bound"),
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
]


def test_refusals_are_one_line_and_cost_nothing(dpbo):
    dpbo("budget", "set", "people", "--epsilon", 20, "--delta", 1e-5)
    for words, code, said in REFUSED:
        found, out, err = dpbo(*words)
        assert (found, out) == (code, ""), words
        assert err.startswith("dpbo: ")
        assert err.count("\n") == 1
        assert said in err
    assert "Traceback" in dpbo(*words, "--debug")[2]
    (account,) = json.loads(dpbo("budget", "people", "--json")[1])["datasets"]
    assert account["entries"] == []
    assert not Path("Z.parquet").exists()


def test_a_modeller_makes_no_store(dpbo, here):
    dpbo("budget", "set", "people", "--epsilon", 20, "--delta", 1e-5)
    dpbo(*PUBLISH, *PRICE, *BOUND)
    (here / "mlruns").rename(here / "elsewhere")
    assert dpbo(*SUGGEST)[0] == 0
    assert not (here / "mlruns").exists()
