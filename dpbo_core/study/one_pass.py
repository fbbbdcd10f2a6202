"""Whether a study's method can score all of Λ at once, as one whose path is public can."""

from dpbo_core.advice.choosing import AUTO
from dpbo_core.errors import StudyInvalid
from dpbo_core.methods import METHODS
from dpbo_core.methods.contract import Method, ScoresAhead
from dpbo_core.spec import StudySpec


def check_one_pass(spec: StudySpec, method: Method) -> None:
    """A study that asks for one pass gets a method that can.

    Raises:
        StudyInvalid: its own method cannot.
    """
    able = isinstance(method, ScoresAhead) and method.scores_ahead
    if spec.search.one_pass and spec.method != AUTO and not able:
        raise StudyInvalid(
            f"search.one_pass = true, and {method.kind} asks for its scores one after the other",
            cause="its path is private, or its proof counts what is scored",
            remedy=f"leave one_pass out, or use one of {', '.join(_able())}",
        )


def _able() -> list[str]:
    return [kind for kind, method in METHODS.items() if hasattr(method, "scores_ahead")]
