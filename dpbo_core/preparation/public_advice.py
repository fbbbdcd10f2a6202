"""What advice knows of the PUBLIC training set, in no price: classes, the same answer for all, spread of scores.

| symbol | name here | meaning | shape |
|---|---|---|---|
| π | `problem.positives` | share of the second class: how far a count of pairs reaches | scalar in [0, 1] |
| — | `problem.baseline` | what the same answer for every record scores | scalar in [0, G] |
| p(λ) | `problem.public_score` | cross-validated score on the public training set | scalar in [0, G] |
| — | `public_spread` | the largest of some p(λ) less their median: what there is to choose between | scalar ≥ 0 |
"""

from pathlib import Path

import numpy as np

from dpbo_core.advice.advise import why_useless
from dpbo_core.preparation.data_split import public_half
from dpbo_core.preparation.public_half import PublicHalf
from dpbo_core.preparation.resolve import resolve
from dpbo_core.space.candidates import sobol_subset
from dpbo_core.study_file import SensitiveData, StudySpec


def advised_half(spec: StudySpec, folder: str | Path) -> PublicHalf | None:
    """The public half that advice reads; None for a sensitive training set or a user's own score function.

    Raises:
        StudyInvalid: the file cannot be used as the study says.
    """
    if isinstance(spec.data, SensitiveData) or spec.model.own_score:  # of a function there is none
        return None
    return public_half(spec, folder)


def useless_study(spec: StudySpec, folder: str | Path) -> str:
    """Why `dpbo plan` calls the study's own method useless; "" where it does not, or its training set is sensitive.

    Raises:
        StudyInvalid: the public training file cannot be used as the study says.
    """
    resolved, public = resolve(spec, folder), advised_half(spec, folder)
    return why_useless(resolved.method, resolved.problem if public is None else public.problem)


LOOKED_AT = 16  # candidates, spread over Λ


def public_spread(spec: StudySpec, folder: str | Path, *, allowed_score: str | None = None) -> float | None:
    """Cross-validate some candidates: the best public score less the median; None with sensitive training data.

    Raises:
        StudyInvalid: the training file cannot be used as the study says, or a training failed.
        PolicyRefused: the study's score function is not `allowed_score`, the one that its owner allowed.
    """
    if isinstance(spec.data, SensitiveData):
        return None
    problem = public_half(spec, folder, allowed_score=allowed_score).problem
    some = sobol_subset(problem.candidates, min(LOOKED_AT, len(problem.candidates)), seed=spec.search.seed)
    scores = [problem.public_score(int(i)) for i in some]
    return float(np.max(scores) - np.median(scores))
