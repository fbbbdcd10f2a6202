"""The command: its JSON, its exit codes, one line on standard error, and nothing charged on refusal."""

import json
import math
import re
import tomllib
from pathlib import Path

import pytest
import tomli_w
import typer

from dpbo.flows.cli.app import ALL_COMMANDS, FEATURE_COMMANDS, OWN_COMMANDS, RESULT_COMMANDS, group_of_one
from dpbo.flows.cli.release_screen import print_next
from dpbo.flows.cli.tune import print_tuned, tuned_json
from dpbo.flows.private_flow import Tuned, asked_by
from dpbo.flows.stores import Stores
from dpbo.flows.terminal import print_json
from dpbo.tasks.reporting.mlflow_store import Tracked
from dpbo.tasks.reporting.release_document import next_step
from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.methods import EXCHANGES, METHODS
from dpbo_core.privacy.named_parts import load
from dpbo_core.study import StudySpec
from dpbo_core.study.tuning import run_study


@pytest.fixture
def study(here, tables):
    def write(**changes):
        for where, value in changes.items():
            table, _, key = where.partition("__")
            tables.setdefault(table, {})[key] = value
        path = here / "study.toml"
        path.write_text(tomli_w.dumps(tables))
        return path

    return write


def test_plan_prices_every_method(dpbo, study):
    code, out, err = dpbo("plan", study(), "--json")
    document = json.loads(out)
    assert (code, err) == (0, "")
    assert {line["kind"] for line in document["methods"]} == {*METHODS, *EXCHANGES}
    assert document["recommended"] in METHODS
    for line in document["methods"]:
        assert set(line) == {
            "kind", "epsilon", "delta", "noise_scale", "score_range", "expected_error", "expected_regret",
            "options", "expected_regret_range", "trainings", "assumptions", "evidence", "verdict", "why",
        }  # fmt: skip
        assert line["verdict"] in ("good", "poor", "useless", "refused")
    assert not Path("mlruns").exists()


def test_plan_says_what_is_useless_and_what_to_use(dpbo, study):
    printed = dpbo("plan", study())[1]  # and no such word until it is asked for detail
    assert [word for word in ("regret", "useless", "noisy_gp", "Theorem", "2.5e+04") if word in printed] == []
    file = study(study__method="lipschitz", method__evaluate="path")
    code, out, _ = dpbo("plan", file)
    assert code == 0
    words = " ".join(out.split())
    assert "lipschitz: its answer would be mostly noise" in words
    assert 'is recommended: write method = "private_' in words
    assert len(out.split("\n\n")[0].splitlines()) <= 7  # two lines of title, then five
    code, out, _ = dpbo("plan", file, "--all")
    assert code == 0
    assert re.search(r"^ lipschitz +useless ", out, re.MULTILINE)
    assert "2.5e+04" in " ".join(out.split())


def test_a_study_that_is_asked_for_a_score_alone_is_told_of_its_own_first(dpbo, study):
    """`lipschitz` chooses nothing: what chooses is one line below, and "Next:" runs what is spoken of first."""
    path = study(study__method="lipschitz")
    code, out, _ = dpbo("plan", path)
    first = " ".join(out.split()).partition("study lipschitz: reported score ±0.004 (score from 0 to 1) price")
    assert (code, "reported" in first[0]) == (0, False)
    assert " instead private_grid, if you need a choice: " in first[2]
    assert "lipschitz releases one score and no hyperparameters, as the study asks." in first[2]
    assert "is recommended" not in out
    assert f"Next: dpbo tune {path}" in out.replace("\n", " ")
    own = json.loads(dpbo("plan", study(study__method="lipschitz"), "--json")[1])
    assert own["recommended"] == "private_grid"  # of the kinds that choose


