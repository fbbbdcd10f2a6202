"""Kusner et al. 2015, Algorithm 2: branch and bound on exact scores; releases f̃ = f_V(λ_T) + Lap(Δ/ε).

| symbol | name here | meaning | shape |
|---|---|---|---|
| λ_t, f_V(λ_t) | `index`, `_last` | the candidate and the exact integer sum of step t; PRIVATE | index, integer |
| A, τ | `rate_constant`, `decay_constant` | of de Freitas et al. (2012); asserted by the user | scalars |
| k₁ | `dataset_similarity` | prior correlation of f_V and f_V′ for neighbours | scalar in [0, 1] |
| Δ | `_sensitivity` | Theorem 5, on the prior's scale | scalar |

As in Algorithm 1 the score's range caps Δ: where it binds the release is pure ε-differentially private with no
assumption. Otherwise it rests on the prior and on A and τ, which depend on the private f: nothing can estimate
them, and they must hold for the score of every neighbouring data set too. Branch and bound may finish early; it
goes on asking for its last candidate, so that no one can count.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from dpbo_core.bo.branch_and_bound import BranchAndBound
from dpbo_core.errors import StudyInvalid
from dpbo_core.mechanisms.laplace import DiscreteLaplace
from dpbo_core.mechanisms.noise import Noise
from dpbo_core.methods.contract import Described, Draws, Outlook, guarantee_of, make_release, split_epsilon
from dpbo_core.methods.kernel import stated_kernel
from dpbo_core.methods.prior_scale import PriorScale, check_prior, only_delta
from dpbo_core.objective.in_memory import Scorer
from dpbo_core.privacy.amounts import allowed_units, from_units
from dpbo_core.privacy.assumption import DE_FREITAS_CONSTANTS, GP_PRIOR
from dpbo_core.privacy.certified import MEANS, Shown, only_shows, score_range
from dpbo_core.privacy.guarantee import Evidence, Standing
from dpbo_core.privacy.plan import PrivacyPlan
from dpbo_core.privacy.release import Release
from dpbo_core.privacy.sensitive import Opaque, Sensitive
from dpbo_core.problem import Problem
from dpbo_core.theorems import kusner_2015
from dpbo_core.theorems.kusner_2015 import Calibration

CAPPED = Evidence(Standing.STANDARD, "the score's range bounds what is released; discrete Laplace")
CORRECTED = Evidence(
    Standing.CORRECTED,
    "Kusner et al. 2015, Theorem 5 and Corollary 3, tightened: c is at most what one person moves a score by",
)
PRINTED = Evidence(Standing.PRINTED, "Kusner et al. 2015, Theorem 5 and Corollary 3")


@dataclass(frozen=True)
class ExactGP:
    """Algorithm 2.

    Attributes:
        rate_constant: A > 0 on the prior's scale; yours to assert, no default is possible.
        decay_constant: τ > 0; likewise.
        cap_at_range: the range of scores bounds Δ; with false and "published" it is the paper to the letter.
        dataset_similarity: k₁ in [0, 1], the modeller's statement about neighbours.
        score_center: public guess of the score, as a share of its range: the prior's mean.
        score_spread: public guess of its standard deviation over Λ, likewise.
        calibration: "corrected", c no larger than k·G/m, or "published", c as printed whatever one record can do.
    """

    DESCRIBED: ClassVar = Described(
        wants="Algorithm 2 of Kusner et al.",
        gives="a score",
        needs="as above, and two constants that nobody can know",
        delta="see [errata](docs/errata.md)",
        trainings="one a candidate",
    )

    rate_constant: float = 0.0
    decay_constant: float = 0.0
    cap_at_range: bool = True
    dataset_similarity: float = 0.99
    score_center: float = 0.5
    score_spread: float = 0.25
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
    def public_path(self) -> bool:
        """The path follows exact scores."""
        return False

    @property
    def hides_evaluations(self) -> bool:
        """How many models are scored is public: It asks T times, whatever it needed."""
        return False

    @property
    def releases_hyperparameters(self) -> bool:
        """False: a score alone is released."""
        return False

    @property
    def fits_lengthscale(self) -> bool:
        """k₂ is fixed: nothing private may be fitted."""
        return False

    def n_steps(self, problem: Problem) -> int:
        """T, as requested; how many evaluations were needed is secret."""
        return problem.search.steps

    def pure(self, problem: Problem) -> bool:
        """Whether the range caps Δ, so that δ = 0 and nothing is assumed."""
        return self.scale.binds(self._sensitivity(problem))

    def plan(self, problem: Problem) -> PrivacyPlan:
        """One Laplace draw.

        Raises:
            StudyInvalid: the constants A and τ were not given, or T < 2.
        """
        pure = self.pure(problem)
        assumptions = () if pure else (GP_PRIOR.name, DE_FREITAS_CONSTANTS.name)
        theorem = PRINTED if self.calibration == "published" else CORRECTED
        guarantee = guarantee_of(problem, pure=pure, evidence=CAPPED if pure else theorem, assumptions=assumptions)
        return PrivacyPlan(guarantee, tuple(spend for spend, _ in self.draws(problem)))

    def draws(self, problem: Problem) -> Draws:
        """The one draw, with its δ where the range does not cap it."""
        (epsilon,) = split_epsilon(problem, (1.0,))
        mechanism = DiscreteLaplace(self._sensitivity_steps(problem), epsilon, problem.score_per_step)
        spend = mechanism.spend("last score")
        if not self.pure(problem):
            spend = only_delta(spend, allowed_units(problem.delta))
        return ((spend, mechanism),)

    @staticmethod
    def shown(release: Release) -> Shown:
        """One draw, of the score. Where it says less than the range, that rests on the prior and the constants."""
        if not only_shows(release, "score"):
            raise ValueError("value")
        capped = release.facts["options"]["cap_at_range"] is True and all(
            spend.sensitivity >= score_range(release) for spend in release.spends
        )
        assumed = () if capped else (GP_PRIOR.name, DE_FREITAS_CONSTANTS.name)
        return Shown({"last score": tuple(DiscreteLaplace.WORTH)}, 0.0, assumed, relations=MEANS)

    def outlook(self, problem: Problem) -> Outlook:
        """Theorem 6 with a = 1, at the Δ that is really paid for; no last sample is further off than the range."""
        ((spend, _),) = self.draws(problem)
        unit = self.score_spread * problem.score_range  # of the prior's scale
        bound = kusner_2015.theorem_6_error_bound(
            rate=self._rate(problem),
            sensitivity=spend.sensitivity / unit,
            epsilon=spend.epsilon,
            failure_probability=math.exp(-1.0),
        )
        error = min(bound * unit, problem.score_range + spend.noise_scale)
        why = (
            f"its noise has scale {spend.noise_scale:.3g} on a score between 0 and {problem.score_range:g}; "
            "it releases a score and no hyperparameter"
        )
        return Outlook(spend.noise_scale, error, len(problem.candidates), why)

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

    def _sensitivity(self, problem: Problem) -> float:
        """Δ on the prior's scale."""
        self._rate(problem)
        return kusner_2015.theorem_5_sensitivity(
            n_candidates=len(problem.candidates),
            n_steps=problem.search.steps,
            delta=from_units(allowed_units(problem.delta)),
            dataset_similarity=self.dataset_similarity,
            dimension=problem.candidates.encoded.shape[1],
            rate_constant=self.rate_constant,
            decay_constant=self.decay_constant,
            score_change=math.inf if self.calibration == "published" else self.scale.one_record(problem),
        )

    def _sensitivity_steps(self, problem: Problem) -> int:
        """Δ in steps of the exact sum, rounded up: the sum is an integer already."""
        if self.pure(problem):
            return problem.range_steps
        return math.ceil(self._sensitivity(problem) * self.score_spread * problem.range_steps) + 1


