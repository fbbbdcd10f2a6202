"""Every Prefect option of every task and flow, with its reason. A test proves that each task uses one of these.

What a sensitive task must never do is persist a result, cache by its inputs, retry a draw, or forward prints: each
of them writes something of the run where others can read it.
"""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from prefect import Task
from prefect.cache_policies import NO_CACHE
from prefect.context import FlowRunContext
from prefect.serializers import Serializer

from dpbo_core.errors import BudgetRefused, DpboError

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")


class Unkept(Serializer):  # its own registry takes the bare class alone
    """A serializer that writes nothing: Prefect stores what failed flows raise, whatever `persist_result` is."""

    type: str = "dpbo-unkept"

    def dumps(self, obj: Any) -> bytes:  # noqa: ARG002
        """Raise, so that Prefect stores no result of a task.

        Raises:
            ValueError: always.
        """
        raise ValueError("what a private flow returns or raises is not kept.")

    def loads(self, blob: bytes) -> Any:  # noqa: ARG002
        """Raise: nothing was stored that could be loaded.

        Raises:
            ValueError: always.
        """
        raise ValueError("nothing was kept")


class PrivateTask(Task[P, R]):
    """A Prefect task that is the plain function outside of a flow run, as in a command with --direct."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the task in the current flow run, or call its function where there is none."""
        if FlowRunContext.get() is None:
            return self.fn(*args, **kwargs)
        return super().__call__(*args, **kwargs)


def private_task(*, name: str, **options: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that makes a function a Prefect task of this name, under one of the policies below."""
    return lambda function: PrivateTask(function, name=name, **options)


def may_pass(_task: Any, _run: Any, state: Any) -> bool:
    """Whether a failed task may be retried: not after an error of dpbo's own, which a person must resolve."""
    return not isinstance(state.result(raise_on_failure=False), DpboError)


def or_refused(work: Callable[[], T]) -> T | BudgetRefused:
    """The result of `work`, or the ledger's refusal as a value, so that Prefect logs no traceback of it."""
    try:
        return work()
    except BudgetRefused as refused:
        return refused.with_traceback(None)


SENSITIVE_TASK: dict[str, Any] = {
    "persist_result": False,  # a result file is a copy of what the task returned
    "cache_policy": NO_CACHE,  # cache keys of inputs are unsalted: a λ was recovered from a file name
    "retries": 0,  # a retried draw is a second draw; a killed study is run again instead
    "log_prints": False,  # prints would reach Prefect's database
    "task_run_name": None,  # a name template would render arguments
}

PUBLISHING_TASK: dict[str, Any] = {
    "persist_result": False,
    "cache_policy": NO_CACHE,
    "retries": 3,  # publishing reads the recorded release and may be tried again
    "retry_delay_seconds": [1, 5, 15],
    "retry_condition_fn": may_pass,
    "log_prints": False,
    "task_run_name": None,
}

FLOW: dict[str, Any] = {
    "persist_result": False,
    "result_serializer": Unkept(),  # of failures, which are persisted all the same
    "retries": 0,
    "log_prints": False,
    "flow_run_name": None,
    "validate_parameters": False,  # the study was validated when it was read, with better messages
}
