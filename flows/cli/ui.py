"""`dpbo ui`: MLflow's pages on this machine, read-only and behind a token, until stopped."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from dpbo.flows.terminal import announce_stage
from dpbo_core.errors import DpboError


def ui(port: Annotated[int, typer.Option(help="The port on this machine.")] = 5000) -> None:
    """Serve MLflow's pages of the project's store, read-only, at the link that is printed."""
    announce_stage("MLflow", "starting its server")
    from dpbo.flows.stores import Stores
    from dpbo.flows.viewer.serving import show
    from dpbo.tasks.reporting.mlflow_store import open_store

    stores = Stores()
    if stores.tracking.startswith(("http://", "https://")):
        sys.stdout.write(f"MLflow, at the server of MLFLOW_TRACKING_URI: {stores.mlflow_page}\n")
        return
    local = stores.tracking.startswith("sqlite:///")
    if local and not Path(stores.tracking.removeprefix("sqlite:///")).exists():
        raise DpboError(
            "there is no release to show yet", cause="no study has run here", remedy="run dpbo tune first"
        )
    if stores.mlflow_tracking_uri is None:
        stores.make_folder()

    store = open_store(stores.tracking)
    if store.root is None:
        raise DpboError(
            "MLFLOW_TRACKING_URI names no store that can be shown here",
            remedy="open its own page, or name a server (https://…), sqlite:/// or postgresql://",
        )
    show(store, base=store.root.resolve(), port=port)
