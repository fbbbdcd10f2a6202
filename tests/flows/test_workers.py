"""Scale-out: partitions are one table to the last bit, workers train what we would, nothing sensitive travels."""

import os
import pickle
import time
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tomli_w
from audit.leaks import Scenario, make_world
from canary import search
from worlds import mostly_slow, plain, with_method

from dpbo.flows.workers.scorers import from_one_width, of_one_width, workers
from dpbo_core.data.addresses import list_parts
from dpbo_core.errors import Sealed, StudyInvalid
from dpbo_core.mechanisms.noise import InjectedNoise
from dpbo_core.methods import METHODS
from dpbo_core.methods.public_search import search_on_public_data
from dpbo_core.models.scoring import processes
from dpbo_core.models.scoring.partitioned import PartitionedObjective, PartReader, PartWorker
from dpbo_core.models.scoring.processes import Processes
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.report import counting
from dpbo_core.report.binary import BinaryCells
from dpbo_core.report.counting import Counter
from dpbo_core.report.histogram_cells import PERSON_WEIGHT, Grouping
from dpbo_core.study import StudySpec, data_split, precomputed
from dpbo_core.study.precomputed import (
    Precomputed,
    PublicWork,
    cross_validate_candidates,
    remembering,
    required_public_scores,
    required_trainings,
    train_candidates,
)
from dpbo_core.study.query import QueryContext
from dpbo_core.study.resolve import resolve
from dpbo_core.study.run import Run
from dpbo_core.study.tuning import open_study


def in_parts(V, here):
    """Write a table of 500 records into `parts`, as seven uneven files."""
    (here / "parts").mkdir(exist_ok=True)
    for j, (start, stop) in enumerate(pairwise([0, 1, 2, 130, 131, 300, 499, 500])):
        V.iloc[start:stop].to_parquet(here / "parts" / f"{j:02d}.parquet", index=False)


def public_and_sensitive(here):
    """80 public records in a file; 500 sensitive ones."""
    rng = np.random.default_rng(8)
    for n in (80, 500):
        x = rng.normal(size=(n, 3))
        table = pd.DataFrame(x, columns=list("abc")).assign(ill=(x[:, 0] + rng.normal(size=n) > 0).astype(int))
        if n == 80:
            table.to_parquet(here / "train.parquet", index=False)
    return table


TREE = {  # another model of the study's than a linear one
    "model": {"estimator": "sklearn.tree.DecisionTreeClassifier", "score": "accuracy"},
    "space": {"max_depth": {"low": 1, "high": 6, "integer": True}},
}


@pytest.fixture
def world(here, tables):
    """One table as a file and as a folder of seven uneven parts, some records broken: (spec of each)."""
    V = public_and_sensitive(here)
    V.loc[[3, 77, 400], "b"] = [np.nan, np.inf, 1e300]
    V.loc[9, "ill"] = 7
    V.to_parquet(here / "validation.parquet", index=False)
    in_parts(V, here)
    files = {"training": "train.parquet", "n_validation": 500, "target": "ill"}

    def spec(validation, **study):
        with_method(tables, study.pop("method", "private_trajectory"))["study"] |= study
        return StudySpec.from_dict(tables | {"data": files | {"validation": validation}})

    return spec


def total(objective, model):
    return objective.evaluate(model).expose()


def halves(spec, here, *pools):
    """The public half, and the sensitive one for each of these pools."""
    public = data_split.public_half(spec, here)
    return public, *(data_split.sensitive_half(spec, here, public, pool) for pool in pools)


@pytest.fixture(scope="module")
def pool():
    """Two processes for this file, one of them beside this one, however little there is to do."""
    with pytest.MonkeyPatch.context() as patch, closing(Processes(2)) as made:
        patch.setattr(processes, "MIN_EFFORT_BYTES", 0.0)
        yield made


@pytest.mark.parametrize("estimator", mostly_slow(["logistic", "sklearn.tree.DecisionTreeClassifier"], "logistic"))
def test_parts_add_up_to_the_last_bit(world, tables, here, pool, estimator):
    if estimator != "logistic":
        tables |= TREE
    public, one = halves(world("validation.parquet"), here, None)
    data_split.check_presence(world("parts"), here, public)
    _, here_alone, on_workers = halves(world("parts"), here, None, pool)
    assert isinstance(on_workers, PartitionedObjective)
    for index in range(0, len(public.problem.candidates), 3):
        model = public.problem.train(index)
        assert total(one, model) == total(here_alone, model) == total(on_workers, model)


