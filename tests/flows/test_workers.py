"""Scale-out: partitions are one table to the last bit, workers train what we would, nothing sensitive travels."""

import asyncio
import functools
import pickle
import time
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import tomli_w
from audit.leaks import Scenario, make_world
from canary import search
from worlds import mostly_slow, plain, with_method

from dpbo.flows.prefect_runtime.workers import (
    SETTING,
    from_one_width,
    n_workers,
    of_one_width,
    workers,
    workers_for,
)
from dpbo_core.data.files import parts_of
from dpbo_core.errors import Sealed, StudyInvalid
from dpbo_core.mechanisms.noise import InjectedNoise
from dpbo_core.methods import METHODS
from dpbo_core.methods.public_search import search_on_public_data
from dpbo_core.preparation import data_split
from dpbo_core.preparation.precomputed import (
    Precomputed,
    cross_validate_candidates,
    remembering,
    required_public_scores,
    required_trainings,
    train_candidates,
)
from dpbo_core.preparation.resolve import resolve
from dpbo_core.preparation.run import Run
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.queries.evaluation import counting
from dpbo_core.queries.evaluation.binary import BinaryCells
from dpbo_core.queries.evaluation.counting import Counter
from dpbo_core.queries.evaluation.histogram_cells import WEIGHT, Grouping
from dpbo_core.queries.tuning.run import open_study
from dpbo_core.scoring.partitioned import PartitionedObjective, PartReader, PartWorker
from dpbo_core.study_file import StudySpec


@pytest.fixture
def world(here, tables):
    """One table as a file and as a folder of seven uneven parts, some records broken: (spec of each)."""
    rng = np.random.default_rng(8)

    def frame(n):
        x = rng.normal(size=(n, 3))
        return pd.DataFrame(x, columns=list("abc")).assign(ill=(x[:, 0] + rng.normal(size=n) > 0).astype(int))

    frame(80).to_parquet(here / "train.parquet", index=False)
    V = frame(500)
    V.loc[[3, 77, 400], "b"] = [np.nan, np.inf, 1e300]
    V.loc[9, "ill"] = 7
    V.to_parquet(here / "validation.parquet", index=False)
    (here / "parts").mkdir()
    for j, (start, stop) in enumerate(pairwise([0, 1, 2, 130, 131, 300, 499, 500])):
        V.iloc[start:stop].to_parquet(here / "parts" / f"{j:02d}.parquet", index=False)
    files = {"training": "train.parquet", "n_validation": 500, "target": "ill"}

    def spec(validation, **study):
        with_method(tables, study.pop("method", "private_trajectory"))["study"] |= study
        return StudySpec.from_dict(tables | {"data": files | {"validation": validation}})

    return spec


def total(objective, model):
    return objective.evaluate(model).expose()


@pytest.fixture(scope="module")
def cluster():
    """Two worker processes for this file."""
    pytest.importorskip("distributed", reason="the extra dask is not installed")
    with workers(2) as pool:
        yield pool


@pytest.mark.parametrize("estimator", mostly_slow(["logistic", "sklearn.tree.DecisionTreeClassifier"], "logistic"))
def test_parts_add_up_to_the_last_bit(world, tables, here, cluster, estimator):
    if estimator != "logistic":
        tables["model"] = {"estimator": estimator, "score": "accuracy"}
        tables["space"] = {"max_depth": {"low": 1, "high": 6, "integer": True}}
    whole, split = world("validation.parquet"), world("parts")
    public = data_split.public_half(whole, here)
    data_split.check_presence(split, here, public)
    one = data_split.sensitive_half(whole, here, public)
    here_alone = data_split.sensitive_half(split, here, public)
    on_workers = data_split.sensitive_half(split, here, public, cluster)
    assert isinstance(on_workers, PartitionedObjective)
    for index in range(0, len(public.problem.candidates), 3):
        model = public.problem.train(index)
        assert total(one, model) == total(here_alone, model) == total(on_workers, model)


