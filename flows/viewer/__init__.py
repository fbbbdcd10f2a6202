"""MLflow's pages, read-only and behind a token: what may pass, whose files are shown, how it is served."""
