"""Kusner et al. 2015, Algorithms 1 and 2: Gaussian-process search, whose outcome alone is released, with noise.

Algorithm 1 observes with noise and releases λ̃ and ṽ; Algorithm 2 searches exact scores by branch and bound and
releases f̃ = f_V(λ_T) + Lap(Δ/ε), or λ̃.

| symbol | name here | meaning | shape |
|---|---|---|---|
| λ_t, v_t | `index`, `_values` | Algorithm 1: candidate and noisy score of step t; PRIVATE | index, scalar |
| λ_t, f_V(λ_t) | `index`, `_last` | Algorithm 2: candidate and exact integer sum; PRIVATE | index, integer |
| σ² | `noise_variance` | variance of N(0, σ²) drawn onto each observation, on the prior's scale | scalar |
| A, τ | `rate_constant`, `decay_constant` | of de Freitas et al. (2012); asserted by the user | scalars |
| k₁ | `dataset_similarity` | prior correlation of f_V and f_V′ for neighbours | scalar in [0, 1] |
| β_t | `UCB(delta=…)` | width of the confidence bounds (Alg. 1, line 4) | scalar |
| μ_T | `posterior.mean`, `_bo.mean` | posterior mean over ALL of Λ after T observations | (N,) |
| Δ | `sensitivities` | of μ_T (Theorem 1), max_t v_t (3) and f_V(λ_T) (5), on the prior's scale | scalars |

Two proofs, and a release says which one it rests on. Where the score's range is no wider than a theorem's Δ, which
is the usual case, clipping to the range makes it pure ε-differentially private with no assumption. Otherwise it is
(ε, δ) only if f_V and f_V′ are draws of the stated prior; that δ is over the draw of f. Then f̃ rests on A and τ
too, which depend on the private f: nothing can estimate them, and they must hold for the score of every
neighbouring data set. Branch and bound may finish early; it goes on asking for its last candidate, so that no one
can count.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpbo_core.errors import StudyInvalid
from dpbo_core.mechanisms.gaussian import observation_noise
from dpbo_core.mechanisms.laplace import DiscreteLaplace
from dpbo_core.mechanisms.noise import Noise
from dpbo_core.methods import kusner_pricing as pricing
from dpbo_core.methods.contract import Outlook, laplace_caption, make_release
from dpbo_core.methods.problem import Problem, stated_kernel
from dpbo_core.models.integer_sums import GRID
from dpbo_core.models.scoring.in_memory import Scorer
from dpbo_core.privacy.certified import MEAN_RELATIONS, CertificateRules, one_record_moves
from dpbo_core.privacy.guarantee import DE_FREITAS_CONSTANTS, GP_PRIOR, Evidence
from dpbo_core.privacy.release import PrivacyPlan, Release, Spend
from dpbo_core.privacy.sensitive import Opaque, Sensitive
from dpbo_core.search.bo import UCB, Acquisition, BayesianSearch, acquisition_named
from dpbo_core.search.branch_and_bound import JITTER, BranchAndBound
from dpbo_core.search.gp import Posterior
from dpbo_core.theorems import kusner_2015, srinivas_2010


@dataclass(frozen=True)
class NoisyGP(pricing.GPPriorMethod):
    """Algorithm 1 of Kusner et al.: Gaussian-process search on noisy observations, which releases λ̃ and ṽ.

    As "published" a score rests on Theorem 3 as printed, which is proved up to a number of steps.

    Attributes:
        noise_variance: σ² on the prior's scale.
    """

    wants = "Algorithm 1 of Kusner et al."
    gives = "a choice and a score"
    needs = "ε far above 1, or the paper's prior taken on by name"

    noise_variance: float = 0.01
    kind: Literal["noisy_gp"] = "noisy_gp"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_option(
            "noise_variance",
            "choose a positive variance on the prior's scale, 0.01 say",
            fine=0.0 < self.noise_variance < math.inf,
            cause="Algorithm 1 draws noise onto each observation",
        )

    def proof(self, problem: Problem, uncapped: Sequence[pricing.Output]) -> tuple[Evidence, tuple[str, ...]]:
        """The proof's standing and assumptions; `uncapped` outputs rest on a theorem, not on the score's range."""
        if uncapped and self.outputs != "candidate" and problem.search.acquisition != "ucb":
            raise StudyInvalid(
                f"noisy_gp with search.acquisition = {problem.search.acquisition!r}",
                cause="Theorem 3 bounds the regret of UCB alone",
                remedy='use acquisition = "ucb", or outputs = "candidate"',
            )
        if not uncapped:
            return pricing.CAPPED_EVIDENCE, ()
        if self.calibration == "published":
            if "score" in uncapped:
                self._check_length(problem)
            return pricing.PRINTED_EVIDENCE[self.outputs], (GP_PRIOR.name,)
        return pricing.CORRECTED_EVIDENCE[self.outputs], (GP_PRIOR.name,)

    def _check_length(self, problem: Problem) -> None:
        T, delta = problem.search.n_steps, self.last_delta(problem)
        longest = kusner_2015.theorem_3_longest_search(n_candidates=len(problem.candidates), delta=delta)
        if longest < T:
            raise StudyInvalid(
                f'noisy_gp with calibration = "published" after search.steps = {T}',
                cause=f"Theorem 3 as printed is proved for at most {longest:,} steps here; beyond that nobody has "
                "proved or refuted it",
                remedy=f'ask for {longest:,} steps or fewer, or leave calibration out: "corrected" holds for any T',
            )

    @staticmethod
    def certificate_rules(release: Release) -> CertificateRules:
        """What a certificate must state: a draw for each output, and the prior where a theorem bounds one."""
        draws, uncapped = pricing.certified_draws(release, "best score")
        return CertificateRules(draws, 0.0, (GP_PRIOR.name,) * bool(uncapped), relations=MEAN_RELATIONS)

    def outlook(self, problem: Problem) -> Outlook:
        """The expected error by Kusner et al.: the score's (Theorem 4) or the choice's loss (2), the larger."""
        spends, error = self.plan(problem).spends, 0.0
        words = pricing.score_noise_words(problem, spends[-1])
        if self.outputs != "score":
            error, words = pricing.choice_outlook(problem, self.scale, spends[0])
        if self.outputs != "candidate":
            error = max(error, self._score_error(problem, spends[-1]))
        return Outlook(spends[-1].noise_scale, error, len(problem.candidates), words)

    def start(self, problem: Problem, plan: PrivacyPlan) -> "NoisyGPSearch":
        """Return a search that has scored and drawn nothing yet."""
        return NoisyGPSearch(self, problem, plan)

    def acquisition(self, problem: Problem) -> Acquisition:
        """The acquisition: UCB with the β_t of line 4, or another that the study states; `proof` may refuse it."""
        if problem.search.acquisition != "ucb":
            return acquisition_named(problem.search.acquisition)
        events = 2.0 if self.calibration == "published" else 5.0
        return UCB(delta=self.last_delta(problem) / events)  # Alg. 1, line 4

    def score_sensitivity(self, problem: Problem) -> float:
        """Theorem 3's Δ, in prior deviations: neighbours' max_t v_t differ by more with probability ≤ δ."""
        return kusner_2015.theorem_3_sensitivity(
            n_candidates=len(problem.candidates),
            n_steps=problem.search.n_steps,
            delta=self.last_delta(problem),
            dataset_similarity=self.dataset_similarity,
            noise_variance=self.noise_variance,
            information_gain=self._information_gain(problem),
            calibration=self.calibration,
            score_change=self.scale.one_record(problem),
        )

    def score_draw(self, problem: Problem, sensitivity: float, epsilon_units: int) -> tuple[Spend, DiscreteLaplace]:
        """The noise draw on max_t v_t with its price, in steps of a score grid; takes Δ in prior deviations."""
        steps = self.scale.sensitivity_steps(sensitivity)
        mechanism = DiscreteLaplace(steps, epsilon_units, problem.score_range / GRID)
        return mechanism.spend("best score"), mechanism

    def _score_error(self, problem: Problem, spend: Spend) -> float:
        """Kusner et al.'s Theorem 4: a bound on the score's error, in score units; at most range plus noise."""
        unit = self.score_spread * problem.score_range  # of the prior's scale
        T, delta = problem.search.n_steps, self.last_delta(problem)
        bound = kusner_2015.theorem_4_error_bound(
            noise=kusner_2015.theorem_4_noise_bound(
                n_steps=T, delta=delta, noise_variance=self.noise_variance, calibration=self.calibration
            ),
            regret=kusner_2015.average_regret(
                n_candidates=len(problem.candidates),
                n_steps=T,
                delta=delta,
                noise_variance=self.noise_variance,
                information_gain=self._information_gain(problem),
                calibration=self.calibration,
            ),
            scale=kusner_2015.corollary_2_scale(sensitivity=spend.sensitivity / unit, epsilon=spend.epsilon),
            failure_probability=pricing.FAILURE_PROBABILITY,
        )
        return min(bound * unit, problem.score_range + spend.noise_scale)

    def _information_gain(self, problem: Problem) -> float:
        X, kernel = problem.candidates.encoded, stated_kernel(problem)
        return srinivas_2010.information_gain_bound(
            gram=lambda i: kernel.column(X, X[i]),
            n_steps=problem.search.n_steps,
            noise_variance=self.noise_variance,
        )


@dataclass(frozen=True)
class ExactGP(pricing.GPPriorMethod):
    """Algorithm 2 of Kusner et al.: branch and bound on exact scores, which releases f̃, or λ̃.

    Attributes:
        outputs: the "score" f̃ of Algorithm 2, the "candidate" λ̃ of section 4, or "both", the score at its range, as
            Theorem 5 does not speak of a search on noised observations.
        rate_constant: A > 0 on the prior's scale; yours to assert, no default is possible. For a score alone.
        decay_constant: τ > 0; likewise.
    """

    wants = "Algorithm 2 of Kusner et al."
    gives = "a score, or a choice, or both"
    needs = "as above, and for a score two constants that nobody can know"

    outputs: pricing.Outputs = "score"
    rate_constant: float = 0.0
    decay_constant: float = 0.0
    kind: Literal["exact_gp"] = "exact_gp"

    def proof(self, problem: Problem, uncapped: Sequence[pricing.Output]) -> tuple[Evidence, tuple[str, ...]]:
        """The proof's standing and assumptions; `uncapped` outputs rest on a theorem, not on the score's range."""
        prior = "candidate" in uncapped or ("score" in uncapped and self._uses_prior(problem))
        assumptions = (GP_PRIOR.name,) * prior + (DE_FREITAS_CONSTANTS.name,) * ("score" in uncapped)
        choice = self.outputs != "score"
        if not uncapped:
            evidence = pricing.CAPPED_EVIDENCE if choice else pricing.CAPPED_SCORE_EVIDENCE
        elif self.calibration == "published":
            evidence = pricing.PRINTED_EXACT_CHOICE_EVIDENCE if choice else pricing.PRINTED_EXACT_SCORE_EVIDENCE
        else:
            evidence = pricing.EXACT_CHOICE_EVIDENCE if choice else pricing.EXACT_SCORE_EVIDENCE
        return evidence, assumptions

    @staticmethod
    def certificate_rules(release: Release) -> CertificateRules:
        """What a certificate must state: a draw for each output; prior and constants where the range caps no Δ."""
        draws, uncapped = pricing.certified_draws(release, "last score")
        constants = "last score" in uncapped
        if "best candidate" in draws and constants:
            raise ValueError("outputs")  # no theorem
        # one record's range bounds the difference at a fixed λ whatever the prior says
        moved = min((s.sensitivity for s in release.spends if s.what in uncapped), default=math.inf)
        prior = "best candidate" in uncapped or moved < one_record_moves(release)
        assumed = (GP_PRIOR.name,) * prior + (DE_FREITAS_CONSTANTS.name,) * constants
        return CertificateRules(draws, 0.0, assumed, relations=MEAN_RELATIONS)

    def outlook(self, problem: Problem) -> Outlook:
        """The expected error by Kusner et al.: the score's (Theorem 6) or the choice's loss (2), the larger."""
        spends = [spend for spend, _ in self.draws(problem)]
        spend, error, words = spends[-1], 0.0, list[str]()
        if self.outputs != "score":
            error, loss = pricing.choice_outlook(problem, self.scale, spends[0])
            words.append(loss)
        if self.outputs != "candidate":
            unit = self.score_spread * problem.score_range  # of the prior's scale
            bound = kusner_2015.theorem_6_error_bound(
                rate=pricing.checked_rate(problem, self.rate_constant, self.decay_constant),
                sensitivity=spend.sensitivity / unit,
                epsilon=spend.epsilon,
                failure_probability=pricing.FAILURE_PROBABILITY,
            )
            error = max(error, min(bound * unit, problem.score_range + spend.noise_scale))
            alone = "" if words else "; it releases a score and no hyperparameter"
            words.append(pricing.score_noise_words(problem, spend) + alone)
        return Outlook(spend.noise_scale, error, len(problem.candidates), "; ".join(words))

    def start(self, problem: Problem, plan: PrivacyPlan) -> "ExactGPSearch":
        """Return a search that has scored and drawn nothing yet."""
        return ExactGPSearch(self, problem, plan)

    def score_sensitivity(self, problem: Problem) -> float:
        """Theorem 5's bound on the change of the last score, in prior deviations, exceeded with probability ≤ δ."""
        pricing.checked_rate(problem, self.rate_constant, self.decay_constant)
        bound = kusner_2015.theorem_5_sensitivity(
            n_candidates=len(problem.candidates),
            n_steps=problem.search.n_steps,
            delta=self.last_delta(problem),
            dataset_similarity=self.dataset_similarity,
            dimension=problem.candidates.encoded.shape[1],
            rate_constant=self.rate_constant,
            decay_constant=self.decay_constant,
            score_change=math.inf if self.calibration == "published" else self.scale.one_record(problem),
        )
        if self.outputs == "both" and not self.scale.binds(bound):
            raise StudyInvalid(
                'exact_gp with outputs = "both" and a score whose noise rests on Theorem 5',
                cause="where a choice is released the search follows noised observations, and the theorem is of a "
                "search on exact ones",
                remedy="ask for one of the two, or both of Algorithm 1; or state constants at which the score's "
                "range is the smaller bound, with cap_at_range",
            )
        return bound

    def _uses_prior(self, problem: Problem) -> bool:
        """Whether c of the score's Δ is smaller than what one person can move a score by, which needs the prior."""
        c = kusner_2015.similarity_bound(
            n_events=2.0 * len(problem.candidates),
            delta=self.last_delta(problem),
            dataset_similarity=self.dataset_similarity,
        )
        return c < self.scale.one_record(problem)

    def score_draw(self, problem: Problem, sensitivity: float, epsilon_units: int) -> tuple[Spend, DiscreteLaplace]:
        """The noise draw on f_V(λ_T) with its price, in steps of the integer sum; takes Δ in prior deviations."""
        steps = problem.range_steps
        if not self.scale.binds(sensitivity):
            steps = math.ceil(sensitivity * self.score_spread * problem.range_steps) + 1
        mechanism = DiscreteLaplace(steps, epsilon_units, problem.score_per_step)
        return mechanism.spend("last score"), mechanism


