"""What advice knows of the PUBLIC training set, in no cost: classes, the same answer for all.

| symbol | name here | meaning | shape |
|---|---|---|---|
| π | `problem.positives` | share of the second class: how far a count of pairs reaches | scalar in [0, 1] |
| — | `problem.baseline` | what the same answer for every record scores | scalar in [0, G] |
"""

from pathlib import Path

from dpbo_core.methods.advice import why_useless
from dpbo_core.study import StudySpec
from dpbo_core.study.data_split import public_half
from dpbo_core.study.public_half import PublicHalf
from dpbo_core.study.resolve import resolve


def advised_half(spec: StudySpec, folder: str | Path) -> PublicHalf | None:
    """Return the public half that advice uses; None for a sensitive training set or a user's score function."""
    if spec.data.sensitive_training or spec.model.own_score:  # of a function there is none
        return None
    return public_half(spec, folder)


def useless_study(spec: StudySpec, folder: str | Path) -> str:
    """Return why the plan of the study's method expects mostly noise; "" if it does not."""
    resolved, public = resolve(spec, folder), advised_half(spec, folder)
    problem = resolved.problem if public is None else public.problem
    return why_useless(resolved.method, problem, resolved.plan)
