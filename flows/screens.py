"""What the command prints: screens for people, one JSON object for programs."""

import json
import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dpbo_core.accounting.ledger import Account
from dpbo_core.advice import Advice
from dpbo_core.errors import printable
from dpbo_core.privacy.amounts import from_units
from dpbo_core.privacy.release import Release
from dpbo_core.spec import StudySpec

if TYPE_CHECKING:
    from flows.compare import Comparison
    from flows.doctor import Finding
    from flows.tune import Tuned

VERDICT_STYLE = {"good": "green", "poor": "yellow", "useless": "red", "refused": "dim"}


def plain(text: object) -> str:
    """A name or value that someone chose, for a screen: neither a control character nor markup of the screen's."""
    return escape(printable(str(text)))


def print_json(document: dict[str, Any]) -> None:
    """One object on standard output; NaN and Infinity cannot be written."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def tuned_json(tuned: "Tuned") -> dict[str, Any]:
    """`dpbo tune --json`."""
    release, tracked = tuned.result.release, tuned.tracked
    return release.to_json() | {
        "replayed": tuned.result.replayed,
        "tracking": {"experiment": tracked.experiment, "run_id": tracked.run_id},
    }


def print_tuned(tuned: "Tuned", account: Account) -> None:
    """`dpbo tune`: the release, its promise, what is left, where to look."""
    release, console = tuned.result.release, Console(highlight=False, emoji=False)
    console.print(f"[bold]{plain(release.study)}[/] · edition {plain(release.edition)} · {release.method}")
    if tuned.result.replayed:
        console.print(
            f"released on {release.released_at[:10]}; nothing was drawn or spent now. "
            "For new data give the study a new edition."
        )
    console.print()
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column()
    for name, text in _lines(release, account):
        table.add_row(f"  {name}", text)
    table.add_row(
        "  look",
        f"dpbo ui   (MLflow experiment {plain(repr(tuned.tracked.experiment))}, run {tuned.tracked.run_id[:8]})",
    )
    console.print(table)


def _lines(release: Release, account: Account) -> list[tuple[str, str]]:
    value, promise = release.value, release.guarantee
    chosen = value.get("hyperparameters", {})
    lines = [(plain(name), f"[bold]{plain(_number(item))}[/]") for name, item in chosen.items()]
    if "score" in value:
        interval = value.get("interval")
        more = f"   90% interval {interval[0]:.3f} … {interval[1]:.3f}" if interval else ""
        above = (
            "   (the noise took it out of its range)"
            if not 0.0 <= value["score"] <= release.facts["score_range"]
            else ""
        )
        lines.append(("score", f"[bold]{value['score']:.4f}[/]{more}{above}"))
    if "trajectory" in value:
        lines.append(
            ("seen", f"{_spark([p['score'] for p in value['trajectory']])}   private scores, step by step")
        )
    first = release.spends[0]
    draws = f"{len(release.spends)} draws" if len(release.spends) > 1 else "1 draw"
    top = release.facts["score_range"]
    noise = f"{draws}; {first.mechanism}, scale {first.noise_scale:.3g} on a score between 0 and {top:g}"
    lines += [
        ("promise", plain(promise.in_words())),
        ("evidence", f"{promise.evidence.standing.value}: {plain(promise.evidence.note)}"),
        ("noise", noise if release.noise == "operating_system" else f"{noise}; INJECTED: NOT PRIVATE"),
        ("budget", _account_line(account)),
    ]
    return lines


def _account_line(account: Account) -> str:
    numbers = account_json(account)
    if numbers["public"]:
        return f"{plain(numbers['name'])}: declared public, no limit"
    spent, limit, left = numbers["spent"]["epsilon"], numbers["limit"]["epsilon"], numbers["remaining"]["epsilon"]
    return f"{plain(numbers['name'])}: ε {spent:.3g} of {limit:g} spent, {left:.3g} left"


def accounts_json(accounts: tuple[Account, ...]) -> dict[str, Any]:
    """`dpbo budget --json`."""
    return {"datasets": [account_json(account) for account in accounts]}


def account_json(account: Account) -> dict[str, Any]:
    """One dataset: spent is the smaller of the two routes of composition, rounded up by construction."""
    budget = account.budget
    limit, delta = from_units(budget.epsilon_units), from_units(budget.delta_units)
    epsilon, paid = account.spent_epsilon
    finite = epsilon < float("inf")
    return {
        "name": budget.dataset,
        "public": budget.public,
        "limit": {"epsilon": None if budget.public else limit, "delta": None if budget.public else delta},
        "spent": {"epsilon": epsilon if finite else None, "delta": paid if finite else None},
        "remaining": {"epsilon": None if budget.public or not finite else max(0.0, limit - epsilon)},
        "relation": budget.relation.value,
        "accepts": list(budget.accepts),
        "entries": [
            {
                "study": entry.study,
                "edition": entry.edition,
                "method": entry.method,
                "epsilon": entry.epsilon,
                "delta": entry.delta,
                "rho": entry.rho,
                "assumptions": list(entry.assumptions),
                "reserved_at": entry.reserved_at,
                "released_at": entry.released_at,
                "release_id": entry.release_id,
            }
            for entry in account.entries
        ],
    }


def print_accounts(accounts: tuple[Account, ...]) -> None:
    """`dpbo budget`."""
    console = Console(highlight=False, emoji=False)
    if not accounts:
        console.print("The ledger is empty. Open a cap: dpbo budget set DATASET --epsilon 5 --delta 1e-5")
    for account in accounts:
        console.print(f"[bold]{_account_line(account)}[/]")
        table = Table(box=None, padding=(0, 1), header_style="dim")
        for name in ("study", "edition", "method", "ε", "δ", "reserved", "released"):
            table.add_column(name, no_wrap=name != "study")
        for entry in account.entries:
            epsilon = "∞" if entry.epsilon is None else f"{entry.epsilon:g}"
            released = entry.released_at[:10] if entry.released_at else "not finished"
            table.add_row(
                plain(entry.study),
                plain(entry.edition),
                plain(entry.method),
                epsilon,
                f"{entry.delta:g}",
                entry.reserved_at[:10],
                released,
            )
        console.print(table)


def print_findings(findings: "tuple[Finding, ...]") -> None:
    """`dpbo doctor`: a line a finding, and what to do."""
    console, marks = Console(highlight=False), {"fine": "[green]✓[/]", "note": "[yellow]·[/]", "wrong": "[red]✗[/]"}
    table = Table.grid(padding=(0, 2))
    for finding in findings:
        advice = f". {finding.remedy[0].upper()}{finding.remedy[1:]}" if finding.remedy else ""
        table.add_row(marks[finding.verdict], finding.what, f"{escape(finding.seen)}{advice}")
    console.print(table)


def comparison_json(made: "Comparison") -> dict[str, Any]:
    """`dpbo compare --json`."""
    return {"cells": [cell.to_json() for cell in made.cells], "files": [str(file) for file in made.files]}


def print_comparison(made: "Comparison") -> None:
    """`dpbo compare`: a table a data set, and where to look."""
    console = Console(highlight=False)
    for task in dict.fromkeys(cell.task for cell in made.cells):
        here = [cell for cell in made.cells if cell.task == task]
        table = Table(title=f"{task}, m = {here[0].n_validation:,}: regret", box=None, title_justify="left")
        table.add_column("")
        epsilons = sorted({cell.epsilon for cell in here})
        for epsilon in epsilons:
            table.add_column(f"ε = {epsilon:g}", justify="right", no_wrap=True)
        for name in dict.fromkeys(cell.contender for cell in here):
            found = {cell.epsilon: cell.regret for cell in here if cell.contender == name}
            cells = ["–" if found.get(e) is None else f"{found[e]:.4f}" for e in epsilons]
            table.add_row(name, *cells)
        console.print(table)
        console.print()
    console.print("look: " + ", ".join(str(file) for file in made.files))


def print_advice(spec: StudySpec, advice: Advice) -> None:
    """`dpbo plan`: a line a method, then why."""
    console = Console(highlight=False, emoji=False)
    console.print(
        f"[bold]{plain(spec.name)}[/] · edition {plain(spec.edition)} · dataset {plain(spec.privacy.dataset)}"
    )
    console.print("Nothing was opened and nothing was charged.\n")
    table = Table(box=None, padding=(0, 1), header_style="dim")
    for name in ("method", "verdict", "ε", "δ", "noise", "regret", "error", "trainings"):
        table.add_column(name, justify="left" if name in ("method", "verdict") else "right", no_wrap=True)
    for line in advice.methods:
        numbers = (
            line.epsilon,
            line.delta,
            line.noise_scale,
            line.expected_regret,
            line.expected_error,
            line.trainings,
        )
        cells = ["–" if number is None else f"{number:.3g}" for number in numbers]
        style = VERDICT_STYLE[line.verdict]
        table.add_row(line.kind, f"[{style}]{line.verdict}[/]", *cells)
    console.print(table)
    console.print(
        "\nregret: what the chosen hyperparameters are expected to lose; error: that and the error of the released "
        "score; noise: its scale on the score.\n"
    )
    for line in advice.methods:
        console.print(f"[bold]{line.kind}[/]: {plain(line.why)}.")
    choice = advice.choice
    if choice is None:
        console.print("\nNo method can run on this study.")
        return
    console.print(f"\n[bold]{choice.kind}[/] is the one to choose: {plain(choice.why)}.")
    if spec.method == "auto":
        console.print('The study says "auto", so it will be.')
        return
    wanted = "".join(f", with {name} = {_toml(value)} in \\[method]" for name, value in choice.options.items())
    if choice.kind != spec.method or any(spec.options.get(name) != value for name, value in choice.options.items()):
        console.print(
            f'Choose method = "{choice.kind}"{wanted}, or method = "auto"; the study says "{spec.method}".'
        )


def _toml(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _spark(values: list[float]) -> str:
    low, high = min(values), max(values)
    bars = "▁▂▃▄▅▆▇█"
    return "".join(bars[round((v - low) / ((high - low) or 1.0) * (len(bars) - 1))] for v in values)


def _number(item: Any) -> str:
    return f"{item:.4g}" if isinstance(item, float) else str(item)
