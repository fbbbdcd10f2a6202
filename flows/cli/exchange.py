"""What `dpbo curate` and `dpbo model` do between their words and their screens."""

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from dpbo.flows.prefect_runtime.settings import Stores
from dpbo_core.errors import StudyInvalid, suggestion

if TYPE_CHECKING:
    from dpbo_core.accounting.ledger import PrivacyLedger
    from dpbo_core.methods.outsourced.box import Outsourced
    from dpbo_core.methods.outsourced.curator import Published
    from dpbo_core.methods.outsourced.utility import Utility


def publish(
    data: Path,
    out: Path,
    *,
    dataset: str,
    edition: str,
    epsilon: float,
    delta: float,
    transform: str,
    relation: str | None,
    norm_bound: float | None,
    dim: int | None,
    centre: str | None = None,
) -> "Published":
    """Publish a table.

    Raises:
        DpboError: as a message.
    """
    from dpbo_core.methods.outsourced.curator import Publication
    from dpbo_core.methods.outsourced.curator import publish as publish_table
    from dpbo_core.spec.sections import PrivacySection

    PrivacySection(dataset=dataset, epsilon=1.0)  # refuses names the ledger could not keep
    box = _box(
        epsilon=epsilon,
        delta=delta,
        transform=transform,
        relation=relation,
        norm_bound=norm_bound,
        dim=dim,
        centre=_numbers(centre),
    )
    return publish_table(Publication(box, dataset, edition), data, out, ledger=_ledger(), vaults=Stores().vaults)


def _box(*, transform: str, relation: str | None, **given: Any) -> "Outsourced":
    """The curator's box, with its words checked.

    Raises:
        StudyInvalid: a word that is not known, or numbers that make no box.
    """
    from dpbo_core.methods.outsourced.box import Outsourced
    from dpbo_core.privacy.unit import NeighboringRelation

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
        **given,
    )


def _numbers(text: str | None) -> tuple[float, ...]:
    """Numbers between commas.

    Raises:
        StudyInvalid: something else.
    """
    try:
        return () if text is None else tuple(float(part) for part in text.split(","))
    except ValueError:
        pass
    raise StudyInvalid(f"--centre {text!r} is no list of numbers", remedy="write it like --centre 1.5,-2,0")


def table_size(data: Path | None, rows: int | None, columns: int | None) -> tuple[int, int]:
    """n and d, as said, or of a file, of which nothing else is looked at.

    Raises:
        StudyInvalid: both or neither, or a file without them.
    """
    from dpbo_core.data import read_header

    if (data is None) == (rows is None and columns is None) or (data is None and None in (rows, columns)):
        raise StudyInvalid(
            "the size of the table is not said, or said twice",
            remedy="give the file, or --rows and --columns",
        )
    if data is None:
        return int(rows or 0), int(columns or 0)
    header = read_header(data, sensitive=True, shown_as=str(data))
    return header.n_records, len(header.columns)


def plan(
    size: tuple[int, int],
    *,
    epsilon: float,
    delta: float,
    relation: str | None,
    norm_bound: float | None,
    dim: int | None,
    expected: dict[str, Any],
) -> "Utility":
    """What a publication of that size will be good for; nothing is read, drawn or charged.

    Raises:
        StudyInvalid: numbers that describe none.
    """
    from dpbo_core.methods.outsourced.utility import Expected, utility

    box = _box(
        epsilon=epsilon, delta=delta, transform="gaussian", relation=relation, norm_bound=norm_bound, dim=dim
    )
    return utility(box, *size, Expected(**expected))


