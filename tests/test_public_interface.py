"""What `dpbo_core` lists is there, is imported on first use, and is all that the documents need."""

import ast
import re
import subprocess
import sys

import pytest
from pages import PAGES, ROOT

import dpbo_core

DEEP = re.compile(r"^(?:>>> )?\s*from (dpbo_core\.[\w.]+) import", re.MULTILINE)
FOR_DEVELOPERS = {"adding_a_method"}  # who adds a method works inside the house


@pytest.mark.parametrize("name", dpbo_core.__all__)
def test_it_is_there_under_the_name_it_has_at_home(name):
    assert getattr(dpbo_core, name).__name__ == name


def test_what_tools_read_is_what_is_imported():
    """A type checker and an editor read the imports; a program goes by the table."""
    tree = ast.parse((ROOT / "dpbo_core" / "__init__.py").read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    told = {
        item.name: node.module
        for node in ast.walk(block)
        if isinstance(node, ast.ImportFrom)
        for item in node.names
    }
    assert told == {name: f"dpbo_core.{home}" for name, home in dpbo_core._HOME.items()}
    assert list(dpbo_core._HOME) == sorted(dpbo_core._HOME)


def test_nothing_is_imported_before_it_is_asked_for():
    heavy = "('dpbo_core.', 'numpy', 'sklearn')"
    code = f"import dpbo_core, sys; print([name for name in sys.modules if name.startswith({heavy})])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_reader_needs_no_deep_path(page):
    assert page.stem in FOR_DEVELOPERS or not DEEP.findall(page.read_text())


def test_an_unlisted_name_is_refused():
    with pytest.raises(AttributeError, match="no attribute 'run'"):
        dpbo_core.run  # noqa: B018
    assert "run_study" in dir(dpbo_core)
