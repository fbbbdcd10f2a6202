"""What Algorithms 1 and 2 of Kusner et al. share: the prior's scale, the cap, the evidence, and priced draws.

| symbol | name here | meaning | shape |
|---|---|---|---|
| z | `to_prior` | the score on the prior's scale, z = (f/G − center)/spread | scalar |
| [a, b] | `low`, `width` | the range that z can have: a = −center/spread, b − a = 1/spread | scalars |
| h | `width`/2²⁴ | grid on which a real utility is rounded before a draw; G/2²⁴ in units of the score | scalar |
| Δ | `sensitivity` | a theorem's bound, on the prior's scale | scalar |
| Δ_int | `sensitivity_steps` | min(⌈Δ/h⌉ + 1, 2²⁴ where the range caps it) | integer |

The map's constants are public options of the study: they never come from V.

The λ̃ of Algorithm 2 is that of section 4 ("Theorems 1 and 2 still hold"), which needs neither A nor τ: the
posterior at the end bounds how far μ_T is from f whatever chose the observations. It must be the posterior of what
was observed, and ours has a variance of 1e-10 on its diagonal (no matrix of exact observations is safely inverted):
so where λ̃ is released that much noise is really drawn onto each observation, 1e-5 of a prior standard deviation.
That search is none of Theorem 5's, whose branch and bound follows exact scores: beside λ̃ a score is released at its
range, or not at all.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpbo_core.errors import StudyInvalid
from dpbo_core.mechanisms.exponential import EXPONENTIAL, PrivateSelection
from dpbo_core.mechanisms.laplace import DiscreteLaplace
from dpbo_core.mechanisms.noise import Mechanism
from dpbo_core.methods.contract import Draws, Method, guarantee_of, split_amount, split_epsilon
from dpbo_core.methods.problem import Problem
from dpbo_core.models.integer_sums import GRID
from dpbo_core.privacy.amounts import allowed_units, from_units, spent_units
from dpbo_core.privacy.certified import only_shows, score_range
from dpbo_core.privacy.guarantee import Evidence, PrivacyGuarantee, Standing
from dpbo_core.privacy.release import Release, Spend
from dpbo_core.search.estimates import ScoreMap
from dpbo_core.theorems import kusner_2015
from dpbo_core.theorems.kusner_2015 import Calibration

Output = Literal["candidate", "score"]
Outputs = Literal["both", "candidate", "score"]
FAILURE_PROBABILITY = math.exp(-1.0)  # e^{−a} of the error bounds at a = 1, where Laplace noise is at its mean
CAPPED_EVIDENCE = Evidence(
    Standing.STANDARD,
    "the score's range bounds what is released; exponential mechanism and discrete Laplace, composed by adding ε",
)
CAPPED_SCORE_EVIDENCE = Evidence(Standing.STANDARD, "the score's range bounds what is released; discrete Laplace")
CORRECTED_EVIDENCE: Mapping[Outputs, Evidence] = {  # of Algorithm 1, by what it releases
    "candidate": Evidence(
        Standing.CORRECTED,
        "Kusner et al. 2015, Theorem 1, tightened: at time T alone, and c at most what one person moves a score by",
    ),
    "score": Evidence(
        Standing.CORRECTED,
        "Kusner et al. 2015, Theorem 3 for any T: five events at δ/5, q from one noise that the path does not "
        "depend on, and c at most what one person moves a score by",
    ),
    "both": Evidence(
        Standing.CORRECTED,
        "Kusner et al. 2015, Theorem 1 at time T alone, and Theorem 3 for any T, with five events at δ/5; c at "
        "most what one person moves a score by",
    ),
}
PRINTED_EVIDENCE: Mapping[Outputs, Evidence] = {
    "candidate": Evidence(Standing.PRINTED, "Kusner et al. 2015, Theorem 1 and Corollary 1"),
    "score": Evidence(
        Standing.PRINTED, "Kusner et al. 2015, Theorem 3 and Corollary 2, whose statement is true for so few steps"
    ),
    "both": Evidence(
        Standing.PRINTED,
        "Kusner et al. 2015, Theorems 1 and 3 and their corollaries; Theorem 3's statement is true for so few "
        "steps",
    ),
}
EXACT_SCORE_EVIDENCE = Evidence(
    Standing.CORRECTED,
    "Kusner et al. 2015, Theorem 5 and Corollary 3, tightened: c is at most what one person moves a score by",
)
EXACT_CHOICE_EVIDENCE = Evidence(
    Standing.CORRECTED,
    "Kusner et al. 2015, section 4: Theorem 1 at time T alone, on observations with the posterior's own noise; "
    "c at most what one person moves a score by",
)
PRINTED_EXACT_SCORE_EVIDENCE = Evidence(Standing.PRINTED, "Kusner et al. 2015, Theorem 5 and Corollary 3")
PRINTED_EXACT_CHOICE_EVIDENCE = Evidence(
    Standing.PRINTED, "Kusner et al. 2015, section 4: Theorem 1 and Corollary 1"
)


@dataclass(frozen=True)
class PriorScale:
    """The public affine map of a mean score in [0, G] to a prior of zero mean and unit variance, and its grid."""

    center: float  # the score expected before any is seen, as a share of G
    spread: float  # one prior standard deviation, as a share of G
    capped: bool  # clip to the range that scores can have, so that no utility moves by more than b − a

    def __post_init__(self) -> None:
        if not (0.0 <= self.center <= 1.0 and 0.0 < self.spread <= 1.0):
            raise StudyInvalid(
                f"the score is mapped with center {self.center:g} and spread {self.spread:g}",
                cause="both are shares of the score's range; the spread is positive",
                remedy="use score_center = 0.5 and score_spread = 0.25, or what public data suggests",
            )

    @property
    def low(self) -> float:
        """The score 0, in prior standard deviations from the prior mean."""
        return -self.center / self.spread

    @property
    def width(self) -> float:
        """The width b − a of the score's range, in prior standard deviations."""
        return 1.0 / self.spread

    def to_prior(self, total: int, range_steps: int) -> float:
        """Return an exact sum, of at most `range_steps`, as a mean score in prior deviations from the mean."""
        return ScoreMap(self.center, self.spread, 1.0).mapped(total / range_steps)

    def to_steps(self, z: NDArray[np.float64]) -> NDArray[np.int64]:
        """Scores z (prior deviations) as grid steps above the score 0; clipped to [0, 2²⁴] where `capped`."""
        steps = np.rint((z - self.low) / self.width * GRID)
        limits = (0.0, float(GRID)) if self.capped else (-(2.0**52), 2.0**52)
        return np.asarray(np.clip(steps, *limits), dtype=np.int64)

    def binds(self, sensitivity: float) -> bool:
        """Return whether the score's range replaces this sensitivity (in prior deviations), being no larger."""
        return self.capped and sensitivity >= self.width

    def sensitivity_steps(self, sensitivity: float) -> int:
        """Return the sensitivity in grid steps, rounded up, plus one for rounding utilities to the grid.

        It is 2²⁴ if the score's range is the smaller bound. A sensitivity too large to draw noise for is refused.
        """
        if self.binds(sensitivity):
            return GRID
        steps = sensitivity / self.width * GRID
        if not math.isfinite(steps) or steps > 2.0**52:
            raise StudyInvalid(
                "the theorem's sensitivity is too large to draw noise for",
                cause="it grows without bound as δ goes to 0",
                remedy="keep cap_at_range = true",
            )
        return math.ceil(steps) + 1

    def one_record(self, problem: Problem) -> float:
        """Return the most that one person moves the score at a fixed λ, k·G/m, in prior standard deviations."""
        return problem.record_steps / problem.range_steps / self.spread