class NoisyGPSearch(Opaque):
    """The search of Algorithm 1. The path, the scores and the posterior are private until `finish`."""

    __slots__ = ("_bo", "_method", "_noise", "_plan", "_problem", "_values")

    def __init__(self, method: NoisyGP, problem: Problem, plan: PrivacyPlan) -> None:
        self._method, self._problem, self._plan = method, problem, plan
        self._noise: Sensitive[tuple[float, ...]] | None = None
        self._values: Sensitive[list[float]] = Sensitive([])
        expected = method.n_steps(problem)
        posterior = Posterior(  # Alg. 1, line 2: μ_0 = 0
            problem.candidates.encoded, stated_kernel(problem), method.noise_variance, expected=expected
        )
        self._bo = BayesianSearch(posterior, method.acquisition(problem))

    def step(self, objective: Scorer, noise: Noise) -> None:
        """Score a candidate with noise, v_t = f_V(λ_t) + N(0, σ²), for the secret posterior; release nothing."""
        if self._noise is None:
            sigma, T = self._method.noise_variance**0.5, self._method.n_steps(self._problem)
            self._noise = noise.unreleased(lambda source: observation_noise(sigma, T, source))
        t = self._bo.step - 1
        index = self._bo.ask()  # Alg. 1, line 5
        total = objective.evaluate(self._problem.train(index)).expose()
        value = self._method.scale.to_prior(total, self._problem.range_steps) + self._noise.expose()[t]  # line 6
        self._bo.tell(index, value)  # line 7
        self._values.expose().append(value)

    def finish(self, noise: Noise) -> Release:
        """Draw the release: λ̃ by the exponential mechanism on μ_T over Λ, ṽ = max_t v_t + Lap(Δ/ε), or both."""
        best = self._method.scale.to_steps(np.array([max(self._values.expose())]))  # Alg. 1, line 13
        return _release(self, noise, self._bo.posterior.mean, Sensitive(int(best[0])))


