"""The words of `tune`, `serve`, `plan` and `evaluate`, whose modules are imported when a command runs.

So help and a wrong option are answered before a library is loaded, and a missing file before the ledger is opened.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from dpbo.flows.cli.words import Anyway, Direct, Port, Study, TrustServer
from dpbo.flows.plain_output import announce_stage

EXAMPLE_NAME = "the bundled example"
Registers = Annotated[bool, typer.Option("--register", help="Register the final model in MLflow.")]


def tune(
    ctx: typer.Context,
    study: Annotated[Path | None, typer.Argument(metavar="STUDY.toml", help="The study file.")] = None,
    example: Annotated[bool, typer.Option("--example", help="Run the bundled example study.")] = False,
    register: Registers = False,
    anyway: Anyway = False,
    yes: Annotated[bool, typer.Option("--yes", help="Spend without asking on the terminal.")] = False,
    new_spend: Annotated[
        bool, typer.Option("--new-spend", help="Spend budget again for a study changed after its release.")
    ] = False,
    direct: Direct = False,
) -> None:
    """Search step by step, charge the budget, release the result and show it in MLflow."""
    if study is not None:
        _check_study(ctx)
    announce_stage(EXAMPLE_NAME if study is None else study.name, "reading the study")
    from dpbo.flows.cli import tune as command

    command.tune(
        study, example=example, register=register, anyway=anyway, yes=yes, new_spend=new_spend, read=ctx.obj
    )


def serve(
    study: Study,
    cron: Annotated[str | None, typer.Option(help='When to fire, UTC: "0 2 * * *", say.')] = None,
    every: Annotated[str | None, typer.Option(help="How often to run, such as 30m, 6h or 1d.")] = None,
    port: Port = 4200,
    register: Annotated[bool, typer.Option("--register", help="Register each final model in MLflow.")] = False,
    trust_server: TrustServer = False,
) -> None:
    """Run the study on a schedule. To serve its model, use dpbo tune --register.

    Each run is a new edition and a new spend, until the budget refuses.
    """
    from dpbo.flows.cli import tune as command

    command.serve(study, cron=cron, every=every, port=port, register=register, trust_server=trust_server)


def plan(
    ctx: typer.Context,
    studies: Annotated[
        list[Path], typer.Argument(metavar="STUDY.toml", help="The study file; several are priced together.")
    ],
    every_method: Annotated[
        bool, typer.Option("--all", help="Show every method with its numbers and the reasons.")
    ] = False,
    rehearse: Annotated[
        bool, typer.Option("--rehearse", help="With a trainer of your own: train once on invented records.")
    ] = False,
    event: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Price a dp_accounting event too, on the first study's dataset."),
    ] = None,
) -> None:
    """Estimate each method's accuracy and privacy cost, and refuse what tune would refuse.

    Reads no sensitive record and charges nothing.
    """
    _check_study(ctx)
    from dpbo.flows.cli import plan as command

    command.plan(studies, every_method=every_method, rehearse=rehearse, event=event)


def evaluate(
    ctx: typer.Context,
    study: Study,
    epsilon: Annotated[
        float | None, typer.Option(help="ε of the report; replaces the study's [evaluation].")
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Evaluate a saved public model instead: its folder, or an MLflow model."),
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Recalibrate the model from the report; costs no further ε.")
    ] = False,
    threshold: Annotated[
        str | None, typer.Option(help="With --repair: cost=10:1 (a miss costs ten false alarms) or recall=0.9.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Compare with this champion instead: a saved model's folder, models:/NAME@ALIAS, or column:NAME.",
        ),
    ] = None,
    register: Annotated[
        bool, typer.Option("--register", help="With --against: make the model MLflow's champion if it is better.")
    ] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Show the price and the expected accuracy; charges nothing.")
    ] = False,
    anyway: Anyway = False,
) -> None:
    """Report the released model's quality on the sensitive records: ROC, calibration and groups, for one ε."""
    _check_study(ctx)
    from dpbo.flows.cli import evaluate as command

    command.evaluate(
        study,
        epsilon=epsilon,
        model=model,
        repair=repair,
        threshold=threshold,
        against=against,
        register=register,
        plan=plan,
        anyway=anyway,
    )


def _check_study(ctx: typer.Context) -> None:
    """Read the study that the command names, unless it was read already: its mistakes are answered first."""
    if ctx.obj is None:
        from dpbo.flows.cli.first_look import look

        ctx.obj = look(sys.argv[1:])
