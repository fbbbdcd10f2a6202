"""Small worlds in which the law of a private selection's winner is computed exactly, by enumeration."""

import itertools
import math
from dataclasses import dataclass

import numpy as np

from dpbo_core.theorems.loss_profile import LossLaw, LossProfile
from dpbo_core.theorems.trial_counts import (
    Binomial,
    CappedCount,
    Fixed,
    Poisson,
    TrialCount,
    TruncatedNegativeBinomial,
)


def law_of_pair(p, q):
    """The exact loss law of a pair of finite distributions."""
    finite = (p > 0) & (q > 0)
    losses = np.log(p[finite] / q[finite])
    order = np.argsort(losses)
    return LossLaw(losses[order], p[finite][order], float(p[(p > 0) & (q == 0)].sum()))


def profile_of_pair(p, q):
    return LossProfile(law_of_pair(p, q), law_of_pair(q, p))


def random_pair(rng, size):
    """Two distributions on `size` outcomes, sometimes far apart and sometimes without an outcome."""
    spread = rng.choice([0.1, 0.5, 1.5, 4.0])
    base = rng.dirichlet(np.full(size, rng.choice([0.3, 1.0, 3.0])))
    other = base * np.exp(spread * rng.standard_normal(size))
    if rng.random() < 0.2:
        other[rng.integers(size)] = 0.0
    return base, other / other.sum()


def random_law(rng) -> TrialCount:
    made = rng.integers(6)
    if made == 0:
        return Fixed(int(rng.integers(1, 6)))
    if made == 1:
        return Poisson(float(rng.uniform(0.2, 12.0)))
    if made == 2:
        return Binomial(int(rng.integers(1, 12)), float(rng.uniform(0.05, 1.0)))
    law = TruncatedNegativeBinomial(float(rng.choice([-0.5, 0.0, 1.0, 2.0, 5.0])), float(rng.uniform(1.05, 20.0)))
    return law if made < 5 else CappedCount(law, int(rng.integers(1, 25)))


def winner(p, trials):
    """The law of the winner's outcome, later outcomes being better, and last the default of no trial."""
    worse = np.concatenate([[0.0], np.cumsum(p)])
    f = trials.generating(1.0 - worse)
    return np.append(np.diff(f), f[0])


def delta_of(p, q, epsilon):
    return float(np.maximum(0.0, p - math.exp(epsilon) * q).sum())


def first_to_reach(p, reaching, stop, limit):
    """The law of the first trial whose outcome is in `reaching`, and last the default, by summing over trials."""
    fails = 1.0 - p[reaching].sum()
    keep, total = 1.0, 0.0  # chance to run trial j, and Σ of chances that it runs after failures alone
    default = 0.0
    for _ in range(20_000 if limit is None else limit):
        total += keep
        default += keep * fails * stop
        keep *= fails * (1.0 - stop)
    return np.append(total * np.where(reaching, p, 0.0), default + (keep if limit is not None else 0.0))


@dataclass(frozen=True)
class AdaptiveWorld:
    """Two candidates with three outcomes each, and trials whose densities depend on all that came before."""

    p: np.ndarray  # (2, 3)
    q: np.ndarray
    quality: np.ndarray  # (2, 3), all different
    prior: np.ndarray  # (2,)
    low: float
    high: float
    seed: int

    def density(self, side, past):
        """The density of the next candidate on a data set, within [c, C] of the prior."""
        rng = np.random.default_rng((self.seed, side, *past))
        least = max(self.low * self.prior[0], 1.0 - self.high * self.prior[1])
        most = max(least, min(self.high * self.prior[0], 1.0 - self.low * self.prior[1]))
        first = rng.choice([least, most])
        return np.array([first, 1.0 - first])

    def winner(self, side, masses):
        """The law of the best of K trials, K = k with probability masses[k], over all histories."""
        p = (self.p, self.q)[side]
        law = np.zeros(7)
        law[6] = masses[0]
        for k in range(1, len(masses)):
            for history in itertools.product(range(6), repeat=k):
                chance = masses[k]
                for j, place in enumerate(history):
                    chance *= self.density(side, history[:j])[place // 3] * p[place // 3, place % 3]
                law[max(history, key=lambda place: self.quality[place // 3, place % 3])] += chance
        return law

    def profile(self):
        mixed = (self.prior[:, None] * self.p).ravel(), (self.prior[:, None] * self.q).ravel()
        return profile_of_pair(*mixed)
