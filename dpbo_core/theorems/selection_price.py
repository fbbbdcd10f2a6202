"""The price of releasing the best of K private trials, or the first that reaches a threshold. Proved here.

| symbol | name here | meaning | shape |
|---|---|---|---|
| P, Q | `profile` | a pair that dominates one trial, model and quality together, each direction | laws |
| K, f | `trials` | the hidden number of trials and its probability generating function | law |
| c, C | `density_low`, `density_high` | bounds on the density of a trial's candidate over the prior | scalars |
| r, g(r) | — | chance of a better trial on D, and the most that it is on D′ | in [0, 1] |
| γ, n | `stop`, `limit` | chance to give up after a failure, and the most trials | scalar, integer or None |

Statement (selection). For ε ≥ 0, δ(ε) ≤ E_P[Ψ(Q/P)], Ψ(s) = sup_r (f′(1−r) − e^ε·s·f′(1−g(r)))₊, where
g(r) = min(1, inf_t tr + H_t(Q‖P)). Proof: break ties by a uniform u, released too. The winner's densities are
p·f′(F) and p′·f′(F′); 1−F = r, 1−F′ ≤ g(r), f′ does not fall. So (A − e^εA′)₊ ≤ p·Ψ(p′/p), and Ψ, a supremum of
lines, is a constant plus a mean of hockey sticks, largest at a dominating pair. K = 0 gives one default with one
chance. With densities in [c, C] about the prior, C·f′(min(1−cr, C(1−r))) and c·f′(max(1−Cg, c(1−g))) take the
places of f′(1−r) and f′(1−g).
Statement (threshold). δ(ε) ≤ sup_p S(p)·H_t(P‖Q), S(p) = 1/(γ + (1−γ)p), t = e^ε·S(g(p))/S(p). After n trials at
most the default's two chances stand apart, outside H.

The supremum is taken over cells of r: the first line's f′ at a cell's left end, the second's at its right, so it is
rounded up. Composing by FFT leaves 10⁻¹⁵ of noise, so δ below 10⁻¹⁰ is refused.

Sources: Liu, Talwar (2019); Papernot, Steinke (2022); Wang et al. (2023); Koskela, Redberg, Wang (2024).
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from dpbo_core.theorems.loss_profile import Floats, LossLaw, LossProfile, least_epsilon
from dpbo_core.theorems.papernot_steinke_2022 import with_default
from dpbo_core.theorems.trial_counts import Fixed, TrialCount

SMALLEST_DELTA = 1e-10
_UP = 1e-13


def _cells(ratio: float) -> Floats:
    """Return the ends of cells of [0, 1], from 10⁻¹⁴ in steps of `ratio`, and as fine towards 1 down to 10⁻⁹."""
    near_zero = np.geomspace(1e-14, 0.5, math.ceil(math.log(0.5e14) / math.log(ratio)) + 1)
    near_one = 1.0 - np.geomspace(0.5, 1e-9, math.ceil(math.log(0.5e9) / math.log(ratio)) + 1)
    return np.concatenate([[0.0], near_zero, near_one[1:], [1.0]])


_CELL_ENDS = _cells(1.008)


def _check(density_low: float, density_high: float, delta: float = 1.0) -> None:
    """Refuse bounds on densities unless 0 < c ≤ 1 ≤ C < ∞, and a δ that the arithmetic does not reach."""
    if not (0.0 < density_low <= 1.0 <= density_high < math.inf):
        raise ValueError("0 < c ≤ 1 ≤ C")
    if delta < SMALLEST_DELTA:
        raise ValueError("δ below 1e-10 is not supported by a profile; use a pure base for δ = 0")


def _most_below(r: Floats, low: float, high: float) -> Floats:
    """Return 1 − min(1 − cr, C(1 − r)): the least probability of a better trial on D, densities in [c, C]."""
    return np.maximum(low * r, r - (high - 1.0) * (1.0 - r))


def _least_below(g: Floats, low: float, high: float) -> Floats:
    """Return 1 − max(1 − Cg, c(1 − g)): the largest probability of a better trial on the neighbour D′."""
    return np.minimum(1.0, np.minimum(high * g, g + (1.0 - low) * (1.0 - g)))


def selection_delta(
    profile: LossProfile,
    trials: TrialCount,
    epsilon: float,
    density_low: float = 1.0,
    density_high: float = 1.0,
) -> float:
    """Return δ at ε of releasing the best of K trials of this profile, rounded up."""
    _check(density_low, density_high)
    return _selection(profile, trials, density_low, density_high)(epsilon)


def selection_epsilon(
    profile: LossProfile,
    trials: TrialCount,
    delta: float,
    density_low: float = 1.0,
    density_high: float = 1.0,
) -> float:
    """Return ε at δ ≥ 10⁻¹⁰ of releasing the best of K trials of this profile, rounded up; ∞ if no ε has this δ.

    Args:
        profile: one trial, model and quality together; over several candidates their mean by the prior.
        trials: the law of the hidden number K.
        delta: δ of the whole selection.
        density_low: c, the least ratio of a trial's density to the prior; 1 where candidates do not adapt.
        density_high: C, the largest such ratio.

    Holds when: K is independent of the data and hidden; trials differ in their candidates and fresh noise alone.
    """
    _check(density_low, density_high, delta)
    return least_epsilon(_selection(profile, trials, density_low, density_high), delta)


def _selection(profile: LossProfile, trials: TrialCount, low: float, high: float) -> Callable[[float], float]:
    """Return the function δ(ε) of the selection, the larger of the two directions of neighbours."""
    directions = [(profile.removed, profile.added), (profile.added, profile.removed)]
    if profile.removed is profile.added:
        directions.pop()
    made = [(law, *_envelope(opposite, trials, low, high)) for law, opposite in directions]

    def delta(epsilon: float) -> float:
        worst = 0.0
        for law, heights, slopes, breaks in made:  # a line holds for losses between two breaks
            ends = np.searchsorted(law.losses, epsilon - np.log(breaks))
            above_p, above_q = (tail[np.concatenate([[0], ends, [-1]])] for tail in law.tails)
            total = heights @ -np.diff(above_p) - math.exp(epsilon) * (slopes @ -np.diff(above_q))
            worst = max(worst, float(total) + (law.infinite + _UP) * float(heights[-1]))
        return min(1.0, worst)

    return delta


def _envelope(opposite: LossLaw, trials: TrialCount, low: float, high: float) -> tuple[Floats, Floats, Floats]:
    """Return Ψ as the upper envelope of lines a − b·u, u = e^ε·s: a and b by rising b, and the breaks between."""
    g = opposite.largest_chance(_CELL_ENDS)
    a = high * trials.slope(_most_below(_CELL_ENDS[:-1], low, high))
    b = low * trials.slope(_least_below(g[1:], low, high))
    hull = [(0.0, 0.0)]
    for point in sorted(zip(b.tolist(), a.tolist(), strict=True)):
        if point[1] <= hull[-1][1]:
            continue
        while len(hull) > 1 and (hull[-1][1] - hull[-2][1]) * (point[0] - hull[-1][0]) <= (
            point[1] - hull[-1][1]
        ) * (hull[-1][0] - hull[-2][0]):
            hull.pop()
        if len(hull) == 1 and point[0] == hull[0][0]:
            hull.pop()
        hull.append(point)
    b_hull, a_hull = np.array(hull).T
    return a_hull, b_hull, np.diff(a_hull) / np.diff(b_hull)


def pure_selection_epsilon(
    epsilon: float, trials: TrialCount, density_low: float = 1.0, density_high: float = 1.0
) -> float:
    """Return the pure ε of releasing the best of K ε-DP trials, rounded up.

    For the truncated negative binomial with fixed densities it is ε + (1+η)·log((γ + e^ε)/(1 + γe^ε)).
    """
    _check(density_low, density_high)
    if isinstance(trials, Fixed):  # f′ is 0 at 0, where the ratio is e^((n−1)ε) in the limit
        if (density_low, density_high) != (1.0, 1.0):
            return math.inf
        return trials.n * epsilon * (1.0 + 1e-15)
    low, high = density_low, density_high

    def log_slopes(r: Floats, g: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            above = np.log(trials.slope(_most_below(r, low, high)))
            return np.asarray(above - np.log(trials.slope(_least_below(g, low, high))))

    if trials.linear_fractional:
        kinks = [0.0, 1.0, _pure_kink(epsilon)]
        if high > low:
            kinks += [(high - 1.0) / (high - low), _pure_inverse((1.0 - low) / (high - low), epsilon)]
        r = np.array(kinks)
        most = float(log_slopes(r, _pure_most(r, epsilon)).max())
    else:
        r = _cells(1.0002)
        most = float(log_slopes(r[:-1], _pure_most(r, epsilon)[1:]).max())
    return (epsilon + most + math.log(high / low)) * (1.0 + 1e-14)


def _pure_most(r: Floats, epsilon: float) -> Floats:
    """Return min(e^ε r, 1 − e^(−ε)(1 − r)): the most that an ε-DP neighbour gives to an event of chance r."""
    if epsilon > 700.0:  # no double holds e^ε
        return np.ones(len(r))
    return np.minimum(math.exp(epsilon) * r, -math.expm1(-epsilon) + math.exp(-epsilon) * r)


def _pure_kink(epsilon: float) -> float:
    """Return the r at which the two parts of `_pure_most` meet."""
    return math.exp(-epsilon) / (1.0 + math.exp(-epsilon))


def _pure_inverse(g: float, epsilon: float) -> float:
    """Return the r at which `_pure_most` is g."""
    return max(0.0, g * math.exp(-epsilon), 1.0 - math.exp(min(epsilon, 700.0)) * (1.0 - g))


def renyi_selection_cost(
    alpha: float,
    cost: float,
    orders: Sequence[float],
    costs: Sequence[float],
    trials: TrialCount,
    density_low: float = 1.0,
    density_high: float = 1.0,
    pure: float = math.inf,
) -> float:
    """Return the Rényi cost at order α of releasing the best of K trials, rounded up.

    ε(α) + log(sup_r f′(1−r)^α f′(1−g(r))^(1−α))/(α−1), where g(r) = min over α̂ of (r·e^ε(α̂))^(1−1/α̂).

    Args:
        alpha: α > 1.
        cost: ε(α) of one trial, the largest over the candidates.
        orders: the orders α̂, and `costs` the trial's costs at them.
        costs: ε(α̂).
        trials: the law of K.
        density_low: c.
        density_high: C.
        pure: the trial's pure ε, if it has one.
    """
    _check(density_low, density_high)
    low, high = density_low, density_high
    g = _renyi_most(_CELL_ENDS, orders, costs, pure)
    with np.errstate(divide="ignore", invalid="ignore"):
        first = np.log(trials.slope(_most_below(_CELL_ENDS[:-1], low, high)))
        second = np.log(trials.slope(_least_below(g[1:], low, high)))
        terms = np.where(np.isneginf(first), -math.inf, alpha * first + (1.0 - alpha) * second)
    densities = alpha * math.log(high) + (1.0 - alpha) * math.log(low)
    whole = cost + (float(terms.max()) + densities) / (alpha - 1.0) + _UP * (1.0 + abs(cost))
    nothing = float(trials.generating(np.ones(1))[0])
    if nothing > 0.0 and math.isfinite(whole):
        whole = with_default(whole, alpha=alpha, mean=-math.log(nothing))
    return max(0.0, whole)


def _renyi_most(r: Floats, orders: Sequence[float], costs: Sequence[float], pure: float) -> Floats:
    """Return the most that D′ gives to an event of chance r, by a Rényi curve and, if finite, a pure ε."""
    with np.errstate(divide="ignore"):
        log_r = np.log(r)
    most = np.zeros(len(r))  # of the logarithm
    for order, cost in zip(orders, costs, strict=True):
        if math.isfinite(cost):
            most = np.minimum(most, (1.0 - 1.0 / order) * (log_r + cost))
    chance = np.exp(most) * (1.0 + _UP)
    if math.isfinite(pure) and pure < 700.0:
        chance = np.minimum(chance, _pure_most(r, pure) * (1.0 + _UP))
    return np.minimum(1.0, chance)


def _success(r: Floats, stop: float, limit: int | None) -> tuple[Floats, Floats]:
    """Return S = Σ_j Pr[K ≥ j](1−r)^(j−1), and the probability f(1−r) that none of K trials succeeds.

    A trial succeeds with probability r. K is geometric with parameter `stop`, or min(K, `limit`) if that is given.
    """
    w = (1.0 - stop) * (1.0 - r)
    left = stop + (1.0 - stop) * r  # 1 − w, without cancellation
    power = np.zeros(len(r)) if limit is None else w**limit
    before = np.zeros(len(r)) if limit is None else w ** (limit - 1)
    return (1.0 - power) / left, (1.0 - r) * (stop * (1.0 - before) / left + before)


def _check_threshold(stop: float, limit: int | None) -> None:
    if not 0.0 < stop <= 1.0 or (limit is not None and limit < 1):
        raise ValueError("0 < γ ≤ 1, and at least one trial")


def threshold_delta(
    profile: LossProfile,
    stop: float,
    epsilon: float,
    limit: int | None = None,
    density_low: float = 1.0,
    density_high: float = 1.0,
) -> float:
    """Return δ at ε of releasing the first trial that reaches a public threshold, or a default, rounded up."""
    _check(density_low, density_high)
    _check_threshold(stop, limit)
    low, high = density_low, density_high
    worst = 0.0
    for law, opposite in ((profile.removed, profile.added), (profile.added, profile.removed)):
        success, default = _success(_most_below(_CELL_ENDS[:-1], low, high), stop, limit)
        below = _least_below(opposite.largest_chance(_CELL_ENDS)[1:], low, high)
        least_success, least_default = _success(below, stop, limit)
        success, least_success = high * success, low * least_success
        total = success * law.hockey_stick(math.exp(epsilon) * least_success / success)
        if limit is not None:  # otherwise the default is covered by the same H
            total = total + np.maximum(0.0, default - math.exp(epsilon) * least_default)
        worst = max(worst, float(total.max()) + _UP * float(success.max()))
    return min(1.0, worst)


def threshold_epsilon(
    profile: LossProfile,
    stop: float,
    delta: float,
    limit: int | None = None,
    density_low: float = 1.0,
    density_high: float = 1.0,
) -> float:
    """Return ε at δ ≥ 10⁻¹⁰ of releasing the first trial that reaches a public threshold, rounded up.

    Args:
        profile: one trial, model and quality together.
        stop: γ, the chance to give up after each failure and release a default.
        delta: δ of the whole.
        limit: n, the most trials; running n always hides their number. None for no limit.
        density_low: c.
        density_high: C.

    Holds when: the threshold is public, the number of trials is hidden, and ties are as in `selection_epsilon`.
    """
    _check(density_low, density_high, delta)
    return least_epsilon(
        lambda epsilon: threshold_delta(profile, stop, epsilon, limit, density_low, density_high), delta
    )


def pure_threshold_epsilon(
    epsilon: float, stop: float, limit: int | None = None, density_low: float = 1.0, density_high: float = 1.0
) -> float:
    """Return the pure ε of releasing the first ε-DP trial that reaches a public threshold, rounded up.

    Without a limit and with fixed densities it is ε + log((γ + e^ε)/(1 + γe^ε)) < 2ε.
    """
    _check(density_low, density_high)
    _check_threshold(stop, limit)
    low, high = density_low, density_high
    if limit is None:
        r = np.array([0.0, 1.0, _pure_kink(epsilon)])
        if high > low:
            kinks = [(high - 1.0) / (high - low), _pure_inverse((1.0 - low) / (high - low), epsilon)]
            r = np.append(r, kinks)
        left, right = r, _pure_most(r, epsilon)
    else:
        cells = _cells(1.0002)
        left, right = cells[:-1], _pure_most(cells, epsilon)[1:]
    success, default = _success(_most_below(left, low, high), stop, limit)
    least_success, least_default = _success(_least_below(right, low, high), stop, limit)
    most = epsilon + math.log(high / low) + float(np.log(success / least_success).max())
    if limit is not None:
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.where(least_default > 0.0, np.log(default / least_default), -math.inf)
        most = max(most, float(ratios.max()))
    return most * (1.0 + 1e-14)


def renyi_threshold_cost(
    alpha: float,
    cost: float,
    orders: Sequence[float],
    costs: Sequence[float],
    stop: float,
    limit: int | None = None,
    density_low: float = 1.0,
    density_high: float = 1.0,
    pure: float = math.inf,
) -> float:
    """Return the Rényi cost at order α of releasing the first trial that reaches a public threshold, rounded up.

    log sup_p (e^((α−1)ε(α)) S(p)^α S(g(p))^(1−α) + f(1−p)^α f(1−g)^(1−α))/(α−1); without a limit the second term,
    the default's, is inside the first. Arguments as in `renyi_selection_cost` and `threshold_epsilon`.
    """
    _check(density_low, density_high)
    _check_threshold(stop, limit)
    low, high = density_low, density_high
    success, default = _success(_most_below(_CELL_ENDS[:-1], low, high), stop, limit)
    below = _least_below(_renyi_most(_CELL_ENDS, orders, costs, pure)[1:], low, high)
    least_success, least_default = _success(below, stop, limit)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = (alpha - 1.0) * cost + alpha * np.log(high * success) + (1.0 - alpha) * np.log(low * least_success)
        if limit is not None:
            apart = alpha * np.log(default) + (1.0 - alpha) * np.log(least_default)
            terms = np.logaddexp(terms, np.where(default > 0.0, apart, -math.inf))
    return max(0.0, float(terms.max()) / (alpha - 1.0) + _UP * (1.0 + abs(cost)))
