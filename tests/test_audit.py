"""The short forms of the campaigns that `make audit` runs in full."""

import math
from importlib.metadata import distributions, version
from pathlib import Path

import numpy as np
from audit import __main__ as audit_page
from audit import distinguish, hostile, supply, timing, verdict

from dpbo_core.methods import EXCHANGES, METHODS
from dpbo_core.study import StudySpec


def test_hostile_files_give_their_records_and_say_nothing():
    figures = hostile.campaign(400, seed=1)
    assert figures.files == 400
    assert figures.clean, figures


def test_a_reader_that_raises_is_counted(monkeypatch):
    def fragile(path, **named):
        raise ValueError

    monkeypatch.setattr(hostile, "read_table", fragile)
    assert hostile.campaign(3).raised == 3


def test_timing_is_measured_for_every_method_with_something_to_hide(tables):
    found = {(item.method, item.quantity) for item in timing.measure(StudySpec.from_dict(tables), 2)}
    assert ("lipschitz", "exact score") in found
    assert ("lipschitz", "λ") in found
    assert ("private_trajectory", "size of the noise") in found


def test_a_section_replaces_itself_and_leaves_the_others():
    page = audit_page.whole({"Kills": "ten\n\n| a |", "Leaks": "none"})
    told = audit_page.parsed(page)
    assert told == {"Kills": "ten\n\n| a |", "Leaks": "none"}
    again = audit_page.whole(told | {"Leaks": "one"})
    assert audit_page.parsed(again) == {"Kills": "ten\n\n| a |", "Leaks": "one"}
    assert audit_page.whole(audit_page.parsed(again)) == again
    assert again.index("## Kills") < again.index("## Leaks")


def test_every_method_and_exchange_is_told_apart_and_every_fault_is_planted():
    honest = {kind for kind, _ in distinguish.jobs(faulty=False)}
    assert honest == {*METHODS, *EXCHANGES}
    faults = {name for _, name in distinguish.jobs(faulty=True)}
    assert {
        "half the noise",
        "sensitivity of a mean on a sum",
        "the whole budget at each step",
        "no noise where the winner is clear",
    } <= faults
    assert {("dp_hypo", "planted"), ("outsourced", "planted")} <= set(distinguish.jobs(faulty=True))  # K revealed


def test_the_bound_of_a_coin_is_its_own():
    """10,000 tosses on each side: under log 3 honestly, above it where the coin is worse."""
    rng = np.random.default_rng(2)

    def tosses(p):
        return (rng.random((10_000, 1)) < p).astype(float)

    assert 0.9 < distinguish.lower_bound(tosses(0.25), tosses(0.75), delta=0.0) <= math.log(3.0)
    assert distinguish.lower_bound(tosses(0.2), tosses(0.8), delta=0.0) > math.log(3.0)


def test_the_bill_of_materials_lists_what_is_installed_and_is_the_same_twice():
    made = supply.bill(distributions())
    assert made == supply.bill(distributions())
    assert (made["bomFormat"], made["specVersion"], made["metadata"]["component"]["name"]) == (
        "CycloneDX",
        "1.6",
        "dpbo",
    )
    names = {part["name"]: part["version"] for part in made["components"]}
    assert names["opendp"] == version("opendp")
    assert {"numpy", "scikit-learn", "skops", "prefect", "mlflow"} <= set(names)
    assert all(part["purl"] == f"pkg:pypi/{part['name']}@{part['version']}" for part in made["components"])
    assert {*made["dependencies"][0]["dependsOn"]} == {part["bom-ref"] for part in made["components"]}


def test_every_dependency_is_locked_to_one_version():
    lock = (Path(__file__).parents[1] / "requirements.lock").read_text().splitlines()
    pinned = [line for line in lock if line and not line.startswith(("#", " "))]
    assert len(pinned) > 100
    assert all("==" in line and "://" not in line for line in pinned)


def test_a_row_that_is_not_what_it_must_be_fails_the_audit():
    head, rule = "| method | case | the promise |", "|---|---|---|"
    text = f"{head}\n{rule}\n| a | b | %s |\n\nPlanted faults; every row.\n\n{head}\n{rule}\n| a | c | %s |"
    assert verdict.broken("neighbours", text % ("under", "above")) == []
    assert verdict.broken("neighbours", text % ("above", "above")) == [["a", "b", "above"]]
    assert verdict.broken("neighbours", text % ("under", "under")) == [["a", "c", "under"]]
    kills = "| store | kills | x | y | z |\n|---|---|---|---|---|\n| SQLite | 60 | 0 | %s | 0 |"
    assert verdict.broken("kills", kills % 0) == []
    assert verdict.broken("kills", kills % 1)
    planted = "Flows made to leak.\n\n| on | there |\n|---|---|\n| a | %s |"
    leaks = f"| on | found | again |\n|---|---|---|\n| a | 0 | %s |\n\n{planted}"
    assert verdict.broken("leaks", leaks % (0, 3)) == []
    assert verdict.broken("leaks", leaks % (1, 3))
    assert verdict.broken("leaks", leaks % (0, 0))
    files = "9 files: 0 raised, 0 printed or warned, 0 lost or gained a record,\n%s moved the sum"
    assert verdict.broken("files", files % 0) == []
    assert verdict.broken("files", files % 2)
    replays = "| m | pairs | found | share |\n|---|---|---|---|\n| a | 9 | 0 | %s |"
    assert verdict.broken("replays", replays % "1.000") == []
    assert verdict.broken("replays", replays % "1.001")