@pytest.mark.parametrize("estimator", ["logistic", "sklearn.linear_model.LogisticRegression"])
def test_persons_add_up_to_the_last_bit_wherever_their_records_lie(world, tables, here, pool, estimator):
    """(sum, count) of each person over all parts, on workers, in this process, and in one table."""
    if estimator != "logistic":
        tables["model"] = {"estimator": estimator, "score": "log_loss"}
        tables["space"] = {"C": {"low": 0.01, "high": 10.0, "log": True, "points": 4}}
    rng = np.random.default_rng(2)
    V = pd.read_parquet(here / "validation.parquet").assign(who=rng.integers(0, 90, 500).astype(str))
    V.loc[[5, 250], "who"] = ""
    V.to_parquet(here / "validation.parquet", index=False)
    in_parts(V, here)

    def by_person(validation):
        made = world(validation).to_dict()
        made["privacy"] |= {"person": "who", "max_records_per_person": 1}
        made["data"] = {"training": "train.parquet", "validation": validation, "target": "ill", "n_persons": 90}
        return StudySpec.from_dict(made)

    public, one = halves(by_person("validation.parquet"), here, None)
    data_split.check_presence(by_person("parts"), here, public)
    _, here_alone, on_workers = halves(by_person("parts"), here, None, pool)
    for index in range(0, len(public.problem.candidates), 3):
        model = public.problem.train(index)
        assert total(one, model) == total(here_alone, model) == total(on_workers, model) > 0
    (here / "parts" / "03.parquet").unlink()
    with pytest.raises(Sealed):
        total(on_workers, model)


@pytest.mark.parametrize("estimator", ["logistic", "sklearn.tree.DecisionTreeClassifier"])
def test_a_reports_table_adds_up_to_the_last_record(world, tables, here, pool, estimator):
    """Counts of records in cells, and of persons' shares: one table, in this process, and on workers."""
    if estimator != "logistic":
        tables |= TREE
    whole = world("validation.parquet")
    public = data_split.public_half(whole, here)
    verb = "decision_function" if estimator == "logistic" else "predict_proba"
    groups = Grouping("ill", (0.0, 1.0))
    counter = Counter(
        public.preprocessing, public.problem.train(2), BinaryCells((-0.5, 0.0, 0.2, 0.5), verb), groups
    )
    parts = list_parts(here / "parts")
    table = data_split.validation_table(whole.data, here)
    one = counter.histogram(table)
    assert one.sum() == 500
    for where in (None, pool):
        assert (one == counter.of_parts(parts, 500, where)).all()
    assert counting.PartCounter(counter).n_numbers == len(one)  # an answer is as wide whatever is in it
    with pytest.raises(Sealed):
        counter.of_parts(parts, 499, pool)
    V = pd.read_parquet(here / "validation.parquet")
    people = [str(i % 90) for i in range(500)]
    in_parts(V.assign(who=people), here)
    one = counting.count_persons(counter, table, people, 95).expose()
    assert one.sum() == 95 * PERSON_WEIGHT
    for where in (None, pool):
        assert (one == counting.count_persons_of_parts(counter, parts, "who", 95, where).expose()).all()
    (here / "parts" / "03.parquet").unlink()
    with pytest.raises(Sealed):
        counting.count_persons_of_parts(counter, parts, "who", 95, pool)


def test_a_damaged_part_costs_its_own_records_and_a_lost_one_seals(world, here, pool):
    spec = world("parts")
    public, objective = halves(spec, here, pool)
    model = public.problem.train(4)
    sound = total(objective, model)
    path = here / "parts" / "05.parquet"
    raw = bytearray(path.read_bytes())
    raw[40:400] = bytes(360)
    path.write_bytes(bytes(raw))
    assert isinstance(total(objective, model), int)
    assert total(objective, model) != sound
    path.unlink()
    with pytest.raises(Sealed) as sealed:
        objective.evaluate(model)
    assert sealed.value.__context__ is None
    with pytest.raises(StudyInvalid, match="500"):
        data_split.check_presence(spec, here, public)


