"""`PrivateTrials`: any trainer in a process of its own, whose number and whose failures nothing tells."""

import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import cloudpickle
import dp_accounting as dp
import numpy as np
import own_trainers
import pandas as pd
import pytest
from own_trainers import Threshold, records

from dpbo import Declared, DpSgd, Event, PrivateTrials, PureDp, Zcdp
from dpbo.features.private_training import trial_child, trial_search
from dpbo.features.private_training.trial_price import TrialPrice, TrialTerms
from dpbo.features.private_training.trial_process import Confinement, namespaces_available
from dpbo.features.private_training.trial_search import agrees
from dpbo.features.private_training.trial_vault import TrialVault
from dpbo_core.errors import AssumptionNotAccepted, BudgetRefused, Sealed, StudyInvalid
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.models.integer_sums import GRID
from dpbo_core.privacy.guarantee import NeighboringRelation

ACCEPTS = ("declared_cost", "contained_elsewhere")
TRAINING, VALIDATION = records(60), records(40, seed=1)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("DPBO_LEDGER_URL", "DPBO_STATE_DIR", "DPBO_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def search(train=own_trainers.laplace, **others):
    settings = {
        "epsilon": 4.0,
        "delta": 0.0,
        "dataset": "clinic",
        "budget": (4.0, 0.0),
        "training": PureDp(),
        "score": "accuracy",
        "trials": 1.5,
        "run": 2,
        "accepts": ACCEPTS,
    }
    return PrivateTrials(train, others.pop("space", {"sign": [1]}), **settings | others)


def in_this_process(monkeypatch, counted=None):
    """Do every job here, without a process; the jobs that were done, by kind; K is `counted` where it is given."""
    done, real = [], Confinement.run

    def run(self, job, folder):
        if job["what"] == "nothing":
            return real(self, job, folder)
        done.append(job["what"])
        try:
            head, body = trial_child._train(job) if job["what"] == "train" else trial_child._score(job)
        except (ValueError, RuntimeError):
            return None
        return json.loads(json.dumps(head)), body

    monkeypatch.setattr(Confinement, "run", run)
    if counted is not None:
        monkeypatch.setattr(TrialTerms, "draw_count", lambda self, source: counted)
    return done


def test_a_search_trains_scores_and_releases_the_best(here, capfd):
    made = search()
    found = made.fit(TRAINING, VALIDATION)
    assert found.params == {"sign": 1}
    assert isinstance(found.model, Threshold)
    assert found.guarantee.epsilon == 4.0
    assert found.guarantee.delta == 0.0
    assert "declared_cost" in found.guarantee.assumptions
    assert found.guarantee.relation is NeighboringRelation.REPLACE_ONE
    assert not found.replayed
    assert "as priced; 2 different seeds" in found.checked
    for word in ("PrivateTrials", "accuracy", "declared_cost", "ε = 4", "bytes"):
        assert word in str(found)
    assert [path.name for path in (here / "mlruns").rglob("*.pkl")] == [found.model_file.name]
    assert list((here / "mlruns" / "curator").iterdir()) == []
    again = search().fit(TRAINING, VALIDATION)
    assert again.replayed
    assert again.release == found.release
    (account,) = PrivacyLedger(f"sqlite:///{here}/mlruns/ledger.db").accounts("clinic")
    assert len(account.entries) == 1
    assert capfd.readouterr() == ("", "")
    with pytest.raises(BudgetRefused):
        search(edition="2").fit(TRAINING, VALIDATION)


def test_a_careless_trainer_leaves_nothing_but_its_model(here, capfd, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    files = {"absolute": str(elsewhere / "trial"), "shared memory": f"/dev/shm/{elsewhere.name}-{here.name}"}
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as local:
        server.settimeout(0.01)
        local.bind(str(elsewhere / "s"))
        local.listen()
        space = {
            "files": [files],
            "port": [server.getsockname()[1]],
            "local": [str(elsewhere / "s")],
            "ledger": [str(here / "mlruns" / "ledger.db")],
        }
        made = search(own_trainers.careless, run=1, trials=1)
        made._candidates = lambda: type("Candidates", (), {"points": ({k: v[0] for k, v in space.items()},)})
        found = made.fit(TRAINING, VALIDATION)
        if namespaces_available():
            with pytest.raises(TimeoutError):
                server.accept()
    told = found.model.told
    assert told["variables"] == []
    assert told["folder"] == [True, []]
    assert capfd.readouterr() == ("", "")
    assert list(here.rglob("checkpoint")) == []
    if namespaces_available():
        reached = [told[name] for name in ("absolute", "socket", "socket on a file", "ledger")]
        assert reached == [False] * 4
        assert [*elsewhere.iterdir()] == [elsewhere / "s"]
        assert "contained_elsewhere" not in found.guarantee.assumptions
    else:
        assert "contained_elsewhere" in found.guarantee.assumptions


def test_where_a_system_gives_no_namespaces_the_search_says_so(monkeypatch):
    monkeypatch.setattr("dpbo.features.private_training.private_trials.namespaces_available", lambda: False)
    with pytest.raises(AssumptionNotAccepted, match="contained_elsewhere"):
        search(accepts=("declared_cost",)).fit(TRAINING, VALIDATION)
    found = search(run=1, trials=1).fit(TRAINING, VALIDATION)
    assert "contained_elsewhere" in found.guarantee.assumptions


def test_what_a_training_raises_reaches_no_screen_and_no_store(here, capfd):
    found = search(own_trainers.raises, run=1, trials=1).fit(TRAINING, VALIDATION)
    assert found.model is None
    assert (found.params, found.score) == ({"sign": 1}, 0.0)
    assert capfd.readouterr() == ("", "")
    stored = b"".join(path.read_bytes() for path in here.rglob("*") if path.is_file())
    assert b"to blame" not in stored


def test_a_late_training_is_ended_with_all_that_it_started(here):
    jobs = Confinement(contained=namespaces_available(), timeout=1.0)
    folder = here / "own"
    folder.mkdir()
    job = {"what": "train", "seed": 1, "variable": "epsilon", "value": 1.0, "params": {}}
    job |= {"train": cloudpickle.dumps(own_trainers.sleeps), "data": cloudpickle.dumps(None)}
    assert jobs.run(job, folder) is None


def scores_of(score, data):
    job = {"what": "score", "score": cloudpickle.dumps(score), "model": cloudpickle.dumps(None)}
    job |= {"n_records": len(data[1]), "timeout": None, "data": cloudpickle.dumps(data)}
    return (np.frombuffer(trial_child._score(job)[1], dtype=np.int64) / GRID).tolist()


def test_a_record_that_ends_its_process_changes_no_score_but_its_own():
    X = np.array([[0], [1], [0], [2], [signal.SIGALRM], [0], [signal.SIGKILL]])  # the alarm: a late record
    assert scores_of(own_trainers.ends_its_process, (X, np.zeros(7))) == [1, 0, 1, 0, 0, 1, 0]


def test_a_record_that_never_ends_is_ended_where_no_limit_is_stated():
    assert scores_of(own_trainers.has_a_limit, (np.zeros((2, 1)), np.zeros(2))) == [1, 1]


def test_a_score_that_cannot_be_loaded_says_why_in_a_rehearsal():
    with pytest.raises(RuntimeError, match="no_such_module"):
        scores_of("no_such_module:score", (np.zeros((2, 1)), np.zeros(2)))


@pytest.mark.parametrize("frame", [False, True])
def test_a_text_among_numbers_changes_no_score_but_its_own(frame):
    y = np.array([1.0, "x", 0.0], dtype=object)
    label = pd.Series(y) if frame else y
    assert scores_of(own_trainers.needs_a_number, (np.zeros((3, 1)), label)) == [1, 0, 1]


def test_a_trainer_cannot_undo_what_hides_the_stores(here):
    if not namespaces_available():
        pytest.skip("this system gives no namespaces")
    store, folder = here / "store", here / "own"
    store.mkdir()
    folder.mkdir()
    (store / "ledger.db").write_text("K = 3")
    job = {"what": "train", "seed": 1, "variable": "epsilon", "value": 1.0, "params": {"hidden": str(store)}}
    job |= {"train": cloudpickle.dumps(own_trainers.unmounts), "data": cloudpickle.dumps(None)}
    _, model = Confinement((str(store),), contained=True).run(job, folder)
    assert cloudpickle.loads(model) == []


def test_no_two_generators_of_pytorch_draw_the_same(monkeypatch):
    seeds = []
    generator = SimpleNamespace(manual_seed=seeds.append)
    torch = SimpleNamespace(manual_seed=seeds.append, Generator=lambda: generator)
    monkeypatch.setitem(sys.modules, "torch", torch)
    for seed in (1, 2):
        trial = trial_child.Trial(seed, "noise_multiplier", 1.0)
        trial.torch_generator()
        trial.torch_generator()
    assert len({1, 2, *seeds}) == 2 + 8


@pytest.mark.parametrize("counted", [1, 3])
def test_all_trainings_run_and_the_best_of_those_that_count_is_released(monkeypatch, counted):
    done = in_this_process(monkeypatch, counted)
    candidates = iter([0, 0, 1, 1])  # the best is the third
    monkeypatch.setattr(trial_search, "draw_index", lambda weights, source: next(candidates))
    made = search(space={"sign": [-1, 1]}, epsilon=300.0, budget=(300.0, 0.0), trials=3, run=4)
    found = made.fit(TRAINING, VALIDATION)
    assert Counter(done) == {"train": 4, "score": 4}
    assert found.params == {"sign": 1 if counted == 3 else -1}


def test_a_killed_search_goes_on_with_the_same_draw_and_pays_once(here, monkeypatch):
    done = in_this_process(monkeypatch, counted=2)
    run, left = Confinement.run, [5]

    def killed(self, job, folder):
        left[0] -= job["what"] != "nothing"
        if not left[0]:
            raise OSError
        return run(self, job, folder)

    monkeypatch.setattr(Confinement, "run", killed)
    made = search(space={"sign": [-1, 1]}, trials=2, run=4)
    with pytest.raises(Sealed):
        made.fit(TRAINING, VALIDATION)
    (vault,) = (here / "mlruns" / "curator").iterdir()
    drawn = (vault / "draw.json").read_bytes()
    assert sorted(path.name for path in vault.glob("[0-9].json")) == ["0.json", "1.json"]
    kept = []
    drawn_anew = TrialVault.drawn
    monkeypatch.setattr(TrialVault, "drawn", lambda *call: kept.append(drawn_anew(*call)) or kept[-1])
    found = made.fit(TRAINING, VALIDATION)
    assert len(done) == 8
    assert list(kept[0].candidates) == json.loads(drawn)["candidates"]
    assert list(kept[0].seeds) == json.loads(drawn)["seeds"]
    assert repr(kept[0]) == object.__repr__(kept[0])
    (account,) = PrivacyLedger(f"sqlite:///{here}/mlruns/ledger.db").accounts("clinic")
    assert len(account.entries) == 1
    assert not found.replayed
    assert not vault.exists()


def test_a_search_whose_process_is_killed_goes_on_in_another(here):
    space = {"sign": [1], "until": [str(here / "go on")]}
    (here / "run.py").write_text(
        "import own_trainers\n"
        "from dpbo import PrivateTrials, PureDp\n"
        f"PrivateTrials(own_trainers.begins_and_waits, {space!r}, epsilon=4.0, delta=0.0, dataset='clinic',\n"
        "    budget=(4.0, 0.0), training=PureDp(), score='accuracy', trials=1, run=1,\n"
        f"    accepts={ACCEPTS}).fit(own_trainers.records(60), own_trainers.records(40, seed=1))\n"
    )
    (here / "temporary").mkdir()
    paths = [str(Path(own_trainers.__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    environment["TMPDIR"] = str(here / "temporary")
    process = subprocess.Popen([sys.executable, "run.py"], env=environment)
    try:
        while process.poll() is None and not list(here.glob("mlruns/curator/*/0-*/begun")):
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
    (vault,) = (here / "mlruns" / "curator").iterdir()
    assert not (vault / "0.json").exists()
    (left,) = vault.glob("0-*")
    assert left.stat().st_mode & 0o777 == 0o700  # so that nobody else reaches a socket there
    assert [*(here / "temporary").iterdir()] == []
    (here / "go on").touch()
    found = search(own_trainers.begins_and_waits, space=space, run=1, trials=1).fit(TRAINING, VALIDATION)
    assert found.model.told == []  # nothing of the killed run, whose noise would come again
    assert not vault.exists()
    (account,) = PrivacyLedger(f"sqlite:///{here}/mlruns/ledger.db").accounts("clinic")
    assert len(account.entries) == 1


def test_several_trainings_run_at_once(here, monkeypatch):
    done = in_this_process(monkeypatch)
    found = search(run=6, trials=2, workers=3).fit(TRAINING, VALIDATION)
    assert Counter(done) == {"train": 6, "score": 6}
    assert found.release.facts["trainings"] == 6


def test_a_release_recorded_before_a_kill_is_not_drawn_again(here, monkeypatch):
    in_this_process(monkeypatch)
    publish, calls = trial_search.TrialSearch._publish, []

    def killed(self, digest):
        calls.append(digest)
        if len(calls) == 1:
            raise OSError
        publish(self, digest)

    monkeypatch.setattr(trial_search.TrialSearch, "_publish", killed)
    made = search()
    with pytest.raises(Sealed):
        made.fit(TRAINING, VALIDATION)
    found = made.fit(TRAINING, VALIDATION)
    assert calls[0] == calls[1] == found.release.value["model"]["sha256"]
    assert isinstance(found.model, Threshold)


@pytest.mark.parametrize(
    ("train", "refusal"),
    [
        (own_trainers.overspends, "differs from the priced"),
        (own_trainers.seeds_with_a_constant, "random state to a constant"),
    ],
)
def test_a_spend_or_a_seed_that_is_not_as_priced_refuses_the_search(here, monkeypatch, train, refusal):
    in_this_process(monkeypatch)
    for _ in range(2):
        with pytest.raises(StudyInvalid, match=refusal):
            search(train).fit(TRAINING, VALIDATION)
    assert not (here / "mlruns" / "models").exists()


def test_a_rehearsal_charges_nothing_and_shows_every_message(here):
    assert search().rehearse(TRAINING, VALIDATION)["spent"] == pytest.approx(
        search()._price(60, 40, disjoint=False).level
    )
    with pytest.raises(StudyInvalid, match="to blame"):
        search(own_trainers.raises).rehearse(TRAINING, VALIDATION)
    assert not (here / "mlruns" / "models").exists()
    assert not PrivacyLedger(f"sqlite:///{here}/ledger.db").accounts("clinic")


@pytest.mark.parametrize(
    ("train", "refusal"),
    [(own_trainers.overspends, "was priced"), (own_trainers.seeds_with_a_constant, "random state to a constant")],
)
def test_a_rehearsal_finds_what_would_refuse_the_search(monkeypatch, train, refusal):
    in_this_process(monkeypatch)
    with pytest.raises(StudyInvalid, match=refusal):
        search(train).rehearse(TRAINING, VALIDATION)


def test_a_record_that_cannot_be_scored_scores_nothing(monkeypatch):
    in_this_process(monkeypatch)
    X, _ = VALIDATION
    made = search(score=own_trainers.unscorable, epsilon=300.0, budget=(300.0, 0.0), run=1, trials=1)
    found = made.fit(TRAINING, VALIDATION)
    scale = found.release.spends[0].noise_scale
    assert abs(found.score - np.mean(X[:, 0] > 0)) < 25 * scale  # exceeded with probability e^−25


def test_one_table_is_divided_so_that_each_record_pays_once(monkeypatch):
    in_this_process(monkeypatch)
    found = search(epsilon=2.0).fit(records(100))
    facts = found.release.facts
    assert (facts["n_training"], facts["n_validation"]) == (75, 25)
    assert "disjoint_people" not in found.guarantee.assumptions
    assert "disjoint_people" not in facts["options"]["people"]
    both_pay = search(epsilon=2.0, edition="3").fit(TRAINING, VALIDATION)
    assert both_pay.release.facts["options"]["people"] == "any"
    assert "disjoint_people" not in both_pay.guarantee.assumptions
    with pytest.raises(AssumptionNotAccepted, match="disjoint_people"):
        search(people="disjoint", edition="2").fit(TRAINING, VALIDATION)
    alone, both = (search()._price(60, 40, disjoint=disjoint) for disjoint in (True, False))
    assert alone.level > both.level
    assert alone.score.scale < both.score.scale


def test_one_table_is_not_divided_where_a_record_more_moves_the_others(monkeypatch):
    in_this_process(monkeypatch)
    with pytest.raises(StudyInvalid, match="one table cannot be divided"):
        search(neighbours="add_or_remove").fit(TRAINING)


@pytest.mark.parametrize(
    ("neighbours", "relation"), [("add_or_remove", "add_or_remove_one"), ("zero_out", "zero_out")]
)
def test_a_cap_keeps_guarantees_of_one_relation(monkeypatch, neighbours, relation):
    in_this_process(monkeypatch)
    found = search(neighbours=neighbours, epsilon=2.0).fit(TRAINING, VALIDATION)
    assert found.guarantee.relation.value == relation
    with pytest.raises((BudgetRefused, StudyInvalid), match=r"replace one|never change"):
        search(epsilon=2.0, edition="2").fit(TRAINING, VALIDATION)
    with pytest.raises(BudgetRefused, match="replace one"):
        search(epsilon=2.0, edition="2", budget=None).fit(TRAINING, VALIDATION)


def test_nothing_runs_that_nobody_answers_for_or_pays():
    with pytest.raises(AssumptionNotAccepted, match="declared_cost"):
        search(accepts=()).fit(TRAINING, VALIDATION)
    with pytest.raises(BudgetRefused):
        search(budget=None).fit(TRAINING, VALIDATION)


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"neighbours": "add"}, "add_or_remove"),
        ({"training": 3.0}, "no declared cost"),
        ({"people": "few"}, "people"),
        ({"run": 0}, "run = 0"),
        ({"trials": 1}, "trials = 1"),
        ({"trials": math.nan}, "trials = nan"),
        ({"trials": math.inf}, "trials = inf"),
        ({"timeout": math.nan}, "timeout = nan"),
        ({"train": "own_trainers.laplace"}, "package.module:function"),
        ({"score": "auc"}, "package.module:function"),
        ({"workers": 0}, "workers"),
        ({"timeout": -1.0}, "timeout"),
        ({"validation_share": 1.0}, "validation_share"),
        ({"training": DpSgd(batch_size=5, epochs="epochs"), "delta": 1e-6}, "no axis"),
        ({"training": Zcdp()}, "delta = 0"),
        ({"training": Declared(epsilon=5.0)}, "does not pay"),
    ],
)
def test_what_cannot_be_priced_is_refused_before_a_charge(changes, refusal):
    with pytest.raises(StudyInvalid, match=refusal):
        search(**changes).fit(TRAINING, VALIDATION)


@pytest.mark.parametrize("delta", [-1e-9, 1.0, math.nan, math.inf, "1e-6"])
def test_a_declared_delta_that_is_none_is_refused(delta):
    with pytest.raises(StudyInvalid, match="from 0 to below 1"):
        Declared(1.0, delta)


def test_dp_sgd_counts_batches_as_opacus_does():
    assert DpSgd(batch_size=256, epochs=30).key({}, 1078) == (0.2, 150)
    assert DpSgd(sampling_probability=0.2375, steps="steps").key({"steps": 126}, 1078) == (0.2375, 126)
    assert DpSgd(batch_size=lambda point: point["b"], epochs=1).key({"b": 100}, 1000) == (0.1, 10)
    for wrong in ({}, {"batch_size": 1}, {"batch_size": 1, "sampling_probability": 0.1, "steps": 1}):
        with pytest.raises(StudyInvalid, match="needs"):
            DpSgd(**wrong)


def test_reports_of_many_kinds_are_one_spend():
    family, point = DpSgd(sampling_probability=0.25, steps=40), {}
    expected = family.expected(1.59, point, 100)
    engine = type("Engine", (), {"accountant": type("A", (), {"history": [(1.59, 0.25, 30), (1.59, 0.25, 10)]})})
    numpy_history = [(np.float64(1.59), np.float32(0.25), np.int64(40))]
    for report in (
        *(engine, engine.accountant, engine.accountant.history, numpy_history, family.event(1.59, point, 100)),
    ):
        json.dumps(trial_child.spend_of(report))
        assert agrees(expected, trial_child.spend_of(report))
    for report in ([(1.59, 0.25, 41)], [(1.6, 0.25, 40)], [(1.59, 0.2, 40)], [], 1.59, dp.NoOpDpEvent()):
        assert not agrees(expected, trial_child.spend_of(report))
    accountant = type("Accountant", (), {"total": lambda self: (1.5, 0.0)})()
    assert agrees(PureDp().expected(1.0 / 1.5, point, 100), trial_child.spend_of(accountant))
    whole = Declared(2.0, 1e-6)
    assert agrees(whole.expected(1.0, point, 100), trial_child.spend_of((np.int64(2), 1e-6)))
    assert agrees(PureDp().expected(0.5, point, 100), trial_child.spend_of(np.int64(2)))
    event = Event(lambda noise, point: dp.GaussianDpEvent(noise))
    assert agrees(event.expected(2.0, point, 100), trial_child.spend_of(dp.GaussianDpEvent(2.0)))


def test_a_trial_hands_out_its_noise_and_its_randomness_alone():
    trial = trial_child.Trial(2**63 + 1, "rho", 0.5)
    assert trial.rho == 0.5
    assert trial.rng.integers(2**62) != np.random.default_rng(trial.seed).integers(2**62)
    again = trial_child.Trial(2**63 + 1, "rho", 0.5)
    assert again.rng.bytes(8) != trial_child.Trial(2**63 + 2, "rho", 0.5).rng.bytes(8)
    with pytest.raises(AttributeError, match="hands it rho"):
        _ = trial.noise_multiplier
    with pytest.raises(AttributeError):
        _ = trial.should_prune


def terms(family, points=({},), **others):
    stated = {"neighbours": "add_or_remove", "epsilon": 8.0, "delta": 1e-5, "trials": 10.0, "run": 15}
    return TrialTerms(family, points, 1078, 360, **stated | {"disjoint": True} | others)


@pytest.mark.parametrize(
    "family", [PureDp(), Zcdp(), Declared(1.0), pytest.param(Declared(1.0, 1e-8), marks=pytest.mark.slow)]
)
def test_a_price_is_what_its_parts_cost_and_uses_up_its_epsilon(family):
    disjoint, delta = family != Zcdp(), 0.0 if family == Declared(1.0) else 1e-5
    price = TrialPrice.of(terms(family, disjoint=disjoint, delta=delta))
    assert price.epsilon <= 8.0
    training = family.profile(price.noises[0], {}, 1078, "add_or_remove")
    if not price.terms.pure:
        assert price.terms.price_of(training) <= price.epsilon
    if family in (PureDp(), Zcdp()):
        assert price.epsilon > 7.9


@pytest.mark.slow
def test_dp_sgd_is_calibrated_as_the_prototype_was():
    price = TrialPrice.of(
        terms(DpSgd(batch_size=270, epochs="epochs"), tuple({"epochs": e} for e in [10, 25] * 12))
    )
    assert price.noises[0] == pytest.approx(1.594, rel=3e-3)
    assert price.noises[1] == pytest.approx(2.274, rel=3e-3)
    assert price.score.scale * price.score.unit == pytest.approx(0.0024, rel=0.03)
    assert price.grid_epsilon == pytest.approx(57.7, rel=2e-3)


def test_dp_sgd_under_replace_one_costs_more():
    family = DpSgd(sampling_probability=0.5, steps=2)
    one, zeroed, other = (
        family.profile(2.0, {}, 100, name).epsilon(1e-5) for name in ("add_or_remove", "zero_out", "replace_one")
    )
    assert one == zeroed
    assert 1.5 < other / one < 2.1


def test_a_plan_opens_nothing_and_says_what_is_never_worth_it(here):
    made = search(space={"sign": [-1, 1]}, n_training=100, n_validation=50)
    text = str(made.plan())
    for words in ("2 trainings always run", "nothing was charged", "in fact ε = 8", "declared_cost", "run = 1"):
        assert words in text
    assert not (here / "mlruns").exists()
    with pytest.raises(StudyInvalid, match="n_training"):
        search().plan()
