"""A feature is a folder that can be deleted, and none is forgotten by the suites that test all kinds alike."""

import importlib
import re
import subprocess
import sys
import tomllib

import pytest
from of_features import FEATURES, TESTS
from planted import FAULTS, PROMISES
from without import ROOT, without_entries

from dpbo_core.privacy.named_parts import declared

EACH = {  # by entry point group: what a feature that declares in it adds to the shared suites
    "dpbo.methods": ("VARIANTS", "standings", "worst_pairs", "failing_studies", "observed"),
    "dpbo.exchanges": ("STANDING_ELSEWHERE", "worst_pairs", "failing_queries", "QUERIES", "RELEASES", "observed"),
    "dpbo.queries": ("QUERIES", "RELEASES", "failing_queries", "doors", "SPENDS", "USELESS_SECTIONS"),
    "dpbo.rowwise": ("failing_studies", "failing_evaluations"),
}


def test_every_feature_has_tests_promises_and_planted_faults():
    assert {path.parent.name for path in (ROOT / "features").glob("*/__init__.py")} == {*FEATURES}
    for files in (FAULTS, PROMISES):
        assert {file.parent.name for file in files[1:]} == {*FEATURES}


@pytest.mark.parametrize("group", EACH)
def test_what_a_feature_declares_is_in_every_shared_suite(group):
    for kind, value in declared(group).items():
        feature = value.split(".")[2]
        parts = importlib.import_module(f"{feature}_parts")
        assert [name for name in ("FAILURE_ROOMS", *EACH[group]) if not hasattr(parts, name)] == [], kind


def test_nothing_outside_the_features_imports_one():
    """Neither in a test nor in a campaign; what ships is held by the import rules."""
    imports = re.compile(r"^ *(?:from|import) dpbo\.features\b", re.MULTILINE)
    files = [path for path in TESTS.rglob("*.py") if TESTS / "features" not in path.parents]
    assert len(files) > 200
    assert [path for path in files if imports.search(path.read_text())] == []


@pytest.mark.parametrize("feature", FEATURES)
def test_its_lines_of_the_project_can_be_deleted(feature):
    text = (ROOT / "pyproject.toml").read_text()
    assert f"features.{feature}" in text
    rest = without_entries(text, feature)
    assert not re.search(rf"\b{feature}\b.*dpbo\.features|dpbo\.features\.{feature}\b", rest)
    contracts = tomllib.loads(rest)["tool"]["importlinter"]["contracts"]
    assert all(contract.get(key) != [] for contract in contracts for key in ("modules", "source_modules"))


@pytest.mark.slow
@pytest.mark.parametrize("feature", FEATURES)
def test_the_rest_is_whole_without_it(feature):
    ran = subprocess.run(
        [sys.executable, TESTS / "without.py", feature], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout[-5000:]