def test_nothing_sensitive_can_be_sent(world, here, pool):
    _, objective = halves(world("parts"), here, pool)
    for handle in (Sensitive(987654321), objective, pool):
        with pytest.raises(TypeError, match=r"stays|leaves"):
            pickle.dumps(handle)


def test_a_process_beside_has_no_port_no_terminal_and_ends_with_us(world, here):
    """Its three streams are nowhere, it listens nowhere, and Ctrl-C at a terminal is not for it."""
    from team import ports_of

    with closing(Processes(2)) as pool:
        public, objective = halves(world("parts"), here, pool)
        list(pool.each(str, ["a", "b"], str))
        (process,) = pool._beside
        pid = process._process.pid
        assert os.getpgid(pid) != os.getpgid(0)
        assert {str(Path(f"/proc/{pid}/fd/{n}").readlink()) for n in range(3)} == {"/dev/null"}
        assert not ports_of({pid})
        assert objective.evaluate(public.problem.train(1)) is not None
    assert not Path(f"/proc/{pid}").exists()


def test_a_process_that_is_killed_loses_its_parts_to_the_others(world, here, monkeypatch):
    """Before it answers for any, and while it has one: the sum is the same, and nobody waits for it."""
    monkeypatch.setattr(processes, "MIN_EFFORT_BYTES", 0.0)
    public, alone = halves(world("parts"), here, None)
    model = public.problem.train(4)
    with closing(Processes(3)) as pool:
        assert sorted(pool.each(slow, range(9), slow)) == list(range(9))
        first, second = pool._beside
        first._process.kill()
        results = pool.each(slow, range(9), slow)
        results = [next(results), second._process.kill(), *results]
        assert sorted(one for one in results if one is not None) == list(range(9))
        assert pool._beside == []
        pool.close()
        assert sorted(pool.each(lambda item: item, range(9), slow)) == list(range(9))  # nor can this be sent
        assert total(halves(world("parts"), here, pool)[1], model) == total(alone, model)


def slow(item):
    time.sleep(0.05)
    return item


def test_a_part_is_scored_where_it_was_scored_before():
    """While its process is not busy elsewhere; then another one takes it, and has it from then on."""
    homes = {}
    of_one, of_both = processes._Remaining("abcd", homes), processes._Remaining("abcd", homes)
    assert [of_one.take(who) for who in "xyxyx"] == ["a", "b", "c", "d", None]
    assert [of_both.take("y") for _ in range(5)] == ["b", "d", "a", "c", None]
    assert set(homes.values()) == {"y"}


def test_none_is_started_for_what_takes_less_than_its_start(world, here):
    """By sizes of files and numbers of models, which are public; work that takes longer starts them."""
    with closing(Processes(2)) as pool, pytest.MonkeyPatch.context() as patch:
        public, objective, again = halves(world("parts"), here, pool, pool)
        patch.setattr(processes, "MIN_EFFORT_BYTES", 2.0**30)
        total(objective, public.problem.train(0))
        assert pool._started == []
        patch.setattr(processes, "MIN_EFFORT_BYTES", pool._effort)
        total(again, public.problem.train(0))
        assert len(pool._started) == 1


def test_few_files_are_scored_by_row_groups(world, here, pool):
    """One file of three groups, by two processes: the same sum, each group once; a group that went is missed."""
    spec = world("parts")
    public, objective = halves(spec, here, None)
    model = public.problem.train(4)
    alone = total(objective, model)
    for path in (here / "parts").iterdir():
        path.unlink()
    path = here / "parts" / "all.parquet"
    V = pd.read_parquet(here / "validation.parquet")
    V.to_parquet(path, index=False, row_group_size=200)
    half = data_split.sensitive_half(spec, here, public, pool)
    assert [part.index for part in half._parts] == [0, 1, 2]
    assert total(half, model) == alone
    V.to_parquet(path, index=False, row_group_size=300)
    with pytest.raises(Sealed):
        half.evaluate(model)
    path.write_bytes(b"PAR1")
    assert data_split.sensitive_half(spec, here, public, pool)._parts == (path,)