@pytest.mark.parametrize("estimator", ["logistic", "sklearn.linear_model.LogisticRegression"])
def test_persons_add_up_to_the_last_bit_wherever_their_records_lie(world, tables, here, cluster, estimator):
    """(sum, count) of each person over all parts, on workers, in this process, and in one table."""
    if estimator != "logistic":
        tables["model"] = {"estimator": estimator, "score": "log_loss"}
        tables["space"] = {"C": {"low": 0.01, "high": 10.0, "log": True, "points": 4}}
    rng = np.random.default_rng(2)
    V = pd.read_parquet(here / "validation.parquet").assign(who=rng.integers(0, 90, 500).astype(str))
    V.loc[[5, 250], "who"] = ""
    V.to_parquet(here / "validation.parquet", index=False)
    for j, (start, stop) in enumerate(pairwise([0, 1, 2, 130, 131, 300, 499, 500])):
        V.iloc[start:stop].to_parquet(here / "parts" / f"{j:02d}.parquet", index=False)

    def by_person(validation):
        made = world(validation).to_dict()
        made["privacy"] |= {"person": "who", "max_records_per_person": 1}
        made["data"] = {"training": "train.parquet", "validation": validation, "target": "ill", "n_persons": 90}
        return StudySpec.from_dict(made)

    whole, split = by_person("validation.parquet"), by_person("parts")
    public = data_split.public_half(whole, here)
    data_split.check_presence(split, here, public)
    halves = [
        data_split.sensitive_half(whole, here, public),
        data_split.sensitive_half(split, here, public),
        data_split.sensitive_half(split, here, public, cluster),
    ]
    for index in range(0, len(public.problem.candidates), 3):
        model = public.problem.train(index)
        one, here_alone, on_workers = (total(half, model) for half in halves)
        assert one == here_alone == on_workers > 0
    (here / "parts" / "03.parquet").unlink()
    with pytest.raises(Sealed):
        total(halves[2], model)


@pytest.mark.parametrize("estimator", ["logistic", "sklearn.tree.DecisionTreeClassifier"])
def test_a_reports_table_adds_up_to_the_last_record(world, tables, here, cluster, estimator):
    """Counts of records in cells, and of persons' shares: one table, in this process, and on workers."""
    if estimator != "logistic":
        tables["model"] = {"estimator": estimator, "score": "accuracy"}
        tables["space"] = {"max_depth": {"low": 1, "high": 6, "integer": True}}
    whole = world("validation.parquet")
    public = data_split.public_half(whole, here)
    verb = "decision_function" if estimator == "logistic" else "predict_proba"
    groups = Grouping("ill", (0.0, 1.0))
    counter = Counter(
        public.preprocessing, public.problem.train(2), BinaryCells((-0.5, 0.0, 0.2, 0.5), verb), groups
    )
    parts = parts_of(here / "parts")
    table = data_split.validation_table(whole.data, here)
    one = counting.count(counter, table).expose()
    here_alone = counting.count_parts(counter, parts, 500).expose()
    on_workers = counting.count_parts(counter, parts, 500, cluster).expose()
    assert one.sum() == 500
    assert (one == here_alone).all()
    assert (one == on_workers).all()
    assert counting.PartCounter(counter).n_numbers == len(one)  # an answer is as wide whatever is in it
    with pytest.raises(Sealed):
        counting.count_parts(counter, parts, 499, cluster)
    V = pd.read_parquet(here / "validation.parquet")
    people = [str(i % 90) for i in range(500)]
    for j, (start, stop) in enumerate(pairwise([0, 1, 2, 130, 131, 300, 499, 500])):
        V.assign(who=people).iloc[start:stop].to_parquet(here / "parts" / f"{j:02d}.parquet", index=False)
    one = counting.count_persons(counter, table, people, 95).expose()
    here_alone = counting.count_persons_of_parts(counter, parts, "who", 95).expose()
    on_workers = counting.count_persons_of_parts(counter, parts, "who", 95, cluster).expose()
    assert one.sum() == 95 * WEIGHT
    assert (one == here_alone).all()
    assert (one == on_workers).all()
    (here / "parts" / "03.parquet").unlink()
    with pytest.raises(Sealed):
        counting.count_persons_of_parts(counter, parts, "who", 95, cluster)


