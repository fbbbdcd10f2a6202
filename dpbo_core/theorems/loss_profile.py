"""The privacy profile of one mechanism as two one-sided loss laws, discretised so that every price is rounded up.

| symbol | name here | meaning | shape |
|---|---|---|---|
| P, Q | — | a pair that dominates the mechanism on neighbouring data sets, in one direction | laws |
| L | `losses` | log(P/Q) of an outcome drawn from P | (m,), rising |
| — | `masses`, `infinite` | probability under P of each loss, and of L = ∞ | (m,), scalar |
| H_t(P‖Q) | `hockey_stick(t)` | Σ(p − tq)₊ = E[(1 − te^(−L))₊] | as t ≥ 0 |
| δ(ε) | `delta(epsilon)` | H at t = e^ε, the larger direction | scalar |

A pair dominates if its H_t is no smaller at every t ≥ 0. Each step here keeps that: an atom is split between two
grid points with its masses under P and Q unchanged, which raises H_t at every t; what a convolution by FFT may have
lost is added at ∞; a hull lies above the convex function that it bounds. The two directions are kept apart and
never reversed: a hull that is known for t ≥ 1 alone, reversed, has a false atom at ∞.

Sources: Zhu, Dong, Wang (2022) (dominating pairs); Doroshenko et al. (2022) (the split of an atom); Canonne,
Kamath, Steinke (2020), Proposition 12 (δ from a Rényi curve).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
STEP = 1e-4  # of the grid of losses
_LARGEST_GRID = 2**22
_CUT_ATOMS = 20_000  # of a law whose moments are taken at many orders
_ROUNDING = 1e-10  # relative, above the error of a sum of 10⁵ terms; always applied upwards
_SMALLEST_DELTA = 1e-20  # below which a Rényi curve's profile counts as constant
_ORDERS = 1.0 + np.geomspace(1e-3, 1e6, 500)


@dataclass(frozen=True, eq=False)
class LossLaw:
    """The law under P of the loss log(P/Q) in one direction: atoms at rising finite losses, and mass at ∞."""

    losses: Floats
    masses: Floats
    infinite: float = 0.0

    @cached_property
    def tails(self) -> tuple[Floats, Floats]:
        """Mass under P and under Q of every loss from the k-th on, (m + 1,) each; P's includes the mass at ∞."""
        under_q = self.masses * np.exp(np.minimum(-self.losses, 700.0))
        above_p, above_q = (np.append(np.cumsum(law[::-1])[::-1], 0.0) for law in (self.masses, under_q))
        return above_p + self.infinite, above_q

    def hockey_stick(self, t: Floats) -> Floats:
        """Return H_t(P‖Q) at each t ≥ 0, rounded up, shape as t.

        Entry k of `tails` is the mass of P and of Q on losses above log t; 1e-15 is the rounding error of the
        tails, relative to the finite mass.
        """
        above_p, above_q = self.tails
        with np.errstate(divide="ignore"):
            k = np.searchsorted(self.losses, np.log(t), side="right")
        return np.maximum(self.infinite, above_p[k] - t * above_q[k] + 1e-15 * (above_p[k] - self.infinite))

    def largest_chance(self, r: Floats) -> Floats:
        """Return min(1, inf_t tr + H_t(P‖Q)): the most that P gives to an event of chance r under Q, rounded up."""
        above_p, above_q = self.tails
        xs, ys = np.append(above_q[::-1], above_q[0] + 1e-300), np.append(above_p[::-1], 1.0)
        return np.asarray(np.minimum(1.0, np.interp(r, xs, ys) * (1.0 + _ROUNDING)))

    def on_grid(self, step: float) -> "LossLaw":
        """Return a law on multiples of `step` that dominates this one, masses under P and Q unchanged."""
        if not len(self.losses):
            return self
        place = np.floor(self.losses / step + 1e-9)
        up = np.maximum(0.0, self.losses - place * step)
        # p e^(−L) = (p − x) e^(−a) + x e^(−b) for neighbouring grid points a ≤ L ≤ b = a + step
        share = np.expm1(-up) / math.expm1(-step)
        first = int(place[0])
        masses = np.zeros(int(place[-1]) - first + 2)
        np.add.at(masses, (place - first).astype(np.int64), self.masses * (1.0 - share))
        np.add.at(masses, (place - first).astype(np.int64) + 1, self.masses * share)
        losses = (first + np.arange(len(masses), dtype=np.float64)) * step
        return LossLaw(losses, masses, self.infinite)

    def compose(self, other: "LossLaw", step: float) -> "LossLaw":
        """Return the law of the sum of two independent losses, on the grid of `step`."""
        from scipy.signal import fftconvolve

        one, two = self.on_grid(step), other.on_grid(step)
        infinite = 1.0 - (1.0 - self.infinite) * (1.0 - other.infinite)
        if not (len(one.losses) and len(two.losses)):
            return LossLaw(np.zeros(0), np.zeros(0), 1.0)
        masses = np.maximum(0.0, fftconvolve(one.masses, two.masses))
        norms = float(np.linalg.norm(one.masses) * np.linalg.norm(two.masses))
        lost = 8.0 * np.finfo(np.float64).eps * math.log2(len(masses) + 2.0) * norms * len(masses)
        losses = (round(one.losses[0] / step) + round(two.losses[0] / step) + np.arange(len(masses))) * step
        return LossLaw(losses, masses, min(1.0, infinite + lost))


