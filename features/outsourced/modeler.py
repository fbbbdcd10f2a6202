"""Algorithm 2 of Kharkovskii et al. (2020): GP-UCB on the published rows. It sees nothing but them and the answers.

| symbol | name here | meaning | shape |
|---|---|---|---|
| n, r | — | rows and columns published | scalars |
| Z | `rows` | as published | (n, r) |
| τ | `noise_scale` | noise in each entry of Z, published with it | scalar ≥ 0 |
| δ′ | `DELTA_UCB` | failure probability of the confidence bounds | scalar in (0, 1) |
| β_t | — | 2 log(n t² π²/(6δ′)) (`srinivas_2010.beta`) | scalar |
| ℓ, s², σ_n² | `prior` | lengthscale, variance and answer noise; None to fit them to the answers | scalars > 0 |
| y_t | `tell` | answer t | scalar |

Where no prior is known it is fitted to the answers, by maximum marginal likelihood: at each (ℓ, σ_n²/s²) on a grid
the mean m is generalised least squares and s² the mean square that is left, both in closed form (Rasmussen and
Williams 2006, section 2.7), with a mild prior log ℓ ~ N(log 0.3√r, 1) so that three answers cannot send ℓ to an end
of its grid. Where σ_n² is known, s² is on the grid too.

Rows are measured in units of the table's extent, so a lengthscale means the same for every table. The kernel is the
expectation of the squared exponential under the published noise, so the search knows that the image of a row is not
the row. Nothing here imports the curator's half, not even through others.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpbo_core.search.bo import UCB, BayesianSearch
from dpbo_core.search.gp import TYPICAL_LENGTHSCALE, BlurredSquaredExponential, Posterior, typical_lengthscale
from dpbo_core.search.likelihood import spectrum

LENGTHSCALE_GRID = np.geomspace(0.03, 3.0, 24)  # times √r
NOISE_SHARES = (1e-6, 1e-4, 1e-2, 1e-1)  # σ_n²/s² tried where the answers' noise is not known


@dataclass(frozen=True)
class Prior:
    """Hyperparameters: as known, in the table's own units of length and the answers' own units; or as fitted."""

    lengthscale: float
    variance: float = 1.0
    noise_variance: float = 0.0
    mean: float = 0.0


def fit(
    points: NDArray[np.float64], values: NDArray[np.float64], blur: float, noise_variance: float | None
) -> Prior:
    """Return the prior of largest likelihood of values (t,) at points (t, r) blurred by τ; fits σ_n² if None."""
    t, r = points.shape
    spread = float(np.var(values)) or 1.0
    best, chosen = -math.inf, Prior(typical_lengthscale(r), spread, noise_variance or 0.0, float(np.mean(values)))
    variances = spread * np.geomspace(0.05, 20.0, 9)
    shares = np.array(NOISE_SHARES) if noise_variance is None else noise_variance / variances
    for multiple in LENGTHSCALE_GRID:
        lengthscale = float(multiple * math.sqrt(r))
        transformed = spectrum(BlurredSquaredExponential(lengthscale, 1.0, blur, r).matrix(points, points), values)
        weights = 1.0 / (transformed.omega + np.maximum(shares, 1e-10)[:, None])
        means = transformed.means(weights)
        square = (weights * transformed.residuals(means) ** 2).sum(axis=1)
        s2 = np.maximum(square / t, 1e-12 * spread) if noise_variance is None else variances
        probable = -0.5 * (square / s2 + t * np.log(s2) - np.log(weights).sum(axis=1))
        probable -= 0.5 * math.log(multiple / TYPICAL_LENGTHSCALE) ** 2
        k = int(np.argmax(probable))
        if probable[k] > best:
            best = float(probable[k])
            chosen = Prior(lengthscale, float(s2[k]), float(shares[k] * s2[k]), float(means[k]))
    return chosen


MIN_FIT_ANSWERS = 4  # answers before which there is nothing to fit
DELTA_UCB = 0.025  # δ′ = δ_ucb/2 with the paper's δ_ucb = 0.05


@dataclass(frozen=True)
class RowAnswer:
    """One answer: which row, what it said, and the standard deviation of its noise."""

    row: int
    value: float
    noise_scale: float = 0.0


class Modeler:
    """A search over published rows, determined by its arguments and its answers, in their order."""

    def __init__(
        self,
        rows: NDArray[np.float64],
        *,
        noise_scale: float = 0.0,
        prior: Prior | None = None,
    ) -> None:
        """Begin a search of rows Z, (n, r), without answers; memory is 8·n·(2r + t + 11) bytes at answer t."""
        low, high = rows.min(axis=0), rows.max(axis=0)
        self._extent = float((high - low).max()) or 1.0
        self._points = (rows - 0.5 * (low + high)) / self._extent + 0.5
        self._blur = noise_scale / self._extent
        self._prior, self._ucb = prior, UCB(delta=DELTA_UCB)
        self._answers: list[RowAnswer] = []
        self._center, self._scale = 0.0, 1.0
        self._fit = self._default_fit()
        self._bo = self._new_search()

    def suggest(self) -> int:
        """Return the row of largest μ̃_t + √β_t σ̃_t among those not answered, or of all. # Alg. 2, lines 3, 4."""
        if not self._answers:
            return self._bo.ask()
        posterior = self._bo.posterior
        bound = posterior.std * math.sqrt(self._ucb.beta_at(len(self._points), len(self._answers) + 1))
        bound += posterior.mean
        answered = list({answer.row for answer in self._answers})
        if len(answered) < len(bound):  # a row's one answer is repeated, so asking again would teach nothing
            bound[answered] = -np.inf
        return int(np.argmax(bound))

    def tell(self, row: int, value: float, noise_scale: float = 0.0) -> None:
        """Add the curator's answer `value` for a row; the prior is refitted if due. # Alg. 2, lines 5 and 6.

        An answer to a row that was answered before is the same again: it counts as a step and changes nothing.
        """
        if not 0 <= row < len(self._points) or not (math.isfinite(value) and 0.0 <= noise_scale < math.inf):
            raise ValueError("an answer names a row of the table and a finite value")
        repeated = any(answer.row == row for answer in self._answers)
        self._answers.append(RowAnswer(row, value, noise_scale))
        if self._prior is None and _due(len(self._answers)):
            self._refit()
        elif not repeated:
            self._bo.tell(row, self._mapped(value))  # Alg. 2, line 6

    def replay(self, answers: list[RowAnswer]) -> None:
        """Bring a new search to where an earlier run ended, by its answers in order; the prior is fitted once."""
        fitted = max((t for t in range(1, len(answers) + 1) if _due(t)), default=0) if self._prior is None else 0
        self._answers = list(answers[:fitted])
        if fitted:
            self._refit()
        for answer in answers[fitted:]:
            self.tell(answer.row, answer.value, answer.noise_scale)

    def _mapped(self, value: float) -> float:
        return (value - self._center) / self._scale - self._fit.mean

    def _default_fit(self) -> Prior:
        """The Gaussian process prior before any fit, handed in or usual; lengths in units of the table's extent."""
        if self._prior is not None:
            return replace(self._prior, lengthscale=self._prior.lengthscale / self._extent)
        return Prior(typical_lengthscale(self._points.shape[1]), 1.0, self._noise_variance() or 1e-4)

    def _noise_variance(self) -> float | None:
        """The stated noise variance σ_n² of answers in units of their spread²; None (to be fitted) if it is 0."""
        scale = max((answer.noise_scale for answer in self._answers), default=0.0)
        return min((scale / self._scale) ** 2, 1e6) if scale > 0.0 else None

    def _refit(self) -> None:
        """Fit the prior to all distinct answers (below 4 the usual one), and restart the search with them."""
        first: dict[int, float] = {}
        for answer in self._answers:
            first.setdefault(answer.row, answer.value)
        values = np.array(list(first.values()))
        self._center, self._scale = float(values.mean()), float(values.std()) or 1.0
        self._fit = self._default_fit()
        if len(first) >= MIN_FIT_ANSWERS:
            points = self._points[list(first)]
            standard = (values - self._center) / self._scale
            self._fit = fit(points, standard, self._blur, self._noise_variance())
        self._bo = self._new_search()
        for row, value in first.items():
            self._bo.tell(row, self._mapped(value))

    def _new_search(self) -> BayesianSearch:
        r = self._points.shape[1]
        kernel = BlurredSquaredExponential(self._fit.lengthscale, self._fit.variance, self._blur, r)
        return BayesianSearch(Posterior(self._points, kernel, self._fit.noise_variance), self._ucb)


def _due(t: int) -> bool:
    """Return whether the prior is fitted again at answer t: at each of the first 12, then at every fourth."""
    return t <= 12 or t % 4 == 0
