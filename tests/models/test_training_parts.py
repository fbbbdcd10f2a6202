"""A public training set in many files: the map, the models and the scores of one table, in bounded memory."""

import shutil
import tempfile
import tracemalloc
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from worlds import with_method

from dpbo_core.data import table_parts
from dpbo_core.data.table_parts import TableParts, parts_fingerprint
from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.mechanisms.noise import InjectedNoise
from dpbo_core.models.linear.fast_exact_scores import stored
from dpbo_core.report.evaluated_model import file_model, model_at
from dpbo_core.study import StudySpec, data_split
from dpbo_core.study.data_files import study_fingerprint, training_digest
from dpbo_core.study.final_training import FinalModel
from dpbo_core.study.query import QueryContext
from dpbo_core.study.run import Run
from dpbo_core.study.tuning import open_study

N = 9000  # more than two blocks of the solvers' rows
TREE = {"max_depth": {"low": 1, "high": 4, "integer": True}}
CUTS = {1: (0, N), 3: (0, 4000, 4001, N), 7: (0, 10, 10, 3000, 5000, 5001, 8999, N)}  # one of the seven is empty


def frame(n):
    """Numbers of all sizes, texts, a column that holds texts in some files alone, and who it was."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(n, 3)) * [1.0, 1e-7, 1e9] + [0.0, 3.0, -1e8]
    ill = np.where(x[:, 0] + rng.normal(size=n) > 0.3, "yes", "no")
    town = rng.choice(["Bath", "Kent", "York"], n)
    code = np.array(["1", "2"], dtype=object)[rng.integers(0, 2, n)]
    code[n // 2] = "x"
    who = rng.integers(0, 40, n).astype(str)
    return pd.DataFrame(x, columns=list("abc")).assign(ill=ill, town=town, code=code, gap=x[:, 0] ** 2, who=who)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with the records as one file and as 1, 3 and 7."""
    folder, table = tmp_path_factory.mktemp("files"), frame(N)
    table.loc[[0, 8000], "gap"] = np.nan
    table.to_parquet(folder / "train.parquet", index=False)
    for p, cuts in CUTS.items():
        (folder / f"train{p}").mkdir()
        for j, (start, stop) in enumerate(pairwise(cuts)):
            table.iloc[start:stop].to_parquet(folder / f"train{p}" / f"{j:02d}.parquet", index=False)
    table.iloc[:300].to_parquet(folder / "validation.parquet", index=False)
    return folder


@pytest.fixture
def world(here, tables, files):
    """A study of a copy of them."""
    shutil.copytree(files, here, dirs_exist_ok=True)

    def spec(training="train.parquet", model=None, method="private_trajectory", **data):
        section = {"estimator": "logistic", "bias": 0.5} | (model or {})
        given = {"training": training, "validation": "validation.parquet", "n_validation": 300, "target": "ill"}
        given |= {"ignore": ["who"], "missing": "mean"} | data
        return StudySpec.from_dict(with_method(tables, method) | {"data": given, "model": section})

    return spec


def same_map(one, other):
    assert one == other  # every centre, scale, category, class and the radius: floats compare by their value
    assert one.radius.hex() == other.radius.hex()


def pair_of_halves(world, here, p, *, on_disk=True, model=None):
    whole = data_split.public_half(world(model=model), here)
    limit = {"memory_limit": 0.0} if on_disk else {}
    return whole, data_split.public_half(world(f"train{p}", model, **limit), here)


PAIRWISE = [(1, True, "logistic"), (3, True, "hinge"), (7, False, "hinge"), (7, True, "logistic")]
CASES = [
    pytest.param(
        p, on_disk, loss, marks=[] if (p, on_disk, loss) in PAIRWISE else [pytest.mark.slow],
        id=f"{p}-{'file' if on_disk else 'array'}-{loss}",
    )
    for p in CUTS
    for on_disk in (True, False)
    for loss in ("logistic", "hinge")
]  # fmt: skip


