"""The papers' open question, answered: every hyperparameter tried and every score seen, released as it happens.

| symbol | name here | meaning | shape |
|---|---|---|---|
| T | `n_steps` | steps, fixed in advance | scalar |
| ρ* | `_rho` | the largest ρ that the study's (ε, δ) holds | integer of 10⁻¹² |
| s | `final_share` | share of ρ* kept for a final choice on exact scores | scalar in [0, 1) |
| r | `look_share` | share of ρ* kept for a fresh look at the score of the choice | scalar in [0, 1) |
| λ_t | `index` | the candidate of step t; a function of y_1 … y_{t−1} alone | index into Λ |
| y_t | `draw` | exact sum at λ_t plus discrete Gaussian noise, sensitivity k·2²⁴ | integer |
| μ_T | `_bo` | Gaussian-process posterior given the y's, averaged over kernels | (N,) |
| — | `earlier` | with `learn_from`, what earlier editions released: the search begins with it (`bo.learning`) | — |
| h | `_guess` | with prior = "public", the score cross-validated on the public training set | (N,) |

Each observation is noised on its own at a fixed λ_t, so the path, the posterior, every plot and the chosen λ are
post-processing of the y's and of public facts: ρ* bounds all of it, with no assumption about the score's shape.
By a count of pairs y_t is B = C₂ − ⌊rD⌋ with noise, and D is drawn once, before the first step (`pair_draws`).
"""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.accounting.composition import largest_rho
from dpbo_core.mechanisms.gaussian import DiscreteGaussian
from dpbo_core.mechanisms.noise import Mechanism, Noise
from dpbo_core.methods.contract import (
    Draws,
    Method,
    Outlook,
    Released,
    ReleasedScores,
    Scope,
    Simulated,
    gaussian_noise,
    guarantee_of,
    make_release,
)
from dpbo_core.methods.final_choice import (
    LOOK_AFTER_CHOICE,
    MIXED_EVIDENCE,
    STEPS_BEFORE_CHOICE,
    USUAL_LOOK,
    selection,
)
from dpbo_core.methods.pair_bounds import NoiseTail
from dpbo_core.methods.pair_draws import (
    DEFAULT_PUBLIC_SCORE,
    SHARE_OF_PAIRS_RHO,
    auc_caption,
    in_pairs,
    on_grid,
    one_unit_moves,
    relations_of,
    unit_drawn,
    unit_of,
)
from dpbo_core.methods.problem import Problem, stated_kernel
from dpbo_core.methods.public_search import doubt, search_on_public_data
from dpbo_core.models.scoring.in_memory import Scorer, evaluate_all, shifted
from dpbo_core.privacy.amounts import from_units
from dpbo_core.privacy.certified import CertificateRules, stated_steps
from dpbo_core.privacy.guarantee import Evidence, PrivacyGuarantee, Standing
from dpbo_core.privacy.release import ALL_PAIRS, COUNTS, PrivacyPlan, Release, Spend, step_score
from dpbo_core.privacy.sensitive import Opaque, Sensitive
from dpbo_core.search import DEFAULT_N_STEPS
from dpbo_core.search.bo import AveragedSearch, SearchDomain, acquisition_named, prior_of
from dpbo_core.search.estimates import CENTRE, NORMAL_90, SPREAD, ScoreMap

if TYPE_CHECKING:
    from dpbo_core.mechanisms.exponential import PrivateSelection
    from dpbo_core.search.learning import LearningSearch

EVIDENCE = Evidence(
    Standing.STANDARD,
    "discrete Gaussian (Canonne, Kamath, Steinke 2020) composed adaptively in zCDP; the rest is post-processing",
)
CHOICE_SCORE_DRAW = "score of the choice"
EQUALITY_TOLERANCE = 1e-9  # relative: two numbers that were computed alike
RESIDUAL_AMPLITUDE = 1.0  # doubts of the public score: the residual's amplitude
SIMULATED_SHARE, SIMULATED_DELTA = 1.0 - USUAL_LOOK, 1e-6  # of ρ* at ε = 1, for the path, in the simulation


