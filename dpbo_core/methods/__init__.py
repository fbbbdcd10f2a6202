"""One file, one algorithm box. A closed table: nothing to plug in that was not proved whole.

A method's file is imported when its kind is requested, so that a study loads the one that it names.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_args, get_origin, get_type_hints

from dpbo_core.errors import StudyInvalid, suggestion
from dpbo_core.methods.contract import Method, Scope
from dpbo_core.methods.pair_draws import in_pairs, refused
from dpbo_core.methods.problem import Problem
from dpbo_core.privacy.named_parts import NamedParts

METHODS: Mapping[str, type[Method]] = NamedParts(
    __name__,
    {
        "private_trajectory": "private_trajectory.PrivateTrajectory",
        "private_grid": "private_grid.PrivateGrid",
        "public": "public.Public",
        "lipschitz": "lipschitz.Lipschitz",
        "noisy_gp": "kusner_gp.NoisyGP",
        "exact_gp": "kusner_gp.ExactGP",
    },
    group="dpbo.methods",
)

# What two parties do with files is no study's method: it has no start and no step. Campaigns take both maps.
EXCHANGES: Mapping[str, type[Any]] = NamedParts(__name__, {}, group="dpbo.exchanges")
NO_STUDY = (
    "two parties run it over files, dpbo curate and dpbo model; a study has one, and its candidates are public"
)


def method_named(kind: str, options: Mapping[str, Any]) -> Method:
    """Return the method that a study names by `kind`, built with its [method] options, which are checked here."""
    if kind not in METHODS and kind in EXCHANGES:
        raise StudyInvalid(
            f"study.method = {kind!r} is not run by a study",
            cause=NO_STUDY,
            remedy="start with dpbo curate publish (docs/explanation/outsourcing.md)",
        )
    if kind not in METHODS:
        raise StudyInvalid(
            f"study.method = {kind!r} is not known{suggestion(kind, METHODS)}",
            cause="a misspelt name, or a feature that this installation does not have",
            remedy=f"choose auto, or one of {', '.join(METHODS)}",
        )
    cls = METHODS[kind]
    hints = get_type_hints(cls)
    option_names = [item.name for item in fields(cls) if item.name != "kind"]
    for key, value in options.items():
        if key not in option_names:
            raise StudyInvalid(
                f"[method] has an unknown key {key!r}{suggestion(key, option_names)}",
                cause=f"it is not an option of {kind}",
                remedy=f"its options are {', '.join(option_names)}",
            )
        hint = hints[key]
        if type(None) in get_args(hint):  # float | None: None is what was not said
            (hint,) = (kind for kind in get_args(hint) if kind is not type(None))
        if get_origin(hint) is tuple:
            hint = tuple
        if get_args(hint) and get_origin(hint) is not None:
            valid = value in get_args(hint)
        else:
            valid = type(value) in {float: (float, int), tuple: (tuple, list)}.get(hint, (hint,))
        if not valid:
            valid_values = ", ".join(map(repr, get_args(hint))) if get_args(hint) else f"a {hint.__name__}"
            raise StudyInvalid(
                f"method.{key} = {value!r} is not valid", cause="a misspelt value", remedy=f"use {valid_values}"
            )
    arguments: dict[str, Any] = {
        key: tuple(value) if type(value) is list else value for key, value in options.items()
    }
    return cls(**arguments)


def check_counts(method: Method, problem: Problem) -> None:
    """Refuse a method that needs a mean of record scores for a score that counts pairs, such as AUC."""
    if in_pairs(problem) and method.scope is not Scope.PAIRS:
        raise refused(problem, tuple(kind for kind, cls in METHODS.items() if cls.scope is Scope.PAIRS))


def check_scored_in_public(method: Method, problem: Problem) -> None:
    """Refuse a method that needs candidates' public scores where there are no public records."""
    if problem.scored_in_public or not method.cross_validated(problem):
        return
    raise StudyInvalid(
        f"{method.kind} asks here what each candidate scores in public, and there are no public predictions",
        cause="the study names a sensitive table of predictions alone",
        remedy="give data.public, the same columns on public records; or a method that asks none (dpbo plan)",
    )
