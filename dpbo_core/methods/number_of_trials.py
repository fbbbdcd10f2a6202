"""K, the hidden number of trials of `dp_hypo`: its law with a study's `steps` as the mean, or why there is none."""

import math
from bisect import bisect_left
from typing import Literal

from dpbo_core.errors import StudyInvalid
from dpbo_core.mechanisms.random_stopping import NegativeBinomialStopping, PoissonStopping, Stopping

Law = Literal["negative_binomial", "poisson"]


def law_of(name: Law, shape: float, mean: int) -> Stopping:
    """The law of K.

    Args:
        name: which family.
        shape: η of the negative binomial one.
        mean: E[K], the study's `steps`.

    Raises:
        StudyInvalid: no such law has this mean, or its tail is longer than can be run.
    """
    law = _law(name, shape, mean)
    if law is None:
        raise StudyInvalid(
            f"search.steps = {mean} with method.shape = {shape:g}",
            cause="steps is the mean of a random number, above 1 and not beyond what the shape allows",
            remedy="ask for at least 2 steps, and a shape of 0 or 1",
        )
    if not law.drawable:
        raise _too_long(name, shape, mean)
    return law


def _law(name: Law, shape: float, mean: int) -> Stopping | None:
    """The law, None where there is none."""
    try:
        return PoissonStopping(float(mean)) if name == "poisson" else NegativeBinomialStopping(shape, float(mean))
    except ValueError:
        return None


def _too_long(name: Law, shape: float, mean: int) -> StudyInvalid:
    """Which mean would do at this η, and which η at this mean."""

    def drawable(eta: float, steps: int) -> bool:
        law = _law(name, eta, steps)
        return law is not None and law.drawable

    most = bisect_left(range(2, mean), x=True, key=lambda steps: not drawable(shape, steps)) + 1
    hundredths = range(math.ceil(100.0 * shape), 1001)
    least = bisect_left(hundredths, x=True, key=lambda eta: drawable(eta / 100.0, mean))
    ways = [f"at most {most:,} steps at shape = {shape:g}"] if most >= 2 else []
    if least < len(hundredths):
        ways.append(f"a shape of {hundredths[least] / 100.0:g} or more at {mean:,} steps")
    return StudyInvalid(
        f"search.steps = {mean} with method.shape = {shape:g} runs more than ten million trials too often",
        cause="the chance of that is above 2^-100, and such a number of trials cannot be run",
        remedy="ask for " + ", or ".join(ways or ["fewer steps and a shape of 1"]),
    )
