"""What `dpbo curate` and `dpbo model` do between their words and their screens."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from dpbo.flows.prefect_runtime.settings import Stores
from dpbo_core.errors import StudyInvalid, suggestion

if TYPE_CHECKING:
    from dpbo_core.accounting.ledger import PrivacyLedger
    from dpbo_core.methods.outsourced.curator import Published


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
) -> "Published":
    """Publish a table.

    Raises:
        DpboError: as a message.
    """
    from dpbo_core.methods.outsourced.box import Outsourced
    from dpbo_core.methods.outsourced.curator import Publication
    from dpbo_core.methods.outsourced.curator import publish as publish_table
    from dpbo_core.privacy.unit import NeighboringRelation
    from dpbo_core.spec.sections import PrivacySection

    PrivacySection(dataset=dataset, epsilon=1.0)  # refuses names the ledger could not keep
    transforms = get_args(get_type_hints(Outsourced)["transform"])
    relations = [item.value for item in NeighboringRelation]
    for flag, value, valid in (("--transform", transform, transforms), ("--relation", relation, relations)):
        if value is not None and value not in valid:
            raise StudyInvalid(
                f"{flag} {value!r} is not known{suggestion(value, valid)}",
                remedy=f"choose one of {', '.join(valid)}",
            )
    box = Outsourced(
        epsilon=epsilon,
        delta=delta,
        transform=transform,  # type: ignore[arg-type]  # checked above
        relation=None if relation is None else NeighboringRelation(relation),
        norm_bound=norm_bound,
        dim=dim,
    )
    return publish_table(Publication(box, dataset, edition), data, out, ledger=_ledger(), vaults=Stores().vaults)


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
    from dpbo_core.methods.outsourced.private_answers import PrivateAnswers
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


def suggest(table: Path, state: Path, out: Path) -> dict[str, Any]:
    """Write the next query; what was written.

    Raises:
        DpboError: as a message.
    """
    from dpbo_core.methods.outsourced import session

    return asdict(session.suggest(table, state, out))


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
