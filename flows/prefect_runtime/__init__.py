"""What a private run needs of Prefect and of the machine: servers, workers, settings, liveness."""
