"""Editions that learn: only from what earlier ones released, which of them is fixed with the charge, soundly."""

import shutil
import sqlite3
from dataclasses import replace
from math import log
from unittest import mock

import numpy as np
import pytest
from failure_worlds import frame
from worlds import Memory

from dpbo_core.errors import LedgerDamaged, StudyInvalid
from dpbo_core.ledger import audit
from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.charge import Charge, QueryKey, WarmStart
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.store import LedgerStore
from dpbo_core.mechanisms.noise import InjectedNoise, Noise, OperatingSystemNoise
from dpbo_core.methods.contract import make_release
from dpbo_core.methods.private_grid import PrivateGrid
from dpbo_core.methods.private_trajectory import PrivateTrajectory
from dpbo_core.search.bo import UCB, AveragedSearch, SearchDomain, prior_of
from dpbo_core.search.drifting import CHANGE_PROBABILITY, DRIFTS, LEVEL_DEVIATION, Observations, past_observations
from dpbo_core.search.gp import Matern52
from dpbo_core.search.learning import FRESH_SHARE, LearningSearch
from dpbo_core.study import StudySpec, editions, tuning
from dpbo_core.study.query import OS_NOISE, QueryContext
from dpbo_core.study.resolve import plan_study, problem_of
from dpbo_core.study.run import Run
from dpbo_core.study.tuning import open_study, run_study

LINE = np.linspace(0.0, 1.0, 12)[:, None]
PRIOR = prior_of(kernel="matern52", lengthscale=0.3, dimensions=1, guessed=False)
DOMAIN = SearchDomain(LINE, PRIOR, 0.05**2, np.zeros(12))


# The model of a drift


def seen(rng, ages, n=4):
    points = np.concatenate([rng.choice(LINE[:, 0], n, replace=False) for _ in ages])[:, None]
    ages = np.repeat(ages, n)
    return Observations(points, ages, rng.normal(size=len(ages)), np.full(len(ages), 0.04), np.zeros(len(ages)))


def covariance(component, one, also):
    """k between observations, as the module's table has it."""
    found, c = component
    kernel = Matern52(float(found.lengthscales[c]), float(found.variances[c]))
    K = kernel.matrix(one.points, also.points)
    apart = np.abs(one.ages[:, None] - also.ages)
    b = found.changes[c]
    same_side = (one.ages[:, None] >= b) == (also.ages >= b)
    K = K * np.exp(-found.drifts[c] * apart) * same_side
    return K + PRIOR.offset_deviation**2 + LEVEL_DEVIATION**2 * (apart == 0)


def test_every_component_is_the_gaussian_process_it_says():
    """Mean, deviation and log-likelihood against the inverse of A; the weights against every other component's."""
    rng = np.random.default_rng(0)
    past = seen(rng, [3, 2, 1])
    found = past_observations(past, PRIOR)
    now = Observations(LINE, np.zeros(12, dtype=np.int64), np.zeros(12), np.zeros(12), np.zeros(12))
    means, deviations = found.moments(LINE, np.zeros(12))
    log_w = []
    for c in range(len(found.weights)):
        A = covariance((found, c), past, past) + np.diag(past.noise)
        K = covariance((found, c), past, now)
        assert means[c] == pytest.approx(K.T @ np.linalg.solve(A, past.values), abs=1e-9)
        left = covariance((found, c), now, now) - K.T @ np.linalg.solve(A, K)
        assert deviations[c] ** 2 == pytest.approx(np.diag(left), abs=1e-9)
        assert found.covariance(c, LINE) == pytest.approx(left, abs=1e-9)
        likelihood = -0.5 * past.values @ np.linalg.solve(A, past.values) - 0.5 * np.linalg.slogdet(A)[1]
        assert found.log_likelihoods[c] == pytest.approx(likelihood)
        length, s = found.lengthscales[c], found.variances[c] ** 0.5
        prior = -0.5 * log(length / PRIOR.lengthscale) ** 2 / PRIOR.lengthscale_spread**2
        prior += -0.5 * log(s / PRIOR.deviation) ** 2 / PRIOR.deviation_spread**2
        log_w.append(likelihood + prior + (log(CHANGE_PROBABILITY) if found.changes[c] <= 3 else 0.0))
    expected = np.exp(np.array(log_w) - max(log_w))
    assert found.weights == pytest.approx(expected / expected.sum())
    assert set(found.drifts) <= set(DRIFTS)