def _law_of_profile(t: Floats, H: Floats) -> LossLaw:
    """Return the loss law whose profile is the lower convex hull of (0, 1) and the points (t, H), t rising > 0."""
    hull = _lower_hull(np.append(0.0, t), np.append(1.0, np.minimum(1.0, H)))
    x, y = hull[:, 0], hull[:, 1]
    slopes = np.append(np.diff(y) / np.diff(x), 0.0)
    under_q = np.maximum(0.0, np.diff(slopes))
    masses = x[1:] * under_q
    total = float(masses.sum()) + float(y[-1])
    return LossLaw(np.log(x[1:]), masses, float(y[-1]) + max(0.0, 1.0 - total))


def _lower_hull(x: Floats, y: Floats) -> Floats:
    """Return the vertices of the lower convex hull of points with rising x, shape (vertices, 2)."""
    hull: list[tuple[float, float]] = []
    for point in zip(x.tolist(), y.tolist(), strict=True):
        while len(hull) > 1:
            (x1, y1), (x2, y2) = hull[-2:]
            if (y2 - y1) * (point[0] - x1) < (point[1] - y1) * (x2 - x1):
                break
            hull.pop()
        hull.append(point)
    return np.array(hull)


@dataclass(frozen=True, eq=False)
class LossProfile:
    """What one mechanism costs at every (ε, δ), rounded up: one loss law for each direction of the neighbours.

    `removed` is the law for a record removed (P on the data set with it), `added` for a record added. Under
    replace-one the two bound the pair and its mirror image.
    """

    removed: LossLaw
    added: LossLaw

    @staticmethod
    def of_epsilon_delta(epsilon: float, delta: float = 0.0) -> "LossProfile":
        """Return the profile of an (ε, δ)-DP mechanism: losses ±ε, and δ at ∞."""
        if not (0.0 <= epsilon < 700.0 and 0.0 <= delta < 1.0):
            raise ValueError("0 ≤ ε < 700 and 0 ≤ δ < 1")
        low = 1.0 / (1.0 + math.exp(epsilon))
        law = LossLaw(np.array([-epsilon, epsilon]), (1.0 - delta) * np.array([low, 1.0 - low]), delta)
        return LossProfile(law, law)

    @staticmethod
    def of_zcdp(rho: float) -> "LossProfile":
        """Return the profile of a ρ-zCDP mechanism, by its Rényi curve αρ."""
        return LossProfile._of_curve(_ORDERS, rho * _ORDERS)

    @staticmethod
    def of_renyi(orders: Sequence[float], costs: Sequence[float]) -> "LossProfile":
        """Return the profile of a Rényi curve, given as costs at rising orders α > 1 in both directions.

        Between two orders (α−1)ε(α) is interpolated linearly, from 0 at α = 1: it is convex, so this is an upper
        bound. Beyond the largest order the curve says nothing.
        """
        alpha, cost = np.asarray(orders, dtype=np.float64), np.asarray(costs, dtype=np.float64)
        if not (len(alpha) and len(alpha) == len(cost) and alpha[0] > 1.0 and np.all(np.diff(alpha) > 0.0)):
            raise ValueError("a Rényi curve needs a cost at each of its rising orders above 1")
        if not np.all(cost >= 0.0):
            raise ValueError("a Rényi cost is at least 0")
        finite = np.isfinite(cost)
        alpha, cost = alpha[finite], cost[finite]
        fine = np.unique(np.append(alpha, _ORDERS[alpha[-1] >= _ORDERS])) if len(alpha) else alpha
        moment = np.interp(fine, np.append(1.0, alpha), np.append(0.0, (alpha - 1.0) * cost))
        return LossProfile._of_curve(fine, moment / (fine - 1.0))

    @staticmethod
    def _of_curve(alpha: Floats, cost: Floats) -> "LossProfile":
        """Return the profile by Proposition 12 at each ε of a grid, from a curve given at many orders."""
        if not len(alpha):
            return LossProfile.of_epsilon_delta(0.0, 1.0 - 2.0**-53)
        excess = alpha - 1.0
        constant = excess * cost + excess * np.log(excess / alpha) - np.log(alpha)
        end = max(1e-3, float(np.min((constant - math.log(_SMALLEST_DELTA)) / excess)))
        epsilons = np.unique(np.concatenate([np.geomspace(1e-7, 1.0, 400) * end, np.linspace(0.0, end, 2000)]))
        H = np.exp(np.minimum(0.0, (constant[:, None] - excess[:, None] * epsilons).min(axis=0)))
        law = _law_of_profile(np.exp(epsilons), H * (1.0 + _ROUNDING))
        return LossProfile(law, law)

    @staticmethod
    def of_event(
        event: Any,
        *,
        neighbours: str = "add_or_remove",
        replaced_moves: float | None = None,
        step: float = STEP,
    ) -> "LossProfile":
        """Return the profile of a `dp_accounting` event of a class that `events.py` lists; others are refused."""
        from dpbo_core.theorems.events import profile_of_event

        return profile_of_event(event, neighbours=neighbours, replaced_moves=replaced_moves, step=step)

    @staticmethod
    def of_pld(pld: Any) -> "LossProfile":
        """Return the profile of a pessimistic `dp_accounting` PrivacyLossDistribution."""
        removed = _law_of_pmf(pld._pmf_remove)
        return LossProfile(removed, removed if pld._symmetric else _law_of_pmf(pld._pmf_add))

    @staticmethod
    def mean(profiles: Sequence["LossProfile"], weights: Sequence[float]) -> "LossProfile":
        """Return the profile of running profile i with probability weights[i], where i is released too."""
        if len(profiles) != len(weights) or min(weights) < 0.0 or not abs(sum(weights) - 1.0) < 1e-9:
            raise ValueError("weights are at least 0 and sum to 1")

        def mixed(laws: Sequence[LossLaw]) -> LossLaw:
            losses = np.concatenate([law.losses for law in laws])
            masses = np.concatenate([w * law.masses for w, law in zip(weights, laws, strict=True)])
            order = np.argsort(losses, kind="stable")
            infinite = sum(w * law.infinite for w, law in zip(weights, laws, strict=True))
            return LossLaw(losses[order], masses[order], infinite)

        return LossProfile(mixed([p.removed for p in profiles]), mixed([p.added for p in profiles]))

    def compose(self, other: "LossProfile", step: float = STEP) -> "LossProfile":
        """Return the profile of both mechanisms run on the same records, with losses on multiples of `step`."""
        largest = max(
            (float(np.ptp(law.losses)) for p in (self, other) for law in (p.removed, p.added) if len(law.losses)),
            default=0.0,
        )
        while largest / step > _LARGEST_GRID:
            step *= 2.0
        removed = self.removed.compose(other.removed, step)
        if self.removed is self.added and other.removed is other.added:
            return LossProfile(removed, removed)
        return LossProfile(removed, self.added.compose(other.added, step))

    def replace_one(self) -> "LossProfile":
        """Return a profile under replace-one, from this one under add-or-remove: one removed, then one added.

        H_{st}(P‖R) ≤ H_s(P‖Q) + s·H_t(Q‖R), where Q is the mechanism without the record.
        """
        ends = [float(law.losses[-1]) for law in (self.removed, self.added) if len(law.losses)] or [0.0]
        s = np.exp(np.linspace(-max(ends), max(ends), 1500))
        step = math.log(s[1] / s[0]) if max(ends) > 0.0 else 1.0
        removed, added = self.removed.hockey_stick(s), self.added.hockey_stick(s)
        # u = st runs over the doubled grid: s = grid[i], t = grid[j], u at place i + j
        sums = removed[:, None] + s[:, None] * added[None, :]
        u = np.exp(2.0 * math.log(s[0]) + step * np.arange(2 * len(s) - 1))
        H = np.full(len(u), np.inf)
        np.minimum.at(H, np.add.outer(np.arange(len(s)), np.arange(len(s))), sums)
        law = _law_of_profile(u, H * (1.0 + _ROUNDING))
        return LossProfile(law, law)

    def cut_rho(self, delta: float, *, above: float = 1.0) -> float:
        """Return the least ρ, rounded up, such that the mechanism is ρ-zCDP once an event of probability δ is
        excluded.

        Losses above a level are excluded, of probability at most δ with the mass at ∞. The others satisfy
        E[e^((α−1)L)] ≤ e^(α(α−1)ρ) at every order α > `above`. ∞ if the mass at ∞ alone is above δ.

        The result may be used for adaptively chosen spends, as long as their δ add up and the level is fixed before
        the outcome is seen: (p − e^ε·q)₊ ≤ constant·p^α·q^(1−α) also holds for a part of a probability.
        """
        laws = (self.removed,) if self.removed is self.added else (self.removed, self.added)
        return max(_cut_rho(law, delta, above - 1.0) for law in laws)

    def delta(self, epsilon: float) -> float:
        """Return the smallest δ at ε, the larger of the two directions, rounded up."""
        t = np.array([math.exp(min(epsilon, 700.0))])
        return min(1.0, max(float(law.hockey_stick(t)[0]) for law in (self.removed, self.added)))

    def epsilon(self, delta: float) -> float:
        """Return the smallest ε ≥ 0 at δ, rounded up; ∞ if the mass at ∞ is larger than δ."""
        return least_epsilon(self.delta, delta)


