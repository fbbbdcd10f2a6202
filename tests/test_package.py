"""The wheel and the sdist: what they ship, and that an environment with nothing of this folder runs the example."""

import ast
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from dpbo.flows.cli.commands import EXAMPLE
from dpbo_core.study.study_file import read_study

ROOT = Path(__file__).parent.parent
DEPENDENCIES = sysconfig.get_path("purelib")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The sdist of a copy of the sources, and the wheel made of that sdist alone."""
    folder = tmp_path_factory.mktemp("package")
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if names.returncode:
        pytest.skip("the sources are no git checkout")
    source = folder / "source"
    for name in filter(None, names.stdout.split("\0")):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name)
    make = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    subprocess.run([sys.executable, "-c", make, str(folder)], cwd=source, check=True, capture_output=True)
    (sdist,) = folder.glob("*.tar.gz")
    wheel = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*wheel, "--wheel-dir", str(folder), str(sdist)], check=True, capture_output=True)
    (made,) = folder.glob("*.whl")
    return sdist, made


def test_they_ship_the_package_whole_and_no_test(built):
    sdist, wheel = built
    wanted = {
        str(path.relative_to(ROOT))
        for room in ("dpbo_core", "tasks", "flows")
        for path in (ROOT / room).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {"dpbo_core/py.typed", "flows/cli/breast_cancer.toml"} < wanted
    shipped = set(zipfile.ZipFile(wheel).namelist())
    assert {name for name in shipped if ".dist-info/" not in name} == wanted
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert wanted < names
    assert not {name for name in names if name.startswith(("tests", "benchmarks"))}


def test_the_version_is_in_one_place():
    (stated,) = (line for line in (ROOT / "pyproject.toml").read_text().splitlines() if line.startswith("version"))
    number = tomllib.loads(stated)["version"]
    assert version("dpbo") == number
    assert f"## {number}" in (ROOT / "CHANGELOG.md").read_text()  # documents say what they are about, code asks
    assert f"version: {number}\n" in (ROOT / "CITATION.cff").read_text()
    for room in ("dpbo_core", "tasks", "flows"):
        for path in (ROOT / room).rglob("*.py"):
            texts = (n.value for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Constant))
            assert number not in texts, path


def test_the_example_in_the_package_is_the_one_of_the_documents():
    assert (ROOT / "examples" / "breast_cancer.toml").read_bytes() == EXAMPLE.read_bytes()
    assert read_study(EXAMPLE).data.source == "breast_cancer"


@pytest.mark.slow
def test_the_wheel_runs_the_example_in_an_empty_folder(built, tmp_path):
    """An environment of its own: dpbo from the wheel alone, and of this one its dependencies only."""
    _, wheel = built
    environment, empty = tmp_path / "environment", tmp_path / "empty"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    python = environment / "bin" / "python"
    install = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
    ]
    subprocess.run([*install, str(wheel)], check=True, capture_output=True)
    (site,) = environment.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(DEPENDENCIES + "\n")  # a plain path: links inside it are not followed
    empty.mkdir()
    mine = {name: os.environ[name] for name in ("PATH", "OMP_NUM_THREADS") if name in os.environ}
    mine |= {"PREFECT_HOME": str(tmp_path / "prefect"), "HOME": str(tmp_path)}

    def dpbo(*words):
        run = subprocess.run(
            [environment / "bin" / "dpbo", *words], cwd=empty, env=mine, capture_output=True, text=True
        )
        assert run.returncode == 0, run.stderr
        return run.stdout

    where = subprocess.run(
        [python, "-c", "import dpbo_core; print(dpbo_core.__file__)"],
        cwd=empty,
        env=mine,
        capture_output=True,
        text=True,
    )
    assert Path(where.stdout.strip()).is_relative_to(site)
    assert "dpbo tune --example" in dpbo()
    first = json.loads(dpbo("tune", "--example", "--json"))
    assert set(first["value"]) == {"hyperparameters", "score", "interval", "trajectory"}
    assert first["replayed"] is False
    assert list(empty.rglob("trajectory.png"))
    assert "breast-cancer: ε" in dpbo("budget")