def test_a_damaged_part_costs_its_own_records_and_a_lost_one_seals(world, here, cluster):
    spec = world("parts")
    public = data_split.public_half(spec, here)
    model = public.problem.train(4)
    objective = data_split.sensitive_half(spec, here, public, cluster)
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


def test_nothing_sensitive_can_be_sent(world, here, cluster):
    spec = world("parts")
    objective = data_split.sensitive_half(spec, here, data_split.public_half(spec, here), cluster)
    for handle in (Sensitive(987654321), objective):
        with pytest.raises(TypeError, match=r"stays|leaves"):
            pickle.dumps(handle)
        with pytest.raises(Exception) as refused:  # noqa: PT011  Dask has an error of its own for it
            cluster._client.submit(type, handle).result()
        assert "987654321" not in str(refused.value)


def test_it_listens_on_the_loopback_alone(cluster):
    info = cluster._client.scheduler_info()
    addresses = [info["address"], *info["workers"], cluster._client.dashboard_link]
    assert len(info["workers"]) == 2
    assert all("127.0.0.1" in address for address in addresses)


def test_a_stranger_on_the_machine_is_not_let_in(cluster):
    """Without a certificate, with one of his own, or in plain: he gets no answer. We do."""
    from distributed.comm import connect
    from distributed.security import Security

    address = cluster._client.scheduler_info()["address"]
    assert address.startswith("tls://")

    async def knock(where, security, patience=3):  # a stranger who waits longer is let in no more
        comm = await connect(where, timeout=patience, **security.get_connection_args("client"))
        await comm.write({"op": "identity", "reply": True, "close": True})
        answer = await comm.read()
        comm.abort()
        return answer

    assert asyncio.run(knock(address, cluster._client.security, 300))["type"] == "Scheduler"
    for stranger in (Security(), Security.temporary()):
        with pytest.raises((OSError, TypeError)):
            asyncio.run(knock(address, stranger))
    with pytest.raises(OSError, match=r"(?i)timed out|comm|connect"):
        asyncio.run(knock(address.replace("tls://", "tcp://"), Security()))


def test_a_worker_keeps_its_memory_and_is_not_watched_by_dask(cluster):
    """Freed blocks went back to the system, and its profiler kept where in the scoring a worker was."""
    import dask

    def settings():
        import os

        names = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")
        return [os.environ[name] for name in names], dask.config.get("distributed.worker.profile.enabled")

    found = cluster._client.run(settings)
    assert set(map(repr, found.values())) == {repr(([str(2**28), str(2**25)], False))}


SCAN = """
found = []
for port, path in given["asks"]:
    try:
        answer = httpx.get(f"http://127.0.0.1:{port}{path}", timeout=120)
        found.append([port, path, answer.text if "sitemap" in path else answer.status_code])
    except httpx.TransportError:
        found.append([port, path, None])
print(json.dumps(found))
"""
PAGES = ["/metrics", "/health", "/info/main/workers.html", "/json/counts.json", "/json/index.html", "/status",
         "/statics/css/base.css", "/proxy/1/127.0.0.1/status", "/individual-plots.json", "/"]  # fmt: skip
SITEMAP = "/sitemap.json"  # its list of its pages, which cannot be taken off


def test_a_second_user_sees_no_counter(cluster):
    """Every port that our processes listen on, every page that Dask has: TLS without his certificate, or 404."""
    import os

    from intruder import as_nobody, family
    from team import ports_of

    ports = sorted(ports_of(family(os.getpid())))
    info = cluster._client.scheduler_info()
    told = {worker["services"]["dashboard"] for worker in info["workers"].values()} | {
        info["services"]["dashboard"]
    }
    assert told <= set(ports)
    tls = {int(address.rsplit(":", 1)[1]) for address in (info["address"], *info["workers"])}
    pages = [(port, path) for port in sorted(told) for path in (*PAGES, SITEMAP)]
    found = as_nobody(SCAN, asks=[*pages, *((port, path) for port in sorted(tls) for path in ("/", "/metrics"))])
    assert {status for port, path, status in found if port in told and path != SITEMAP} == {404}
    assert {text for port, path, text in found if path == SITEMAP} == {'{"paths": ["/sitemap.json"]}'}  # Dask's own
    assert {status for port, _, status in found if port in tls} == {None}
    assert len(found) == len(told) * (len(PAGES) + 1) + 2 * len(tls)


