"""What `dpbo_core` and `dpbo` list is there, is imported on first use, and is all that the documents need."""

import ast
import doctest
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from pages import PAGES

import dpbo
import dpbo_core

DEEP = re.compile(r"^(?:>>> )?\s*from (dpbo(?:_core)?\.[\w.]+) import", re.MULTILINE)
# who adds works inside, and theorems are called by the papers' names
FOR_DEVELOPERS = {"adding_a_method", "adding_a_part", "adding_a_query", "reading_with_the_papers"}


LISTED = [(package, name) for package in (dpbo, dpbo_core) for name in package.__all__]


@pytest.mark.parametrize(("package", "name"), LISTED, ids=lambda item: getattr(item, "__name__", item))
def test_it_is_there_under_the_name_it_has_at_home(package, name):
    thing = getattr(package, name)
    assert getattr(thing, "fn", thing).__name__ == name  # a flow's name is a title


@pytest.mark.parametrize(("package", "under"), [(dpbo, "dpbo.flows"), (dpbo_core, "dpbo_core")])
def test_what_tools_read_is_what_is_imported(package, under):
    """A type checker and an editor read the imports; a program goes by the table."""
    tree = ast.parse(Path(package.__file__).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    told = {
        item.name: node.module
        for node in ast.walk(block)
        if isinstance(node, ast.ImportFrom)
        for item in node.names
    }
    assert told == {name: f"{under}.{home}" for name, home in package._HOME.items()}
    assert list(package._HOME) == sorted(package._HOME)


def test_nothing_is_imported_before_it_is_asked_for():
    heavy = "('dpbo.', 'dpbo_core.', 'numpy', 'sklearn', 'prefect')"
    code = f"import dpbo, dpbo_core, sys; print([name for name in sys.modules if name.startswith({heavy})])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_reader_needs_no_deep_path(page):
    assert page.stem in FOR_DEVELOPERS or not DEEP.findall(page.read_text())


def test_an_unlisted_name_is_refused():
    with pytest.raises(AttributeError, match="no attribute 'run'"):
        dpbo_core.run  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'tune'"):
        dpbo.tune  # noqa: B018
    assert "run_study" in dir(dpbo_core)
    assert "tune_privately" in dir(dpbo)


@pytest.mark.parametrize("room", ["accounting", "ledger"])
def test_the_example_that_a_room_opens_with_runs(room, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outcome = doctest.testmod(import_module(f"dpbo_core.{room}"))
    assert outcome.attempted > 0
    assert outcome.failed == 0


EXAMPLES = ("PrivacyLedger", "PrivateSearch", "PrivateSelection", "plan_study", "run_study")


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_in_its_docstring_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    thing = getattr(dpbo_core, name)
    (example,) = doctest.DocTestFinder(recurse=False).find(thing, name, globs={})
    assert example.examples
    assert doctest.DocTestRunner().run(example).failed == 0
