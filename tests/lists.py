"""Writes the lists of methods, scores and base algorithms into the pages, each as its own file declares it.

python tests/lists.py
"""

import re
from pathlib import Path

from dpbo_core.methods import EXCHANGES, METHODS
from dpbo_core.models.scores.bounded_function import FUNCTION
from dpbo_core.models.scores.union import SCORES
from dpbo_core.private_training.union import BASES

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", "docs/which_method.md", "docs/study_file.md", "docs/private_training.md")
LIST = re.compile(r"(<!-- list: (\w+), by python tests/lists.py -->\n).*?(<!-- end of the list -->)", re.DOTALL)


def methods():
    """What one wants → which method."""
    rows = []
    for kind, cls in {**METHODS, **EXCHANGES}.items():
        said = cls.traits
        named = said.command or f"`{kind}`"
        rows.append((said.wants, named, said.gives, said.needs, said.delta, said.trainings))
    return table(("you want", "method", "what leaves", "needs", "δ", "trainings"), rows)


def scores():
    """Each score: what a record earns, and between which ends."""
    known = [(f"`{name}`", score.earns, score.between) for name, score in SCORES.items()]
    own = ('`"package.module.function"`', FUNCTION.earns, FUNCTION.between)
    return table(("`score`", "one record scores", "between"), [*known, own])


def bases():
    """Each private base algorithm: which models, which hyperparameters, and whether it is pure."""
    rows = []
    for base in BASES.values():
        if base.private:
            defaults = {
                name: "" if axis.default is None else f" ({axis.default:g})" for name, axis in base.axes.items()
            }
            axes = ", ".join(f"`{name}`{default}" for name, default in defaults.items())
            models = ", ".join(f"`{model}`" for model in base.models) or "any"
            rows.append((f"`{base.name}`", models, axes, "0" if base.pure else "> 0"))
    return table(("`base`", "models", "axes of `[space]`, with their defaults", "δ"), rows)


def table(head, rows):
    """A table of Markdown; a bar in a cell is written as ¦."""
    lines = ["| " + " | ".join(cell.replace("¦", "\\|") for cell in line) + " |\n" for line in (head, *rows)]
    return "".join([lines[0], "|---" * len(head) + "|\n", *lines[1:]])


def page(path):
    """A page with its lists as the code declares them; links are from the page's own folder."""
    written = {"methods": methods, "scores": scores, "bases": bases}

    def listed(found):
        text = written[found[2]]()
        return found[1] + (text if "/" not in path else text.replace("](docs/", "](")) + found[3]

    return LIST.sub(listed, (ROOT / path).read_text())


if __name__ == "__main__":
    for name in PAGES:
        (ROOT / name).write_text(page(name))
