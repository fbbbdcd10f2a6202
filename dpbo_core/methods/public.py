"""The public score alone: what the public training set thinks best, chosen for nothing; its score is paid for.

| symbol | name here | meaning | shape |
|---|---|---|---|
| p | `search_on_public_data` | cross-validated score on the public training set | (N,) |
| λ⁺ | `choice` | the candidate of the largest p among those tried: a public fact | index into Λ |
| u | `_sum` | exact integer sum of its scores | integer |
| ε | `epsilon` | discrete Laplace noise on u; nothing else is drawn | scalar |

Every method that chooses privately has to lose less than this one, or its ε is wasted on the choice.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

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
from dpbo_core.objective.in_memory import Scorer
from dpbo_core.privacy.certified import MEANS, Shown, one_record_moves
from dpbo_core.privacy.guarantee import Evidence, Standing
from dpbo_core.privacy.plan import PrivacyPlan
from dpbo_core.privacy.release import Release
from dpbo_core.privacy.sensitive import Opaque, Sensitive
from dpbo_core.problem import Problem
from dpbo_core.public_search import check_trials, search_on_public_data, searched, surely_tried
from dpbo_core.theorems.feldman_cousins_1998 import bounded_laplace_interval

EVIDENCE = Evidence(Standing.STANDARD, "the discrete Laplace on one score; the choice is a public fact")


@dataclass(frozen=True)
class Public:
    """Pure ε-DP: the public training set chooses, the private score of its choice is released.

    Attributes:
        public_trials: candidates that are cross-validated on the public training set.
    """

    DESCRIBED: ClassVar = Described(
        wants="no private choice: a public set like the sensitive one",
        gives="the public choice and its private score",
        needs="a public set that is like the sensitive one",
        delta="0",
        trainings="1",
    )

    public_trials: int = 256
    kind: Literal["public"] = "public"

    def __post_init__(self) -> None:
        check_trials(self.public_trials)

    @property
    def public_path(self) -> bool:
        """The one candidate that is scored is a public fact."""
        return True

    @property
    def hides_evaluations(self) -> bool:
        """How many models are scored is public: one."""
        return False

    @property
    def releases_hyperparameters(self) -> bool:
        """True: those of the public choice."""
        return True

    def n_steps(self, problem: Problem) -> int:  # noqa: ARG002  the same on every problem
        """1: only the public choice is scored."""
        return 1

    @staticmethod
    def forms(problem: Problem) -> tuple["Public", ...]:  # noqa: ARG004  the same on every problem
        """It has one form."""
        return (Public(),)

    def simulated(self, problem: Problem) -> Simulated:
        """No noise is in the choice; the score has all of ε."""
        (spend,) = self.plan(problem).spends
        records = problem.score_range / spend.noise_scale
        return Simulated(self.kind, records, records)

    def plan(self, problem: Problem) -> PrivacyPlan:
        """One draw, for the score."""
        spends = tuple(spend for spend, _ in self.draws(problem))
        return PrivacyPlan(guarantee_of(problem, pure=True, evidence=EVIDENCE), spends)

    def draws(self, problem: Problem) -> Draws:
        """The one draw of the plan."""
        laplace = self.laplace(problem)
        return ((laplace.spend("its score"), laplace),)

    @staticmethod
    def shown(release: Release) -> Shown:
        """One draw, of a mean that every record moves by its own share."""
        made = {"its score": tuple(DiscreteLaplace.WORTH)}
        return Shown(made, one_record_moves(release), relations=MEANS)

    def outlook(self, problem: Problem) -> Outlook:
        """The noise of the score. What the choice loses is not the noise's doing."""
        scale = self.laplace(problem).scale * problem.score_per_step
        why = (
            "chooses by the public score alone, which costs no privacy and is as good as the public set is like "
            f"the sensitive one; all of ε is for its score, noise of scale {scale:.2g}; δ = 0"
        )
        return Outlook(scale, scale, 1, why)

    def prepare(self, problem: Problem) -> Problem:
        """Cross-validate, which is all of the choosing."""
        return searched(problem, self.public_trials)

    def cross_validated(self, problem: Problem) -> tuple[int, ...]:
        """What the public search begins with."""
        return surely_tried(problem, self.public_trials)

    def choice(self, problem: Problem) -> int:
        """λ⁺, the first of the largest public scores."""
        found = search_on_public_data(problem, self.public_trials)
        return found.tried[int(np.argmax(found.scores))]

    def start(self, problem: Problem, plan: PrivacyPlan) -> "PublicChoice":
        """A choice made, and nothing scored."""
        return PublicChoice(self, problem, plan)

    def laplace(self, problem: Problem) -> DiscreteLaplace:
        """The mechanism of its score, at all of ε."""
        (epsilon,) = split_epsilon(problem, (1.0,))
        return DiscreteLaplace(problem.record_steps, epsilon, problem.score_per_step)


class PublicChoice(Opaque):
    """The one scoring under way. Nothing is drawn before `finish`."""

    __slots__ = ("_choice", "_laplace", "_method", "_plan", "_problem", "_sum")

    def __init__(self, method: Public, problem: Problem, plan: PrivacyPlan) -> None:
        self._method, self._problem, self._plan = method, problem, plan
        self._laplace, self._choice = method.laplace(problem), method.choice(problem)
        self._sum: Sensitive[int] | None = None

    def step(self, objective: Scorer, noise: Noise) -> None:  # noqa: ARG002  no noise before the end
        """Score the public choice."""
        self._sum = objective.evaluate(self._problem.train(self._choice))

    def finish(self, noise: Noise) -> Release:
        """Say its score with Laplace noise."""
        (spend,) = self._plan.spends
        if self._sum is None:
            raise ValueError("nothing was scored")
        per_step = self._problem.score_per_step
        said = noise.release(spend, self._laplace, self._sum)["draw"] * per_step
        interval = bounded_laplace_interval(said, self._laplace.scale * per_step, self._problem.score_range)
        value = {
            "hyperparameters": dict(self._problem.candidates.points[self._choice]),
            "score": said,
            "interval": list(interval),
        }
        return make_release(self._method, self._problem, self._plan, noise, value)
