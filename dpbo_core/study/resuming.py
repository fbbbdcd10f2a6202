"""A study that was charged and not finished goes on as it began, whatever its words mean to a later version.

The reservation says which draws were paid for. The method that makes exactly those is the one to go on with: the
study's own, a form of it that an earlier version ran under the same options, or, where the study left its method to
the advice, any form that the advice may give; for as many editions as were planned then.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from dpbo_core.advice.choosing import AUTO
from dpbo_core.errors import DpboError
from dpbo_core.methods import METHODS, AnyMethod
from dpbo_core.methods.contract import Advised, Continued
from dpbo_core.study.resolve import ResolvedStudy

SURELY_MANY = 1_000  # editions, for which any method says "many"


def resumed(study: ResolvedStudy, spends: Sequence[Mapping[str, Any]]) -> ResolvedStudy:
    """The study with the method that makes these draws; as it is if none does, for the ledger to refuse.

    Args:
        study: as it is resolved today.
        spends: what it was charged for, as the ledger has it.
    """
    for n in (study.problem.editions, 1, SURELY_MANY):
        asked = replace(study, problem=replace(study.problem, editions=n))
        for method in _forms(asked):
            with suppress(DpboError):
                if [spend.to_json() for spend in method.plan(asked.problem).spends] == list(spends):
                    same = method == study.method and n == study.problem.editions
                    return study if same else replace(asked, method=method)
    return study


def _forms(study: ResolvedStudy) -> Iterator[AnyMethod]:
    yield from _with_earlier(study.method)
    if study.spec.method == AUTO:
        for cls in METHODS.values():
            for form in cls.forms(study.problem) if issubclass(cls, Advised) else ():
                yield from _with_earlier(form)


def _with_earlier(method: AnyMethod) -> Iterator[AnyMethod]:
    yield method
    if isinstance(method, Continued):
        yield from method.earlier()
