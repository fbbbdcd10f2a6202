"""Who may spend whose budget: the owner's policy, in the ledger, and its rules as values."""

import os
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_ledger import SYSTEM, entries, key, plan

from dpbo_core.errors import NoBudget, PolicyRefused
from dpbo_core.ledger import audit, policy
from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.charge import Caller, Charge
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.owners_ledger import check_limits
from dpbo_core.ledger.policy import Approved
from dpbo_core.ledger.sources import (
    MEMORY_SOURCE,
    TIME_FIELDS,
    Source,
    file_source,
    filled_at,
    same_records,
    values_in,
)
from dpbo_core.study.named_sources import named_source

OPERATOR = Caller.OPERATOR


def cap(name, epsilon=5.0):
    return PrivacyBudget.of(name, epsilon=epsilon, delta=1e-6)


def sources(*paths):
    return tuple(file_source(path) for path in paths)


@pytest.fixture
def ledger(url):
    return PrivacyLedger(url)


@pytest.fixture
def file(here):
    path = here / "v.csv"
    path.write_text("a,y\n1,0\n")
    return path


def spend(ledger, name, dataset, named, *, epsilon=0.5, opening=True, caller=Caller.OWNER):
    charge = Charge(key(name, dataset), plan(epsilon), named, cap=cap(dataset) if opening else None)
    return ledger.reserve(charge, noise=SYSTEM, caller=caller)


# Patterns


@given(st.datetimes(min_value=datetime(1990, 1, 1)), st.sampled_from(sorted(TIME_FIELDS)))  # noqa: DTZ001
def test_a_filled_pattern_is_written_by_it(moment, field):
    pattern = f"/data (1)/v+{{{field}}}.csv"
    found = values_in(pattern, filled_at(pattern, moment.replace(tzinfo=UTC)))
    assert found == {field: moment.strftime(TIME_FIELDS[field])}


def test_what_a_pattern_does_not_write():
    assert values_in("/d/v-{date}.csv", "/d/v-2026-11-1.csv") is None
    assert values_in("/d/v-{date}.csv", "/d/../x/v-2026-11-21.csv") is None
    assert values_in("/d/v-{date}.csv", "/d/v-2026-11-21xcsv") is None
    assert values_in("{month}/{month}", "2026-11/2026-12") is None
    assert values_in("{anything}", "{anything}") == {}


# Sources


def test_a_file_is_one_file_under_each_of_its_names(here, file):
    (here / "link.csv").symlink_to(file)
    os.link(file, here / "hard.csv")
    (here / "copy.csv").write_bytes(file.read_bytes())
    one = file_source(file)
    assert same_records(one, file_source(here / "link.csv"))
    assert same_records(one, file_source(here / "." / "v.csv"))
    assert same_records(one, file_source(here / "hard.csv"))
    assert not same_records(one, file_source(here / "copy.csv"))  # stated as out of scope
    assert not same_records(one, MEMORY_SOURCE)
    file.rename(here / "renamed.csv")
    assert same_records(one, file_source(here / "renamed.csv"))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="no /proc: no file without a name can be named")
def test_a_file_whose_name_is_gone_is_the_file_that_it_was(here, file):
    """A process that holds it open reads it by a link of /proc, whose real path is that of no file."""
    one = file_source(file)
    os.link(file, here / "gone.csv")
    (here / "parts").mkdir()
    with (here / "gone.csv").open("rb") as held:
        (here / "gone.csv").unlink()
        for name in ("open.csv", "parts/a.parquet"):
            (here / name).symlink_to(f"/proc/self/fd/{held.fileno()}")
        assert (here / "open.csv").read_bytes() == file.read_bytes()
        for name in ("open.csv", "parts/a.parquet", "parts"):
            assert same_records(one, file_source(here / name)), name
        file.unlink()
        assert same_records(one, file_source(here / "open.csv"))


@pytest.mark.parametrize("name", ["v-{date}", "{year}/parts"])
@pytest.mark.parametrize("link", [os.link, os.symlink])
def test_a_folder_with_a_field_in_its_name_is_a_folder_of_its_parts(here, link, name):
    (here / "sensitive").mkdir()
    (here / "sensitive" / "a.parquet").write_bytes(b"")
    (here / name).mkdir(parents=True)
    link(here / "sensitive" / "a.parquet", here / name / "b.parquet")
    assert same_records(file_source(here / "sensitive"), file_source(here / name))


