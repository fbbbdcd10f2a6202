"""The papers' open question, answered: every hyperparameter tried and every score seen, released as it happens.

| symbol | name here | meaning | shape |
|---|---|---|---|
| T | `n_steps` | steps, fixed in advance | scalar |
| ρ* | `_rho` | the largest ρ that the study's (ε, δ) holds | integer of 10⁻¹² |
| s | `final_share` | share of ρ* kept for a final choice on exact scores | scalar in [0, 1) |
| λ_t | `index` | the candidate of step t; a function of y_1 … y_{t−1} alone | index into Λ |
| y_t | `draw` | exact sum at λ_t plus discrete Gaussian noise, sensitivity k·2²⁴ | integer |
| μ_T, σ_T | `posterior` | Gaussian-process posterior given the y's | (N,), (N,) |

Each observation is noised on its own at a fixed λ_t, so the path, the posterior, every plot and the chosen λ are
post-processing of the y's: ρ* bounds all of it together, with no assumption about the score's shape.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpbo_core.accounting.composition import largest_rho
from dpbo_core.bo.acquisition import acquisition_named
from dpbo_core.bo.loop import BayesianSearch
from dpbo_core.errors import StudyInvalid
from dpbo_core.gp.kernels import kernel_named
from dpbo_core.gp.likelihood import fit
from dpbo_core.mechanisms.exponential import PrivateSelection
from dpbo_core.mechanisms.gaussian import DiscreteGaussian
from dpbo_core.mechanisms.noise import Noise
from dpbo_core.methods.contract import Draws, Outlook, Released, guarantee, make_release, too_small
from dpbo_core.objective import Scorer
from dpbo_core.privacy.amounts import UNITS_PER_ONE, from_units, split_units
from dpbo_core.privacy.guarantee import Evidence, Standing
from dpbo_core.privacy.plan import PrivacyPlan
from dpbo_core.privacy.release import Release
from dpbo_core.privacy.sensitive import Opaque, Sensitive
from dpbo_core.problem import Problem

EVIDENCE = Evidence(
    Standing.STANDARD,
    "discrete Gaussian (Canonne, Kamath, Steinke 2020) composed adaptively in zCDP; the rest is post-processing",
)
PRIOR_MEAN, PRIOR_SCALE = (
    0.5,
    0.25,
)  # public map of the score: (f/G − 0.5)/0.25 has the prior's zero mean, unit variance
INTERVAL = 1.6448536269514722  # a 90% normal interval
FIRST_FIT = 4  # observations before a lengthscale is fitted to them


@dataclass(frozen=True)
class PrivateTrajectory:
    """GP search on noised observations; releases the whole trajectory and the chosen hyperparameter.

    Attributes:
        final_share: share of the budget for an exponential mechanism over the visited candidates' exact scores;
            0 chooses by the posterior mean, at no further cost.
        choose: "visited" or "all": where the posterior mean may choose.
    """

    final_share: float = 0.0
    choose: Literal["visited", "all"] = "visited"
    kind: Literal["private_trajectory"] = "private_trajectory"

    def __post_init__(self) -> None:
        if not 0.0 <= self.final_share < 1.0:
            raise StudyInvalid(
                f"method.final_share = {self.final_share}",
                remedy="choose a share of the budget in [0, 1); 0 is usual",
            )

    @property
    def public_path(self) -> bool:
        """The path follows released observations only."""
        return True

    def n_steps(self, problem: Problem) -> int:
        """T."""
        return problem.search.steps

    def plan(self, problem: Problem) -> PrivacyPlan:
        """T draws of discrete Gaussian noise, and with a final share one exponential mechanism.

        Raises:
            StudyInvalid: δ = 0, or an ε too small for the ledger's unit.
        """
        spends = tuple(spend for spend, _ in self.draws(problem))
        return PrivacyPlan(guarantee(problem, pure=False, evidence=EVIDENCE), spends)

    def draws(self, problem: Problem) -> Draws:
        """The T observations, and the final choice where there is one."""
        observed = [(m.spend(f"score of step {t}"), m) for t, m in enumerate(self._observations(problem), start=1)]
        if self.final_share == 0.0:
            return tuple(observed)
        selection = self._selection(problem)
        return *observed, (selection.spend("final choice"), selection)

    def outlook(self, problem: Problem) -> Outlook:
        """Mean absolute error of the posterior mean at T evenly spread candidates, by the prior alone."""
        sigma = self._observations(problem)[0].scale * problem.score_per_step
        T, scale = self.n_steps(problem), PRIOR_SCALE * problem.score_range
        spread = np.unique(np.linspace(0, len(problem.candidates) - 1, T).round().astype(int))
        kernel = kernel_named(problem.search.kernel, _fixed_lengthscale(problem))
        K = kernel.matrix(problem.candidates.encoded[spread], problem.candidates.encoded[spread])
        noise = (sigma / scale) ** 2 * len(spread) / T  # repeats average the noise
        freedom = float(np.trace(np.linalg.solve(K + noise * np.eye(len(K)), K)))
        error = min(scale, sigma * math.sqrt(freedom / T)) * math.sqrt(2.0 / math.pi)
        why = (
            f"each of {T} scores carries noise of scale {sigma:.3g}, and the Gaussian process averages it to about "
            f"{error:.2g}; the whole trajectory is yours to show"
        )
        return Outlook(sigma, error, T, why)

    def start(self, problem: Problem, plan: PrivacyPlan) -> "TrajectorySearch":
        """A search with nothing observed."""
        selection = self._selection(problem) if self.final_share > 0.0 else None
        return TrajectorySearch(self, problem, plan, self._observations(problem), selection)

    def _rho(self, problem: Problem) -> tuple[int, int]:
        """ρ* in 10⁻¹², as (observations, final choice)."""
        if problem.delta == 0.0:
            raise StudyInvalid(
                "private_trajectory needs δ > 0, and the study says delta = 0",
                cause="Gaussian noise has no pure ε",
                remedy='set delta = 1e-6 in [privacy], or use method = "private_grid"',
            )
        total = largest_rho(problem.epsilon, problem.delta)
        final = math.floor(total * self.final_share)
        return total - final, final

    def _observations(self, problem: Problem) -> tuple[DiscreteGaussian, ...]:
        T = self.n_steps(problem)
        try:
            parts = split_units(self._rho(problem)[0], (1.0,) * T)
        except ValueError:
            parts = ()
        if not parts:
            raise too_small(problem)
        return tuple(DiscreteGaussian(problem.record_steps, rho, problem.score_per_step) for rho in parts)

    def _selection(self, problem: Problem) -> PrivateSelection:
        """ε_sel = √(8 s ρ*), rounded down until its own ρ fits its share."""
        share = self._rho(problem)[1]
        epsilon = math.floor(math.sqrt(8.0 * from_units(share)) * UNITS_PER_ONE)
        while epsilon > 0:
            selection = PrivateSelection(
                problem.record_steps, epsilon, problem.score_per_step, "exponential mechanism"
            )
            if selection.spend("").rho_units <= share:
                return selection
            epsilon -= max(1, epsilon // 10**11)
        raise too_small(problem)


class TrajectorySearch(Opaque):
    """The search under way. Exact sums are kept, sealed, only where a final choice has been paid for."""

    __slots__ = ("_bo", "_method", "_observations", "_path", "_plan", "_problem", "_selection", "_sums")

    def __init__(
        self,
        method: PrivateTrajectory,
        problem: Problem,
        plan: PrivacyPlan,
        observations: tuple[DiscreteGaussian, ...],
        selection: PrivateSelection | None,
    ) -> None:
        self._method, self._problem, self._plan = method, problem, plan
        self._observations, self._selection = observations, selection
        self._path: list[tuple[int, int]] = []  # (candidate, noised sum): released
        self._sums: dict[int, Sensitive[int]] = {}
        self._bo = self._search(_fixed_lengthscale(problem), 1.0, 0.0)

    def step(self, objective: Scorer, noise: Noise) -> Released:
        """One noised observation, recorded before it is used or shown; a recorded one is read back, not redrawn."""
        t = len(self._path)
        spend = self._plan.spends[t]
        drawn = noise.recorded(spend)
        index = self._bo.ask() if drawn is None else drawn["candidate"]
        if drawn is None or self._selection is not None:
            total = objective.evaluate(self._problem.train(index))
            if self._selection is not None:
                self._sums[index] = total
            drawn = noise.release(spend, self._observations[t], total, candidate=index)
            index = drawn["candidate"]  # another process may have drawn first
        self._path.append((index, drawn["draw"]))
        self._tell(index, drawn["draw"])
        return self._shown(t)

    def finish(self, noise: Noise) -> Release:
        """Choose, and state the choice with its posterior mean and 90% interval beside the trajectory."""
        mean, std = self._bo.posterior.mean, self._bo.posterior.std
        visited = sorted({index for index, _ in self._path})
        if self._selection is not None:
            sums = Sensitive(np.array([self._sums[index].expose() for index in visited], dtype=np.int64))
            chosen = visited[noise.release(self._plan.spends[-1], self._selection, sums)["draw"]]
        elif self._method.choose == "visited":
            chosen = visited[int(np.argmax(mean[visited]))]
        else:
            chosen = int(np.argmax(mean))
        score, spread = self._unmapped(float(mean[chosen])), INTERVAL * float(std[chosen]) * self._scale
        value = {
            "hyperparameters": dict(self._problem.candidates.points[chosen]),
            "score": score,
            "interval": [score - spread, score + spread],
            "trajectory": [self._shown(t) for t in range(len(self._path))],
        }
        return make_release(self._method, self._problem, self._plan, noise, value)

    @property
    def _scale(self) -> float:
        return PRIOR_SCALE * self._problem.score_range

    def _unmapped(self, mapped: float) -> float:
        return mapped * self._scale + PRIOR_MEAN * self._problem.score_range

    def _mapped(self, total: int) -> float:
        score = total * self._problem.score_per_step
        return (score - PRIOR_MEAN * self._problem.score_range) / self._scale

    def _shown(self, t: int) -> Released:
        index, total = self._path[t]
        return {
            "step": t + 1,
            "hyperparameters": dict(self._problem.candidates.points[index]),
            "score": total * self._problem.score_per_step,
        }

    def _search(self, lengthscale: float, variance: float, mean: float) -> BayesianSearch:
        search = self._problem.search
        sigma = self._observations[0].scale * self._problem.score_per_step / self._scale
        return BayesianSearch(
            self._problem.candidates.encoded,
            kernel_named(search.kernel, lengthscale, variance),
            noise_variance=max(sigma**2, 1e-10),
            acquisition=acquisition_named(search.acquisition, beta=search.beta),
            seed=search.seed,
            prior_mean=mean,
            expected=len(self._observations),
        )

    def _tell(self, index: int, total: int) -> None:
        """The posterior after one more observation; with lengthscale = "fit", under the fitted kernel."""
        if self._problem.search.lengthscale != "fit" or len(self._path) < FIRST_FIT:
            self._bo.tell(index, self._mapped(total))
            return
        indices = [i for i, _ in self._path]
        values = np.array([self._mapped(y) for _, y in self._path])
        points = self._problem.candidates.encoded[indices]
        fitted = fit(points, values, self._bo.noise_variance, self._problem.search.kernel)
        self._bo = self._search(fitted.lengthscale, fitted.variance, fitted.mean)
        for i, value in zip(indices, values, strict=True):
            self._bo.tell(i, float(value))


def _fixed_lengthscale(problem: Problem) -> float:
    """The study's lengthscale, or the one used until there is something to fit."""
    return 0.3 if isinstance(problem.search.lengthscale, str) else problem.search.lengthscale
