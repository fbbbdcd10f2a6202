"""The doors of the enumerator that ask a private objective."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from audit import cells
from audit.doors import (
    COLUMNS,
    FLAG,
    LIBRARIES,
    WHO,
    A,
    Y,
    counted,
    flat,
    numbers,
    persons,
    public_rows,
    settings,
    shown_release,
    split_rows,
)
from audit.enumerator import Door, Place, World
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from dpbo import PrivateObjective


def asked_in_memory(place: Place, world: World, *, library: str, **changes: Any) -> dict[str, str]:
    """`PrivateObjective`: two questions, the best, and the end."""
    columns = [A, FLAG, *([WHO] if "person" in changes else [])]
    names, public, classes = split_rows(public_rows(), columns[:2])
    _, sensitive, truth = split_rows(flat(world), columns)
    make = LIBRARIES[library]
    if "person" in changes and library == "NumPy":
        changes["person"] = f"x{len(columns) - 1}"
    objective = PrivateObjective(numbers(), n_scores=2, **settings(place, **changes))
    V = make(tuple(COLUMNS[j] for j in columns), sensitive)
    objective.fit(make(names, public), np.array(classes), X_validation=V, y_validation=truth)
    scores = [repr(objective.ask({"var_smoothing": width})) for width in (1e-3, 1e-1)]
    return {"scores": repr(scores), "best": repr(objective.best()), "release": shown_release(objective.close())}


def doors() -> Iterator[Door]:
    """All of them, in each library."""
    people, means = persons(), {"person": "who", "n_persons": 2}
    for library in LIBRARIES:
        asked = partial(asked_in_memory, library=library)
        yield Door("PrivateObjective", library, asked, counted((1, 2), (A, FLAG, Y)))
        yield Door("PrivateObjective, persons' means", library, partial(asked, **means), people)
        if library in ("pandas", "NumPy"):
            yield Door("PrivateObjective, AUC", library, partial(asked, scoring="roc_auc"), counted((1, 2), (A, Y)))


def asked_of_a_cell(place: Place, world: World, *, held: cells.Settings, piped: bool) -> dict[str, str]:
    """`PrivateObjective.fit`: a question, and the best; `piped` where texts must become numbers first."""
    tables = cells.given(**held, column=str(world[0][0][0]), kind=str(world[0][0][1]))
    model = make_pipeline(FunctionTransformer(cells.by_type), GaussianNB()) if piped else GaussianNB()
    named: cells.Settings = {"accepts": ("rowwise_predictions",)} if piped else {}
    objective = PrivateObjective(model, n_scores=1, delta=1e-6, ledger=place.url, **cells.FIXED, **named)
    score = objective.fit(**tables).ask({("gaussiannb__" if piped else "") + "var_smoothing": 0.1})
    return {"score": repr(score), "best": repr(objective.best()), "release": cells.shown(objective.close())}
