"""The standing that a plan prints is that of what runs: each method and calibration against a formula here.

`printed` pays the paper's formula to the last step of the grid, `corrected` the corrected one, `standard` the
textbook's. A method, a calibration or a label that is not in the table fails.
"""

import math
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pytest
from of_features import parts
from scipy import optimize
from scipy.stats import norm
from worlds import problem

from dpbo_core.methods import EXCHANGES, METHODS
from dpbo_core.methods.kusner_gp import ExactGP, NoisyGP
from dpbo_core.methods.lipschitz import Lipschitz
from dpbo_core.methods.private_grid import PrivateGrid
from dpbo_core.methods.private_trajectory import PrivateTrajectory
from dpbo_core.methods.problem import stated_kernel
from dpbo_core.methods.public import Public
from dpbo_core.models.integer_sums import GRID
from dpbo_core.privacy.guarantee import Evidence
from dpbo_core.search.search_space import Real, SearchSpace
from dpbo_core.search.search_space import grid as grid_of
from dpbo_core.theorems import srinivas_2010

Prices = Callable[[Any], list[tuple[float, float]]]  # (Δ, scale of the noise) of each draw, in units of the score
N, M, T, K, DELTA = 12, 50, 30, 2, 1e-6
# ε = 1, G = 1, λ in [0.5, 8], L = 0.0125
WORLD = problem(n_candidates=N, n_validation=M, steps=T, k=K, delta=DELTA)
SD = 0.25  # a prior standard deviation, in units of the score
K1, SIGMA2, A, TAU = 0.99, 0.01, 0.05, 0.1
GP = {"rate_constant": A, "decay_constant": TAU}
VAST = {"rate_constant": 1e3, "decay_constant": 0.01}  # where the range caps it


@dataclass(frozen=True)
class Row:
    """A method as a study may write it, the standing it must print, and what it must pay."""

    method: Any
    standing: str
    prices: Prices
    delta: float = 0.0
    assumptions: tuple[str, ...] = ()
    world: Any = WORLD


def laplace(Delta, epsilon):
    return (Delta, Delta / epsilon)


def selection(Delta, epsilon):
    return (Delta, 2 * Delta / epsilon)


def tight_rho(epsilon, delta):
    """The largest ρ whose conversion at δ is ε: inf over α of αρ + log(1 − 1/α) − log(δα)/(α − 1)."""
    orders = 1 + np.exp(np.linspace(-3, 8, 200_001))

    def converted(rho):
        return (orders * rho + np.log1p(-1 / orders) - np.log(delta * orders) / (orders - 1)).min()

    return optimize.brentq(lambda rho: converted(rho) - epsilon, 1e-9, epsilon, xtol=1e-14)


def trajectory(_):
    """kG/m at a fixed λ; three quarters of ρ* over T steps, a quarter for the fresh look."""
    rho = tight_rho(1.0, DELTA)
    path, look = 0.75 * rho / T, 0.25 * rho
    return [(K / M, K / M / math.sqrt(2 * path))] * T + [(K / M, K / M / math.sqrt(2 * look))]


def flipped(_):
    """Beside it a choice of which randomised response with the same ε costs six tenths of α*ρ* at α*, over α*."""
    rho = tight_rho(1.0, DELTA)
    orders = 1 + np.exp(np.linspace(-3, 8, 200_001))
    near = orders[(orders * rho + np.log1p(-1 / orders) - np.log(DELTA * orders) / (orders - 1)).argmin()]
    # where the derivative is 0
    alpha = optimize.brentq(
        lambda a: rho + math.log(DELTA * a) / (a - 1) ** 2, near * 0.99, near * 1.01, xtol=1e-13
    )

    def response(epsilon):
        p = 1 / (1 + math.exp(-epsilon))
        there, back = p**alpha * (1 - p) ** (1 - alpha), (1 - p) ** alpha * p ** (1 - alpha)
        return math.log(there + back) / (alpha - 1)

    chosen = optimize.brentq(lambda epsilon: response(epsilon) - 0.6 * alpha * rho, 1e-6, 1.0, xtol=1e-14)
    path, look = 0.3 * rho / T * (1 + 1e-7), 0.1 * rho  # the last step has the units that a division leaves
    steps = [(K / M, K / M / math.sqrt(2 * path))] * T
    return [*steps, selection(K / M, chosen), (K / M, K / M / math.sqrt(2 * look))]


