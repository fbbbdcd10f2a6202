"""What one edition of a study costs: its choice, and the report on it."""

from dpbo_core.ledger.accounting.edition_price import Price
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.study.preconditions import paying_account
from dpbo_core.study.resolve import ResolvedStudy


def price_of(study: ResolvedStudy, ledger: PrivacyLedger | None) -> Price:
    """The price of one edition of a study: its choice and, where [evaluation] states an ε, the report on it."""
    spec, parts = study.spec, {"choice": study.plan}
    if spec.asks_for_evaluation:
        from dpbo_core.report.comparison import query_of

        parts["report"] = query_of(spec, study.problem, None).plan("")
    account = paying_account(spec, ledger)
    entries = () if account is None else account.entries
    paid = any((entry.study, entry.edition) == (spec.name, spec.edition) for entry in entries)
    return Price(account, parts, paid)
