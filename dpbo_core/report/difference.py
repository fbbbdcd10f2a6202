"""Intervals for the mean paired difference of two models' scores, from two noised sums.

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
on a grid of ψ, and the ends are rounded outward by one record. Otherwise they are Chernoff bounds, by
E e^{hd} ≤ 1 − ψ + E d₊·e^h + E d₋·e^{−h}, which holds for a mean of records too, and 1/(1 − h²b²) for the noise.
The latter also serve where b is too large for a transform.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
ERROR, PSI_ERROR = 0.1, 0.008  # 1 − confidence, and the part of it for ψ
TAIL = (ERROR - PSI_ERROR) / 2.0
POWER_DEVIATIONS = 0.8416  # standard normal quantile of 80%
GUESSED_PSI = 0.1  # where nothing public says how often the models differ
N_PSI, HALVINGS = 17, 16
LARGEST_TRANSFORM = 2**17


@dataclass(frozen=True)
class PairedSums:
    """The two noised sums of a comparison, in units of the score's range."""

    n_units: int
    scale: float
    total: float
    absolute: float
    exact: bool = True

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
        psi, least = self._chernoff()
        if not self.exact or self._transform_size(psi) > LARGEST_TRANSFORM:
            return least
        return self._exact_lower(self._exact_psi(psi), least)

    def _chernoff(self) -> tuple[float, float]:
        """Return ψ_U, an upper bound on ψ, and a lower end of θ, by Chernoff bounds at the best of many h."""
        h = min(1.0 / self.scale, 30.0) * np.geomspace(1e-5, 0.999, 400)
        noise, n = -np.log1p(-((h * self.scale) ** 2)), self.n_units
        least = np.exp((math.log(PSI_ERROR) - h * self.absolute - noise) / n)
        psi = min(1.0, float(((1.0 - least) / -np.expm1(-h)).min()))
        needed = np.expm1(np.minimum((math.log(TAIL) + h * self.total - noise) / n, 30.0))
        return psi, float(((needed + psi * (1.0 - np.cosh(h))) / np.sinh(h)).max())

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
        """Return the smallest θ, from `least` on, at which a sum S as large as the drawn one has probability `TAIL`
        for some ψ up to `most`; less 1/n, for S is discrete.
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
        """Return Pr[S ≥ `at`] for each (θ, ψ), (J,), by inverting the characteristic function with a Fourier
        transform.
        """
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


def detectable(n_units: int, scale: float, psi: float, *, exact: bool) -> float:
    """The least mean difference that is called better with 80% chance, in units of the range; 1 where none is.

    Args:
        n_units: n.
        scale: b.
        psi: how often the models' scores differ, in public or as guessed.
        exact: whether d is −1, 0 or 1.
    """

    def shows(theta: float) -> bool:
        often = max(psi, theta)
        deviation = math.sqrt(max(0.0, n_units * (often - theta**2)) + 2.0 * scale**2)
        total = n_units * theta - POWER_DEVIATIONS * deviation
        return PairedSums(n_units, scale, round(total), round(n_units * often), exact).lower_end > 0.0

    low, high = 0.0, 1.0
    if not shows(high):
        return 1.0
    for _ in range(12):
        middle = (low + high) / 2.0
        low, high = (low, middle) if shows(middle) else (middle, high)
    return high
