"""The baseline that every other method must justify itself against: score everything, choose once, say the score.

| symbol | name here | meaning | shape |
|---|---|---|---|
| Λ′ | `_subset` | the candidates scored: all of Λ, or a public subset | indices into Λ |
| u | `_sums` | exact integer sums of the scores | (n,) |
| b | `head_start` | a public handicap on a public shortlist, 0 elsewhere: the choice is on u + b | (n,) |
| Δ | `record_steps` | k·2²⁴: most one person moves any of them, in either direction | integer |
| ε | ε_select + ε_score | permute-and-flip, then discrete Laplace at the chosen candidate | scalar |

By a count of pairs u is C₂ and Δ is that of pairs; a share of ε_score draws their number (`pair_draws`).
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dpbo_core.errors import StudyInvalid
from dpbo_core.mechanisms.exponential import PERMUTE_AND_FLIP, PrivateSelection
from dpbo_core.mechanisms.laplace import DiscreteLaplace
from dpbo_core.mechanisms.noise import Noise
from dpbo_core.methods.contract import (
    Described,
    Draws,
    Outlook,
    Simulated,
    guarantee_of,
    make_release,
    split_epsilon,
)
from dpbo_core.methods.pair_draws import (
    SHARE_OF_PAIRS,
    Unit,
    beside,
    in_pairs,
    one_unit_moves,
    relations_of,
    unit_drawn,
    unit_of,
)
from dpbo_core.objective.in_memory import SHARES, Scorer, shifted
from dpbo_core.privacy.certified import Shown
from dpbo_core.privacy.guarantee import Evidence, Standing
from dpbo_core.privacy.plan import PrivacyPlan
from dpbo_core.privacy.release import ALL_PAIRS, COUNTS, PAIRS, Release
from dpbo_core.privacy.sensitive import Opaque, Sensitive
from dpbo_core.problem import Problem
from dpbo_core.public_search import (
    check_trials,
    head_start,
    public_shortlist,
    search_on_public_data,
    searched,
    surely_tried,
)
from dpbo_core.space.candidates import sobol_subset
from dpbo_core.theorems.feldman_cousins_1998 import bounded_laplace_interval
from dpbo_core.theorems.mckenna_sheldon_2020 import theorem_2_expected_error

EVIDENCE = Evidence(
    Standing.STANDARD, "permute-and-flip (McKenna, Sheldon 2020) and the discrete Laplace, composed by adding ε"
)
SIMULATED_SHARE = 0.25  # of ε = 1, for the score, in the advice's simulation


@dataclass(frozen=True)
class PrivateGrid:
    """Pure ε-DP: scores Λ or a public subset of it, releases the winner and its score.

    Attributes:
        evaluate: "all" of Λ; or as many candidates as the study has steps: "sobol", spread evenly, or
            "public_shortlist", those that the public training set thinks best, which costs trainings, no privacy.
        score_share: share of ε for the score; the rest chooses.
        public_trials: candidates that are cross-validated on the public training set for a shortlist.
    """

    DESCRIBED: ClassVar = Described(
        wants="the best of a list, δ = 0",
        gives="the choice and its score",
        needs="time to score the list",
        delta="0",
        trainings="one a candidate",
        counts_pairs=True,
    )

    evaluate: Literal["all", "sobol", "public_shortlist"] = "all"
    score_share: float = 0.25
    public_trials: int = 256
    kind: Literal["private_grid"] = "private_grid"

    def __post_init__(self) -> None:
        if not 0.0 < self.score_share < 1.0:
            raise StudyInvalid(
                f"method.score_share = {self.score_share}",
                remedy="choose a share of ε between 0 and 1; 0.25 is usual",
            )

        check_trials(self.public_trials)

    @property
    def public_path(self) -> bool:
        """Which candidates are scored, and in which order, is public."""
        return True

    @property
    def hides_evaluations(self) -> bool:
        """How many models are scored is public: |Λ′|."""
        return False

    @property
    def releases_hyperparameters(self) -> bool:
        """True: those of the candidate that was chosen."""
        return True

    def n_steps(self, problem: Problem) -> int:
        """|Λ′|: how many candidates are scored."""
        return (
            len(problem.candidates)
            if self.evaluate == "all"
            else min(problem.search.steps, len(problem.candidates))
        )

    @staticmethod
    def forms(problem: Problem) -> tuple["PrivateGrid", ...]:
        """All of Λ where the study has the steps for it; else the shortlist, and the spread subset."""
        if len(problem.candidates) <= problem.search.steps:
            return (PrivateGrid(),)
        return PrivateGrid(evaluate="public_shortlist"), PrivateGrid(evaluate="sobol")

    def simulated(self, problem: Problem) -> Simulated:
        """As the whole of Λ, or as its subset."""
        spends, seen = self.plan(problem).spends, problem.metric_per_step / problem.score_per_step
        choice, score = (spend.noise_scale * seen / problem.score_range for spend in (spends[0], spends[-1]))
        form = "all" if self.n_steps(problem) == len(problem.candidates) else self.evaluate
        return Simulated(
            f"{self.kind}/{form}", 2.0 / ((1.0 - SIMULATED_SHARE) * choice), 1.0 / (SIMULATED_SHARE * score)
        )

    def fixed_path(self, problem: Problem) -> tuple[int, ...]:
        """Λ′, unless the public scores say what that is."""
        return () if self.evaluate == "public_shortlist" else self._spread(problem)

    def plan(self, problem: Problem) -> PrivacyPlan:
        """One selection and one score, which is two draws where pairs are counted."""
        spends = tuple(spend for spend, _ in self.draws(problem))
        guarantee = guarantee_of(problem, pure=True, evidence=EVIDENCE, counts_pairs=self.DESCRIBED.counts_pairs)
        return PrivacyPlan(guarantee, spends)

    def draws(self, problem: Problem) -> Draws:
        """The draws of the plan."""
        selection, number, laplace = self._mechanisms(problem)
        drawn = ((selection.spend("best candidate"), selection), (laplace.spend("its score"), laplace))
        return drawn if number is None else (drawn[0], (number.spend(ALL_PAIRS), number), drawn[1])

    @staticmethod
    def shown(release: Release) -> Shown:
        """A draw for the choice and one for its score, each of a mean that every record moves by its own share."""
        laplace = tuple(DiscreteLaplace.WORTH)
        made = {"best candidate": tuple(PrivateSelection.WORTH), "its score": laplace}
        if COUNTS in release.facts:
            made[ALL_PAIRS] = laplace
        return Shown(made, one_unit_moves(release), relations=relations_of(release))

    def outlook(self, problem: Problem) -> Outlook:
        """The selection's expected regret (a bound) plus the mean absolute error of the score."""
        selection, _, laplace = self._mechanisms(problem)
        scale, n = laplace.scale * problem.metric_per_step, self.n_steps(problem)
        regret = theorem_2_expected_error(
            n_candidates=n,
            sensitivity=selection.sensitivity * problem.metric_per_step,
            epsilon=selection.spend("").epsilon,
        )
        error = min(problem.score_range, regret) + scale
        losing = f"an expected regret of at most {regret:.2g}"
        if self.evaluate == "public_shortlist":
            losing = "what its noise leaves open, the public score decides"
        why = (
            f"scores {n} candidates and chooses once: {losing}, and noise of scale {scale:.2g} on the score; δ = 0"
        )
        return Outlook(scale, error, n, why)

    def prepare(self, problem: Problem) -> Problem:
        """Cross-validate for the shortlist."""
        return searched(problem, self._trials(problem)) if self.evaluate == "public_shortlist" else problem

    def cross_validated(self, problem: Problem) -> tuple[int, ...]:
        """What the shortlist's search begins with."""
        return surely_tried(problem, self._trials(problem)) if self.evaluate == "public_shortlist" else ()

    def start(self, problem: Problem, plan: PrivacyPlan) -> "GridSearch":
        """A search with nothing scored."""
        return GridSearch(self, problem, plan, *self._mechanisms(problem))

    def subset(self, problem: Problem) -> tuple[tuple[int, ...], NDArray[np.int64]]:
        """The indices that will be scored, in order, and their head start in steps of the sum. Public.

        The head start is what the public training set has to say in the choice; no record moves it.
        """
        if self.evaluate != "public_shortlist":
            listed = self._spread(problem)
            return listed, np.zeros(len(listed), dtype=np.int64)
        found = search_on_public_data(problem, self._trials(problem))
        listed = public_shortlist(problem, self.n_steps(problem), found)
        noise = self._mechanisms(problem)[0].scale * problem.metric_per_step
        return listed, head_start(problem, listed, found, noise)

    def _spread(self, problem: Problem) -> tuple[int, ...]:
        return sobol_subset(problem.candidates, self.n_steps(problem), seed=problem.search.seed)

    def _trials(self, problem: Problem) -> int:
        """R: at least as many as are listed."""
        return max(self.public_trials, self.n_steps(problem))

    def _mechanisms(self, problem: Problem) -> tuple[PrivateSelection, DiscreteLaplace | None, DiscreteLaplace]:
        """For the choice, for the number of pairs where such are counted, and for the score."""
        steps, per_step, s = problem.record_steps, problem.score_per_step, self.score_share
        if in_pairs(problem) is None:
            select, score = split_epsilon(problem, (1.0 - s, s))
            number = None
        else:
            parts = (1.0 - s, s * SHARE_OF_PAIRS, s * (1.0 - SHARE_OF_PAIRS))
            select, pairs, score = split_epsilon(problem, parts)
            number = DiscreteLaplace(steps, pairs, per_step)
        selection = PrivateSelection(steps, select, per_step, PERMUTE_AND_FLIP)
        return selection, number, DiscreteLaplace(steps, score, per_step)


