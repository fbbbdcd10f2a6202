"""The contract of every method that can search by a count of pairs; another refuses, and names those that can."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from worlds import Memory, PairTable, by_pairs, mostly_slow, plain, problem, ranked_table, run

from dpbo_core.errors import CertificateFalse, StudyInvalid
from dpbo_core.ledger.accounting.certificate import read_certificate, recompute
from dpbo_core.ledger.accounting.composition import Filter, compose
from dpbo_core.mechanisms.noise import InjectedNoise, Noise, OperatingSystemNoise
from dpbo_core.methods import METHODS, check_counts
from dpbo_core.methods.certified import CERTIFIED
from dpbo_core.methods.contract import Scope
from dpbo_core.methods.private_grid import PrivateGrid
from dpbo_core.methods.private_trajectory import PrivateTrajectory
from dpbo_core.methods.public import Public
from dpbo_core.privacy.amounts import spent_units

COUNTING = [kind for kind, cls in METHODS.items() if cls.scope is Scope.PAIRS]
VARIANTS = {
    "grid": PrivateGrid(),
    "grid on a Sobol subset": PrivateGrid(evaluate="sobol"),
    "grid on a public shortlist": PrivateGrid(evaluate="public_shortlist"),
    "grid from a base measure": PrivateGrid(evaluate="tried", base_measure="public"),
    "grid for twelve editions": PrivateGrid(editions=12),
    "public": Public(),
    "trajectory": PrivateTrajectory(),
    "trajectory with a public prior": PrivateTrajectory(prior="public"),
    "trajectory with a final choice": PrivateTrajectory(final_share=0.3),
    "trajectory without a look": PrivateTrajectory(look_share=0.0),
}


@pytest.fixture(params=VARIANTS, ids=lambda name: name)
def method(request):
    return VARIANTS[request.param]


def quiet(factor=0.0):
    return Noise(InjectedNoise(np.random.default_rng(0), factor), Memory())


def real():
    return Noise(OperatingSystemNoise(), Memory())


def world_of(**changes):
    return by_pairs(problem(**changes))


@pytest.mark.parametrize("kind", METHODS)
def test_a_method_that_cannot_says_which_can(kind):
    method, world = plain(kind), world_of()
    if kind in COUNTING:
        check_counts(method, world)
        assert method.plan(world).guarantee.epsilon == world.epsilon
        return
    with pytest.raises(StudyInvalid, match="counts pairs") as message:
        check_counts(method, world)
    assert all(f"'{name}'" in message.value.remedy for name in COUNTING)
    with pytest.raises(StudyInvalid, match=r"counts pairs|roc_auc|pairs"):
        method.plan(world)


def test_the_guarantee_is_the_composition_of_the_draws(method):
    for epsilon in (0.1, 1.0, 3.0):
        plan = method.plan(world_of(epsilon=epsilon))
        total = compose(plan.spends)
        composed, delta = total.epsilon(plan.guarantee.delta)
        if getattr(method, "final_share", 0.0):  # as the ledger adds them, at one order
            draws = [(spend.epsilon_units, spend.rho_units) for spend in plan.spends]
            composed = Filter.of(spent_units(epsilon), delta).after(draws, total).epsilon(delta)
        assert composed <= plan.guarantee.epsilon == epsilon
        assert composed == pytest.approx(epsilon, rel=1e-6)
        assert delta <= plan.guarantee.delta
        if plan.guarantee.delta == 0.0:
            assert total.epsilon_units == spent_units(epsilon)
    moves = 2 * 49 * 2 / 50**2
    assert [spend.sensitivity for spend in plan.spends] == pytest.approx([moves] * len(plan.spends))


@pytest.mark.parametrize("best", mostly_slow((0, 5, 11), 0, 5))  # both ends are alike
def test_without_noise_it_finds_the_best_and_says_its_auc(method, best):
    world = world_of(steps=20, n_validation=2000, epsilon=500.0)
    table = ranked_table(world, best=best)
    release = run(method, world, table, quiet())
    exact = np.array([table.auc(i) for i in range(12)])
    assert exact[best] == exact.max()
    best = max(method.choices(world), key=exact.__getitem__)  # which may be from a part of Λ
    lambdas = [point["lambda"] for point in world.candidates.points]
    found = lambdas.index(release.value["hyperparameters"]["lambda"])
    assert abs(exact[best] - exact[found]) <= 0.005
    assert release.value["score"] == pytest.approx(exact[found], abs=0.01)
    for point in release.value.get("trajectory", []):
        seen = exact[lambdas.index(point["hyperparameters"]["lambda"])]
        assert point["score"] == pytest.approx(seen, abs=1e-4)  # but for ⌊rD⌋
    assert release.value["pairs"] == pytest.approx(4 * 0.3 * 0.7)


def test_the_release_is_a_certificate_that_holds(method):
    world = world_of(n_validation=500)
    release = run(method, world, ranked_table(world, best=4), real())
    assert release.guarantee == method.plan(world).guarantee
    assert release.spends == method.plan(world).spends
    assert (release.facts["score"], release.facts["counts"], release.facts["score_range"]) == (
        "roc_auc",
        "pairs",
        1.0,
    )
    document = json.loads(json.dumps(release.to_json(), allow_nan=False))
    assert recompute(read_certificate(document, CERTIFIED), CERTIFIED).epsilon <= world.epsilon
    for forged in (0.5, 1 / 500 / release.spends[0].sensitivity):  # as if a pair counted 1, or a record one score
        tampered = json.loads(json.dumps(document))
        for spend in tampered["spends"]:
            spend["sensitivity"] *= forged
            spend["noise_scale"] *= forged
        with pytest.raises(CertificateFalse, match="below what its noise is worth"):
            recompute(read_certificate(tampered, CERTIFIED), CERTIFIED)
    for key, value in (("counts", None), ("counts", "records")):
        tampered = json.loads(json.dumps(document))
        tampered["facts"].pop(key) if value is None else tampered["facts"].update({key: value})
        with pytest.raises(StudyInvalid, match="no release of dpbo"):
            read_certificate(tampered, CERTIFIED)


@pytest.mark.parametrize("share", [None, 0.06, 0.5])
def test_a_head_start_is_in_steps_of_the_count(share):
    """b = s·log π₀, π₀ of public AUCs and of the noise in AUC at the public share; s is the choice's own scale."""
    world = replace(world_of(n_validation=400), positives=share)
    method = PrivateGrid(evaluate="tried", base_measure="public")
    listed, pair, steps = method.subset(world)
    auc = np.array([world.public_score(i) for i in listed])
    pi, moves, n = share or 0.5, 2 * 399, world.trainer.n_records
    scale = 2 * moves / 0.75  # of the count
    noise = scale / (2 * 400**2 * pi * (1 - pi))  # of the AUC
    rarer, best = n * min(pi, 1 - pi), auc.max()
    squared_error = max(best * (1 - best), 1 / rarer) / rarer / 2 + 0.003**2
    weights = (1 + noise * (best - auc) / (4 * squared_error)) ** -4
    law = 0.98 * weights / weights.sum() + 0.02 / len(auc)
    assert pair is None
    assert steps.tolist() == np.rint(scale * np.log(law / law.max())).tolist()
    assert steps.min() < -scale / 10  # it has a say, and shuts nobody out
    assert steps.min() >= -scale * math.log(500 * len(auc))


