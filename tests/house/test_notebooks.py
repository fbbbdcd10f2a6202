"""The notebooks are their pages, and they run."""

import os
import sys
from pathlib import Path

import notebooks
import pytest


@pytest.mark.parametrize("chapter", notebooks.CHAPTERS)
def test_a_notebook_is_its_page(chapter):
    kept = (notebooks.FOLDER / f"{chapter}.ipynb").read_text()
    assert kept == notebooks.notebook(chapter), "write them again: python tests/notebooks.py"


@pytest.mark.slow
@pytest.mark.parametrize("chapter", notebooks.CHAPTERS)
def test_a_notebook_runs(chapter, here, monkeypatch):
    nbformat = pytest.importorskip("nbformat", reason="of the dependency group `docs`")
    nbclient = pytest.importorskip("nbclient", reason="of the dependency group `docs`")
    if chapter == "health_data":
        pytest.importorskip("statsmodels", reason="of the dependency group `docs`")
    dpbo = here / "bin" / "dpbo"  # the command of this very Python, wherever it is installed
    dpbo.parent.mkdir()
    dpbo.write_text(f"#!{sys.executable}\nfrom dpbo.flows.cli import main\nmain()\n")
    dpbo.chmod(0o755)
    monkeypatch.setenv("PATH", f"{dpbo.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PREFECT_HOME", str(here / "prefect"))
    document = nbformat.read(notebooks.FOLDER / f"{chapter}.ipynb", as_version=4)
    nbclient.NotebookClient(document, timeout=600, resources={"metadata": {"path": str(Path(here))}}).execute()
    printed = "".join(
        out.get("text", "")
        for cell in document.cells
        for out in cell.get("outputs", [])
        if out.output_type == "stream"
    )
    assert "differentially private" in printed
    assert "dpbo: " not in printed
