"""The kernel of a method whose search fits none, and the refusal of a study that asks for a fitted one there.

A study that was charged before such a study was refused goes on as it began, at `UNFITTED`.
"""

from typing import Protocol, runtime_checkable

from dpbo_core.errors import StudyInvalid
from dpbo_core.gp.kernels import Kernel, kernel_named
from dpbo_core.methods.contract import Method
from dpbo_core.problem import Problem

UNFITTED = 0.3  # in the unit cube, where a study names no lengthscale


@runtime_checkable
class FixedKernel(Protocol):
    """A method that uses the study's kernel as it is stated, at least until there is something to fit it to."""

    @property
    def fits_lengthscale(self) -> bool:
        """Whether the search itself then finds the lengthscale, where the study says "fit"."""
        ...


def stated_kernel(method: FixedKernel, problem: Problem, variance: float = 1.0) -> Kernel:
    """The study's kernel at its own lengthscale, or at `UNFITTED`, for a method that says if it fits one later."""
    del method  # asked for by its type: none that is silent about fitting can have the kernel
    search = problem.search
    return kernel_named(
        search.kernel, UNFITTED if isinstance(search.lengthscale, str) else search.lengthscale, variance
    )


def check_lengthscale(method: Method, problem: Problem) -> None:
    """A study that asks for a fitted lengthscale gets one.

    Raises:
        StudyInvalid: the method would use a fixed one all the same.
    """
    asked = isinstance(problem.search.lengthscale, str)
    if asked and isinstance(method, FixedKernel) and not method.fits_lengthscale:
        raise StudyInvalid(
            f'{method.kind} fits no kernel, and the study says search.lengthscale = "fit"',
            cause="what it could be fitted to is private, and its price holds for a kernel fixed in advance",
            remedy=f"give a length in the unit cube, {UNFITTED:g} say",
        )