class ExactGPSearch(Opaque):
    """The search of Algorithm 2. The path and the scores are private: nothing is returned before `finish`."""

    __slots__ = ("_bo", "_last", "_method", "_noise", "_plan", "_problem", "_step")

    def __init__(self, method: ExactGP, problem: Problem, plan: PrivacyPlan) -> None:
        self._method, self._problem, self._plan = method, problem, plan
        self._last, self._step = Sensitive(0), 0
        self._noise: Sensitive[tuple[float, ...]] | None = None
        self._bo = BranchAndBound(problem.candidates.encoded, stated_kernel(problem))

    def step(self, objective: Scorer, noise: Noise) -> None:
        """Score the candidate of the largest upper bound for the search, noised if a choice will be released."""
        if self._noise is None:
            T = self._method.n_steps(self._problem)
            self._noise = Sensitive((0.0,) * T)
            if self._method.releases_hyperparameters:  # whose posterior must be of what is observed
                self._noise = noise.unreleased(lambda source: observation_noise(JITTER**0.5, T, source))
        index = self._bo.ask()
        self._last = objective.evaluate(self._problem.train(index))  # Alg. 2, line 2
        value = self._method.scale.to_prior(self._last.expose(), self._problem.range_steps)
        self._bo.tell(index, value + self._noise.expose()[self._step])
        self._step += 1

    def finish(self, noise: Noise) -> Release:
        """Draw the release: λ̃ by the exponential mechanism on μ_T over Λ, f̃ = f_V(λ_T) + Lap(Δ/ε), or both."""
        return _release(self, noise, self._bo.mean, self._last)


def _release(
    search: NoisyGPSearch | ExactGPSearch, noise: Noise, mean: NDArray[np.float64], score: Sensitive[int]
) -> Release:
    method, problem, value = search._method, search._problem, dict[str, object]()
    for spend, mechanism in method.draws(problem):
        if isinstance(mechanism, DiscreteLaplace):  # Alg. 1, lines 14 and 15; Alg. 2, lines 4 and 5
            drawn = noise.release(spend, mechanism, score)["draw"] * mechanism.unit
            capped = method.scale.capped or isinstance(method, ExactGP)  # else a score may lie outside its range
            value |= laplace_caption(drawn, spend.noise_scale, problem.score_range if capped else None)
        else:  # Alg. 1, line 12
            place = noise.release(spend, mechanism, Sensitive(method.scale.to_steps(mean)))["draw"]
            value["hyperparameters"] = dict(problem.candidates.points[place])
    return make_release(method, problem, search._plan, noise, value)
