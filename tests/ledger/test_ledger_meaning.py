"""What the account means: one k a dataset, no amount below 0, nothing lost that any copy still has."""

import json
import shutil
from contextlib import suppress
from dataclasses import asdict

import pytest
import sqlalchemy as sa
from test_ledger import SYSTEM, capped, key, plan, sql
from test_ledger_audit import OPEN, exported, spend

from dpbo_core.errors import BudgetExceeded, BudgetRefused, DpboError, LedgerDamaged
from dpbo_core.ledger import audit
from dpbo_core.ledger.accounting.account import PrivacyBudget, Totals, canonical, facts_hash
from dpbo_core.ledger.charge import Charge
from dpbo_core.ledger.history import Link, seal
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.owners_ledger import Code
from dpbo_core.ledger.recovery import Recovered, accept, recover
from dpbo_core.ledger.sources import PUBLIC_ROLE, file_source
from dpbo_core.privacy.guarantee import PrivacyUnit

# k


def test_the_first_spend_fixes_k_and_another_is_refused_by_name(url):
    book = capped(url, 1.0, 0.0)
    book.reserve(Charge(key("a"), plan(0.1), max_records_per_person=5), noise=SYSTEM)
    assert book.accounts("d")[0].records == (5,)
    for k in (1, 4, 6):
        with pytest.raises(BudgetRefused, match=rf"'d' .*at most 5 records; .*max_records_per_person = {k}\b"):
            book.reserve(Charge(key("b"), plan(0.1), max_records_per_person=k), noise=SYSTEM)
    book.reserve(Charge(key("b"), plan(0.1), max_records_per_person=5), noise=SYSTEM)
    # a rerun takes over what it paid for
    book.reserve(Charge(key("a"), plan(0.1), max_records_per_person=7), noise=SYSTEM)
    assert len(book.accounts("d")[0].entries) == 2
    assert audit.verify(url).sequence == 5


PERSONS = {"unit": PrivacyUnit.PERSON, "person": "who"}


@pytest.mark.parametrize(("cap", "of_whom"), [(OPEN, PERSONS), (PrivacyBudget.without_limit("d"), {})])
def test_k_may_differ_where_a_column_enforces_it_or_nobody_is_protected(url, cap, of_whom):
    book = PrivacyLedger(url)
    book.set_budget(cap)
    for k in (5, 1):
        book.reserve(Charge(key(str(k)), plan(0.1, **of_whom), max_records_per_person=k), noise=SYSTEM)
    assert book.accounts("d")[0].records == ()


# rows


def refund(link, units=-50 * 10**12):
    row = json.loads(link.row)
    return row | {"id": row["id"] + 1, "fingerprint": "f" * 64, "epsilon_units": units, "rho_units": units}


def continued(copy, about, row):
    """`copy` with one more line, correctly chained, its totals too, as anybody could write it."""
    dataset = "" if about not in ("reservations", "dataset_facts") else row.get("dataset", "d")
    before = [link for link in copy if link.dataset == dataset]
    totals = Totals.from_text(before[-1].totals) if before else Totals()
    facts = [link.row for link in before if link.about == "dataset_facts"] + [canonical(row)]
    with suppress(ValueError, TypeError, LookupError, AttributeError):
        totals = totals.after(about, row, facts_hash(facts))
    told = (copy[-1].sequence + 1, about, dataset, canonical(row), totals.text())
    return (*copy, Link(*told, seal(copy[-1].hash, *told)))


def test_an_export_that_gives_back_is_refused(url):
    """As it was reported: a line of −50, correctly chained; four reservations of ε = 2.9 then fitted a cap of 3."""
    book = capped(url, 3.0, 0.0)
    spend(book, "a", 2.9)
    before = exported(url)
    reservation = next(link for link in before if link.about == "reservations")
    forged = continued(before, "reservations", refund(reservation))
    for look in (audit.verify, accept):
        with pytest.raises(LedgerDamaged, match=r"holds what cannot be|missing"):
            look(url, forged)
    with pytest.raises(LedgerDamaged, match="holds what cannot be"):
        recover(url, forged)
    assert exported(url) == before
    with pytest.raises(BudgetExceeded):
        book.reserve(Charge(key("b"), plan(2.9)), noise=SYSTEM)


CHEAPER = {
    "less than its spends": lambda row: row.update(epsilon_units=1),
    "more than its spends": lambda row: row.update(rho_units=row["rho_units"] * 2),
    "a text": lambda row: row.update(epsilon_units="x"),
    "a fraction": lambda row: row.update(epsilon_units=0.5),
    "a truth value": lambda row: row.update(delta_units=False),
    "one more column": lambda row: row.update(more=1),
    "a spend below 0": lambda row: row.update(
        spends=[*row["spends"], row["spends"][0] | {"what": "b", "epsilon": -0.1}], epsilon_units=0
    ),
    "no pure ε": lambda row: row.update(epsilon_units=None),
    "an unknown unit": lambda row: row.update(unit="nobody"),
}


