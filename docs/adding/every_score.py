"""Release every candidate's score with noise, choose the largest, and release its score once more.

| symbol | name here | meaning | shape |
|---|---|---|---|
| N | `n_steps` | number of candidates; all are scored | scalar |
| u_t | `objective.evaluate(…)` | exact sum of the scores of candidate t, in steps of 2⁻²⁴G | integer |
| Δ | `record_steps` | k·2²⁴: the most by which one person changes u_t | integer |
| ε_t | `split_epsilon` | ε/2N a score and ε/2 for the last, in units of 10⁻¹²; the sum is ε | (N+1,) |
"""

from dataclasses import dataclass
from typing import Literal

from dpbo_core.mechanisms.laplace import DiscreteLaplace
from dpbo_core.mechanisms.noise import Noise
from dpbo_core.methods.contract import Draws, Method, Outlook, guarantee_of, make_release, split_epsilon
from dpbo_core.methods.problem import Problem
from dpbo_core.models.scoring.in_memory import Scorer
from dpbo_core.privacy.certified import CertificateRules, one_record_moves, stated_steps
from dpbo_core.privacy.guarantee import Evidence, PrivacyGuarantee, Standing
from dpbo_core.privacy.release import PrivacyPlan, Release
from dpbo_core.privacy.sensitive import Opaque, Sensitive

EVIDENCE = Evidence(Standing.STANDARD, "the discrete Laplace N + 1 times, composed by adding ε")


@dataclass(frozen=True)
class EveryScore(Method):
    """Pure ε-DP method that releases the candidate with the largest noisy score, and its score."""

    wants = "every score of a short list"
    gives = "the choice and its score, after every candidate's"
    needs = "a handful of candidates"
    delta_range = "0"
    trainings = "one a candidate"
    observable = "the fixed order of the candidates; how long scoring takes"
    public_path = True  # Λ in its own order: anyone may see which candidate is scored when
    fits_lengthscale = True  # it has no kernel, so that there is nothing to refuse

    kind: Literal["every_score"] = "every_score"

    def n_steps(self, problem: Problem) -> int:
        """Return N, because every candidate is scored."""
        return len(problem.candidates)

    def guarantee(self, problem: Problem) -> PrivacyGuarantee:
        """Return the guarantee: N + 1 draws compose to pure ε-DP. No data are needed to price them."""
        return guarantee_of(problem, delta=0.0, evidence=EVIDENCE)

    def draws(self, problem: Problem) -> Draws:
        """Return the draws. The name of each is the key of its record in the ledger."""
        N = self.n_steps(problem)
        shares, names = (0.5 / N,) * N + (0.5,), [f"score {t}" for t in range(1, N + 1)] + ["score of the best"]
        mechanisms = [
            DiscreteLaplace(problem.record_steps, units, problem.score_per_step)
            for units in split_epsilon(problem, shares)
        ]
        return tuple((mechanism.spend(name), mechanism) for name, mechanism in zip(names, mechanisms, strict=True))

    @staticmethod
    def certificate_rules(release: Release) -> CertificateRules:
        """Return what its certificate must list: one draw for each score, and one more."""
        names = [f"score {t}" for t in range(1, stated_steps(release) + 1)] + ["score of the best"]
        return CertificateRules({name: tuple(DiscreteLaplace.WORTH) for name in names}, one_record_moves(release))

    def outlook(self, problem: Problem) -> Outlook:
        """Return the expected error: twice the largest of N Laplace draws, H_N·b, plus the last scale."""
        N = self.n_steps(problem)
        first, *_, last = (spend.noise_scale for spend, _ in self.draws(problem))
        error = 2.0 * first * sum(1.0 / t for t in range(1, N + 1)) + last
        return Outlook(last, error, N, f"chooses among {N} scores that carry noise of scale {first:.2g}")

    def start(self, problem: Problem, plan: PrivacyPlan) -> "EveryScoreSearch":
        """Return a search that has scored nothing yet."""
        return EveryScoreSearch(self, problem, plan)


class EveryScoreSearch(Opaque):
    """A running search. It holds sealed sums, so it has no repr and cannot be pickled."""

    __slots__ = ("_draws", "_method", "_plan", "_problem", "_released", "_sums")

    def __init__(self, method: EveryScore, problem: Problem, plan: PrivacyPlan) -> None:
        self._method, self._problem, self._plan = method, problem, plan
        self._draws = method.draws(problem)
        self._sums: list[Sensitive[int]] = []
        self._released: list[int] = []

    def step(self, objective: Scorer, noise: Noise) -> None:
        """Train and score the next candidate. A method with visible steps returns what it released."""
        t = len(self._sums)
        self._sums.append(objective.evaluate(self._problem.train(t)))
        self._released.append(noise.release(*self._draws[t], self._sums[t])["draw"])

    def finish(self, noise: Noise) -> Release:
        """Release the best candidate and its score once more, with fresh noise."""
        best = max(range(len(self._released)), key=self._released.__getitem__)
        drawn = noise.release(*self._draws[-1], self._sums[best])
        value = {
            "hyperparameters": dict(self._problem.candidates.points[best]),
            "score": drawn["draw"] * self._problem.score_per_step,
        }
        return make_release(self._method, self._problem, self._plan, noise, value)
