"""`dpbo report`: every dataset and study in a manager's words, from the ledger alone, on a screen or a page."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from dpbo.flows.cli.release_screen import print_document
from dpbo.flows.cli.running import ledger_here, writing
from dpbo.flows.terminal import Screen, named, print_result
from dpbo.tasks.reporting.overview import overview, overview_document
from dpbo_core.errors import StudyInvalid
from dpbo_core.privacy.atomically import replace_atomically

PAGE_NAME = "index.html"


def report(
    html: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Also write the page index.html into this folder.")
    ] = None,
) -> None:
    """Show each study's verdict, number and trend, and when each budget ends. Opens no data, spends no budget."""
    ledger, now = ledger_here(), datetime.now(UTC)
    datasets = () if ledger is None else overview(ledger, now)
    if not datasets:
        raise StudyInvalid(
            "there is nothing to report: the ledger here is empty",
            cause="another folder's ledger was meant, or nothing has run here",
            remedy="change to the folder that holds mlruns, set DPBO_LEDGER_URL, or run dpbo tune",
        )
    if html is not None:
        from dpbo.tasks.reporting.overview_page import overview_page

        with writing(f"the folder {str(html)!r}"):
            html.mkdir(parents=True, exist_ok=True)
            replace_atomically(html / PAGE_NAME, overview_page(datasets, now).encode(), mode=0o644)

    def screen() -> None:
        for dataset in datasets:
            print_document(overview_document(dataset))
        if html is not None:
            Screen().say(f"\nThe page: {named(html / PAGE_NAME)}")

    print_result(lambda: {"datasets": [dataset.to_json() for dataset in datasets]}, screen)
