"""Kusner et al. 2015, Algorithm 2: branch and bound on exact scores; releases f̃ = f_V(λ_T) + Lap(Δ/ε), or λ̃.

| symbol | name here | meaning | shape |
|---|---|---|---|
| λ_t, f_V(λ_t) | `index`, `_last` | the candidate and the exact integer sum of step t; PRIVATE | index, integer |
| A, τ | `rate_constant`, `decay_constant` | of de Freitas et al. (2012); asserted by the user | scalars |
| k₁ | `dataset_similarity` | prior correlation of f_V and f_V′ for neighbours | scalar in [0, 1] |
| μ_T | `_bo.mean` | posterior mean over ALL of Λ after T observations | (N,) |
| Δ | `_sensitivities` | of f_V(λ_T) (Theorem 5) and of μ_T (Theorem 1), on the prior's scale | scalars |

As in Algorithm 1 the score's range caps Δ: where it binds the release is pure ε-differentially private with no
assumption. Otherwise it rests on the prior; and f̃ on A and τ, which depend on the private f: nothing can estimate
them, and they must hold for the score of every neighbouring data set too. Branch and bound may finish early; it
goes on asking for its last candidate, so that no one can count.

λ̃ is that of section 4 ("Theorems 1 and 2 still hold"), which needs neither A nor τ: the posterior at the end bounds
how far μ_T is from f whatever chose the observations. It must be the posterior of what was observed, and ours has a
variance of 1e-10 on its diagonal (no matrix of exact observations is safely inverted): so where λ̃ is released that
much noise is really drawn onto each observation, 1e-5 of a prior standard deviation. That search is none of Theorem
5's, whose branch and bound follows exact scores: beside λ̃ a score is released at its range, or not at all.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from dpbo_core.bo.branch_and_bound import JITTER, BranchAndBound
from dpbo_core.errors import StudyInvalid
from dpbo_core.mechanisms.exponential import EXPONENTIAL, PrivateSelection
from dpbo_core.mechanisms.laplace import DiscreteLaplace
from dpbo_core.mechanisms.noise import Mechanism, Noise
from dpbo_core.mechanisms.observation import observation_noise
from dpbo_core.methods.contract import Described, Draws, Outlook
from dpbo_core.methods.kernel import stated_kernel
from dpbo_core.methods.pricing import guarantee_of, split_delta, split_epsilon
from dpbo_core.methods.prior_scale import PriorScale, check_prior, of_best, only_delta
from dpbo_core.methods.releasing import make_release
from dpbo_core.models.scores.grid import GRID
from dpbo_core.objective.in_memory import Scorer
from dpbo_core.privacy.amounts import from_units
from dpbo_core.privacy.assumption import DE_FREITAS_CONSTANTS, GP_PRIOR
from dpbo_core.privacy.certified import MEANS, Shown, only_shows, score_range
from dpbo_core.privacy.guarantee import Evidence, Standing
from dpbo_core.privacy.plan import PrivacyPlan, Spend
from dpbo_core.privacy.release import Release
from dpbo_core.privacy.sensitive import Opaque, Sensitive
from dpbo_core.problem import Problem
from dpbo_core.theorems import kusner_2015
from dpbo_core.theorems.kusner_2015 import Calibration

Output = Literal["candidate", "score"]
CAPPED = Evidence(Standing.STANDARD, "the score's range bounds what is released; discrete Laplace")
CAPPED_CHOICE = Evidence(
    Standing.STANDARD,
    "the score's range bounds what is released; exponential mechanism, and discrete Laplace, composed by adding ε",
)
CORRECTED = Evidence(
    Standing.CORRECTED,
    "Kusner et al. 2015, Theorem 5 and Corollary 3, tightened: c is at most what one person moves a score by",
)
CORRECTED_CHOICE = Evidence(
    Standing.CORRECTED,
    "Kusner et al. 2015, section 4: Theorem 1 at time T alone, on observations with the posterior's own noise; "
    "c at most what one person moves a score by",
)
PRINTED = Evidence(Standing.PRINTED, "Kusner et al. 2015, Theorem 5 and Corollary 3")
PRINTED_CHOICE = Evidence(Standing.PRINTED, "Kusner et al. 2015, section 4: Theorem 1 and Corollary 1")


@dataclass(frozen=True)
class ExactGP:
    """Algorithm 2.

    Attributes:
        rate_constant: A > 0 on the prior's scale; yours to assert, no default is possible. For a score alone.
        decay_constant: τ > 0; likewise.
        outputs: the "score" f̃ of Algorithm 2, the "candidate" λ̃ of section 4, or "both", each at half of (ε, δ) and
            the score at its range, as Theorem 5 does not speak of a search on noised observations.
        cap_at_range: the range of scores bounds Δ; with false and "published" it is the paper to the letter.
        dataset_similarity: k₁ in [0, 1], the modeller's statement about neighbours.
        score_center: public guess of the score, as a share of its range: the prior's mean.
        score_spread: public guess of its standard deviation over Λ, likewise.
        calibration: "corrected", c no larger than k·G/m, or "published", c as printed whatever one record can do.
    """

    DESCRIBED: ClassVar = Described(
        wants="Algorithm 2 of Kusner et al.",
        gives="a score, or a choice, or both",
        needs="as above, and for a score two constants that nobody can know",
        delta="see [errata](docs/errata.md)",
        trainings="one a candidate",
    )

    rate_constant: float = 0.0
    decay_constant: float = 0.0
    cap_at_range: bool = True
    dataset_similarity: float = 0.99
    score_center: float = 0.5
    score_spread: float = 0.25
    outputs: Literal["score", "candidate", "both"] = "score"
    calibration: Calibration = "corrected"
    kind: Literal["exact_gp"] = "exact_gp"

    def __post_init__(self) -> None:
        check_prior(self.dataset_similarity, 1.0)
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
        """The path follows exact scores."""
        return False

    @property
    def hides_evaluations(self) -> bool:
        """How many models are scored is public: It asks T times, whatever it needed."""
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
        """T, as requested; how many evaluations were needed is secret."""
        return problem.search.steps

    def pure(self, problem: Problem) -> bool:
        """Whether the range caps every Δ, so that δ = 0 and nothing is assumed."""
        return all(map(self.scale.binds, self._sensitivities(problem).values()))

    def plan(self, problem: Problem) -> PrivacyPlan:
        """At most one selection and one Laplace draw.

        Raises:
            StudyInvalid: a score is wanted, and the constants A and τ were not given, or T < 2; or an ε or δ too
                small to be split.
        """
        pure, found = self.pure(problem), self._sensitivities(problem)
        constants = "score" in found and not self.scale.binds(found["score"])
        assumptions = (*((GP_PRIOR.name,) * (not pure)), *((DE_FREITAS_CONSTANTS.name,) * constants))
        evidence = self._evidence(pure=pure)
        guarantee = guarantee_of(problem, pure=pure, evidence=evidence, assumptions=assumptions)
        return PrivacyPlan(guarantee, tuple(spend for spend, _ in self.draws(problem)))

    def draws(self, problem: Problem) -> Draws:
        """The draws of the plan, each with its δ where the range does not cap it."""
        made: list[tuple[Spend, Mechanism[Any]]] = []
        epsilons, found = split_epsilon(problem, (1.0,) * len(self.released)), self._sensitivities(problem)
        for what, epsilon, delta in zip(self.released, epsilons, self._deltas(problem), strict=True):
            mechanism: Mechanism[Any]
            if what == "candidate":
                steps = self.scale.sensitivity_steps(found[what])
                mechanism = PrivateSelection(steps, epsilon, problem.score_range / GRID, EXPONENTIAL)
                spend = mechanism.spend("best candidate")
            else:
                mechanism = DiscreteLaplace(
                    self._sensitivity_steps(problem, found[what]), epsilon, problem.score_per_step
                )
                spend = mechanism.spend("last score")
            made.append((spend if self.scale.binds(found[what]) else only_delta(spend, delta), mechanism))
        return tuple(made)

    @staticmethod
    def shown(release: Release) -> Shown:
        """A draw for each output. Below the range it rests on the prior, and a score on the constants too."""
        if not only_shows(release, "hyperparameters", "score"):
            raise ValueError("value")
        made, caps = {}, release.facts["options"]["cap_at_range"] is True
        if "hyperparameters" in release.value:
            made["best candidate"] = tuple(PrivateSelection.WORTH)
        if "score" in release.value:
            made["last score"] = tuple(DiscreteLaplace.WORTH)
        free = {s.what for s in release.spends if not (caps and s.sensitivity >= score_range(release))}
        if "best candidate" in made and "last score" in free:
            raise ValueError("outputs")  # no theorem
        assumed = (*((GP_PRIOR.name,) * bool(free)), *((DE_FREITAS_CONSTANTS.name,) * ("last score" in free)))
        return Shown(made, 0.0, assumed, relations=MEANS)

    def outlook(self, problem: Problem) -> Outlook:
        """Theorem 6 and Theorem 2 with a = 1, at the Δ that is paid; nothing is further off than the range."""
        spends, G = {spend.what: spend for spend, _ in self.draws(problem)}, problem.score_range
        noise, error, why = 0.0, 0.0, []
        if "best candidate" in spends:
            spend = spends["best candidate"]
            noise, error = spend.noise_scale, min(G, self._loss(problem, spend))
            said = f"its choice loses up to {error:.2g}, if the scores are draws of the stated prior"
            if spend.sensitivity >= G:
                said = of_best(problem, spend)
            why.append(said)
        if "last score" in spends:
            spend, unit = spends["last score"], self.score_spread * G  # of the prior's scale
            noise, bound = (
                spend.noise_scale,
                kusner_2015.theorem_6_error_bound(
                    rate=self._rate(problem),
                    sensitivity=spend.sensitivity / unit,
                    epsilon=spend.epsilon,
                    failure_probability=math.exp(-1.0),
                ),
            )
            error = max(error, min(bound * unit, G + noise))
            alone = "" if why else "; it releases a score and no hyperparameter"
            why.append(f"its noise has scale {noise:.3g} on a score between 0 and {G:g}{alone}")
        return Outlook(noise, error, len(problem.candidates), "; ".join(why))

    def start(self, problem: Problem, plan: PrivacyPlan) -> "ExactGPSearch":
        """A search with nothing observed."""
        return ExactGPSearch(self, problem, plan)

    def _rate(self, problem: Problem) -> float:
        A, tau, T = self.rate_constant, self.decay_constant, problem.search.steps
        if not (0.0 < A < math.inf and 0.0 < tau < math.inf):
            raise StudyInvalid(
                "exact_gp needs method.rate_constant and method.decay_constant",
                cause="they are A and τ of de Freitas et al. (2012), which depend on the private score; nothing "
                "can estimate them",
                remedy="assert both, positive, if you can answer for them, or choose another method",
            )
        if T < 2:
            raise StudyInvalid(
                f"exact_gp with search.steps = {T}", cause="Theorem 5 needs T ≥ 2", remedy="ask for 2"
            )
        return kusner_2015.theorem_5_rate(
            n_steps=T, dimension=problem.candidates.encoded.shape[1], rate_constant=A, decay_constant=tau
        )

    def _loss(self, problem: Problem, spend: Spend) -> float:
        """Theorem 2's loss of the selection at a = 1."""
        return kusner_2015.theorem_2_utility_bound(
            n_candidates=len(problem.candidates),
            sensitivity=spend.sensitivity,
            epsilon=spend.epsilon,
            failure_probability=math.exp(-1.0),
        )

    def _evidence(self, *, pure: bool) -> Evidence:
        choice = "candidate" in self.released
        if pure:
            return CAPPED_CHOICE if choice else CAPPED
        if self.calibration == "published":
            return PRINTED_CHOICE if choice else PRINTED
        return CORRECTED_CHOICE if choice else CORRECTED

    def _deltas(self, problem: Problem) -> tuple[int, ...]:
        return split_delta(problem, (1.0,) * len(self.released))

    def _sensitivities(self, problem: Problem) -> dict[Output, float]:
        """Δ of each release, on the prior's scale."""
        change = self.scale.one_record(problem)
        found: dict[Output, float] = {}
        for what, delta in zip(self.released, map(from_units, self._deltas(problem)), strict=True):
            if what == "candidate":
                found[what] = kusner_2015.theorem_1_sensitivity(
                    n_candidates=len(problem.candidates),
                    n_steps=problem.search.steps,
                    delta=delta,
                    dataset_similarity=self.dataset_similarity,
                    calibration=self.calibration,
                    score_change=change,
                )
            else:
                self._rate(problem)
                found[what] = kusner_2015.theorem_5_sensitivity(
                    n_candidates=len(problem.candidates),
                    n_steps=problem.search.steps,
                    delta=delta,
                    dataset_similarity=self.dataset_similarity,
                    dimension=problem.candidates.encoded.shape[1],
                    rate_constant=self.rate_constant,
                    decay_constant=self.decay_constant,
                    score_change=math.inf if self.calibration == "published" else change,
                )
        if len(found) == 2 and not self.scale.binds(found["score"]):
            raise StudyInvalid(
                'exact_gp with outputs = "both" and a score whose noise rests on Theorem 5',
                cause="where a choice is released the search follows noised observations, and the theorem is of a "
                "search on exact ones",
                remedy="ask for one of the two, or both of Algorithm 1; or state constants at which the score's "
                "range is the smaller bound, with cap_at_range",
            )
        return found

    def _sensitivity_steps(self, problem: Problem, sensitivity: float) -> int:
        """Δ of the score in steps of the exact sum, rounded up: the sum is an integer already."""
        if self.scale.binds(sensitivity):
            return problem.range_steps
        return math.ceil(sensitivity * self.score_spread * problem.range_steps) + 1