def test_a_part_of_a_folder_is_in_the_folder(here):
    (here / "parts").mkdir()
    part = here / "parts" / "a.parquet"
    part.write_bytes(b"")
    folder = file_source(here / "parts")
    assert same_records(folder, file_source(part))
    assert same_records(file_source(part), Source("file", folder.name))  # as the ledger keeps it: a name alone
    (here / "other").mkdir()
    (here / "other" / "b.parquet").symlink_to(part)
    assert same_records(file_source(here / "other"), folder)
    assert not same_records(folder, file_source(here / "parts" / "a.csv"))


def test_a_source_as_typed(here, file):
    assert named_source("memory") == MEMORY_SOURCE
    assert named_source("iris", ["iris"]) == Source("bundled", "iris")
    assert named_source("v.csv") == Source("file", str(file.resolve()))
    table = named_source("postgresql://ann:s3cret@db.example/ward#visits")
    assert table == Source("table", "postgresql://db.example/ward#visits")
    (here / "iris").mkdir()
    assert named_source("iris", ["iris"]).kind == "file"


A, B = Source("file", "/d/a.csv"), Source("file", "/d/b.csv")
DAY, DAYS = Source("file", "/d/v-2026-11-21.csv"), Source("file", "/d/v-{date}.csv")
MONTHS = Source("file", "/d/v-{year}-{month}.csv")
ALLOWED = ""
RULES = [  # asked, what is approved, owner, public → allowed, or refused in words
    (A, [], True, False, ALLOWED),
    (A, [], False, False, "did not allow"),
    (A, [Approved("d", A)], False, False, ALLOWED),
    (B, [Approved("d", A)], True, False, "budget allow d /d/b.csv"),
    (B, [Approved("d", A)], False, False, "did not allow"),
    (B, [Approved("d", A)], True, True, ALLOWED),
    (B, [Approved("d", A)], False, True, "did not allow"),
    (replace(B, role="answers"), [Approved("d", A)], True, False, ALLOWED),
    (A, [Approved("e", A)], True, False, "dataset 'e'"),
    (A, [Approved("e", A)], True, True, "dataset 'e'"),
    (A, [Approved("e", A), Approved("d", A, shared=True)], False, False, ALLOWED),
    (MEMORY_SOURCE, [Approved("e", MEMORY_SOURCE)], True, False, ALLOWED),
    (MEMORY_SOURCE, [Approved("d", A)], True, False, "budget allow d memory"),
    (A, [Approved("d", MEMORY_SOURCE)], True, False, "budget allow d /d/a.csv"),
    (Source("bundled", "iris"), [Approved("e", Source("bundled", "iris"))], True, False, ALLOWED),
    (DAY, [Approved("d", DAYS)], False, False, ALLOWED),
    (DAY, [Approved("e", DAYS)], True, False, "'e'"),
    (DAYS, [Approved("e", MONTHS)], True, False, ALLOWED),
]


@pytest.mark.parametrize(("asked", "approved", "owner", "public", "says"), RULES)
def test_the_rules(asked, approved, owner, public, says):
    budget = PrivacyBudget.without_limit("d") if public else cap("d")
    with nullcontext() if says is ALLOWED else pytest.raises(PolicyRefused, match=says):
        policy.check_charged(asked, approved, budget, Caller.OWNER if owner else OPERATOR)


# In the ledger


def test_one_file_has_one_budget_whatever_it_is_called(ledger, here, file):
    """The goal's line: ε from one file by renaming, × 1."""
    names = ["clinic", "ward", "hospital", "people", "patients"]
    os.link(file, here / "hard.csv")
    (here / "soft.csv").symlink_to(file)
    paths, spent = [file, here / "hard.csv", here / "soft.csv", here / "." / "v.csv", file], 0
    for name, path in zip(names, paths, strict=True):
        with nullcontext() if name == "clinic" else pytest.raises(PolicyRefused, match="'clinic'"):
            spend(ledger, name, name, sources(path))
            spent += 1
    file.rename(here / "moved.csv")
    with pytest.raises(PolicyRefused, match="'clinic'"):
        spend(ledger, "moved", "moved", sources(here / "moved.csv"))
    assert spent == 1
    assert [account.budget.dataset for account in ledger.accounts()] == ["clinic"]


def test_a_file_that_was_changed_and_linked_is_found_by_its_inode(ledger, here, file):
    spend(ledger, "a", "clinic", sources(file))
    with file.open("a") as more:
        more.write("2,1\n")
    os.utime(file, ns=(1, 1))
    os.link(file, here / "hard.csv")
    with pytest.raises(PolicyRefused, match="'clinic'"):
        spend(ledger, "b", "ward", sources(here / "hard.csv"))


def test_an_inode_that_is_another_file_by_now_says_nothing(ledger, here, file):
    spend(ledger, "a", "clinic", sources(file))
    (mark,) = file_source(file).marks
    other = here / "new.csv"
    other.write_text("a,y\n")
    file.unlink()
    reused = mark.rpartition(":")[0] + ":7"
    spend(ledger, "b", "ward", (replace(file_source(other), marks=frozenset((reused,))),))
    assert len(entries(ledger, "ward")) == 1


