"""Kusner et al. 2015, Algorithm 3: the best score of a regularisation path, without a Gaussian-process prior.

| symbol | name here | meaning | shape |
|---|---|---|---|
| λ_t | `index` | the candidate of step t; PRIVATE, as are the scores | index into Λ |
| f_V(w_{λ_t}) | `total` | exact integer sum of the scores of V | integer |
| f_BO | `_best` | max over t of the sums | integer |
| D | `path_length` | bound on ‖ŵ_λ − ŵ_λ′‖ over Λ | scalar |
| R | `record_range` | range of one record's score at any one model | scalar |
| Δ | `_sensitivity_steps` | what one person can move f_BO by, in integer steps | integer |

Only the maximum is released; the hyperparameter that reached it is not. Two forms:

all    step t trains and scores chunk t of Λ, whose order is public (of a folder of files, which are read each time,
       the last step scores all). Once all are scored, the set of models is the same on neighbouring records, and
       the maximum moves by one person's own records: Δ = kR/m.
path   as printed: step t scores the model with the largest acquisition of all Λ (equation 3). The search may look
       at the raw scores as it likes: what it sees never leaves, and Theorem 7 bounds the maximum for any search
       whatever. But two searches may end at different models: Δ = kR/m + L·D. Which λ a step trains would tell the
       path, so either all of Λ is trained before the charge (`train = "ahead"`), or each step trains the one model
       that it chose, again where it comes back (`train = "step"`), and the assumption `step_times_hidden` is taken
       on. A training that then misses its tolerance is w = 0, scores φ(0) for every record, and counts in D.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpbo_core.errors import StudyInvalid
from dpbo_core.mechanisms.laplace import DiscreteLaplace
from dpbo_core.mechanisms.noise import Noise
from dpbo_core.methods.contract import (
    Draws,
    Method,
    Outlook,
    guarantee_of,
    laplace_caption,
    make_release,
    refuse_persons,
    split_epsilon,
)
from dpbo_core.methods.problem import Problem, stated_kernel
from dpbo_core.models.integer_sums import GRID
from dpbo_core.models.linear.losses import default_tolerance, initial_loss
from dpbo_core.models.scores.kinds import Numbers
from dpbo_core.models.scores.union import SCORES
from dpbo_core.models.scoring.in_memory import ScorableModel, Scorer, evaluate_all, models_per_pass
from dpbo_core.privacy.certified import MEAN_RELATIONS, CertificateRules, only_shows
from dpbo_core.privacy.guarantee import STEP_TIMES_HIDDEN, Evidence, PrivacyGuarantee, Standing
from dpbo_core.privacy.release import PrivacyPlan, Release, Spend
from dpbo_core.privacy.sensitive import Opaque, Sensitive
from dpbo_core.search.bo import BayesianSearch, acquisition_named
from dpbo_core.search.estimates import CENTRE, SPREAD, ScoreMap
from dpbo_core.search.gp import Posterior
from dpbo_core.theorems import kusner_2015
from dpbo_core.theorems.kusner_2015 import Calibration

FAILURE_PROBABILITY = 0.05  # of the error bound that a plan and a certificate state
CORRECTED_EVIDENCE = Evidence(
    Standing.CORRECTED,
    "Kusner et al. 2015, Theorem 7, with 2L‖w‖ for one record, the solver's tolerance and the range as a cap",
)
ONE_MODEL_EVIDENCE = Evidence(
    Standing.STANDARD,
    "Laplace noise on the best score of a fixed, public set of models; R as in Kusner et al. 2015, Theorem 7",
)
PRINTED_EVIDENCE = Evidence(
    Standing.PRINTED,
    "Kusner et al. 2015, Theorem 7 as printed, which is no smaller in this study than the corrected sensitivity",
)
REFUTED_EVIDENCE = Evidence(
    Standing.REFUTED,
    "Theorem 7 as printed is smaller in this study than the corrected sensitivity (tests hold a counterexample)",
)


@dataclass(frozen=True)
class Lipschitz(Method):
    """Algorithm 3 of Kusner et al.: the best score of a regularisation path, pure ε-DP, no prior assumed.

    It needs a logistic or hinge model, a Lipschitz score and a Λ of one λ axis.

    Attributes:
        evaluate: "all" of Λ, or the "path" of a search, as printed, which scores fewer models and pays for not
            knowing where it ends; "auto" is all, but for what is only as published.
        calibration: "corrected", or "published" to reproduce the paper on a public dataset.
        train: of a path, all of Λ "ahead" of the charge, or one model in each "step", under `step_times_hidden`.
    """

    wants = "the best score of a path, Algorithm 3 of Kusner et al."
    gives = "one score, no hyperparameter"
    needs = "a logistic or hinge model, a Lipschitz score"
    delta_range = "0"
    trainings = "one a candidate"
    observable = "the fixed order of the candidates; of a private path how long a step searches, or trains"
    scores_ahead = True
    margins_only = True
    fixed_order = True
    releases_hyperparameters = False  # a score alone: Algorithm 3 releases no candidate

    evaluate: Literal["auto", "all", "path"] = "auto"
    calibration: Calibration = "corrected"
    train: Literal["ahead", "step"] = "ahead"
    kind: Literal["lipschitz"] = "lipschitz"

    def __post_init__(self) -> None:
        if self.evaluate == "all" and self.calibration == "published":
            raise StudyInvalid(
                'method.evaluate = "all" with calibration = "published"',
                cause="the paper has no such form",
                remedy='leave one of them out, or set evaluate = "path"',
            )
        if self.train == "step" and self.scores_all:
            raise StudyInvalid(
                'method.train = "step" where all of Λ is scored',
                cause="the order is then public, and each step trains its share in any case",
                remedy='leave it out, or set evaluate = "path"',
            )

    @property
    def scores_all(self) -> bool:
        """Whether all of Λ is scored, and not a path through it."""
        return self.evaluate == "all" or (self.evaluate == "auto" and self.calibration == "corrected")

    @property
    def public_path(self) -> bool:
        """Whether the order of scoring is public: True if all of Λ is scored, False for a path."""
        return self.scores_all

    @property
    def fits_lengthscale(self) -> bool:
        """Whether lengthscale = "fit" is allowed: True if all of Λ is scored, False for a path."""
        return self.scores_all

    def n_steps(self, problem: Problem) -> int:
        """The number T of steps: one for each model on a path, or for each chunk of all of Λ (at most |Λ|)."""
        steps = problem.search.n_steps
        return min(steps, len(problem.candidates)) if self.scores_all else steps

    def fixed_path(self, problem: Problem) -> tuple[int, ...]:
        """Return indices of the candidates that are trained in any case: all of Λ, or none if steps train."""
        return () if self.trains_in_steps else tuple(range(len(problem.candidates)))

    @property
    def trains_in_steps(self) -> bool:
        """Whether each step of a private path trains the model that it chose."""
        return self.train == "step"

    def guarantee(self, problem: Problem) -> PrivacyGuarantee:
        """Pure ε-DP of one discrete Laplace draw at scale Δ/ε; as published refuted where Δ is then too small."""
        evidence = ONE_MODEL_EVIDENCE if self.scores_all else CORRECTED_EVIDENCE
        if self.calibration == "published":
            enough = self._sensitivity_steps(problem) >= self._corrected_steps(problem)
            evidence = PRINTED_EVIDENCE if enough else REFUTED_EVIDENCE
        assumed = (STEP_TIMES_HIDDEN.name,) if self.train == "step" and not evidence.refuted else ()
        return guarantee_of(problem, delta=0.0, evidence=evidence, assumptions=assumed)

    def draws(self, problem: Problem) -> Draws:
        """Return the plan's one noise draw with its mechanism: on the best score."""
        (epsilon,) = split_epsilon(problem, (1.0,))
        mechanism = DiscreteLaplace(self._sensitivity_steps(problem), epsilon, problem.score_per_step)
        return ((mechanism.spend("best score"), mechanism),)

    @staticmethod
    def certificate_rules(release: Release) -> CertificateRules:
        """Return what a certificate must state: one draw, of the score, and Theorem 8's bound on its noise."""
        if not only_shows(release, "score", "interval"):
            raise ValueError("value")
        draws = {"best score": tuple(DiscreteLaplace.WORTH)}
        spend = max(release.spends, key=lambda spend: spend.noise_scale)  # the one there should be
        assumed = (STEP_TIMES_HIDDEN.name,) if release.facts.get("options", {}).get("train") == "step" else ()
        return CertificateRules(draws, 0.0, assumed, relations=MEAN_RELATIONS, score_bound=_score_bound(spend))

    def outlook(self, problem: Problem) -> Outlook:
        """The expected error: the mean absolute value of the Laplace noise, its scale, or the score's range."""
        ((spend, _),) = self.draws(problem)
        scale = spend.noise_scale
        published = kusner_2015.corollary_4_scale(sensitivity=self._as_printed(problem), epsilon=problem.epsilon)
        why = (
            f"its noise has scale {scale:.3g} on a score between 0 and {problem.score_range:g} "
            f"(as published {published:.3g}): {_score_bound(spend)}; it releases a score and no hyperparameter"
        )
        trainings, error, instead = len(problem.candidates), min(scale, problem.score_range), ""
        if not self.scores_all:
            why += ". A path costs more than all of Λ: its two runs may end at different models"
            ((whole, _),) = Lipschitz().draws(problem)
            instead = f'evaluate = "all" would err by {whole.noise_scale:.1g}'
        if self.trains_in_steps:
            trainings = self.n_steps(problem)
        return Outlook(scale, error, trainings, why, instead)

    def start(self, problem: Problem, plan: PrivacyPlan) -> "WholePath | LipschitzSearch":
        """Return a search that has scored and drawn nothing yet."""
        return (WholePath if self.scores_all else LipschitzSearch)(self, problem, plan)

    def _sensitivity_steps(self, problem: Problem) -> int:
        """Return the sensitivity Δ of the best score by Theorem 7, in whole steps of the integer sum, rounded up.

        A path is refused where each person counts once: it may end at different models on neighbouring tables, so
        that every person present scores differently, and how many are present is private. If all of Λ is scored,
        one person moves the sum by at most R, since an absent person counts as the score φ(0) of margin 0.
        """
        if not self.scores_all:
            refuse_persons(
                problem, "a path of lipschitz", "it moves every person's mean, and how many there are is private"
            )
        if self.calibration == "published":
            return max(1, int(np.ceil(self._as_printed(problem) / problem.score_per_step * (1.0 + 1e-12))))
        return self._corrected_steps(problem)

    def _corrected_steps(self, problem: Problem) -> int:
        lambda_min, lambda_max = _ends(problem)
        L, G = problem.score.lipschitz, problem.score_range  # line 4
        loss_at_zero = initial_loss(problem.model.estimator)
        tau = problem.model.tolerance
        if tau is None:
            lambdas = {float(point["lambda"]) for point in problem.candidates.points}
            tau = max(default_tolerance(problem.model.estimator, regularization) for regularization in lambdas)
        B = kusner_2015.weight_norm_bound(lambda_min=lambda_min, initial_loss=loss_at_zero)
        r0 = problem.score.span(0.0)  # 0 for a score of the margin alone, or Theorem 7 would be false of it
        R = kusner_2015.record_range(score_range=G, lipschitz=L, weight_norm=B + tau, range_at_zero=r0)
        D = kusner_2015.path_length_bound(
            lambda_min=lambda_min, lambda_max=lambda_max, solver_tolerance=tau, initial_loss=loss_at_zero
        )
        if self.trains_in_steps:
            D = max(D, B + tau)  # from w = 0, which stands for what could not be trained, to any model
        if self.scores_all:
            return kusner_2015.theorem_7_fixed_set_integer_sensitivity(
                n_validation=problem.n_averaged,
                score_range=G,
                record_range=R,
                grid=GRID,
                max_records_per_person=problem.max_records_per_person,
            )
        return kusner_2015.theorem_7_integer_sensitivity(
            n_validation=problem.n_averaged,
            score_range=G,
            path_change=L * D,
            record_range=R,
            grid=GRID,
            max_records_per_person=problem.max_records_per_person,
        )

    def _as_printed(self, problem: Problem) -> float:
        """The sensitivity Δ of Theorem 7 as printed, in units of the score, which is smaller than the true one."""
        lambda_min, lambda_max = _ends(problem)
        return kusner_2015.theorem_7_sensitivity(
            n_validation=problem.n_averaged,
            lambda_min=lambda_min,
            lambda_max=lambda_max,
            lipschitz=problem.score.lipschitz,
            score_range=problem.score_range,
            solver_tolerance=0.0,
            calibration="published",
            max_records_per_person=problem.max_records_per_person,
        )


