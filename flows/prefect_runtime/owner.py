"""Whether the owner of the data started this run, or somebody who may start runs through Prefect.

It is said by the process that calls the flow, never by a flow's parameter or an environment variable, which whoever
may start a run could give; a run that a worker or a served deployment begins is nobody's who said so.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_OWNER: ContextVar[bool] = ContextVar("the owner of the data started this run", default=False)


@contextmanager
def owners_terminal() -> Iterator[None]:
    """Inside, flows that are called may open a dataset's cap and record what it is scored on.

    For a script that the owner runs: `dpbo tune` does the same.
    """
    token = _OWNER.set(True)
    try:
        yield
    finally:
        _OWNER.reset(token)


def at_the_terminal() -> bool:
    """Whether the owner's own process called this flow."""
    return _OWNER.get()