def grid(_):
    return [selection(K / M, 0.9), laplace(K / M, 0.1)]


def whole(_):
    return [laplace(K / M, 1.0)]


def theorem_7(method):
    low, high, L, loss0 = 0.5, 8.0, 0.0125, math.log(2)
    if method.calibration == "published":
        return [laplace(K * min(1 / M, L / (M * low)) + L * (1 / low - 1 / high), 1.0)]
    tau = 1e-6
    B = min(1 / low, math.sqrt(2 * loss0 / low))
    R, D = min(1.0, 2 * L * (B + tau)), min(1 / low - 1 / high, 2 * B) + 2 * tau
    if method.train == "step":  # w = 0 stands for what could not be trained
        D = max(D, B + tau)
    steps = M * (math.ceil(GRID * L * D) + 1) + K * (math.ceil(GRID * R) + 1)
    return [laplace(steps / (M * GRID), 1.0)]


def theorem_7_wide(_):
    """As printed, of so wide a Λ that 1/λ_min − 1/λ_max is beyond 2B."""
    low, high, L = 1e-4, 8.0, 0.0125
    return [laplace(K * min(1 / M, L / (M * low)) + L * (1 / low - 1 / high), 1.0)]


def whole_path(method):
    """One record's range at the models of Λ, with a step of rounding a record: not the whole grid here, R < 1."""
    R = 2 * 0.0125 * (min(2.0, math.sqrt(2 * math.log(2) / 0.5)) + 1e-6)
    return [laplace(K * (math.ceil(GRID * R) + 1) / (M * GRID), 1.0)]


def similarity(method, events, delta):
    """c: as printed, or no more than what one person moves a score by."""
    printed = 2 * math.sqrt((1 - method.dataset_similarity) * math.log(events * N / delta))
    return printed if method.calibration == "published" else min(printed, K / M / SD)


def theorem_1(method, delta):
    c = similarity(method, 3, delta)
    if method.calibration == "published":
        return 2 * math.sqrt(2 * math.log(N * (T + 1) ** 2 * math.pi**2 / (3 * delta))) + c
    return 2 * math.sqrt(2 * math.log(3 * N / delta)) + c


def theorem_3(method, delta):
    X, kernel, published = WORLD.candidates.encoded, stated_kernel(WORLD), method.calibration == "published"
    gain = srinivas_2010.information_gain_bound(
        gram=kernel.matrix(X, X).__getitem__, n_steps=T, noise_variance=SIGMA2
    )
    parts = 2 if published else 5
    beta = 2 * math.log(parts * N * T**2 * math.pi**2 / (6 * delta))
    q = math.sqrt(8 * math.log(3 / delta)) if published else math.sqrt(2) * norm.isf(delta / (5 * T))
    omega = math.sqrt(8 / math.log(1 + 1 / SIGMA2) * beta * gain / T)
    return omega + similarity(method, 3 if published else 5, delta) + math.sqrt(SIGMA2) * q


def noisy(method):
    """Both at half of (ε, δ), or one at the whole; the range where it caps."""
    share = 2 if method.outputs == "both" else 1
    found = []
    for what, Delta, drawn in (("candidate", theorem_1, selection), ("score", theorem_3, laplace)):
        if method.outputs in ("both", what):
            real = Delta(method, DELTA / share) * SD
            found.append(drawn(min(real, 1.0) if method.cap_at_range else real, 1 / share))
    return found


def exact(method):
    """Each at its share of (ε, δ): the choice as in Algorithm 1, the score by Theorem 5."""
    share = 2 if method.outputs == "both" else 1
    rate = method.rate_constant * math.exp(-T * method.decay_constant / math.log(T) ** 0.25)
    score = (rate + similarity(method, 2, DELTA / share)) * SD
    found = [selection(theorem_1(method, DELTA / share) * SD, 1 / share)] * (method.outputs != "score")
    found += [laplace(score, 1 / share)] * (method.outputs != "candidate")
    top = 1.0 if method.cap_at_range else math.inf
    return [(Delta, scale) if Delta <= top else (top, scale * top / Delta) for Delta, scale in found]


