"""Which Prefect server records a run and with which settings, and whose word started it."""
