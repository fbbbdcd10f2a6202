"""`dpbo curate …` and `dpbo model …`: the two parties of an outsourced search, who exchange files only."""

from pathlib import Path
from typing import Annotated

import typer

curate_app = typer.Typer(
    no_args_is_help=True, help="The curator: publish a private table, answer queries about it."
)
model_app = typer.Typer(no_args_is_help=True, help="The modeller: search a published table, query by query.")

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the stack trace of an error.")]
State = Annotated[Path, typer.Option("--state", metavar="FILE", help="The search, as a file.")]


@curate_app.command()
def publish(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="The candidates: one row each, numbers only.")],
    out: Annotated[Path, typer.Option(metavar="Z.parquet", help="The table for the modeller.")],
    dataset: Annotated[str, typer.Option(help="Whose budget pays.")],
    epsilon: Annotated[float, typer.Option(help="ε of the table.")],
    delta: Annotated[float, typer.Option(help="δ of the table.")],
    transform: Annotated[str, typer.Option(help="gaussian, or published: the paper's, not private.")] = "gaussian",
    relation: Annotated[str | None, typer.Option(help="replace_one (the default) or row_moves_by_one.")] = None,
    norm_bound: Annotated[float | None, typer.Option(help="Longer rows are clipped; for replace_one.")] = None,
    dim: Annotated[int | None, typer.Option(help="Columns published; all if not given.")] = None,
    edition: Annotated[str, typer.Option(help="A new edition is a new table and a new spend.")] = "1",
    json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Publish a noised image of the candidates' rows, in a secret order."""
    from dpbo.flows.cli import exchange
    from dpbo.flows.cli.screens.terminal import print_json

    published = exchange.publish(
        data,
        out,
        dataset=dataset,
        edition=edition,
        epsilon=epsilon,
        delta=delta,
        transform=transform,
        relation=relation,
        norm_bound=norm_bound,
        dim=dim,
    )
    if json:
        print_json(published.release.to_json() | {"replayed": published.replayed, "file": str(out)})
    else:
        typer.echo(exchange.published_text(published, out))


@curate_app.command()
def answer(
    query: Annotated[Path, typer.Argument(metavar="QUERY.json", help="The modeller's query.")],
    answers: Annotated[Path, typer.Option(metavar="Y.csv", help="One column, a row for each row of the data.")],
    out: Annotated[Path, typer.Option(metavar="ANSWER.json", help="The answer for the modeller.")],
    private_answers: Annotated[
        tuple[float, float] | None, typer.Option(metavar="LOW HIGH", help="Clip to this range and add noise.")
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="ε of all private answers together.")] = None,
    delta: Annotated[float | None, typer.Option(help="δ of all private answers together.")] = None,
    accept: Annotated[list[str] | None, typer.Option(help="answers_public, for answers without noise.")] = None,
    json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Answer one query; the same query gets the same answer."""
    from dpbo.flows.cli import exchange
    from dpbo.flows.cli.screens.terminal import print_json

    given = exchange.answer(
        query,
        answers,
        out,
        private=private_answers,
        epsilon=epsilon,
        delta=delta,
        accepts=tuple(accept or ()),
    )
    if json:
        print_json(given)
    else:
        typer.echo(f"step {given['step']}: row {given['row']} answered in {out}")


@model_app.command()
def suggest(
    table: Annotated[Path, typer.Argument(metavar="Z.parquet", help="The published table.")],
    state: State,
    out: Annotated[Path, typer.Option(metavar="QUERY.json", help="The query for the curator.")],
    json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Choose the next row to ask about."""
    from dpbo.flows.cli import exchange
    from dpbo.flows.cli.screens.terminal import print_json

    asked = exchange.suggest(table, state, out)
    print_json(asked) if json else typer.echo(f"step {asked['step']}: row {asked['row']} asked in {out}")


@model_app.command()
def update(
    answer: Annotated[Path, typer.Argument(metavar="ANSWER.json", help="The curator's answer.")],
    state: State,
    json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Take in an answer."""
    from dpbo.flows.cli import exchange
    from dpbo.flows.cli.screens.terminal import print_json

    now = exchange.update(answer, state)
    if json:
        print_json(now)
    else:
        typer.echo(f"{now['steps']} answers; the largest, {now['value']:g}, is row {now['row']}")
