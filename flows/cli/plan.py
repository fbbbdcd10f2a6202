"""`dpbo plan`: every method priced on a study, and what to expect of it; no sensitive file is opened."""

from typing import Annotated, Any

import typer

from dpbo.flows.cli.studies import check_public_here
from dpbo.flows.cli.terminal import Screen, named, print_json
from dpbo.flows.cli.words import AsJson, Debug, Study
from dpbo.flows.prefect_runtime.settings import Stores
from dpbo_core.advice.advise import Advice
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.preparation.data_split import allows_own_score, public_sources
from dpbo_core.preparation.public_advice import public_baseline, public_share, public_spread
from dpbo_core.preparation.resolve import advise_study
from dpbo_core.preparation.sizes import n_public
from dpbo_core.queries.tuning.schedule import planned_if_scheduled
from dpbo_core.study_file import Bundled, StudySpec
from dpbo_core.study_file.toml_file import read_study

VERDICT_STYLE = {"good": "green", "poor": "yellow", "useless": "red", "refused": "dim"}
HEADER = ("method", "verdict", "ε", "δ", "noise", "regret", "error", "trained")
AllMethods = Annotated[bool, typer.Option("--all", help="List methods too that cannot run on this study.")]
Fit = Annotated[
    bool, typer.Option("--fit", help="Cross-validate a few candidates on the public file: what there is to choose.")
]


def plan(
    study: Study, json: AsJson = False, all_methods: AllMethods = False, fit: Fit = False, debug: Debug = False
) -> None:
    """Price every method on a study and say what to expect of it. Opens no sensitive file, charges nothing."""
    spec = planned_if_scheduled(read_study(study), study.parent)
    folder = study.parent
    check_public_here(public_sources(spec, folder))
    read = {"positives": public_share(spec, folder), "baseline": public_baseline(spec, folder)}
    if fit:
        own_score = spec.model.own_score and allows_own_score(spec, PrivacyLedger(Stores().ledger))
        read["spread"] = public_spread(spec, folder, own_score=own_score)
    advice = advise_study(spec, folder, **read, n_public=n_public(spec, folder))
    print_json(advice.to_json()) if json else print_advice(spec, advice, refused=all_methods)


def print_advice(spec: StudySpec, advice: Advice, *, refused: bool = False) -> None:
    """Print a line for each method, then why, then the one to choose.

    Args:
        spec: the study.
        advice: on it.
        refused: whether to list methods too that cannot run on it; the study's own is listed in any case.
    """
    lines = [line for line in advice.methods if refused or line.verdict != "refused" or line.kind == spec.method]
    screen = Screen()
    screen.say(
        f"[bold]{named(spec.name)}[/] · edition {named(spec.edition)} · dataset {named(spec.privacy.dataset)}"
    )
    screen.say(f"{_opened(spec, advice)}\n")
    if spec.budget is not None and spec.budget.editions is not None:
        screen.say(f"Its budget is planned for {spec.budget.editions:,} of its editions.\n")
    rows = []
    for line in lines:
        numbers = (
            line.epsilon,
            line.delta,
            line.noise_scale,
            line.expected_error,
            line.trainings,
        )
        cells = ["–" if number is None else f"{number:.3g}" for number in numbers]
        cells.insert(3, line.regret_told or "–")
        rows.append((line.kind, f"[{VERDICT_STYLE[line.verdict]}]{line.verdict}[/]", *cells))
    screen.table(HEADER, rows, left=2)
    screen.say(
        "\nregret: what the chosen hyperparameters are expected to lose, least if the public set is like yours, "
        "most if it misleads; error: that and the error of the released score; noise: its scale on the score.\n"
    )
    for line in lines:
        if line.seconds is not None:
            screen.say(
                f"[bold]{line.kind}[/] scores every record in a process of its own: "
                f"about {line.seconds:,.0f} s here, an estimate."
            )
    for line in lines:
        screen.say(f"[bold]{line.kind}[/]: {named(line.why)}.")
    if len(lines) < len(advice.methods):
        hidden = len(advice.methods) - len(lines)
        screen.say(f"{hidden} other{'s' if hidden > 1 else ''} cannot run on this study; dpbo plan --all says why.")
    choice = advice.choice
    if choice is None:
        screen.say("\nNo method can run on this study.")
        return
    if all(line.verdict in ("useless", "refused") for line in advice.methods):
        screen.say(
            "\n[red]Nothing here is worth its price[/]: the answer would be noise. More records or a larger ε "
            "would help, fewer steps or candidates hardly."
        )
    screen.say(f"\n[bold]{choice.kind}[/] is the one to choose: {named(choice.why)}.")
    if spec.method == "auto":
        screen.say('The study says "auto", so it will be.')
        return
    options = ", ".join(f"{name} = {_toml(value)}" for name, value in choice.options.items())
    settings = f", with {options} in \\[method]" if options else ""
    if choice.kind != spec.method or any(spec.options.get(name) != value for name, value in choice.options.items()):
        screen.say(
            f'Choose method = "{choice.kind}"{settings}, or method = "auto"; the study says "{spec.method}".'
        )


def _opened(spec: StudySpec, advice: Advice) -> str:
    """A sentence about which files were read for the advice: the public training set's at most."""
    if isinstance(spec.data, Bundled) or (advice.n_public is None and advice.positives is None):
        return "Nothing was opened and nothing was charged."
    facts = [] if advice.n_public is None else [f"{advice.n_public:,} records"]
    facts += [] if advice.positives is None else [f"{advice.positives:.1%} positive"]
    if advice.spread is not None:
        facts += ["some candidates cross-validated on it"]
    return f"The public training file was read ({', '.join(facts)}), no other, and nothing was charged."


def _toml(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)
