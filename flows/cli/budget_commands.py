"""What each subcommand of `dpbo budget` does, between its words and its screen."""

import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from dpbo.flows.cli.words import lines_of, seconds
from dpbo.flows.prefect_runtime.settings import Stores
from dpbo_core.accounting import audit, recovery
from dpbo_core.accounting.accounts import Account
from dpbo_core.accounting.budget import PrivacyBudget
from dpbo_core.accounting.forecast import Forecast, forecast
from dpbo_core.accounting.ledger import PrivacyLedger
from dpbo_core.accounting.sources import PUBLIC, Source, file_source, named_source
from dpbo_core.errors import StudyInvalid, printable, suggestion
from dpbo_core.privacy.amounts import from_units
from dpbo_core.privacy.assumption import CALLER_ASSUMPTIONS
from dpbo_core.privacy.unit import NeighboringRelation

WORDS = (
    "recover",
    "allow",
    "merge",
    "publish",
)  # no cap was ever refused for them before: a study that has one keeps it


def accounts(dataset: str | None) -> tuple[Account, ...]:
    """The ledger's accounts.

    Raises:
        StudyInvalid: no dataset of that name.
    """
    stores = Stores()
    stores.make_folder()
    ledger = PrivacyLedger(stores.ledger)
    found = ledger.accounts(dataset)
    if dataset is not None and not found:
        names = [account.budget.dataset for account in ledger.accounts()]
        raise StudyInvalid(
            f"the ledger knows no dataset {dataset!r}{suggestion(dataset, names)}",
            cause="a misspelt name, another folder's ledger, or nothing was ever spent on it",
            remedy="run dpbo budget to see them all",
        )
    return found


def forecasts(accounts: tuple[Account, ...], every: str | None) -> tuple[tuple[Account, Forecast | None], ...]:
    """Each account with how it burns down; None where nothing of it does.

    Raises:
        StudyInvalid: `every` is no duration.
    """
    rhythm, now = None if every is None else timedelta(seconds=seconds(every)), datetime.now(UTC)
    return tuple((account, forecast(account, now, rhythm)) for account in accounts)


@dataclass(frozen=True)
class Policy:
    """What `dpbo budget set` says beside the cap.

    Attributes:
        largest_epsilon: the most that a study which Prefect starts may ask for.
        files: what the dataset may be scored on, as typed.
        members: names whose studies the cap pays too.
    """

    largest_epsilon: float | None = None
    files: tuple[str, ...] = ()
    members: tuple[str, ...] = ()


CAP_ALONE = Policy()


def set_budget(
    dataset: str,
    *,
    epsilon: float | None,
    delta: float,
    relation: str,
    accepts: tuple[str, ...],
    public: bool,
    policy: Policy = CAP_ALONE,
) -> str:
    """Open a cap, or add to the policy of one that is open; one sentence about it.

    Raises:
        StudyInvalid: impossible numbers or names, or the dataset has another cap.
        PolicyRefused: a name looks like another, or a file is another dataset's.
    """
    from dpbo_core.spec.sections import BudgetSection, PrivacySection

    for name in (dataset, *policy.members):
        PrivacySection(dataset=name, epsilon=1.0)
        if name in WORDS:
            raise StudyInvalid(
                f"{name!r} is a word of dpbo budget", cause="the dataset is named so", remedy="give it another name"
            )
    if policy.largest_epsilon is not None:
        PrivacySection(dataset=dataset, epsilon=policy.largest_epsilon)
    stores = Stores()
    stores.make_folder()
    ledger = PrivacyLedger(stores.ledger)
    budget = ledger.budget(dataset) if epsilon is None and not public and policy != CAP_ALONE else None
    if budget is not None:
        public, epsilon, delta = budget.public, from_units(budget.epsilon_units), from_units(budget.delta_units)
    elif public:
        if epsilon is not None:
            raise StudyInvalid("a public dataset has no ε", remedy="give --public or --epsilon, not both")
        budget = PrivacyBudget.without_limit(dataset)
    else:
        if epsilon is None:
            raise StudyInvalid("a cap needs --epsilon", remedy="add --epsilon 5 --delta 1e-5, say")
        BudgetSection(epsilon=epsilon, delta=delta)
        valid = [item.value for item in NeighboringRelation]
        if relation not in valid:
            raise StudyInvalid(f"relation {relation!r} is not known{suggestion(relation, valid)}")
        for name in accepts:
            if name not in CALLER_ASSUMPTIONS:
                raise StudyInvalid(f"assumption {name!r} is not known{suggestion(name, CALLER_ASSUMPTIONS)}")
        budget = PrivacyBudget.of(
            dataset, epsilon=epsilon, delta=delta, relation=NeighboringRelation(relation), accepts=accepts
        )
    new = ledger.set_budget(
        budget,
        sources=tuple(_source(text) for text in policy.files),
        members=policy.members,
        largest_epsilon=policy.largest_epsilon,
    )
    limit = "no limit: declared public" if public else f"limit ε = {epsilon:g}, δ = {delta:g}"
    return printable(f"{dataset}: {limit} ({'opened' if new else 'as before'})")


