"""A resolved study together with the context that asks for it; all later steps take this object.

    run = Run.of(spec, QueryContext(ledger, folder))    the policy is asked; nothing is opened or charged
    run.plan, run.method, run.problem                   what it will draw, and how
    run.public                                          the public half of its data, read at its first use
    run.key, run.recorded()                             what the ledger knows it by, and its release if any

A `Run` stays in its process: it is no parameter of a Prefect flow, which would be stored.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from dpbo_core.ledger.charge import QueryKey
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.sources import Source
from dpbo_core.methods.advice import why_useless
from dpbo_core.methods.contract import Method
from dpbo_core.methods.problem import Problem
from dpbo_core.privacy.release import PrivacyPlan, Release
from dpbo_core.privacy.sensitive import Opaque
from dpbo_core.study import StudySpec
from dpbo_core.study.data_split import FileSplit, public_half
from dpbo_core.study.preconditions import check_policy, check_public_sources
from dpbo_core.study.public_half import DataSplit, PublicHalf
from dpbo_core.study.query import QueryContext
from dpbo_core.study.resolve import ResolvedStudy, resolve


class Run(Opaque):
    """One study, resolved, the context that asks for it, and the `data` split into public and sensitive half."""

    __slots__ = ("_public", "_useless", "context", "data", "study")

    def __init__(
        self, study: ResolvedStudy, context: QueryContext, data: DataSplit, public: PublicHalf | None = None
    ) -> None:
        self.study, self.context, self.data, self._public = study, context, data, public
        self._useless: str | None = None

    @classmethod
    def of(cls, spec: StudySpec, context: QueryContext, *beside: Source) -> Self:
        """Return the run of a study on the files it names, refused where the owner's policy says no; opens no data.

        `beside`: what is read beside what a tune of it reads, a saved model or the table of a look.
        """
        asked_about = check_policy(spec, context, *beside)
        return cls(resolve(spec, context.folder), context, FileSplit.of(spec, context, asked_about))

    @classmethod
    def in_memory(cls, study: ResolvedStudy, context: QueryContext, data: DataSplit) -> Self:
        """Return the run of a resolved study on tables in memory; refused if those are in a sensitive file."""
        check_public_sources(data.sources(), context.ledger)
        return cls(study, context, data)

    @property
    def spec(self) -> StudySpec:
        """The study as written."""
        return self.study.spec

    @property
    def problem(self) -> Problem:
        """The study's public facts, without its training set."""
        return self.study.problem

    @property
    def method(self) -> Method:
        """The study's method, or what "auto" became."""
        return self.study.method

    @property
    def plan(self) -> PrivacyPlan:
        """The study's price, worked out once."""
        return self.study.plan

    @property
    def ledger(self) -> PrivacyLedger:
        """The ledger that pays."""
        return self.context.ledger

    @property
    def folder(self) -> str | Path:
        """The folder that the study's paths are relative to."""
        return self.context.folder

    @property
    def public(self) -> PublicHalf:
        """The public half of the data, read at its first use; of a sensitive training set what the study states."""
        if self._public is None:
            self._public = self.data.public(self.study.problem)
        return self._public

    @property
    def key(self) -> QueryKey:
        """What the ledger knows the study by; the public training data are read for it."""
        if self._public is None and isinstance(self.data, FileSplit):
            return self.study.key(self.data.digest())
        return self.study.key(self.public.fingerprint)

    @property
    def useless(self) -> str:
        """Why the study's plan expects mostly noise, by the public half too; "" where it does not."""
        if self._useless is None:
            self._useless = why_useless(self.method, self.public.problem, self.plan)
        return self._useless

    def recorded(self) -> Release | None:
        """Return the release that the ledger has of exactly this study; None if there is none.

        The public training data are read only where the ledger has a release under the study's name and edition.
        """
        editions = self.ledger.editions(self.spec.name, edition=self.spec.edition)
        if all(edition.release is None for edition in editions):
            return None
        return self.ledger.release_of(self.key.fingerprint)

    def under(self, context: QueryContext) -> "Run":
        """Return this run under another context, with its noise, workers and schedule; nothing is read again."""
        data = self.data if not isinstance(self.data, FileSplit) else self.data.scored_by(context.workers)
        run = Run(self.study, context, data, self._public)
        run._useless = self._useless
        return run

    def as_charged(self, reserved: Mapping[str, Any]) -> "Run":
        """Return this run with the choices that the ledger recorded at its charge, whatever is advised today."""
        return Run(self.study.as_charged(reserved), self.context, self.data, self._public)


def advised_half(spec: StudySpec, folder: str | Path) -> PublicHalf | None:
    """Return the public half that advice uses; None for a sensitive training set or a user's score function."""
    if spec.data.sensitive_training or spec.model.own_score:  # of a function there is none
        return None
    return public_half(spec, folder)


def useless_study(spec: StudySpec, folder: str | Path) -> str:
    """Return why the plan of the study's method expects mostly noise; "" if it does not."""
    resolved, public = resolve(spec, folder), advised_half(spec, folder)
    problem = resolved.problem if public is None else public.problem
    return why_useless(resolved.method, problem, resolved.plan)
