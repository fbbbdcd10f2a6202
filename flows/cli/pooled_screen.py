"""The screen of one model's reports from several sites, summed: `dpbo show A.json B.json`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dpbo.flows.cli.report_screen import print_figures, report_facts
from dpbo.flows.cli.terminal import Screen, named
from dpbo.flows.cli.verify import ledger_remark, release_of
from dpbo_core.report.pooled import pool


def pooled_reports(files: Sequence[str]) -> dict[str, Any]:
    """The sum of the noised tables in release.json files, one a site, as a report and whether the sites disagree.

    Raises:
        StudyInvalid: a file is no release, or they are not reports of one model.
        LedgerDamaged: the ledger here recorded one of them, and is older than it was.
    """
    reports = [release_of(Path(file)) for file in files]
    for report in reports:
        ledger_remark(report)
    return pool(reports)


def print_pooled(document: dict[str, Any]) -> None:
    """Print the screen of a pooled report."""
    screen, value, sites = Screen(), document["value"], document["sites"]
    guarantee, test = document["guarantee"], document["disagreement"]
    screen.say(f"[bold]{len(sites)} sites[/]; nothing was drawn or spent.\n")
    print_figures(screen, value)
    names = [name for name, figure in value["metrics"].items() if figure["noise_interval"] is not None][:3]
    rows = [
        (named(site["dataset"]), site["release_id"], *(f"{site['metrics'][name]['value']:.3f}" for name in names))
        for site in sites
    ]
    screen.table(("site", "release", *(name.replace("_", " ") for name in names)), rows, left=2)
    screen.say()
    word = "[bold]disagree[/]" if test["disagree"] else "cannot be told apart"
    facts = {name: value["table"][name] for name in ("n_persons",) if name in value["table"]}
    screen.facts(
        [
            *report_facts(value, facts, screen),
            (
                "sites",
                f"{word}: p = {test['p_value']:.3g}, where noise and sampling alone say so in "
                f"{test['false_alarms']:.0%} of cases",
            ),
            ("noise", f"scale {value['table']['noise_scale']:.3g} in each cell, the root of the sites' squares"),
            (
                "guarantee",
                f"each site's own: ε = {guarantee['epsilon']:g} at most for who is at one site, "
                f"{guarantee['epsilon_at_every_site']:g} for who is at every one",
            ),
        ]
    )
