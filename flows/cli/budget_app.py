"""`dpbo budget …`: the ledger's accounts, the owner's policy, and whether the ledger is whole."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from dpbo.flows.cli.words import AsJson, Debug


class BudgetGroup(TyperGroup):
    """`dpbo budget [DATASET]` shows; `dpbo budget set …` sets. The words of the group are no dataset names."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Whatever does not start with a word of the group is shown."""
        words = [arg for arg in args if not arg.startswith("-")]
        if "--help" not in args and (not words or words[0] not in self.commands):
            args = ["show", *args]
        return super().parse_args(ctx, args)


budget_app = typer.Typer(cls=BudgetGroup, help="The ledger: limit, spent, remaining, every entry.")


@budget_app.command("show", hidden=True)
def budget_show(
    dataset: Annotated[str | None, typer.Argument()] = None,
    forecast: Annotated[
        bool, typer.Option("--forecast", help="When it ends, if its studies go on as they did.")
    ] = False,
    every: Annotated[
        str | None, typer.Option(help="With --forecast: how often each study goes on, 30d say; as it did if none.")
    ] = None,
    json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show every dataset's account, or one; --forecast says when it ends."""
    from dpbo.flows.cli import budget_commands as command
    from dpbo.flows.cli.budget import accounts_json, forecasts_json, print_accounts, print_forecasts
    from dpbo.flows.cli.terminal import print_json

    accounts = command.accounts(dataset)
    if forecast or every is not None:
        told = command.forecasts(accounts, every)
        print_json(forecasts_json(told)) if json else print_forecasts(told)
        return
    print_json(accounts_json(accounts)) if json else print_accounts(accounts)


@budget_app.command("set")
def budget_set(
    dataset: Annotated[str, typer.Argument(help="The dataset's name in the ledger.")],
    epsilon: Annotated[float | None, typer.Option(help="The cap's ε.")] = None,
    delta: Annotated[float, typer.Option(help="The cap's δ.")] = 0.0,
    relation: Annotated[str, typer.Option(help="Which data sets are neighbours.")] = "replace_one",
    accept: Annotated[list[str] | None, typer.Option(help="An assumption the cap allows; repeat for more.")] = None,
    public: Annotated[bool, typer.Option("--public", help="Nothing to protect: no limit.")] = False,
    largest_epsilon: Annotated[
        float | None, typer.Option(help="The most that a study which Prefect starts may ask for; only lowered.")
    ] = None,
    file: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="What it is scored on; repeat for more.")
    ] = None,
    member: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="NAME", help="A new name whose studies this cap pays too; repeat for more."),
    ] = None,
    debug: Debug = False,
) -> None:
    """Open a dataset's cap, once; the same again is fine, another is refused."""
    from dpbo.flows.cli import budget_commands as command

    typer.echo(
        command.set_budget(
            dataset,
            epsilon=epsilon,
            delta=delta,
            relation=relation,
            accepts=tuple(accept or ()),
            public=public,
            policy=command.Policy(largest_epsilon, tuple(file or ()), tuple(member or ())),
        )
    )


@budget_app.command("allow")
def budget_allow(
    dataset: Annotated[str, typer.Argument(help="The dataset's name in the ledger.")],
    file: Annotated[
        str | None,
        typer.Argument(metavar="FILE", help="A path ({date} allowed), URL#table, bundled name, or memory."),
    ] = None,
    shared: Annotated[
        bool, typer.Option("--shared", help="Its people pay another dataset too; both accounts say so.")
    ] = False,
    score: Annotated[
        list[str] | None,
        typer.Option(metavar="MODULE:FUNCTION", help="A function of yours that studies may name as their score."),
    ] = None,
    debug: Debug = False,
) -> None:
    """Add to what a dataset may be scored on, or by. Charges nothing."""
    from dpbo.flows.cli import budget_commands as command
    from dpbo.flows.cli.terminal import print_sentence

    print_sentence(command.allow(dataset, file, shared=shared, scores=tuple(score or ())))


@budget_app.command("publish")
def budget_publish(
    dataset: Annotated[str, typer.Argument(help="The dataset's name in the ledger.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file, or a folder of Parquet files.")],
    debug: Debug = False,
) -> None:
    """Say for ever that a file's records are public: it may be read so, and every later release says it."""
    from dpbo.flows.cli import budget_commands as command
    from dpbo.flows.cli.screens.terminal import print_sentence

    print_sentence(command.publish(dataset, file))


@budget_app.command("merge")
def budget_merge(debug: Debug = False) -> None:
    """Charge what was spent in ./mlruns/ledger.db to the team's ledger. Asked twice it adds nothing."""
    from dpbo.flows.cli import budget_commands as command
    from dpbo.flows.cli.terminal import print_sentence

    print_sentence(command.merge())


@budget_app.command("export")
def budget_export(
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Where to; otherwise the terminal.")] = None,
    debug: Debug = False,
) -> None:
    """Write the ledger's history as JSON lines. Keep it where nobody who can change the ledger can change it."""
    from dpbo.flows.cli import budget_commands as command

    command.export(out)


@budget_app.command("verify")
def budget_verify(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="An export the ledger must continue.")
    ] = None,
    accept_restored: Annotated[
        bool, typer.Option("--accept-restored", help="Go on with an older ledger; you answer for what it lost.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Check that nothing in the ledger was changed, removed, added or taken back to an older copy."""
    from dpbo.flows.cli import budget_commands as command
    from dpbo.flows.cli.terminal import print_sentence

    print_sentence(command.verify(file, accept_restored=accept_restored))


@budget_app.command("recover")
def budget_recover(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An export found after an old copy was accepted.")],
    debug: Debug = False,
) -> None:
    """Add what an export has and the ledger lost: each lost study counts as spent, and is shown again as it was."""
    from dpbo.flows.cli import budget_commands as command
    from dpbo.flows.cli.terminal import print_sentence

    print_sentence(command.recover(file))
