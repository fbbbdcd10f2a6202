"""What one edition of a study costs: its choice, and the report on it."""

from contextlib import suppress
from pathlib import Path

from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.accounting.admission import Price
from dpbo_core.ledger.charge import QueryKey
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.report import COMPARISON
from dpbo_core.study.data_split import FileSplit
from dpbo_core.study.preconditions import paying_account
from dpbo_core.study.resolve import ResolvedStudy
from dpbo_core.study.spec import changed_settings


def price_of(study: ResolvedStudy, ledger: PrivacyLedger | None, folder: str | Path = ".") -> Price:
    """Return the price of one edition of a study: its choice and, where [evaluation] states an ε, the report on it.

    Where the choice was charged before, and the report was not, it is the report's alone. The public training data
    in `folder` are read only where the ledger has a charge of this name and edition.
    """
    spec, parts = study.spec, {"choice": study.plan}
    if spec.asks_for_evaluation:
        from dpbo_core.report.comparison_query import query_of

        parts["report"] = query_of(spec, study.problem, None).plan("")
    account = paying_account(spec, ledger)
    entries = () if account is None else account.entries
    same = [entry for entry in entries if (entry.study, entry.edition) == (spec.name, spec.edition)]
    if not same or ledger is None:
        return Price(account, parts)
    key = None
    with suppress(StudyInvalid):  # the training data are not here: then this study was not charged from here
        key = study.key(FileSplit(spec, folder).digest())
    if key is not None and ledger.reserved(key.fingerprint) is not None:
        if "report" not in parts or _charges_report(study, key, ledger, folder):
            return Price(account, parts, paid=True)
        return Price(account, {"report": parts["report"]})
    if all(entry.released_at is None for entry in same):  # its charge may be taken over
        return Price(account, parts)
    released = ledger.study_as_released(spec.privacy.dataset, spec.name, spec.edition) or {}
    return Price(account, parts, changed=changed_settings(released, spec) or "another public training set")


def _charges_report(study: ResolvedStudy, key: QueryKey, ledger: PrivacyLedger, folder: str | Path) -> bool:
    """Return whether the report on the choice with this key was charged; or a comparison at its ε and edition."""
    from dpbo_core.report.comparison_query import query_of
    from dpbo_core.report.request import digest_of_released

    spec, query = study.spec, query_of(study.spec, study.problem, None)
    if spec.compares:
        comparison = (f"{spec.name}/{COMPARISON}", query.edition, query.epsilon)
        accounts = ledger.accounts(spec.privacy.dataset)
        return any((one.study, one.edition, one.epsilon) == comparison for one in accounts[0].entries)
    with suppress(StudyInvalid):  # its groups are stated by no public data
        grouping = query.grouping(FileSplit(spec, folder).public(study.problem).preprocessing)
        return ledger.reserved(query.key(digest_of_released(key), grouping).fingerprint) is not None
    return False
