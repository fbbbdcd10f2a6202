"""`dpbo budget export`, `verify`, `recover` and `merge`: the ledger's history, and whether it is whole."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpbo.flows.cli.terminal import print_sentence
from dpbo.flows.cli.words import Debug, lines_of, reason_of
from dpbo_core.errors import StudyInvalid

if TYPE_CHECKING:
    from dpbo.flows.prefect_runtime.settings import Stores
    from dpbo_core.accounting.audit import Verdict
    from dpbo_core.accounting.recovery import Recovered


def merge(debug: Debug = False) -> None:
    """Charge what was spent in ./mlruns/ledger.db to the team's ledger. Asked twice it adds nothing."""
    from dpbo.flows.prefect_runtime.settings import Stores
    from dpbo_core.accounting import merging

    print_sentence(
        _added(merging.merge(Stores().ledger), "local", "The team's ledger has every spend of ./mlruns/ledger.db")
    )


def export(
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Where to; otherwise the terminal.")] = None,
    debug: Debug = False,
) -> None:
    """Write the ledger's history as JSON lines. Keep it where nobody who can change the ledger can change it."""
    import tempfile

    from dpbo_core.accounting import audit

    stores = _stores()
    text = "".join(f"{line}\n" for line in audit.export(stores.ledger))
    if out is None:
        sys.stdout.write(text)
        return
    try:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=out.parent, delete=False) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(file.name).replace(out)
    except OSError as error:
        reason = reason_of(error)
    else:
        return
    raise StudyInvalid(f"the file {str(out)!r} cannot be written ({reason})", remedy="choose another place")


def verify(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="An export the ledger must continue.")
    ] = None,
    accept_restored: Annotated[
        bool, typer.Option("--accept-restored", help="Go on with an older ledger; you answer for what it lost.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Check that nothing in the ledger was changed, removed, added or taken back to an older copy."""
    from dpbo_core.accounting import audit

    copy = () if file is None else audit.read_export(lines_of(file))
    stores = _stores()
    history = audit.verify(stores.ledger, copy, accept=accept_restored)
    conditional = audit.conditional_releases(stores.ledger, estimator_standing)
    entries = "1 entry" if history.last.sequence == 1 else f"{history.last.sequence} entries"
    whole = f"The ledger is whole: {entries}, the last sealed {history.last.hash[:16]}."
    if history.recovered is not None:
        whole = f"Accepted, and written into the history; {history.recovered} lost entries were recovered. {whole}"
    print_sentence(" ".join([whole, *(f"{told}." for told in conditional)]))


def estimator_standing(facts: Mapping[str, Any]) -> "Verdict":
    """What a recorded release says of its estimator, held to today's rule.

    A release of a notebook names a class by its package alone ("sklearn.Pipeline"), and not what it holds: nothing
    can be told of it; nor of a record that names none.
    """
    from dpbo_core.models.listed.predictors import unlisted_name
    from dpbo_core.spec.written_model import OUR_ESTIMATORS

    estimator = facts.get("estimator")
    if estimator in OUR_ESTIMATORS or facts.get("rowwise") == "enforced":
        return "unconditional"
    if not isinstance(estimator, str) or ":" in estimator or estimator.count(".") < 2:
        return "unknown"
    return "conditional" if unlisted_name(estimator, {}, {}) else "unconditional"


def recover(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An export found after an old copy was accepted.")],
    debug: Debug = False,
) -> None:
    """Add what an export has and the ledger lost: each lost study counts as spent, and is shown again as it was."""
    from dpbo_core.accounting import audit, recovery

    copy, stores = audit.read_export(lines_of(file)), _stores()
    lost = recovery.recover(stores.ledger, copy)
    print_sentence(_added(lost, "lost", "The ledger has everything that the export has"))


def _added(found: "Recovered", which: str, nothing: str) -> str:
    """What was added to the ledger; `nothing` says why nothing had to be."""
    if found == type(found)():
        return f"{nothing}; nothing was added."
    told = f"{found.charges} {which} charges were added, with {found.draws} draws and {found.releases} releases."
    if found.smaller_caps:
        names = ", ".join(sorted(set(found.smaller_caps)))
        told += f" There were two caps of {names}; the smaller holds now, or no more is admitted."
    return f"{told} They count as spent: dpbo budget shows what is left."


def _stores() -> "Stores":
    """Where the ledger is, in a folder of its owner's alone."""
    from dpbo.flows.prefect_runtime.settings import Stores

    stores = Stores()
    stores.make_folder()
    return stores
