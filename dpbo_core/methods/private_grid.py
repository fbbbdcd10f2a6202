"""The baseline that every other method must justify itself against: score everything, choose once, say the score.

| symbol | name here | meaning | shape |
|---|---|---|---|
| Λ′ | `_subset` | the candidates scored: all of Λ, or a public subset | indices into Λ |
| u | `_sums` | exact integer sums of the scores | (n,) |
| b | `head_start` | a public handicap, s·log π₀ under a base measure: the choice is on u + b | (n,) |
| π₀, s | `base_measure` | a public law over Λ′; the noise scale 2Δ/ε_select of the choice | (n,), scalar |
| c | `paired` | differences to λ₀, the best in public, are clipped at ±c and stretched: Δ stays | integer |
| Δ | `record_steps` | k·2²⁴: most one person moves any of them, in either direction | integer |
| ε | ε_select + ε_score | noisy maximum (or `editions` say), then discrete Laplace at the choice | scalar |
| G | `lead` | how far the choice leads the runner-up, with noise; free (`noisy_max`) | integer |

By a count of pairs u and b are in steps of C₂ and Δ is that of pairs; a share of ε_score draws their number
(`pair_draws`). No record has a score of its own there, so nothing is paired.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpbo_core.errors import StudyInvalid
from dpbo_core.mechanisms.exponential import EXPONENTIAL, PrivateSelection
from dpbo_core.mechanisms.laplace import DiscreteLaplace
from dpbo_core.mechanisms.noise import Noise
from dpbo_core.mechanisms.noisy_max import NoisyMax
from dpbo_core.methods.contract import (
    Draws,
    Method,
    Outlook,
    Scope,
    Simulated,
    guarantee_of,
    make_release,
    split_epsilon,
)
from dpbo_core.methods.pair_draws import (
    check_unpaired,
    in_pairs,
    name_of,
    one_unit_moves,
    relations_of,
    score_caption,
    shares_of,
)
from dpbo_core.methods.problem import Problem
from dpbo_core.methods.public_search import (
    base_measure,
    head_start,
    pairing,
    public_differences,
    public_shortlist,
    search_on_public_data,
)
from dpbo_core.models.integer_sums import GRID, Pairing
from dpbo_core.models.scoring.in_memory import ScorableModel, Scorer, evaluate_all, models_per_pass
from dpbo_core.privacy.certified import CertificateRules, only_shows
from dpbo_core.privacy.guarantee import Evidence, PrivacyGuarantee, Standing
from dpbo_core.privacy.release import ALL_PAIRS, COUNTS, PrivacyPlan, Release
from dpbo_core.privacy.sensitive import Opaque, Sensitive
from dpbo_core.search.search_space import sobol_subset
from dpbo_core.theorems.mckenna_sheldon_2020 import theorem_2_expected_error

NOISY_MAXIMUM = "the noisy maximum with its lead (Ding et al. 2019)"
EXPONENTIAL_CHOICE = "the exponential mechanism (McSherry, Talwar 2007)"
WITH_SCORE = " and the discrete Laplace, composed by adding ε"
CHOICE, SCORE = "best candidate", "its score"  # the draws' names
CONFIDENCE = 0.95  # of what the lead says
MANY_EDITIONS = 6  # editions from which the exponential mechanism loses less at the same total price
SIMULATED_SHARE = 0.25  # of ε = 1, for the score, in the advice's simulation
SCORE_SHARE, PAIRS_SHARE = 0.1, 0.25  # for the score, where it is a mean and where it is two draws, of pairs


@dataclass(frozen=True)
class PrivateGrid(Method):
    """Private selection from a list: scores Λ or a public subset, releases the winner and its score; pure ε-DP.

    Attributes:
        evaluate: "all" of Λ; "tried", those that are cross-validated on the public training set; or as many
            candidates as the study has steps: "sobol", spread evenly, or "public_shortlist", those that the public
            training set thinks best, which costs trainings, no privacy.
        score_share: share of ε for the score, the rest chooses; without it 0.1, or 0.25 where pairs are counted. 0
            releases the choice alone, not of pairs; so does leaving it out where [evaluation] pays for a report
            that states the score.
        public_trials: candidates that are cross-validated on the public training set, where it has a say.
        base_measure: "public": the choice begins from a law over the candidates that follows the public scores and
            excludes nobody; "none": as the list has it.
        paired: choose by each record's difference to the public best, clipped at a public bound: a smaller noise
            where a record's scores under two candidates lie near each other. Of 0/1 scores they do not, and it
            changes nothing.
        editions: how many such releases one budget is planned for, where `[budget]` and a schedule do not say more.
            From 6 on the choice is the exponential mechanism's: at the same ε a little worse, at a quarter of the
            price where many releases are composed.
    """

    wants = "the best of a list, δ = 0"
    gives = "the choice and its score"
    needs = "time to score the list"
    delta_range = "0"
    trainings = "one a candidate"
    observable = "the fixed order of the candidates; how long scoring takes"
    scope = Scope.PAIRS
    scores_ahead = True
    fixed_order = True
    public_path = True  # which candidates are scored, and in which order, is public
    fits_lengthscale = True  # it has no kernel, or that of a public search, which fits its own

    evaluate: Literal["all", "tried", "sobol", "public_shortlist"] = "all"
    score_share: float | None = None
    public_trials: int = 256
    base_measure: Literal["none", "public"] = "none"
    paired: bool = False
    editions: int = 1
    kind: Literal["private_grid"] = "private_grid"

    def __post_init__(self) -> None:
        fine = self.score_share is None or 0.0 <= self.score_share < 1.0
        self.check_option("score_share", "choose a share of ε from 0 to below 1; 0.1 is usual", fine=fine)
        self.check_option("public_trials", "ask for at least 1; 256 is usual", fine=self.public_trials >= 1)
        self.check_option("editions", "give the number that is planned, 1 or more", fine=self.editions >= 1)

    def n_steps(self, problem: Problem) -> int:
        """Return the number of candidates that are scored, |Λ′|: one step of the search each."""
        sizes = {"all": len(problem.candidates), "tried": self.public_trials}
        return min(sizes.get(self.evaluate, problem.search.n_steps), len(problem.candidates))

    @staticmethod
    def forms(problem: Problem) -> tuple["PrivateGrid", ...]:
        """Return, as a tuple of one, the variant of this method that `dpbo plan` compares with other methods.

        Without public scores it scores all of Λ; with them, the candidates that were tried in public. Where each
        record is scored in a process of its own, which is slow, it scores a shortlist of `n_steps` candidates. With
        at least `MANY_EDITIONS` planned editions it chooses by the exponential mechanism.
        """
        planned = problem.editions if problem.editions >= MANY_EDITIONS else 1
        if not problem.scored_in_public:
            return (PrivateGrid(editions=planned),)
        if problem.model.enforced:
            return (PrivateGrid(evaluate="public_shortlist", base_measure="public", editions=planned),)
        paired = problem.score.graded
        return (PrivateGrid(evaluate="tried", base_measure="public", paired=paired, editions=planned),)

    def simulated(self, problem: Problem) -> Simulated:
        """Return this method's place in the advice's simulation, by the record counts that match its noise."""
        spends, metric_per_score = self.plan(problem).spends, problem.metric_per_step / problem.score_per_step
        choice, score = (
            spend.noise_scale * metric_per_score / problem.score_range for spend in (spends[0], spends[-1])
        )
        form = "all" if self.n_steps(problem) == len(problem.candidates) else self.evaluate
        return Simulated(
            f"{self.kind}/{'base_measure' if self.base_measure == 'public' else form}",
            2.0 / ((1.0 - SIMULATED_SHARE) * choice),
            math.inf if self.score_share == 0.0 else 1.0 / (SIMULATED_SHARE * score),
            paired=self.paired and problem.score.graded,
        )

    def fixed_path(self, problem: Problem) -> tuple[int, ...]:
        """Return indices of the candidates Λ′ to score, in order; empty if public scores decide which."""
        fixed = self.evaluate in ("all", "sobol") or self.n_steps(problem) == len(problem.candidates)
        return self._spread(problem) if fixed and self.evaluate != "public_shortlist" else ()

    def guarantee(self, problem: Problem) -> PrivacyGuarantee:
        """Pure ε-DP: the noise on the selection, on the score, and on the number of pairs if counted."""
        if self.paired:
            check_unpaired(problem)
        if self.score_share == 0.0 and in_pairs(problem) is not None:
            raise StudyInvalid(
                f"private_grid with score_share = 0 cannot choose by {name_of(problem)}",
                cause="the lead of the choice is stated by the number of pairs, which a share of ε releases",
                remedy="leave score_share out",
            )
        note = EXPONENTIAL_CHOICE if self._for_many(problem) else NOISY_MAXIMUM
        note += "" if self.score_share == 0.0 else WITH_SCORE
        return guarantee_of(problem, delta=0.0, evidence=Evidence(Standing.STANDARD, note), scope=self.scope)

    def draws(self, problem: Problem) -> Draws:
        """The plan's noise draws with their mechanisms: the choice, the number of pairs if any, the score."""
        (selection, laplace), number = self._mechanisms(problem), self.number(problem)
        choice = (selection.spend(CHOICE), selection)
        if laplace is None:
            return (choice,)
        drawn = (choice, (laplace.spend(SCORE), laplace))
        return drawn if number is None else (drawn[0], (number.spend(ALL_PAIRS), number), drawn[1])

    @staticmethod
    def certificate_rules(release: Release) -> CertificateRules:
        """What a certificate must state: a draw of the choice, of its score if one is shown, and of the pairs."""
        laplace = tuple(DiscreteLaplace.WORTH)
        made = {CHOICE: (*NoisyMax.WORTH, *PrivateSelection.WORTH)}
        if "score" in release.value:
            made[SCORE] = laplace
        elif not only_shows(release, "hyperparameters", "lead"):
            raise ValueError("value")
        if COUNTS in release.facts:
            made[ALL_PAIRS] = laplace
        return CertificateRules(made, one_unit_moves(release), relations=relations_of(release))

    def outlook(self, problem: Problem) -> Outlook:
        """The expected error: a bound on the selection's regret, plus the mean absolute error of the score."""
        selection, laplace = self._mechanisms(problem)
        scale, n = 0.0 if laplace is None else laplace.scale * problem.metric_per_step, self.n_steps(problem)
        regret = theorem_2_expected_error(
            n_candidates=n,
            sensitivity=selection.sensitivity * problem.metric_per_step,
            epsilon=selection.spend("").epsilon,
        )
        error = min(problem.score_range, regret) + scale
        losing = f"an expected regret of at most {regret:.2g}"
        if self.n_cross_validated(problem):
            losing = "what its noise leaves open, the public score decides"
        score = "no score of its own" if laplace is None else f"noise of scale {scale:.2g} on the score"
        why = f"scores {n} candidates and chooses once: {losing}, and {score}; δ = 0"
        return Outlook(scale or selection.scale * problem.metric_per_step, error, n, why)

    def n_cross_validated(self, problem: Problem) -> int:
        """Return the number R of candidates to cross-validate, at least as many as are listed; 0 for no search."""
        if not (self.evaluate in ("tried", "public_shortlist") or self.base_measure == "public" or self.paired):
            return 0
        return max(self.public_trials, self.n_steps(problem) if self.evaluate == "public_shortlist" else 0)

    def scored_by_report(self, problem: Problem) -> "PrivateGrid":
        """Return the method without a score of its own, unless a share is stated, or persons are scored."""
        unpaid = self.score_share is None and problem.person is None
        return replace(self, score_share=0.0) if unpaid else self

    def start(self, problem: Problem, plan: PrivacyPlan) -> "GridSearch":
        """A search that has scored and drawn nothing yet; a public search that `problem` lacks is made here."""
        return GridSearch(self, problem, plan)

    def subset(self, problem: Problem) -> tuple[tuple[int, ...], Pairing | None, NDArray[np.int64]]:
        """Return the candidates to score, how they are compared in pairs (None: they are not), and their head
        starts.

        All of it is public. A head start, in steps of the integer sum, is added to a candidate's score before the
        choice: the public scores influence the choice by it. A public search that `problem` lacks is made first.
        """
        trials = self.n_cross_validated(problem)
        if trials == 0:
            listed = self._spread(problem)
            return listed, None, np.zeros(len(listed), dtype=np.int64)
        public_search, (selection, _) = search_on_public_data(problem, trials), self._mechanisms(problem)
        match self.evaluate:
            case "public_shortlist":
                listed = public_shortlist(problem, self.n_steps(problem), public_search)
            case "tried":
                listed = tuple(sorted(public_search.tried))
            case _:
                listed = self._spread(problem)
        noise, based = selection.scale * problem.metric_per_step, self.base_measure == "public"
        apart = public_differences(problem, public_search) if based or self.paired else {}
        pair = pairing(problem, public_search, noise, apart) if self.paired else None
        if pair is not None:
            noise *= 2 * pair.clipped / GRID  # of the choice that is made, among differences
        start = np.zeros(len(listed))
        if based:
            start = selection.scale * np.log(base_measure(problem, listed, public_search, noise, apart))
        elif self.evaluate == "public_shortlist" and pair is None:
            start = head_start(problem, listed, public_search, noise).astype(np.float64)
        return listed, pair, np.rint(start - start.max()).astype(np.int64)

    @staticmethod
    def usual_share(problem: Problem) -> float:
        """Return the share of ε that a released score takes, unless a study states another."""
        return SCORE_SHARE if in_pairs(problem) is None else PAIRS_SHARE

    def _spread(self, problem: Problem) -> tuple[int, ...]:
        return sobol_subset(problem.candidates, self.n_steps(problem), seed=problem.search.seed)

    def number(self, problem: Problem) -> DiscreteLaplace | None:
        """Return the mechanism that noises the number of pairs; None if the score is a mean."""
        if in_pairs(problem) is None:
            return None
        _, epsilon, _ = self._parts(problem)
        return DiscreteLaplace(problem.record_steps, epsilon, problem.score_per_step)

    def _mechanisms(self, problem: Problem) -> tuple[NoisyMax | PrivateSelection, DiscreteLaplace | None]:
        select, *rest = self._parts(problem)
        steps, per_step = problem.record_steps, problem.score_per_step
        laplace = DiscreteLaplace(steps, rest[-1], per_step) if rest else None
        if self._for_many(problem):
            return PrivateSelection(steps, select, per_step, EXPONENTIAL), laplace
        return NoisyMax(steps, select, per_step, self.n_steps(problem)), laplace

    def _for_many(self, problem: Problem) -> bool:
        """Return whether many editions share one budget, by the option `editions` or the budget's plan."""
        return max(self.editions, problem.editions) >= MANY_EDITIONS

    def _parts(self, problem: Problem) -> tuple[int, ...]:
        """Return the study's ε in 10⁻¹², split between the choice, the number of pairs (if any) and the score."""
        share = self.usual_share(problem) if self.score_share is None else self.score_share
        if share == 0.0:
            return split_epsilon(problem, (1.0,))
        return split_epsilon(problem, (1.0 - share, *shares_of(problem, share)))