def history(rng, shapes, noise=0.05, n=8):
    """Editions that saw these shapes at random candidates."""
    found = []
    for shape in shapes:
        indices = rng.choice(12, n)
        found.append([(int(i), float(shape[i] + noise * rng.normal()), noise**2) for i in indices])
    return found


def test_a_drift_is_found_and_a_change_is_found():
    rng = np.random.default_rng(1)
    hill, other = np.sin(3 * LINE[:, 0]), np.cos(7 * LINE[:, 0])
    search = LearningSearch(DOMAIN, UCB(4.0), past=history(rng, [hill] * 6))
    found = search._past
    assert found.weights @ found.drifts < 0.02  # nothing drifts
    drifting = [hill + 0.25 * e * LINE[:, 0] * rng.normal() for e in range(6)]
    search = LearningSearch(DOMAIN, UCB(4.0), past=history(rng, drifting))
    assert search._past.weights @ search._past.drifts > 2 * (found.weights @ found.drifts)
    search = LearningSearch(DOMAIN, UCB(4.0), past=history(rng, [hill] * 4 + [other] * 3))
    assert search._past.weights @ (search._past.changes == 4) > 0.9  # the editions of ages 1, 2 and 3 are alike


def test_where_the_present_disagrees_the_past_is_given_up():
    """One search sees what the past foretells, another the opposite: the fresh start weighs nothing, or all."""
    rng = np.random.default_rng(2)
    hill = np.sin(3 * LINE[:, 0])
    past = history(rng, [hill] * 5)
    for shape, fresh in ((hill, 0.02), (-hill, None)):
        search = LearningSearch(DOMAIN, UCB(4.0), past=past)
        assert search.ask() == int(np.argmax(hill))  # where the past expects the best
        for index in (0, 3, 6, 9, 11):
            search.tell(index, float(shape[index]))
        found = search.mixture()
        weight = found.weights[len(found.learned.weights) :].sum()
        if fresh is not None:
            assert weight < fresh < FRESH_SHARE
            continue
        assert weight > 0.999
        afresh = AveragedSearch(DOMAIN, UCB(4.0))
        for index in (0, 3, 6, 9, 11):
            afresh.tell(index, float(shape[index]))
        means, _ = search.domain.moments(found, np.arange(12))
        theirs, _ = afresh.domain.moments(afresh.mixture(), np.arange(12))
        assert found.weights @ means == pytest.approx(afresh.mixture().weights @ theirs, abs=1e-2)


# What earlier editions chose


# Whole studies


def spec(
    edition, *, method="private_trajectory", dataset="clinic", points=8, score="sigmoid", name="nightly", **search
):
    return StudySpec.from_dict(
        {
            "study": {"name": name, "edition": edition, "method": method},
            "privacy": {"dataset": dataset, "epsilon": 1.0, "delta": 1e-6},
            "budget": {"epsilon": 50.0, "delta": 1e-5},
            "data": {"source": "breast_cancer"},
            "model": {"estimator": "logistic", "score": score},
            "space": {"lambda": {"low": 1e-3, "high": 10.0, "log": True, "points": points}},
            "search": {"steps": 3, **search},
        }
    )


@pytest.fixture
def ledger(tmp_path):
    return PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}")


def run_scheduled(study, ledger, folder=".", source=OS_NOISE):
    """One run of a schedule, whose search begins with what earlier runs released."""
    return open_study(Run.of(study, QueryContext(ledger, folder, source, scheduled=True))).run()


def editions_of(release):
    earlier = release.facts.get("learned_from")
    return None if earlier is None else [item["edition"] for item in earlier]