def test_another_file_needs_the_owners_word(ledger, here, file):
    spend(ledger, "a", "clinic", sources(file))
    other = here / "w.csv"
    other.write_text("a,y\n")
    with pytest.raises(PolicyRefused, match=r"dpbo budget allow clinic .*w\.csv") as caught:
        spend(ledger, "b", "clinic", sources(other))
    assert caught.value.exit_code == 3
    assert len(entries(ledger, "clinic")) == 1
    assert ledger.allow("clinic", file_source(other))
    assert not ledger.allow("clinic", file_source(other))
    spend(ledger, "b", "clinic", sources(other), caller=OPERATOR)
    with pytest.raises(NoBudget):
        ledger.allow("nobody", file_source(other))


def test_the_same_name_with_new_content_is_the_same_file(ledger, here, file):
    spend(ledger, "a", "clinic", sources(file))
    (here / "new").write_text("a,y\n1,1\n2,2\n")
    (here / "new").replace(file)
    spend(ledger, "b", "clinic", sources(file), caller=OPERATOR)
    file.rename(here / "moved.csv")
    with pytest.raises(PolicyRefused, match="'clinic'"):
        spend(ledger, "c", "ward", sources(here / "moved.csv"))


def test_shared_people_pay_both_and_both_accounts_say_so(ledger, file):
    spend(ledger, "a", "clinic", sources(file))
    ledger.set_budget(cap("ward"))
    with pytest.raises(PolicyRefused, match="--as shared"):
        ledger.allow("ward", file_source(file))
    assert ledger.allow_shared("ward", file_source(file)) == ("clinic",)
    spend(ledger, "b", "ward", sources(file), caller=OPERATOR)
    spend(ledger, "c", "clinic", sources(file), caller=OPERATOR)
    shares = {account.budget.dataset: account.shares for account in ledger.accounts()}
    assert shares == {"clinic": ("ward",), "ward": ("clinic",)}
    with pytest.raises(PolicyRefused, match="--as shared"):
        spend(ledger, "d", "third", sources(file))
    # and so says whoever asks for room before anything runs
    with pytest.raises(PolicyRefused, match="--as shared"):
        ledger.check_room(Charge(key("d", "third"), plan(0.5), sources(file), cap=cap("third")))
    ledger.check_room(Charge(key("d", "ward"), plan(0.5), sources(file)))
    assert [len(entries(ledger, name)) for name in ("clinic", "ward")] == [2, 1]
    assert ledger.accounts("third") == ()


def test_what_prefect_starts_opens_no_cap_and_adds_no_file(ledger, here, file):
    with pytest.raises(PolicyRefused, match="cannot open one"):
        spend(ledger, "a", "fresh", sources(file), caller=OPERATOR)
    assert ledger.accounts() == ()
    ledger.set_budget(cap("clinic"))
    with pytest.raises(PolicyRefused, match="did not allow"):
        spend(ledger, "a", "clinic", sources(file), caller=OPERATOR)
    spend(ledger, "a", "clinic", sources(file))
    spend(ledger, "b", "clinic", sources(file), caller=OPERATOR)
    with pytest.raises(PolicyRefused, match="did not allow"):
        spend(ledger, "c", "clinic", sources(here / "w.csv"), caller=OPERATOR)
    ledger.set_budget(PrivacyBudget.without_limit("open"))
    for path in (file, here / "w.csv"):
        with pytest.raises(PolicyRefused):
            spend(ledger, "d", "open", sources(path), caller=OPERATOR, opening=False)
    with pytest.raises(PolicyRefused, match="'clinic'"):  # nor does its owner declare it public by a second name
        spend(ledger, "d", "open", sources(file), opening=False)


def test_the_largest_epsilon_holds_for_what_prefect_starts(ledger, file):
    budget = cap("clinic")
    assert ledger.set_budget(budget, sources=(file_source(file),), largest_epsilon=0.1)
    assert not ledger.set_budget(budget, largest_epsilon=0.1)
    spend(ledger, "a", "clinic", sources(file), caller=OPERATOR, epsilon=0.1)
    with pytest.raises(PolicyRefused, match=r"may ask for 0\.1"):
        spend(ledger, "b", "clinic", sources(file), caller=OPERATOR, epsilon=0.1 + 1e-12)
    spend(ledger, "b", "clinic", sources(file), epsilon=1.0)
    with pytest.raises(PolicyRefused, match="never raised"):
        ledger.set_budget(budget, largest_epsilon=0.2)
    ledger.set_budget(budget, largest_epsilon=0.05)
    with pytest.raises(PolicyRefused, match=r"may ask for 0\.05"):
        spend(ledger, "c", "clinic", sources(file), caller=OPERATOR, epsilon=0.1)
    with pytest.raises(PolicyRefused), ledger._store.reading() as connection:
        check_limits(connection, "clinic", [float("inf")], 1.0)


