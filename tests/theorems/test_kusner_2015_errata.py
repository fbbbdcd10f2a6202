"""Where the text of Kusner et al. 2015 says more than it proves, each by a number that could come out otherwise."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import norm

from dpbo_core.search.branch_and_bound import BranchAndBound
from dpbo_core.search.gp import SquaredExponential
from dpbo_core.theorems import kusner_2015 as theorems


def per_outcome(p, q, epsilon):
    """The least δ of Definition 1 as printed: max over single outcomes of p − e^ε q, both ways."""
    return max(float((a - math.exp(epsilon) * b).max()) for a, b in ((p, q), (q, p)))


def per_event(p, q, epsilon):
    """The least δ of differential privacy: the same, maximised over every set of outcomes."""
    return max(float(np.maximum(a - math.exp(epsilon) * b, 0.0).sum()) for a, b in ((p, q), (q, p)))


def with_random_bits(answer, bits):
    """The law of (an answer that is 0 with probability `answer[0]` and 1 with `answer[1]`, so many fair bits)."""
    return np.concatenate([np.full(2**bits, share / 2**bits) for share in answer])


def test_definition_1_speaks_of_single_outcomes_so_that_random_bits_beside_the_record_make_it_private():
    """All 2^21 outcomes of "publish V, and 20 random bits", V one record of one bit; every number is exact."""
    here, there = with_random_bits((1.0, 0.0), 20), with_random_bits((0.0, 1.0), 20)
    assert here.sum() == there.sum() == 1.0
    assert per_outcome(here, there, 0.0) == 2.0**-20
    for epsilon in (0.0, 1.0, 20.0):
        assert per_event(here, there, epsilon) == 1.0  # whoever looks knows the record
    likely = math.e / (1 + math.e)  # randomised response at ε = 1, which is private: the bits change nothing
    one, other = (with_random_bits(law, 20) for law in ((likely, 1 - likely), (1 - likely, likely)))
    assert per_event(one, other, 1.0) < 1e-12
    assert per_event(one, other, 0.9) > 0.01


def test_corollary_2_is_vacuous_for_a_continuous_score():
    """A tenth of the noise that ε = 1 needs: by outcomes δ falls to 0 with the grid, by events it stays 0.989."""
    moved, epsilon = 10.0, 1.0  # of the query, in units of the Laplace scale
    cells = []
    for level in (1, 4, 7, 10):
        edges = np.arange(-40.0 * 2**level, 50.0 * 2**level + 1) / 2**level
        laws = [np.diff(laplace(edges - place)) for place in (0.0, moved)]
        cells.append(per_outcome(*laws, epsilon))
        assert per_event(*laws, epsilon) == pytest.approx(1 - math.exp((epsilon - moved) / 2), abs=1e-9)
    assert cells[0] < 0.3
    for wide, narrow in itertools.pairwise(cells):
        assert narrow == pytest.approx(wide / 8, rel=0.35)  # no bound from below: a point has probability 0
    assert cells[-1] < 1e-3
    scale = theorems.corollary_2_scale(sensitivity=moved, epsilon=epsilon)  # what the mechanism does draw
    edges = np.arange(-60 * 64, 60 * 64 + 1) / 64 * scale
    honest = [np.diff(laplace((edges - place) / scale)) for place in (0.0, moved)]
    assert per_event(*honest, epsilon) < 1e-9


def laplace(x):
    """The distribution function of the Laplace law of scale 1."""
    return np.where(x < 0, 0.5 * np.exp(np.minimum(x, 0)), 1 - 0.5 * np.exp(-np.maximum(x, 0)))


@pytest.mark.parametrize(("N", "delta"), [(1, 0.3), (64, 1e-6)])
def test_theorem_1_spends_four_thirds_as_its_proof_counts_and_under_one_at_the_last_time_alone(N, delta):
    """Lemma 5.1 of Srinivas et al. holds for all t at once, at δ/2 with this β; one time costs N·e^{−β/2}."""

    def one_time(t):
        beta = theorems.theorem_3_beta(n_candidates=N, step=t, delta=delta, calibration="published")
        assert math.isclose(beta, 2 * math.log(N * t**2 * math.pi**2 / (3 * delta)), rel_tol=1e-12)
        return N * math.exp(-beta / 2)

    every_time = sum(one_time(t) for t in range(1, 20_001))
    assert every_time == pytest.approx(delta / 2, rel=1e-4)  # the printed proof says δ/3
    difference = delta / 3  # of f and f′: N·e^{−γ²/2} at γ² = 2 log(3N/δ)
    assert 2 * every_time + difference == pytest.approx(4 * delta / 3, rel=1e-4)
    for T in (1, 2, 20):
        assert 2 * one_time(T + 1) + difference < 0.4854 * delta  # so the statement is true
        printed = theorems.theorem_1_sensitivity(
            n_candidates=N, n_steps=T, delta=delta, dataset_similarity=1.0, calibration="published"
        )
        assert printed == pytest.approx(2 * math.sqrt(-2 * math.log(one_time(T + 1) / N)), rel=1e-12)


def test_theorem_4_bounds_the_noise_at_an_index_that_the_data_chose():
    """Flat f, T = 50, δ = 0.3: the best observation is the one with the largest noise.

    Exactly, and by 4,000 draws within 6 standard errors (false alarm below 1e-8).
    """
    delta, T, draws = 0.3, 50, 4000
    gamma = math.sqrt(2 * math.log(1 / delta))  # of the proof: 2·α̂ ≤ 2σγ = σ√(8 log(1/δ)) with probability 1 − δ/2
    fails = 1 - norm.cdf(gamma) ** T
    assert fails == pytest.approx(0.956, abs=5e-4)
    assert 1 - norm.cdf(gamma) < delta / 2  # at an index fixed beforehand it is true
    largest = np.random.default_rng(0).normal(size=(draws, T)).max(axis=1)
    assert (largest > gamma).mean() == pytest.approx(fails, abs=6 * math.sqrt(fails * (1 - fails) / draws))
    mended = math.sqrt(2 * math.log(5 * T / delta))
    assert 1 - norm.cdf(mended) ** T < delta / 5


@pytest.mark.parametrize(("calibration", "holds"), [("published", False), ("corrected", True)])
def test_theorem_4_as_printed_is_false_of_one_candidate_observed_often_enough(calibration, holds):
    """|Λ| = 1, so f is flat and γ_T = ½ log(1 + T/σ²) exactly; ε = 10⁶, so the Laplace noise is nothing."""
    T, delta, a, sigma2, epsilon = 2000, 0.3, 10.0, 1e4, 1e6
    sigma = math.sqrt(sigma2)
    given_ = {
        "n_candidates": 1,
        "n_steps": T,
        "delta": delta,
        "noise_variance": sigma2,
        "information_gain": 0.5 * math.log1p(T / sigma2),
        "calibration": calibration,
    }
    Delta = theorems.theorem_3_sensitivity(**given_, dataset_similarity=1.0)
    scale = theorems.corollary_2_scale(sensitivity=Delta, epsilon=epsilon)
    bound = theorems.theorem_4_error_bound(
        noise=theorems.theorem_4_noise_bound(
            n_steps=T, delta=delta, noise_variance=sigma2, calibration=calibration
        ),
        regret=theorems.average_regret(**given_),
        scale=scale,
        failure_probability=math.exp(-a),
    )
    noise = 20.0 * scale  # not exceeded but for e^{−20}
    fails = 1 - norm.cdf((bound + noise) / sigma) ** T
    allowed = delta + math.exp(-a)
    assert bool(fails < allowed) is holds
    if not holds:
        assert fails == pytest.approx(0.73, abs=5e-3)
        assert allowed == pytest.approx(0.3, abs=1e-4)


def test_theorem_5_needs_its_constants_to_hold_for_the_neighbour_too():
    """Pairs (f, f′) of the two-task prior, branch and bound on both; A and τ of f, or of the worse of the two.

    The theorem allows a share δ of the pairs. If it were true of A and τ of f alone, as many as 33 of 600 would
    fail with probability below 1e-6 (43 do); with the larger Ω none fails, unless c itself does.
    """
    pairs, delta, k1, T, N, tau = 600, 0.02, 0.99, 8, 40, 0.3
    X, rng, kernel = np.linspace(0, 1, N)[:, None], np.random.default_rng(0), SquaredExponential(0.2)
    L = np.linalg.cholesky(kernel.matrix(X, X) + 1e-10 * np.eye(N))
    growth = math.exp(T * tau / math.log(T) ** 0.25)  # A of a rate: the rate at T is Ω then

    def bound(omega):
        numbers = {"n_candidates": N, "n_steps": T, "delta": delta, "dataset_similarity": k1, "dimension": 1}
        return theorems.theorem_5_sensitivity(**numbers, rate_constant=omega * growth, decay_constant=tau)

    c = bound(0.0)
    alone = worse = apart = 0
    for _ in range(pairs):
        u = L @ rng.normal(size=N)
        f, other = u, k1 * u + math.sqrt(1 - k1**2) * (L @ rng.normal(size=N))
        (last, regret), (its_last, its_regret) = (last_sample(score, X, kernel, T) for score in (f, other))
        assert bound(regret) == pytest.approx(regret + c, rel=1e-9)
        moved = abs(last - its_last)
        alone += moved > bound(regret)
        c_fails = np.abs(f - other).max() > c
        apart += c_fails
        worse += moved > bound(max(regret, its_regret)) and not c_fails
    assert worse == 0
    assert apart <= delta * pairs
    assert alone >= 33


def last_sample(score, X, kernel, T):
    """The T-th sample of branch and bound, and how far below the maximum it is."""
    search = BranchAndBound(X, kernel)
    for _ in range(T):
        index = search.ask()
        search.tell(index, score[index])
    return score[index], score.max() - score[index]