def least_epsilon(delta_at: Callable[[float], float], delta: float) -> float:
    """Return the least ε ≥ 0 with delta_at(ε) ≤ δ, by bisection to 10⁻⁹ from above; ∞ if 600 is too small."""
    if delta_at(0.0) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while delta_at(high) > delta:
        low, high = high, 2.0 * high
        if high > 600.0:
            return math.inf
    while high - low > 1e-9 * (1.0 + high):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if delta_at(middle) <= delta else (middle, high)
    return high


def renyi_rho(orders: Sequence[float], costs: Sequence[float], delta: float) -> float:
    """Return the ρ that `LossProfile.cut_rho` of a Rényi curve has: by the curve up to its last order, cut beyond.

    Arguments as in `LossProfile.of_renyi`. Between two orders (α−1)ε(α) is interpolated, from 0 at α = 1.
    """
    profile = LossProfile.of_renyi(orders, costs)
    alpha, cost = (np.asarray(values, dtype=np.float64) for values in (orders, costs))
    finite = np.isfinite(cost)
    if not finite.any():
        return math.inf
    t, moment = alpha[finite] - 1.0, (alpha[finite] - 1.0) * cost[finite]
    fine = np.unique(np.append(t, np.geomspace(t[0], t[-1], 4000)))
    moments = np.interp(fine, t, moment)
    between = np.maximum(moments[1:], moments[:-1]) / (fine[:-1] * (1.0 + fine[:-1]))
    by_curve = max([float(cost[finite][0]), *between.tolist()])  # up to the first order ε(α)/α is below its ε
    return float(max(by_curve, profile.cut_rho(delta, above=1.0 + float(t[-1]))))