@pytest.mark.parametrize("answer", [None, (0, 0), (2**30 - 1, 1), (2**30, 1), (2**62, 10**9), (-(2**40), 3)])
def test_an_answer_is_as_wide_as_any_other(answer):
    """In memory, as Dask counts it, and on the wire; a Python integer took 4 bytes more from 2^30 on."""
    from distributed.protocol import serialize_bytes
    from distributed.sizeof import sizeof

    raw = of_one_width(lambda part: answer, "part")
    assert from_one_width(raw) == answer
    assert (sizeof(raw), len(serialize_bytes(raw))) == (sizeof(bytes(48)), len(serialize_bytes(bytes(48))))
    assert sizeof(2**30) != sizeof(2**30 - 1)


@pytest.mark.parametrize("kind", METHODS)
def test_no_worker_counts_the_evaluations_of_who_hides_them(world, here, kind):
    spec = world("parts", method=kind)
    asked = spec.replace(data=spec.data.replace(workers=3))
    assert asked.tuned == spec.tuned
    with workers(asked, ".", resolve(asked).method) as made:
        assert getattr(made, "n_processes", None) == (None if METHODS[kind].hides_evaluations else 3)
    with workers(spec, ".", resolve(spec).method) as made:
        assert made is None


@pytest.mark.parametrize("kind", METHODS)
def test_what_is_trained_elsewhere_is_what_we_would_train(world, here, kind):
    spec = world("parts", method=kind)
    indices = required_trainings(resolve(spec))
    fixed = METHODS[kind].fixed_order
    assert bool(indices) == (fixed or not plain(kind).public_path)
    public = data_split.public_half(spec, here)
    models = pickle.loads(pickle.dumps(train_candidates(spec, here, indices)))
    assert tuple(models) == indices
    given = remembering(public.problem, Precomputed(models=models))
    for index in indices:
        assert given.train(index) is models[index]
        assert (models[index].weights == public.problem.train(index).weights).all()


PUBLIC_SEARCHES = {  # of 16 candidates: all of them are cross-validated, or 4 of 8 before anything is known
    "shortlist": ("private_grid", {"evaluate": "public_shortlist"}, 16),
    "searched shortlist": ("private_grid", {"evaluate": "public_shortlist", "public_trials": 8}, 4),
    "prior": ("private_trajectory", {"prior": "public"}, 16),
    "searched prior": ("private_trajectory", {"prior": "public", "public_trials": 8}, 4),
}


class Counting:
    """A trainer that notes what it is asked to cross-validate."""

    def __init__(self, trainer):
        self.trainer, self.asked, self.n_records, self.train = trainer, [], trainer.n_records, trainer.train

    def public_score(self, point, *, seed):
        self.asked.append(point["lambda"])
        return self.trainer.public_score(point, seed=seed)


@pytest.mark.parametrize("name", PUBLIC_SEARCHES)
def test_what_is_cross_validated_elsewhere_is_what_we_would_find(world, tables, here, name):
    kind, options, n_known = PUBLIC_SEARCHES[name]
    spec = world("validation.parquet", method=kind).replace(options=options)
    known, plainly = required_public_scores(resolve(spec)), data_split.public_half(spec, here)
    assert required_trainings(resolve(spec)) == ()
    assert len(known) == n_known
    found = search_on_public_data(plainly.problem, options.get("public_trials", 256))
    assert found.tried[:n_known] == known
    scores = pickle.loads(pickle.dumps(cross_validate_candidates(spec, here, known)))
    counting = Counting(data_split.public_half(spec, here).problem.trainer)
    half = replace(plainly, problem=replace(plainly.problem, trainer=counting))
    again = search_on_public_data(
        remembering(half.problem, Precomputed(scores=scores)), options.get("public_trials", 256)
    )
    assert again.tried == found.tried
    assert (again.scores == found.scores).all()
    assert (again.mean == found.mean).all()
    points = plainly.problem.candidates.points
    assert counting.asked == [points[index]["lambda"] for index in found.tried[n_known:]]


def test_another_seed_is_not_answered_from_what_was_given(world, here):
    public = data_split.public_half(world("validation.parquet"), here)
    point = public.problem.candidates.points[2]
    given = remembering(public.problem, Precomputed(scores={2: -1.0}))
    assert given.public_score(2) == -1.0
    assert given.trainer.public_score(point, seed=1) >= 0.0


