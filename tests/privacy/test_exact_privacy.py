"""The privacy loss itself, without sampling: whole methods draw by draw, and the tails in fifty digits."""

import math
import random
from fractions import Fraction
from functools import cache
from itertools import islice

import faults
import mpmath
import numpy as np
import pytest
from audit.distinguish import EPSILON, studies
from audit.replays import RANKINGS, WORLDS, cases
from audit.runs import Case
from neighbours import make_world
from replay import record
from worlds import Table, problem

from dpbo_core.ledger.accounting.composition import draw_units, largest_rho, order
from dpbo_core.mechanisms.gaussian import DiscreteGaussian
from dpbo_core.methods.private_grid import PrivateGrid
from dpbo_core.privacy.amounts import from_units, spent_units

mpmath.mp.dps = 50


def world(**wanted):
    return problem(n_candidates=2, n_validation=4, epsilon=EPSILON, **({"steps": 2} | wanted))


def apart(world, *, crossed=False):
    """One record's scores go from 0 to 1 at every candidate; crossed, from 1 to 0 at the second."""
    low = np.full((len(world.candidates), world.n_validation), 0.5)
    high = low.copy()
    low[:, -1], high[:, -1] = 0.0, 1.0
    if crossed:
        low[1, -1], high[1, -1] = 1.0, 0.0
    return Table(low), Table(high)


@cache
def _flip_over(chances):
    """∫ over a common threshold: Pr[each is chosen] by permute-and-flip, exactly, for chances of at most 1.

    Walking a uniform permutation, i is chosen when every one before it failed: ∏_{j before i}(1 − c_j). Averaged
    over permutations that is c_i Σ_S |S|!(n−1−|S|)!/n! ∏_{j∈S}(1 − c_j), by elementary symmetric polynomials.
    """
    n, result = len(chances), []
    for i, chance in enumerate(chances):
        symmetric = [mpmath.mpf(1)]
        for c in (*chances[:i], *chances[i + 1 :]):
            longer = [*symmetric, mpmath.mpf(0)]
            for size in range(len(symmetric)):
                longer[size + 1] += symmetric[size] * (1 - c)
            symmetric = longer
        walks = (
            mpmath.factorial(size) * mpmath.factorial(n - 1 - size) / mpmath.factorial(n) * e
            for size, e in enumerate(symmetric)
        )
        result.append(chance * mpmath.fsum(walks))
    return result


def selection_chances(mechanism, query, scale):
    weights = tuple(mpmath.exp(mpmath.mpf(u - max(query)) / mpmath.mpf(scale)) for u in query)
    if mechanism == "permute-and-flip":
        return _flip_over(weights)
    return [w / mpmath.fsum(weights) for w in weights]


def lead_chance(ratio, utilities, outcome):
    """Pr[index, lead] of the noisy maximum, exactly: Σ over x of Pr[others' largest = x]·ρ^(x − x₀), x ≥ x₀.

    Beyond the largest utility that distribution function is a product of 1 − ρ^(x − s + 1), so that the sum is one
    of geometric series, a series for each subset.
    """
    i, lead = outcome
    starts = sorted(u + (j < i) for j, u in enumerate(utilities) if j != i)
    at = utilities[i] - lead

    def upto(x):  # Pr[others' largest ≤ x]
        return mpmath.fprod(1 - ratio ** (x - s + 1) for s in starts) if x >= starts[-1] else mpmath.mpf(0)

    first = max(at, starts[-1])
    total = -upto(
        at - 1
    )  # Σ_{x ≥ at} ρ^(x − at)·(F(x) − F(x − 1)) = −F(at − 1) + (1 − ρ)·Σ_{x ≥ at} ρ^(x − at)·F(x)
    for chosen in range(2 ** len(starts)):
        subset = [s for place, s in enumerate(starts) if chosen >> place & 1]
        power = mpmath.fsum(first - s + 1 for s in subset)
        term = (-1) ** len(subset) * ratio ** (power + first - at) / (1 - ratio ** (len(subset) + 1))
        total += (1 - ratio) * term
    return (1 - ratio) * total


def cost(one, other):
    """(pure loss at this output, ρ of this step) of one draw, exactly; a Gaussian has no pure loss."""
    moved = abs(one.query[0] - other.query[0])
    if one.mechanism == "discrete Gaussian":
        return 0, Fraction(moved) ** 2 / (2 * Fraction(one.scale) ** 2)
    if one.mechanism == "discrete Laplace":
        loss = Fraction(abs(one.output - other.query[0]) - abs(one.output - one.query[0])) / Fraction(one.scale)
        return abs(loss), None
    if one.mechanism == "noisy maximum with its lead":
        ratio = mpmath.exp(-1 / mpmath.mpf(one.scale))
        p, q = (lead_chance(ratio, draw.query, one.output) for draw in (one, other))
        return abs(mpmath.log(p / q)), None
    p, q = (selection_chances(draw.mechanism, draw.query, draw.scale)[one.output] for draw in (one, other))
    return abs(mpmath.log(p / q)), None


def exact_cost(method, problem, here, there, seed):
    """The loss of one whole run at the outputs it happened to give, and the ρ of its Gaussian steps."""
    one = record(method, problem, here, seed=seed, thorough=False)
    other = record(method, problem, there, seed=seed, frozen=one, thorough=False)
    costs = [cost(a, b) for a, b in zip(one.draws, other.draws, strict=True)]
    pure = mpmath.fsum(mpmath.mpf(c.numerator) / c.denominator if isinstance(c, Fraction) else c for c, _ in costs)
    return pure, sum((rho for _, rho in costs if rho is not None), Fraction(0))


