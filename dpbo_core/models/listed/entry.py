"""What the list says of one class.

"A function of the row alone" means: what comes out for row i is decided by row i, its place, the number of rows and
what was fitted, and by no value in another row; and a batch fails only where one of its rows fails alone. So at a
fixed place in a table of a fixed size one record has no hand on the outcome of another, to the last bit.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SCIKIT_LEARN, LIGHTGBM, XGBOOST = "scikit-learn", "lightgbm", "xgboost"
READ = {  # the first and the last version of each package whose code the sentences were read from
    SCIKIT_LEARN: ((1, 6), (1, 9)),
    LIGHTGBM: ((4, 6), (4, 7)),
    XGBOOST: ((3, 0), (3, 2)),
}
DISTRIBUTIONS = {XGBOOST: ("xgboost", "xgboost-cpu")}  # under which names a package is installed, where not its own


@dataclass(frozen=True)
class Listed:
    """One class that may be guaranteed without an assumption.

    Attributes:
        because: why its predict, predict_proba, decision_function and transform are functions of the row alone.
        only: the values that a parameter may take for this to hold; a parameter that is not named may have any
            value that is itself plain data or on the list.
        dense: attributes that the sentence does not hold for when they are a sparse matrix.
        closed: it is not asked once the estimator is fitted, or it is compiled and holds numbers alone: what it
            holds is not looked at.
        compiled: what it holds is seen in what it pickles, not in its attributes.
        package: whose class it is.
    """

    because: str
    only: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    dense: tuple[str, ...] = ()
    closed: bool = False
    compiled: bool = False
    package: str = SCIKIT_LEARN

    def refusal(self, parameters: Mapping[str, Any]) -> str | None:
        """What is wrong with these parameters; None where the sentence holds with them."""
        for name, allowed in self.only.items():
            if name in parameters and not any(_is(parameters[name], value) for value in allowed):
                return f"{name} = {_shown(parameters[name])}"
        for name in self.dense:
            if hasattr(parameters.get(name), "indptr"):
                return "sparse training rows"
        return None


def _is(given: object, value: object) -> bool:
    """The same plain value: exact types first, so that nothing of a stranger's is called."""
    return type(given) is type(value) and bool(given == value)


def _shown(value: object) -> str:
    return repr(value) if type(value) in (str, int, float, bool, type(None)) else f"a {type(value).__name__}"