class BestScore(Opaque):
    """A search for the largest sum. The scores are private: nothing is returned before `finish`."""

    __slots__ = ("_best", "_method", "_plan", "_problem")

    def __init__(self, method: Lipschitz, problem: Problem, plan: PrivacyPlan) -> None:
        self._method, self._problem, self._plan, self._best = method, problem, plan, Sensitive(-1)

    def finish(self, noise: Noise) -> Release:
        """Draw the release: the best score with noise, f̃_L = f_BO + Lap(Δ/ε)."""
        ((spend, mechanism),) = self._method.draws(self._problem)
        drawn = noise.release(spend, mechanism, self._best)  # Alg. 3, line 5
        score = drawn["draw"] * self._problem.score_per_step  # line 6
        value = laplace_caption(score, spend.noise_scale, self._problem.score_range)
        return make_release(self._method, self._problem, self._plan, noise, value, score_bound=_score_bound(spend))


class WholePath(BestScore):
    """The search that scores all of Λ, a chunk a step."""

    __slots__ = ("_chunks", "_left", "_trained")

    def __init__(self, method: Lipschitz, problem: Problem, plan: PrivacyPlan) -> None:
        super().__init__(method, problem, plan)
        self._chunks = iter(np.array_split(np.arange(len(problem.candidates)), method.n_steps(problem)))
        self._left, self._trained = len(problem.candidates), list[ScorableModel]()

    def step(self, objective: Scorer, noise: Noise) -> None:  # noqa: ARG002  no noise before the end
        """Train the next chunk of Λ and score it; if files are read, together with all that fit in one reading."""
        together = models_per_pass(objective, self._problem.scored_together)
        for index in next(self._chunks):
            self._trained.append(self._problem.train(int(index)))
            self._left -= 1
            if self._left and len(self._trained) < together:
                continue
            totals = evaluate_all(objective, self._trained, models_left=self._left)  # Alg. 3, line 2
            self._best = Sensitive(max(self._best.expose(), *(total.expose() for total in totals.sums)))  # line 3
            self._trained.clear()


