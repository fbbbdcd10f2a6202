"""The lists of methods, scores and base algorithms in the pages, each as its own file declares it."""

import os
import re
from pathlib import Path

from of_features import merged, parts
from pages import ROOT

from dpbo.flows.cli.app import ALL_COMMANDS, FEATURE_COMMANDS, OWN_COMMANDS
from dpbo_core.methods import EXCHANGES, METHODS
from dpbo_core.models.scores.kinds import FUNCTION
from dpbo_core.models.scores.union import SCORES
from dpbo_core.study import StudySpec
from dpbo_core.study.resolve import plan_study

LISTED_IN = (
    "docs/explanation/what_epsilon_means.md", "docs/explanation/which_method.md", "docs/reference/study_file.md",
    "docs/reference/commands.md", "docs/evidence/threat_model.md", *parts("LISTED_IN"),
)  # fmt: skip
LIST = re.compile(r"(<!-- list: (\w+), by make pages -->\n).*?(<!-- end of the list -->)", re.DOTALL)


def methods():
    """What one wants → which method."""
    rows = []
    for kind, cls in {**METHODS, **EXCHANGES}.items():
        named = getattr(cls, "command", f"`{kind}`")
        rows.append((cls.wants, named, cls.gives, cls.needs, cls.delta_range, cls.trainings))
    return table(("you want", "method", "what leaves", "needs", "δ", "trainings"), rows)


def observable():
    """What each method's run shows beside its plan and its release."""
    rows = [(f"`{kind}`", cls.observable) for kind, cls in {**METHODS, **EXCHANGES}.items()]
    return table(("method", "to be seen beside the plan and the release"), rows)


def commands():
    """Each command and what it does, in the order of `dpbo --help`."""
    return table(
        ("command", "does"),
        [(f"`dpbo {name}`", ALL_COMMANDS[name][1]) for name in (*OWN_COMMANDS, *FEATURE_COMMANDS)],
    )


def scores():
    """Each score: what a record earns, and between which ends."""
    known = [(f"`{name}`", score.earns, score.between) for name, score in SCORES.items()]
    own = ('`"package.module.function"`', FUNCTION.earns, FUNCTION.between)
    return table(("`score`", "one record scores", "between"), [*known, own])


def noise_by_size():
    """The scale of the noise on a released accuracy, from plans alone."""

    def scale(method, n_validation, epsilon):
        study = {
            "study": {"name": "sizes", "method": method},
            "privacy": {"dataset": "sizes", "epsilon": epsilon, "delta": 1e-6},
            "data": {"training": "t.csv", "validation": "v.csv", "n_validation": n_validation, "target": "y"},
            "model": {"estimator": "logistic", "score": "accuracy"},
            "space": {"lambda": {"low": 1e-4, "high": 10.0, "log": True, "points": 20}},
        }
        return f"{plan_study(StudySpec.from_dict(study)).spends[-1].noise_scale:.5f}"

    cells = [(n, method) for n in (300, 3000, 30000) for method in ("private_trajectory", "private_grid")]
    rows = [(f"{n:,}", f"`{method}`", *(scale(method, n, e) for e in (0.5, 1.0, 2.0))) for n, method in cells]
    return table(("records", "method", "ε = 0.5", "ε = 1", "ε = 2"), rows)


def table(head, rows):
    """A table of Markdown; a bar in a cell is written as ¦."""
    lines = ["| " + " | ".join(cell.replace("¦", "\\|") for cell in line) + " |\n" for line in (head, *rows)]
    return "".join([lines[0], "|---" * len(head) + "|\n", *lines[1:]])


def relative(target, page):
    """A path of the repository as a link on one of its pages."""
    return os.path.relpath(target, Path(page).parent)


def page(path):
    """A page with its lists as the code declares them; links are from the page's own folder."""
    written = {
        "methods": methods,
        "noise_by_size": noise_by_size,
        "observable": observable,
        "commands": commands,
        "scores": scores,
        **merged("LISTS"),
    }

    def listed(found):
        text = written[found[2]]()
        return found[1] + re.sub(r"\]\((docs/[^)#]+)", lambda link: f"]({relative(link[1], path)}", text) + found[3]

    return LIST.sub(listed, (ROOT / path).read_text())