def test_no_error_is_expected_above_the_range_of_the_score(dpbo, study):
    for method in ("lipschitz", "noisy_gp"):
        path = study(study__method=method, privacy__epsilon=0.05, method__calibration="corrected")
        for line in json.loads(dpbo("plan", path, "--json")[1])["methods"]:
            assert line["expected_error"] is None or line["expected_error"] <= line["score_range"]
    code, _, err = dpbo("tune", study(study__method="lipschitz", method__evaluate="path", privacy__anyway=False))
    assert code == 3
    assert 'evaluate = "all" would err by 0.07' in err  # what to ask for in its place


def test_a_plan_without_room_says_what_is_left_and_exits_as_tune_does(dpbo, study):
    """By its own [budget] before a ledger is there, then by the account; exactly what is left fits."""
    path = study(study__method="private_grid", privacy__delta=0.0, privacy__epsilon=3.5)
    code, out, err = dpbo("plan", path)
    words = " ".join(out.split())
    assert (code, err, Path("mlruns").exists()) == (3, "", False)
    assert "does not fit" in words
    assert "spent ε = 0; ε = 3 is left; this study asks for ε = 3.5" in words
    assert "lower epsilon in [privacy] or [evaluation], or raise [budget]" in words
    code, out, err = dpbo("tune", path)
    assert (code, out) == (3, "")
    assert "spent ε = 0; ε = 3 is left; this study asks for ε = 3.5" in err
    first = study(privacy__epsilon=2.0)
    run_study(StudySpec.from_dict(tomllib.loads(first.read_text())), ledger=PrivacyLedger(Stores().ledger))
    assert dpbo("plan", first)[0] == 0  # it was paid for
    for epsilon, report, expected in ((1.0, None, 0), (1.1, None, 3), (0.6, 0.4, 0), (0.6, 0.5, 3)):
        evaluation = {} if report is None else {"evaluation__epsilon": report}
        code, out, _ = dpbo("plan", study(study__edition="2", privacy__epsilon=epsilon, **evaluation), "--json")
        assert (code, "ε = 1 is left" in json.loads(out).get("refused", "")) == (expected, expected == 3)


def test_a_plan_that_is_not_good_names_the_smallest_epsilon_that_is(dpbo, study):
    """To two digits, of the study and of its report; or that none up to what is left is."""

    def planned(**changes):
        return json.loads(dpbo("plan", study(**changes), "--json")[1])

    poor = planned(study__method="auto", privacy__epsilon=0.05, evaluation__epsilon=0.05, budget__epsilon=90.0)
    of_study, of_report = (
        float(one["enough"].removeprefix("good from ε = ")) for one in (poor, poor["evaluation"])
    )
    good = planned(privacy__epsilon=of_study, evaluation__epsilon=of_report)
    assert not {"enough"} & {*good, *good["evaluation"]}
    assert good["evaluation"]["verdict"] == "good"
    less = planned(privacy__epsilon=below(of_study), evaluation__epsilon=below(of_report))
    assert [one["enough"] for one in (less, less["evaluation"])] == [poor["enough"], poor["evaluation"]["enough"]]
    tight = planned(privacy__epsilon=0.05, evaluation__epsilon=0.05, budget__epsilon=0.1)
    assert tight["enough"] == tight["evaluation"]["enough"] == "no ε up to 0.1 is enough"


def below(epsilon):
    """The next smaller number of two digits."""
    return float(f"{epsilon * (1 - 1e-9) - 0.5 * 10 ** (math.floor(math.log10(epsilon)) - 1):.2g}")


def test_plan_shows_a_refused_calibration(dpbo, study):
    narrow = {"low": 5.0, "high": 8.0, "points": 4}
    path = study(study__method="lipschitz", method__calibration="published", space__lambda=narrow)
    code, out, _ = dpbo("plan", path, "--json")
    (line,) = (line for line in json.loads(out)["methods"] if line["kind"] == "lipschitz")
    assert (code, line["verdict"], line["evidence"], line["epsilon"]) == (3, "refused", "refuted", None)
    assert "known to be false" in json.loads(out)["refused"]


