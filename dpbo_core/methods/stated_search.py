"""The kernel and the acquisition that a study states: one of ours by name, or a user's own function by its path.

A user's acquisition is given the candidates in the unit cube (N, d), the posterior's mean (N,) and deviation (N,),
all read-only copies, and nothing else; it answers how promising each candidate is, (N,), and the largest is tried
next. Where the path is private so are the mean and the deviation: what it does beside answering nobody can check,
so the study takes that on by name. Whatever it raises, and whatever is no such answer, counts as the deviation.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.bo.acquisition import Acquisition, OwnFunction, acquisition_named
from dpbo_core.errors import StudyInvalid
from dpbo_core.gp.kernels import Kernel, kernel_named
from dpbo_core.methods.contract import Method
from dpbo_core.models.containment import contained
from dpbo_core.models.import_path import function_at
from dpbo_core.privacy.assumption import ACQUISITION_FUNCTION
from dpbo_core.privacy.release import Release
from dpbo_core.privacy.sealing import attempted
from dpbo_core.problem.problem import Problem
from dpbo_core.problem.search import SearchSection

UNFITTED = 0.3  # in the unit cube, where a study names no lengthscale


def stated_kernel(problem: Problem, variance: float = 1.0) -> Kernel:
    """The study's kernel at its own lengthscale, or at `UNFITTED` until one can be fitted."""
    search = problem.search
    return kernel_named(
        search.kernel, UNFITTED if isinstance(search.lengthscale, str) else search.lengthscale, variance
    )


def check_lengthscale(method: Method, problem: Problem) -> None:
    """Refuse a study that asks a method with a fixed lengthscale for a fitted one.

    Raises:
        StudyInvalid: the method would use a fixed one all the same.
    """
    fitted = isinstance(problem.search.lengthscale, str)
    if fitted and not method.fits_lengthscale:
        raise StudyInvalid(
            f'{method.kind} fits no kernel, and the study says search.lengthscale = "fit"',
            cause="what it could be fitted to is private, and its price holds for a kernel fixed in advance",
            remedy=f"give a length in the unit cube, {UNFITTED:g} say",
        )


Arrays = NDArray[np.float64]
FACT = "acquisition"


def acquisition_of(search: SearchSection) -> Acquisition:
    """The acquisition that a study names: a built-in one, or its own function, imported and tried out here.

    Raises:
        StudyInvalid: a function that cannot be imported, or gives no such answer on made-up numbers.
    """
    if not search.own_acquisition:
        return acquisition_named(search.acquisition, beta=search.beta)
    function = function_at(search.acquisition, "[search] acquisition", "candidates, mean and deviation")
    made_up = np.linspace(0.0, 1.0, 5)
    if attempted(lambda: _checked(function, made_up[:, None], made_up, made_up[::-1].copy()), None) is None:
        raise StudyInvalid(
            f"search.acquisition = {search.acquisition!r} gives no number for each candidate",
            cause="it was tried on five made-up candidates (5, 1), with a mean (5,) and a deviation (5,)",
            remedy="let it return an array of as many numbers as there are candidates, none of them NaN",
        )

    def total(candidates: Arrays, mean: Arrays, deviation: Arrays) -> Arrays:
        return attempted(lambda: _checked(function, candidates, mean, deviation), deviation)

    return OwnFunction(total)


def _checked(function: Callable[..., Any], candidates: Arrays, mean: Arrays, deviation: Arrays) -> Arrays:
    """A user's acquisition, called: (N,) numbers without NaN; anything else that it returns is refused.

    Raises:
        Exception: anything; there is none.
    """
    arrays = [np.array(array) for array in (candidates, mean, deviation)]
    for array in arrays:
        array.flags.writeable = False
    with contained():  # what it prints, logs or warns of would tell of the scores
        answer = np.array(function(*arrays), dtype=np.float64)
    if answer.shape != mean.shape or np.isnan(answer).any():
        raise ValueError
    return answer


def assumed_of_acquisition(problem: Problem) -> tuple[str, ...]:
    """The name of the assumption about a study's own acquisition function; none for a built-in one."""
    return (ACQUISITION_FUNCTION.name,) if problem.search.own_acquisition else ()


def assumed_of_released_acquisition(release: Release) -> tuple[str, ...]:
    """The name of a release's assumption about its study's own acquisition; none for built-in ones."""
    return (ACQUISITION_FUNCTION.name,) if FACT in release.facts else ()
