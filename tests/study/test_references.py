"""Everything that a study can name stands in one list, by which one rule decides what runs of Prefect may touch."""

from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest

from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.owners_ledger import Code
from dpbo_core.ledger.sources import PUBLIC_ROLE, Source, file_source, grants
from dpbo_core.study import DataSection, StudySpec
from dpbo_core.study.preconditions import references_of
from dpbo_core.study.section import Section
from dpbo_core.study.spec import DATA_KINDS

# A text or a table of a study that names nothing outside it; any other is in `references_of`.
NAMES_NOTHING = {
    *("name", "method", "edition", "accepts", "space", "relation", "dataset", "person", "target", "labels"),
    *(
        "ignore",
        "sensitive",
        "missing",
        "missing_target",
        "source",
        "bounds",
        "params",
        "task",
        "rowwise",
        "class_shares",
        "kernel",
    ),
    *(
        "neighbours",
        "lengthscale",
        "acquisition",
        "candidates",
        "learn_from",
        "values",
        "when",
        "epsilons",
        "groups",
        "group",
        "bins",
    ),
    *("metrics", "choice", "metric", "threshold"),
}
NAMED = {"training", "validation", "predictions", "public", "estimator", "score", "options"}
NAMED |= {"table", "against"}  # of a look, which hands it in; of a comparison


def texts_of(section: type) -> set[str]:
    """The fields of a section, and of the sections in it, that may hold a text."""
    found: set[str] = set()
    for name, hint in get_type_hints(section).items():
        if name in section.model_fields:
            kinds = parts(hint)
            found |= {name} if {str, Any} & kinds else set()
            for kind in (kind for kind in kinds if isinstance(kind, type)):
                each = DATA_KINDS if kind is DataSection else (kind,)
                found |= set().union(*(texts_of(one) for one in each if issubclass(one, Section)))
    return found


def parts(hint: Any) -> set[Any]:
    if get_origin(hint) in (None, Literal):
        return {str} if get_origin(hint) is Literal else {hint}
    inner = get_args(hint)[:1] if get_origin(hint) is Annotated else get_args(hint)
    return set().union(*map(parts, inner)) if inner else {hint}


def test_every_text_of_a_study_is_decided_upon():
    assert get_origin(StudySpec | int) in (Union, UnionType)  # `parts` looks into both
    texts = texts_of(StudySpec)
    assert texts >= NAMED
    assert texts - NAMED - NAMES_NOTHING == set()


CLASS = "sklearn.linear_model.LogisticRegression"


@pytest.mark.parametrize(
    ("section", "key", "value", "named"),
    [
        ("data", "training", "CANARY.csv", "CANARY.csv"),
        ("data", "validation", "CANARY.csv", "CANARY.csv"),
        ("data", "validation", "postgresql://CANARY/d?query=SELECT a FROM t", "postgresql://canary/d#public.t"),
        (
            "data",
            "validation",
            "s3://b/v.csv?endpoint_override=CANARY:9",
            "s3://b/v.csv?endpoint_override=canary:9",
        ),
        ("model", "estimator", "canary.Net", "canary.Net"),
        ("model", "estimator", "canary:net", "canary:net"),
        ("model", "score", "canary.score", "canary.score"),
        ("method", "algorithm", "canary.train", "canary.train"),
        ("evaluation", "against", "CANARY", "CANARY"),
    ],
)
def test_it_is_in_the_list(tables, here, section, key, value, named):
    tables["data"] = {"training": "t.csv", "validation": "v.csv", "n_validation": 5, "target": "y"}
    if key in ("estimator", "score"):
        tables["model"] = {"estimator": CLASS}
        tables["space"] = {"C": {"values": [0.1, 1.0]}}
    if key == "score":
        tables["model"] |= {"score_low": 0.0, "score_high": 1.0}
    tables.setdefault(section, {})[key] = value
    found = references_of(StudySpec.from_dict(tables), here)
    names = {source.name.removeprefix(f"{here.resolve()}/") for source in found.sources}
    assert named in names | {code.path for code in found.code}


def test_what_is_ours_or_on_the_list_needs_no_word(tables, here):
    assert references_of(StudySpec.from_dict(tables), here).code == ()
    tables |= {"model": {"estimator": CLASS}, "space": {"C": {"values": [0.1]}}}
    assert references_of(StudySpec.from_dict(tables), here).code == ()


def table(name):
    return Source("table", name)


GRANTED = (
    (table("s3://b/day/"), table("s3://b/day/1.parquet"), True),
    (table("s3://b/day/"), table("s3://b/day/1.parquet?endpoint_override=evil:9"), False),
    (table("s3://evil/b/v.csv"), table("s3://b/v.csv?endpoint_override=evil"), False),
    (table("s3://b/v.csv"), table("s3://b/v.csv?scheme=http"), False),
    (table("s3://b/day/1.parquet"), table("s3://b/day/"), False),
    (table("postgresql://h/d#public.t"), table("postgresql://other/d#public.t"), False),
    (Source("file", "/d/v-{date}.csv"), Source("file", "/d/v-2026-11-22.csv"), True),
    (Source("file", "/d/part.parquet"), Source("file", "/d"), False),
    (Source("file", "/d/v.csv"), Source("file", "/d/v.csv", PUBLIC_ROLE), False),
)


def test_a_word_for_one_thing_is_none_for_another():
    assert [grants(allowed, source) for allowed, source, _ in GRANTED] == [granted for *_, granted in GRANTED]


def test_a_part_is_granted_by_its_folder_and_never_the_folder_by_its_part(here):
    (here / "day").mkdir()
    (here / "day" / "1.parquet").write_bytes(b"")
    folder, part = file_source(here / "day"), file_source(here / "day" / "1.parquet")
    assert (grants(folder, part), grants(part, folder)) == (True, False)


def test_a_ledger_lists_what_was_allowed(here, tables):
    ledger = PrivacyLedger(f"sqlite:///{here / 'ledger.db'}")
    from dpbo_core.study.preconditions import opening_cap

    ledger.set_budget(opening_cap(StudySpec.from_dict(tables)), a_day=0.5)
    (dataset,) = (account.budget.dataset for account in ledger.accounts())
    assert ledger.allow_reading(dataset, file_source(here / "t.csv", PUBLIC_ROLE))
    assert not ledger.allow_reading(dataset, file_source(here / "t.csv", PUBLIC_ROLE))
    assert ledger.allow_code(dataset, Code("estimator", "ours.models:net"))
    approvals = ledger.accounts()[0]
    assert approvals.readable == (str(here.resolve() / "t.csv"),)
    assert (approvals.estimators, approvals.a_day) == (("ours.models:net",), 500_000_000_000)
