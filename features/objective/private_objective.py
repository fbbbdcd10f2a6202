"""`PrivateObjective`: a budget of private scores for anybody's search, on tables in memory.

Optuna, Ax, scikit-optimize or a person asks for the score of hyperparameters, and gets it with noise. All n scores
are paid for together, so the whole loop has one guarantee, whatever it asks and whenever it stops.
"""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, Self

from dpbo.features.objective.objective_handle import ObjectiveHandle, StudyObjective, open_objective
from dpbo.features.objective.score_session import ScoreSession
from dpbo_core.errors import DpboError
from dpbo_core.ledger.address import ledger_url
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.methods.advice import AUTO
from dpbo_core.models.scores.union import OF_CLASSES
from dpbo_core.sklearn_api.arguments import number_of, python_door, whole_number_of
from dpbo_core.sklearn_api.search_study import split_of, two_tables
from dpbo_core.study.query import QueryContext
from dpbo_core.study.resolve import planning_problem
from dpbo_core.study.sections import ObjectiveSection


@dataclass(eq=False, repr=False)
class PrivateObjective(ObjectiveHandle):
    """The private score of hyperparameters, as a function: for a search that is not ours.

    Models are trained on the public X and y alone, and scored on the SENSITIVE validation set. A question is a dict
    of numbers, texts, truth values or None. Its score is drawn once: asked again it is the same, at no cost.

    Args:
        estimator: any scikit-learn classifier or regressor; a question sets parameters of a clone.
        epsilon: ε of all scores and of whatever is made of them.
        delta: δ of the same, above 0.
        dataset: the budget's name. Data that share people share a name.
        n_scores: how many different questions are answered.
        budget: (ε, δ) of the data set's cap, set at its first use; without any cap the ledger refuses.
        scoring: as `PrivateSearch` has it.
        choice_share: share of the budget kept for `best`, which then chooses on exact scores; 0 chooses by what was
            released.
        ledger: the ledger's URL; where None that of the command.
        score_bounds: (low, high) of a score function.
        error_bound: E of an error or the log-loss: public.
        class_shares: public share of each class for the balanced accuracy.
        person: the column of X_validation that says whose record it is.
        max_records_per_person: k.
        n_persons: how many persons X_validation is about; each then counts once, by the mean.
        accepts: assumptions you answer for, by name; "rowwise_predictions" for estimators of others.
        rowwise: "enforced" scores every validation record alone, in a process of its own.
        study: the name in the ledger.
        edition: the same questions asked twice give the same scores; new data is a new edition, and a new spend.
        random_state: seeds training. Noise is never seeded.

    Example:
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.linear_model import LogisticRegression
        >>> from dpbo import PrivateObjective
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> objective = PrivateObjective(
        ...     LogisticRegression(solver="liblinear"), epsilon=1.0, delta=1e-6, dataset="clinic", n_scores=3,
        ...     budget=(5.0, 1e-5),
        ... ).fit(X[0::2], y[0::2], X_validation=X[1::2], y_validation=y[1::2])
        >>> scores = [objective({"C": C}) for C in (0.01, 1.0, 0.01)]
        >>> scores[0] == scores[2], objective.scores_left, sorted(objective.best())
        (True, 1, ['C'])
    """

    estimator: Any
    _: KW_ONLY
    epsilon: float
    delta: float
    dataset: str
    n_scores: int
    budget: tuple[float, float] | None = None
    scoring: str | Callable[[Any, Any], float] = OF_CLASSES
    choice_share: float = 0.0
    ledger: str | None = None
    score_bounds: tuple[float, float] | None = None
    error_bound: float | None = None
    class_shares: Mapping[Any, float] | None = None
    person: str | None = None
    max_records_per_person: int = 1
    n_persons: int | None = None
    accepts: tuple[str, ...] = ()
    rowwise: str | None = None
    study: str = "PrivateObjective"
    edition: str = "1"
    random_state: int | None = 0

    @python_door
    def __post_init__(self) -> None:
        self.section = ObjectiveSection(
            scores=whole_number_of("n_scores", self.n_scores),
            choice_share=number_of("choice_share", self.choice_share),
        )
        # of a search of ours, which there is none of
        self.search_space: dict[str, Any] = {}
        self.method, self.options = AUTO, None
        self.n_steps, self.n_candidates = self.section.scores, 1

    @python_door
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        X_validation: Any = None,
        y_validation: Any = None,
        validation_size: float | None = None,
    ) -> Self:
        """Take the public and the sensitive table; nothing is trained, charged or scored before the first `ask`.

        Args:
            X: PUBLIC training records, (n, d).
            y: their classes or targets, (n,).
            X_validation: SENSITIVE validation records, (m, d), the same columns (and `person`); m is public.
            y_validation: their classes or targets, (m,).
            validation_size: for one table X, y, as in `PrivateSearch.fit`.

        Raises:
            StudyInvalid: something cannot be used as it is. Nothing inside a validation record is ever an error.
            AssumptionNotAccepted: the guarantee rests on something that `accepts` does not name.
        """
        run = QueryContext(PrivacyLedger(ledger_url(self.ledger)))
        tables = two_tables(self, (X, y), (X_validation, y_validation), validation_size, ledger=run.ledger)
        split = split_of(self, tables, run.ledger)
        problem = planning_problem(split.spec, unlisted=split.prototype.unlisted())
        self.session_ = ScoreSession(open_objective(split.spec, split, problem, self.section, run), run)
        return self

    @classmethod
    def from_study(cls, path: str | Path, ledger: str | None = None) -> StudyObjective:
        """Return the private objective of a study file with [objective]; several processes may ask through it."""
        return StudyObjective(path, ledger)

    def __repr__(self) -> str:
        return f"PrivateObjective({type(self.estimator).__name__}, dataset={self.dataset!r})"

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        """Return the object itself: a copy of the records would be another session's."""
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Return the settings alone: no record, no score, no session leaves the process."""
        return {name: value for name, value in self.__dict__.items() if name != "session_"}

    @property
    def _session(self) -> ScoreSession:
        if not hasattr(self, "session_"):
            raise DpboError(
                "this PrivateObjective holds no records",
                cause="fit was not called, or it came out of a pickle, which leaves the records behind",
                remedy="call fit here; for several processes ask through a study file (from_study)",
            )
        return self.session_