@pytest.mark.parametrize(("p", "on_disk", "loss"), CASES)
def test_parts_give_the_map_and_the_models_of_one_table(world, here, p, on_disk, loss):
    whole, parts = pair_of_halves(world, here, p, on_disk=on_disk, model={"estimator": loss})
    same_map(whole.preprocessing, parts.preprocessing)
    assert (whole.columns, whole.target) == (parts.columns, parts.target)
    assert whole.problem.baseline == parts.problem.baseline
    for i in (0, 3):
        one, other = whole.problem.train(i), parts.problem.train(i)
        np.testing.assert_allclose(other.weights, one.weights, rtol=0.0, atol=1e-12)
        assert other.certificate == pytest.approx(one.certificate, rel=1e-9)
        assert other.certificate <= (1e-6 if loss == "logistic" else 1e-5 / np.sqrt(other.regularization))


@pytest.mark.parametrize("score", ["sigmoid", "roc_auc"])
def test_parts_are_cross_validated_by_the_folds_of_one_table(world, here, score):
    whole, parts = pair_of_halves(world, here, 7, model={"score": score})
    assert whole.problem.public_score(2) == pytest.approx(parts.problem.public_score(2), rel=0.0, abs=1e-12)
    assert whole.problem.positives == parts.problem.positives
    if score == "sigmoid":
        seed, point = 0, whole.problem.candidates.points[2]
        one, other = (half.problem.trainer.public_steps(point, seed=seed) for half in (whole, parts))
        assert (one == other).all()
        one, other = (model_at(world(), half, point).public for half in (whole, parts))
        np.testing.assert_allclose(one.outcome, other.outcome, rtol=0.0, atol=1e-12)
        assert (one.truth == other.truth).all()


def test_a_study_on_parts_releases_what_one_on_a_table_does(world, here):
    """With the same noise; and is known again by the content of its files."""
    told = []
    for training in ("train.parquet", "train7"):
        book = PrivacyLedger(f"sqlite:///{here / training}.db")
        book.set_budget(PrivacyBudget.without_limit("people"))
        spec = world(training).replace(budget=None)
        noise = InjectedNoise(np.random.default_rng(3))
        study = open_study(Run.of(spec, QueryContext(book, folder=here, source=noise)))
        assert study.public.fingerprint == training_digest(spec, here)
        steps = [study.step() for _ in range(study.n_steps)]
        told.append((steps, study.finish().release.value))
        assert book.release_of(study_fingerprint(spec, training_digest(spec, here))) is not None
    assert told[0] == told[1]


def test_the_fingerprint_is_of_the_content_in_the_order_of_names(world, here):
    spec, found = world("train3"), []

    def digest():
        found.append(training_digest(spec, here))
        return found[-1]

    folder = here / "train3"
    assert digest() == data_split.public_half(spec, here).fingerprint
    for path in sorted(folder.iterdir()):
        path.rename(path.with_name("part-" + path.name))
    assert digest() == found[0]  # names that keep the order are not in it
    (folder / "part-00.parquet").rename(folder / "part-99.parquet")
    assert digest() != found[0]
    (folder / "part-99.parquet").rename(folder / "part-00.parquet")
    table = pd.read_parquet(folder / "part-02.parquet")
    table[table.columns[::-1]].to_parquet(folder / "part-02.parquet", index=False)
    assert digest() == found[0]  # columns stand in the first file's order
    table.loc[7, "who"] = "another"
    table.to_parquet(folder / "part-02.parquet", index=False)
    assert digest() == found[0]  # an ignored column
    table.loc[7, "a"] += 1e-9
    table.to_parquet(folder / "part-02.parquet", index=False)
    assert digest() != found[0]
    assert training_digest(world("train1"), here) != training_digest(world("train7"), here)


def broken_page(path):
    content = bytearray(path.read_bytes())
    content[4:400] = bytes([255]) * 396
    path.write_bytes(content)


def of_other_columns(path):
    pd.read_parquet(path).rename(columns={"b": "bb"}).to_parquet(path, index=False)


