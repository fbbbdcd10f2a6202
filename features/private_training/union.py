"""The closed union of base algorithms: one file each and one line here, private ones in the order of preference."""

from collections.abc import Mapping

from dpbo.features.private_training.base import Base, with_score
from dpbo.features.private_training.dp_sgd import DP_SGD
from dpbo.features.private_training.noisy_gradient_descent import NOISY_GRADIENT_DESCENT
from dpbo.features.private_training.objective_perturbation import OBJECTIVE_PERTURBATION
from dpbo.features.private_training.output_perturbation import OUTPUT_PERTURBATION
from dpbo_core.errors import StudyInvalid, suggestion
from dpbo_core.methods.problem import Problem

PUBLIC_TRAINING = Base(
    "public_training",
    lambda cost, facts: with_score(None, facts.laplace(cost), facts),  # the model costs nothing
    axes=None,
    pure=True,
    private=False,
)
BASES: Mapping[str, Base] = {
    base.name: base
    for base in (
        PUBLIC_TRAINING,
        NOISY_GRADIENT_DESCENT,
        DP_SGD,
        OUTPUT_PERTURBATION,
        OBJECTIVE_PERTURBATION,
    )
}


def base_named(name: str) -> Base:
    """The base algorithm (how trials are trained, in private or in public) of this name; any other is refused."""
    if name not in BASES:
        raise StudyInvalid(
            f"method.base = {name!r} is not known{suggestion(name, BASES)}",
            cause="a misspelt name",
            remedy=f"choose one of {', '.join(BASES)}",
        )
    return BASES[name]


def check_base(base: Base, problem: Problem) -> None:
    """Refuse a base algorithm that does not fit the training set (public or private), model or hyperparameters."""
    instead = next(other.name for other in BASES.values() if other.private and not other.models)
    if base.private != (problem.training is not None):
        raise StudyInvalid(
            f"method.base = {base.name!r}, and the training set is {'public' if base.private else 'sensitive'}",
            cause="private training would waste the budget on records that need no protection"
            if base.private
            else "models of a sensitive training set must be trained privately",
            remedy="leave base out of [method]" if base.private else f'add base = "{instead}" to [method]',
        )
    base.check(problem, instead)