@dataclass(frozen=True)
class PrivateTrajectory(Method):
    """Gaussian-process search on noised scores: releases the whole trajectory and the chosen hyperparameters.

    Attributes:
        look_share: share of the budget for one fresh look at the choice's score, whose 90% interval covers nine
            times in ten whatever the score's shape; without it (0) the interval is only as good as the prior.
            0.25 where None, 0.05 beside a final choice.
        final_share: share of the budget for a choice by permute-and-flip among the visited candidates, on their
            exact scores; 0 chooses by the posterior mean, at no further cost. It is for a study that wants the
            choice and not the path: 0.8 is usual, after 40 steps where none are stated, and pays about half of the
            study's ε. The study costs its own guarantee and no more, but in an account of many studies several
            times what a path costs alone.
        prior: "flat", or "public": the score cross-validated on the public training set is the prior mean, believed
            as far as the noised observations bear it out: it may be off by what a public set of its size leaves in
            doubt.
        public_trials: candidates that are cross-validated for it; the others' scores are guessed from theirs.
    """

    wants = "to see the whole search, or many editions from one budget"
    gives = "every λ tried with its private score, the choice, an interval"
    needs = "δ > 0"
    delta_range = "> 0"
    trainings = "one a step"
    observable = "each candidate and its noised score, step by step; how long scoring takes"
    scope = Scope.PAIRS
    shows_all = True
    scores_ahead = True
    learns = True
    public_path = True  # the path follows released observations only
    fits_lengthscale = True  # it is fitted to released observations, which costs nothing

    look_share: float | None = None
    final_share: float = 0.0
    prior: Literal["flat", "public"] = "flat"
    public_trials: int = 256
    kind: Literal["private_trajectory"] = "private_trajectory"

    def __post_init__(self) -> None:
        final, look = self.shares
        if not (min(final, look) >= 0.0 and final + look < 1.0):
            raise StudyInvalid(
                f"method.look_share = {look}, final_share = {final}",
                cause="they are shares of one budget, and the path needs the rest",
                remedy="choose 0 or more for each, together below 1; 0.25 and 0 are usual, or 0.05 and 0.8",
            )
        self.check_option("public_trials", "ask for at least 1; 256 is usual", fine=self.public_trials >= 1)

    @property
    def shares(self) -> tuple[float, float]:
        """The shares of the zCDP budget for the final choice, and for one more noised score of it (look)."""
        usual = LOOK_AFTER_CHOICE if self.final_share else USUAL_LOOK
        return self.final_share, usual if self.look_share is None else self.look_share

    def n_steps(self, problem: Problem) -> int:
        """The number T of models that are trained and scored: `[search] steps`, else 20 (40 before a choice)."""
        return problem.search.steps or (STEPS_BEFORE_CHOICE if self.final_share else DEFAULT_N_STEPS)

    @staticmethod
    def forms(problem: Problem) -> tuple["PrivateTrajectory", ...]:  # noqa: ARG004  the same on every problem
        """Return the variants that the advice compares: with the public scores as prior, and without."""
        return PrivateTrajectory(prior="public"), PrivateTrajectory()

    def simulated(self, problem: Problem) -> Simulated:
        """Return this method's place in the advice's simulation, by the record counts that match its noise."""
        if self.final_share:
            plain = replace(self, final_share=0.0, look_share=None)
            path = plain.simulated(problem)
            look = math.sqrt(self.shares[1] / USUAL_LOOK)
            return replace(path, score_records=path.score_records * look or path.score_records)
        observed = self.observations(problem)[0].scale * problem.metric_per_step / problem.score_range
        rho = SIMULATED_SHARE * from_units(largest_rho(1.0, SIMULATED_DELTA))
        records = math.sqrt(self.n_steps(problem) / (2.0 * rho)) / observed
        return Simulated(f"{self.kind}/{self.prior}", records, records)

    def guarantee(self, problem: Problem) -> PrivacyGuarantee:
        """Return (ε, δ) by zCDP of the noise on T scores, and of a final choice and a fresh look if paid for."""
        evidence = MIXED_EVIDENCE if self.final_share else EVIDENCE
        return guarantee_of(problem, delta=problem.delta, evidence=evidence, scope=self.scope)

    def draws(self, problem: Problem) -> Draws:
        """The plan's noise draws with their mechanisms: number of pairs, T scores, final choice, fresh look."""
        drawn: list[tuple[Spend, Mechanism[Any]]] = []
        if (number := self.number(problem)) is not None:
            drawn.append((number.spend(ALL_PAIRS), number))
        drawn += [(m.spend(step_score(t)), m) for t, m in enumerate(self.observations(problem), start=1)]
        selection, look = self.selection(problem), self.look(problem)
        if selection is not None:
            drawn.append((selection.spend("final choice"), selection))
        if look is not None:
            drawn.append((look.spend(CHOICE_SCORE_DRAW), look))
        return tuple(drawn)

    @staticmethod
    def certificate_rules(release: Release) -> CertificateRules:
        """What a certificate must state: a draw a step and those that the options buy, of means or of pairs."""
        options, gaussian = release.facts["options"], tuple(DiscreteGaussian.WORTH)
        made = {step_score(t): gaussian for t in range(1, len(release.value["trajectory"]) + 1)}
        if len(made) != stated_steps(release):
            raise ValueError("steps")
        stated = {name: options[name] for name in ("final_share", "look_share")}
        final, look = PrivateTrajectory(**stated).shares
        if final != 0.0:
            from dpbo_core.mechanisms.exponential import PERMUTE_AND_FLIP

            made["final choice"] = (PERMUTE_AND_FLIP,)
        if look != 0.0:
            made[CHOICE_SCORE_DRAW] = gaussian
        if COUNTS in release.facts:
            made[ALL_PAIRS] = gaussian
        return CertificateRules(made, one_unit_moves(release), relations=relations_of(release))

    @staticmethod
    def released_scores(release: Release) -> ReleasedScores:
        """Return every step's score in a release and, if the interval is the fresh look's, its middle."""
        value, unit = release.value, release.score_per_unit
        if value["score"] is None:
            return ()
        scales = {spend.what: spend.noise_scale * unit for spend in release.spends}
        scores = [
            (step["hyperparameters"], float(step["score"]), scales[step_score(step["step"])])
            for step in value["trajectory"]
        ]
        if CHOICE_SCORE_DRAW in scales:
            (low, high), look = value["interval"], scales[CHOICE_SCORE_DRAW]
            if abs((high - low) / 2.0 - NORMAL_90 * look) <= EQUALITY_TOLERANCE * (high - low):
                scores.append((value["hyperparameters"], (low + high) / 2.0, look))
        return tuple(scores)

    def outlook(self, problem: Problem) -> Outlook:
        """Return the expected error: the posterior mean's mean absolute error at T evenly spread candidates."""
        sigma = self.observations(problem)[0].scale * problem.metric_per_step
        T, scale = self.n_steps(problem), SPREAD * problem.score_range
        spread = np.unique(np.linspace(0, len(problem.candidates) - 1, T).round().astype(int))
        kernel = stated_kernel(problem)
        K = kernel.matrix(problem.candidates.encoded[spread], problem.candidates.encoded[spread])
        noise = (sigma / scale) ** 2 * len(spread) / T  # repeats average the noise
        freedom = float(np.trace(np.linalg.solve(K + noise * np.eye(len(K)), K)))
        error = min(scale, sigma * math.sqrt(freedom / T)) * math.sqrt(2.0 / math.pi)
        why = (
            f"each of {T} scores carries noise of scale {sigma:.3g}, and the Gaussian process averages it to about "
            f"{error:.2g}; the whole trajectory is yours to show"
        )
        selection = self.selection(problem)
        if selection is not None:
            epsilon = selection.spend("").epsilon
            why += f"; then permute-and-flip chooses among what was visited, with ε = {epsilon:.3g} of its own"
        return Outlook(sigma, error, T, why)

    def n_cross_validated(self, problem: Problem) -> int:  # noqa: ARG002  the same on every problem
        """The number of candidates to cross-validate: `public_trials` if their scores are the prior, else 0."""
        return self.public_trials if self.prior == "public" else 0

    def guess(self, problem: Problem) -> NDArray[np.float64] | None:
        """The public scores as prior mean, (N,), searched for if `problem` lacks them; None for a flat prior."""
        return search_on_public_data(problem, self.public_trials).mean if self.prior == "public" else None

    def deviation(self, problem: Problem, public: NDArray[np.float64] | None, scale: float) -> float | None:
        """Return the prior's median deviation from the `public` scores, in units of `scale`; None without them."""
        return None if public is None else RESIDUAL_AMPLITUDE * doubt(problem, float(public.max())) / scale

    def start(self, problem: Problem, plan: PrivacyPlan) -> "TrajectorySearch":
        """A search that has scored and drawn nothing yet; a public search that `problem` lacks is made here."""
        return TrajectorySearch(self, problem, plan)

    def observations(self, problem: Problem) -> tuple[DiscreteGaussian, ...]:
        """Return the mechanism that noises the score in each of the T steps; refused if the budget is too small."""
        return gaussian_noise(problem, self._rho(problem)[0], self.n_steps(problem))

    def selection(self, problem: Problem) -> "PrivateSelection | None":
        """Return the mechanism of the final choice; None if the posterior mean chooses."""
        return selection(problem, self._rho(problem)[1]) if self.final_share else None

    def look(self, problem: Problem) -> DiscreteGaussian | None:
        """The mechanism of the fresh look (one more noised score of the choice); None if none is paid for."""
        return None if self.shares[1] == 0.0 else gaussian_noise(problem, self._rho(problem)[2])[0]

    def number(self, problem: Problem) -> DiscreteGaussian | None:
        """Return the mechanism that noises the number of pairs; None if the score is a mean."""
        return None if in_pairs(problem) is None else gaussian_noise(problem, self._rho(problem)[3])[0]

    def _rho(self, problem: Problem) -> tuple[int, int, int, int]:
        """The zCDP budget in 10⁻¹², split: steps' scores, final choice, fresh look, pairs; refused at δ = 0."""
        if problem.delta == 0.0:
            raise StudyInvalid(
                "private_trajectory needs δ > 0, and the study has delta = 0",
                cause="Gaussian noise has no pure ε",
                remedy="set delta = 1e-6 in [privacy], or use a method that needs none (dpbo plan says which)",
            )
        total = largest_rho(problem.epsilon, problem.delta)
        number = 0 if in_pairs(problem) is None else math.floor(total * SHARE_OF_PAIRS_RHO)
        total -= number
        final, look = (math.floor(total * share) for share in self.shares)
        return total - final - look, final, look, number


