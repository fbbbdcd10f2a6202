"""Algorithms 1 and 2 of Kusner et al.: the cap, the assumptions, exact distributions, simulated validity."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from worlds import Memory, Table, problem, with_method

from dpbo_core.errors import AssumptionNotAccepted, StudyInvalid
from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.mechanisms.gaussian import observation_noise
from dpbo_core.mechanisms.noise import Noise, OperatingSystemNoise
from dpbo_core.methods.kusner_gp import ExactGP, NoisyGP
from dpbo_core.methods.kusner_pricing import PriorScale
from dpbo_core.methods.problem import stated_kernel
from dpbo_core.models.integer_sums import GRID
from dpbo_core.search.bo import UCB, BayesianSearch, acquisition_named
from dpbo_core.search.branch_and_bound import JITTER, BranchAndBound
from dpbo_core.search.gp import Posterior, SquaredExponential
from dpbo_core.study import StudySpec
from dpbo_core.study.resolve import advise_study, plan_study
from dpbo_core.study.tuning import run_study
from dpbo_core.theorems import kusner_2015, srinivas_2010


def test_the_choice_is_drawn_with_the_weights_of_corollary_1():
    """OpenDP's own map at the scale used, and the enumerated weights: each is exp(ε μ/(2Δ)) exactly."""
    world, method = problem(n_candidates=4), NoisyGP(outputs="candidate", cap_at_range=False)
    ((spend, selection),) = method.draws(world)
    mean = np.array([0.2, -0.4, 0.9, 0.1])
    weights = kusner_2015.corollary_1_weights(
        utilities=mean, sensitivity=spend.sensitivity * 4, epsilon=spend.epsilon
    )
    steps = method.scale.to_steps(mean)
    drawn = np.exp((steps - steps.max()) / selection.scale)
    assert drawn / drawn.sum() == pytest.approx(weights, rel=1e-6)


def test_utilities_are_clipped_to_the_range_and_rounded_to_the_grid():
    scale = PriorScale(0.5, 0.25, capped=True)
    assert scale.to_steps(np.array([-4.6, -2.0, 0.0, 2.0, 9.0])).tolist() == [0, 0, GRID // 2, GRID, GRID]
    free = PriorScale(0.5, 0.25, capped=False)
    assert free.to_steps(np.array([-4.0]))[0] == -GRID // 2
    assert scale.sensitivity_steps(5.0) == GRID
    rng = np.random.default_rng(0)
    for _ in range(1000):  # rounding can add one step and no more
        a, b = rng.uniform(-2, 2, size=2)
        assert abs(np.diff(scale.to_steps(np.array([a, b])))[0]) <= scale.sensitivity_steps(abs(a - b))


def test_a_study_must_accept_the_prior_and_so_must_its_cap(tables, tmp_path):
    with_method(tables, "noisy_gp")["method"] = {"cap_at_range": False}
    book = PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}")
    with pytest.raises(AssumptionNotAccepted, match="draw from the stated multi-task Gaussian process") as refused:
        run_study(StudySpec.from_dict(tables), ledger=book)
    assert refused.value.exit_code == 4
    assert "accepts" in str(refused.value)
    book.set_budget(PrivacyBudget.of("people", epsilon=3.0, delta=1e-5))
    tables["study"]["accepts"] = ["gp_prior"]
    del tables["budget"]
    with pytest.raises(AssumptionNotAccepted):
        run_study(StudySpec.from_dict(tables), ledger=book)
    assert not [entry for account in book.accounts() for entry in account.entries]


@pytest.mark.parametrize("kind", ["noisy_gp", "exact_gp"])
def test_both_run_under_their_assumptions(here, tables, kind):
    with_method(tables, kind)
    tables["method"] |= {"cap_at_range": False}
    book = PrivacyLedger(f"sqlite:///{here / 'ledger.db'}")
    tables["study"]["accepts"] = ["gp_prior", "de_freitas_constants"]
    release = run_study(StudySpec.from_dict(tables), ledger=book).release
    told = release.to_json()
    asked = {"noisy_gp": ["gp_prior"], "exact_gp": ["de_freitas_constants"]}[kind]  # one record's range bounds c
    assert told["guarantee"]["assumptions"] == asked
    chosen = {"hyperparameters"} if kind == "noisy_gp" else set()
    assert set(told["value"]) == {"metric", "score", "interval"} | chosen
    low, high = told["value"]["interval"]
    assert low <= min(max(told["value"]["score"], low), high) <= high
    assert told["spends"][0]["delta"] > 0.0


