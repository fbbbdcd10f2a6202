"""The public score alone: what the public training set thinks best, chosen for nothing; its score is paid for.

| symbol | name here | meaning | shape |
|---|---|---|---|
| p | `search_on_public_data` | cross-validated score on the public training set | (N,) |
| λ⁺ | `choice` | the candidate of the largest p among those tried: a public fact | index into Λ |
| u | `_sum` | exact integer sum of its scores | integer |
| ε | `epsilon` | discrete Laplace noise on u; nothing else is drawn | scalar |

By a count of pairs u is C₂, and a share of ε draws their number (`pair_draws`).

Every method that chooses privately has to lose less than this one, or its ε is wasted on the choice.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpbo_core.mechanisms.laplace import DiscreteLaplace
from dpbo_core.mechanisms.noise import Noise
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
from dpbo_core.methods.pair_draws import in_pairs, one_unit_moves, relations_of, score_caption, shares_of
from dpbo_core.methods.problem import Problem
from dpbo_core.methods.public_search import search_on_public_data
from dpbo_core.models.scoring.in_memory import Scorer
from dpbo_core.privacy.certified import CertificateRules
from dpbo_core.privacy.guarantee import Evidence, PrivacyGuarantee, Standing
from dpbo_core.privacy.release import ALL_PAIRS, COUNTS, PrivacyPlan, Release
from dpbo_core.privacy.sensitive import Opaque, Sensitive

EVIDENCE = Evidence(Standing.STANDARD, "the discrete Laplace on one score; the choice is a public fact")
SCORE_DRAW = "its score"  # the draw's name


@dataclass(frozen=True)
class Public(Method):
    """Pure ε-DP: the public training set chooses, the private score of its choice is released.

    Attributes:
        public_trials: candidates that are cross-validated on the public training set.
    """

    wants = "no private choice: a public set like the sensitive one"
    gives = "the public choice and its private score"
    needs = "a public set that is like the sensitive one"
    condition = "the two populations are alike"
    delta_range = "0"
    trainings = "1"
    observable = "the public choice; how long scoring takes"
    scope = Scope.PAIRS
    public_path = True  # the one candidate that is scored is a public fact
    fits_lengthscale = True  # the public search fits its own

    public_trials: int = 256
    kind: Literal["public"] = "public"

    def __post_init__(self) -> None:
        self.check_option("public_trials", "ask for at least 1; 256 is usual", fine=self.public_trials >= 1)

    def n_steps(self, problem: Problem) -> int:  # noqa: ARG002  the same on every problem
        """Return the number of steps, always 1: only the public choice is scored."""
        return 1

    @staticmethod
    def forms(problem: Problem) -> tuple["Public", ...]:  # noqa: ARG004  the same on every problem
        """Return the one variant that the advice compares, on every problem."""
        return (Public(),)

    def simulated(self, problem: Problem) -> Simulated:
        """Return this method's place in the advice's simulation, by the record counts that match its noise."""
        metric_per_score = problem.metric_per_step / problem.score_per_step
        records = problem.score_range / (self.plan(problem).spends[-1].noise_scale * metric_per_score)
        return Simulated(self.kind, records, records)

    def guarantee(self, problem: Problem) -> PrivacyGuarantee:
        """Pure ε-DP: the noise on the score, and on the number of pairs where these are counted."""
        return guarantee_of(problem, delta=0.0, evidence=EVIDENCE, scope=self.scope)

    def draws(self, problem: Problem) -> Draws:
        """The plan's noise draws with their mechanisms: the number of pairs if they are counted, and the score."""
        names = (SCORE_DRAW,) if in_pairs(problem) is None else (ALL_PAIRS, SCORE_DRAW)
        return tuple((m.spend(name), m) for name, m in zip(names, self.laplaces(problem), strict=True))

    @staticmethod
    def certificate_rules(release: Release) -> CertificateRules:
        """What a certificate must state: a draw of the score, and one of the number of pairs where counted."""
        names = (SCORE_DRAW, ALL_PAIRS) if COUNTS in release.facts else (SCORE_DRAW,)
        made = {name: tuple(DiscreteLaplace.WORTH) for name in names}
        return CertificateRules(made, one_unit_moves(release), relations=relations_of(release))

    def outlook(self, problem: Problem) -> Outlook:
        """The expected error of the score's noise; the loss of choosing by public data alone is not in it."""
        scale = self.laplaces(problem)[-1].scale * problem.metric_per_step
        why = (
            "chooses by the public score alone, which costs no privacy and is as good as the public set is like "
            f"the sensitive one; all of ε is for its score, noise of scale {scale:.2g}; δ = 0"
        )
        return Outlook(scale, scale, 1, why)

    def n_cross_validated(self, problem: Problem) -> int:  # noqa: ARG002  the same on every problem
        """Return the number R of candidates to cross-validate, `public_trials`: that makes the choice."""
        return self.public_trials

    def choice(self, problem: Problem) -> int:
        """The candidate λ⁺ of the largest public score, as an index; a public search that is lacking is made."""
        public_search = search_on_public_data(problem, self.public_trials)
        return public_search.tried[int(np.argmax(public_search.scores))]

    def choices(self, problem: Problem) -> tuple[int, ...]:
        """Return indices of what may be chosen: the best on public data alone; a search that is lacking is made."""
        return (self.choice(problem),)

    def start(self, problem: Problem, plan: PrivacyPlan) -> "PublicChoice":
        """A search that has scored and drawn nothing yet; a public search that `problem` lacks is made here."""
        return PublicChoice(self, problem, plan)

    def laplaces(self, problem: Problem) -> tuple[DiscreteLaplace, ...]:
        """The mechanisms of the number of pairs, where such are counted, and of the score: together all of ε."""
        parts = split_epsilon(problem, shares_of(problem, 1.0))
        return tuple(DiscreteLaplace(problem.record_steps, part, problem.score_per_step) for part in parts)


class PublicChoice(Opaque):
    """The search of `public`, which scores one candidate. Nothing is drawn before `finish`."""

    __slots__ = ("_choice", "_drawn", "_method", "_plan", "_problem")

    def __init__(self, method: Public, problem: Problem, plan: PrivacyPlan) -> None:
        self._method, self._problem, self._plan = method, problem, plan
        self._choice = method.choice(problem)
        self._drawn: list[Sensitive[int]] = []  # in the order of the plan

    def step(self, objective: Scorer, noise: Noise) -> None:  # noqa: ARG002  no noise before the end
        """Score the candidate that is best on public data, exactly; nothing is released before `finish`."""
        if in_pairs(self._problem) is not None:
            self._drawn.append(objective.pairs())
        self._drawn.append(objective.evaluate(self._problem.train(self._choice)))

    def finish(self, noise: Noise) -> Release:
        """Draw the release: the candidate that is best on public data, and its score with Laplace noise."""
        laplaces = self._method.laplaces(self._problem)
        *number, score = zip(self._plan.spends, laplaces, self._drawn, strict=True)
        value = {
            "hyperparameters": dict(self._problem.candidates.points[self._choice]),
            **score_caption(self._problem, noise, self._choice, score, number[0] if number else None),
        }
        return make_release(self._method, self._problem, self._plan, noise, value)
