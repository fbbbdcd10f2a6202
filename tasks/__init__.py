"""Prefect tasks by story; a task's body is one call into `dpbo_core` or into `reporting`."""
