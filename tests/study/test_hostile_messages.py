"""What the fuzz campaign found, one test each: a message, no stack trace, no control character, no charge."""

import copy
import json
import sqlite3
import sys
from contextlib import suppress
from dataclasses import replace

import pytest
from audit import fuzz, targets
from audit.targets import used_ledger
from conftest import STUDY
from test_ledger import GUARANTEE, plan

from dpbo.flows.cli import app as cli
from dpbo.flows.cli.budget import print_accounts
from dpbo.flows.cli.verify import check_certificate
from dpbo_core.errors import CertificateFalse, DpboError, LedgerDamaged, StudyInvalid
from dpbo_core.ledger import audit
from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.charge import Charge
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.privacy.release import Release
from dpbo_core.study import StudySpec
from dpbo_core.study.tuning import run_study

ESC = "\x1b[2J\x07"


def certificate():
    """An honest one: the one draw that `lipschitz` makes."""
    spends = tuple(replace(spend, what="best score") for spend in plan().spends)
    return Release({"score": 0.25}, GUARANTEE, spends, "s", "1", "lipschitz", "d").to_json()


WRONG = (
    (("spends", 0, "rho"), "x" * 10_000),  # a text times 10¹² is a terabyte
    (("spends", 0, "rho"), True), (("spends", 0, "epsilon"), -0.5), (("spends", 0, "delta"), 1e300),
    (("spends", 0, "mechanism"), {"a": 1}), (("spends", 0, "mechanism"), 3), (("spends", 0, "what"), None),
    (("guarantee", "assumptions"), [1]), (("guarantee", "assumptions"), "gp"), (("study",), {}),
    (("guarantee", "epsilon"), float("nan")), (("guarantee", "delta"), 10**400), (("spends",), {}),
    (("guarantee", "person"), 3), (("noise",), []),
)  # fmt: skip


def test_a_certificate_with_another_type_or_a_negative_price_is_no_release(tmp_path):
    for (*where, last), value in WRONG:
        document = place = certificate()
        for key in where:
            place = place[key]
        place[last] = value
        (tmp_path / "release.json").write_text(json.dumps(document))
        with pytest.raises(StudyInvalid, match="no release"):
            check_certificate(tmp_path / "release.json")


def test_a_negative_price_cannot_pay_for_another_draw(tmp_path):
    """Of a mechanism that has no formula here, whose price is taken as printed."""
    document = certificate()
    (draw,) = document["spends"]
    document["spends"] = [draw, draw | {"what": "a second", "noise_scale": draw["noise_scale"]}]
    (tmp_path / "release.json").write_text(json.dumps(document))
    with pytest.raises(CertificateFalse):
        check_certificate(tmp_path / "release.json")
    refund = {"what": "a refund", "mechanism": "m", "epsilon": -draw["epsilon"], "rho": -draw["rho"]}
    document["spends"].append(draw | refund)
    (tmp_path / "release.json").write_text(json.dumps(document))
    with pytest.raises(StudyInvalid, match="no release"):
        check_certificate(tmp_path / "release.json")


def test_a_draw_of_next_to_no_noise_is_underpriced_and_no_stack_trace(tmp_path):
    document = certificate()
    document["spends"][0]["noise_scale"] = 5e-324
    (tmp_path / "release.json").write_text(json.dumps(document))
    with pytest.raises(CertificateFalse):
        check_certificate(tmp_path / "release.json")
    (tmp_path / "release.json").write_text("[" * 100_000)
    with pytest.raises(StudyInvalid, match="no release"):
        check_certificate(tmp_path / "release.json")


def test_a_certificates_names_are_printed_harmless(tmp_path):
    document = certificate()
    document["study"], document["edition"] = f"trial{ESC}", f"1{ESC}"
    (tmp_path / "release.json").write_text(json.dumps(document))
    said = check_certificate(tmp_path / "release.json")
    assert said.isprintable()
    assert "trial\\x1b" in said
    document["spends"][0] |= {"mechanism": f"mine{ESC}", "what": f"draw{ESC}"}
    (tmp_path / "release.json").write_text(json.dumps(document))
    with pytest.raises(CertificateFalse) as caught:
        check_certificate(tmp_path / "release.json")
    assert str(caught.value).isprintable()


