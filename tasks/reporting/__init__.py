"""What people look at: pictures and pages of a release, and what MLflow keeps. Nothing here imports Prefect."""