def test_a_row_that_cannot_be_is_never_taken_in(url):
    book = capped(url, 1.0, 0.0)
    spend(book, "a")
    copy = exported(url)
    for edit in CHEAPER.values():
        row = json.loads(copy[2].row) | {"id": 2, "fingerprint": "f" * 64}
        edit(row)
        with pytest.raises(LedgerDamaged, match="holds what cannot be"):
            accept(url, continued(copy, "reservations", row))
        with pytest.raises(LedgerDamaged, match="holds what cannot be"):
            recover(url, continued(copy, "reservations", row))
        assert exported(url) == copy


def test_the_database_refuses_an_amount_below_0(ledger_url):
    spend_one(ledger_url)
    for column in ("epsilon_units", "delta_units", "rho_units"):
        row = {"epsilon_units": 1, "delta_units": 1, "rho_units": 1, column: -1}
        with pytest.raises(sa.exc.IntegrityError, match="amount"):
            sql(ledger_url, reservation_sql(**row))
    cap = "INSERT INTO datasets VALUES ('e', FALSE, {}, {}, 'replace_one', '[]', 'x')"
    for amounts in ((-1, 0), (0, -1)):
        with pytest.raises(sa.exc.IntegrityError, match="amount"):
            sql(ledger_url, cap.format(*amounts))
    sql(ledger_url, reservation_sql(epsilon_units=1, delta_units=1, rho_units=1))  # the sign alone was wrong


def test_an_amount_below_0_in_the_table_is_damage_and_no_refund(ledger_url):
    book = spend_one(ledger_url)
    off = "DROP TRIGGER reservations_amounts"
    if ledger_url.startswith("postgresql"):
        off = "ALTER TABLE reservations DROP CONSTRAINT reservations_amounts"
    sql(ledger_url, off, reservation_sql(epsilon_units=-(10**12), delta_units=0, rho_units=0))
    for look in (lambda: book.accounts("d"), lambda: book.reserve(Charge(key("z"), plan(0.1)), noise=SYSTEM)):
        with pytest.raises(LedgerDamaged):
            look()


def spend_one(url):
    book = capped(url, 1.0, 0.0)
    spend(book, "a")
    return book


def reservation_sql(epsilon_units, delta_units, rho_units):
    return (
        "INSERT INTO reservations (id, dataset, fingerprint, study, edition, method, resolved, unit, guarantee, "
        "spends, epsilon_units, delta_units, rho_units, noise, reserved_at) VALUES (77, 'd', 'f', 's', '1', "
        f"'grid', '{{}}', 'validation_record', '{{}}', '[]', {epsilon_units}, {delta_units}, {rho_units}, "
        "'operating_system', 'x')"
    )


# the generation


def test_an_old_ledger_without_its_generation_is_refused(url, here):
    """As it was reported: it was accepted silently."""
    book = spend_one(url)
    shutil.copy(here / "ledger.db", here / "old.db")
    spend(book, "b")
    shutil.copy(here / "old.db", here / "ledger.db")
    (here / "ledger.db.generation").unlink()
    for look in (lambda: PrivacyLedger(url), lambda: audit.verify(url)):
        with pytest.raises(LedgerDamaged, match=r"generation, .* is missing.*--accept-restored"):
            look()
    accept(url)
    spend(PrivacyLedger(url), "c")


def test_a_new_ledger_begins_its_generation_at_once(url, here):
    PrivacyLedger(url)
    assert (here / "ledger.db.generation").exists()
    (here / "ledger.db.generation").unlink()  # killed before it was written: nothing was spent
    PrivacyLedger(url).set_budget(OPEN)
    assert audit.verify(url).sequence == 2


# recovery


def forgotten(url, here, lost):
    """The export of a ledger after `lost`, of which it has accepted the copy of before."""
    shutil.copy(here / "ledger.db", here / "old.db")
    lost(PrivacyLedger(url))
    copy = exported(url)
    shutil.copy(here / "old.db", here / "ledger.db")
    accept(url)
    return copy


def forked(url, here):
    """2 × ε = 1 of a cap of 3 spent; an old copy of 1 accepted without the export, which is then found."""
    book = capped(url, 3.0, 0.0)
    spend(book, "a", 1.0)
    return forgotten(url, here, lambda book: spend(book, "b", 1.0))


