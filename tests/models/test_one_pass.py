"""Many candidates in one reading of the records: the same integers, and no reading that is not needed."""

import os
import shutil
from itertools import count, pairwise

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from worlds import plain, with_method

from dpbo_core.data import parquet_file, read_table
from dpbo_core.data.header import SENSITIVE_FILE
from dpbo_core.errors import Sealed, StudyInvalid
from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.mechanisms.noise import InjectedNoise
from dpbo_core.methods import METHODS
from dpbo_core.methods.problem import Problem
from dpbo_core.models import estimators
from dpbo_core.models.integer_sums import GRID
from dpbo_core.models.scores.kinds import PairScore
from dpbo_core.models.scoring import partitioned
from dpbo_core.models.scoring.in_memory import evaluate_all, exact_totals
from dpbo_core.models.scoring.partitioned import PartCache, bytes_a_record, memory_bytes
from dpbo_core.study import StudySpec, data_split
from dpbo_core.study.data_files import study_fingerprint
from dpbo_core.study.query import QueryContext
from dpbo_core.study.resolve import check_one_pass
from dpbo_core.study.run import Run
from dpbo_core.study.tuning import open_study

CUTS = (0, 1, 2, 60, 61, 140, 299, 300)
TREE = {"max_depth": {"low": 1, "high": 4, "integer": True}}
C = {"C": {"low": 0.01, "high": 10.0, "log": True, "points": 3}}
LOGISTIC = "sklearn.linear_model.LogisticRegression"
FOREST = {"estimator": "sklearn.ensemble.RandomForestClassifier", "params": {"n_estimators": 5}}
MODELS = {  # every way in which a record becomes a number
    "sigmoid": ({"estimator": "logistic"}, None),
    "ramp": ({"estimator": "hinge", "score": "ramp"}, None),
    "accuracy of a margin": ({"estimator": "logistic", "score": "accuracy"}, None),
    "pairs of margins": ({"estimator": "logistic", "score": "roc_auc"}, None),
    "accuracy": (FOREST | {"score": "accuracy"}, TREE),
    "log-loss": ({"estimator": LOGISTIC, "score": "log_loss"}, C),
    "Brier": ({"estimator": LOGISTIC, "score": "brier"}, C),
    "balanced accuracy": (FOREST | {"score": "balanced_accuracy", "class_shares": {"0": 0.5, "1": 0.5}}, TREE),
    "pairs": (FOREST | {"score": "roc_auc"}, TREE),
    "an error": (
        {"estimator": "sklearn.tree.DecisionTreeRegressor", "score": "squared_error", "error_bound": 2.0},
        TREE,
    ),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with 300 records, some of them hostile, as a file and as seven uneven parts."""
    folder, rng = tmp_path_factory.mktemp("files"), np.random.default_rng(8)

    def frame(n):
        x = rng.normal(size=(n, 3))
        ill = (x[:, 0] + rng.normal(size=n) > 0).astype(float)
        return pd.DataFrame(x, columns=list("abc")).assign(ill=ill, who=rng.integers(0, 40, n).astype(str))

    frame(80).drop(columns="who").to_parquet(folder / "train.parquet", index=False)
    V = frame(300)
    V.loc[[3, 77, 200, 201], "b"] = [np.nan, np.inf, 1e300, -1e308]
    V.loc[[9, 299], "ill"] = [7.0, np.nan]
    V.loc[[5, 150], "who"] = ""
    V.to_parquet(folder / "validation.parquet", index=False)
    (folder / "parts").mkdir()
    for j, (start, stop) in enumerate(pairwise(CUTS)):
        V.iloc[start:stop].to_parquet(folder / "parts" / f"{j:02d}.parquet", index=False)
    return folder


@pytest.fixture
def world(here, tables, files):
    """The spec of a study of a copy of them."""
    shutil.copytree(files, here, dirs_exist_ok=True)

    def spec(validation="parts", *, model="sigmoid", persons=False, method="private_trajectory", **data):
        section, space = MODELS[model]
        study = with_method(tables, method) | {"model": section} | ({"space": space} if space else {})
        size = {"n_persons": 40} if persons else {"n_validation": 300, "ignore": ["who"]}
        files = {"training": "train.parquet", "validation": validation, "target": "ill"}
        privacy = tables["privacy"] | ({"person": "who"} if persons else {})
        return StudySpec.from_dict(study | {"data": files | size | data, "privacy": privacy})

    return spec


@pytest.fixture
def read(monkeypatch):
    """The parts that are opened, in order."""
    opened, honest = [], partitioned.data.read_blocks

    def noted(path, **words):
        opened.append(path.name)
        return honest(path, **words)

    monkeypatch.setattr(partitioned.data, "read_blocks", noted)
    return opened


def exposed(found):
    return [[total.expose() for total in kind] for kind in (found.sums, found.differences)]


TOGETHER = [  # of persons one score of margins and one of an estimator in the short run
    pytest.param(
        model, persons, marks=[pytest.mark.slow] if persons and model not in ("sigmoid", "Brier") else [],
        id=f"{model}-{'persons' if persons else 'records'}",
    )
    for model in MODELS
    for persons in (False, True)
    if not persons or not (model.startswith("pairs") or model == "balanced accuracy")  # such are refused
]  # fmt: skip


@pytest.mark.parametrize(("model", "persons"), TOGETHER)
def test_many_models_together_come_to_what_each_comes_to_alone(world, here, model, persons):
    """In memory and over parts, paired and not, by the functions that score one model at a time."""
    public = data_split.public_half(world("validation.parquet", model=model, persons=persons), here)
    models = [public.problem.train(i) for i in range(min(4, len(public.problem.candidates)))]
    beside = None if isinstance(public.problem.score, PairScore) else (models[1], GRID // 7)
    told = []
    for validation in ("validation.parquet", "parts"):
        spec = world(validation, model=model, persons=persons)
        half = data_split.sensitive_half(spec, here, public)
        sums, differences = exposed(half.evaluate_all(models, beside))
        assert sums == [half.evaluate(one).expose() for one in models]
        if beside is not None:
            assert differences == [half.paired(one, *beside).expose() for one in models]
        told.append((sums, differences))
        if validation != "parts" and not persons:
            records = half._records.expose()
            assert sums == [exact_totals([one], records, public.problem.score)[0][0] for one in models]
            if beside is not None:
                assert differences == [
                    exact_totals([one], records, public.problem.score, beside)[1][0] for one in models
                ]
    assert told[0] == told[1]
    assert len(set(told[0][0])) > 1


@pytest.mark.parametrize(("rows", "cells"), [(1, 1), (7, 2**25), (32, 2**25), (2**18, 3 * 10)])
def test_trees_come_to_the_same_however_many_rows_they_are_given(world, here, monkeypatch, rows, cells):
    """Alone and together, paired and not: rows that cannot be predicted stand among them."""
    few = pd.read_parquet(here / "validation.parquet").iloc[[*range(30), 77, 150, *range(195, 203)]]
    few.to_parquet(here / "validation.parquet", index=False)
    spec = world("validation.parquet", model="accuracy", n_validation=len(few))
    public = data_split.public_half(spec, here)
    models = [public.problem.train(i) for i in range(3)]
    half = data_split.sensitive_half(spec, here, public)
    whole = exposed(half.evaluate_all(models, (models[0], 99)))
    monkeypatch.setattr(estimators, "_BLOCK_ROWS", 1)
    monkeypatch.setattr(estimators, "_MAX_TREE_ROWS", rows)
    monkeypatch.setattr(estimators, "_MAX_TREE_CELLS", cells)
    assert models[0].together == min(rows, max(1, cells // 3))
    assert exposed(half.evaluate_all(models, (models[0], 99))) == whole
    assert [half.evaluate(one).expose() for one in models] == whole[0]
    assert not models[0].prepared(np.zeros((2, 3)))[0].flags.writeable


def test_a_record_moves_each_of_many_sums_by_one_grid_at_most(world, here):
    """A hostile record in the place of another, in one part of seven."""
    public = data_split.public_half(world(), here)
    models = [public.problem.train(i) for i in range(0, len(public.problem.candidates), 5)]
    before = exposed(data_split.sensitive_half(world(), here, public).evaluate_all(models, (models[0], 999)))
    part = here / "parts" / "04.parquet"
    whole = pd.read_parquet(part)
    for column, worst in (("a", 1e308), ("b", -np.inf), ("c", np.nan), ("ill", 1e18), ("ill", np.nan)):
        other = whole.copy()
        other.loc[other.index[11], column] = worst
        other.to_parquet(part, index=False)
        after = exposed(data_split.sensitive_half(world(), here, public).evaluate_all(models, (models[0], 999)))
        moved = np.abs(np.array(after) - np.array(before))
        assert moved.max() <= GRID
        assert moved.max() > 0


def run(spec, here, name, **options):
    """What a study released, with one and the same noise."""
    book = PrivacyLedger(f"sqlite:///{here / name}.db")
    book.set_budget(PrivacyBudget.without_limit("people"))
    spec = spec.replace(budget=None, **options)
    under_way = open_study(
        Run.of(spec, QueryContext(book, folder=here, source=InjectedNoise(np.random.default_rng(3))))
    )
    steps = [under_way.step() for _ in range(under_way.n_steps)]
    return steps, under_way.finish().release.value


@pytest.mark.parametrize("options", [{}, {"evaluate": "tried", "base_measure": "public", "paired": True}])
def test_a_grid_reads_the_records_once(world, here, read, options):
    in_parts = run(world(method="private_grid"), here, "parts", options=options)
    assert read.count("03.parquet") == 1
    assert in_parts == run(world("validation.parquet", method="private_grid"), here, "whole", options=options)


def test_all_of_a_path_is_scored_in_one_reading(world, here, read):
    in_parts = run(world(method="lipschitz"), here, "parts")
    assert read.count("03.parquet") == 1
    assert in_parts == run(world("validation.parquet", method="lipschitz"), here, "whole")


def test_more_models_than_fit_are_scored_in_more_readings(world, here, read, monkeypatch):
    whole = run(world(method="private_grid"), here, "whole")
    monkeypatch.setattr(Problem, "scored_together", 3)
    n = len(data_split.public_half(world(), here).problem.candidates)
    read.clear()
    assert run(world(method="private_grid", memory_limit=0), here, "parts") == whole
    assert read.count("03.parquet") == -(-n // 3)
    read.clear()
    assert run(world(method="private_grid"), here, "kept") == whole
    assert read.count("03.parquet") == 1


def test_a_trajectory_reads_the_records_once_while_they_fit(world, here, read):
    """Or each time, or some of the parts each time, as its limit says; the release is the same."""
    released = run(world(), here, "kept")
    steps = len(released[0])
    assert [read.count(f"{j:02d}.parquet") for j in range(7)] == [1] * 7
    read.clear()
    assert run(world(memory_limit=0.0), here, "again") == released
    assert [read.count(f"{j:02d}.parquet") for j in range(7)] == [steps + 1] * 7  # and the look at the choice
    read.clear()
    a_record = 8 * 3 + 8 + 1 + 8
    assert run(world(memory_limit=140 * a_record / 1e9), here, "some") == released
    assert [read.count(f"{j:02d}.parquet") for j in range(7)] == [1] * 5 + [steps + 1, 1 + steps]


def test_one_pass_scores_all_of_it_when_the_first_score_is_needed(world, here, read):
    plain = world()
    released = run(plain, here, "plain")
    read.clear()
    once = plain.search.replace(one_pass=True)
    assert run(world(memory_limit=0), here, "once", search=once) == released
    assert [read.count(f"{j:02d}.parquet") for j in range(7)] == [1] * 7


def test_a_line_says_what_is_read_again_and_what_would_end_it(world, here, monkeypatch):
    """300 records of 41 bytes, 12.3 kB, of which 2.3 kB are beyond the limit."""
    public = data_split.public_half(world(), here)
    assert bytes_a_record(public.preprocessing) == 41
    number = count()

    def line(validation="parts", *, one_pass=None, **words):
        spec = world(validation, **words)
        spec = spec.replace(search=spec.search.replace(one_pass=one_pass))
        run = QueryContext(PrivacyLedger(f"sqlite:///{here / f'{next(number)}.db'}"), folder=here)
        return open_study(Run.of(spec, run)).rereading_notice

    again = "trial: 2.3e-06 of 1.2e-05 GB of encoded records are read again at each of"
    keeps = "[data] memory_limit = 0.1 keeps them in memory"
    once = ", [search] one_pass = true trains all 16 candidates and reads 1 times"
    assert line(memory_limit=1e-5) == f"{again} 5 steps; {keeps}{once}"
    assert line(memory_limit=1.3e-5) == line(memory_limit=1e-5, one_pass=True) == line("validation.parquet") == ""
    assert line(memory_limit=1e-5, method="private_grid") == line(memory_limit=1e-5, persons=True) == ""
    monkeypatch.setattr(Problem, "scored_together", 3)
    assert line(memory_limit=1e-5, method="private_grid") == f"{again} 6 readings; {keeps}"


@pytest.mark.parametrize("method", METHODS)
def test_only_a_public_path_can_be_scored_at_once(world, here, method):
    spec = world(method=method)
    spec = spec.replace(search=spec.search.replace(one_pass=True))
    if METHODS[method].scores_ahead:
        check_one_pass(spec, plain(method))
    else:
        with pytest.raises(StudyInvalid, match="one_pass"):
            check_one_pass(spec, plain(method))


def test_how_records_are_read_makes_no_other_study(world):
    spec = world()
    other = world(memory_limit=0.5).replace(search=spec.search.replace(one_pass=True))
    assert study_fingerprint(spec, "x") == study_fingerprint(other, "x")
    assert StudySpec.from_dict(other.to_dict()) == other
    with pytest.raises(StudyInvalid, match="memory_limit"):
        world(memory_limit=-1.0)


def test_a_part_that_was_written_again_is_read_again_and_one_that_is_gone_is_missed(world, here, read):
    public = data_split.public_half(world(), here)
    half, model = data_split.sensitive_half(world(), here, public), public.problem.train(2)
    first = half.evaluate(model).expose()
    part = here / "parts" / "03.parquet"
    whole = pd.read_parquet(part)
    whole.assign(ill=1.0).to_parquet(part, index=False)
    assert half.evaluate(model).expose() != first
    assert read.count("03.parquet") == 2
    assert read.count("02.parquet") == 1
    part.unlink()
    with pytest.raises(Sealed):
        half.evaluate(model)


def test_a_part_that_keeps_its_length_and_its_time_is_read_again(here):
    """As rsync writes it in place."""
    kept, part = PartCache(), here / "part.csv"
    for text in ("1111", "2222"):
        part.write_text(text)
        os.utime(part, ns=(0, 10**18))
        assert [*kept.get("a", part, lambda: [part.read_text()], size=len, limit=100)] == [text]


def test_what_is_kept_follows_from_sizes_alone(world, here):
    """Records that hold other things are kept alike, to the byte."""
    public = data_split.public_half(world(), here)
    encode = public.preprocessing
    kept = []
    for value in (0.0, 1e308, np.nan):
        table = pd.DataFrame(dict.fromkeys("abc", [value] * 50)).assign(ill=value, who="x")
        table.to_parquet(here / "a.parquet", index=False)
        records = encode.transform(
            partitioned.data.read_table(here / "a.parquet", mode=SENSITIVE_FILE, display_name="a")
        )
        kept.append(memory_bytes(records))
    assert kept == [50 * (8 * 3 + 8 + 1 + 8)] * 3
    store = PartCache()
    for name in "ab":
        (here / name).write_text("x")
        for _ in range(2):
            assert [*store.get("reader", here / name, lambda n=name: n * 2, size=len, limit=3)] == [name] * 2
    assert len(store._parts) == 1
    assert repr(store) == "<PartCache>"
    assert [*store.get("another", here / "b", lambda: "b", size=len, limit=3)] == ["b"]
    assert [*store._parts] == [here / "b"]


def test_who_can_score_one_model_alone_scores_many_one_by_one():
    class Alone:
        def evaluate(self, model):
            return model

        def paired(self, model, reference, clipped):
            return model - reference * clipped

    assert evaluate_all(Alone(), [4, 5]).sums == (4, 5)
    assert evaluate_all(Alone(), [4, 5], (1, 3)).differences == (1, 2)


@pytest.mark.parametrize("damaged", [False, True])
@pytest.mark.parametrize("model", ["sigmoid", "accuracy", "pairs", "an error"])
def test_a_large_file_is_scored_in_blocks_to_the_integers_of_the_file_in_memory(
    world, here, monkeypatch, model, damaged
):
    """Blocks of one file count as the file does, though a page be damaged when a block of its group was scored."""
    path = here / "validation.parquet"
    small = {"row_group_size": 170, "data_page_size": 1, "write_batch_size": 16, "use_dictionary": False}
    pd.read_parquet(path).to_parquet(path, index=False, compression=None, **small)
    if damaged:
        page = pq.ParquetFile(path).metadata.row_group(0).column(1)
        content = bytearray(path.read_bytes())
        end = page.data_page_offset + page.total_compressed_size
        content[end - 200 : end] = bytes(200)  # its last pages' headers
        path.write_bytes(content)
    spec = world("validation.parquet", model=model)
    public = data_split.public_half(spec, here)
    models = [public.problem.train(i) for i in range(2)]
    whole = data_split.sensitive_half(spec, here, public)
    held = read_table(path, mode=SENSITIVE_FILE, display_name="v").broken
    assert held.sum() == (170 if damaged else 0)
    monkeypatch.setattr(data_split, "MAX_HELD_BYTES", 0)
    monkeypatch.setattr(parquet_file, "BLOCK_CELLS", 1)
    monkeypatch.setattr(partitioned, "ROWS_PER_BLOCK", 16)
    blocks = data_split.sensitive_half(spec, here, public)
    assert len(blocks._parts) == 2
    assert exposed(blocks.evaluate_all(models)) == exposed(whole.evaluate_all(models))
    assert [blocks.evaluate(one).expose() for one in models] == [whole.evaluate(one).expose() for one in models]
    counted = world("validation.parquet", persons=True)
    assert data_split.scored_parts(counted, here, public.preprocessing) == ()