def test_budget_set_show_and_refuse(dpbo):
    assert dpbo("budget")[0] == 0
    assert dpbo("budget", "set", "people", "--epsilon", 5, "--delta", 1e-5)[0] == 0
    assert dpbo("budget", "set", "people", "--epsilon", 5, "--delta", 1e-5)[0] == 0
    code, _, err = dpbo("budget", "set", "people", "--epsilon", 6)
    assert (code, "never change" in err) == (2, True)
    assert dpbo("budget", "set", "open", "--public")[0] == 0
    accounts = PrivacyLedger(Stores().ledger).accounts()
    assert [account.cap_set_by for account in accounts] == 2 * [asked_by()]
    public, people = json.loads(dpbo("budget", "--json")[1])["datasets"]
    assert (public["name"], public["public"], people["name"]) == ("open", True, "people")
    assert people["limit"] == {"epsilon": 5.0, "delta": 1e-5}
    assert people["spent"] == {"epsilon": 0.0, "delta": 0.0}
    assert people["remaining"] == {"epsilon": 5.0}
    assert json.loads(dpbo("budget", "people", "--json")[1])["datasets"][0]["entries"] == []
    code, _, err = dpbo("budget", "peple")
    assert (code, "did you mean 'people'" in err) == (2, True)


CAPS = ("d --epsilon 0", "d --epsilon nan", "d --epsilon 1 --delta 1", "d", "d --epsilon 1 --relation replace_on",
        "d --epsilon 1 --accept gp_prio", "d --epsilon 1 --public", "export --epsilon 1")  # fmt: skip


def test_impossible_caps_are_messages(dpbo):
    for words in CAPS:
        code, out, err = dpbo("budget", "set", *words.split())
        assert (code, out) == (2, ""), words
        assert err.startswith("dpbo: ")
        assert err.count("\n") == 1
    assert json.loads(dpbo("budget", "--json")[1]) == {"datasets": []}


def test_a_missing_study_is_one_line(dpbo):
    """And a trace with --debug alone."""
    code, out, err = dpbo("plan", "nothing.toml")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "nothing.toml" in err
    assert "What to do" in err
    assert "Traceback" in dpbo("plan", "nothing.toml", "--debug")[2]


def test_what_is_unexpected_is_one_line_too(dpbo, study, monkeypatch):
    monkeypatch.setattr("dpbo.flows.cli.plan.read_study", lambda _: 1 / 0)
    code, _, err = dpbo("plan", study())
    assert code == 1
    assert "ZeroDivisionError" in err
    assert "division by zero" not in err