class GridSearch(Opaque):
    """The search of `private_grid`. Nothing is drawn before `finish`.

    Each step trains a candidate and scores it. Of a folder of files, which are read each time, those that are
    trained wait: they are scored in one reading once all are, or as many as `Problem.scored_together`.
    """

    __slots__ = (
        "_all_pairs",
        "_differences",
        "_head_start",
        "_method",
        "_pairing",
        "_plan",
        "_problem",
        "_reference",
        "_subset",
        "_sums",
        "_trained",
    )

    def __init__(self, method: PrivateGrid, problem: Problem, plan: PrivacyPlan) -> None:
        self._method, self._problem, self._plan = method, problem, plan
        self._subset, self._pairing, self._head_start = method.subset(problem)
        self._reference = None if self._pairing is None else problem.train(self._pairing.reference)
        self._trained: list[ScorableModel] = []  # and not yet scored
        self._sums: list[Sensitive[int]] = []
        self._differences: list[Sensitive[int]] = []
        self._all_pairs: Sensitive[int] | None = None

    def step(self, objective: Scorer, noise: Noise) -> None:  # noqa: ARG002  no noise before the end
        """Train the next candidate of the public list, and score it with those that wait for one common pass.

        Where they are paired, each record's scores are compared with the public best's.
        """
        together = models_per_pass(objective, self._problem.scored_together)
        self._trained.append(self._problem.train(self._subset[len(self._sums) + len(self._trained)]))
        left = len(self._subset) - len(self._sums) - len(self._trained)
        if left and len(self._trained) < together:
            return
        if self._all_pairs is None and in_pairs(self._problem) is not None:
            self._all_pairs = objective.pairs()
        beside = None
        if self._pairing is not None and self._reference is not None:
            beside = (self._reference, self._pairing.clipped)
        totals = evaluate_all(objective, self._trained, beside, models_left=left)
        self._sums += totals.sums
        self._differences += totals.differences
        self._trained.clear()

    def finish(self, noise: Noise) -> Release:
        """Draw the release: a privately chosen candidate, recorded with a public list, and its noised score."""
        selection, laplace = self._method._mechanisms(self._problem)
        compared = self._sums if self._pairing is None else self._differences
        sums = np.array([total.expose() for total in compared], dtype=np.int64)
        utilities = Sensitive(sums + self._head_start)
        whole = self._method.evaluate in ("all", "tried") and len(self._subset) == len(self._problem.candidates)
        listed = {} if whole else {f"candidate {i}": at for i, at in enumerate(self._subset)}
        chosen = noise.release(self._plan.spends[0], selection, utilities, **listed)
        index, lead = (chosen["draw"], None) if isinstance(chosen["draw"], int) else chosen["draw"]
        place = self._subset.index(chosen.get(f"candidate {index}", index))
        value: dict[str, Any] = {"hyperparameters": dict(self._problem.candidates.points[self._subset[place]])}
        if isinstance(selection, NoisyMax) and lead is not None and self._pairing is None:
            value["lead"] = self._lead(selection, place, lead)
        if laplace is None:
            return make_release(self._method, self._problem, self._plan, noise, value)
        number = self._method.number(self._problem)
        value |= score_caption(
            self._problem,
            noise,
            self._subset[place],
            (self._plan.spends[-1], laplace, self._sums[place]),
            None if number is None or self._all_pairs is None else (self._plan.spends[1], number, self._all_pairs),
        )
        return make_release(self._method, self._problem, self._plan, noise, value)

    def _lead(self, selection: NoisyMax, place: int, lead: int) -> dict[str, float | None]:
        """Return the released lead, and how much better than all others the choice surely is on these records."""
        others = np.delete(self._head_start, place)
        surely = selection.certain_lead(lead - int(self._head_start[place]) + int(others.min()), CONFIDENCE)
        at_least = None if surely is None else surely * self._problem.score_per_step
        return {"value": lead * self._problem.score_per_step, "confidence": CONFIDENCE, "at_least": at_least}
