"""What the private objective adds to the suites that test all kinds of private queries alike."""

from functools import partial

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from dpbo import PrivateObjective
from dpbo.features.objective.objective_handle import objective_of_study
from dpbo.features.objective.score_session import ScoreSession
from dpbo_core.ledger.accounting.budget import PrivacyBudget

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
