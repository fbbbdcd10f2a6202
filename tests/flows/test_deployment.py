"""The compose file, and the ranges of versions: what can be read without starting anything."""

import re
import tomllib
from datetime import date
from importlib.metadata import entry_points
from pathlib import Path

import newest
import yaml
from audit import supply
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]


def test_the_compose_file_publishes_on_this_machine_alone_and_ships_no_password():
    text = (ROOT / "examples" / "container" / "compose.yaml").read_text()
    services = yaml.safe_load(text)["services"]
    assert set(services) == {"postgres", "prefect", "mlflow", "worker"}
    assert [
        port for one in services.values() for port in one.get("ports", ()) if not port.startswith("127.0.0.1:")
    ] == []
    secrets = {
        name: value
        for one in services.values()
        for name, value in one["environment"].items()
        if re.search("PASSWORD|AUTH_STRING|SECRET_KEY|LEDGER_URL", name)
    }
    assert len(secrets) == 7
    assert all(re.search(r"\$\{[A-Z]+_PASSWORD:\?\}", value) for value in secrets.values())


def test_every_part_of_the_compose_file_is_there():
    """Commands of the image, services and volumes that are declared, variables that its first lines name."""
    text = (ROOT / "examples" / "container" / "compose.yaml").read_text()
    compose = yaml.safe_load(text)
    services, head = compose["services"], text.partition("\nname:")[0]
    programs = {point.name for point in entry_points(group="console_scripts")}
    commands = {name: one["command"].split() for name, one in services.items() if "command" in one}
    assert {words[0] for words in commands.values()} == {"prefect", "mlflow"} < programs
    assert {words[1] for words in commands.values()} <= {"server", "worker"}
    for name, one in services.items():
        named = [volume.partition(":")[0] for volume in one["volumes"]]
        assert all(volume.startswith("./") or volume in compose["volumes"] for volume in named), name
        assert set(one.get("depends_on", ())) <= set(services), name
        assert one["image"] == "dpbo" or re.fullmatch(r"[a-z]+:\d+", one["image"]), name
    assert set(re.findall(r"\$\{(\w+)", text)) == set(re.findall(r"(\w+)=…", head))
    worker = services["worker"]["environment"]
    ports = {one["ports"][0].rpartition(":")[2]: name for name, one in services.items() if "ports" in one}
    for variable in (
        "PREFECT_API_URL",
        "MLFLOW_TRACKING_URI",
    ):  # each names a service, at the port that it listens on
        host, port = re.fullmatch(r"http://(\w+):(\d+)(?:/api)?", worker[variable]).groups()
        assert ports[port] == host
    assert "@postgres/dpbo" in worker["DPBO_LEDGER_URL"]
    dockerfile = (ROOT / "examples" / "container" / "Dockerfile").read_text()
    assert "USER 10001" in dockerfile
    assert services["worker"]["user"] == "10001"
    assert [line for line in (ROOT / "Makefile").read_text().splitlines() if line.startswith("wheel:")]
    assert "make wheel && docker build" in dockerfile
    pool = commands["worker"][commands["worker"].index("--pool") + 1]
    assert pool == yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"][0]["work_pool"]["name"]


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
    """It does not say so itself: without our bound pip gives it a FastAPI that ends every flow."""
    lines = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    ours = {one.name: one.specifier for one in map(Requirement, lines)}
    assert not ours["prefect"].contains("3.8.8") or not ours["fastapi"].contains("0.165.0")


def test_a_lock_older_than_a_month_is_said_to_be():
    line, old = supply.told_age(date(2026, 11, 1), date(2026, 12, 2))
    assert (line, old) == ("requirements.lock was made on 2026-11-01.", False)
    line, old = supply.told_age(date(2026, 11, 1), date(2026, 12, 3))
    assert old
    assert "make lock LOCK=--upgrade" in line
