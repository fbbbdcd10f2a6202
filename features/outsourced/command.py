"""`dpbo curate …` and `dpbo model …`: the two parties of an outsourced search, who exchange files only."""

import math
import tomllib
from dataclasses import asdict, fields
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer

from dpbo.features.outsourced import session
from dpbo.features.outsourced.answers import Curator
from dpbo.features.outsourced.box import Outsourced, PrivateAnswers
from dpbo.features.outsourced.curator import Publication
from dpbo.features.outsourced.curator import publish as publish_table
from dpbo.features.outsourced.utility import Expected, Utility, utility
from dpbo.flows.cli.running import own_ledger, text_of
from dpbo.flows.stores import Stores
from dpbo.flows.terminal import Screen, named, print_result
from dpbo_core.data import read_header
from dpbo_core.data.header import SENSITIVE_FILE
from dpbo_core.errors import StudyInvalid, suggestion
from dpbo_core.privacy.guarantee import CALLER_ASSUMPTIONS, NeighboringRelation
from dpbo_core.privacy.release import StudyResult
from dpbo_core.study.query import QueryContext
from dpbo_core.study.sections import PrivacySection

curate_app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="The curator: publish a private table, answer queries about it.",
)
model_app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="The modeller: search a published table, query by query.",
)

BOX_KEYS = {"epsilon": 1.0, "delta": 1e-5, "relation": None, "norm_bound": None, "dim": None}  # and their defaults
HIDES = {
    "row_moves_by_one": "a move of one row by a distance of at most 1 (row_moves_by_one, the paper's)",
    "replace_one": "a whole row, whatever it is replaced by (replace_one)",
}
State = Annotated[Path, typer.Option("--state", metavar="FILE", help="The search, as a file.")]


@curate_app.command()
def publish(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="The candidates: one row each, numbers only.")],
    out: Annotated[Path, typer.Option(metavar="Z.parquet", help="The table for the modeller.")],
    dataset: Annotated[str, typer.Option(help="The dataset whose budget is charged.")],
    epsilon: Annotated[float, typer.Option(help="ε of the table.")],
    delta: Annotated[float, typer.Option(help="δ of the table.")],
    transform: Annotated[str, typer.Option(help="gaussian, or published: the paper's, not private.")] = "gaussian",
    relation: Annotated[
        str | None,
        typer.Option(help="row_moves_by_one, the default: a row that moves by 1 at most; replace_one: any row."),
    ] = None,
    norm_bound: Annotated[
        float | None, typer.Option(help="The norm to which longer rows are clipped; for replace_one.")
    ] = None,
    dim: Annotated[int | None, typer.Option(help="The number of published columns; by default all.")] = None,
    edition: Annotated[str, typer.Option(help="A new edition is a new table and spends budget again.")] = "1",
) -> None:
    """Publish a noised projection of the candidates' rows in a secret order; charges the budget."""
    PrivacySection(dataset=dataset, epsilon=1.0)  # refuses names the ledger could not keep
    numbers = {"epsilon": epsilon, "delta": delta, "norm_bound": norm_bound, "dim": dim}
    box = _box(transform, relation, **numbers)
    publication = Publication(box, dataset, edition)
    published = publish_table(publication, data, out, QueryContext(own_ledger()), vaults=Stores().vaults)
    release = published.release
    print_result(
        lambda: release.to_json() | {"replayed": published.replayed, "file": str(out)},
        lambda: print_published(published, out),
    )


