"""Which Prefect server records a run, with which settings, and which runs are alive."""