def assert_kept(method, problem, here, there, seed):
    """Pure methods: loss ≤ ε at every output. Gaussian ones: Σρ_t, with what a choice costs at α*, ≤ ρ*."""
    loss, rho = exact_cost(method, problem, here, there, seed)
    plan = method.plan(problem)
    if plan.guarantee.delta == 0.0:
        assert loss <= mpmath.mpf(problem.epsilon) * (1 + mpmath.mpf(10) ** -12)
        return float(loss) / problem.epsilon
    alpha = order(spent_units(problem.epsilon), problem.delta)
    pure = [(spend.epsilon_units, spend.rho_units) for spend in plan.spends if spend.epsilon_units is not None]
    choices = [from_units(draw_units(draw, alpha)) for draw in pure]
    assert loss <= sum(spend.epsilon for spend in plan.spends if spend.epsilon_units is not None) + 1e-12
    allowed = from_units(largest_rho(problem.epsilon, problem.delta)) - sum(choices)
    assert float(rho) <= allowed * (1 + 1e-9)
    return float(rho) / allowed


CASES = [  # every sixth in the short run, as in test_replay.py
    pytest.param(*case, id=f"{case[0].kind} {n} {case[1]}", marks=[pytest.mark.slow] * (n % 6 != 3))
    for n, case in enumerate(cases())
]


@pytest.fixture(scope="module")
def worlds(tmp_path_factory):
    worlds = WORLDS | RANKINGS
    return {name: make_world(tmp_path_factory.mktemp("world"), **wanted) for name, wanted in worlds.items()}


@pytest.mark.parametrize(("method", "name"), CASES)
def test_on_real_files_the_exact_loss_is_within_the_promise(worlds, method, name):
    place, rng = worlds[name], random.Random(f"exact {method} {name}")
    for seed, (one, other) in enumerate(islice(place.pairs(rng), 4)):
        assert_kept(method, place.problem, place.objective(one), place.objective(other), seed)


@pytest.mark.parametrize("kind", [kind for kind, pairs in studies().items() if isinstance(pairs[0], Case)])
def test_on_the_furthest_tables_the_exact_loss_comes_near_the_promise(kind):
    """Within it, over 12 outputs each; and it uses at least half, so the bound is not met by accident."""
    for case in studies()[kind]:
        if case.planned_on is None:
            used = [
                assert_kept(case.method, case.problem, *sides, seed)
                for seed in range(6)
                for sides in ((case.low, case.high), (case.high, case.low))
            ]
            assert max(used) >= 0.5


@pytest.mark.parametrize("fault", [faults.HalfSensitivity, faults.MeanForSum])
def test_a_miscalibrated_method_exceeds_its_promise_exactly(fault):
    problem = world()
    losses = [exact_cost(fault(), problem, *apart(problem, crossed=True), seed)[0] for seed in range(30)]
    assert max(losses) > 1.5 * EPSILON
    honest_losses = [
        exact_cost(PrivateGrid(), problem, *apart(problem, crossed=True), seed)[0] for seed in range(30)
    ]
    assert max(honest_losses) <= EPSILON


def test_the_whole_budget_at_each_step_is_seen_in_rho():
    problem = world(steps=8, delta=0.01)
    _, rho = exact_cost(faults.WholeBudgetEachStep(), problem, *apart(problem), 0)
    path = 0.75  # the rest pays for the fresh look
    assert float(rho) > 7.9 * path * from_units(largest_rho(problem.epsilon, problem.delta))


def gaussian_delta(scale, sensitivity, epsilon, n_draws):
    """δ(ε) of `n_draws` discrete Gaussians, each moved by Δ: the loss is linear in the sum of their noises.

    Σ_s max(0, P(s) − e^ε P′(s)) over s = Σz, with P the n-fold convolution; ratio P′/P = exp(−(2Δs + nΔ²)/2σ²).
    """
    reach = math.ceil(14 * scale)
    z = np.arange(-reach, reach + 1)
    exact = [mpmath.exp(-(mpmath.mpf(int(x)) ** 2) / (2 * mpmath.mpf(scale) ** 2)) for x in z]
    whole = mpmath.fsum(exact)
    one = np.array([float(x / whole) for x in exact])
    mass = one
    for _ in range(n_draws - 1):
        mass = np.convolve(mass, one)
    s = np.arange(len(mass)) - len(mass) // 2
    loss = (2 * sensitivity * s + n_draws * sensitivity**2) / (2 * scale**2)  # log P(s)/P(s + nΔ)
    return float(np.sum(mass * np.clip(-np.expm1(epsilon - loss), 0.0, None)))


@pytest.mark.parametrize(("epsilon", "delta"), [(0.3, 1e-2), (1.0, 1e-3), (1.0, 1e-6), (4.0, 1e-6)])
@pytest.mark.parametrize("n_draws", [1, 5])
def test_composed_gaussians_keep_their_delta_exactly(epsilon, delta, n_draws):
    """At the ρ a study would be given, the true δ(ε) of the composition is under δ; at half the noise above it."""
    rho = largest_rho(epsilon, delta) // n_draws
    sensitivity = 3
    mechanism = DiscreteGaussian(sensitivity, rho, 1.0)
    assert gaussian_delta(mechanism.scale, sensitivity, epsilon, n_draws) <= delta
    assert gaussian_delta(mechanism.scale / 2, sensitivity, epsilon, n_draws) > delta