def test_exact_gp_asks_for_its_constants(tables):
    tables["study"]["method"] = "exact_gp"
    with pytest.raises(StudyInvalid, match="rate_constant"):
        plan_study(StudySpec.from_dict(tables))


def test_a_choice_from_exact_observations_needs_no_constants(here, tables):
    """Algorithm 2's cell of the authors' table: λ̃, alone or beside f̃; its posterior is of what it is told."""
    with_method(tables, "exact_gp")["method"] = {"outputs": "candidate"}
    book = PrivacyLedger(f"sqlite:///{here / 'ledger.db'}")
    release = run_study(StudySpec.from_dict(tables), ledger=book).release
    assert set(release.value) == {"hyperparameters"}
    assert release.guarantee.assumptions == ()
    assert release.guarantee.delta == 0.0
    world, free = problem(steps=6), ExactGP(outputs="candidate", cap_at_range=False)
    assert free.plan(world).guarantee.assumptions == ("gp_prior",)
    search, noise = free.start(world, free.plan(world)), Noise(OperatingSystemNoise(), Memory())
    for _ in range(6):
        search.step(Table(np.full((12, 50), 0.5)), noise)  # z = 0 exactly: what is told is the noise
    told = np.array(search._noise.expose())
    # of 170 grid steps' deviation: two of six agree once in forty runs, three once in 10⁴
    assert len(set(told)) >= 4
    assert 0.0 < np.abs(told).max() < 1e-4
    assert search._bo.mean == pytest.approx(np.zeros(12), abs=1e-3)
    silent = ExactGP(rate_constant=1e3, decay_constant=0.01).start(world, free.plan(world))
    silent.step(Table(np.full((12, 50), 0.5)), noise)
    assert set(silent._noise.expose()) == {0.0}


@pytest.mark.parametrize("calibration", ["corrected", "published"])
@pytest.mark.parametrize("cap", [True, False])
def test_theorem_5_is_not_of_the_search_that_a_choice_needs(calibration, cap):
    """A score of its noise beside λ̃ is refused; one at its range is not, and alone either is released."""
    world = problem(steps=6)
    small = ExactGP(rate_constant=0.5, decay_constant=1.0, cap_at_range=cap, calibration=calibration)
    assert small.plan(world).guarantee.assumptions == ("de_freitas_constants",)
    named = replace(small, rate_constant=1.0, decay_constant=0.5)
    assert "gp_prior" not in named.plan(world).guarantee.assumptions  # one record can move a score by less than c
    alike = replace(small, dataset_similarity=1.0 - 1e-7)  # c by the prior is less than one record can do
    assert alike.plan(world).guarantee.assumptions == ("gp_prior", "de_freitas_constants")
    for ask in (ExactGP.plan, ExactGP.draws, ExactGP.outlook):
        with pytest.raises(StudyInvalid, match="rests on Theorem 5"):
            ask(replace(small, outputs="both"), world)
    assert replace(small, outputs="candidate").plan(world).spends[0].what == "best candidate"
    capped = replace(small, rate_constant=1e3, decay_constant=0.01, cap_at_range=True, outputs="both").plan(world)
    assert capped.guarantee.assumptions == ()
    assert [spend.sensitivity for spend in capped.spends][1] == world.score_range


def test_theorem_3_as_printed_runs_as_far_as_it_is_proved():
    """Under the prior, at the ε that it states; beyond that it is refused; capped by the range it is standard."""
    short, long = (problem(delta=0.1, steps=steps) for steps in (20, 2000))
    method = NoisyGP(cap_at_range=False, outputs="score", calibration="published")
    guarantee = method.plan(short).guarantee
    assert (guarantee.epsilon, guarantee.evidence.standing, guarantee.assumptions) == (
        1.0,
        "printed",
        ("gp_prior",),
    )
    with pytest.raises(StudyInvalid, match="proved for at most"):
        method.plan(long)
    assert replace(method, calibration="corrected").plan(long).guarantee.evidence.standing == "corrected"
    assert replace(method, cap_at_range=True).plan(problem()).guarantee.assumptions == ()


