"""Names that flows had before their packages were `dpbo.flows` and `dpbo.tasks`."""

from prefect import get_run_logger


def warn_of_old_name(loaded_as: str, name: str) -> None:
    """Tell a run that found its flow by an old name how to renew its deployment.

    Args:
        loaded_as: the flow's module in this process: "flows.serve" by its old path, or what Prefect calls a file.
        name: the flow's path as it is installed.
    """
    module, _, flow = name.rpartition(".")
    if loaded_as != module:
        get_run_logger().warning(
            "This run found its flow by a name of before, which works in this version and not in the next. "
            "Deploy it again with the entrypoint %s; in Python: from dpbo import %s.",
            name,
            flow,
        )
