"""The tables of docs/tables/audit.txt, and their rows that show a broken guarantee or an uncaught fault."""

import re
from collections.abc import Callable, Iterable

Cells = list[str]


def line(*cells: object) -> str:
    """A row of a table."""
    return f"| {' | '.join(map(str, cells))} |"


def table(head: str, rows: Iterable[str]) -> str:
    return "\n".join([f"| {head} |", "|" + "---|" * len(head.split(" | ")), *rows])


def rows(text: str) -> list[Cells]:
    """The cells of every table's rows, without the heads."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    heads = {i - 1 for i, line in enumerate(lines) if line.startswith("|---")}
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for i, line in enumerate(lines)
        if i not in heads and not line.startswith("|---")
    ]


def zeros(cells: Cells, last: int) -> bool:
    """Whether the last counts are all 0."""
    return all(cell == "0" for cell in cells[-last:])


GOALS = {  # of `make intruder`, by how the row begins: what its third cell must be
    "local uid": r"0 of (1[2-9]|[2-9]\d|\d{3}) ways(; \d+ not run)?",
    "ε from one file": "× 1",
    "operator": "no",
    "paid release": r"(\d+) of \1",
    "tampering": r"(\d+) of \1",
    "silent PostgreSQL": r"(\d|1[0-4])\.\d s",
    "K through": "0",
    "outbound": "0",
    "a canary": "0",
}


def kept_out(cells: Cells) -> bool:
    """Whether a way got nothing (or was not run, and says why), or a goal is met; an unknown row meets none."""
    if len(cells) == 5:
        return cells[-1] == "0" or cells[-1].startswith("not run: no Chromium")
    goals = [goal for begins, goal in GOALS.items() if cells[0].startswith(begins)]
    return len(goals) == 1 and re.fullmatch(goals[0], cells[2]) is not None


def learned(cells: Cells) -> bool:
    """Whether a cheater's vote rose above 0.56 in the mean, or more than seven of ten labels were read."""
    read, of = map(int, cells[-1].split(" of "))
    return float(cells[2]) > 0.56 or read > 0.7 * of


def broken(section: str, text: str) -> list[Cells]:
    """The rows of a section that are wrong; none where all is well."""
    faults = (
        "\nPlanted faults;" if section in ("neighbours", "estimators", "intrusion", "boards") else "\nFlows made"
    )
    honest, _, planted = text.partition(faults)
    good: dict[str, tuple[Callable[[Cells], bool], Callable[[Cells], bool]]] = {
        "neighbours": (lambda row: row[-1] == "under", lambda row: row[-1] == "above"),
        "boards": (lambda row: not learned(row), learned),
        "intrusion": (kept_out, lambda row: row[-1] != "0"),
        "replays": (lambda row: row[2] == "0" and float(row[3]) <= 1.0, lambda _: False),
    }
    counts = {"enumeration": 1, "estimators": 1, "kills": 3, "leaks": 2, "observer": 1, "inputs": 5}  # that are 0
    if section not in good | counts:
        return []
    fine, caught = good.get(section) or (lambda row: zeros(row, counts[section]), lambda row: row[-1] != "0")
    return [row for row in rows(honest) if not fine(row)] + [row for row in rows(planted) if not caught(row)]
