"""Every error a person can meet, and the exit code each ends with.

    DpboError                    1   all but these three
    ├── StudyInvalid             2   the study file or the data it names
    ├── BudgetRefused            3   nothing was drawn, nothing was charged; its kinds say why
    └── AssumptionNotAccepted    4   a theorem's hypothesis that nobody has taken on

An error is a short message: what happened, the usual cause, what to do. It never holds a sensitive value.
"""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from functools import partial

HASH_PATTERN = re.compile(  # before a name from a file beside a study; after a function's in memory (no date)
    r"dpbo_beside_study_[0-9a-f]+\.|(?<=[^\W\d])\.(?=\d*[a-f])[0-9a-f]{8}(?![\w.]\w)"
)


class DpboError(Exception):
    """The root of all errors: `what` happened, why it usually does (`cause`), and what to do (`remedy`)."""

    exit_code = 1

    def __init__(self, what: str, *, cause: str = "", remedy: str = "") -> None:
        self.what, self.cause, self.remedy = what, cause, remedy
        super().__init__(self.message())

    def message(self) -> str:
        """Return the error in one line: what happened, the usual cause, what to do."""
        parts = [_sentence(self.what)]
        if self.cause:
            parts.append("Usual cause: " + _sentence(self.cause))
        if self.remedy:
            parts.append("What to do: " + _sentence(self.remedy))
        return printable(without_hash(" ".join(" ".join(parts).split())))

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self), cause=self.cause, remedy=self.remedy), (self.what,)


def suggestion(name: str, valid: Iterable[str]) -> str:
    """Return the words ", did you mean 'x'?" for the nearest of `valid` to `name`, or "" if none is near."""
    near = get_close_matches(str(name).lower(), list(valid), n=1, cutoff=0.5)
    return f", did you mean {near[0]!r}?" if near else ""


def without_hash(text: str) -> str:
    """Return a text with the names of functions and classes as written, without the hash of their code."""
    return HASH_PATTERN.sub("", text)


def printable(text: str) -> str:
    """`text` with its control characters written as escapes, since others' names may hold a terminal's codes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _sentence(text: str) -> str:
    text = text.strip()
    return text if text.endswith((".", "?", "!")) else text + "."


class StudyInvalid(DpboError, ValueError):
    """The study, or the data it refers to, cannot be used as written. Nothing was charged.

    Any function that takes a study, an argument of one or public data may raise it; `Raises:` repeats it only where
    a caller can act on it. A ValueError too, which is what scikit-learn's own tools expect of a bad argument.
    """

    exit_code = 2


class BudgetRefused(DpboError):
    """The ledger said no, before any record was used. Nothing was charged."""

    exit_code = 3


class BudgetExceeded(BudgetRefused):
    """The plan costs more than the dataset's cap has left."""


class NoBudget(BudgetRefused):
    """The dataset has no cap, so nothing may be spent on it."""


def no_budget(dataset: str) -> NoBudget:
    """Return the error to raise for a dataset without a cap."""
    return NoBudget(
        f"dataset {dataset!r} has no privacy budget, so nothing may be spent on it",
        cause="this is its first study",
        remedy=f"add [budget] to the study, or: dpbo budget set {dataset} --epsilon 5 --delta 1e-5",
    )


class PolicyRefused(BudgetRefused):
    """The owner's policy says no: another dataset's file, a name like another's, a run that is not the owner's."""


class StudyChanged(BudgetRefused):
    """A study was changed after its edition was released, so running it would spend budget again."""


class SpendDeclined(DpboError):
    """A person was asked on the terminal whether to spend, and answered no."""


class SpendUseless(BudgetRefused):
    """What would be charged is useless by its own plan, and nobody said that it is to be spent anyway."""

    def __init__(self, reason: str, *, cause: str = "", remedy: str = "") -> None:
        super().__init__(
            reason,
            cause=cause or "few records, a small ε, or many scores for it; nothing was charged",
            remedy=remedy
            or "change that (dpbo plan says what to expect), or spend it with --anyway; where Prefect or a "
            "schedule runs it, with anyway = true in [privacy]",
        )


class EvidenceRefuted(BudgetRefused):
    """The proof behind the plan is known to be wrong (ε = ∞); only a dataset declared public may run it."""


class AlreadySpent(BudgetRefused):
    """A named spend made elsewhere was booked before, so its block is not entered again."""


class NoScoresLeft(BudgetRefused):
    """A private objective was asked for more scores than were paid for; what was released stands."""


class NoiseNotPrivate(BudgetRefused):
    """The noise source is injected or seeded; only a dataset declared public may be used with it."""


class AssumptionNotAccepted(DpboError):
    """The guarantee rests on a hypothesis that the study, or the dataset's cap, has not accepted by name."""

    exit_code = 4


class LedgerDamaged(DpboError):
    """The ledger's history was changed, cut short or replaced by an old copy."""


class CertificateFalse(DpboError):
    """The draws that a release lists do not compose to its guarantee, or its owner did not sign it."""


class MechanismRefused(DpboError):
    """The mechanism found its own privacy map above the planned spend, and drew nothing."""


class Sealed(DpboError):
    """Something failed while sensitive data was in hand. No cause, no context, no value travels with it."""

    def __init__(self, what: str = "a step on sensitive data failed", *, cause: str = "", remedy: str = "") -> None:
        super().__init__(
            what,
            cause=cause or "memory or disk ran out, or a library failed",
            remedy=remedy or "run the study again; it continues, and nothing is paid twice",
        )
