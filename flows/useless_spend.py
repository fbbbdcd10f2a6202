"""Before a first charge that its own plan calls useless: a question on the owner's terminal, a refusal elsewhere.

A study that says `anyway = true` in [privacy] is asked nothing; `--anyway` says it for one command.
"""

import sys
from dataclasses import replace

from dpbo_core.errors import SpendUseless, printable
from dpbo_core.study_file import StudySpec


def ask_or_refuse(study: StudySpec, useless: str) -> StudySpec:
    """The study, allowed to spend though its plan is useless (`useless` says why), if it states so or a person at
    the terminal agrees when asked; else refused.

    Raises:
        SpendUseless: neither; nothing was charged.
    """
    if study.privacy.anyway:
        return study
    if sys.stdin.isatty() and sys.stderr.isatty():
        sys.stderr.write(f"{printable(useless)}.\nNothing was charged yet. Spend it anyway? [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return replace(study, privacy=replace(study.privacy, anyway=True))
    raise SpendUseless(useless)


def refuse(study: StudySpec, useless: str) -> None:
    """Refuse a study whose plan is useless (`useless` says why, "" that it is not) unless it states `anyway`.

    Raises:
        SpendUseless: it does not; nothing was charged.
    """
    if useless and not study.privacy.anyway:
        raise SpendUseless(useless)