def test_what_an_old_copy_lost_is_charged_when_the_export_is_found(url, here):
    """As it was reported: 3.0 spent, 2.0 counted, a fourth ε = 1 passed a cap of 3."""
    copy = forked(url, here)
    spend(PrivacyLedger(url), "c", 1.0)
    with pytest.raises(LedgerDamaged, match="budget recover"):
        audit.verify(url, copy)
    assert recover(url, copy) == Recovered(charges=1, draws=1, releases=1)
    book = PrivacyLedger(url)
    (account,) = book.accounts("d")
    assert account.spent.epsilon_units == 3 * 10**12
    assert book.release_of(key("b").fingerprint).study == "b"  # its study is shown it again
    with pytest.raises(BudgetExceeded):
        book.reserve(Charge(key("e"), plan(1.0)), noise=SYSTEM)
    assert recover(url, copy) == Recovered()
    audit.verify(url)


def test_a_reservation_of_before_that_was_drawn_on_both_sides_is_charged_twice(url, here):
    book = capped(url, 3.0, 0.0)
    book.reserve(Charge(key("a"), plan(1.0)), noise=SYSTEM)
    copy = forgotten(url, here, lambda book: spend(book, "a", 1.0))
    spend(PrivacyLedger(url), "a", 1.0)
    assert recover(url, copy) == Recovered(charges=1, draws=1)
    assert PrivacyLedger(url).accounts("d")[0].spent.epsilon_units == 2 * 10**12
    assert recover(url, copy) == Recovered()


OTHER_CAPS = [
    (PrivacyBudget.of("d", epsilon=9.0, delta=0.0), 10**12),
    (PrivacyBudget.without_limit("d"), 0),  # they cannot be compared, and admit nothing more
    (PrivacyBudget.of("d", epsilon=9.0, delta=1e-5, accepts=("gp_prior",)), 0),
]


@pytest.mark.parametrize(("other", "least"), OTHER_CAPS)
def test_another_cap_opened_meanwhile_does_not_widen_the_first(url, here, other, least):
    book = PrivacyLedger(url)
    copy = forgotten(url, here, lambda book: (book.set_budget(OPEN), spend(book, "a", 1.0)))
    book.set_budget(other)
    assert recover(url, copy).smaller_caps == ["d"]
    assert book.budget("d").epsilon_units == least
    with pytest.raises(BudgetExceeded):
        book.reserve(Charge(key("b"), plan(0.01)), noise=SYSTEM)
    assert recover(url, copy) == Recovered()
    audit.verify(url)


def test_another_ledgers_spends_are_charged_here_once(url, here):
    spend_one(url)
    other = f"sqlite:///{here / 'other.db'}"
    spend(spend_one(other), "b", 0.2)
    assert recover(url, exported(other)) == Recovered(charges=2, draws=2, releases=2)
    assert PrivacyLedger(url).accounts("d")[0].spent.epsilon_units == 4 * 10**11
    assert recover(url, exported(other)) == Recovered()
    audit.verify(url)
    with pytest.raises(LedgerDamaged, match="copy is empty"):
        recover(url, ())


def test_what_another_ledgers_owner_allowed_is_not_allowed_here_and_what_was_published_is_told(url, here):
    spend_one(url)
    (here / "v.csv").write_text("a,y\n1,0\n")
    other = spend_one(f"sqlite:///{here / 'other.db'}")
    other.allow("d", file_source(here / "v.csv"))
    other.publish("d", file_source(here / "v.csv", PUBLIC_ROLE))
    other.allow_code("d", Code("score", "ours.scores.utility"))
    spend(other, "b", 0.2)
    recover(url, exported(f"sqlite:///{here / 'other.db'}"))
    book = PrivacyLedger(url)
    assert other.allows_score("d", "ours.scores.utility")
    assert not book.allows_score("d", "ours.scores.utility")
    (account,) = book.accounts("d")
    assert account.sources == ()
    claim = book.reserve(Charge(key("c"), plan(0.2)), noise=SYSTEM)
    assert claim.assumed(plan(0.2).guarantee).assumptions == ("published_records",)


def test_the_command_recovers(dpbo, url, here, monkeypatch):
    copy = forked(url, here)
    parsed = ({**asdict(link), "row": json.loads(link.row), "totals": json.loads(link.totals)} for link in copy)
    (here / "found.jsonl").write_text("".join(json.dumps(line) + "\n" for line in parsed))
    monkeypatch.setenv("DPBO_LEDGER_URL", url)
    assert "1 lost charges were added" in " ".join(dpbo("budget", "recover", "found.jsonl")[1].split())
    assert "nothing was added" in " ".join(dpbo("budget", "recover", "found.jsonl")[1].split())
    code, _, err = dpbo("budget", "set", "recover", "--epsilon", "1")
    assert (code, "word of the command line" in err) == (2, True)


# exports that were written by somebody else's hand


def chained(history, *rows):
    """The history and further lines, re-chained."""
    for about, row in rows:
        history = continued(history, about, row)
    return history