def certified_draws(release: Release, score: str) -> tuple[dict[str, tuple[str, ...]], set[str]]:
    """Return the draws that a certificate must state, name → mechanisms, and the names that rest on the prior."""
    if not only_shows(release, "hyperparameters", "score", "interval"):
        raise ValueError("value")
    draws: dict[str, tuple[str, ...]] = {}
    if "hyperparameters" in release.value:
        draws["best candidate"] = tuple(PrivateSelection.WORTH)
    if "score" in release.value:
        draws[score] = tuple(DiscreteLaplace.WORTH)
    caps = release.facts["options"]["cap_at_range"] is True
    return draws, {s.what for s in release.spends if not (caps and s.sensitivity >= score_range(release))}


def choice_outlook(problem: Problem, scale: PriorScale, spend: Spend) -> tuple[float, str]:
    """Theorem 2's loss of the choice, at most the range (exceeded with chance e⁻¹), and a sentence on it."""
    loss = kusner_2015.theorem_2_utility_bound(
        n_candidates=len(problem.candidates),
        sensitivity=spend.sensitivity,
        epsilon=spend.epsilon,
        failure_probability=FAILURE_PROBABILITY,
    )
    loss = min(problem.score_range, loss)
    if scale.capped and spend.sensitivity >= problem.score_range:
        N = len(problem.candidates)
        utilities = np.where(np.arange(N) == 0, problem.score_range, 0.0)
        weights = kusner_2015.corollary_1_weights(
            utilities=utilities, sensitivity=spend.sensitivity, epsilon=spend.epsilon
        )
        return loss, (
            f"no candidate is more than e^(ε/2) = {math.exp(spend.epsilon / 2.0):.3g} times as likely as another, "
            f"and the best of {N} is chosen with a probability of at most {weights[0]:.2g}: the choice is hardly "
            "better than a uniform draw"
        )
    return loss, f"its choice loses up to {loss:.2g}, if the scores are draws of the stated prior"


