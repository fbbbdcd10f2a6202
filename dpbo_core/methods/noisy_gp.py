"""Kusner et al. 2015, Algorithm 1: Bayesian optimisation with observation noise; releases λ̃ and ṽ.

| symbol | name here | meaning | shape |
|---|---|---|---|
| λ_t, v_t | `index`, `_values` | the candidate and the noisy score of step t; PRIVATE | index, scalar |
| σ² | `noise_variance` | variance of N(0, σ²) drawn onto each observation, on the prior's scale | scalar |
| k₁ | `dataset_similarity` | prior correlation of f_V and f_V′ for neighbours | scalar in [0, 1] |
| β_t | `UCB(delta=…)` | width of the confidence bounds (line 4) | scalar |
| μ_T | `posterior.mean` | posterior mean over ALL of Λ after T observations | (N,) |
| Δ | `_sensitivities` | of μ_T (Theorem 1) and of max_t v_t (Theorem 3), on the prior's scale | scalars |

Two proofs, and a release says which one it rests on. Where the score's range is no wider than a theorem's Δ, which
is the usual case, clipping to the range makes it pure ε-differentially private with no assumption. Otherwise it is
(ε, δ) only if f_V and f_V′ are draws of the stated prior; that δ is over the draw of f.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dpbo_core.bo.acquisition import UCB, Acquisition
from dpbo_core.bo.loop import BayesianSearch
from dpbo_core.errors import StudyInvalid
from dpbo_core.mechanisms.exponential import EXPONENTIAL, PrivateSelection
from dpbo_core.mechanisms.laplace import DiscreteLaplace
from dpbo_core.mechanisms.noise import Mechanism, Noise
from dpbo_core.mechanisms.observation import observation_noise
from dpbo_core.methods.contract import Described, Draws, Outlook
from dpbo_core.methods.kernel import stated_kernel
from dpbo_core.methods.own_acquisition import acquisition_of, assumed_of_acquisition, shown_of_acquisition
from dpbo_core.methods.pricing import guarantee_of, split_delta, split_epsilon
from dpbo_core.methods.prior_scale import PriorScale, check_prior, of_best, only_delta
from dpbo_core.methods.releasing import make_release
from dpbo_core.models.scores.grid import GRID
from dpbo_core.objective.in_memory import Scorer
from dpbo_core.privacy.amounts import from_units
from dpbo_core.privacy.assumption import GP_PRIOR
from dpbo_core.privacy.certified import MEANS, Shown, only_shows, score_range
from dpbo_core.privacy.guarantee import Evidence, Standing
from dpbo_core.privacy.plan import PrivacyPlan, Spend
from dpbo_core.privacy.release import Release
from dpbo_core.privacy.sensitive import Opaque, Sensitive
from dpbo_core.problem import Problem
from dpbo_core.theorems import kusner_2015, srinivas_2010
from dpbo_core.theorems.kusner_2015 import Calibration

Output = Literal["candidate", "score"]
FAILURE = math.exp(-1.0)  # e^{−a} of the error bounds at a = 1, where Laplace noise is at its mean
CAPPED = Evidence(
    Standing.STANDARD,
    "the score's range bounds what is released; exponential mechanism and discrete Laplace, composed by adding ε",
)
CHOICE = Evidence(
    Standing.CORRECTED,
    "Kusner et al. 2015, Theorem 1, tightened: at time T alone, and c at most what one person moves a score by",
)
SCORE = Evidence(
    Standing.CORRECTED,
    "Kusner et al. 2015, Theorem 3, with five events at δ/5, a union over T in q, and c at most what one person "
    "moves a score by",
)
BOTH = Evidence(
    Standing.CORRECTED,
    "Kusner et al. 2015, Theorem 1 at time T alone, and Theorem 3 with five events at δ/5 and a union over T in q; "
    "c at most what one person moves a score by",
)
PRINTED = Evidence(Standing.PRINTED, "Kusner et al. 2015, Theorem 1 and Corollary 1")
REFUTED = Evidence(
    Standing.REFUTED,
    "Theorem 3 as printed spends a failure budget of 5δ/3 and bounds the noise at an index that the data chose",
)


@dataclass(frozen=True)
class NoisyGP:
    """Algorithm 1.

    Attributes:
        calibration: "corrected", or "published" to reproduce the paper; with a score among the outputs that is
            refuted, and runs on a public dataset alone.
        cap_at_range: clip what is released to the range that scores can have; with false and "published" it is the
            paper to the letter.
        outputs: "both" λ̃ and ṽ, each at half of (ε, δ), or one of them at the whole.
        dataset_similarity: k₁ in [0, 1], the modeller's statement about neighbours.
        noise_variance: σ² on the prior's scale.
        score_center: public guess of the score, as a share of its range: the prior's mean.
        score_spread: public guess of its standard deviation over Λ, likewise.
    """

    DESCRIBED: ClassVar = Described(
        wants="Algorithm 1 of Kusner et al.",
        gives="a choice and a score",
        needs="ε far above 1, or the paper's prior taken on by name",
        delta="see [errata](docs/errata.md)",
        trainings="one a candidate",
    )

    calibration: Calibration = "corrected"
    cap_at_range: bool = True
    outputs: Literal["both", "candidate", "score"] = "both"
    dataset_similarity: float = 0.99
    noise_variance: float = 0.01
    score_center: float = 0.5
    score_spread: float = 0.25
    kind: Literal["noisy_gp"] = "noisy_gp"

    def __post_init__(self) -> None:
        check_prior(self.dataset_similarity, self.noise_variance)
        _ = self.scale

    @property
    def scale(self) -> PriorScale:
        """The public map between scores and the prior."""
        return PriorScale(self.score_center, self.score_spread, capped=self.cap_at_range)

    @property
    def released(self) -> tuple[Output, ...]:
        """What is released, in order."""
        return ("candidate", "score") if self.outputs == "both" else (self.outputs,)

    @property
    def public_path(self) -> bool:
        """The path follows scores that are not private."""
        return False

    @property
    def hides_evaluations(self) -> bool:
        """How many models are scored is public: T."""
        return False

    @property
    def releases_hyperparameters(self) -> bool:
        """Where λ̃ is among the outputs."""
        return "candidate" in self.released

    @property
    def fits_lengthscale(self) -> bool:
        """k₂ is fixed: nothing private may be fitted."""
        return False

    def n_steps(self, problem: Problem) -> int:
        """T: how many models are scored, `[search] steps`."""
        return problem.search.steps

    def pure(self, problem: Problem) -> bool:
        """Whether the range caps everything that is released, so that δ = 0 and nothing is assumed."""
        return all(map(self.scale.binds, self._sensitivities(problem).values()))

    def plan(self, problem: Problem) -> PrivacyPlan:
        """At most one selection and one Laplace draw.

        Raises:
            StudyInvalid: an ε or δ too small to be split, or an acquisition that Theorem 3 does not speak of.
        """
        pure = self.pure(problem)
        if not pure and "score" in self.released and problem.search.acquisition != "ucb":
            raise StudyInvalid(
                f"noisy_gp with search.acquisition = {problem.search.acquisition!r}",
                cause="Theorem 3 bounds the regret of UCB alone",
                remedy='use acquisition = "ucb", or outputs = "candidate"',
            )
        evidence = self._evidence(pure=pure)
        prior = (GP_PRIOR.name,) if not pure else ()
        assumptions = () if evidence.refuted else (*prior, *assumed_of_acquisition(problem))
        spends = tuple(spend for spend, _ in self.draws(problem))
        return PrivacyPlan(guarantee_of(problem, pure=pure, evidence=evidence, assumptions=assumptions), spends)

    def draws(self, problem: Problem) -> Draws:
        """The draws of the plan, each with its δ where the range does not cap it."""
        made: list[tuple[Spend, Mechanism[Any]]] = []
        scale, unit = self.scale, problem.score_range / GRID
        epsilons = split_epsilon(problem, (1.0,) * len(self.released))
        for what, epsilon, delta in zip(self.released, epsilons, self._deltas(problem), strict=True):
            Delta = self._sensitivities(problem)[what]
            steps = scale.sensitivity_steps(Delta)
            mechanism: Mechanism[Any]
            if what == "candidate":
                mechanism = PrivateSelection(steps, epsilon, unit, EXPONENTIAL)
                spend = mechanism.spend("best candidate")
            else:
                mechanism = DiscreteLaplace(steps, epsilon, unit)
                spend = mechanism.spend("best score")
            made.append((spend if scale.binds(Delta) else only_delta(spend, delta), mechanism))
        return tuple(made)

    @staticmethod
    def shown(release: Release) -> Shown:
        """A draw for each output. Where one says less than the range, that rests on the prior."""
        if not only_shows(release, "hyperparameters", "score"):
            raise ValueError("value")
        made = {}
        if "hyperparameters" in release.value:
            made["best candidate"] = tuple(PrivateSelection.WORTH)
        if "score" in release.value:
            made["best score"] = tuple(DiscreteLaplace.WORTH)
        capped = release.facts["options"]["cap_at_range"] is True and all(
            spend.sensitivity >= score_range(release) for spend in release.spends
        )
        assumed = (() if capped else (GP_PRIOR.name,)) + shown_of_acquisition(release)
        return Shown(made, 0.0, assumed, relations=MEANS)

    def outlook(self, problem: Problem) -> Outlook:
        """Theorem 2's loss of the selection, or Theorem 4's error of the score if larger, both with a = 1."""
        spends, G = self.plan(problem).spends, problem.score_range
        noise, N = spends[-1].noise_scale, len(problem.candidates)
        score_error = self._score_error(problem, spends[-1]) if "score" in self.released else 0.0
        if self.outputs == "score":
            return Outlook(noise, score_error, N, f"its noise has scale {noise:.3g} on a score between 0 and {G:g}")
        loss = kusner_2015.theorem_2_utility_bound(
            n_candidates=N,
            sensitivity=spends[0].sensitivity,
            epsilon=spends[0].epsilon,
            failure_probability=FAILURE,
        )
        loss = min(G, loss)
        why = f"its choice loses up to {loss:.2g}, if the scores are draws of the stated prior"
        if self.scale.binds(self._sensitivities(problem)["candidate"]):
            why = of_best(problem, spends[0])
        return Outlook(noise, max(loss, score_error), N, why)

    def start(self, problem: Problem, plan: PrivacyPlan) -> "NoisyGPSearch":
        """A search with nothing observed."""
        return NoisyGPSearch(self, problem, plan)

    def acquisition(self, problem: Problem) -> Acquisition:
        """UCB with the β_t of line 4, or what the study asks for where no theorem needs it."""
        if problem.search.acquisition != "ucb":
            return acquisition_of(problem.search)
        delta = from_units(self._deltas(problem)[-1])
        return UCB(delta=delta / (2.0 if self.calibration == "published" else 5.0))  # Alg. 1, line 4

    def _deltas(self, problem: Problem) -> tuple[int, ...]:
        return split_delta(problem, (1.0,) * len(self.released))

    def _evidence(self, *, pure: bool) -> Evidence:
        if self.calibration == "published" and "score" in self.released:
            return REFUTED
        if pure:
            return CAPPED
        if self.calibration == "published":
            return PRINTED
        return {"both": BOTH, "candidate": CHOICE, "score": SCORE}[self.outputs]

    def _sensitivities(self, problem: Problem) -> dict[Output, float]:
        """Δ of each release, on the prior's scale."""
        deltas = dict(zip(self.released, map(from_units, self._deltas(problem)), strict=True))
        found: dict[Output, float] = {}
        for what, delta in deltas.items():
            if what == "candidate":
                found[what] = kusner_2015.theorem_1_sensitivity(
                    n_candidates=len(problem.candidates),
                    n_steps=problem.search.steps,
                    delta=delta,
                    dataset_similarity=self.dataset_similarity,
                    calibration=self.calibration,
                    score_change=self.scale.one_record(problem),
                )
            else:
                found[what] = kusner_2015.theorem_3_sensitivity(
                    n_candidates=len(problem.candidates),
                    n_steps=problem.search.steps,
                    delta=delta,
                    dataset_similarity=self.dataset_similarity,
                    noise_variance=self.noise_variance,
                    information_gain=self._information_gain(problem),
                    calibration=self.calibration,
                    score_change=self.scale.one_record(problem),
                )
        return found

    def _score_error(self, problem: Problem, spend: Spend) -> float:
        """Theorem 4 at the Δ that is really paid for; before the noise, no score is further off than the range."""
        unit = self.score_spread * problem.score_range  # of the prior's scale
        bound = kusner_2015.theorem_4_error_bound(
            n_candidates=len(problem.candidates),
            n_steps=problem.search.steps,
            delta=from_units(self._deltas(problem)[-1]),
            noise_variance=self.noise_variance,
            information_gain=self._information_gain(problem),
            sensitivity=spend.sensitivity / unit,
            epsilon=spend.epsilon,
            failure_probability=FAILURE,
            calibration=self.calibration,
        )
        return min(bound * unit, problem.score_range + spend.noise_scale)

    def _information_gain(self, problem: Problem) -> float:
        """An upper bound on γ_T from public quantities alone; the run's own gain is never used."""
        X, kernel = problem.candidates.encoded, stated_kernel(self, problem)
        return srinivas_2010.information_gain_bound(
            gram=lambda i: kernel.column(X, X[i]), n_steps=problem.search.steps, noise_variance=self.noise_variance
        )