class LipschitzSearch(BestScore):
    """The search that follows the raw scores, Algorithm 3 as printed. The path is private too."""

    __slots__ = ("_bo", "_map")

    def __init__(self, method: Lipschitz, problem: Problem, plan: PrivacyPlan) -> None:
        super().__init__(method, problem, plan)
        search, self._map = problem.search, ScoreMap(CENTRE, SPREAD, 1.0)
        posterior = Posterior(problem.candidates.encoded, stated_kernel(problem), 1e-6, expected=search.n_steps)
        self._bo = BayesianSearch(posterior, acquisition_named(search.acquisition, beta=search.beta))

    def step(self, objective: Scorer, noise: Noise) -> None:  # noqa: ARG002  no noise before the end
        """Score the candidate with the largest acquisition of all Λ, which the trainer has, or trains now."""
        index = self._bo.ask()  # equation 3
        total = objective.evaluate(self._problem.train(index)).expose()  # Alg. 3, line 2
        self._bo.tell(index, self._map.mapped(total / self._problem.range_steps))
        self._best = Sensitive(max(self._best.expose(), total))  # Alg. 3, line 3


def _score_bound(spend: Spend) -> str:
    bound = kusner_2015.theorem_8_error_bound(
        sensitivity=spend.sensitivity, epsilon=spend.epsilon, failure_probability=FAILURE_PROBABILITY
    )
    return f"within {bound:.3g} of the best score seen with probability {1.0 - FAILURE_PROBABILITY:g} (Theorem 8)"


def _ends(problem: Problem) -> tuple[float, float]:
    """Return the least and largest λ of the candidates; a study that Theorem 7 does not cover is refused."""
    if not problem.model.linear:
        raise StudyInvalid(
            f"lipschitz cannot tune {problem.model.estimator}",
            cause="Theorem 7 speaks of a regularisation path of logistic or hinge models",
            remedy="use another method (dpbo plan says which fit)",
        )
    if not np.isfinite(problem.score.lipschitz):
        margins = {name: score.of_margin(Numbers(1.0)) for name, score in SCORES.items() if score.of_margin}
        sloping = " or ".join(f'"{name}"' for name, score in margins.items() if np.isfinite(score.lipschitz))
        raise StudyInvalid(
            f"lipschitz cannot use the score {problem.model.score_name!r}, which jumps",
            cause="Theorem 7 needs a score that is Lipschitz in the model's weights",
            remedy=f"use score = {sloping}, or another method (dpbo plan says which fit)",
        )
    lambdas = [float(point["lambda"]) for point in problem.candidates.points]  # Alg. 3, line 1
    return min(lambdas), max(lambdas)