PRIOR, CONSTANTS = ("gp_prior",), ("de_freitas_constants",)
BOTH, ALIKE = (*PRIOR, *CONSTANTS), {**GP, "dataset_similarity": 1.0 - 1e-7}  # where c is the prior's
WIDE = replace(WORLD, candidates=grid_of(SearchSpace({"lambda": Real(1e-4, 8.0, log=True)}), {"lambda": N}))
ROWS = [
    Row(PrivateTrajectory(), "standard", trajectory, DELTA),
    Row(PrivateTrajectory(look_share=0.1, final_share=0.6), "standard", flipped, DELTA),
    Row(PrivateGrid(), "standard", grid),
    Row(PrivateGrid(evaluate="tried", base_measure="public", paired=True), "standard", grid),
    Row(PrivateGrid(editions=12), "standard", grid),
    Row(PrivateGrid(score_share=0.0), "standard", lambda _: [selection(K / M, 1.0)]),
    Row(Public(), "standard", whole),
    Row(Lipschitz(), "standard", whole_path),
    Row(Lipschitz(evaluate="path"), "corrected", theorem_7),
    Row(Lipschitz(evaluate="path", train="step"), "corrected", theorem_7, assumptions=("step_times_hidden",)),
    Row(Lipschitz(calibration="published"), "refuted", theorem_7),
    Row(Lipschitz(calibration="published"), "printed", theorem_7_wide, world=WIDE),
    Row(Lipschitz(calibration="published", train="step"), "refuted", theorem_7),
    Row(NoisyGP(), "standard", noisy),
    Row(NoisyGP(outputs="candidate", calibration="published"), "standard", noisy),
    Row(NoisyGP(cap_at_range=False), "corrected", noisy, DELTA, PRIOR),
    Row(NoisyGP(cap_at_range=False, outputs="candidate"), "corrected", noisy, DELTA, PRIOR),
    Row(NoisyGP(cap_at_range=False, outputs="score"), "corrected", noisy, DELTA, PRIOR),
    Row(NoisyGP(cap_at_range=False, outputs="candidate", calibration="published"), "printed", noisy, DELTA, PRIOR),
    Row(NoisyGP(cap_at_range=False, outputs="score", calibration="published"), "printed", noisy, DELTA, PRIOR),
    Row(NoisyGP(cap_at_range=False, calibration="published"), "printed", noisy, DELTA, PRIOR),
    Row(NoisyGP(calibration="published"), "standard", noisy),
    Row(ExactGP(**VAST), "standard", exact),
    Row(ExactGP(**VAST, calibration="published"), "standard", exact),
    Row(ExactGP(**GP), "corrected", exact, DELTA, CONSTANTS),
    Row(ExactGP(**ALIKE), "corrected", exact, DELTA, BOTH),
    Row(ExactGP(**GP, cap_at_range=False), "corrected", exact, DELTA, CONSTANTS),
    Row(ExactGP(**GP, calibration="published"), "printed", exact, DELTA, CONSTANTS),
    Row(ExactGP(**ALIKE, calibration="published"), "printed", exact, DELTA, BOTH),
    Row(ExactGP(**GP, calibration="published", cap_at_range=False), "printed", exact, DELTA, CONSTANTS),
    Row(ExactGP(**VAST, outputs="both"), "standard", exact),
    Row(ExactGP(outputs="candidate"), "standard", exact),
    Row(ExactGP(outputs="candidate", cap_at_range=False), "corrected", exact, DELTA, PRIOR),
    Row(ExactGP(calibration="published", outputs="candidate", cap_at_range=False), "printed", exact, DELTA, PRIOR),
    *(Row(*row) for rows in parts("standings") for row in rows(K / M)),
]
ELSEWHERE = {*parts("STANDING_ELSEWHERE")}  # exchanges, whose tests are in their features


