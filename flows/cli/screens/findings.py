"""`dpbo doctor`: a line a finding, and what to do."""

from typing import TYPE_CHECKING

from dpbo.flows.cli.terminal import Screen, named

if TYPE_CHECKING:
    from dpbo.flows.cli.finding import Finding

MARKS = {"fine": "[green]✓[/]", "note": "[yellow]·[/]", "wrong": "[red]✗[/]"}


def print_findings(findings: "tuple[Finding, ...]") -> None:
    """Print what `dpbo doctor` found, one line each, and what to do."""
    screen = Screen()
    rows = []
    for finding in findings:
        advice = f". {finding.remedy[0].upper()}{finding.remedy[1:]}" if finding.remedy else ""
        rows.append((MARKS[finding.verdict], finding.verdict, finding.what, f"{named(finding.seen)}{advice}"))
    if screen.plain:
        screen.facts((f"{what}, {verdict}", seen) for _, verdict, what, seen in rows)
    else:
        screen.facts((f"{mark}  {what}", seen) for mark, _, what, seen in rows)
