"""What `dpbo_core` and `dpbo` list is there, is imported on first use, and is all that the documents need."""

import ast
import doctest
import re
import subprocess
import sys
from operator import attrgetter
from pathlib import Path

import pytest
from pages import PAGES

import dpbo
import dpbo_core.ledger
import dpbo_core.ledger.accounting
from dpbo_core.privacy.named_parts import declared

DEEP = re.compile(r"^(?:>>> )?\s*from (dpbo(?:_core)?\.[\w.]+) import", re.MULTILINE)
# who adds works inside, and theorems are called by the papers' names
FOR_DEVELOPERS = {"adding_a_method", "adding_a_part", "adding_a_query", "reading_with_the_papers"}


@pytest.mark.parametrize(("package", "under"), [(dpbo, "dpbo.flows"), (dpbo_core, "dpbo_core")])
def test_what_tools_read_is_what_is_imported(package, under):
    """A type checker and an editor read the imports; a program goes by the table."""
    things = {name: getattr(package, name) for name in package.__all__}
    assert [
        name for name, it in things.items() if getattr(it, "fn", it).__name__ != name
    ] == []  # a flow has a title
    tree = ast.parse(Path(package.__file__).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    told = {
        item.name: node.module
        for node in ast.walk(block)
        if isinstance(node, ast.ImportFrom)
        for item in node.names
    }
    core = dict.fromkeys(dpbo_core.__all__, "dpbo_core") if package is dpbo else {}
    features = {name: home.partition(":")[0] for name, home in declared("dpbo.names").items()} if core else {}
    assert told == {name: f"{under}.{home}" for name, home in package._HOME.items()} | core | features
    assert list(package._HOME) == sorted(package._HOME)


def test_nothing_is_imported_before_it_is_asked_for():
    heavy = "('dpbo.', 'dpbo_core.', 'numpy', 'sklearn', 'prefect')"
    code = f"import dpbo, dpbo_core, sys; print([name for name in sys.modules if name.startswith({heavy})])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_reader_needs_no_deep_path():
    assert {page.stem for page in PAGES if DEEP.search(page.read_text())} <= FOR_DEVELOPERS


def test_an_unlisted_name_is_refused():
    with pytest.raises(AttributeError, match="no attribute 'run'"):
        dpbo_core.run  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'tune'"):
        dpbo.tune  # noqa: B018
    assert "run_study" in dir(dpbo_core)
    assert "tune_privately" in dir(dpbo)
    assert dpbo.PrivateSearch is dpbo_core.PrivateSearch


EXPLAINED = ("PrivacyLedger", "PrivateSearch", "PrivateSelection", "plan_study", "run_study")


@pytest.mark.parametrize("name", [*EXPLAINED, "ledger.accounting", "ledger"])
def test_the_example_in_its_docstring_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (example,) = doctest.DocTestFinder(recurse=False).find(attrgetter(name)(dpbo_core), name, globs={})
    assert example.examples
    assert doctest.DocTestRunner().run(example).failed == 0
