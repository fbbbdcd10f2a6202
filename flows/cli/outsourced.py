"""`dpbo curate …` and `dpbo model …`: the two parties of an outsourced search, who exchange files only."""

from pathlib import Path
from typing import Annotated

import typer

from dpbo.flows.cli.words import AsJson, Debug

curate_app = typer.Typer(
    no_args_is_help=True, help="The curator: publish a private table, answer queries about it."
)
model_app = typer.Typer(no_args_is_help=True, help="The modeller: search a published table, query by query.")

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
    centre: Annotated[
        str | None, typer.Option(metavar="C1,C2,…", help="Public; rows are measured from it.")
    ] = None,
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
        centre=centre,
    )
    if json:
        print_json(published.release.to_json() | {"replayed": published.replayed, "file": str(out)})
    else:
        typer.echo(exchange.published_text(published, out))


@curate_app.command()
def plan(
    data: Annotated[
        Path | None, typer.Argument(metavar="[DATA]", help="For its numbers of rows and columns.")
    ] = None,
    rows: Annotated[int | None, typer.Option(help="In the place of DATA.")] = None,
    columns: Annotated[int | None, typer.Option(help="In the place of DATA.")] = None,
    epsilon: Annotated[float, typer.Option(help="ε of the table.")] = 1.0,
    delta: Annotated[float, typer.Option(help="δ of the table.")] = 1e-5,
    relation: Annotated[str | None, typer.Option(help="replace_one (the default) or row_moves_by_one.")] = None,
    norm_bound: Annotated[float | None, typer.Option(help="Longer rows are clipped; for replace_one.")] = None,
    dim: Annotated[int | None, typer.Option(help="Columns published that you think of.")] = None,
    diameter: Annotated[float | None, typer.Option(help="Of the table; twice the norm bound if not given.")] = None,
    singular_value: Annotated[float | None, typer.Option(help="Public guess of the table's smallest.")] = None,
    lengthscale: Annotated[float | None, typer.Option(help="Of the function; a tenth of the diameter.")] = None,
    signal_variance: Annotated[float, typer.Option(help="σ_y² of the function.")] = 1.0,
    noise_variance: Annotated[float, typer.Option(help="σ_n² of an answer.")] = 0.01,
    answer_bound: Annotated[float | None, typer.Option(help="L of Theorem 3; three deviations.")] = None,
    steps: Annotated[int, typer.Option(help="T, rows asked about.")] = 50,
    approximation: Annotated[float, typer.Option(help="ε_ucb, the regret that no step removes.")] = 0.1,
    delta_ucb: Annotated[float, typer.Option(help="δ_ucb, failure probability of the regret.")] = 0.05,
    information_gain: Annotated[float | None, typer.Option(help="γ_T; its largest value if not given.")] = None,
    json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Say how many columns, how much noise and what regret to expect of a table; nothing is read or charged."""
    from dpbo.flows.cli import exchange
    from dpbo.flows.cli.screens.terminal import print_json

    size = exchange.table_size(data, rows, columns)
    planned = exchange.plan(
        size,
        epsilon=epsilon,
        delta=delta,
        relation=relation,
        norm_bound=norm_bound,
        dim=dim,
        expected={
            "diameter": diameter,
            "singular_value": singular_value,
            "lengthscale": lengthscale,
            "signal_variance": signal_variance,
            "noise_variance": noise_variance,
            "answer_bound": answer_bound,
            "n_steps": steps,
            "approximation": approximation,
            "delta_ucb": delta_ucb,
            "information_gain": information_gain,
        },
    )
    print_json(exchange.plan_json(planned)) if json else typer.echo(exchange.plan_text(planned, size))


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
    delta_ucb: Annotated[float | None, typer.Option(help="δ′ of the search, fixed by its first query.")] = None,
    lengthscale: Annotated[float | None, typer.Option(help="ℓ, where known: else all is fitted.")] = None,
    signal_variance: Annotated[float, typer.Option(help="σ_y², with a known lengthscale.")] = 1.0,
    noise_variance: Annotated[float, typer.Option(help="σ_n² of an answer, with a known lengthscale.")] = 0.0,
    mean: Annotated[float, typer.Option(help="Of the answers, with a known lengthscale.")] = 0.0,
    json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Choose the next row to ask about."""
    from dpbo.flows.cli import exchange
    from dpbo.flows.cli.screens.terminal import print_json

    prior = None if lengthscale is None else (lengthscale, signal_variance, noise_variance, mean)
    if lengthscale is None and (signal_variance, noise_variance, mean) != (1.0, 0.0, 0.0):
        exchange.refuse_half_a_prior()
    asked = exchange.suggest(table, state, out, delta_ucb=delta_ucb, prior=prior)
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
