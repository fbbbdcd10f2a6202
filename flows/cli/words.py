"""Words that several commands take, each with its one meaning."""

from pathlib import Path
from typing import Annotated

import typer

Study = Annotated[Path, typer.Argument(metavar="STUDY.toml", help="The study file.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Explain = Annotated[bool, typer.Option("--explain", help="A second screen: what each line means.")]
Port = Annotated[int, typer.Option(help="Where a Prefect server is found or started.")]
TrustServer = Annotated[
    bool,
    typer.Option("--trust-server", help="Use a server that asks nobody for a password. It can run code as you."),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the stack trace of an error.")]