def score_noise_words(problem: Problem, spend: Spend) -> str:
    """Return the scale of the noise on a score, and the score's range, as a clause."""
    return f"its noise has scale {spend.noise_scale:.3g} on a score between 0 and {problem.score_range:g}"


def checked_rate(problem: Problem, A: float, tau: float) -> float:
    """Theorem 5's bound on how far the last score is below the largest; refused unless A, τ > 0 and T ≥ 2."""
    T = problem.search.n_steps
    if not (0.0 < A < math.inf and 0.0 < tau < math.inf):
        raise StudyInvalid(
            "the score of Algorithm 2 needs method.rate_constant and method.decay_constant",
            cause="they are A and τ of de Freitas et al. (2012), which depend on the private score; nothing "
            "can estimate them",
            remedy="assert both, positive, if you can answer for them, or choose another method",
        )
    if T < 2:
        raise StudyInvalid(
            f"the score of Algorithm 2 after search.steps = {T}", cause="Theorem 5 needs T ≥ 2", remedy="ask for 2"
        )
    return kusner_2015.theorem_5_rate(
        n_steps=T, dimension=problem.candidates.encoded.shape[1], rate_constant=A, decay_constant=tau
    )


@dataclass(frozen=True)
class GPPriorMethod(Method):
    """The half that Algorithms 1 and 2 share: a stated prior, two outputs, T models on a private path.

    Attributes:
        calibration: "corrected", or "published" to reproduce the paper.
        cap_at_range: the range of scores bounds Δ; with false and "published" it is the paper to the letter.
        outputs: the "score", the "candidate" λ̃, or "both", each at half of (ε, δ).
        dataset_similarity: k₁ in [0, 1], the modeller's statement about neighbours.
        score_center: public guess of the score, as a share of its range: the prior's mean.
        score_spread: public guess of its standard deviation over Λ, likewise.
    """

    delta_range = "see [errata](docs/evidence/errata.md)"
    trainings = "one a candidate"
    observable = "of a private path how long a step searches"

    calibration: Calibration = "corrected"
    cap_at_range: bool = True
    outputs: Outputs = "both"
    dataset_similarity: float = 0.99
    score_center: float = 0.5
    score_spread: float = 0.25

    def __post_init__(self) -> None:
        self.check_option(
            "dataset_similarity",
            "choose a number from 0 to 1, 0.99 say",
            fine=0.0 <= self.dataset_similarity <= 1.0,
            cause="it is a correlation between the scores of neighbouring data sets",
        )
        _ = self.scale

    @property
    def scale(self) -> PriorScale:
        """The public map between scores and the prior's units."""
        return PriorScale(self.score_center, self.score_spread, capped=self.cap_at_range)

    @property
    def releases_hyperparameters(self) -> bool:
        """Whether the chosen hyperparameters λ̃ are released."""
        return self.outputs != "score"

    def n_steps(self, problem: Problem) -> int:
        """Return the number T of models that are scored: `[search] steps`."""
        return problem.search.n_steps

    def guarantee(self, problem: Problem) -> PrivacyGuarantee:
        """Return the guarantee of a selection, a Laplace draw or both.

        It is pure where the score's range caps each Δ. An uncapped Δ holds only with probability 1 − δ.
        """
        uncapped = [output for output, bound in self.sensitivities(problem).items() if not self.scale.binds(bound)]
        evidence, assumptions = self.proof(problem, uncapped)
        delta = problem.delta if uncapped else 0.0
        return guarantee_of(problem, delta=delta, evidence=evidence, assumptions=assumptions)

    def draws(self, problem: Problem) -> Draws:
        """The noise draws of the plan with their mechanisms, each with a δ where the range does not cap it."""
        sensitivities, draws = self.sensitivities(problem), list[tuple[Spend, Mechanism[Any]]]()
        epsilons = split_epsilon(problem, (1.0,) * len(sensitivities))
        for (output, bound), epsilon, delta in zip(
            sensitivities.items(), epsilons, self._deltas(problem), strict=True
        ):
            mechanism: Mechanism[Any]
            if output == "candidate":
                steps = self.scale.sensitivity_steps(bound)
                mechanism = PrivateSelection(steps, epsilon, problem.score_range / GRID, EXPONENTIAL)
                spend = mechanism.spend("best candidate")
            else:
                spend, mechanism = self.score_draw(problem, bound, epsilon)
            if not self.scale.binds(bound):  # ε holds up to δ, and so does the zCDP price of ε²/2, rounded up
                rho = spent_units(0.5 * spend.epsilon**2 * (1.0 + 1e-12))
                spend = replace(spend, delta_units=delta, rho_units=rho)
            draws.append((spend, mechanism))
        return tuple(draws)

    def sensitivities(self, problem: Problem) -> dict[Output, float]:
        """Return the sensitivity Δ of each released output ("candidate", "score"), in prior standard deviations."""
        bounds: dict[Output, float] = {}
        if self.outputs != "score":
            bounds["candidate"] = kusner_2015.theorem_1_sensitivity(
                n_candidates=len(problem.candidates),
                n_steps=problem.search.n_steps,
                delta=from_units(self._deltas(problem)[0]),
                dataset_similarity=self.dataset_similarity,
                calibration=self.calibration,
                score_change=self.scale.one_record(problem),
            )
        if self.outputs != "candidate":
            bounds["score"] = self.score_sensitivity(problem)
        return bounds

    def last_delta(self, problem: Problem) -> float:
        """Return the part of the study's δ that the last released output gets: the score's, if it is released."""
        return from_units(self._deltas(problem)[-1])

    def _deltas(self, problem: Problem) -> tuple[int, ...]:
        """Return the study's δ in 10⁻¹², split evenly over the released outputs (choice, score)."""
        shares = (1.0, 1.0) if self.outputs == "both" else (1.0,)
        return split_amount(problem, allowed_units(problem.delta), shares)

    @abstractmethod
    def proof(self, problem: Problem, uncapped: Sequence[Output]) -> tuple[Evidence, tuple[str, ...]]:
        """The evidence and the assumptions; `uncapped` outputs rest on a theorem, not on the score's range."""

    @abstractmethod
    def score_sensitivity(self, problem: Problem) -> float:
        """The sensitivity Δ of the score in prior standard deviations; with probability ≤ δ it moves by more."""

    @abstractmethod
    def score_draw(self, problem: Problem, sensitivity: float, epsilon_units: int) -> tuple[Spend, DiscreteLaplace]:
        """The noise draw on the score with its price, at a sensitivity in prior deviations and ε in 10⁻¹²."""