@curate_app.command()
def plan(
    exchange: Annotated[
        Path, typer.Argument(metavar="EXCHANGE.toml", help="Public numbers of the table: its size, ε, δ, guesses.")
    ],
) -> None:
    """Estimate the number of columns, the noise and the regret of a table. Reads no row and charges nothing."""
    stated = _stated(exchange)
    size = _table_size(stated.pop("data", None), stated.pop("rows", None), stated.pop("columns", None))
    of_box = {name: stated.pop(name, default) for name, default in BOX_KEYS.items()}
    planned = utility(_box("gaussian", **of_box), *size, Expected(**stated))
    print_result(lambda: _finite(asdict(planned)), lambda: typer.echo(_plan_text(planned, size)))


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
) -> None:
    """Answer one query. The first private answer charges for all; the same query gets the same answer."""
    for name in accept or ():
        if name not in CALLER_ASSUMPTIONS:
            raise StudyInvalid(f"assumption {name!r} is not known{suggestion(name, CALLER_ASSUMPTIONS)}")
    noised = None
    if private_answers is not None:
        if epsilon is None or delta is None:
            raise StudyInvalid(
                "private answers have no price",
                remedy="add --epsilon 1 --delta 1e-6, say, for all of them together",
            )
        noised = PrivateAnswers(*private_answers, epsilon, delta)
    elif epsilon is not None or delta is not None:
        raise StudyInvalid(
            "--epsilon and --delta are the price of private answers", remedy="add --private-answers LOW HIGH"
        )
    curator = Curator(QueryContext(own_ledger()), Stores().vaults)
    message = curator.answer_file(query, answers, out, private=noised, accepts=tuple(accept or ()))
    print_result(
        lambda: asdict(message), lambda: typer.echo(f"step {message.step}: row {message.row} answered in {out}")
    )


@model_app.command()
def suggest(
    table: Annotated[Path, typer.Argument(metavar="Z.parquet", help="The published table.")],
    state: State,
    out: Annotated[Path, typer.Option(metavar="QUERY.json", help="The query for the curator.")],
) -> None:
    """Choose the next row to ask about and write the query for the curator."""
    query = session.suggest(table, state, out)
    print_result(lambda: asdict(query), lambda: typer.echo(f"step {query.step}: row {query.row} asked in {out}"))


@model_app.command()
def update(
    answer: Annotated[Path, typer.Argument(metavar="ANSWER.json", help="The curator's answer.")], state: State
) -> None:
    """Record the curator's answer in the search."""
    now = session.update(answer, state)
    print_result(
        lambda: asdict(now),
        lambda: typer.echo(f"{now.steps} answers; the largest, {now.value:g}, is row {now.row}"),
    )


def print_published(published: StudyResult, out: Path) -> None:
    """Print the size of a published table, its guarantee and its noise."""
    release = published.release
    value, (spend,) = release.value, release.spends
    screen = Screen()
    if published.replayed:
        screen.say(f"released on {release.released_at[:10]}; nothing was drawn or spent this time\n")
    screen.facts(
        [
            ("table", f"{named(out)}: {value['rows']} rows, {value['columns']} columns, in a secret order"),
            ("guarantee", named(release.guarantee.in_words())),
            ("noise", f"{named(spend.mechanism)}, scale {spend.noise_scale:.4g} in every entry"),
            ("answers", "not part of this guarantee: see dpbo curate answer"),
        ]
    )


def _box(transform: str, relation: str | None, **options: Any) -> Outsourced:
    transforms = get_args(get_type_hints(Outsourced)["transform"])
    relations = [item.value for item in NeighboringRelation]
    for flag, value, valid in (("--transform", transform, transforms), ("--relation", relation, relations)):
        if value is not None and value not in valid:
            raise StudyInvalid(
                f"{flag} {value!r} is not known{suggestion(value, valid)}",
                remedy=f"choose one of {', '.join(valid)}",
            )
    return Outsourced(
        transform=transform,  # type: ignore[arg-type]  # checked above
        relation=None if relation is None else NeighboringRelation(relation),
        **options,
    )


