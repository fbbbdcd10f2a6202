"""Every Prefect option of every task and flow, with its reason. A test proves that each task uses one of these.

What a sensitive task must never do is persist a result, cache by its inputs, retry a draw, or forward prints: each
of them writes something of the run where others can read it.
"""

import os
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from dpbo_core.errors import BudgetRefused, DpboError

if TYPE_CHECKING:
    from prefect import Flow

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")

PREFECT_USE = "DPBO_PREFECT"  # "off": flows and tasks are plain functions, and Prefect is not imported


def without_prefect() -> bool:
    """Return whether this process does without Prefect: DPBO_PREFECT=off, or a command's --direct."""
    return os.environ.get(PREFECT_USE, "") == "off"


@cache
def prefect_classes() -> tuple[Any, Any]:
    """Return Prefect's task and serializer as private runs need them; Prefect is imported here."""
    from prefect import Task
    from prefect.context import FlowRunContext
    from prefect.serializers import Serializer

    class PrivateTask(Task[..., Any]):
        """A Prefect task that is the plain function outside of a flow run, as where a flow's own is called."""

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            """Run the task in the current flow run, or call its function where there is none."""
            return self.fn(*args, **kwargs) if FlowRunContext.get() is None else super().__call__(*args, **kwargs)

    class EmptySerializer(Serializer):  # its own registry takes the bare class alone
        """A serializer that writes nothing: Prefect stores what failed flows raise despite `persist_result`."""

        type: str = "dpbo-unkept"

        def dumps(self, obj: Any) -> bytes:  # noqa: ARG002
            """Raise, so that Prefect stores no result of a task."""
            raise ValueError("what a private flow returns or raises is not kept.")

        def loads(self, blob: bytes) -> Any:  # noqa: ARG002
            """Raise: nothing was stored that could be loaded."""
            raise ValueError("nothing was kept")

    return PrivateTask, EmptySerializer


def private_task(*, name: str, **options: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that makes a function a Prefect task of this name, under one of the policies below.

    Without Prefect the function stays as it is.
    """

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        if without_prefect():
            return function
        from prefect.cache_policies import NO_CACHE  # cache keys of inputs are unsalted: one told a λ

        made: Callable[P, R] = prefect_classes()[0](function, name=name, cache_policy=NO_CACHE, **options)
        return made

    return decorated


def private_flow(*, name: str, **options: Any) -> "Callable[[Callable[P, R]], Flow[P, R]]":
    """Return a decorator that makes a function a Prefect flow of this name, under the policy FLOW below.

    Without Prefect the function stays as it is.
    """

    def decorated(function: Callable[P, R]) -> Any:
        if without_prefect():
            return function
        from prefect import Flow

        serializer = prefect_classes()[1]()  # of failures, which are always persisted
        return Flow(function, name=name, result_serializer=serializer, **options)

    return decorated


def may_pass(_task: Any, _run: Any, state: Any) -> bool:
    """Whether a failed task may be retried: not after an error of dpbo's own, which a person must resolve."""
    return not isinstance(state.result(raise_on_failure=False), DpboError)


def or_refused(work: Callable[[], T]) -> T | BudgetRefused:
    """Return the result of `work`, or the ledger's refusal as a value, so that Prefect logs no traceback of it."""
    try:
        return work()
    except BudgetRefused as refused:
        return refused.with_traceback(None)


SENSITIVE_TASK_OPTIONS: dict[str, Any] = {
    "persist_result": False,  # a result file is a copy of what the task returned
    "retries": 0,  # a retried draw is a second draw; a killed study is run again instead
    "log_prints": False,  # prints would reach Prefect's database
    "task_run_name": None,  # a name template would render arguments
}

PUBLISHING_TASK_OPTIONS: dict[str, Any] = {
    "persist_result": False,
    "retries": 3,  # publishing reads the recorded release and may be tried again
    "retry_delay_seconds": [1, 5, 15],
    "retry_condition_fn": may_pass,
    "log_prints": False,
    "task_run_name": None,
}

FLOW_OPTIONS: dict[str, Any] = {
    "persist_result": False,
    "retries": 0,
    "log_prints": False,
    "flow_run_name": None,
    "validate_parameters": False,  # the study was validated when it was read, with better messages
}