def test_the_release_prints_and_serialises(here, tables, capsys):
    """The screens of a release, without Prefect: every key of the documented JSON, no NaN."""
    book = PrivacyLedger(f"sqlite:///{here / 'ledger.db'}")
    for kind, keys in {
        "private_trajectory": {"hyperparameters", "score", "metric", "interval", "trajectory"},
        "private_grid": {"hyperparameters", "lead", "score", "metric", "interval"},
        "lipschitz": {"score", "metric", "interval"},
    }.items():
        tables["study"]["method"], tables["budget"]["epsilon"] = kind, 30.0
        spec = StudySpec.from_dict(tables)
        result = run_study(spec, ledger=book)
        tuned = Tuned(result, Tracked("people", "0123456789", model_uri="models:/a trial/3"))
        document = tuned_json(tuned)
        assert (set(document["value"]), document["method"], document["replayed"]) == (keys, kind, False)
        assert document["tracking"] == {"experiment": "people", "run_id": "0123456789"}
        assert {"epsilon", "delta", "unit", "relation", "assumptions", "evidence"} <= set(document["guarantee"])
        assert document["guarantee"]["assumptions"] == []
        for spend in document["spends"]:
            assert {"what", "mechanism", "epsilon", "delta", "sensitivity", "noise_scale"} <= set(spend)
            assert spend["noise_scale"] > 0
        json.dumps(document, allow_nan=False)
        document, _ = print_tuned(tuned, book.accounts("people")[0])
        out = capsys.readouterr().out
        printed = " ".join(out.split())
        assert out.endswith(
            "Registered in MLflow: a trial, version 3. To serve it, from this folder:\n  MLFLOW_TRACKING_URI=sqlite"
            ":///mlruns/mlflow.db mlflow models serve --env-manager local --port 5001 -m 'models:/a trial/3'\n"
        )
        print_next(document)
        assert " ".join(capsys.readouterr().out.split()) == f"Next: {next_step(result.release)}."
        assert "hyperparameters" in result.release.value or "dpbo evaluate" not in next_step(result.release)
        assert f"{min(max(result.release.value['score'], 0.0), 1.0):.4f}" in printed
        assert "differentially private" in printed
        assert "dpbo ui" in printed
    assert PrivacyBudget.of("people", epsilon=30.0, delta=1e-5) == book.budget("people")


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_no_document_holds_what_json_has_no_number_for(number, capsys):
    with pytest.raises(ValueError, match="JSON compliant"):
        print_json({"value": {"score": number}})
    assert capsys.readouterr().out == ""


def test_help_names_the_commands_of_a_first_project_in_their_order_and_the_rest_apart(dpbo):
    first, rest = dpbo("--help")[1].split("Commands:")[1].split("Also:")
    names = re.compile(r"^  (\w+)  +\S", re.M)
    assert names.findall(first) == [
        *("init", "plan", "tune", "evaluate", "serve", "predict", "show", "report", "budget", "ui")
    ]
    assert [*names.findall(first), *names.findall(rest)] == [*OWN_COMMANDS, *FEATURE_COMMANDS]
    assert "..." not in first + rest  # no line is cut


OPTIONS_OF_ALL = ("--help", "--json", "--debug", "--plain")
MAX_COMMANDS, MAX_OPTIONS = 15, 90


def options_of(command):
    """The options of a command, or of all commands of a group, beside those of every command."""
    members = getattr(command, "commands", {}).values()
    own = [item for item in command.params if item.param_type_name == "option"] if not members else []
    return sum(map(options_of, members)) + sum(not {*item.opts} & {*OPTIONS_OF_ALL} for item in own)


@pytest.mark.parametrize("words", [("tune", "s.toml", "--nope"), ("plan", "s.toml", "--yes"),
    ("tune", "s.toml", "t.toml"), ("evaluate", "s.toml", "--epsilno", "1"),
    ("serve", "s.toml", "--evry=1d")])  # fmt: skip
def test_a_usage_error_comes_before_anything_is_read(here, dpbo, words):
    Path("s.toml").write_text("this is no study")
    code, out, err = dpbo(*words)
    assert (code, out, err.startswith("Usage: ")) == (2, "", True)
    assert "no study" not in err


def test_commands_and_options_are_few():
    homes = [load(home) for home, _ in ALL_COMMANDS.values()]
    commands = [
        typer.main.get_command(it if isinstance(it, typer.Typer) else group_of_one("it", it)) for it in homes
    ]
    assert len(commands) <= MAX_COMMANDS
    assert len(OPTIONS_OF_ALL) + sum(map(options_of, commands)) <= MAX_OPTIONS


def test_every_command_lists_the_common_options_and_json_only_where_its_result_is_an_object(dpbo):
    groups = {"budget": ["set"], "curate": ["publish"], "model": ["suggest"]}
    for verb in ALL_COMMANDS:
        listed = set(re.findall(r"^ +(--[a-z-]+)", dpbo(verb, *groups.get(verb, []), "--help")[1], re.M))
        assert listed >= {"--debug", "--plain"}, verb
        assert ("--json" in listed) is (verb in RESULT_COMMANDS), verb