def test_a_schedules_runs_learn_and_say_from_which(ledger):
    releases = [run_scheduled(spec(str(e)), ledger).release for e in range(3)]
    assert [editions_of(release) for release in releases] == [[], ["0"], ["0", "1"]]
    ids = [item["release_id"] for item in releases[2].facts["learned_from"]]
    assert ids == [release.release_id for release in releases[:2]]
    by_hand = run_study(spec("by hand"), ledger=ledger).release
    assert editions_of(by_hand) is None
    asked = run_study(spec("asked", learn_from="editions"), ledger=ledger).release
    assert editions_of(asked) == ["0", "1", "2"]  # what began afresh is in no series
    not_asked = run_scheduled(spec("no", learn_from="nothing"), ledger).release
    assert editions_of(not_asked) is None
    grid = run_scheduled(spec("grid", method="private_grid"), ledger).release
    assert editions_of(grid) is None
    assert releases[2].guarantee == by_hand.guarantee  # the promise is the edition's own
    assert releases[2].spends == by_hand.spends
    audit.verify(ledger.url)


def test_other_scores_spaces_studies_and_people_are_another_series(ledger):
    run_scheduled(spec("0"), ledger)
    for other in (spec("1", score="accuracy"), spec("1", points=9), spec("1", name="weekly")):
        assert editions_of(run_scheduled(other, ledger).release) == []
    assert editions_of(run_scheduled(spec("2", seed=5, steps=2), ledger).release) == ["0"]
    series = editions.series_of(spec("0"))
    assert ledger.released_in("another clinic", series, most=8) == ()
    assert [release.edition for release in ledger.released_in("clinic", series, most=1)] == ["2"]


def test_what_searches_begin_with_is_verified_and_not_read_again_by_each_charge(ledger):
    """One fact an edition: a charge that parsed them all would take longer with every edition."""
    for edition in ("0", "1"):
        run_scheduled(spec(edition), ledger)
    with LedgerStore(ledger.url).writing() as writer:
        facts = writer.facts_of("clinic")
        assert facts
        assert not any('"learned"' in fact for fact in facts)
    with sqlite3.connect(ledger.url.removeprefix("sqlite:///")) as database:
        database.execute("DROP TRIGGER dataset_facts_no_update")
        database.execute("UPDATE dataset_facts SET value = '{}' WHERE about = 'learned'")
    with pytest.raises(LedgerDamaged, match="of dataset_facts was changed: value"):
        audit.verify(ledger.url)


def test_which_editions_is_written_with_the_charge_and_a_later_one_changes_nothing(ledger):
    """An edition that was charged, and drew its first step, goes on with what it began with."""
    run_scheduled(spec("0"), ledger)
    begun = open_study(Run.of(spec("1"), QueryContext(ledger, scheduled=True)))
    first = begun.step()
    run_scheduled(spec("2"), ledger)
    again = open_study(Run.of(spec("1"), QueryContext(ledger)))  # by hand, in another process
    assert again.step() == first
    for _ in range(2):
        again.step()
    release = again.finish().release
    assert editions_of(release) == ["0"]
    assert editions_of(run_scheduled(spec("3"), ledger).release) == ["0", "1", "2"]


def test_of_two_processes_the_first_to_charge_says_what_is_learned(ledger, monkeypatch):
    run_scheduled(spec("0"), ledger)
    looked = editions.editions_to_learn_from

    def late(*arguments):
        found = looked(*arguments)
        monkeypatch.undo()
        run_scheduled(spec("other"), ledger)
        open_study(Run.of(spec("1"), QueryContext(ledger, scheduled=True)))  # charges it, having found one more
        return found

    monkeypatch.setattr(tuning, "editions_to_learn_from", late)
    begun = open_study(Run.of(spec("1"), QueryContext(ledger, scheduled=True)))
    for _ in range(3):
        begun.step()
    assert editions_of(begun.finish().release) == ["0", "other"]


def test_what_was_charged_by_hand_goes_on_afresh(ledger):
    """A study that was charged to begin with nothing has no such fact; a schedule's rerun of it begins so too."""
    run_scheduled(spec("0"), ledger)
    open_study(Run.of(spec("1"), QueryContext(ledger))).step()
    assert editions_of(run_scheduled(spec("1"), ledger).release) is None


def of_files(edition, **search):
    """A study of files, whose editions score different ones."""
    tables = spec(edition, **search).to_dict()
    del tables["budget"]
    files = {
        "training": "train.csv",
        "validation": f"validation-{edition}.csv",
        "n_validation": 24,
        "target": "ill",
    }
    return StudySpec.from_dict(tables | {"data": files})


