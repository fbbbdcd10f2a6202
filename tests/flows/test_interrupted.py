"""A stopped command says what was charged and what to type next, whichever signal stopped it and whenever."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tomli_w
from test_evaluation import files, of_files

from dpbo.flows.cli import app as cli
from dpbo.flows.cli import running  # noqa: F401  loaded as it is by every command that charges
from dpbo.flows.cli.app import exit_interrupted
from dpbo.flows.stores import Stores
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.study import StudySpec
from dpbo_core.study.query import QueryContext
from dpbo_core.study.run import Run
from dpbo_core.study.tuning import open_study, run_study

ROOT = Path(__file__).parents[2]
WORDS = ["tune", "study.toml"]


@pytest.fixture
def spec(here):
    files(here)
    tables = of_files(budget={"epsilon": 100.0})
    del tables["evaluation"]
    (here / "study.toml").write_text(tomli_w.dumps(tables))
    Stores().make_folder()
    return StudySpec.from_dict(tables)


def test_it_says_what_was_charged_and_how_to_go_on(spec):
    """Before a ledger is there, before the charge, after it, and after the release."""
    assert "nothing was charged for 'clinic'" in exit_interrupted(WORDS).message()
    ledger = PrivacyLedger(Stores().ledger)
    assert "nothing was charged for 'clinic'" in exit_interrupted(WORDS).message()
    open_study(Run.of(spec, QueryContext(ledger)))
    message = exit_interrupted(WORDS).message()
    assert "charged and not released yet: clinic (ε = 1)" in message
    assert "run the same command again: it continues, and pays nothing twice" in message
    run_study(spec, ledger=ledger)
    assert "dpbo show study.toml prints it" in exit_interrupted(WORDS).message()


@pytest.mark.parametrize("words", [["budget"], ["tune", "missing.toml"], ["tune", "broken.toml"], []])
def test_what_cannot_be_looked_up_is_not_said(here, words):
    Path("broken.toml").write_text("[study\n")
    assert exit_interrupted(words).message().startswith("stopped. What to do: run the same command again")
    assert exit_interrupted(words).exit_code == 130


@pytest.mark.parametrize("raised", [KeyboardInterrupt, lambda: SystemExit(130)])
def test_the_command_says_so_and_ends_with_130(spec, monkeypatch, capsys, raised):
    def interrupted(**_):
        raise raised()

    monkeypatch.setattr(cli, "app", interrupted)
    monkeypatch.setattr(sys, "argv", ["dpbo", *WORDS])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 130
    assert "nothing was charged" in capsys.readouterr().err


def heeding():
    """A shell starts what it puts in the background with SIGINT ignored, and these tests with it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


READING = (  # `dpbo budget`, stopped where it begins to read the ledger
    "import time, sys; from dpbo.flows.cli import budget, main\n"
    "budget.own_ledger = lambda: (print('here', flush=True), time.sleep(60))\n"
    "main()"
)
IMPORTING = "from dpbo.flows.cli import main; main()"
NOTHING_YET = "dpbo: stopped; nothing was charged. What to do: run the same command again\n"


@pytest.mark.parametrize(("code", "number", "said"), [
    pytest.param(READING, signal.SIGTERM, "dpbo: stopped", id="reading"),
    pytest.param(IMPORTING, signal.SIGTERM, NOTHING_YET, id="importing"),
    pytest.param(IMPORTING, signal.SIGINT, NOTHING_YET, id="importing, Ctrl-C"),
])  # fmt: skip
def test_a_signal_to_a_real_command_is_answered_in_a_pipe(tmp_path, code, number, said):
    """In a process of its own; while the command is imported too, without a traceback."""
    if code == IMPORTING:
        (tmp_path / "typer.py").write_text("import time\nprint('here', flush=True)\ntime.sleep(60)\n")
    around = os.environ | {"PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT)))}
    with subprocess.Popen(
        [sys.executable, "-c", code, "budget"], cwd=tmp_path,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=around, preexec_fn=heeding,
    ) as process:  # fmt: skip
        assert process.stdout.readline() == "here\n"
        time.sleep(0.1)
        process.send_signal(number)
        _, message = process.communicate(timeout=60)
    assert process.returncode == 130
    assert message.startswith(said)
