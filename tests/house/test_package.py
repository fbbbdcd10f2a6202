"""The wheel and the sdist: what they ship, and that an environment with nothing of this folder runs the example."""

import ast
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import version
from pathlib import Path

import numpy
import pytest

from dpbo.flows.cli.tune import EXAMPLE
from dpbo_core.study.spec import read_study

ROOT = Path(__file__).parents[2]
DEPENDENCIES = str(Path(numpy.__file__).parents[1])
COMMAND = "from dpbo.flows.cli import main; main()"
BUILD = """
import os, sys, tarfile
from setuptools import build_meta
folder = sys.argv[1]
sdist = build_meta.build_sdist(folder)
with tarfile.open(f"{folder}/{sdist}") as archive:
    archive.extractall(f"{folder}/unpacked", filter="data")
os.chdir(f"{folder}/unpacked/{sdist.removesuffix('.tar.gz')}")
build_meta.build_wheel(folder)  # of the sdist alone, as pip does
"""
EXAMPLE_HERE = str(ROOT / "examples" / "breast_cancer.toml")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The sdist of a copy of the sources, and the wheel made of that sdist alone."""
    folder = tmp_path_factory.mktemp("package")
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if names.returncode:
        pytest.skip("the sources are no git checkout")
    source = folder / "source"
    for name in filter(None, names.stdout.split("\0")):
        if (ROOT / name).is_file() or (ROOT / name).is_symlink():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name, follow_symlinks=False)

    subprocess.run([sys.executable, "-c", BUILD, str(folder)], cwd=source, check=True, capture_output=True)
    (sdist,), (made,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return sdist, made


@pytest.mark.slow
def test_make_wheel_builds_the_same_wheel(built, tmp_path):
    """In a copy of the sources, with the environment that runs these tests."""
    source, venv = tmp_path / "source", sys.prefix
    shutil.copytree(built[0].parent / "source", source, symlinks=True)
    make = ["make", "wheel", f"VENV={venv}", "-o", f"{venv}/.installed"]
    said = subprocess.run(make, cwd=source, check=True, capture_output=True, text=True).stdout
    (wheel,) = (source / "dist").glob("*.whl")
    assert said.strip().endswith(wheel.name)
    assert wheel.name == built[1].name
    assert sorted(zipfile.ZipFile(wheel).namelist()) == sorted(zipfile.ZipFile(built[1]).namelist())


def test_they_ship_the_package_whole_and_no_test(built):
    sdist, wheel = built
    rooms = {"dpbo_core": "dpbo_core", **{room: f"dpbo/{room}" for room in ("tasks", "flows", "features")}}
    wanted = {"dpbo/__init__.py", "dpbo/py.typed"} | {
        f"{installed}/{path.relative_to(ROOT / room).as_posix()}"
        for room, installed in rooms.items()
        for path in (ROOT / room).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {"dpbo_core/py.typed", "dpbo/flows/cli/breast_cancer.toml"} < wanted
    shipped = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert shipped == wanted
    assert {name.partition("/")[0] for name in shipped} == {"dpbo", "dpbo_core"}
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
    for room in ("dpbo_core", "tasks", "flows", "features"):
        for path in (ROOT / room).rglob("*.py"):
            text = path.read_text()
            if number in text:  # which a comment may have
                texts = (node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant))
                assert number not in texts, path


def test_the_example_in_the_package_is_the_one_of_the_documents():
    assert (ROOT / "examples" / "breast_cancer.toml").read_bytes() == EXAMPLE.read_bytes()
    assert read_study(EXAMPLE).data.source == "breast_cancer"


@pytest.fixture(scope="module")
def environment(built, tmp_path_factory):
    """An environment of its own: dpbo from the wheel alone, and of this one its dependencies only."""
    environment = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    pip = [
        sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python"), "install", "--quiet",
        "--no-compile",
    ]  # fmt: skip
    subprocess.run([*pip, "--no-deps", "--no-index", str(built[1])], check=True, capture_output=True)
    (site,) = environment.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(DEPENDENCIES + "\n")  # a plain path: links inside it are not followed
    return environment


@pytest.fixture
def run(environment, tmp_path):
    """Run a program of the environment in a folder of a team that has `flows` and `tasks` of its own."""
    team = tmp_path / "team"
    for name in ("flows", "tasks", "features"):
        (team / name).mkdir(parents=True)
        (team / name / "__init__.py").write_text("")
        (team / name / "tune.py").write_text("raise AssertionError('a module of the team')")
    mine = {name: os.environ[name] for name in ("PATH", "OMP_NUM_THREADS") if name in os.environ}
    mine |= {"PREFECT_HOME": str(tmp_path / "prefect"), "HOME": str(tmp_path)}

    def run(program, *words):
        command = [environment / "bin" / program, *words]
        done = subprocess.run(command, cwd=team, env=mine, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.mark.slow
def test_a_teams_own_flows_and_tasks_do_not_meet_ours(run, environment):
    """Python itself puts the folder where it runs before everything that is installed."""
    code = (
        "import dpbo, dpbo_core, flows, tasks; from dpbo import tune_privately; "
        "print(tune_privately.name, *(m.__file__ for m in (dpbo, dpbo_core, flows, tasks)), sep='\\n'); "
    )
    name, *lines = run("python", "-c", code + COMMAND, "plan", EXAMPLE_HERE).splitlines()
    assert name == "tune privately"
    assert [Path(place).is_relative_to(environment) for place in lines[:4]] == [True, True, False, False]
    assert "No sensitive record was read and nothing was charged." in " ".join(lines[4:])
    assert "dpbo tune --example" in run("dpbo")
    assert run("dpbo", "--version") == f"dpbo {version('dpbo')}\n"


@pytest.mark.slow
def test_the_wheel_runs_the_example_in_a_teams_folder(run, tmp_path):
    assert run("python", "-c", COMMAND, "plan", EXAMPLE_HERE) == run("dpbo", "plan", EXAMPLE_HERE)
    first = json.loads(run("python", "-c", COMMAND, "tune", "--example", "--json"))
    assert set(first["value"]) == {"hyperparameters", "score", "interval", "metric", "trajectory"}
    assert first["replayed"] is False
    assert list((tmp_path / "team").rglob("trajectory.png"))
    assert "breast-cancer: ε" in run("dpbo", "budget")