def infinite(path):
    table = pd.read_parquet(path)
    table.loc[5, "b"] = np.inf
    table.to_parquet(path, index=False)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda path: path.write_bytes(b"PAR1 nothing"), "02.parquet is not a readable Parquet file"),
        (broken_page, "02.parquet cannot be decoded"),
        (of_other_columns, "02.parquet lacks 'b'"),
        (infinite, "'b' of train3 has an infinite value at record 6 of 02.parquet"),
        (lambda path: [one.unlink() for one in path.parent.iterdir()], "train3 holds no Parquet file"),
    ],
    ids=["no Parquet", "a page", "columns", "a value", "none"],
)
def test_a_broken_part_is_a_message_and_no_charge(world, here, damage, says):
    damage(here / "train3" / "02.parquet")
    book = PrivacyLedger(f"sqlite:///{here / 'ledger'}.db")
    with pytest.raises(StudyInvalid, match=says):
        open_study(Run.of(world("train3"), QueryContext(book, folder=here)))
    assert not book.accounts("people")


def test_a_part_that_changes_under_way_is_refused(world, here):
    paths = sorted((here / "train3").iterdir())
    table = TableParts.of(paths, "ill", display_name="train3")
    frame(5000).to_parquet(paths[2], index=False)
    with pytest.raises(StudyInvalid, match=r"02\.parquet was written again"):
        parts_fingerprint(table)
    paths[2].unlink()
    with pytest.raises(StudyInvalid, match=r"02\.parquet no longer exists"):
        list(table.each_column())


def test_what_needs_its_records_in_memory_says_so(world, here):
    forest = {"estimator": "sklearn.ensemble.RandomForestClassifier", "score": "accuracy", "bias": 0.0}
    spec = world("train3")
    spec = spec.replace(model=StudySpec.from_dict(spec.to_dict() | {"model": forest, "space": TREE}).model)
    with pytest.raises(StudyInvalid, match="is trained in memory"):
        data_split.public_half(spec, here)
    half = data_split.public_half(world("train3"), here)
    final = FinalModel(half.preprocessing, half.problem.train(0), "logistic")
    with pytest.raises(StudyInvalid, match="needs the public records in memory"):
        file_model(world("train3"), here, final)
    assert file_model(world(), here, final).model is final.model


def test_a_file_may_not_be_in_both_folders(world, here):
    (here / "validation").mkdir()
    (here / "validation" / "x.parquet").hardlink_to(here / "train3" / "02.parquet")
    spec = world("train3", validation="validation", n_validation=N - 4001)
    with pytest.raises(StudyInvalid, match="both the training file and the validation file"):
        data_split.check_presence(spec, here, data_split.public_half(spec, here))


def test_the_file_of_rows_has_no_name(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    blocks = [np.arange(6.0).reshape(3, 2), np.full((1, 2), -0.0)]
    rows = stored(blocks, (4, 2), 0)
    assert rows.tobytes() == np.concatenate(blocks).tobytes()
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_memory_is_bounded_by_a_part_and_not_by_the_set(tmp_path, tables, monkeypatch):
    """Rows that take 29 MB encoded are trained on with less than half of that allocated."""
    rng, n, d, p = np.random.default_rng(1), 60_000, 60, 12
    for j in range(p):
        X = rng.normal(size=(n // p, d))
        columns = {f"x{i}": X[:, i] for i in range(d)} | {"y": (X[:, 0] + rng.normal(size=len(X)) > 0).astype(int)}
        pd.DataFrame(columns).to_parquet(tmp_path / f"{j:02d}.parquet", index=False)
    given = {"training": ".", "validation": "v.parquet", "n_validation": 9, "target": "y", "memory_limit": 0.0}
    spec = StudySpec.from_dict(tables | {"data": given})
    monkeypatch.setattr(table_parts, "MAX_VALUES_PER_READ", 2 * n)
    tracemalloc.start()
    public = data_split.public_half(spec, tmp_path)
    public.problem.train(len(public.problem.candidates) // 2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * n * d / 2
