"""`dpbo pool`: the reports of one model at several sites, summed into one; at no price."""

from pathlib import Path
from typing import Annotated, Any

import typer

from dpbo.flows.cli.report_screen import print_figures, report_facts
from dpbo.flows.cli.terminal import Screen, named, print_result
from dpbo.flows.cli.verify import check_certificate, check_signature, release_of


def pool(
    releases: Annotated[list[Path], typer.Argument(metavar="RELEASE.json...", help="One report a site.")],
    key: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="The sites' public keys: check every receipt too.")
    ] = None,
    revoked: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Public keys that sign nothing any more.")
    ] = None,
) -> None:
    """Sum the noised tables of one model at several sites: one report, and whether the sites disagree."""
    from dpbo_core.queries.evaluation.pooled import pool as pooled

    for file in releases:
        check_certificate(file)
        if key is not None or revoked is not None:
            check_signature(file, key or (), revoked or ())
    document = pooled([release_of(file) for file in releases])
    print_result(lambda: document, lambda: _print(document))


def _print(document: dict[str, Any]) -> None:
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