def test_a_certificate_of_both_rests_on_no_theorem_5():
    world = problem(steps=6)
    method = ExactGP(rate_constant=1e3, decay_constant=0.01, outputs="both")
    search, noise = method.start(world, method.plan(world)), Noise(OperatingSystemNoise(), Memory())
    for _ in range(6):
        search.step(Table(np.full((12, 50), 0.5)), noise)
    release = search.finish(noise)
    assert set(ExactGP.certificate_rules(release).draws) == {"best candidate", "last score"}
    below = tuple(replace(spend, sensitivity=0.5) for spend in release.spends)
    with pytest.raises(ValueError, match="outputs"):
        ExactGP.certificate_rules(replace(release, spends=below))


def test_the_plan_says_when_the_choice_is_hardly_better_than_a_uniform_draw(tables):
    lines = {line.kind: line for line in advise_study(StudySpec.from_dict(with_method(tables, "noisy_gp"))).methods}
    assert lines["noisy_gp"].verdict == "useless"
    assert "hardly better than a uniform draw" in lines["noisy_gp"].why
    assert lines["exact_gp"].verdict == "refused"


def test_the_outlook_is_theorems_2_4_and_6_at_the_scales_that_are_paid():
    """At a = 1, that is at failure probability 1/e; in units of the score, a prior standard deviation being G/4."""
    world, free, capped = problem(steps=7), NoisyGP(cap_at_range=False), NoisyGP()
    X, kernel = world.candidates.encoded, stated_kernel(world)
    gain = srinivas_2010.information_gain_bound(
        gram=kernel.matrix(X, X).__getitem__, n_steps=7, noise_variance=0.01
    )
    choice, score = free.plan(world).spends
    second = min(1.0, 2 * choice.sensitivity / choice.epsilon * (math.log(12) + 1))
    q1 = 0.1 * math.sqrt(2 * math.log(5 * 7 / 5e-7))
    beta = 2 * math.log(5 * 12 * 49 * math.pi**2 / (6 * 5e-7))
    regret = math.sqrt(8 / math.log(1 + 1 / 0.01) * beta * gain / 7)
    fourth = min((q1 + regret) / 4 + score.noise_scale, 1.0 + score.noise_scale)
    assert free.outlook(world).expected_error == pytest.approx(max(second, fourth), rel=1e-6)
    paid = capped.plan(world).spends[-1].noise_scale
    assert capped.outlook(world).expected_error == pytest.approx(min((q1 + regret) / 4, 1.0) + paid, rel=1e-6)
    for cap in (True, False):
        exact = ExactGP(rate_constant=0.5, decay_constant=0.1, cap_at_range=cap)
        ((spend, _),) = exact.draws(world)
        rate = 0.5 * math.exp(-7 * 0.1 / math.log(7) ** 0.25) / 4
        assert exact.outlook(world).expected_error == pytest.approx(rate + spend.noise_scale, rel=1e-6)


def test_observation_noise_has_its_variance():
    """10,000 draws: variance within 7 standard errors, mean within 5; false alarm below 1e-6."""
    draws = np.array(observation_noise(0.1, 10_000, OperatingSystemNoise()).expose())
    assert abs(draws.mean()) < 5 * 0.1 / 100
    assert abs(draws.var() / 0.01 - 1.0) < 7 * math.sqrt(2 / 10_000)
    assert np.array_equal(draws * GRID, np.rint(draws * GRID))


def test_each_observation_is_noised_before_the_search_sees_it():
    world = problem(steps=6)
    search = NoisyGP(noise_variance=0.25).start(world, NoisyGP().plan(world))
    noise = Noise(OperatingSystemNoise(), Memory())
    for _ in range(6):
        search.step(Table(np.full((12, 50), 0.5)), noise)  # z = 0 exactly: what is seen is the noise
    seen = search._values.expose()
    assert seen == list(search._noise.expose())
    assert len(set(seen)) == 6


def test_simulated_validity_of_theorems_1_and_3():
    """Pairs (f, f′) of the two-task prior, GP-UCB on both: bounds exceeded in at most a share δ of 150 pairs.

    `benchmarks/validity.py` runs 2,000. With δ = 0.2 a bound that failed as often as it may would pass this test
    (share ≤ δ + 4 standard errors) all but once in 10,000 times.
    """
    shares = simulate(150, seed=0)
    limit = 0.2 + 4 * math.sqrt(0.2 * 0.8 / 150)
    assert shares["mean, corrected"] <= limit
    assert shares["maximum, corrected"] <= limit
    assert shares["mean, a tenth of it"] > limit  # the test can fail