def test_the_largest_epsilon_holds_for_the_sum_of_what_is_reserved_together(ledger, file):
    ledger.set_budget(cap("clinic"), sources=(file_source(file),), largest_epsilon=0.5)

    def together(*epsilons, caller=OPERATOR):
        named = [(key(f"{place} of {epsilons}", "clinic"), plan(e)) for place, e in enumerate(epsilons)]
        return ledger.reserve(*(Charge(*of, sources(file)) for of in named), noise=SYSTEM, caller=caller)

    for epsilons in ((0.3, 0.3), (0.5, 1e-6), (0.2, 0.2, 0.2)):  # each alone is allowed
        with pytest.raises(PolicyRefused, match="with what is reserved beside it"):
            together(*epsilons)
    assert ledger.accounts("clinic")[0].entries == ()
    together(0.3, 0.2)
    together(0.3, 0.2)  # taken over
    together(0.3, 0.3, caller=Caller.OWNER)
    together(0.3, 0.3)  # its owner has charged it: it goes on
    assert [entry.epsilon for entry in ledger.accounts("clinic")[0].entries] == [0.3, 0.2, 0.3, 0.3]


def test_a_served_template_opens_its_own_months_alone(ledger, here):
    pattern, month = file_source(here / "v-{month}.csv"), "visits 2026-11"
    ledger.approve("visits {month}", cap("visits {month}"), (pattern,), set_by="ann on ward-3")
    november = sources(here / "v-2026-11.csv")
    spend(ledger, "a", month, november, caller=OPERATOR)
    assert ledger.budget(month) == cap(month)
    assert [account.cap_set_by for account in ledger.accounts()] == ["ann on ward-3", "ann on ward-3"]
    spend(ledger, "b", month, november, caller=OPERATOR)
    for dataset, path in (
        ("visits 2026-12", "v-2026-11.csv"),  # the same people under the next month's name
        ("visits 2026-12", "w-2026-12.csv"),
        ("visits 2026-1", "v-2026-1.csv"),
        ("visit 2026-12", "v-2026-12.csv"),
        (month, "v-2026-12.csv"),
    ):
        with pytest.raises(PolicyRefused):
            spend(ledger, "c", dataset, sources(here / path), caller=OPERATOR)
    with pytest.raises(PolicyRefused, match="visits"):
        spend(ledger, "c", "ward", sources(here / "v-2026-11.csv"))
    assert [account.budget.dataset for account in ledger.accounts()] == ["visits 2026-11", "visits {month}"]


@pytest.mark.parametrize("limit", ["largest_epsilon", "a_day"])
def test_a_months_limits_are_its_templates(ledger_url, here, limit):
    """A limit of the name that was served held for none of its months, whose caps a run opens."""
    ledger = PrivacyLedger(ledger_url)
    ledger.approve("visits {month}", cap("visits {month}"), (file_source(here / "v-{month}.csv"),))
    ledger.set_budget(cap("visits {month}"), **{limit: 0.5})
    november = sources(here / "v-2026-11.csv")
    spend(ledger, "a", "visits 2026-11", november, caller=OPERATOR)
    with pytest.raises(PolicyRefused, match=r"asks for ε = 0\.6"):
        spend(ledger, "b", "visits 2026-11", november, epsilon=0.6, caller=OPERATOR)


def test_a_study_goes_on_with_the_file_it_began_with(ledger, here, file):
    spend(ledger, "old", "clinic", ())  # of a ledger that knows no sources
    spend(ledger, "old", "clinic", sources(file), caller=OPERATOR)
    assert ledger.accounts("clinic")[0].sources == ()
    spend(ledger, "new", "clinic", sources(file))
    spend(ledger, "new", "clinic", sources(file), caller=OPERATOR)
    with pytest.raises(PolicyRefused):
        spend(ledger, "new", "clinic", sources(here / "w.csv"))
    assert len(entries(ledger, "clinic")) == 2


def test_the_policy_is_in_the_history(ledger_url, file):
    PrivacyLedger(ledger_url).set_budget(cap("hospital"), sources=(file_source(file),), largest_epsilon=1.0)
    audit.verify(ledger_url)
    exported = "".join(audit.export(ledger_url))
    assert all(word in exported for word in ("largest_epsilon", str(file.resolve())))