class GridSearch(Opaque):
    """The scoring under way. Nothing is drawn before `finish`."""

    __slots__ = (
        "_all_pairs",
        "_head_start",
        "_laplace",
        "_method",
        "_number",
        "_plan",
        "_problem",
        "_selection",
        "_subset",
        "_sums",
    )

    def __init__(
        self,
        method: PrivateGrid,
        problem: Problem,
        plan: PrivacyPlan,
        selection: PrivateSelection,
        number: DiscreteLaplace | None,
        laplace: DiscreteLaplace,
    ) -> None:
        self._method, self._problem, self._plan = method, problem, plan
        self._selection, self._number, self._laplace = selection, number, laplace
        self._subset, self._head_start = method.subset(problem)
        self._sums: list[Sensitive[int]] = []
        self._all_pairs: Sensitive[int] | None = None

    def step(self, objective: Scorer, noise: Noise) -> None:  # noqa: ARG002  no noise before the end
        """Score the next candidate of the public list."""
        if self._number is not None and self._all_pairs is None:
            self._all_pairs = objective.pairs()
        index = self._subset[len(self._sums)]
        self._sums.append(objective.evaluate(self._problem.train(index)))

    def finish(self, noise: Noise) -> Release:
        """Choose by permute-and-flip, then say the chosen candidate's score with Laplace noise.

        A public list is recorded with the choice, which means nothing without it.
        """
        select = self._plan.spends[0]
        sums = np.array([total.expose() for total in self._sums], dtype=np.int64)
        utilities = Sensitive(sums + self._head_start)
        listed = (
            {} if self._method.evaluate == "all" else {f"candidate {i}": at for i, at in enumerate(self._subset)}
        )
        chosen = noise.release(select, self._selection, utilities, **listed)
        place = self._subset.index(chosen.get(f"candidate {chosen['draw']}", chosen["draw"]))
        value: dict[str, Any] = {"hyperparameters": dict(self._problem.candidates.points[self._subset[place]])}
        value |= self._said(place, noise)
        return make_release(self._method, self._problem, self._plan, noise, value)

    def _said(self, place: int, noise: Noise) -> dict[str, Any]:
        """The score of the choice with its interval, and the number of pairs where such are counted."""
        problem, score, pairs = self._problem, self._plan.spends[-1], in_pairs(self._problem)
        if pairs is None or self._number is None or self._all_pairs is None:
            drawn = noise.release(score, self._laplace, self._sums[place])
            return self._interval(unit_of(problem), drawn["draw"])
        number = noise.release(self._plan.spends[1], self._number, self._all_pairs)["draw"]
        share = beside(problem, self._subset[place])
        count = shifted(self._sums[place], self._all_pairs, share)
        drawn = noise.release(score, self._laplace, count, beside=round(share * SHARES))
        unit = unit_drawn(pairs, number, self._number.scale, drawn["beside"] / SHARES)
        return {**self._interval(unit, drawn["draw"]), PAIRS: problem.score_per_step / unit.per_step}

    def _interval(self, unit: Unit, draw: int) -> dict[str, Any]:
        said = unit.said(draw)
        scale = unit.deviation(self._laplace.scale, said)
        return {
            "score": said,
            "interval": list(bounded_laplace_interval(said, scale, self._problem.score_range)),
        }
