"""Settings of scikit-learn's searches that a private one takes otherwise or not at all: said at once."""

from typing import Any

import numpy as np

from dpbo_core.errors import StudyInvalid


def check_settings(search: Any) -> None:
    """`refit`, `error_score`, `n_jobs`, `random_state` and `verbose` are such as a `PrivateSearch` can follow.

    Raises:
        StudyInvalid: one is not; says what there is instead.
    """
    if not isinstance(search.refit, bool):
        raise StudyInvalid(
            f"refit = {search.refit!r}",
            cause="one score is released, so there is no other to choose by; a rule of one's own over all scores "
            "would need all of them",
            remedy="give True or False",
        )
    if not (isinstance(search.error_score, str) and search.error_score == "raise"):
        raise StudyInvalid(
            f"error_score = {search.error_score!r}",
            cause="a candidate that cannot be trained fails on public rows, with a message that names it; a "
            "validation record that cannot be scored is never an error, it scores a constant",
            remedy='leave it at "raise", and take the candidate out of the space',
        )
    if search.n_jobs is not None and (not _whole(search.n_jobs) or search.n_jobs == 0):
        raise StudyInvalid(
            f"n_jobs = {search.n_jobs!r}", remedy="give a number of processes, -1 for all processors, or None"
        )
    if search.random_state is not None and not _whole(search.random_state):
        raise StudyInvalid(
            f"random_state is a {type(search.random_state).__name__}",
            cause="the seed is part of the study, by which a release is found again; a generator changes in use",
            remedy="give a whole number, or None for 0",
        )
    if not (_whole(search.verbose) or isinstance(search.verbose, bool)) or search.verbose < 0:
        raise StudyInvalid(f"verbose = {search.verbose!r}", remedy="give 0 or 1")


def _whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