class NoisyGPSearch(Opaque):
    """Algorithm 1 under way. The path, the scores and the posterior are private until `finish`."""

    __slots__ = ("_bo", "_method", "_noise", "_plan", "_problem", "_values")

    def __init__(self, method: NoisyGP, problem: Problem, plan: PrivacyPlan) -> None:
        self._method, self._problem, self._plan = method, problem, plan
        self._noise: Sensitive[tuple[float, ...]] | None = None
        self._values: Sensitive[list[float]] = Sensitive([])
        self._bo = BayesianSearch(
            problem.candidates.encoded,
            stated_kernel(method, problem),
            noise_variance=method.noise_variance,
            acquisition=method.acquisition(problem),
            seed=problem.search.seed,
            expected=method.n_steps(problem),
        )

    def step(self, objective: Scorer, noise: Noise) -> None:
        """One observation, v_t = f_V(λ_t) + N(0, σ²)."""
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
        """λ̃ by the exponential mechanism on μ_T over all of Λ, then ṽ = max_t v_t + Lap(Δ/ε)."""
        value: dict[str, object] = {}
        drawn = dict(zip(self._method.released, self._method.draws(self._problem), strict=True))
        for what, (spend, mechanism) in drawn.items():
            if what == "candidate":  # Alg. 1, line 12
                place = noise.release(spend, mechanism, Sensitive(self._steps(self._bo.posterior.mean)))["draw"]
                value["hyperparameters"] = dict(self._problem.candidates.points[place])
            else:  # Alg. 1, lines 13 to 15
                best = int(self._steps(np.array([max(self._values.expose())]))[0])
                released = noise.release(spend, mechanism, Sensitive(best))["draw"]
                value["score"] = released * self._problem.score_range / GRID
        return make_release(self._method, self._problem, self._plan, noise, value)

    def _steps(self, z: NDArray[np.float64]) -> NDArray[np.int64]:
        return self._method.scale.to_steps(z)
