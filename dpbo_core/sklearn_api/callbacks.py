"""scikit-learn's callbacks (1.9 and later) on a private search: its `ProgressBar`, and no other.

Any other is handed fitted estimators and scores at every step, or could look for them: it is refused by name.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dpbo_core.errors import StudyInvalid

try:
    from sklearn.callback import CallbackSupportMixin, ProgressBar
    from sklearn.callback._callback_support import callback_management_context
except ImportError:  # before 1.9
    ProgressBar = None


def set_callbacks(search: Any, callbacks: tuple[Any, ...]) -> None:
    """Set a search's `ProgressBar`s in place of earlier ones (an empty tuple removes them); others are refused."""
    strange = [type(one).__name__ for one in callbacks if type(one) is not ProgressBar]
    if strange:
        has = ProgressBar is not None
        raise StudyInvalid(
            f"a private search takes no callback {strange[0]}",
            cause="it is handed what is fitted and scored at every step"
            if has
            else "scikit-learn before 1.9 has none",
            remedy="verbose=1 writes the steps" + ("; sklearn.callback.ProgressBar works" if has else ""),
        )
    if ProgressBar is not None:
        CallbackSupportMixin.set_callbacks(search, *callbacks)


@contextmanager
def step_shown(search: Any, n_steps: int) -> Iterator[Callable[[], None]]:
    """Context with a function to call after each of `n_steps` steps: it moves the search's progress bar, if any."""
    if not getattr(search, "_skl_callbacks", None):
        yield lambda: None
        return
    with callback_management_context(search):
        fit = CallbackSupportMixin._init_callback_context(search, max_subtasks=n_steps)
        fit.call_on_fit_task_begin(estimator=search)

        def step() -> None:
            """Move the progress bar by one step."""
            fit.subcontext("step").call_on_fit_task_begin(estimator=search).call_on_fit_task_end(estimator=search)

        yield step
        fit.call_on_fit_task_end(estimator=search)
