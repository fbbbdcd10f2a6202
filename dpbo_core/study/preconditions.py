"""The conditions of a charge: the dataset's cap, the owner's policy on sources and code, accepted assumptions.

Whatever a study can name is in `references_of`, by which one rule decides what Prefect's runs may touch, so that a
new key is decided upon (`tests/study/test_references.py` walks the fields of every section). A host is named
by its table's address, and an environment by nothing.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from dpbo_core.errors import AssumptionNotAccepted, PolicyRefused, StudyInvalid
from dpbo_core.ledger.accounting.account import Account, PrivacyBudget
from dpbo_core.ledger.charge import Caller
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.owners_ledger import Code, References
from dpbo_core.ledger.policy import unallowed_score
from dpbo_core.ledger.sources import MODEL_ROLE, PUBLIC_ROLE, Source, file_source
from dpbo_core.privacy.guarantee import (
    CALLER_ASSUMPTIONS,
    ROWWISE_PREDICTIONS,
    ROWWISE_REMEDY,
    STATED_BY_CALLING,
    STEP_TIMES_HIDDEN,
)
from dpbo_core.privacy.release import PrivacyPlan
from dpbo_core.study import StudySpec
from dpbo_core.study.data_split import allowed_score, public_sources, sources_of
from dpbo_core.study.query import QueryContext
from dpbo_core.study.spec import relation_of


def opening_cap(spec: StudySpec) -> PrivacyBudget | None:
    """Return the cap that a study sets at its dataset's first use, with its `accepts`; None without [budget]."""
    cap = spec.budget
    if cap is None:
        return None
    return PrivacyBudget.of(
        spec.privacy.dataset, epsilon=cap.epsilon, delta=cap.delta, relation=relation_of(spec), accepts=spec.accepts
    )


def paying_account(spec: StudySpec, ledger: PrivacyLedger | None) -> Account | None:
    """Return the account that would pay for a study: its dataset's, else that of its [budget]; or None."""
    cap, accounts = opening_cap(spec), () if ledger is None else ledger.accounts(spec.privacy.dataset)
    if accounts or cap is None:
        return next(iter(accounts), None)
    return Account.opened(cap)


def check_accepted(accepts: tuple[str, ...], plan: PrivacyPlan, unlisted: str) -> None:
    """Refuse a plan with an assumption that a study does not accept by name; the message names `unlisted`."""
    missing = [name for name in plan.guarantee.assumptions if name not in STATED_BY_CALLING | {*accepts}]
    if missing:
        statement = CALLER_ASSUMPTIONS[missing[0]].statement
        instead = ROWWISE_REMEDY if missing[0] == ROWWISE_PREDICTIONS.name else "choose another method"
        raise AssumptionNotAccepted(
            f"the method assumes {missing[0]!r}: {statement} If that is false, the guarantee is void",
            cause="the study does not accept it by name"
            + (f", and {unlisted} is not on the list of known classes" if unlisted else ""),
            remedy=f'add accepts = ["{missing[0]}"] to [study] if you can answer for it, or {instead}',
        )


def check_step_times(plan: PrivacyPlan, *, seen: bool) -> None:
    """Refuse a plan that assumes its steps' durations hidden where they are `seen` by others."""
    if seen and STEP_TIMES_HIDDEN.name in plan.guarantee.assumptions:
        raise StudyInvalid(
            'method.train = "step" on a Prefect server that this command did not start',
            cause="that server shows how long each step took, which tells of the model that the step trained",
            remedy="run it with dpbo tune --direct, or where no Prefect server is set, so that dpbo tune starts "
            "one; or leave train out, and all models are trained before",
        )


def approve_study(spec: StudySpec, *, ledger: PrivacyLedger, folder: str | Path, owner: str = "") -> None:
    """Approve, as `owner`, a study that others will start: open its cap, record its files; nothing is charged.

    Its names may hold fields that a schedule fills: then for every run.
    """
    if spec.model.own_score and allowed_score(spec, ledger) is None:
        raise unallowed_score(spec.model.score_name, spec.privacy.dataset)
    named = references_of(spec, folder)
    estimators = tuple(code.path for code in named.code if code.key == "estimator")
    ledger.approve(spec.privacy.dataset, opening_cap(spec), named.sources, estimators, set_by=owner)


def references_of(spec: StudySpec, folder: str | Path, *beside: Source) -> References:
    """Return the files, score functions and estimators that a study names; nothing is opened or imported.

    `beside`: what is read beside what a tune of it reads, a saved model or the table of a look.
    """
    return References((*sources_of(spec, folder), *_champion(spec, folder), *beside), tuple(_code_of(spec)))


def _champion(spec: StudySpec, folder: str | Path) -> tuple[Source, ...]:
    place = None if spec.evaluation is None else spec.evaluation.champion_folder
    return () if place is None else (file_source(Path(folder) / place, MODEL_ROLE),)


def _code_of(spec: StudySpec) -> Iterator[Code]:
    model = spec.model
    if model.trained and not model.ours:
        from dpbo_core.models.estimator_allowlist.classes import PREDICTORS

        if model.estimator not in PREDICTORS:
            yield Code("estimator", model.estimator)
    if model.own_score:
        yield Code("score", model.score_name)
    for key, value in spec.options.items():
        if isinstance(value, str) and ("." in value or ":" in value):
            yield Code(f"method.{key}", value)


def check_policy(spec: StudySpec, context: QueryContext, *beside: Source) -> tuple[Source, ...]:
    """Return the files that will be read as public, as they are now; none is opened. `beside` as `references_of`.

    An operator (not the owner) is refused files and code that the policy does not allow, and any code in a file
    beside the study. Everybody is refused a file as public that the ledger has recorded as sensitive.
    """
    if context.caller is not Caller.OWNER:
        context.ledger.check_allowed(spec.privacy.dataset, references_of(spec, context.folder, *beside))
        refuse_beside(spec, context.folder)
    public = public_sources(spec, context.folder)
    check_public_sources((*public, *_champion(spec, context.folder), *beside), context.ledger)
    return public


def check_public_sources(sources: Iterable[Source], ledger: PrivacyLedger) -> None:
    """Refuse sources to be read as public that the ledger has as sensitive files, for the owner too; opens none.

    A charge checks it again in its own transaction.
    """
    for source in sources:
        if source.role in (PUBLIC_ROLE, MODEL_ROLE):
            ledger.check_public(source)


def refuse_beside(spec: StudySpec, folder: str | Path) -> None:
    """Refuse a study whose estimator is code in a file in `folder`: whoever writes there could run code."""
    from dpbo_core.models.import_path import file_beside

    if file_beside(spec.model.estimator, folder) is not None:
        raise PolicyRefused(
            f"the study's estimator {spec.model.estimator!r} is in a file beside it",
            cause="only a study that is started by hand, at a terminal, may run code that lies beside it",
            remedy='put it into an installed package, and name it "ourpackage.models:pipeline"',
        )