@pytest.mark.parametrize("answer", [None, (0, 0), (2**30 - 1, 1), (2**30, 1), (2**62, 10**9), (-(2**40), 3)])
def test_an_answer_is_as_wide_as_any_other(answer):
    """In memory, as Dask counts it, and on the wire; a Python integer took 4 bytes more from 2^30 on."""
    from distributed.protocol import serialize_bytes
    from distributed.sizeof import sizeof

    raw = of_one_width(lambda part: answer, "part")
    assert from_one_width(raw) == answer
    assert (sizeof(raw), len(serialize_bytes(raw))) == (sizeof(bytes(48)), len(serialize_bytes(bytes(48))))
    assert sizeof(2**30) != sizeof(2**30 - 1)


def test_the_counters_of_workers_are_the_same_on_both_sides_of_a_threshold(cluster):
    """What told one bit of a sum: the bytes that the scheduler counts for each answer."""
    counted = []
    for total in (2**30 - 1, 2**30, 2**45):
        futures = cluster._client.map(
            functools.partial(of_one_width, functools.partial(constant, (total, 7))), range(3), pure=False
        )
        cluster._client.gather(futures)
        story = cluster._client.run_on_scheduler(sizes_of, [future.key for future in futures])
        counted.append(sorted(story))
        cluster._client.cancel(futures)
    assert counted[0] == counted[1] == counted[2]


def constant(answer, part):
    return answer


def sizes_of(keys, dask_scheduler):
    return [dask_scheduler.tasks[key].nbytes for key in keys]


@pytest.mark.parametrize("kind", METHODS)
def test_no_worker_counts_the_evaluations_of_who_hides_them(world, monkeypatch, kind):
    monkeypatch.setenv(SETTING, "3")
    hidden = METHODS[kind].traits.hides_evaluations
    assert workers_for(resolve(world("parts", method=kind)).method) == (0 if hidden else 3)
    monkeypatch.delenv(SETTING)
    assert workers_for(resolve(world("parts", method=kind)).method) == 0


@pytest.mark.parametrize("kind", METHODS)
def test_what_is_trained_elsewhere_is_what_we_would_train(world, here, kind):
    spec = world("parts", method=kind)
    indices = required_trainings(resolve(spec))
    fixed = METHODS[kind].traits.fixed_path is not None
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
    spec = replace(world("validation.parquet", method=kind), options=options)
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


def test_nothing_is_worked_out_precomputed_on_a_sensitive_training_set(here, monkeypatch):
    from test_dp_hypo import study

    from dpbo.flows.prefect_runtime.fanning_out import precompute

    spec = StudySpec.from_dict(study(here))
    monkeypatch.setenv(SETTING, "2")
    monkeypatch.setattr("dpbo.flows.prefect_runtime.fanning_out.fan_out", None)
    assert required_trainings(resolve(spec)) == required_public_scores(resolve(spec)) == ()
    assert precompute(resolve(spec), ".") is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["searched shortlist", "prior"])
