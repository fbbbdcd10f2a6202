"""`dpbo init`: what was written, what was assumed, and what to do next."""

from pathlib import Path

from dpbo.flows.cli.screens.terminal import Screen, named
from dpbo_core.spec import AxisSection, PersonFiles, PrivacySection, PublicFiles, StudySpec


def print_written(spec: StudySpec, out: Path) -> None:
    """Print what `dpbo init` wrote, and the next command."""
    screen, data, model = Screen(), spec.data, spec.model
    screen.say(
        f"[bold]{named(out)}[/] is written. Of the validation file only the header and the number of records were "
        "read; nothing was charged.\n"
    )
    facts = [
        ("model", f"{model.estimator}, scored by {model.score}"),
        ("searches", ", ".join(_axis(name, axis) for name, axis in spec.space.items())),
    ]
    if isinstance(data, PublicFiles | PersonFiles):
        facts = [("predicts", named(data.target)), *facts, ("protects", _protected(spec.privacy, data))]
    facts.append(("price", f"ε = {spec.privacy.epsilon:g}, δ = {spec.privacy.delta:g}"))
    if spec.budget is not None:
        cap = f"ε = {spec.budget.epsilon:g}, δ = {spec.budget.delta:g}"
        facts.append(("cap", f"{cap} for all studies of {named(repr(spec.privacy.dataset))}, set once"))
    if spec.privacy.person is None:
        facts.append(("people", "if a column says whose a record is, --person COLUMN protects people"))
    if isinstance(data, PublicFiles | PersonFiles) and data.ignore:
        left_out = ", ".join(named(name) for name in data.ignore)
        facts.append(("left out", f"{left_out}: empty, or a text of too many values"))
        facts.append(("pipeline", 'takes texts, dates and gaps as they are: estimator = "risk_model:pipeline"'))
    if isinstance(data, PublicFiles | PersonFiles) and data.missing == "mean":
        facts.append(("gaps", "filled with the training file's means"))
    screen.facts(facts)
    screen.say(
        "\nRead it through: price, cap and who is protected are yours to choose. Make sure that nobody in the "
        "validation file is in the training file. Then:\n"
    )
    screen.say(f"  dpbo plan {named(out)}")


def _protected(privacy: PrivacySection, data: PublicFiles | PersonFiles) -> str:
    if isinstance(data, PersonFiles):
        who = f"the people in column {named(str(privacy.person))} of {named(data.validation)}"
        return f"{who}: {data.n_persons:,} of them, on your word, and each counts once"
    n, file, k = f"{data.n_validation:,}", named(data.validation), privacy.max_records_per_person
    if privacy.person is None:
        return f"each of the {n} records of {file}"
    return f"the people in column {named(privacy.person)} of {file} ({n} records): at most {k} of each count"


def _axis(name: str, axis: AxisSection) -> str:
    if axis.values is not None:
        return f"{named(name)} of {len(axis.values)} values"
    return f"{named(name)} from {axis.low:g} to {axis.high:g}"
