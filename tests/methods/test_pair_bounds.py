"""When an AUC by pairs is stated, and what its interval holds, whatever the public share of positives is."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from worlds import Memory, PairTable, by_pairs, mostly_slow, problem, run

from benchmarks.pair_intervals import SHARES, TABLE, methods_of, problem_of, simulated
from dpbo.tasks.reporting.mlflow_run import params, score_rows
from dpbo.tasks.reporting.pictures import draw, draw_noise, draw_posterior
from dpbo.tasks.reporting.release_document import next_step, noise_in_words, release_document
from dpbo.tasks.reporting.release_files import page
from dpbo.tasks.reporting.report_document import verdict
from dpbo_core.mechanisms.noise import InjectedNoise, Noise
from dpbo_core.methods.pair_bounds import NoiseTail, auc_interval, bounds_of_count, bounds_of_pairs
from dpbo_core.methods.pair_draws import expected_interval
from dpbo_core.methods.private_grid import PrivateGrid
from dpbo_core.methods.private_trajectory import PrivateTrajectory
from dpbo_core.methods.public import Public
from dpbo_core.privacy.release import NO_SCORE, Release

REASON = "too few positives for an AUC at this ε, or too few negatives"
METHODS = {
    "grid": PrivateGrid(),
    "public": Public(),
    "trajectory": PrivateTrajectory(),
    "trajectory without a look": PrivateTrajectory(look_share=0.0),
}
TAILS = {"laplace": NoiseTail(50.0, gaussian=False), "gaussian": NoiseTail(50.0, gaussian=True)}


def table_of(world, positives, *, apart=0.5, seed=1):
    """Decision values alike under every candidate, with so many positives among the records."""
    rng = np.random.default_rng(seed)
    labels = (np.arange(world.n_validation) < positives).astype(np.int64)
    values = rng.normal(size=world.n_validation) + apart * labels
    return PairTable(np.tile(values, (len(world.candidates), 1)), labels)


def released(method, positives, **changes):
    """The release without noise of 300 records, of which so many are positive, and their table."""
    world = by_pairs(problem(n_validation=300, **{"epsilon": 40.0, "steps": 4} | changes))
    table = table_of(world, positives)
    return run(method, world, table, Noise(InjectedNoise(np.random.default_rng(0), 0.0), Memory())), table


@pytest.mark.parametrize("name", METHODS)
def test_no_public_share_enters_a_score_or_its_interval(name):
    """The public half is undersampled to halves, and 1 in 50 of the sensitive records is positive."""
    values = []
    for share in (None, 0.5, 0.02):
        world = replace(by_pairs(problem(n_validation=300, epsilon=40.0, steps=4)), positives=share)
        table = table_of(world, 6)
        noise = Noise(InjectedNoise(np.random.default_rng(0), 0.0), Memory())
        value = dict(run(METHODS[name], world, table, noise).value)
        values.append({key: value[key] for key in ("score", "interval", "pairs")})
    low, high = values[0]["interval"]
    assert values == [values[0]] * 3
    assert low <= table.auc(0) <= high
    assert values[0]["score"] == pytest.approx(table.auc(0), abs=0.02)
    assert values[0]["pairs"] == pytest.approx(4 * 0.02 * 0.98)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("positives", [0, 1, 299, 300])
def test_where_a_class_is_too_rare_no_number_is_said_anywhere(name, positives):
    release, _ = released(METHODS[name], positives, epsilon=1.0)
    value = json.loads(json.dumps(release.to_json(), allow_nan=False))["value"]
    assert value["score"] is value["interval"] is value["pairs"] is value["metric"]["value"] is None
    assert value[NO_SCORE] == REASON
    assert {step["score"] for step in value.get("trajectory", ())} <= {None}
    document = {**release.to_json(), "release_id": "0123456789abcdef", "released_at": "2026-01-02T03:04:05+00:00"}
    recorded = Release.from_json(document)
    assert score_rows(recorded) == []
    assert REASON not in {one.value for one in params(recorded)}  # a sentence is in the page
    assert REASON in [fact.text for fact in release_document(recorded).facts if fact.name == "no score"]
    assert REASON in page(recorded, [])
    assert verdict(recorded) == ("", "")
    assert "a larger ε" in next_step(recorded)
    assert "on a score" not in noise_in_words(recorded)
    assert draw_posterior(recorded) is None
    assert draw(recorded) is not None
    assert draw_noise(recorded) is not None
    assert METHODS[name].released_scores(recorded) == ()


@pytest.mark.parametrize("law", TAILS)
def test_below_what_a_table_without_a_class_could_show_nothing_is_stated(law):
    tail = TAILS[law]
    assert float(tail.above(np.array(tail.least_shown))) < 1e-3
    drawn = np.array([-1e9, 0.0, tail.least_shown - 1.0, tail.least_shown + 1.0, 1e9])
    stated, low, high = bounds_of_pairs(drawn, tail, 1e6)
    assert stated.tolist() == [False, False, False, True, True]
    assert (low >= 1.0).all()
    assert (high <= 1e6).all()
    assert (np.diff(low) >= 0.0).all()


def test_the_interval_is_that_of_the_ends_of_both_counts():
    """D̂ = 1,000 of noise 50: D from 1,000 − 50 log(1/0.04) − 1 to 1,000 + 50 log 50 + 1; B̂ = −100 of noise 10."""
    stated, few, many = bounds_of_pairs(np.array(1000.0), TAILS["laplace"], 1e6)
    assert stated
    assert few == pytest.approx(1000 - 50 * math.log(25.0) - 1, abs=1.0)
    assert many == pytest.approx(1000 + 50 * math.log(50.0) + 1)
    count = bounds_of_count(np.array(-100.0), NoiseTail(10.0, gaussian=False))
    reach = 10 * math.log(1 / 0.07) + 1
    assert count == pytest.approx((-100 - reach, -100 + reach))
    low, high = auc_interval(count, (few, many), 0.88)
    assert low == pytest.approx(0.88 + count[0] / few)
    assert high == pytest.approx(0.88 + count[1] / many)
    assert auc_interval((np.array(-5e6), np.array(5e6)), (few, many), 0.5) == (0.0, 1.0)


@pytest.mark.parametrize("law", TAILS)
def test_what_may_have_been_shown_by_noise_alone_has_an_interval_that_allows_for_it(law):
    """Just above the least that is shown D may be so small that little is excluded; far above that is over."""
    tail = TAILS[law]
    near, far = tail.least_shown * 1.01, tail.least_shown * 20.0
    _, low, _ = bounds_of_pairs(np.array([near, far]), tail, 1e9)
    assert low[0] < 0.25 * near
    assert low[1] == pytest.approx(far - tail.reach(0.02) - 1.0, rel=1e-6)


WORLDS = [(0.5746, 0.88), (0.9, 0.1), (0.5, 0.5), (1.0, 0.0), (0.06, 0.92)]


@pytest.mark.parametrize("scores", mostly_slow(WORLDS, WORLDS[0]))
@pytest.mark.parametrize("epsilon", mostly_slow([0.3, 1.0, 4.0], 1.0))
def test_nine_in_ten_intervals_hold_the_auc_at_every_share(scores, epsilon):
    """4,000 releases of one seed, among all and among those that state an AUC, wherever 50 of them do."""
    (auc, beside), rng = scores, np.random.default_rng(56)
    world = problem_of(epsilon)
    for name, number, score, of_draws in methods_of(world):
        for share in (*SHARES, 0.002, 0.005, 0.02):
            stated, held = simulated(rng, world, number, score, of_draws, share=share, auc=auc, beside=beside)
            error = 3.0 * math.sqrt(0.09 / 4000)
            assert (held | ~stated).mean() >= 0.9 - error, (name, share)
            if share in (0.0, 1.0):
                assert stated.mean() <= 3e-3, (name, share)
            elif stated.sum() >= 50:
                assert held[stated].mean() >= 0.9 - 3.0 * math.sqrt(0.09 / stated.sum()), (name, share)


def test_the_table_of_intervals_holds_what_is_promised():
    rows = [row.strip("| \n").split(" | ") for row in TABLE.read_text().partition("\n\n")[2].splitlines()[2:]]
    assert {float(share) for share, *_ in rows} == set(SHARES)
    assert len(rows) == 9 * 3 * 5
    assert all(float(of_all) >= 0.9 for *_, of_all, _ in rows)
    assert all(float(among) >= 0.9 for *_, among in rows if among != "–")


def test_the_plan_warns_of_what_the_public_share_leaves_too_few_of():
    grid, most = PrivateGrid(), {"n_validation": 3000}
    said = {
        share: expected_interval(one, grid.draws(one))
        for share in (0.002, 0.03, 0.5, None)
        for one in [replace(by_pairs(problem(**most)), positives=share)]
    }
    assert said[0.5] == said[None] == ""
    assert said[0.002] == (
        "hardly ever a number: too few positives for an AUC at this ε, assuming 0.2% positives, the public share"
    )
    assert "in " in said[0.03]
    assert "of runs a number: too few positives" in said[0.03]
    few = replace(by_pairs(problem(n_validation=1000)), positives=0.05)
    assert "a 90% interval of ± 0.1 or more" in expected_interval(few, Public().draws(few))
