"""The released model afterwards: `dpbo evaluate` and `dpbo watch`, in words."""

from pathlib import Path
from typing import Annotated

import typer

from dpbo.flows.cli.words import AsJson, Debug, Port, Study, TrustServer

ALARM = 5  # the exit code of a look that alarms, where it is asked for


def evaluate(
    study: Study,
    epsilon: Annotated[
        float | None, typer.Option(help="ε of the report, in the place of the study's [evaluation].")
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A saved public model, not the study's own: its folder, or MLflow's."),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Say the price and what to expect; charges nothing.")
    ] = False,
    json: AsJson = False,
    pad_steps: Annotated[float, typer.Option(help="The counting takes a whole number of so many seconds.")] = 0.0,
    register: Annotated[
        bool,
        typer.Option("--register", help="Let it be MLflow's champion where what is released says it is better."),
    ] = False,
    debug: Debug = False,
) -> None:
    """Evaluate the released model on the sensitive records: ROC, calibration, groups, from one spend."""
    from dpbo.flows.cli import evaluating as command
    from dpbo.flows.cli.screens.evaluated import expected_json, print_expected
    from dpbo.flows.cli.screens.terminal import print_json
    from dpbo.flows.cli.screens.tuned import evaluated_json, print_report

    if plan:
        expected = command.plan(study, epsilon=epsilon, model=model)
        print_json(expected_json(expected)) if json else print_expected(expected)
        return
    evaluated, account = command.evaluate(study, epsilon=epsilon, model=model, pad=pad_steps, register=register)
    result, tracked = evaluated.result, evaluated.tracked
    if json:
        print_json(evaluated_json(result, tracked) | ({"champion": evaluated.champion} if register else {}))
    else:
        print_report(result, tracked, account, champion=evaluated.champion)


def watch(
    study: Study,
    drop: Annotated[
        float | None, typer.Option(help="How far the score may fall before an alarm; else the study's [watch].")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="ε of ALL looks up to and including the first alarm.")
    ] = None,
    every: Annotated[str | None, typer.Option(help="How often to look: 1d, 6h.")] = None,
    cron: Annotated[str | None, typer.Option(help='When to look, UTC: "0 6 * * *", say.')] = None,
    once: Annotated[bool, typer.Option("--once", help="Look now, once.")] = False,
    look: Annotated[
        str | None, typer.Option(help="With --once: the look's name, today's date if none. Again, the same bit.")
    ] = None,
    table: Annotated[
        str | None, typer.Option(metavar="FILE", help="Today's sensitive file, day-{date}.csv say.")
    ] = None,
    reference: Annotated[
        float | None, typer.Option(help="A public score to compare with; the released one if none.")
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Say how often it will err, and its price; charges nothing.")
    ] = False,
    retune: Annotated[
        bool, typer.Option("--retune", help="At an alarm tune a new edition, if the budget has room.")
    ] = False,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="With --once: exit with 5 at an alarm.")] = False,
    json: AsJson = False,
    port: Port = 4200,
    pad_steps: Annotated[float, typer.Option(help="A look takes a whole number of so many seconds.")] = 0.0,
    trust_server: TrustServer = False,
    debug: Debug = False,
) -> None:
    """Has the model gone stale? Look again and again, for one price until the first alarm."""
    from dpbo.flows.cli import watching as command
    from dpbo.flows.cli.screens.terminal import print_json
    from dpbo.flows.cli.screens.watched import plan_json, print_plan, print_watched, watched_json

    section = command.wanted(study, drop=drop, epsilon=epsilon, table=table, reference=reference)
    if plan:
        expected = command.plan(study, section)
        print_json(plan_json(expected)) if json else print_plan(expected)
        return
    if not once:
        command.serve(
            study, section, cron=cron, every=every, port=port, pad=pad_steps, retune=retune, trust=trust_server
        )
        return
    watched, account = command.look(study, section, name=look, retune=retune, pad=pad_steps)
    print_json(watched_json(watched)) if json else print_watched(watched, account)
    if exit_code and watched.look.alarm:
        raise typer.Exit(ALARM)
