"""Intervals for the paired difference of two models' scores, from a few noised sums.

Means of records:

| symbol | name here | meaning | shape |
|---|---|---|---|
| n | `n_units` | independent units: records, or persons who count once each | integer ≥ 1 |
| d_i | — | challenger's score less champion's, in units of the range; of a person the records' mean | [−1, 1] |
| θ, ψ | — | E d and E|d| of one unit | scalars, |θ| ≤ ψ |
| S, N | `total`, `absolute` | Σd_i and Σ|d_i|, each with discrete Laplace noise | scalars |
| b | `scale` | scale of that noise, 2k/ε | scalar > 0 |

Replacing one unit moves d and |d| together by at most 2 in ℓ₁, which S alone needs too: N costs nothing.

`interval` covers θ of the population that the units are drawn from, noise included. N bounds ψ from above (error
`PSI_ERROR`); θ is kept if both tails of S exceed half of the rest for some ψ in [|θ|, ψ_U]. Where every d_i is −1,
0 or 1 (`exact`), the tails are those of the trinomial law convolved with the noise, by the fast Fourier transform,
on a grid of ψ, and the ends are rounded outward by one record. Otherwise they are `noised_tail`s, by
E e^{hd} ≤ 1 − ψ + E d₊·e^h + E d₋·e^{−h}, which holds for a mean of records too. The latter also serve where b is
too large for a transform.

Pairs of records (`NoisedPairs`), as in an AUC:

| symbol | name here | meaning | shape |
|---|---|---|---|
| d(x, y) | — | what the challenger's ranking of a pair earns (1, ½, 0) less the champion's | [−1, 1] |
| w | `weight` | of one unit: 1 of a record, of a person as much for all of that person's records | integer |
| H_u | — | Σd of the pairs of unit u with all others | steps of w² |
| C, V | `drawn` | ½ΣH_u and ΣH_u², as 2C and V/(nw²), of persons V/(2nw²); noised | integers |
| P, Q | `drawn` | records of each class, by their weights, times κw, κ = ⌊n/4⌋; noised | integers |
| b | `scale` | of all four, Δ/ε, Δ = 4nw² + 1 (`ranked_pairs`) | scalar |
| θ | — | E[Σd of two units] / E[number of pairs of two units]: the difference of the AUCs | [−1, 1] |

C − θPQ is a U-statistic with mean 0 and the variance of its projection ΣH_u (Hoeffding 1948; DeLong 1988), at most
E V for records of given classes. Of persons H_u − θM_u stands for H_u, M_u ≤ nw² the pairs of u. `interval`
keeps θ if both tails of C − θPQ exceed half of what is left of 10%: the normal law of the projection convolved with
the noise of C, the noise of PQ as one more variance. V is bounded from above as if its n terms were independent
(error `V_ERROR`), so that the variance of some four units is always allowed for. That the projection is normal is
asymptotic: `benchmarks.champion` has what the intervals hold, with few records of a class too.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

Reals = NDArray[np.float64]
ERROR, PSI_ERROR = 0.1, 0.008  # 1 − confidence, and the part of it for ψ
V_ERROR = 0.02  # the part of it for V
CLASS_ERROR = 0.01  # chance that noise alone is a class large enough to be compared by
TAIL = (ERROR - PSI_ERROR) / 2.0
POWER_DEVIATIONS = 0.8416  # standard normal quantile of 80%
GUESSED_PSI = 0.1  # where nothing public says how often the models differ
N_PSI, HALVINGS = 17, 16
LARGEST_TRANSFORM = 2**17
LARGE_RATIO = 1e4  # of a normal law's deviation to the scale of noise, which is then one more variance
H = np.geomspace(1e-6, 12.0, 180)  # of which a bound takes the best
CELLS = np.concatenate([np.arange(-2.0, 6.0, 0.05), np.arange(6.0, 14.0, 0.5)])  # of noise, in units of its scale


def noised_tail(at: float, scale: float, log_mgf: Reals) -> float:
    """Return an upper bound on Pr[X + Z ≥ `at`], Z Laplace noise: Chernoff's on X, averaged over the law of Z.

    Each cell of Z counts at its upper end, so that the bound is rounded up. `at` is less a step of discrete noise,
    which exceeds Laplace noise by no more; `log_mgf` is at least log E e^{hX}, at each h of `H`.
    """
    rates = np.maximum((H[:, None] * (at - scale * CELLS) - log_mgf[:, None]).max(axis=0), 0.0)
    law = np.where(CELLS < 0.0, 0.5 * np.exp(np.minimum(CELLS, 0.0)), 1.0 - 0.5 * np.exp(-np.maximum(CELLS, 0.0)))
    return float((np.diff(law, prepend=0.0) * np.exp(-rates)).sum() + 1.0 - law[-1])


def largest_mean(n: int, scale: float, total: float, error: float) -> float:
    """Return the largest mean of n independent values in [0, 1] that, with noise, sum to `total` or less with
    probability above `error`.
    """

    def likely(mean: float) -> bool:
        return noised_tail(-total, scale, n * np.log1p(mean * np.expm1(-H))) > error

    return 1.0 if likely(1.0) else last(likely, 0.0, 1.0)[1]


def least_difference(n: int, psi: float, scale: float, total: float, error: float) -> float:
    """Return the largest θ up to `psi` below which n independent differences and noise sum to `total` or more with
    probability `error` at most.
    """

    def refuted(theta: float) -> bool:
        log_mgf = n * np.log1p(psi * (np.cosh(H) - 1.0) + theta * np.sinh(H))
        return noised_tail(total, scale, log_mgf) <= error

    return last(refuted, -psi, psi)[0] if refuted(-psi) else -psi


def last(
    holds: Callable[[float], bool], low: float, high: float, halvings: int = HALVINGS + 4
) -> tuple[float, float]:
    """Return two near numbers between which `holds` stops, true at `low` or below."""
    for _ in range(halvings):
        middle = (low + high) / 2.0
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high


@dataclass(frozen=True)
class PairedSums:
    """The two noised sums of a comparison, in units of the score's range."""

    n_units: int
    scale: float
    total: float
    absolute: float
    exact: bool = True
    step: float = 1.0  # of the noise, which is discrete

    @property
    def mean(self) -> float:
        """The mean difference, with its noise; it may lie outside [−1, 1]."""
        return self.total / self.n_units

    @property
    def noise_interval(self) -> tuple[float, float]:
        """The 90% interval of the mean difference on these very records, for the noise alone, within [−1, 1]."""
        reach = self.scale * math.log(1.0 / ERROR)
        low, high = np.clip([(self.total - reach) / self.n_units, (self.total + reach) / self.n_units], -1.0, 1.0)
        return float(low), float(high)

    @property
    def interval(self) -> tuple[float, float]:
        """The 90% interval of θ, for sampling and noise together, within [−1, 1]."""
        low, high = (
            max(-1.0, min(1.0, end)) for end in (self.lower_end, -replace(self, total=-self.total).lower_end)
        )
        return min(low, high), max(low, high)

    @property
    def lower_end(self) -> float:
        """The lower end of `interval`, before it is clipped to [−1, 1]."""
        psi, least = self._bounded()
        if not self.exact or self._transform_size(psi) > LARGEST_TRANSFORM:
            return least
        return self._exact_lower(self._exact_psi(psi), least)

    def _bounded(self) -> tuple[float, float]:
        """Return ψ_U, an upper bound on ψ, and a lower end of θ, by bounds for any d in [−1, 1]."""
        psi = largest_mean(self.n_units, self.scale, self.absolute + self.step, PSI_ERROR)
        return psi, least_difference(self.n_units, psi, self.scale, self.total - self.step, TAIL)

    def _exact_psi(self, most: float) -> float:
        """Return ψ_U: the largest ψ, up to `most`, at which a sum N as small as the drawn one is not improbable.

        N has the law of S at θ = ψ, where every difference is 0 or 1.
        """
        low, high = np.zeros(1), np.full(1, most)
        for _ in range(HALVINGS):
            middle = (low + high) / 2.0
            likely = 1.0 - self._tails(middle, middle, self.absolute + 1.0) > PSI_ERROR
            low, high = np.where(likely, middle, low), np.where(likely, high, middle)
        return float(high[0])

    def _exact_lower(self, most: float, least: float) -> float:
        """Return the smallest θ, from `least` on, at which S is as large as drawn with probability `TAIL` for some
        ψ up to `most`; less 1/n, for S is discrete.
        """
        psi = np.linspace(0.0, most, N_PSI)
        low, high = np.clip(least, -psi, psi), psi.copy()
        possible = self._tails(high, psi, self.total) > TAIL
        if not possible.any():
            return most
        for _ in range(HALVINGS):
            middle = (low + high) / 2.0
            exceeds = self._tails(middle, psi, self.total) > TAIL
            low, high = np.where(exceeds, low, middle), np.where(exceeds, middle, high)
        return float(low[possible].min()) - 1.0 / self.n_units

    def _tails(self, theta: Reals, psi: Reals, at: float) -> Reals:
        """Return Pr[S ≥ `at`] for each (θ, ψ), (J,), by a Fourier transform of the characteristic function."""
        n, size = self.n_units, self._transform_size(float(psi.max()))
        centre, t = np.rint(n * theta)[:, None], 2.0 * np.pi * np.arange(size // 2 + 1) / size
        a, cosine, sine = math.exp(-1.0 / self.scale), np.cos(t), np.sin(t)
        one = 1.0 - psi[:, None] * (1.0 - cosine) - 1j * theta[:, None] * sine  # conjugates, as irfft wants them
        one[one == 0.0] = 1e-300
        law = np.exp(n * np.log(one) + 1j * centre * t) * (1.0 - a) ** 2 / (1.0 - 2.0 * a * cosine + a * a)
        masses = np.fft.fftshift(np.fft.irfft(law, size, axis=1), axes=1)
        above = np.clip(np.cumsum(masses[:, ::-1], axis=1)[:, ::-1], 0.0, 1.0)
        place = math.ceil(at) - centre[:, 0] + size // 2
        tails = above[np.arange(len(theta)), np.clip(place, 0, size - 1).astype(np.int64)]
        return np.where(place < 0, 1.0, np.where(place >= size, 0.0, tails))

    def _transform_size(self, psi: float) -> int:
        reach = 9.0 * math.sqrt(self.n_units * psi + 2.0 * self.scale**2) + 32.0 * self.scale + 32.0
        return int(2 ** math.ceil(math.log2(2.0 * reach)))


@dataclass(frozen=True)
class NoisedPairs:
    """The four noised sums of a comparison by pairs, with the public facts that they are read by."""

    n_units: int
    scale: float
    drawn: tuple[int, int, int, int]
    weight: int = 1
    of_persons: bool = False

    @property
    def kappa(self) -> int:
        """The factor κ of the two classes' numbers of records."""
        return classes_factor(self.n_units)

    @property
    def mean(self) -> float:
        """The difference of the two AUCs on these very records, with its noise, within [−1, 1]; 0 without pairs."""
        pairs = self._pairs
        return max(-1.0, min(1.0, 0.5 * self.drawn[0] / pairs)) if pairs > 0.0 else 0.0

    @property
    def noise_interval(self) -> tuple[float, float]:
        """The 90% interval of the difference on these very records, for the noise alone, within [−1, 1]."""
        return self.lower_end(1, 0.0, ERROR / 2.0), -self.lower_end(-1, 0.0, ERROR / 2.0)

    @property
    def interval(self) -> tuple[float, float]:
        """The 90% interval of θ, for sampling and noise together, within [−1, 1]."""
        V, error = self.largest_variance, (ERROR - V_ERROR) / 2.0
        return self.lower_end(1, V, error), -self.lower_end(-1, V, error)

    @property
    def largest_variance(self) -> float:
        """An upper bound on E V."""
        n, whole = self.n_units, self.n_units * self.weight**2
        step = (2.0 if self.of_persons else 1.0) / whole
        return n * whole**2 * largest_mean(n, self.scale * step, (self.drawn[1] + 2.0) * step, V_ERROR)

    def lower_end(self, sign: int, V: float, error: float) -> float:
        """The smallest difference with a tail above `error`, taken the other way if `sign` is −1.

        V is of C, 0 for what these very records have.
        """
        n, of_one, pairs = self.n_units, self.kappa * self.weight**2, self._pairs
        P, Q, noise = (one / of_one for one in (*self.drawn[2:], self.scale))
        if min(P, Q) <= noise * math.log(2.0 / CLASS_ERROR):
            return -1.0
        moved = self.weight**2 * noise * math.sqrt(2.0 * (P**2 + Q**2 + noise**2))  # of PQ by its noise
        pair_steps = n**1.5 * self.weight**2 if self.of_persons and V > 0.0 else 0.0

        def refuted(theta: float) -> bool:
            deviation = math.hypot(math.sqrt(V) + abs(theta) * pair_steps, theta * moved)
            at = 0.5 * (sign * self.drawn[0] - 1) - theta * pairs
            return _laplace_tail(at, 0.5 * self.scale, deviation) <= error

        return last(refuted, -1.0, 1.0)[0] if refuted(-1.0) else -1.0

    @property
    def _pairs(self) -> float:
        """The noised number of pairs, in steps of w²."""
        return self.drawn[2] * self.drawn[3] / (self.kappa * self.weight) ** 2


def classes_factor(n_units: int) -> int:
    """Return κ, by which the numbers of records of both classes are multiplied."""
    return max(1, n_units // 4)


def _laplace_tail(at: float, scale: float, deviation: float) -> float:
    """Return Pr[X + Z ≥ `at`] of a normal X with this standard deviation and Laplace noise Z of this scale."""
    t, s = at / scale, max(deviation / scale, 1e-9)
    if s > LARGE_RATIO:
        return float(ndtr(-t / math.hypot(s, math.sqrt(2.0))))
    above, below = (math.exp(0.5 * s * s - one + float(log_ndtr(one / s - s))) for one in (t, -t))
    return float(ndtr(-t / s)) + 0.5 * (above - below)


def detectable(n_units: int, scale: float, psi: float, *, exact: bool) -> float:
    """The least mean difference that is called better with 80% chance, in units of the range; 1 where none is.

    `psi`: how often the models' scores differ, in public or as guessed.
    """

    def shows(theta: float) -> bool:
        often = max(psi, theta)
        deviation = math.sqrt(max(0.0, n_units * (often - theta**2)) + 2.0 * scale**2)
        total = n_units * theta - POWER_DEVIATIONS * deviation
        return PairedSums(n_units, scale, round(total), round(n_units * often), exact).lower_end > 0.0

    return _least(shows)


def detectable_by_pairs(pairs: NoisedPairs, distance: float, share: float) -> float:
    """The least difference of two AUCs that is called better with 80% chance; 1 where none is.

    Of `pairs` the size is used. `distance`, in public or as guessed: root mean square difference of a record's two
    ranks, as a share of the other class; `share`: of the records in one class, in public.
    """
    n, w = pairs.n_units, pairs.weight
    whole, pair_share = n * w * w, share * (1.0 - share)
    V = distance**2 * pair_share * n * whole**2
    V_steps = round(V / (whole * (2.0 if pairs.of_persons else 1.0)))
    classes = [round(pairs.kappa * w * w * n * one) for one in (share, 1.0 - share)]

    def shows(theta: float) -> bool:
        C = theta * pair_share * n * whole - POWER_DEVIATIONS * math.sqrt(V + 0.5 * pairs.scale**2)
        return replace(pairs, drawn=(round(2.0 * C), V_steps, classes[0], classes[1])).interval[0] > 0.0

    return _least(shows)


def _least(shows: Callable[[float], bool]) -> float:
    return last(lambda theta: not shows(theta), 0.0, 1.0, 12)[1] if shows(1.0) else 1.0
