"""What its own plan calls useless is charged only where the study, or somebody at a terminal, says anyway."""

import io
import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest
import tomli_w
from of_features import merged, parts
from test_evaluate_flow import run  # noqa: F401  a fixture
from test_evaluation import files, of_files

from dpbo.flows.private_flow import consent
from dpbo.flows.serve import Schedule, serve
from dpbo.flows.stores import Stores
from dpbo_core.errors import SpendUseless
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.sources import file_source
from dpbo_core.report.evaluation import OpenEvaluation, open_evaluation
from dpbo_core.study import StudySpec
from dpbo_core.study.query import IfUseless, QueryContext
from dpbo_core.study.run import Run
from dpbo_core.study.tuning import open_study, run_study

GOOD, BAD = 5.0, 0.001
NO_SERVER = Schedule("0 2 * * *", None, 1, trust=False)


def tables(epsilon, anyway=None):
    """A study, its evaluation and what features ask of it; an ε of 0.001 is worth nothing at 300 records."""
    of = of_files(budget={"epsilon": 100.0, "delta": 1e-5})
    of["privacy"] |= {"epsilon": epsilon, "delta": 1e-6}
    of["study"]["edition"] = f"of {epsilon}"
    del of["privacy"]["anyway"]
    if anyway is not None:
        of["privacy"]["anyway"] = anyway
    return of | {"evaluation": {"epsilon": BAD}} | merged("USELESS_SECTIONS")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder of the files and their ledger, with two studies that are released."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        files(folder)
        Stores().make_folder()
        for name in ("good", "clinic"):
            study = tables(GOOD) | {"study": {"name": name, "method": "private_grid", "edition": f"of {GOOD}"}}
            run_study(StudySpec.from_dict(study), ledger=book())
    return folder


@pytest.fixture
def spec(here, made):
    """A study by its ε and whether it says anyway, in a copy of that folder."""
    shutil.copytree(made, here, dirs_exist_ok=True)
    book().allow("clinic", file_source("validation.csv"))

    def named(epsilon, anyway=None):
        (here / "study.toml").write_text(tomli_w.dumps(tables(epsilon, anyway)))
        return StudySpec.from_dict(tables(epsilon, anyway))

    return named


def book():
    return PrivacyLedger(Stores().ledger)


def charges(dataset="clinic"):
    return sum(len(account.entries) for account in book().accounts(dataset))


def by_tune(spec, asked):
    open_study(Run.of(spec, asked))


def by_evaluation(spec, asked):
    opened = open_evaluation(Run.of(spec, asked))
    if isinstance(opened, OpenEvaluation):
        opened.finish(asked)


SPENDS = {by_tune: BAD, by_evaluation: GOOD}
SPENDS |= {spend: BAD if untuned else GOOD for spend, untuned in merged("SPENDS").items()}


@pytest.mark.parametrize(("spend", "epsilon"), SPENDS.items(), ids=[spend.__name__[3:] for spend in SPENDS])
def test_what_its_plan_calls_useless_is_charged_only_where_somebody_says_anyway(spec, spend, epsilon):
    before, study = charges(), spec(epsilon)
    with pytest.raises(SpendUseless, match="--anyway") as refused:
        spend(study, QueryContext(book(), if_useless=IfUseless.REFUSE))
    assert refused.value.exit_code == 3
    assert charges() == before
    spend(study, QueryContext(book(), if_useless=IfUseless.SPEND))
    assert charges() == before + 1
    spend(study, QueryContext(book(), if_useless=IfUseless.REFUSE))  # the same query, charged before: it goes on
    assert charges() == before + 1


def test_a_study_that_says_anyway_is_asked_nothing_and_no_other_is_spent_without_a_person(spec):
    assert consent(spec(BAD, anyway=True), "noise", may_ask=False) is IfUseless.SPEND
    assert consent(spec(BAD), "", may_ask=True) is IfUseless.REFUSE  # what is found later is refused
    for may_ask in (True, False):
        with pytest.raises(SpendUseless, match="noise"):
            consent(spec(BAD), "noise", may_ask=may_ask)