def _cut_rho(law: LossLaw, delta: float, least: float) -> float:
    """Return the largest log E[e^((α−1)L); L ≤ ℓ]/(α(α−1)) over α > 1 + `least`, rounded up between grid points.

    The numerator K is convex in t = α − 1 and at most 0 at t = 0, so between two grid points it lies below a chord
    A + Bt with A ≤ 0. Beyond the last order the quotient is at most ℓ/α.
    """
    if law.infinite > delta:
        return math.inf
    if len(law.losses) > _CUT_ATOMS:
        law = law.on_grid(float(np.ptp(law.losses)) / _CUT_ATOMS)
    within = law.tails[0][:-1] > delta
    losses, masses = law.losses[within], law.masses[within]
    if not len(losses) or losses[-1] <= 0.0:
        return 0.0
    t = np.geomspace(max(least, 1e-3), 1e4, 600)
    t = t if least > 0.0 else np.append(0.0, t)
    with np.errstate(divide="ignore"):
        log_masses = np.log(masses)
    K = np.array([np.logaddexp.reduce(log_masses + one * losses) for one in t])
    K[0] = min(K[0], 0.0) if least == 0.0 else K[0]
    B = np.diff(K) / np.diff(t)
    A = np.minimum(0.0, K[1:] - B * t[1:])
    with np.errstate(divide="ignore", invalid="ignore"):
        highest = (np.sqrt(A * (A - B)) - A) / B  # where (A + Bt)/(t(1+t)) is largest
        at = np.clip(np.where(B > 0.0, highest, t[1:]), np.maximum(t[:-1], 1e-300), t[1:])
        most = max(float(((B + A / at) / (1.0 + at)).max()), float(losses[-1]) / (1.0 + t[-1]))
    return float(max(0.0, most) * (1.0 + _ROUNDING))


def _law_of_pmf(pmf: Any) -> LossLaw:
    """Return the loss law of a pessimistic `dp_accounting` mass function; mass that it lost is put at ∞."""
    if not pmf._pessimistic_estimate:
        raise ValueError("a privacy loss distribution must be pessimistic")
    dense = pmf.to_dense_pmf()
    numbers = np.asarray(dense._probs, dtype=np.float64)
    masses = np.maximum(0.0, numbers)
    losses = (dense._lower_loss + np.arange(len(masses))) * dense._discretization
    # negative masses show the error of an FFT, which took as much from others
    infinite = float(dense._infinity_mass) + 2.0 * float((masses - numbers).sum())
    return LossLaw(losses, masses, min(1.0, max(infinite, 1.0 - float(masses.sum()))))
