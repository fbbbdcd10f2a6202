"""Scores that are paid for one at a time: each is a private query of its own, and one may stop when one likes.

| symbol | name here | meaning | shape |
|---|---|---|---|
| n | `ObjectivePrice.n_scores` | a score costs what one of n would that share (ε, δ) | scalar |
| ρ₁ | `units` | of one score, ρ*/n, rounded down | integer of 10⁻¹² |
| ε(tρ₁) | `_epsilon` | what t scores guarantee at δ together, rounded up | scalar |

The dataset's cap is a filter: it admits the next score as long as all that was charged stays within the cap,
whatever decided that there is a next one (MATH §6.5). So what was not asked for costs nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpbo_core.accounting.composition import Total, largest_rho
from dpbo_core.errors import NoScoresLeft, StudyInvalid
from dpbo_core.methods.pricing import too_small
from dpbo_core.preparation.context import QueryContext
from dpbo_core.privacy.guarantee import PrivacyGuarantee
from dpbo_core.privacy.release import ALL_PAIRS, COUNTS, Release
from dpbo_core.queries.objective_for_a_loop.parameters import canonical_text, parameters_of
from dpbo_core.queries.objective_for_a_loop.price import ObjectivePrice, number_name, score_name
from dpbo_core.queries.objective_for_a_loop.released_score import Score, best_caption, unit_by_number
from dpbo_core.queries.objective_for_a_loop.score_session import (
    OpenObjective,
    ScoreSession,
    no_scores_left,
    nothing_scored,
)
from dpbo_core.queries.objective_for_a_loop.smoothed_choice import smoothed
from dpbo_core.queries.objective_for_a_loop.submission import Submission
from dpbo_core.queries.query import fingerprint_of


@dataclass(frozen=True, eq=False, repr=False)
class _Charged:
    """One score that was charged: its session, what was asked (None before its draw), its release (None before)."""

    session: ScoreSession
    text: str | None
    release: Release | None


@dataclass(frozen=True, eq=False, repr=False)
class PayAsYouGo:
    """Private scores, each charged when it is asked for the first time. Its repr says nothing.

    Attributes:
        opened: the objective that would pay for n scores at once; its price says what one costs.
        run: which ledger pays, who asks.
    """

    opened: OpenObjective
    run: QueryContext

    def __post_init__(self) -> None:
        if self.opened.price.choice_share != 0.0:
            raise StudyInvalid(
                "scores that are paid for one at a time keep nothing for a choice",
                cause="choice_share is a share of a budget that is reserved as a whole",
                remedy="leave choice_share out; best() chooses by what was released",
            )

    def ask(self, parameters: Any) -> Score:
        """The private score of the model at `parameters`, charged and drawn at the first request, then repeated.

        Raises:
            NoScoresLeft: n other hyperparameters were asked about.
            BudgetRefused: the dataset's cap has no room for one more; what was released stands.
            StudyInvalid, AssumptionNotAccepted, Sealed: as `ScoreSession.ask`.
        """
        return self._scored(canonical_text(parameters_of(parameters)), lambda session: session.ask(parameters))

    def submit(self, submission: Submission) -> Score:
        """The private score of a submitted model or predictions, charged and drawn at first, then repeated.

        Raises: as `ask`.
        """
        return self._scored(submission.text, lambda session: session.submit(submission))

    def _scored(self, text: str, drawn: Callable[[ScoreSession], Score]) -> Score:
        """The score that `drawn` asks of the session that has the one of `text`, or of the first without any."""
        for _ in range(self.opened.price.n_scores):
            session = self._session_for(text)
            try:
                score = drawn(session)
            except NoScoresLeft:  # another's was drawn there in the same moment
                continue
            session.close()
            return score
        raise no_scores_left(self.opened.price.n_scores)

    def _session_for(self, text: str) -> ScoreSession:
        """The session of the score of `text`, else the first in which none was drawn; refused where n have one."""
        charged = self._charged()
        for one in charged:
            if one.text in (text, None):
                return one.session
        if len(charged) == self.opened.price.n_scores:
            raise no_scores_left(len(charged))
        return self._session(len(charged) + 1)

    @property
    def scores_left(self) -> int:
        """How many of the n scores were not drawn yet; the dataset's cap may refuse one all the same."""
        return self.opened.price.n_scores - sum(one.text is not None for one in self._charged())

    def best(self) -> dict[str, Any]:
        """The hyperparameters with the largest posterior mean among those scored, at no price.

        Raises:
            StudyInvalid: nothing was asked yet.
        """
        sessions = [one.session for one in self._charged() if one.release is not None]
        scored = [one for session in sessions for one in session.scored()]
        if not scored:
            raise nothing_scored()
        unit = unit_by_number(self._price, [number for session in sessions for number in session.numbers()])
        posterior = smoothed(
            [point for point, _ in scored],
            [unit.score(draw) for _, draw in scored],
            deviation=self._price.scores()[0].scale * unit.per_step,
            score_range=self.opened.price.problem.score_range,
        )
        return dict(scored[int(np.argmax(posterior.mean))][0])

    @property
    def releases(self) -> tuple[Release, ...]:
        """The release of every score, in the order in which they were charged."""
        return tuple(one.release for one in self._charged() if one.release is not None)

    @property
    def trajectory(self) -> list[dict[str, Any]]:
        """Every private score drawn so far, in order: its step, hyperparameters and value."""
        return [
            {**release.value["trajectory"][0], "step": step} for step, release in enumerate(self.releases, start=1)
        ]

    @property
    def release(self) -> Release:
        """All scores released so far as one release; not recorded, since each score's own release is.

        Raises:
            StudyInvalid: nothing was asked yet.
        """
        best, releases = self.best(), self.releases
        session, of_best = next(
            (one.session, one.release)
            for one in self._charged()
            if one.release is not None and one.release.value["hyperparameters"] == best
        )
        spends = [
            replace(spend, what=number_name(t) if spend.what == ALL_PAIRS else score_name(t))
            for t, one in enumerate(releases, start=1)
            for spend in one.spends
        ]
        value = {**of_best.value, "trajectory": self.trajectory}
        if (
            value["score"] is not None and COUNTS in of_best.facts
        ):  # its interval allows for its being the best of n
            unit, ((_, draw),) = unit_by_number(self._price, session.numbers()), session.scored()
            n = self.opened.price.n_scores
            value |= best_caption(self._price, unit, draw, value["score"], value["interval"], n)
        facts = {**of_best.facts, "steps": len(releases)}
        return replace(
            of_best,
            value=value,
            guarantee=self.guarantee,
            spends=tuple(spends),
            facts=facts,
            release_id="",
            ledger={},
        )

    def close(self) -> Release:
        """All scores released so far as one release; nothing is left to record."""
        return self.release

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """The guarantee of all scores charged so far together; of one score before any was."""
        single = self._price.plan().guarantee
        return replace(single, epsilon=self._epsilon(max(1, len(self._charged()))))

    def _charged(self) -> list["_Charged"]:
        """The scores that were charged, released or not, in order: none is charged before the last one is drawn."""
        key, charged = self.opened.key, list[_Charged]()
        editions = self.run.ledger.editions(key.study, dataset=key.dataset)
        releases = {one.release_id: one.release for one in editions}
        for number in range(1, self.opened.price.n_scores + 1):
            session = self._session(number)
            name = session.opened.key.fingerprint[:16]
            if name not in releases:
                break
            release = releases[name]
            steps = session.trajectory if release is None else release.value["trajectory"]
            text = canonical_text(steps[0]["hyperparameters"]) if steps else None
            charged.append(_Charged(session, text, release))
        return charged

    def _session(self, number: int) -> ScoreSession:
        """A session for one score, the `number`-th of n, under a ledger key of its own.

        A key is of a number and not of what is asked, so that the ledger holds n of them, whoever asks at once.
        """
        key = self.opened.key
        fingerprint = fingerprint_of([key.fingerprint, number])
        own = replace(key, fingerprint=fingerprint, edition=f"{key.edition}.{fingerprint[:8]}")
        return ScoreSession(replace(self.opened, key=own, price=self._price), self.run)

    @property
    def _price(self) -> ObjectivePrice:
        """The price of a single score: an objective of n = 1 at (ε(ρ₁), δ)."""
        problem = self.opened.price.problem
        return replace(self.opened.price, problem=replace(problem, epsilon=self._epsilon(1)), n_scores=1)

    def _epsilon(self, scores: int) -> float:
        """The ε of so many scores together at the study's δ, ε(tρ₁), rounded up."""
        problem = self.opened.price.problem
        units = largest_rho(problem.epsilon, problem.delta) // self.opened.price.n_scores
        if units < 1:
            raise too_small(problem)
        return Total(None, 0, scores * units).epsilon(problem.delta)[0] * (1.0 + 1e-12)
