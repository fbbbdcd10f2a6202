"""One Prefect task a file; a task's body is one call into `dpbo_core` or into the tracking door."""