@pytest.mark.parametrize(("answer", "agreed"), [("y\n", True), ("n\n", False), ("\n", False), ("", False)])
def test_a_terminal_is_asked(spec, monkeypatch, answer, agreed):
    said = io.StringIO()
    for name, stream in (("stdin", io.StringIO(answer)), ("stderr", said)):
        stream.isatty = lambda: True
        monkeypatch.setattr(f"sys.{name}", stream)
    asked = Run.of(spec(BAD), QueryContext(book()))
    with nullcontext() if agreed else pytest.raises(SpendUseless):
        assert consent(asked.spec, asked.useless, may_ask=True) is IfUseless.SPEND
    assert "would be noise" in said.getvalue()
    assert said.getvalue().endswith("Spend it anyway? [y/N] ")


def test_a_notebooks_command_is_asked_nothing(here, dpbo, monkeypatch):
    """A kernel's `!` gives a command a terminal on which nobody can answer: a question would wait without end."""
    monkeypatch.setenv("DPBO_PREFECT", "off")
    monkeypatch.setenv("JPY_PARENT_PID", "1")
    stdin = io.StringIO("n\n")
    stdin.isatty = lambda: True
    monkeypatch.setattr("sys.stdin", stdin)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    Path("t.toml").write_text(BUNDLED)
    code, _, err = dpbo("tune", "t.toml")
    assert (code, "Spend ε" in err, charges("d")) == (0, False, 1)


BUNDLED = """
[study]
name = "t"
method = "private_grid"
[privacy]
dataset = "d"
epsilon = 1.0
[budget]
epsilon = 3.0
delta = 0.0
[data]
source = "breast_cancer"
validation_share = 0.5
[model]
estimator = "logistic"
score = "accuracy"
[space]
lambda = { low = 0.01, high = 1.0, log = true, points = 2 }
"""


def test_a_terminal_is_asked_before_a_first_charge_and_a_changed_study_is_refused(here, dpbo, monkeypatch):
    monkeypatch.setenv("DPBO_PREFECT", "off")
    Path("t.toml").write_text(BUNDLED)
    stdin = io.StringIO("n\n")
    stdin.isatty = lambda: True
    monkeypatch.setattr("sys.stdin", stdin)
    monkeypatch.setattr("dpbo.flows.private_flow._at_a_terminal", lambda: True)
    code, out, err = dpbo("tune", "t.toml")
    assert (code, out, charges("d")) == (1, "", 0)
    assert "Spend ε = 1 of the 3 left on d? [y/N] " in err
    for words, charged in ((["--json"], 1), ([], 1), (["--yes"], 1)):  # the second and third time it is a replay
        code, _, err = dpbo("tune", "t.toml", *words)
        assert (code, "Spend ε" in err, charges("d")) == (0, False, charged)
    Path("t.toml").write_text(f"{BUNDLED}\n[evaluation]\nepsilon = 1.5\n")
    stdin.seek(0)
    code, out, err = dpbo("tune", "t.toml")
    assert (code, out, charges("d")) == (1, "", 1)
    assert "Spend ε = 1.5: 1.5 (report) of the 2 left on d? [y/N] " in err
    Path("t.toml").write_text(BUNDLED.replace("points = 2", "points = 3"))
    code, out, err = dpbo("tune", "t.toml", "--yes")
    assert (code, out, charges("d")) == (3, "", 1)
    assert "already released, with space.lambda = " in err
    assert dpbo("plan", "t.toml")[0] == 3
    assert dpbo("tune", "t.toml", "--yes", "--new-spend")[0] == 0
    assert charges("d") == 2


def test_the_command_refuses_and_a_schedule_refuses_to_begin(spec, here, run):  # noqa: F811
    before = charges()
    spec(BAD)
    code, out, err = run("tune", "study.toml")
    assert (code, out) == (3, "")
    assert err.removeprefix("study.toml: reading the study\n").count("\n") == 1
    assert "Usual cause: " in err
    assert "--anyway" in err
    with pytest.raises(SpendUseless):
        serve(here / "study.toml", NO_SERVER, register=False)
    spec(GOOD)
    for served in parts("serve"):
        with pytest.raises(SpendUseless):
            served(here / "study.toml", NO_SERVER)
    assert charges() == before


def test_a_caller_from_python_is_warned(spec):
    with pytest.warns(UserWarning, match="would be noise"):
        by_tune(spec(BAD), QueryContext(book()))
