"""The README cannot rot: its transcripts, its Python and its study file are run."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from dpbo_core.methods import EXCHANGES, METHODS
from dpbo_core.study import StudySpec, plan_study

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
FENCE = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
TRANSCRIPTS = [body for kind, body in FENCE.findall(README) if kind == "console"]


def masked(text: str) -> str:
    """A transcript without what differs from run to run: digits, the little plot, and how lines were broken."""
    text = re.sub(r"\(the noise took it out of its\s+range\)", "", text)
    text = re.sub(r"[▁▂▃▄▅▆▇█]+", "▁", text)
    text = re.sub(r"run [0-9a-f]{8}", "run #", text)
    text = re.sub(r"\d[\d.]*(e[+-]?\d+)?", "#", text)
    return " ".join(text.split())


def command(words: list[str], folder: Path) -> str:
    environment = os.environ | {"PREFECT_HOME": str(folder / "prefect"), "COLUMNS": "80"}
    for name in ("DPBO_LEDGER_URL", "MLFLOW_TRACKING_URI"):
        environment.pop(name, None)
    dpbo = Path(sys.executable).parent / "dpbo"
    run = subprocess.run([dpbo, *words[1:]], cwd=folder, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.fixture
def copy(tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    return tmp_path


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda text: text.split("\n")[0])
def test_a_transcript_is_what_the_command_prints(transcript, copy):
    first, _, printed = transcript.partition("\n")
    out = command(first.removeprefix("$ ").split(), copy)
    if " plan " in first:  # nothing random: word for word
        assert " ".join(out.split()) == " ".join(printed.split())
    assert masked(out) == masked(printed)


def test_the_python_example_runs(copy, monkeypatch, capsys):
    (example,) = (body for kind, body in FENCE.findall(README) if kind == "python")
    monkeypatch.chdir(copy)
    exec(compile(example, "README.md", "exec"), {})
    assert "differentially private" in capsys.readouterr().out


def test_the_study_of_the_readme_can_be_planned():
    (example,) = (body for kind, body in FENCE.findall(README) if kind == "toml")
    assert plan_study(StudySpec.from_dict(tomllib.loads(example))).guarantee.epsilon == 1.0


def test_every_link_leads_somewhere():
    for page in (
        ROOT / "README.md",
        ROOT / "docs" / "README.md",
        ROOT / "docs" / "teams.md",
        ROOT / "CONTRIBUTING.md",
    ):
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert (page.parent / target).exists(), target


def test_the_threat_model_has_a_section_for_every_method_and_exchange():
    text = (ROOT / "docs" / "threat_model.md").read_text()
    sections = [line.removeprefix("### ").strip("`") for line in text.splitlines() if line.startswith("### ")]
    assert sorted(sections) == sorted({*METHODS, *EXCHANGES})
    for told in (
        "dpbo serve",
        "PrivateSearch",
        "Dask",
        "final model",
        "dashboard viewer",
        "orchestrator",
        "curator",
    ):
        assert told in text