class ExactGPSearch(Opaque):
    """Algorithm 2 under way. The path and the scores are private: nothing is returned before `finish`."""

    __slots__ = ("_bo", "_last", "_method", "_noise", "_plan", "_problem", "_told")

    def __init__(self, method: ExactGP, problem: Problem, plan: PrivacyPlan) -> None:
        self._method, self._problem, self._plan = method, problem, plan
        self._last, self._told = Sensitive(0), 0
        self._noise: Sensitive[tuple[float, ...]] | None = None
        self._bo = BranchAndBound(problem.candidates.encoded, stated_kernel(method, problem))

    def step(self, objective: Scorer, noise: Noise) -> None:
        """Score the candidate with the largest upper confidence bound, without noise; the sum stays sealed."""
        if self._noise is None:
            T = self._method.n_steps(self._problem)
            self._noise = Sensitive((0.0,) * T)
            if "candidate" in self._method.released:  # what the posterior says of an observation is then true of it
                self._noise = noise.unreleased(lambda source: observation_noise(JITTER**0.5, T, source))
        index = self._bo.ask()
        self._last = objective.evaluate(self._problem.train(index))  # Alg. 2, line 2
        value = self._method.scale.to_prior(self._last.expose(), self._problem.range_steps)
        self._bo.tell(index, value + self._noise.expose()[self._told])
        self._told += 1

    def finish(self, noise: Noise) -> Release:
        """λ̃ by the exponential mechanism on μ_T over all of Λ; f̃ = f_V(λ_T) + Lap(Δ/ε)."""
        value: dict[str, object] = {}
        for what, (spend, mechanism) in zip(self._method.released, self._method.draws(self._problem), strict=True):
            if what == "candidate":  # Alg. 1, line 12
                utilities = Sensitive(self._method.scale.to_steps(self._bo.mean))
                place = noise.release(spend, mechanism, utilities)["draw"]
                value["hyperparameters"] = dict(self._problem.candidates.points[place])
            else:  # Alg. 2, lines 4 and 5
                value["score"] = noise.release(spend, mechanism, self._last)["draw"] * self._problem.score_per_step
        return make_release(self._method, self._problem, self._plan, noise, value)