def test_a_release_is_the_same_whoever_worked_ahead(world, here, monkeypatch, name):
    """With the same noise on a dataset declared public; the workers are real, and processes of their own."""
    pytest.importorskip("prefect_dask", reason="the extra dask is not installed")
    from prefect.testing.utilities import prefect_test_harness

    from dpbo.flows.prefect_runtime.fanning_out import precompute
    from dpbo.flows.prefect_runtime.owner import owners_terminal
    from dpbo.flows.prefect_runtime.settings import without_heartbeat
    from dpbo_core.accounting.budget import PrivacyBudget
    from dpbo_core.ledger.ledger import PrivacyLedger

    kind, options, n_known = PUBLIC_SEARCHES[name]
    spec = replace(world("validation.parquet", method=kind), options=options, budget=None)
    monkeypatch.setenv(SETTING, "2")
    with prefect_test_harness(server_startup_timeout=90), without_heartbeat(), owners_terminal():
        precomputed = precompute(resolve(spec), ".")
    assert len(precomputed.scores) == n_known

    def released(work, edition):
        book = PrivacyLedger(f"sqlite:///{here / edition}.db")
        book.set_budget(PrivacyBudget.without_limit("people"))
        run = open_study(spec, Run(book, source=InjectedNoise(np.random.default_rng(3))), precomputed=work)
        steps = [run.step() for _ in range(run.n_steps)]
        return steps, run.finish().release.value

    assert released(precomputed, "with") == released(None, "without")


@pytest.mark.slow
def test_a_study_on_workers_shows_prefect_candidates_and_steps_only(world, tables, here, monkeypatch):
    pytest.importorskip("prefect_dask", reason="the extra dask is not installed")
    from prefect.client.orchestration import get_client
    from prefect.testing.utilities import prefect_test_harness

    from dpbo.flows.prefect_runtime.owner import owners_terminal
    from dpbo.flows.prefect_runtime.settings import without_heartbeat
    from dpbo.flows.tune import tune_privately

    monkeypatch.setenv(SETTING, "2")
    tables["space"]["lambda"]["points"] = 4
    spec = world("parts", method="private_grid", name="scaled out")
    (here / "study.toml").write_text(tomli_w.dumps(spec.to_dict()))
    with prefect_test_harness(server_startup_timeout=90), without_heartbeat(), owners_terminal():
        release = tune_privately(spec).result.release
        wanted, names, end = {"train candidates", "reserve the budget", "step 1 of 4"}, set(), time.monotonic() + 60
        with get_client(sync_client=True) as client:
            while not wanted <= names and time.monotonic() < end:  # the server writes them down some time later
                names = {run.name.rsplit("-", 1)[0] for run in client.read_task_runs(limit=200)}
    assert 0.0 < release.value["score"] < 1.2
    assert wanted <= names


LEAKY_PARTS = """
from dpbo.flows.prefect_runtime.workers import DaskWorkers
honest = DaskWorkers.map
def leaky(self, work, parts):
    from prefect import get_run_logger
    answers = honest(self, work, parts)
    get_run_logger().warning("the parts came to %s", answers)
    return answers
DaskWorkers.map = leaky
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
    tables["privacy"]["epsilon"], tables["data"]["validation"] = 1.0, "../data/parts"
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
    """Prefect's database, MLflow's, the ledger, Dask's scratch folders and both streams, byte by byte."""
    pytest.importorskip("prefect_dask", reason="the extra dask is not installed")
    streams = planted.go(Scenario(prelude, environment={SETTING: "2"}), ON_WORKERS)
    assert streams["stdout"].count(b"differentially private") == len(ON_WORKERS)
    shown = search(
        planted.run, {task: {task.encode()} for task in ("cross-validate candidates", "train candidates")}
    )
    in_prefect = {which for where, which in shown if where.startswith("prefect/prefect.db")}
    assert in_prefect == {"cross-validate candidates", "train candidates"}
    found = planted.found(streams)
    if prelude:
        assert {f"part {j} of 0" for j in range(3)} <= {which for where, which in found if "prefect.db" in where}
    else:
        assert found == set()


def test_without_the_setting_no_worker_starts(world, here, monkeypatch):
    from dpbo_core.ledger.ledger import PrivacyLedger

    monkeypatch.delenv(SETTING, raising=False)
    assert n_workers() == 0
    with workers() as pool:
        assert pool is None
    run = open_study(world("parts"), Run(PrivacyLedger(f"sqlite:///{here / 'l.db'}"), folder=here))
    assert run.step()["step"] == 1
    monkeypatch.setenv(SETTING, "many")
    with pytest.raises(StudyInvalid, match="many"):
        n_workers()