def fact(about, item, value):
    told = {"dataset": "d", "about": about, "item": item, "value": value, "written_at": "2026-01-01"}
    return "dataset_facts", told


def test_a_line_that_says_recovered_hides_no_lost_spend(url, here):
    """1.0 of 1.0 was spent, an old copy with 0.1 comes back, and an edited export says the rest was recovered."""
    book = capped(url, 1.0, 0.0)
    book.reserve(Charge(key("a"), plan(0.1)), noise=SYSTEM)
    shutil.copy(here / "ledger.db", here / "old.db")
    before = exported(url)
    book.reserve(Charge(key("b"), plan(0.9)), noise=SYSTEM)
    whole = exported(url)
    shutil.copy(here / "old.db", here / "ledger.db")
    (lost,) = whole[len(before) :]
    first = next(json.loads(link.row) for link in before if link.about == "reservations")
    tiny = ("reservations", first | {"id": 2, "fingerprint": "9" * 64})
    forged = chained(before, tiny, fact("recovered", lost.hash, {"reservation": 2}))
    (here / "ledger.db.generation").unlink()
    assert accept(url, forged) == Recovered(charges=1)  # the tiny one, and not what the line says
    assert recover(url, whole) == Recovered(charges=1)
    with pytest.raises(BudgetExceeded):
        PrivacyLedger(url).reserve(Charge(key("c"), plan(0.1)), noise=SYSTEM)


def reservation(history):
    return next(json.loads(link.row) for link in history if link.about == "reservations")


FORGED = {
    "the history in itself": lambda h: (
        "history", {"sequence": "999", "about": "x", "content": "{}", "hash": "f" * 64, "mac": "y"},
    ),
    "k is a word": lambda h: fact("max_records_per_person", "abc", {}),
    "k is 0": lambda h: fact("max_records_per_person", "0", {}),
    "a cap without amounts": lambda h: fact("cap", "x", {}),
    "a cap below 0": lambda h: fact("cap", "x", {"epsilon_units": -1, "delta_units": 0}),
    "a cap of true": lambda h: fact("cap", "x", {"epsilon_units": True, "delta_units": 0}),
    "a fact of no dataset": lambda h: (
        "dataset_facts", {"dataset": "no", "about": "a", "item": "b", "value": {}, "written_at": ""},
    ),
    "a reservation of no dataset": lambda h: (
        "reservations", reservation(h) | {"id": 9, "dataset": "no", "fingerprint": "9" * 64},
    ),
    "a guarantee of nothing": lambda h: (
        "reservations", reservation(h) | {"id": 9, "guarantee": {}, "fingerprint": "9" * 64},
    ),
    "another unit than its guarantee's": lambda h: (
        "reservations", reservation(h) | {"id": 9, "unit": "person", "fingerprint": "9" * 64},
    ),
}  # fmt: skip


def test_a_line_that_no_ledger_can_hold_is_refused_and_harms_nothing(ledger_url):
    """Accepted, most of them made every later reading fail; the others were a database's error on the screen.

    A line of no dataset alone is what a database refuses, each in its own words.
    """
    book = capped(ledger_url, 5.0, 0.0)
    book.reserve(Charge(key("a"), plan(0.5)), noise=SYSTEM)
    history = exported(ledger_url)
    for name, line in FORGED.items():
        if ledger_url.startswith("sqlite") or "no dataset" in name:
            with pytest.raises(LedgerDamaged):
                accept(ledger_url, chained(history, line(history)))
            assert exported(ledger_url) == history
    audit.verify(ledger_url)
    book.reserve(Charge(key("b"), plan(0.5)), noise=SYSTEM)


def test_half_a_character_in_an_export_is_a_letter(url):
    PrivacyLedger(url).set_budget(OPEN)
    lines = [*audit.export(url)]
    lines[-1] = lines[-1].replace('"d"', '"\\ud800"')
    with pytest.raises(LedgerDamaged, match="is not a line of an export"):
        audit.read_export(lines)


def test_a_generation_that_cannot_be_written_is_a_letter_and_nothing_is_paid_twice(url, here, monkeypatch):
    """The disk is full between a commit and the generation: what was committed stays, and is taken over."""
    from dpbo_core.ledger import rollback_guard

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(rollback_guard, "_write_content", full)
        with pytest.raises(DpboError, match=r"cannot be written \(no space left on device\)"):
            PrivacyLedger(url)
    book = capped(url, 1.0, 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(rollback_guard, "_write_content", full)
        with pytest.raises(DpboError, match="nothing is paid twice"):
            book.reserve(Charge(key("a"), plan(0.1)), noise=SYSTEM)
    book.reserve(Charge(key("a"), plan(0.1)), noise=SYSTEM)
    assert len(PrivacyLedger(url).accounts("d")[0].entries) == 1
    audit.verify(url)