def _stated(file: Path) -> dict[str, Any]:
    """Return the keys and values of a file for `dpbo curate plan`; refused if one is unknown or of another type."""
    try:
        stated = tomllib.loads(text_of(file))
    except tomllib.TOMLDecodeError as error:
        raise StudyInvalid(f"the file {str(file)!r} is no TOML ({error})", remedy="write key = value") from None
    texts, counts = ("data", "relation"), ("rows", "columns", "dim", "n_steps")
    keys = (*texts, *counts, *BOX_KEYS, *(field.name for field in fields(Expected)))
    for key, value in stated.items():
        if key not in keys:
            remedy = f"choose one of {', '.join(dict.fromkeys(keys))}"
            raise StudyInvalid(f"{key!r} is not known{suggestion(key, keys)}", remedy=remedy)
        kinds = (str,) if key in texts else (int,) if key in counts else (int, float)
        if type(value) not in kinds:
            raise StudyInvalid(
                f"{key} is no {'text' if key in texts else 'number'} of its kind", remedy="correct it"
            )
    if "data" in stated:
        stated["data"] = file.parent / stated["data"]
    return stated


def _table_size(data: Path | None, rows: int | None, columns: int | None) -> tuple[int, int]:
    if (data is None) == (rows is None and columns is None) or (data is None and None in (rows, columns)):
        raise StudyInvalid(
            "the size of the table is not said, or said twice",
            remedy="state data, the path of its file, or rows and columns",
        )
    if data is None:
        return int(rows or 0), int(columns or 0)
    header = read_header(data, mode=SENSITIVE_FILE, display_name=str(data))
    return header.n_records, len(header.columns)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _plan_text(planned: Utility, size: tuple[int, int]) -> str:
    lines = [
        f"{size[0]:,} rows of {size[1]} columns; diameter {planned.diameter:g}.",
        "No row was read and nothing was charged.",
        "",
        "--transform gaussian, the default, private:",
        f"  r      {planned.sound_dim}: all columns; with fewer, image and noise shrink alike",
        f"  noise  {planned.noise_scale:.4g} in every entry",
        f"  rows   nearer than {planned.told_apart:.4g} are closer than their noise"
        + (": all rows are" if planned.useless else ""),
        f"  hides  {HIDES[planned.relation]}",
        *(["  useless: no two rows are told apart; choose a larger ε, or another relation"] * planned.useless),
        "",
        "--transform published, the paper's, which protects nobody (ε = ∞):",
        f"  Theorem 3 asks for ν ≤ {planned.wanted_distortion:.3g}, Lemma 1 then for r = {planned.wanted_dim:,}",
        "  the largest r with ω ≤ σ_min is "
        + ("not known without singular_value" if planned.largest_dim is None else f"{planned.largest_dim}"),
    ]
    if planned.dominant is False:
        lines.append("  no such rows are diagonally dominant (Definition 3), as Theorem 3 assumes")
    lines += ["", f"  {'r':>12}  {'ω':>9}  {'ν':>7}  {'distances²':>17}  {'ε_ucb':>8}  {'regret':>8}"]
    for line in planned.by_dim:
        near = "none" if line.distortion == math.inf else f"{line.distortion:.3g}"
        low, high = line.distances
        apart = "not bounded" if near == "none" else f"{low:.3g} to {high:.3g}"
        raised = "" if line.raised is None else " raised" if line.raised else ""
        lines.append(
            f"  {line.dim:>12,}  {line.floor:>9.4g}  {near:>7}  {apart:>17}  {_bounded(line.approximation):>8}"
            f"  {_bounded(line.regret):>8}{raised}"
        )
    lines += [
        "",
        "ω: what the smallest singular value must reach, or all are raised; ν: by how",
        "much a squared distance may be off (Lemma 1, Theorem 2); ε_ucb: the regret",
        "that no step removes (Theorem 3), or what takes its place where singular",
        "values are raised (Remark 2); regret: the bound of Theorem 3. none: nothing is",
        "proved.",
    ]
    return "\n".join(lines)


def _bounded(value: float) -> str:
    return "none" if value == math.inf else f"{value:.3g}"