SEARCHES = {
    "ei": lambda: acquisition_named("ei"),
    "branch and bound, exact": None,
}


@pytest.mark.parametrize("name", SEARCHES)
def test_theorem_1_is_of_the_posterior_whatever_chose_the_observations(name):
    """The paper's second future direction, for λ̃: EI; and section 4's exact observations.

    Of the proof one event is left, |f − μ_T| ≤ √(2 log(3N/δ))·σ_T on all of Λ: the law of f given what was seen,
    whoever asked for it. A tenth of Δ is exceeded, so that the test can fail. False alarm as above.
    """
    made = SEARCHES[name]
    shares = simulate(60, seed=3, sigma2=JITTER if made is None else 0.05, made=made, exact=made is None)
    limit = 0.2 + 4 * math.sqrt(0.2 * 0.8 / 60)
    assert shares["mean, corrected"] <= limit
    assert shares["mean, a tenth of it"] > limit


def simulate(
    pairs, *, seed, made=lambda: UCB(delta=0.2 / 5), exact=False, delta=0.2, k1=0.6, sigma2=0.05, N=40, T=15
):
    """The share of pairs that exceed each bound."""
    rng, kernel = np.random.default_rng(seed), SquaredExponential(0.2)
    X = np.linspace(0, 1, N)[:, None]
    K = kernel.matrix(X, X)
    L = np.linalg.cholesky(K + 1e-10 * np.eye(N))
    gain = srinivas_2010.information_gain_bound(gram=K.__getitem__, n_steps=T, noise_variance=sigma2)
    common = {"n_candidates": N, "n_steps": T, "delta": delta, "dataset_similarity": k1}
    bounds = {}
    for calibration in ("published", "corrected"):
        bounds[f"mean, {calibration}"] = kusner_2015.theorem_1_sensitivity(**common, calibration=calibration)
        bounds[f"maximum, {calibration}"] = kusner_2015.theorem_3_sensitivity(
            **common, noise_variance=sigma2, information_gain=gain, calibration=calibration
        )
    bounds["mean, a tenth of it"] = bounds["mean, corrected"] / 10
    exceeded = dict.fromkeys(bounds, 0)
    for _ in range(pairs):
        u = L @ rng.normal(size=N)
        f = (u, k1 * u + math.sqrt(1 - k1**2) * (L @ rng.normal(size=N)))
        means, best = [], []
        for score in f:
            search = BranchAndBound(X, kernel) if exact else BayesianSearch(Posterior(X, kernel, sigma2), made())
            values = []
            for _ in range(T):
                index = search.ask()
                values.append(score[index] + math.sqrt(sigma2) * rng.normal())
                search.tell(index, values[-1])
            means.append(search.mean if exact else search.posterior.mean)
            best.append(max(values))
        moved = {"mean": np.abs(means[0] - means[1]).max(), "maximum": abs(best[0] - best[1])}
        for name, bound in bounds.items():
            exceeded[name] += moved[name.split(",")[0]] > bound
    return {name: count / pairs for name, count in exceeded.items()}


def test_what_the_papers_bounds_say_is_said_in_the_plan_and_on_the_certificate(here, tables):
    """Corollary 1's weights of a capped choice; Theorem 8's bound of Algorithm 3's score, from its own noise."""
    from dpbo.flows.cli.verify import check_certificate

    tables["study"]["method"] = "lipschitz"
    lines = {line.kind: line for line in advise_study(StudySpec.from_dict(tables)).methods}
    assert "the best of 16 is chosen with a probability of at most 0.079" in lines["noisy_gp"].why  # of ε/2
    assert math.exp(0.25) / (math.exp(0.25) + 15) == pytest.approx(0.0788, abs=1e-4)
    release = run_study(StudySpec.from_dict(tables), ledger=PrivacyLedger(f"sqlite:///{here / 'l.db'}")).release
    bound = math.log(20) * release.spends[0].noise_scale
    said = f"within {bound:.3g} of the best score seen with probability 0.95 (Theorem 8)"
    assert said in lines["lipschitz"].why
    assert release.facts["score_bound"] == said
    (here / "release.json").write_text(json.dumps(release.to_json()))
    assert f"Its score is {said}." in check_certificate(here / "release.json")