class ExactGPSearch(Opaque):
    """Algorithm 2 under way. The path and the scores are private: nothing is returned before `finish`."""

    __slots__ = ("_bo", "_last", "_method", "_plan", "_problem")

    def __init__(self, method: ExactGP, problem: Problem, plan: PrivacyPlan) -> None:
        self._method, self._problem, self._plan = method, problem, plan
        self._last = Sensitive(0)
        self._bo = BranchAndBound(problem.candidates.encoded, stated_kernel(method, problem))

    def step(self, objective: Scorer, noise: Noise) -> None:  # noqa: ARG002  no noise before the end
        """Score the candidate with the largest upper confidence bound, without noise; the sum stays sealed."""
        index = self._bo.ask()
        self._last = objective.evaluate(self._problem.train(index))  # Alg. 2, line 2
        self._bo.tell(index, self._method.scale.to_prior(self._last.expose(), self._problem.range_steps))

    def finish(self, noise: Noise) -> Release:
        """f̃ = f_V(λ_T) + Lap(Δ/ε)."""
        ((spend, mechanism),) = self._method.draws(self._problem)
        drawn = noise.release(spend, mechanism, self._last)  # Alg. 2, lines 4 and 5
        value = {"score": drawn["draw"] * self._problem.score_per_step}
        return make_release(self._method, self._problem, self._plan, noise, value)
