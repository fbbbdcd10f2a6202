"""The kernel that a study states, by its name and lengthscale."""

from dpbo_core.errors import StudyInvalid
from dpbo_core.methods.contract import Method
from dpbo_core.methods.problem import Problem
from dpbo_core.search.kernels import Kernel, kernel_named

DEFAULT_LENGTHSCALE = 0.3  # in the unit cube, where a study names no lengthscale


def stated_kernel(problem: Problem, variance: float = 1.0) -> Kernel:
    """Return the study's kernel at its own lengthscale, or at `DEFAULT_LENGTHSCALE` until one can be fitted."""
    search = problem.search
    return kernel_named(
        search.kernel, DEFAULT_LENGTHSCALE if isinstance(search.lengthscale, str) else search.lengthscale, variance
    )


def check_lengthscale(method: Method, problem: Problem) -> None:
    """Refuse a study that asks a method with a fixed lengthscale for a fitted one."""
    fitted = isinstance(problem.search.lengthscale, str)
    if fitted and not method.fits_lengthscale:
        raise StudyInvalid(
            f'{method.kind} fits no kernel, and the study has search.lengthscale = "fit"',
            cause="what it could be fitted to is private, and its price holds for a kernel fixed in advance",
            remedy=f"give a length in the unit cube, {DEFAULT_LENGTHSCALE:g} say",
        )
