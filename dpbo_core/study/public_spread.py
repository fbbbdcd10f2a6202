"""How far the PUBLIC scores of the candidates are spread: what there is to choose between; for advice, in no price.

| symbol | name here | meaning | shape |
|---|---|---|---|
| p(λ) | `problem.public_score` | cross-validated score on the public training set, in [0, G] | scalar |
| — | `public_spread` | the largest of so many p(λ) less their median | scalar ≥ 0 |
"""

from pathlib import Path

import numpy as np

from dpbo_core.space.candidates import sobol_subset
from dpbo_core.spec import SensitiveData, StudySpec
from dpbo_core.study.data_split import public_half

LOOKED_AT = 16  # candidates, spread over Λ


def public_spread(spec: StudySpec, folder: str | Path, *, own_score: bool = False) -> float | None:
    """By cross-validating some candidates on the public training file; None where that is sensitive.

    Args:
        spec: the study.
        folder: the folder that its paths are relative to.
        own_score: whether the dataset's owner allowed the function that the study names as its score.

    Raises:
        StudyInvalid: the training file cannot be used as the study says, or a training failed.
        PolicyRefused: nobody allowed the study's score function.
    """
    if isinstance(spec.data, SensitiveData):
        return None
    problem = public_half(spec, folder, own_score=own_score).problem
    some = sobol_subset(problem.candidates, min(LOOKED_AT, len(problem.candidates)), seed=spec.search.seed)
    scores = [problem.public_score(int(i)) for i in some]
    return float(np.max(scores) - np.median(scores))
