"""Questions on the owner's terminal before a first charge: whether to spend, and whether to spend on mostly noise.

Without a terminal nothing is asked: a first charge is made, but one whose plan expects mostly noise is refused. A
study with `anyway = true` in [privacy] is not asked about noise; `--anyway` has the same effect for one command.
"""

import os
import sys

from dpbo_core.errors import SpendDeclined, SpendUseless, printable
from dpbo_core.ledger.accounting.edition_price import Price
from dpbo_core.study import StudySpec
from dpbo_core.study.context import IfUseless


def consent(study: StudySpec, useless: str, *, may_ask: bool) -> IfUseless:
    """Return what to do if the plan expects mostly noise: spend if the study says `anyway` or a person agrees."""
    if study.privacy.anyway:
        return IfUseless.SPEND
    if not useless:
        return IfUseless.REFUSE
    question = f"{printable(useless)}.\nNothing was charged yet. Spend it anyway?"
    if may_ask and _at_a_terminal() and _agreed(question):
        return IfUseless.SPEND
    raise SpendUseless(useless)


def confirm(price: Price) -> None:
    """Ask on the terminal, if there is one, whether to make a study's first charge.

    Raises:
        SpendDeclined: the answer was no; nothing was charged.
    """
    account = price.account
    if account is None or account.budget.public or not _at_a_terminal():
        return
    if not _agreed(f"Spend {price.sums} of the {account.left:.3g} left on {printable(account.budget.dataset)}?"):
        raise SpendDeclined("nothing was charged", cause="you declined", remedy="run it again to spend")


def _at_a_terminal() -> bool:
    """Return whether somebody can answer: a notebook gives its `!` commands a terminal on which nobody can."""
    in_notebook = any(name.startswith("JPY_") for name in os.environ)  # set in Jupyter's kernels
    return sys.stdin.isatty() and sys.stderr.isatty() and not in_notebook


def _agreed(question: str) -> bool:
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
