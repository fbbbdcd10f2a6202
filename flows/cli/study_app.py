"""A study from its file to its release: `dpbo init`, `plan`, `tune`, `score` and `serve`, in words."""

from pathlib import Path
from typing import Annotated

import typer

from dpbo.flows.cli.at_once import reading
from dpbo.flows.cli.words import AsJson, Debug, Explain, Port, Study, TrustServer

AllMethods = Annotated[bool, typer.Option("--all", help="List methods too that cannot run on this study.")]
Fit = Annotated[
    bool, typer.Option("--fit", help="Cross-validate a few candidates on the public file: what there is to choose.")
]


def init(
    training: Annotated[Path, typer.Argument(metavar="TRAINING.csv", help="The PUBLIC file; it is read.")],
    validation: Annotated[
        Path, typer.Argument(metavar="VALIDATION.csv", help="The SENSITIVE file; its header and length are read.")
    ],
    target: Annotated[str | None, typer.Option(help="The column to predict; the last one if not given.")] = None,
    name: Annotated[
        str | None,
        typer.Option(help="Of the study and its budget; the file's or the target's if not given."),
    ] = None,
    person: Annotated[
        str | None, typer.Option(help="The column that says whose a record is: whole people are protected.")
    ] = None,
    n_persons: Annotated[
        int | None, typer.Option(help="With --person: how many people the validation file is about; public.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The file to write; one that is there is kept.")] = Path("study.toml"),
    debug: Debug = False,
) -> None:
    """Write a commented study file for two data files. Charges nothing."""
    from dpbo.flows.cli import commands as command
    from dpbo.flows.cli.screens.written import print_written

    spec = command.init(training, validation, target=target, name=name, person=person, n_persons=n_persons, out=out)
    print_written(spec, out)


def plan(
    study: Study, json: AsJson = False, all_methods: AllMethods = False, fit: Fit = False, debug: Debug = False
) -> None:
    """Price every method on a study and say what to expect of it. Opens no sensitive file, charges nothing."""
    from dpbo.flows.cli.replays import check_public_here
    from dpbo.flows.cli.screens.advice import print_advice
    from dpbo.flows.cli.screens.terminal import print_json
    from dpbo.flows.prefect_runtime.settings import Stores
    from dpbo_core.accounting.ledger import PrivacyLedger
    from dpbo_core.study.data_split import allows_own_score, public_sources
    from dpbo_core.study.public_advice import public_baseline, public_share, public_spread
    from dpbo_core.study.resolve import advise_study
    from dpbo_core.study.schedule import planned_if_scheduled
    from dpbo_core.study.sizes import n_public
    from dpbo_core.study.study_file import read_study

    spec = planned_if_scheduled(read_study(study), study.parent)
    folder = study.parent
    check_public_here(public_sources(spec, folder))
    read = {"positives": public_share(spec, folder), "baseline": public_baseline(spec, folder)}
    if fit:
        own_score = spec.model.own_score and allows_own_score(spec, PrivacyLedger(Stores().ledger))
        read["spread"] = public_spread(spec, folder, own_score=own_score)
    advice = advise_study(spec, folder, **read, n_public=n_public(spec, folder))
    print_json(advice.to_json()) if json else print_advice(spec, advice, refused=all_methods)


def tune(
    study: Annotated[Path | None, typer.Argument(metavar="STUDY.toml", help="The study file.")] = None,
    example: Annotated[bool, typer.Option("--example", help="Run the bundled study instead, anywhere.")] = False,
    json: AsJson = False,
    pad_steps: Annotated[float, typer.Option(help="Each task takes a whole number of so many seconds.")] = 0.0,
    register: Annotated[bool, typer.Option("--register", help="Register the final model in MLflow.")] = False,
    explain: Explain = False,
    debug: Debug = False,
) -> None:
    """Plan, reserve, search step by step, release, and show it in MLflow."""
    reading(study)
    from dpbo.flows.cli import commands as command
    from dpbo.flows.cli.screens.terminal import print_json
    from dpbo.flows.cli.screens.tuned import print_tuned, tuned_json

    chosen = command.chosen_study(study, example=example)
    tuned, account = command.tune(chosen, pad_steps=pad_steps, register=register)
    print_json(tuned_json(tuned)) if json else print_tuned(tuned, account)
    if explain and not json:
        from dpbo.flows.cli.screens.explained import print_explained

        print_explained(tuned.result.release, account)


def score(
    study: Study,
    json: AsJson = False,
    pad_steps: Annotated[float, typer.Option(help="Each task takes a whole number of so many seconds.")] = 0.0,
    debug: Debug = False,
) -> None:
    """Choose among predictions made elsewhere (estimator = "predictions"): as tune, and nothing is trained."""
    from dpbo.flows.cli import commands as command
    from dpbo.flows.cli.screens.terminal import print_json
    from dpbo.flows.cli.screens.tuned import print_tuned, tuned_json

    command.check_predictions(study)
    tuned, account = command.tune(study, pad_steps=pad_steps)
    print_json(tuned_json(tuned)) if json else print_tuned(tuned, account)


def serve(
    study: Study,
    cron: Annotated[str | None, typer.Option(help='When to fire, UTC: "0 2 * * *", say.')] = None,
    every: Annotated[str | None, typer.Option(help="How often to fire: 30m, 6h, 1d.")] = None,
    port: Port = 4200,
    pad_steps: Annotated[float, typer.Option(help="Each step takes a whole number of so many seconds.")] = 0.0,
    register: Annotated[bool, typer.Option("--register", help="Register each final model in MLflow.")] = False,
    trust_server: TrustServer = False,
    debug: Debug = False,
) -> None:
    """Tune on a schedule: each run is a new edition and a new spend, until the budget refuses."""
    from dpbo.flows.cli import commands as command

    command.serve(
        study, cron=cron, every=every, port=port, pad_steps=pad_steps, register=register, trust=trust_server
    )
