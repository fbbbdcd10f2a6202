"""Telling neighbours apart: every method whole, with its real noise, many times on V and on V′.

The pairs (`worst`, and `worst_*` of the features) lose as much as one record is known to make a method lose; what
they lose is computed beside it. The adversary's statistic is the likelihood ratio of the whole transcript. An
honest row must prove at least `SEEN` of its guarantee, for an audit that sees little would miss a fault of that
size; and the same pair with every noise scale divided by 1.5 must be caught.

| symbol | name here | meaning |
|---|---|---|
| n | `runs` | runs on each of V and V′ |
| ε | `epsilon` | what is guaranteed at δ |
| — | `exact` | what this pair loses at δ, from the mechanisms' own probabilities |
| ε̂ | `proved` | a lower bound on the ε that the runs allow; the guarantee is false if it is above ε |
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import faults
from of_features import merged, parts

from audit.bounds import LEVEL, Values, by_events, separation
from audit.laws import Pure, weaker_than
from audit.runs import quickly, weaker_noise
from audit.worst import draws_case, grid_case, last_case, margin_case, noisy_case, trajectory_case
from dpbo_core.methods.kusner_gp import ExactGP, NoisyGP
from dpbo_core.methods.lipschitz import Lipschitz
from dpbo_core.methods.private_grid import PrivateGrid
from dpbo_core.methods.private_trajectory import PrivateTrajectory
from dpbo_core.methods.public import Public

EPSILON, DELTA = 1.0, 1e-5
WEAKER = 1.5  # the planted fault: every noise scale is divided by it
QUICK_LEVEL = 1e-8
QUICK_RUNS = {"private_trajectory": 60, "noisy_gp": 200, **merged("QUICK_RUNS")}
SEEN = 0.6  # of the guarantee, that an honest row must prove
Pair = Any  # a `worst.Case`, or what a feature has of its kind
Many = tuple[int, int]  # runs on each side: honest, and with the planted fault

ASSERTED = ExactGP(rate_constant=1e3, decay_constant=0.01)
OPTIMIST = NoisyGP(score_center=0.9)  # so that what was not looked at is believed to be good


def studies(epsilon: float = EPSILON) -> dict[str, tuple[Pair, ...]]:
    """By kind: a test says which is missing; ε is in proportion to `epsilon`.

    Gaussian rows and those that need rare outcomes have a larger ε: what is seen grows with it, at the same cost.
    """
    few: Many = (8_000, 6_000)
    more: Many = (10_000, 10_000)
    looks: Many = (3_000, 2_400)
    choice = PrivateTrajectory(final_share=0.25)
    return {
        "private_grid": (
            grid_case("choice and score", PrivateGrid(), epsilon, runs=more),
            grid_case("a person of two records", PrivateGrid(), epsilon, person=True, runs=more),
        ),
        "private_trajectory": (
            trajectory_case("path and fresh look", PrivateTrajectory(), 6 * epsilon, runs=looks),
            trajectory_case("fitted lengthscale", PrivateTrajectory(), 6 * epsilon, lengthscale="fit", runs=looks),
            trajectory_case("with a final choice", choice, 6 * epsilon, crossed=True, runs=looks),
            trajectory_case("a person of two records", PrivateTrajectory(), 6 * epsilon, person=True, runs=looks),
        ),
        "public": (draws_case("its score", Public(), epsilon, runs=few),),
        "lipschitz": (
            margin_case("all of Λ", Lipschitz(), epsilon, runs=few),
            margin_case("bounds from λ", Lipschitz("path"), epsilon, runs=few),
            margin_case("a person of two records", Lipschitz(), epsilon, person=True, runs=few),
        ),
        "noisy_gp": (noisy_case("choice and score, capped", OPTIMIST, 3 * epsilon, runs=(24_000, 30_000)),),
        "exact_gp": (last_case("last score, capped", ASSERTED, epsilon, runs=few),),
    }


def honest(epsilon: float = EPSILON) -> dict[str, tuple[Pair, ...]]:
    """Every method of the core, and every method and exchange of a feature."""
    return studies(epsilon) | merged("worst_pairs", epsilon)


def planted() -> tuple[Pair, ...]:
    """Faults of other kinds, each found in a published library or paper; the statistics stay the honest ones."""
    few: Many = (0, 3_000)
    steps = {"steps": 4, "runs": (0, 1_000)}
    return (
        grid_case("half the sensitivity", faults.HalfSensitivity(), EPSILON, runs=few),
        grid_case("sensitivity of a mean on a sum", faults.MeanForSum(), EPSILON, runs=few),
        grid_case("no noise where the winner is clear", faults.ChoosesTheClear(), EPSILON, runs=few),
        trajectory_case("the whole budget at each step", faults.WholeBudgetEachStep(), 6 * EPSILON, **steps),
        margin_case("Theorem 7 as printed", Lipschitz(calibration="published"), EPSILON, runs=few),
        *itertools.chain(*(faulty(EPSILON) for faulty in parts("planted_pairs"))),
    )


@dataclass(frozen=True)
class Row:
    """One case: the runs on each side, the guarantee, what the pair loses, and what the runs prove."""

    method: str
    name: str
    runs: int
    epsilon: float
    delta: float
    exact: float | None
    proved: float

    @property
    def broken(self) -> bool:
        """Whether the guarantee is refuted."""
        return self.proved > self.epsilon

    @property
    def verdict(self) -> str:
        """What it says of the guarantee; "blind" where a fault of its own size would be missed."""
        if self.broken:
            return "above"
        return "under" if self.proved >= SEEN * self.epsilon else "blind"


def measure(
    pair: Pair, runs: int, *, weaker: float = 1.0, level: float = LEVEL, threshold: float | None = None
) -> Row:
    """Run both sides and compare. An honest pair is found above its ε with probability at most 2·`level`."""
    with quickly(), weaker_noise(weaker):
        here, there = pair.ratios(0, runs), pair.ratios(1, runs)
    return judged(pair, here, there, weaker=weaker, level=level, threshold=threshold)


def judged(
    pair: Pair, here: Values, there: Values, *, weaker: float, level: float = LEVEL, threshold: float | None = None
) -> Row:
    """What likelihood ratios of runs on both sides, (n,) each, prove."""
    if isinstance(pair.law, Pure):
        proved = by_events(here, there, level=level, threshold=threshold)
    else:
        proved = pair.law.epsilon(weaker_than(pair.law, separation(here, there, level=level)))
    exact = pair.law.epsilon(weaker)
    return Row(pair.kind, pair.name, len(here), pair.epsilon, pair.delta, exact, max(0.0, proved))


def quick(kind: str, name: str) -> tuple[Row, Row]:
    """A pair of a method at a fifth of its ε, few runs, the event {ℓ > 0}: honest, and with 1/64 of the noise.

    The first is found above its ε with probability at most 2·`QUICK_LEVEL`.
    """
    (pair,) = (pair for pair in honest(EPSILON / 5.0)[kind] if pair.name == name)
    runs = QUICK_RUNS.get(kind, 300)
    honest_row, faulty_row = (
        measure(pair, runs, weaker=weaker, level=QUICK_LEVEL, threshold=0.0) for weaker in (1.0, 64.0)
    )
    return honest_row, faulty_row


def jobs(*, faulty: bool) -> dict[tuple[str, str], Callable[..., Row]]:
    """Each row of the audit by method and name, as a function of the share of its runs."""
    told = {(kind, pair.name): pair for kind, pairs in honest().items() for pair in pairs}
    if not faulty:
        return {key: partial(_measured, pair, 0) for key, pair in told.items()}
    divided = {key: partial(_measured, pair, 1, weaker=WEAKER) for key, pair in told.items() if pair.runs[1]}
    return divided | {(pair.kind, pair.name): partial(_measured, pair, 1, exact=False) for pair in planted()}


def measured(kind: str, name: str, share: float, *, faulty: bool) -> Row:
    """One row, by its method and name."""
    return jobs(faulty=faulty)[kind, name](share)


def _measured(pair: Pair, which: int, share: float, *, weaker: float = 1.0, exact: bool = True) -> Row:
    found = measure(pair, max(50, round(pair.runs[which] * share)), weaker=weaker)
    return found if exact else Row(**(vars(found) | {"exact": None}))  # the pair's law is the honest mechanism's
