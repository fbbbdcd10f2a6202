"""`dpbo compare`: a table a data set, and where to look."""

from typing import TYPE_CHECKING, Any

from dpbo.flows.cli.screens.terminal import Screen

if TYPE_CHECKING:
    from dpbo.flows.compare import Comparison


def comparison_json(made: "Comparison") -> dict[str, Any]:
    """The object of `dpbo compare --json`."""
    return {"cells": [cell.to_json() for cell in made.cells], "files": [str(file) for file in made.files]}


def print_comparison(made: "Comparison") -> None:
    """Print a comparison as `dpbo compare` shows it: a table of regrets by task and ε."""
    screen = Screen()
    for task in dict.fromkeys(cell.task for cell in made.cells):
        here = [cell for cell in made.cells if cell.task == task]
        epsilons = sorted({cell.epsilon for cell in here})
        rows = []
        for name in dict.fromkeys(cell.contender for cell in here):
            found = {cell.epsilon: cell.regret for cell in here if cell.contender == name}
            rows.append([name, *("–" if found.get(e) is None else f"{found[e]:.4f}" for e in epsilons)])
        title = f"{task}, m = {here[0].n_validation:,}: regret"
        screen.table(["", *(f"ε = {e:g}" for e in epsilons)], rows, left=1, wraps=0, title=title)
        screen.say()
    screen.say("look: " + ", ".join(str(file) for file in made.files))