def named(row):
    told = [field.name for field in fields(row.method) if getattr(row.method, field.name) != field.default]
    options = [f"{name}={getattr(row.method, name)}" for name in told if name not in VAST]
    return " ".join((row.method.kind, *options, row.standing))


def check(row):
    """One row: what is printed, what is paid, and what the mechanisms will draw with."""
    plan, step = row.method.plan(row.world), 1.0 / GRID
    guarantee = plan.guarantee
    assert guarantee.evidence.standing == row.standing
    assert guarantee.delta == row.delta
    assert guarantee.assumptions == row.assumptions
    assert (guarantee.epsilon == math.inf) == (row.standing == "refuted")
    wanted = row.prices(row.method)
    assert len(plan.spends) == len(wanted)
    for spend, (Delta, scale) in zip(plan.spends, wanted, strict=True):
        assert Delta * (1 - 1e-12) <= spend.sensitivity <= Delta * (1 + 1e-9) + 2 * step, spend.what
        assert scale * (1 - 1e-9) <= spend.noise_scale
        assert spend.noise_scale <= scale * (1 + 1e-6) + 2 * step * scale / Delta, spend.what
    for spend, (planned, mechanism) in zip(plan.spends, row.method.draws(row.world), strict=True):
        assert planned == spend
        assert mechanism.spend(spend.what).noise_scale == spend.noise_scale
        assert mechanism.spend(spend.what).sensitivity == spend.sensitivity


@pytest.mark.parametrize("row", ROWS, ids=named)
def test_every_standing_is_that_of_what_runs(row):
    check(row)


METHOD_FILES = "|".join([r"dpbo_core\.methods\.", *(cls.__module__ for cls in METHODS.values())])


def uncovered(methods, rows):
    """Kinds, calibrations with and without the cap, and labels of any method's file that no row shows."""
    files = [item for name, item in sys.modules.items() if re.match(METHOD_FILES, name)]
    labels = {label for item in files for label in vars(item).values() if isinstance(label, Evidence)}
    missing = []
    for kind, cls in methods.items():
        of = [row for row in rows if row.method.kind == kind]
        names = {field.name for field in fields(cls)}
        for calibration in ("published", "corrected") if "calibration" in names else (None,):
            for capped in (True, False) if "cap_at_range" in names else (None,):
                shown = [
                    row
                    for row in of
                    if calibration in (None, getattr(row.method, "calibration", None))
                    and capped in (None, getattr(row.method, "cap_at_range", None))
                ]
                missing += [] if shown else [(kind, calibration, capped)]
    shown = {row.method.plan(row.world).guarantee.evidence for row in rows}
    return missing + sorted(label.note for label in labels - shown)


def test_every_method_calibration_and_label_is_in_the_table():
    apart = [note for notes in parts("LABELS_ELSEWHERE") for note in notes]  # tested in their features
    assert uncovered(METHODS, ROWS) == apart, "a Row each in ROWS: what it must print and pay, computed apart"
    assert set(EXCHANGES) == set(ELSEWHERE)
    assert len(uncovered({**METHODS, "new": Lipschitz}, ROWS)) > len(apart)  # a method that nobody wrote down
    assert uncovered(METHODS, [row for row in ROWS if row.standing != "printed"])  # nor a label


@pytest.mark.parametrize(
    ("claimed", "runs"),
    [
        (ExactGP(**GP, calibration="published"), ExactGP(**GP)),  # the label this table was written for
        (NoisyGP(cap_at_range=False, calibration="published", outputs="candidate"), NoisyGP(cap_at_range=False)),
        (Lipschitz(evaluate="path"), Lipschitz(calibration="published")),
        (Lipschitz(), Lipschitz(evaluate="path")),
    ],
)
def test_a_label_that_says_more_than_what_runs_is_caught(claimed, runs):
    row = next(row for row in ROWS if row.method == claimed)
    with pytest.raises(AssertionError):
        check(Row(runs, row.standing, lambda _: row.prices(claimed), row.delta, row.assumptions))
    honest = next(row for row in ROWS if row.method == runs)
    with pytest.raises(AssertionError):  # the right label, and the other's price
        check(Row(runs, honest.standing, lambda _: row.prices(claimed), honest.delta, honest.assumptions))