def plan_json(planned: "Utility") -> dict[str, Any]:
    """The plan for programs; null for what nothing bounds."""

    def finite(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: finite(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [finite(item) for item in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return dict(finite(asdict(planned)))


def plan_text(planned: "Utility", size: tuple[int, int]) -> str:
    """What a person reads of it."""
    lines = [
        f"{size[0]:,} rows of {size[1]} columns; diameter {planned.diameter:g}.",
        "No row was read and nothing was charged.",
        "",
        "--transform gaussian, the default, private:",
        f"  r      {planned.sound_dim}: all columns; with fewer, image and noise shrink alike",
        f"  noise  {planned.noise_scale:.4g} in every entry",
        f"  rows   nearer than {planned.told_apart:.4g} are closer than their noise"
        + (": no two rows are told apart" if planned.told_apart >= planned.diameter else ""),
        "",
        "--transform published, the paper's, which protects nobody (ε = ∞):",
        f"  Theorem 3 asks for ν ≤ {planned.wanted_distortion:.3g}, Lemma 1 then for r = {planned.wanted_dim:,}",
        "  the largest r with ω ≤ σ_min is "
        + ("not known without --singular-value" if planned.largest_dim is None else f"{planned.largest_dim}"),
    ]
    if planned.dominant is False:
        lines.append("  no such rows are diagonally dominant (Definition 3), which Theorem 3 assumes of them")
    lines += ["", f"  {'r':>12}  {'ω':>9}  {'ν':>7}  {'distances²':>17}  {'ε_ucb':>8}  {'regret':>8}"]
    for line in planned.by_dim:
        near = "none" if line.distortion == math.inf else f"{line.distortion:.3g}"
        low, high = line.distances
        apart = "not bounded" if near == "none" else f"{low:.3g} … {high:.3g}"
        kept = "" if line.raised is None else " raised" if line.raised else ""
        lines.append(
            f"  {line.dim:>12,}  {line.floor:>9.4g}  {near:>7}  {apart:>17}  {_bounded(line.approximation):>8}"
            f"  {_bounded(line.regret):>8}{kept}"
        )
    lines += [
        "",
        "ω: what the smallest singular value must reach, or all are raised; ν: by how much a squared distance",
        "may be off (Lemma 1, Theorem 2); ε_ucb: the regret that no step removes (Theorem 3), or what takes its",
        "place where singular values are raised (Remark 2); regret: the bound of Theorem 3. none: nothing is",
        "proved.",
    ]
    return "\n".join(lines)


def _bounded(value: float) -> str:
    return "none" if value == math.inf else f"{value:.3g}"


def published_text(published: "Published", out: Path) -> str:
    """What a person reads after publishing."""
    release = published.release
    (spend,) = release.spends
    lines = [
        f"{out}: {release.value['rows']} rows, {release.value['columns']} columns, in a secret order",
        f"guarantee   {release.guarantee.in_words()}",
        f"noise     {spend.mechanism}, scale {spend.noise_scale:.4g} in every entry",
        "answers   not part of this guarantee: see dpbo curate answer",
    ]
    if published.replayed:
        lines.append(f"released on {release.released_at[:10]}; nothing was drawn or spent now")
    return "\n".join(lines)


def answer(
    query: Path,
    answers: Path,
    out: Path,
    *,
    private: tuple[float, float] | None,
    epsilon: float | None,
    delta: float | None,
    accepts: tuple[str, ...],
) -> dict[str, Any]:
    """Answer a query; what was written.

    Raises:
        DpboError: as a message.
    """
    from dpbo_core.methods.outsourced.answers import Curator
    from dpbo_core.methods.outsourced.box import PrivateAnswers
    from dpbo_core.privacy.assumption import CALLER_ASSUMPTIONS

    for name in accepts:
        if name not in CALLER_ASSUMPTIONS:
            raise StudyInvalid(f"assumption {name!r} is not known{suggestion(name, CALLER_ASSUMPTIONS)}")
    noised = None
    if private is not None:
        if epsilon is None or delta is None:
            raise StudyInvalid(
                "private answers have no price",
                remedy="add --epsilon 1 --delta 1e-6, say, for all of them together",
            )
        noised = PrivateAnswers(*private, epsilon, delta)
    elif epsilon is not None or delta is not None:
        raise StudyInvalid(
            "--epsilon and --delta are the price of private answers", remedy="add --private-answers LOW HIGH"
        )
    curator = Curator.of(_ledger(), Stores().vaults)
    return asdict(curator.answer_file(query, answers, out, private=noised, accepts=accepts))


def refuse_half_a_prior() -> None:
    """For numbers that need a lengthscale beside them.

    Raises:
        StudyInvalid: always.
    """
    raise StudyInvalid(
        "a known variance or mean needs a known lengthscale",
        cause="the prior is known whole, or fitted whole",
        remedy="add --lengthscale, in the table's units, or leave the others out",
    )


def suggest(
    table: Path,
    state: Path,
    out: Path,
    *,
    delta_ucb: float | None = None,
    prior: tuple[float, float, float, float] | None = None,
) -> dict[str, Any]:
    """Write the next query; what was written.

    Raises:
        DpboError: as a message.
    """
    from dpbo_core.methods.outsourced import session
    from dpbo_core.methods.outsourced.modeler import Prior

    settings = session.Settings(delta_ucb, None if prior is None else Prior(*prior))
    return asdict(session.suggest(table, state, out, settings))


def update(answer: Path, state: Path) -> dict[str, Any]:
    """Take in an answer; where the search stands.

    Raises:
        DpboError: as a message.
    """
    from dpbo_core.methods.outsourced import session

    return asdict(session.update(answer, state))


def _ledger() -> "PrivacyLedger":
    from dpbo_core.accounting.ledger import PrivacyLedger

    stores = Stores()
    stores.make_folder()
    return PrivacyLedger(stores.ledger)
