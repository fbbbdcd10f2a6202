"""Prefect's own classes as private runs need them; imported only where Prefect runs."""

from typing import Any, ParamSpec, TypeVar

from prefect import Task
from prefect.context import FlowRunContext, TaskRunContext
from prefect.serializers import Serializer

P = ParamSpec("P")
R = TypeVar("R")


class EmptySerializer(Serializer):  # its own registry takes the bare class alone
    """A serializer that writes nothing: Prefect stores what failed flows raise, whatever `persist_result` is."""

    type: str = "dpbo-unkept"

    def dumps(self, obj: Any) -> bytes:  # noqa: ARG002
        """Raise, so that Prefect stores no result of a task."""
        raise ValueError("what a private flow returns or raises is not kept.")

    def loads(self, blob: bytes) -> Any:  # noqa: ARG002
        """Raise: nothing was stored that could be loaded."""
        raise ValueError("nothing was kept")


class PrivateTask(Task[P, R]):
    """A Prefect task that is the plain function outside of a flow run, as where a flow's own function is called."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the task in the current flow run, or call its function where there is none."""
        if FlowRunContext.get() is None:
            return self.fn(*args, **kwargs)
        return super().__call__(*args, **kwargs)


def name_task_run(name: str) -> None:
    """Name the current task run; nothing outside of one."""
    context = TaskRunContext.get()
    if context is not None:
        context.task_run.name = name
