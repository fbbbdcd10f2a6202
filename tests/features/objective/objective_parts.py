"""What the private objective adds to the suites that test all kinds of private queries alike."""

from functools import partial

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from dpbo import PrivateObjective
from dpbo.features.objective.objective_handle import objective_of_study
from dpbo.features.objective.score_session import ScoreSession
from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.study import StudySpec
from dpbo_core.study.query import QueryContext

# What its own plan calls useless

USELESS_SECTIONS = {"objective": {"scores": 3}}


def by_objective(spec, asked):
    ScoreSession(objective_of_study(spec, asked), asked).ask({"lambda": 0.1})


SPENDS = {by_objective: True}  # whether it is asked of a study that was never tuned


def closed(place):
    rng = np.random.default_rng(3)
    X, V = rng.normal(size=(60, 2)), rng.normal(size=(40, 2))
    asked = PrivateObjective(
        LogisticRegression(), epsilon=4.0, delta=1e-6, dataset="d", budget=(5.0, 1e-5), n_scores=2,
        ledger=f"sqlite:///{place / 'ledger.db'}",
    ).fit(X, (X[:, 0] > 0).astype(int), X_validation=V, y_validation=(V[:, 0] > 0).astype(int))  # fmt: skip
    asked.ask({"C": 1.0})
    return asked.close()


RELEASES = {"objective": closed}


# One way for every query

ACCEPTS = ("public_models", "rowwise_predictions")


def prepare(place):
    place.ledger.set_budget(PrivacyBudget.of("loop", epsilon=10_000.0, delta=1e-2, accepts=ACCEPTS))


def opened(place, edition, study, **settings):
    rng = np.random.default_rng(0)
    public, sensitive = rng.normal(size=(40, 2)), rng.normal(size=(30, 2))
    objective = PrivateObjective(
        GaussianNB(), epsilon=1.0, delta=1e-6, dataset="loop", n_scores=4, study=study, edition=edition,
        ledger=place.url, **settings,
    )  # fmt: skip
    labels = public[:, 0] > 0, sensitive[:, 0] > 0
    return objective.fit(public, labels[0], X_validation=sensitive, y_validation=labels[1])


def scored(place, edition, study="loop", **settings):
    objective = opened(place, edition, study, **settings)
    for smoothing in (1e-9, 1e-2):
        objective({"var_smoothing": smoothing})
    objective.best()
    return objective.close()


def submitted(place, edition):
    """A model and predictions made elsewhere, beside a question."""
    objective = opened(place, edition, "board", accepts=ACCEPTS)
    rng = np.random.default_rng(1)
    objective.submit(GaussianNB().fit(rng.normal(size=(20, 2)), np.arange(20) % 2 == 0))
    objective.submit_predictions(np.arange(30) % 2 == 0, name="a team's")
    objective({"var_smoothing": 1e-2})
    return objective.close()


QUERIES = {
    "scores for a loop": (scored, "loop/objective"),
    "scores and a choice": (partial(scored, study="choice", choice_share=0.3), "choice/objective"),
    "submissions": (submitted, "board/objective"),
}


# The enumerator's doors


def doors():
    import objective_doors

    return objective_doors.doors()


def cell_doors(held, piped):
    """Name of a door → what asks it about one cell of one table."""
    import objective_doors

    return {"PrivateObjective": partial(objective_doors.asked_of_a_cell, held=held, piped=piped)}


# Campaigns of `make audit`


def audit_sections():
    import boards

    return {"boards": ("A cheater on a board", boards.attacked)}


# Library calls that are made to fail


def failing_queries(folder, ledger, first_rows):
    from failure_worlds import LIMIT, LOGISTIC, frame, study

    def asked_of(edition, study, **settings):
        """All scores for one price: two questions, the best of them, the release."""
        table, public = frame(1), frame(0)
        first_rows()
        asked = PrivateObjective(
            DecisionTreeClassifier(), epsilon=1.0, delta=1e-9, dataset=study, n_scores=2, budget=(LIMIT, 1e-5),
            study=study, edition=edition, ledger=f"sqlite:///{folder / 'ledger.db'}", **settings,
        )  # fmt: skip
        return asked.fit(public[["a", "b"]], public.ill, X_validation=table[["a", "b"]], y_validation=table.ill)

    def chosen(edition):
        asked = asked_of(edition, "chosen", choice_share=0.3)
        for depth in (1, 2):
            asked({"max_depth": depth})
        return asked.close()

    def handed_in(edition):
        asked = asked_of(edition, "submitted", accepts=("rowwise_predictions", "public_models"))
        public = frame(0)
        asked.submit(DecisionTreeClassifier(max_depth=1, random_state=0).fit(public[["a", "b"]], public.ill))
        asked.submit_predictions(frame(3).ill, name="a team's")
        return asked.close()

    def of_a_file(edition):
        tables = study(
            study={"edition": edition},
            privacy={"dataset": "asked"},
            model={"estimator": LOGISTIC, "score": "log_loss"},
            space={"C": {"low": 0.1, "high": 1.0}},
            objective={"scores": 1},
        )
        run = QueryContext(PrivacyLedger(f"sqlite:///{folder / 'ledger-asked.db'}"), folder)
        session = ScoreSession(objective_of_study(StudySpec.from_dict(tables), run), run)
        session.ask({"C": 0.5})
        return session.close()

    return {"objective, a choice": chosen, "objective, handed in": handed_in, "objective, a file": of_a_file}


def until_read(watch):
    """Let the probes rest once a session's draws are read: what its caller has is released, and training public."""
    read = ScoreSession._draws

    def draws(self):
        watch.active = False
        return read(self)

    return ScoreSession, "_draws", draws


FAILURE_ROOMS = {
    "features.objective": (("sealed",), "arithmetic on what was released, of public size"),
    "features.objective.submission": (
        ("release", "sealed"),
        "a public model handed in; a prediction that fails costs its own record alone, the constant",
    ),
}


FRAMEWORK_PAGE = "docs/how_to/own_search.md"  # a page that `make frameworks` runs
