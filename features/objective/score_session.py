"""A session of private scores: n are paid for at once, and anybody's search asks for them one at a time.

    session = ScoreSession(opened, run)
    session.ask({"C": 1.0})       trained on public data, scored, noised, recorded, returned; the same again is free
    session.best()                the best of what was asked
    session.close()               the release, recorded once

Score t is drawn under the name "score t", whoever asks: hyperparameters take the first number that the ledger has
not, and where another process took it in the same moment the ledger gives back that one's draw, and the next number
is tried. So however many ask at once, nothing is drawn twice, and the ledger says what was asked.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import RLock
from typing import Any

import numpy as np

from dpbo.features.objective.parameters import (
    Parameters,
    canonical_text,
    check_in_space,
    parameters_of,
    read_parameters,
)
from dpbo.features.objective.price import (
    CHOICE_DRAW,
    ObjectivePrice,
    Score,
    best_caption,
    score_name,
    score_of_draw,
)
from dpbo.features.objective.smoothed_choice import Smoothed, smoothed
from dpbo.features.objective.submission import MODEL, TABLE, Submission
from dpbo_core.errors import DpboError, NoScoresLeft, Sealed, StudyInvalid
from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.charge import QueryKey
from dpbo_core.mechanisms.noise import standing_of
from dpbo_core.methods.contract import averaged_facts
from dpbo_core.methods.pair_draws import DEFAULT_PUBLIC_SCORE, Unit, in_pairs, on_grid, unit_drawn, unit_of
from dpbo_core.models.isolated_estimator import contained
from dpbo_core.models.scoring.in_memory import ScorableModel, Scorer, evaluate_all, shifted
from dpbo_core.privacy.guarantee import PrivacyGuarantee
from dpbo_core.privacy.release import ALL_PAIRS, COUNTS, PAIRS, Release
from dpbo_core.privacy.sensitive import Message, Opaque, Sensitive, sealed
from dpbo_core.study import StudySpec
from dpbo_core.study.model import PREDICTIONS
from dpbo_core.study.public_half import PublicHalf, TableSplit
from dpbo_core.study.query import Charged, PrivateQuery, QueryContext, charged, replay, resumed


@dataclass(frozen=True, eq=False, repr=False)
class OpenObjective:
    """A private objective of which all that is public is done: nothing is charged, no record was read."""

    key: QueryKey  # what the ledger knows it by
    price: ObjectivePrice  # with the problem and its public training set
    spec: StudySpec  # the study that says the model and the score
    split: TableSplit  # its two halves; the sensitive one is read after the charge only
    public: PublicHalf
    cap: PrivacyBudget | None  # to be opened if the dataset has none
    message: Message | None = None  # what may leave of an error of that reading

    @property
    def query(self) -> PrivateQuery:
        """Return all scores that may be asked for, and the choice if it is paid for, as one query to charge."""
        price = self.price
        k = price.problem.max_records_per_person
        return PrivateQuery(
            self.key,
            price.plan(),
            self.split.sources(),
            self.cap,
            k,
            until_released=True,
            draws=price.draws(),
            useless=price.useless,
        )


class ScoreSession(Opaque):
    """Running scores, in the curator's process. Threads may ask at once; its repr says nothing."""

    __slots__ = ("_charge", "_lock", "_mechanisms", "_run", "_scorer", "_spends", "opened")

    def __init__(self, opened: OpenObjective, run: QueryContext) -> None:
        self.opened, self._run = opened, run
        self._mechanisms = opened.price.scores()
        self._spends = {spend.what: spend for spend in opened.price.plan().spends}
        self._charge: Charged | None = None
        self._scorer: Scorer | None = None
        self._lock = RLock()

    def ask(self, parameters: Any) -> Score:
        """The private score of the model at `parameters`, drawn once; the first request of all pays for all n."""
        parameters = parameters_of(parameters)
        check_in_space(parameters, self.opened.price.problem.candidates.space)
        text, draws = canonical_text(parameters), self._draws()
        if text not in draws:
            self._check_left(draws)
            model = self._train(parameters)
            draws = self._with_score(text, lambda records: records.evaluate(model))
        return self._score_of_draw(*draws[text])

    def submit(self, submission: Submission) -> Score:
        """The private score of a model or predictions, drawn once, then repeated; refused beside a paid choice."""
        submission.check(self.opened.price.plan().guarantee)
        if self.opened.price.choice_share != 0.0:
            raise StudyInvalid(
                "a choice on exact scores needs every model again, and what is handed in is not kept",
                remedy="leave choice_share out: best() chooses by what was released",
            )
        draws = self._draws()
        if submission.text not in draws:
            self._check_left(draws)
            draws = self._with_score(
                submission.text, lambda records: submission.records(records).evaluate(submission.model)
            )
        return self._score_of_draw(*draws[submission.text])

    @property
    def scored(self) -> bool:
        """Whether models were scored in this process. From then on an estimator may remember a record."""
        return self._scorer is not None

    def best(self) -> dict[str, Any]:
        """The best hyperparameters so far, by posterior mean or, if paid for, a private choice drawn once."""
        draws = self._draws()
        points = _points(draws)
        choice, made = self.opened.price.choice(), self._choice_made()
        if choice is not None and made is None:
            models = [self._train(parameters) for parameters in points]  # again: none is kept
            charge, records = self._charged()
            drawn = charge.draw(self._spends[CHOICE_DRAW], choice, lambda: evaluate_all(records, models).vector)
            made = int(drawn["draw"])
        return dict(points[int(np.argmax(self._smoothed_scores(points, draws).mean)) if made is None else made])

    def close(self) -> Release:
        """Record the release of all scores and of a paid choice, drawn if it was not; nothing more is scored."""
        recorded = replay(self.opened.key, self._run)
        if recorded is not None:
            return recorded
        self.best()  # a choice that was paid for is part of the release
        return self._concluded(resumed(self.opened.key, self._run))

    def _concluded(self, charge: Charged) -> Release:
        """Record the release of every score drawn until then and return it, safe against concurrent requests."""
        while True:
            before = self._recorded()

            def check(drawn: Mapping[str, Any], before: Mapping[str, Any] = before) -> None:
                if drawn.keys() != before.keys():
                    raise DpboError("another score was drawn", remedy="close again")

            try:
                return charge.conclude(self._release(), check=check)
            except DpboError:
                if self._recorded().keys() == before.keys():
                    raise

    @property
    def scores_left(self) -> int:
        """The number of scores that can still be asked for; 0 once closed."""
        closed = replay(self.opened.key, self._run) is not None
        return 0 if closed else len(self._mechanisms) - len(self._draws())

    @property
    def trajectory(self) -> list[dict[str, Any]]:
        """Every private score drawn so far, in order: its step, hyperparameters and value."""
        return [
            {"step": t, "hyperparameters": read_parameters(text), "score": self._score_of_draw(t, draw).value}
            for text, (t, draw) in self._draws().items()
        ]

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """The guarantee of all n scores and of all post-processing of them."""
        return self.opened.price.plan().guarantee.as_drawn(standing_of(self._run.source))

    @property
    def release(self) -> Release:
        """All scores released so far, not recorded yet; once closed, the recorded release."""
        return replay(self.opened.key, self._run) or self._release()

    def _recorded(self) -> Mapping[str, Any]:
        """Return every noise draw of the session in the ledger, by name, as its outcome and its time."""
        return self._run.ledger.drawn(self.opened.key.fingerprint)

    def _draws(self) -> dict[str, tuple[int, int]]:
        """Each score's number and noisy integer, by hyperparameters (canonical text), in the order of drawing."""
        drawn = self._recorded()
        outcomes = [(t, drawn[score_name(t)][0]) for t in range(1, len(drawn) + 1) if score_name(t) in drawn]
        return {outcome["parameters"]: (t, outcome["draw"]) for t, outcome in outcomes}

    def _check_left(self, draws: Mapping[str, tuple[int, int]]) -> None:
        n = len(self._mechanisms)
        closed = replay(self.opened.key, self._run) is not None
        if closed or len(draws) >= n:
            raise NoScoresLeft(
                f"this objective is closed after {len(draws)} of {n} scores"
                if closed
                else f"all {n} scores of this objective were asked for",
                cause="every score has its price, and no more were to be paid for",
                remedy="stop the search here (n_trials = scores_left): nothing is lost, and best() says which was "
                "best; more scores are a new edition, and a new spend",
            )

    def _train(self, parameters: Parameters) -> ScorableModel:
        """Return the model at `parameters`: a function of them, the public training set and the seed.

        Once records were scored, an estimator that is not allowlisted may remember some. So its output and its
        error messages are suppressed.
        """
        problem = self.opened.price.problem
        if problem.rowwise or not self.scored:
            return problem.train_at(parameters)
        with contained():
            return sealed(lambda: problem.train_at(parameters), failure=_untrained)

    def _with_score(self, text: str, scored: Callable[[Scorer], Sensitive[int]]) -> dict[str, tuple[int, int]]:
        """Draw the score of the hyperparameters `text` if it is new; return all scores so far, as `_draws`."""
        charge, records = self._charged()
        pairs = self.opened.price.number()  # None of a mean
        if pairs is not None:
            charge.draw(self._spends[ALL_PAIRS], pairs, records.pairs)
        sums: list[Sensitive[int]] = []

        def exact() -> Sensitive[int]:
            if not sums:
                total, beside = scored(records), on_grid(DEFAULT_PUBLIC_SCORE)
                sums.append(total if pairs is None else shifted(total, records.pairs(), beside))
            return sums[0]

        draws = self._draws()
        while text not in draws:
            self._check_left(draws)
            number = len(draws) + 1
            spend = self._spends[score_name(number)]
            try:
                charge.draw(spend, self._mechanisms[number - 1], exact, parameters=text)
            except Sealed:
                self._check_left(draws)  # it was closed in this moment: the ledger draws nothing after a release
                raise
            draws = self._draws()
        return draws

    def _charged(self) -> tuple[Charged, Scorer]:
        """Charge all scores, then open the sensitive records, once a process: the charge and their scorer."""
        with self._lock:
            if self._charge is None:
                self._charge = charged(self.opened.query, self._run)
            if self._scorer is None:
                self._scorer = sealed(
                    lambda: self.opened.split.sensitive(self.opened.public), message=self.opened.message
                )
            return self._charge, self._scorer

    def _choice_made(self) -> int | None:
        """The index, in the order of drawing, that the final choice drew; None before."""
        drawn = self._recorded().get(CHOICE_DRAW)
        return None if drawn is None else int(drawn[0]["draw"])

    def _smoothed_scores(self, points: Sequence[Parameters], draws: Mapping[str, tuple[int, int]]) -> Smoothed:
        """Return the Gaussian process posterior of the scores at these points."""
        unit = self._unit()
        return smoothed(
            points,
            [unit.score(draw) for _, draw in draws.values()],
            deviation=max(self._mechanisms[number - 1].scale for number, _ in draws.values()) * unit.per_step,
            score_range=self.opened.price.problem.score_range,
        )

    def _unit(self) -> Unit:
        """The map from a noisy integer to a score; of pairs by their noised number, which was drawn before."""
        problem, number = self.opened.price.problem, self.opened.price.number()
        pairs = in_pairs(problem)
        if pairs is None or number is None:
            return unit_of(problem)
        drawn = self._recorded().get(ALL_PAIRS)
        return unit_drawn(pairs, 0 if drawn is None else drawn[0]["draw"], number, on_grid(DEFAULT_PUBLIC_SCORE))

    def _score_of_draw(self, number: int, draw: int) -> Score:
        return score_of_draw(self.opened.price, self._unit(), number, draw)

    def _release(self) -> Release:
        """A release of all scores and the best so far, with its public facts, not recorded. Nothing is drawn."""
        problem = self.opened.price.problem
        draws = self._draws()
        points = _points(draws)
        posterior, made = self._smoothed_scores(points, draws), self._choice_made()
        best = int(np.argmax(posterior.mean)) if made is None else made
        score, interval = float(posterior.mean[best]), posterior.interval(best, problem.score_range)
        draw, n = [*draws.values()][best][1], len(self._mechanisms)
        unit = problem.score.natural_unit
        baseline = {} if problem.baseline is None else {"baseline": unit.of(problem.baseline)}
        value = {
            "hyperparameters": dict(points[best]),
            **best_caption(self.opened.price, self._unit(), draw, score, interval, n),
            "trajectory": self.trajectory,
        }
        return self.opened.query.release(
            value,
            standing_of(self._run.source),
            {
                "estimator": PREDICTIONS if {*points[best]} & {MODEL, TABLE} else problem.model.estimator,
                "score": problem.model.score_name,
                "score_range": problem.score_range,
                **baseline,
                **averaged_facts(problem),
                "steps": len(self._mechanisms),
                "choice_share": self.opened.price.choice_share,
                **({COUNTS: PAIRS, "public_share": problem.positives} if in_pairs(problem) else {}),
            },
        )


def _points(draws: Mapping[str, tuple[int, int]]) -> list[dict[str, Any]]:
    """Return the hyperparameters that were asked about, in the order of drawing; refused if there are none."""
    if not draws:
        raise StudyInvalid("no score was asked for yet", remedy="ask for some first")
    return [read_parameters(text) for text in draws]


def _untrained() -> StudyInvalid:
    """Return the error of a training on public rows that failed, without the estimator's own message."""
    return StudyInvalid(
        "a model could not be trained on the public rows",
        cause="the estimator refuses these hyperparameters; it is not scikit-learn's own, so its words stay here",
        remedy="train it on the public rows alone, and see; no score was used up",
    )