def allow(dataset: str, text: str | None, *, shared: bool, scores: tuple[str, ...] = ()) -> str:
    """Add to what a dataset may be scored on, and by which functions; a sentence about each.

    Raises:
        StudyInvalid: neither is given, or one is no import path.
        BudgetRefused: the dataset has no cap, or the file is another dataset's and not said to be shared.
    """
    if text is None and not scores:
        raise StudyInvalid("nothing is said that may be", remedy="give a FILE, or --score package.module:function")
    stores = Stores()
    stores.make_folder()
    ledger, lines = PrivacyLedger(stores.ledger), []
    if text is not None:
        source = _source(text)
        others = ledger.allow(dataset, source, shared=shared)
        since = "(as before)" if others is None else "from now on"
        told = f" Its people pay {', '.join(others)} too, and each of these accounts says so." if others else ""
        lines.append(f"{dataset}: may be scored on {source} {since}.{told}")
    for score in scores:
        since = "from now on" if ledger.allow_score(dataset, score) else "(as before)"
        lines.append(f"{dataset}: may be scored by {score} {since}.")
    return printable(" ".join(lines))


def publish(dataset: str, file: Path) -> str:
    """The owner's word that a file's records are public; one sentence about it.

    Raises:
        StudyInvalid: there is no such file.
        NoBudget: the dataset has no cap.
    """
    source = file_source(file, PUBLIC)
    if not source.marks:
        raise StudyInvalid(f"there is no file {str(file)!r}", remedy="name the file whose records are public")
    stores = Stores()
    stores.make_folder()
    new = PrivacyLedger(stores.ledger).publish(dataset, source)
    said = "every later release says so (published_records)" if new else "as before"
    return printable(f"{dataset}: the records of {source} are public ({said}).")


def merge() -> str:
    """Charge the current folder's ledger to the team's; one sentence about it.

    Raises:
        StudyInvalid: there is one ledger only.
        LedgerDamaged: a ledger is not whole; nothing was added.
    """
    from dpbo_core.accounting import merging

    found = merging.merge(Stores().ledger)
    if found == recovery.Recovered():
        return "The team's ledger has every spend of ./mlruns/ledger.db; nothing was added."
    return printable(f"{_told(found, 'local')} They count as spent: dpbo budget shows what is left.")


def _source(text: str) -> Source:
    from dpbo_core.data.bundled import SIZES

    return named_source(text, [name for name, _ in SIZES])


def export(out: Path | None) -> None:
    """The ledger's history, as JSON lines, into a file of its owner's or onto standard output.

    Raises:
        StudyInvalid: the file cannot be written.
    """
    stores = Stores()
    stores.make_folder()
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
        reason = (error.strerror or "no reason given").lower()
    else:
        return
    raise StudyInvalid(f"the file {str(out)!r} cannot be written ({reason})", remedy="choose another place")


def verify(file: Path | None, *, accept_restored: bool) -> str:
    """Check the ledger, against an export too if there is one; one sentence about it.

    Raises:
        LedgerDamaged: says what was tampered with, or that the ledger is older than it was.
        StudyInvalid: the export cannot be read.
    """
    copy = () if file is None else audit.read_export(lines_of(file))
    stores = Stores()
    stores.make_folder()
    found = audit.verify(stores.ledger, copy, accept=accept_restored)
    conditional = audit.conditional_releases(stores.ledger, estimator_standing)
    entries = "1 entry" if found.last.sequence == 1 else f"{found.last.sequence} entries"
    whole = f"The ledger is whole: {entries}, the last sealed {found.last.hash[:16]}."
    if found.recovered is not None:
        whole = f"Accepted, and written into the history; {found.recovered} lost entries were recovered. {whole}"
    return printable(" ".join([whole, *(f"{told}." for told in conditional)]))


def estimator_standing(facts: Mapping[str, Any]) -> audit.Verdict:
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


def recover(file: Path) -> str:
    """Add to the ledger what an export has and it lacks; one sentence about it.

    Raises:
        LedgerDamaged: the export is another ledger's or is not whole; nothing was added.
        StudyInvalid: the export cannot be read.
    """
    copy = audit.read_export(lines_of(file))
    stores = Stores()
    stores.make_folder()
    found = recovery.recover(stores.ledger, copy)
    if found == recovery.Recovered():
        return "The ledger has everything that the export has; nothing was added."
    return printable(f"{_told(found, 'lost')} They count as spent: dpbo budget shows what is left.")


def _told(found: recovery.Recovered, which: str) -> str:
    told = f"{found.charges} {which} charges were added, with {found.draws} draws and {found.releases} releases."
    if found.smaller_caps:
        names = ", ".join(sorted(set(found.smaller_caps)))
        told += f" There were two caps of {names}; the smaller holds now, or no more is admitted."
    return told