def test_pairs_are_not_paired_record_by_record():
    world = world_of()
    with pytest.raises(
        StudyInvalid, match="paired compares two candidates record by record, and roc_auc"
    ) as message:
        PrivateGrid(evaluate="tried", base_measure="public", paired=True).plan(world)
    assert "remove paired" in message.value.remedy
    forms = PrivateGrid.forms(world)
    assert [(form.base_measure, form.paired) for form in forms] == [("public", False)]
    assert PrivateGrid.forms(problem())[0].paired  # where a record has a score of its own


def test_a_table_without_a_pair_has_a_release_too(method):
    """All records of one class, or none that can be read: no score is stated, and the release says why."""
    world = world_of(steps=3, n_validation=20)
    for labels in (np.ones(20), np.zeros(20), np.full(20, -1)):
        table = PairTable(np.tile(np.arange(20.0), (12, 1)), labels)
        release = run(method, world, table, quiet(1.0))
        assert release.value["score"] is release.value["interval"] is release.value["metric"]["value"] is None
        assert release.value["no_score"] == "too few positives for an AUC at this ε, or too few negatives"
        assert {step["score"] for step in release.value.get("trajectory", ())} <= {None}
        json.dumps(release.to_json(), allow_nan=False)


def test_one_record_has_no_pairs(method):
    world = world_of(steps=2, n_validation=1, n_candidates=2)
    table = PairTable(np.zeros((2, 1)), np.array([1]))
    assert run(method, world, table, quiet(1.0)).value["score"] is None