CELLS = (
    ("draws", "outcome", "${HOME}"), ("history", "content", "[]"), ("history", "content", "~"),
    ("datasets", "relation", "' OR 1"), ("reservations", "unit", "`id`"), ("reservations", "rho_units", "%s"),
    ("reservations", "guarantee", "[]"), ("datasets", "accepts", "null"), ("history", "content", "[" * 5000),
    ("releases", "release", "{}"), ("history", "sequence", "x"), ("datasets", "delta_units", -1),
    ("reservations", "rho_units", -1), ("reservations", "reserved_at", "\u202egnp"),
    ("releases", "released_at", ESC),
)  # fmt: skip


def overwritten(file, honest, table, column, value):
    """The honest ledger's file again, with one cell changed past its triggers."""
    file.write_bytes(honest)
    with sqlite3.connect(file) as connection:
        for (trigger,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {trigger}")
        where = "WHERE sequence = 3" if column == "sequence" else ""
        connection.execute(f"UPDATE {table} SET {column} = ? {where}", (value,))
    connection.close()


def test_a_cell_overwritten_past_dpbo_is_damage_and_no_stack_trace(tmp_path, capsys):
    url, file = used_ledger(tmp_path), tmp_path / "ledger.db"
    honest = file.read_bytes()
    for cell in CELLS:
        overwritten(file, honest, *cell)
        with pytest.raises(LedgerDamaged):
            audit.verify(url)
        shown = (lambda: print_accounts(PrivacyLedger(url).accounts()), lambda: list(audit.export(url)))
        for read in shown:
            with suppress(LedgerDamaged):  # where the cell is of no use to it
                read()
        assert all(line.isprintable() for line in capsys.readouterr().out.splitlines()), cell
    for number in ("", "9999", "../0001", ESC):
        overwritten(file, honest, "ledger", "schema", number)
        with pytest.raises(DpboError, match="reads and writes schema 1 alone") as caught:
            PrivacyLedger(url).accounts()
        assert caught.value.message().isprintable()


def test_an_export_of_nonsense_is_damage():
    for line in ('{"sequence": Infinity, "about": "C", "row": {}, "hash": ""}', "[" * 100_000, "[]"):
        with pytest.raises(LedgerDamaged, match="line 1"):
            audit.read_export([line])


def test_a_name_too_long_for_a_file_is_a_letter_and_charges_nothing(tmp_path):
    ledger, words = PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}"), copy.deepcopy(targets.studies()[5])
    targets.write_data(tmp_path)
    words["data"]["validation"] = "9" * 400
    with pytest.raises(StudyInvalid):
        run_study(StudySpec.from_dict(words), ledger=ledger, folder=tmp_path)
    assert all(account.entries == () for account in ledger.accounts())


def test_an_invisible_character_on_the_command_line_is_refused(monkeypatch, capsys, here):
    for word in (f"x{ESC}", "people\u200b"):
        monkeypatch.setattr(sys, "argv", ["dpbo", "budget", "export", "a", word])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        said = capsys.readouterr().err
        assert stop.value.code == 2
        assert said.removesuffix("\n").isprintable()


@pytest.mark.parametrize("name", fuzz.FULL)
def test_a_few_hundred_hostile_inputs_of_every_kind(name):
    row = fuzz.attack(name, max(4, fuzz.FULL[name] // 1000), seed=1)
    assert row.clean, row.seen
    assert row.inputs >= 4


def raises(_):
    raise ValueError("of a record")


def speaks(_):
    print(f"a column {ESC}")


def hangs(_):
    while True:
        pass


def test_a_planted_fault_and_a_charge_on_refusal_are_counted(monkeypatch):
    monkeypatch.setattr(fuzz, "LONGEST", 0.05)
    for count, fault in {"traces": raises, "control": speaks, "codes": lambda _: 77, "hangs": hangs}.items():
        with monkeypatch.context() as patch:
            patch.setitem(fuzz.TARGETS, "CSV, sensitive", fuzz.faulty("CSV, sensitive", fault))
            assert getattr(fuzz.attack("CSV, sensitive", 3), count) == 3
    monkeypatch.setitem(fuzz.TARGETS, "study, run", charging)
    assert fuzz.attack("study, run", 3).charged == 3


def charging(folder):
    """A door that charges, and refuses."""
    url, names = f"sqlite:///{folder / 'ledger.db'}", iter("abc")
    ledger = PrivacyLedger(url)
    ledger.set_budget(PrivacyBudget.of("d", epsilon=5.0, delta=0.0))

    def take(_):
        from test_ledger import key

        ledger.reserve(Charge(key(next(names)), plan(0.1)), noise="operating_system")
        raise StudyInvalid("no")

    return targets.Target(take, corpus=(STUDY,), balance=lambda: targets.accounts(ledger))