class TrajectorySearch(Opaque):
    """The search of `private_trajectory`. Exact sums stay, sealed, only where a final choice was paid for."""

    __slots__ = (
        "_all_pairs",
        "_beside",
        "_bo",
        "_look",
        "_map",
        "_method",
        "_objective",
        "_observations",
        "_path",
        "_plan",
        "_problem",
        "_scored",
        "_selection",
        "_spends",
        "_sums",
        "_unit",
    )

    def __init__(self, method: PrivateTrajectory, problem: Problem, plan: PrivacyPlan) -> None:
        self._method, self._problem, self._plan = method, problem, plan
        self._observations, self._selection = method.observations(problem), method.selection(problem)
        self._look = method.look(problem)
        self._spends = {spend.what: spend for spend in plan.spends}
        self._unit, self._beside = unit_of(problem), on_grid(DEFAULT_PUBLIC_SCORE)
        self._all_pairs: Sensitive[int] | None = None
        self._objective: Scorer | None = None  # for the fresh look
        self._path: list[tuple[int, int]] = []  # (candidate, noised sum): released
        self._sums: dict[int, Sensitive[int]] = {}
        self._scored: dict[int, Sensitive[int]] = {}  # with one_pass all of Λ, once any of it was needed
        self._map, self._bo = self._search()

    def step(self, objective: Scorer, noise: Noise) -> Released:
        """Return one step: a candidate's noised score, recorded before it is used or shown; or the recorded one."""
        t, self._objective = len(self._path), objective
        if t == 0:
            self._count_pairs(objective, noise)
        spend = self._spends[step_score(t + 1)]
        drawn = noise.recorded(spend)
        index = self._bo.ask() if drawn is None else drawn["candidate"]
        if drawn is None or self._selection is not None:
            total = self._total(objective, index)
            if self._selection is not None:
                self._sums[index] = total
            drawn = noise.release(spend, self._observations[t], self._observed(total), candidate=index)
            index = drawn["candidate"]  # another process may have drawn first
        self._path.append((index, drawn["draw"]))
        self._bo.tell(index, self._map.mapped(self._unit.score(drawn["draw"])))
        return self._released_step(t)

    def finish(self, noise: Noise) -> Release:
        """Draw choice and fresh look, if paid for: the release, with score, 90% interval and every step's score."""
        visited = sorted({index for index, _ in self._path})
        mixture = self._bo.mixture()
        means, deviations = self._bo.domain.moments(mixture, np.array(visited))
        mean = mixture.weights @ means
        if self._selection is not None:
            sums = Sensitive(np.array([self._sums[index].expose() for index in visited], dtype=np.int64))
            spend = self._spends["final choice"]
            chosen = visited[noise.release(spend, self._selection, sums)["draw"]]
        else:
            chosen = visited[int(np.argmax(mean))]
        place = visited.index(chosen)
        score, interval = self._map.posterior(mixture, means[:, place], deviations[:, place])
        if self._look is not None and self._objective is not None:
            total = self._observed(self._total(self._objective, chosen))
            draw = noise.release(self._spends[CHOICE_SCORE_DRAW], self._look, total)["draw"]
            ends = None if self._all_pairs is None else self._unit.interval([draw], NoiseTail.of(self._look))
            deviation = self._look.scale * self._unit.per_step
            score, interval = self._map.with_look(self._unit.score(draw), deviation, (score, interval), ends)
        elif self._all_pairs is not None:  # the posterior's interval is as good as its prior, which may mislead
            draws = [draw for index, draw in self._path if index == chosen]
            interval = self._unit.interval(draws, NoiseTail.of(self._observations[0]), len(self._path))
        value = {
            "hyperparameters": dict(self._problem.candidates.points[chosen]),
            **(
                {"score": score, "interval": list(interval)}
                if self._all_pairs is None
                else auc_caption(self._problem, self._unit, score, interval)
            ),
            "trajectory": [self._released_step(t) for t in range(len(self._path))],
        }
        return make_release(self._method, self._problem, self._plan, noise, value)

    def _count_pairs(self, objective: Scorer, noise: Noise) -> None:
        """Draw the number of pairs D with noise, if pairs are counted, and begin the search in scores by it."""
        pairs, number = in_pairs(self._problem), self._method.number(self._problem)
        if pairs is None or number is None:
            return
        self._all_pairs = objective.pairs()
        public = self._method.guess(self._problem)
        self._beside = self._beside if public is None else on_grid(float(public.max()))
        drawn = noise.release(self._spends[ALL_PAIRS], number, self._all_pairs)["draw"]
        self._unit = unit_drawn(pairs, drawn, number, self._beside)
        self._map, self._bo = self._search()

    def _total(self, objective: Scorer, index: int) -> Sensitive[int]:
        if not self._problem.search.one_pass:
            return objective.evaluate(self._problem.train(index))
        if not self._scored:
            Lambda, together = range(len(self._problem.candidates)), self._problem.scored_together
            for at in Lambda[::together]:
                models = [self._problem.train(i) for i in Lambda[at : at + together]]
                totals = evaluate_all(objective, models, models_left=len(Lambda[at + together :]))
                self._scored |= dict(zip(Lambda[at : at + together], totals.sums, strict=True))
        return self._scored[index]

    def _observed(self, total: Sensitive[int]) -> Sensitive[int]:
        """Return the sealed integer that noise is added to: the sum of scores, or of pairs C₂ − ⌊rD⌋."""
        return total if self._all_pairs is None else shifted(total, self._all_pairs, self._beside)

    def _released_step(self, t: int) -> Released:
        """The step at index t (from 0) as it is released: its number t + 1, hyperparameters and noised score."""
        index, total = self._path[t]
        return {
            "step": t + 1,
            "hyperparameters": dict(self._problem.candidates.points[index]),
            "score": self._unit.shown(total),
        }

    def _search(self) -> "tuple[ScoreMap, AveragedSearch | LearningSearch]":
        """The map from scores to the prior's units, and a new search that starts with earlier editions' scores."""
        problem, search = self._problem, self._problem.search
        public = self._method.guess(problem)
        centre = CENTRE * problem.score_range if public is None else float(public.mean())
        scale, encoded = SPREAD * problem.score_range, problem.candidates.encoded
        sigma = self._observations[0].scale * self._unit.per_step / scale
        score_map = ScoreMap(centre, scale, problem.score_range)
        past = [
            [(it.index, score_map.mapped(it.score), max((it.deviation / scale) ** 2, 1e-10)) for it in one.scores]
            for one in problem.earlier or ()
        ]
        prior = prior_of(
            kernel=search.kernel,
            lengthscale=search.lengthscale,
            dimensions=encoded.shape[1],
            guessed=public is not None,
            deviation=self._method.deviation(problem, public, scale),
        )
        guess = np.zeros(len(encoded)) if public is None else (public - centre) / scale
        domain = SearchDomain(encoded, prior, max(sigma**2, 1e-10), guess)
        acquisition = acquisition_named(search.acquisition, beta=search.beta)
        if not any(past):
            return score_map, AveragedSearch(domain, acquisition)
        from dpbo_core.search.learning import LearningSearch

        return score_map, LearningSearch(domain, acquisition, past=past)
