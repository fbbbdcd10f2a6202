"""Before a first charge whose own plan expects mostly noise: a question on the owner's terminal, else a refusal.

A study that says `anyway = true` in [privacy] is asked nothing; `--anyway` says it for one command.
"""

import sys

from dpbo_core.errors import SpendUseless, printable
from dpbo_core.study import StudySpec
from dpbo_core.study.context import IfUseless


def consent(study: StudySpec, useless: str, *, may_ask: bool) -> IfUseless:
    """What becomes of a study's first charge: made if the study says `anyway`, or a person agrees when asked."""
    if study.privacy.anyway:
        return IfUseless.SPEND
    if not useless:
        return IfUseless.REFUSE
    if may_ask and sys.stdin.isatty() and sys.stderr.isatty():
        sys.stderr.write(f"{printable(useless)}.\nNothing was charged yet. Spend it anyway? [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return IfUseless.SPEND
    raise SpendUseless(useless)
