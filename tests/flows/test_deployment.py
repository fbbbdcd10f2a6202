"""The deployment's files, as far as they can be read without starting anything: `make deployment` starts them."""

import re
import tomllib
from datetime import date
from pathlib import Path

import newest
import pytest
from audit import supply
from deployment import told, units
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
FILES = ROOT / "examples" / "deployment"
UNITS = sorted(path.stem for path in FILES.glob("*.service"))


@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_has_its_own_account_and_nothing_that_the_trial_passes_over(unit, monkeypatch):
    monkeypatch.setattr(units, "FOLDER", FILES)
    found = units.service(unit)
    assert found["User"] == {"dpbo-postgresql": "postgres", "dpbo-worker": "dpbo-curator"}.get(unit, unit)
    assert (found["UMask"], found["NoNewPrivileges"]) == ("0077", "yes")
    assert found["ExecStart"].startswith(("/opt/dpbo/bin/", "/usr/lib/postgresql/15/bin/postgres "))
    assert "0.0.0.0" not in found["ExecStart"]


def test_a_unit_with_a_key_that_nobody_follows_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(units, "FOLDER", tmp_path)
    (tmp_path / "x.service").write_text("[Service]\nUser=postgres\nPrivateNetwork=yes\nExecStart=/bin/true\n")
    with pytest.raises(SystemExit, match="PrivateNetwork"):
        units.service("x")


def test_no_secret_is_shipped():
    """Every password is drawn by `install`; files hold names of settings alone."""
    text = "".join(path.read_text() for path in FILES.iterdir() if path.name != "install")
    assert not re.search(r"(PASSWORD|AUTH_STRING|SECRET_KEY|admin_password)\s*=\s*\S", text)
    assert (FILES / "install").read_text().count("$(secret)") == 6


def test_the_page_names_files_that_are_there():
    lines = [line for block in told.blocks() for line in block]
    named = {name for line in lines for name in re.findall(r"examples/[\w./]+", line)}
    assert len(lines) > 25
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_postgresql_trusts_nobody_and_listens_to_nobody():
    rules = [line.split() for line in (FILES / "pg_hba.conf").read_text().splitlines() if not line.startswith("#")]
    assert {(rule[0], rule[3]) for rule in rules} == {("local", "peer")}
    assert "listen_addresses = ''" in (FILES / "install").read_text()


def test_what_the_newest_lane_asks_for_has_no_upper_bound():
    asked = newest.requirements(tomllib.loads((ROOT / "pyproject.toml").read_text()))
    assert {re.split(r"[\[>]", line)[0] for line in asked[:3]} == {"mlflow", "prefect"}
    assert not [line for line in asked if re.search(r"<|==|~=|!=", line.split(";")[0])]
    assert "dp-accounting>=0.6" in asked
    assert not [line for line in asked if line.startswith(newest.THEIRS)]


def test_the_page_gives_a_reason_for_every_range_that_ends():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    ended = {line for line in project["dependencies"] if re.search("<|==", line)}
    page = (ROOT / "docs" / "evidence" / "supply_chain.md").read_text()
    told = page.partition("## Where a range ends")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(.+?)` \| \w", told, flags=re.MULTILINE)) == ended


def test_prefect_3_8_is_never_resolved_with_what_it_breaks_under():
    """It says neither itself: without our bounds pip gives it SQLAlchemy 2.1 and a FastAPI that ends every flow."""
    lines = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    ours = {one.name: one.specifier for one in map(Requirement, lines)}
    assert not ours["prefect"].contains("3.8.8") or not ours["sqlalchemy"].contains("2.1.9")
    assert not ours["prefect"].contains("3.8.8") or not ours["fastapi"].contains("0.165.0")


def test_a_lock_older_than_a_month_is_said_to_be():
    line, old = supply.told_age(date(2026, 11, 1), date(2026, 12, 2))
    assert (line, old) == ("requirements.lock was made on 2026-11-01.", False)
    line, old = supply.told_age(date(2026, 11, 1), date(2026, 12, 3))
    assert old
    assert "make lock LOCK=--upgrade" in line