def test_only_what_was_released_is_learned_from(tmp_path):
    """Two worlds alike but for the records of the first edition, which released the same: so does the second."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    for seed, name in enumerate(("train", "validation-1", "validation-2")):
        frame(seed).to_csv(here / f"{name}.csv", index=False)
    PrivacyLedger(f"sqlite:///{here / 'ledger.db'}").set_budget(PrivacyBudget.without_limit("clinic"))

    def released(folder, edition):
        ledger = PrivacyLedger(f"sqlite:///{folder / 'ledger.db'}")
        source = InjectedNoise(np.random.default_rng(int(edition)))  # seeded, so of a public dataset alone
        return run_scheduled(of_files(edition), ledger, folder, source).release

    released(here, "1")
    shutil.copytree(here, there)
    frame(77).assign(ill="yes").to_csv(there / "validation-1.csv", index=False)
    one, two = (released(folder, "2").to_json() for folder in (here, there))
    for item in (one, two):
        assert item["facts"]["learned_from"] == [{"edition": "1", "release_id": mock.ANY}]
        del item["released_at"], item["ledger"]
    assert one == two


def test_the_fingerprint_of_a_study_that_says_nothing_is_as_it_was():
    assert "learn_from" not in spec("1").to_dict()["search"]
    assert spec("1", learn_from="nothing").to_dict()["search"]["learn_from"] == "nothing"
    with pytest.raises(StudyInvalid, match="editions"):
        spec("1", learn_from="edition")
    for method in ("lipschitz", "private_grid"):
        with pytest.raises(StudyInvalid, match=f"{method} begins every search afresh"):
            plan_study(spec("1", method=method, learn_from="editions"))
    plan_study(spec("1", method="auto", learn_from="editions"))


def test_months_of_one_name_with_a_date_are_one_series(ledger):
    """Datasets that a served pattern stands for; a dataset that no pattern knows is none of them."""
    learned = WarmStart("s" * 64, ())
    for name in ("visits {month}", "visits 2026-01", "visits 2026-02", "others 2026-01"):
        ledger.set_budget(PrivacyBudget.of(name, epsilon=5.0, delta=1e-5))
    method = PrivateGrid()
    problem = problem_of(spec("1", method="private_grid", points=5), n_validation=40)
    for place, name in enumerate(("visits 2026-01", "others 2026-01")):
        key = QueryKey(str(place) * 64, name, "s", str(place), "private_grid")
        plan = method.plan(replace(problem, dataset=name))
        reservation = ledger.reserve(Charge(key, plan, warm_start=learned), noise="operating_system")
        value = {"hyperparameters": dict(problem.candidates.points[1]), "score": 0.5}
        memory = Noise(OperatingSystemNoise(), Memory())
        reservation.conclude(make_release(method, replace(problem, edition=str(place)), plan, memory, value))
    for dataset, found in (("visits 2026-02", ["0"]), ("others 2026-01", ["1"]), ("others 2026-02", [])):
        assert [release.edition for release in ledger.released_in(dataset, "s" * 64, most=8)] == found


def test_each_release_tells_its_scores_with_their_noise(ledger):
    """Steps, and the look where the interval is its own."""
    trajectory = run_study(spec("1"), ledger=ledger).release
    told = PrivateTrajectory.released_scores(trajectory)
    sigma = {spend.what: spend.noise_scale for spend in trajectory.spends}
    steps = told[:3]
    assert [(score, noise) for _, score, noise in steps] == [
        (step["score"], sigma[f"score of step {step['step']}"]) for step in trajectory.value["trajectory"]
    ]
    cut = {**trajectory.value, "interval": [0.9, 1.0]}  # at the end of the range: the look cannot be read back
    assert len(PrivateTrajectory.released_scores(replace(trajectory, value=cut))) == 3
    middle = 0.7
    half = 1.6448536269514722 * sigma["score of the choice"]
    whole = {**trajectory.value, "interval": [middle - half, middle + half]}
    look = PrivateTrajectory.released_scores(replace(trajectory, value=whole))[3]
    assert look[1:] == (pytest.approx(middle), sigma["score of the choice"])