@pytest.mark.parametrize("name", ["searched shortlist", "prior"])
def test_a_release_is_the_same_whoever_worked_ahead(world, here, monkeypatch, pool, name):
    """With the same noise on a dataset declared public; the second process is real."""
    from dpbo_core.ledger.accounting.account import PrivacyBudget
    from dpbo_core.ledger.ledger import PrivacyLedger

    kind, options, n_known = PUBLIC_SEARCHES[name]
    spec = world("validation.parquet", method=kind).replace(options=options, budget=None)
    monkeypatch.setattr(precomputed, "MIN_PARALLEL_SECONDS", 0.0)
    of_none = PrivacyLedger(f"sqlite:///{here / 'none'}.db")
    ahead = PublicWork(Run.of(spec, QueryContext(of_none)), pool)
    for chunk in ahead.to_cross_validate:
        ahead.cross_validate(chunk)
    assert len(ahead.done().scores) == n_known

    def released(work, edition):
        book = PrivacyLedger(f"sqlite:///{here / edition}.db")
        book.set_budget(PrivacyBudget.without_limit("people"))
        run = open_study(
            Run.of(spec, QueryContext(book, source=InjectedNoise(np.random.default_rng(3)))), precomputed=work
        )
        steps = [run.step() for _ in range(run.n_steps)]
        return steps, run.finish().release.value

    assert released(ahead.done(), "with") == released(None, "without")


AT_ONCE = """
from dpbo_core.study import precomputed
from dpbo_core.models.scoring import processes
precomputed.LONG = processes.LEAST_EFFORT = 0.0
"""
LEAKY_PARTS = """
from dpbo_core.models.scoring.processes import Processes
honest = Processes.map
def leaky(self, work, parts):
    from prefect import get_run_logger
    answers = honest(self, work, parts)
    get_run_logger().warning("the parts came to %s", answers)
    return answers
Processes.map = leaky
"""
ON_WORKERS = {"private_grid": {"evaluate": "public_shortlist"}, "lipschitz": {}}  # both kinds of work ahead


@pytest.fixture
def planted(tables, here):
    """The canary campaign's world, its validation records in three parts: partial sums are secrets too."""
    tables["space"]["lambda"]["points"] = 4
    world = make_world(tables, here)
    parts = here / "data" / "parts"
    parts.mkdir()
    V = pd.read_csv(here / "data" / "validation.csv", dtype={"ill": str})
    for j, start in enumerate(range(0, len(V), 20)):
        V.iloc[start : start + 20].to_parquet(parts / f"{j}.parquet", index=False)
    tables["privacy"]["epsilon"] = 1.0
    tables["data"] |= {"validation": "../data/parts", "workers": 2}
    for kind, options in ON_WORKERS.items():
        study = with_method(tables, kind) | {"method": options}
        (world.run / f"{kind}.toml").write_text(tomli_w.dumps(study))
    public, secrets = data_split.public_half(StudySpec.from_dict(study), world.run), dict(world.secrets)
    for i in range(4):
        work = PartWorker(PartReader(public.preprocessing), public.problem.score, (public.problem.train(i),))
        sums = [work(path)[0] for path in sorted(parts.iterdir())]
        assert str(sum(sums)).encode() in secrets[f"score {i}"]
        for j, partial in enumerate(sums):
            secrets[f"part {j} of {i}"] = {str(partial).encode()}
    return replace(world, secrets=secrets)


@pytest.mark.slow
@pytest.mark.parametrize("prelude", ["", LEAKY_PARTS], ids=["honest", "leaky"])
def test_studies_on_workers_leave_no_exact_sum_behind(planted, prelude):
    """Prefect's database, MLflow's, the ledger and both streams, byte by byte."""
    streams = planted.go(Scenario(AT_ONCE + prelude), ON_WORKERS)
    assert streams["stdout"].count(b"differentially private") == len(ON_WORKERS)
    tasks = ("cross-validate candidates", "try out trainings")
    shown = search(planted.run, {task: {task.encode()} for task in tasks})
    assert {which for where, which in shown if where.startswith("prefect/prefect.db")} == set(tasks)
    found = planted.found(streams)
    if prelude:
        assert {f"part {j} of 0" for j in range(3)} <= {which for where, which in found if "prefect.db" in where}
    else:
        assert found == set()
