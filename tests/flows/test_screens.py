"""The screens: 80 columns, colours where they are wanted, and words alone for whoever listens."""

import copy
import io
import re
import sys
from dataclasses import replace

import pytest
from conftest import STUDY
from rich.console import Console

from dpbo.flows import terminal
from dpbo.flows.cli.app import COMMANDS, print_first, sort_plain_first
from dpbo.flows.cli.budget import account_json, print_accounts
from dpbo.flows.cli.doctor import Finding, print_findings
from dpbo.flows.cli.evaluate import print_expected
from dpbo.flows.cli.plan import COLUMN_NAMES, print_advice, print_every_method
from dpbo.flows.cli.release_screen import document_of, print_document, print_report
from dpbo.flows.cli.tune import print_tuned
from dpbo.flows.private_flow import Tuned
from dpbo.flows.run_end import announce
from dpbo.flows.terminal import Progress, print_message
from dpbo.tasks.reporting.document import Fact
from dpbo.tasks.reporting.document import interval as interval_in_words
from dpbo.tasks.reporting.mlflow_run import run_note
from dpbo.tasks.reporting.mlflow_store import Tracked
from dpbo.tasks.reporting.release_document import release_document
from dpbo.tasks.reporting.release_files import page
from dpbo.tasks.reporting.report_document import beside_constant, verdict
from dpbo_core import evaluate_study, plan_evaluation
from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.accounting.account import Account, Entry, PrivacyBudget
from dpbo_core.ledger.accounting.composition import ZERO_TOTAL
from dpbo_core.ledger.charge import Charge, QueryKey
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.methods import EXCHANGES, METHODS
from dpbo_core.privacy.guarantee import (
    OPERATING_SYSTEM,
    Evidence,
    NeighboringRelation,
    PrivacyGuarantee,
    PrivacyUnit,
    Standing,
)
from dpbo_core.privacy.release import PrivacyPlan, Release, Spend, StudyResult
from dpbo_core.study import StudySpec
from dpbo_core.study.resolve import advise_study, resolve
from dpbo_core.study.tuning import run_study

SIGNS = re.compile("[\u2190-\u27bf\u0370-\u03ff\x1b]")  # arrows, boxes, blocks, marks, Greek, terminal codes
FIRST_COLUMNS = {"study", "figure", "method"}
COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-7]m")


pytestmark = pytest.mark.filterwarnings("ignore:this report will not be usable")


@pytest.fixture(scope="module")
def makers(tmp_path_factory):
    """What prints each screen of a released study; nothing of it changes the ledger."""
    tables = copy.deepcopy(STUDY)
    tables["study"]["name"] = "[red]trial[/]"
    book = PrivacyLedger(f"sqlite:///{tmp_path_factory.mktemp('screens') / 'ledger.db'}")
    spec = StudySpec.from_dict(tables)
    tuned = Tuned(run_study(spec, ledger=book), Tracked("people", "0123456789"))
    evaluated = evaluate_study(spec, ledger=book, epsilon=0.7)
    plan = plan_evaluation(spec, ledger=book, epsilon=0.7)
    book.set_budget(PrivacyBudget.without_limit("open"))
    book.set_budget(PrivacyBudget.of("new", epsilon=1.0, delta=0.0))
    found = (Finding("disk", "fine", "[/] 5 GB"), Finding("ledger", "wrong", "damaged", "run it"))
    account, accounts, advice = book.accounts("people")[0], book.accounts(), advise_study(spec)
    return {
        "first": print_first,
        "tuned": lambda: print_tuned(tuned, account),
        "evaluated": lambda: print_report(evaluated, None, account),
        "expected": lambda: print_expected(plan),
        "advice": lambda: print_advice(spec, advice),
        "every method": lambda: print_every_method(spec, advice),
        "accounts": lambda: print_accounts(accounts),
        "no accounts": lambda: print_accounts(()),
        "findings": lambda: print_findings(found),
    }


@pytest.fixture
def screens(here, makers, capsys, monkeypatch):
    """Every screen of a released study, printed: name → text."""

    def printed(**environment):
        for name in ("NO_COLOR", "FORCE_COLOR", "DPBO_PLAIN", "COLUMNS"):
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        return {name: (make(), capsys.readouterr().out)[1] for name, make in makers.items()}

    return printed


def test_no_line_is_longer_than_80_or_the_terminal_nor_ends_in_blanks(screens):
    for around in (
        {"COLUMNS": "40"},
        {"COLUMNS": "60"},
        {"COLUMNS": "80"},
        {"COLUMNS": "200"},
        {"FORCE_COLOR": "1"},
    ):
        for name, text in screens(**around).items():
            lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in text.splitlines()]
            assert max(map(len, lines)) <= min(80, int(around.get("COLUMNS", 80))), name
            assert not [line for line in lines if line != line.rstrip()], name


def test_a_narrow_terminal_loses_no_word(screens):
    """A table that has no room is told row by row; what is indented stays so on its next line."""
    narrow = screens(COLUMNS="40")
    for name, text in screens(COLUMNS="80").items():
        missing = set(re.findall(r"[\w.]+", text)) - set(re.findall(r"[\w.]+", narrow[name])) - FIRST_COLUMNS
        assert not missing, (name, missing)
        assert "…" not in narrow[name].replace(" … ", "").replace(" …\n", ""), name
        if name in ("tuned", "evaluated"):  # where there is a report, it says whether a constant answer would do
            verdicts = " ".join(text.split()).count("than always giving the same answer")
            assert verdicts == (name == "evaluated")
    rows = narrow["every method"].splitlines()
    place = rows.index(" private_grid")
    assert rows[place + 1].startswith("   verdict good; ε 1; δ 0; noise ")
    assert all(line.startswith("   ") for line in rows[place + 1 : place + 3])


def test_the_noise_of_each_mechanism_is_said(here, tables, capsys):
    tables["study"]["method"] = "private_grid"
    tables.pop("method", None)
    book = PrivacyLedger(f"sqlite:///{here / 'ledger.db'}")
    result = run_study(StudySpec.from_dict(tables), ledger=book)
    print_tuned(Tuned(result, Tracked("people", "0123456789")), book.accounts("people")[0])
    choice, score = (f"{spend.noise_scale:.3g}" for spend in result.release.spends)
    said = " ".join(capsys.readouterr().out.split())
    assert (
        f"2 draws; noisy maximum with its lead, scale {choice}; discrete Laplace, scale {score} on a score" in said
    )


def test_a_plan_whose_every_method_is_useless_says_so(tables, capsys):
    """Three records: a recommendation alone would read as if one of them were worth its price."""
    for records, said in ((3, True), (100_000, False)):
        tables["data"] = {"training": "t.csv", "validation": "v.csv", "n_validation": records, "target": "y"}
        spec = StudySpec.from_dict(tables)
        print_advice(spec, advise_study(spec))
        assert ("Nothing here is worth its price" in capsys.readouterr().out) is said


def test_colours_are_for_terminals_alone_and_no_color_is_respected(screens):
    uncoloured = screens()
    assert all("\x1b" not in text for text in uncoloured.values())
    assert r"[red]trial[/]" in uncoloured["tuned"]  # what people chose is shown as it is and does nothing
    coloured = screens(FORCE_COLOR="1")
    assert all(COLOUR.search(coloured[name]) for name in ("every method", "accounts", "findings"))
    assert not any(COLOUR.search(text) for text in screens(FORCE_COLOR="1", NO_COLOR="1").values())


def test_a_plain_screen_is_words_alone(screens):
    plain = screens(DPBO_PLAIN="1", FORCE_COLOR="1")
    assert r"[red]trial[/]" in plain["tuned"]
    for name, text in plain.items():
        assert not SIGNS.search(text), (name, text)
        assert "  " not in text, name  # nothing stands in columns
    rows = [line for line in plain["every method"].splitlines() if ": verdict " in line]
    assert len(rows) == len(METHODS) + len(EXCHANGES)
    spoken = [terminal.spoken(name) for name in COLUMN_NAMES[1:]]
    assert all(all(f"{name} " in row for name in spoken) for row in rows)
    assert "epsilon" in plain["accounts"]
    assert "ledger, wrong: damaged. Run it" in plain["findings"]
    scores = re.search(r"steps: (.*), their private scores", plain["tuned"])[1]
    assert len(scores.split(",")) == 5  # the plot, as its numbers


def test_the_first_screen_names_five_commands_in_the_order_of_use(screens):
    text = screens()["first"]
    places = [text.index(command) for command, _ in COMMANDS]
    assert places == sorted(places)
    assert [command.split()[1] for command, _ in COMMANDS] == ["init", "plan", "tune", "budget", "ui"]


def test_plain_may_stand_anywhere():
    for words, wanted in (
        ("dpbo plan s.toml --plain", "dpbo --plain plan s.toml"),
        ("dpbo --plain budget set --plain", "dpbo --plain budget set"),
        ("dpbo plan -- --plain", "dpbo plan -- --plain"),
        ("dpbo", "dpbo"),
    ):
        assert sort_plain_first(words.split()) == wanted.split()


def test_plain_before_and_after_the_command_are_one_thing_and_any_terminal_can_print(here, dpbo, monkeypatch):
    before, after = dpbo("--plain", "budget"), dpbo("budget", "--plain")
    assert before == after
    assert before[0] == 0
    assert "\x1b" not in before[1]
    (here / "study.toml").write_text(
        '[study]\nname = "é"\nmethod = "auto"\n[privacy]\ndataset = "d"\nepsilon = 1.0\n[data]\n'
        'source = "breast_cancer"\n[model]\nestimator = "logistic"\n[space]\nlambda = {values = [0.1, 1.0]}\n'
    )
    ascii_out, ascii_err = (io.TextIOWrapper(io.BytesIO(), encoding="ascii", write_through=True) for _ in "oe")
    monkeypatch.setattr(sys, "stdout", ascii_out)
    monkeypatch.setattr(sys, "stderr", ascii_err)
    assert dpbo("plan", "study.toml")[0] == 0
    assert b"is recommended" in ascii_out.buffer.getvalue()
    assert ascii_err.buffer.getvalue() == b""
    assert dpbo("budget", "nowhere é")[0] == 2
    assert b"nowhere ?" in ascii_err.buffer.getvalue()


def test_an_error_on_a_terminal_has_three_aligned_parts_and_elsewhere_one_line(capsys, monkeypatch):
    message = StudyInvalid("the [file] is gone", cause="a move " * 20, remedy="look for it")
    monkeypatch.setenv("DPBO_PLAIN", "")
    print_message(message)
    assert capsys.readouterr().err == f"dpbo: {message.message()}\n"
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    print_message(message)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].endswith("the [file] is gone")
    starts = [line.index(word) for line, word in ((lines[1], "a move"), (lines[-1], "look"))]
    assert starts[0] == starts[1]
    assert max(len(re.sub(r"\x1b\[[0-9;]*m", "", line)) for line in lines) <= 80
    monkeypatch.setenv("DPBO_PLAIN", "1")
    print_message(message)
    assert capsys.readouterr().err.count("\n") == 1


def test_progress_is_a_line_where_it_is_listened_to(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("DPBO_PLAIN", "1")
    assert Console(stderr=True).is_terminal
    with Progress("trial", 3) as progress:
        progress.show(None)
    assert capsys.readouterr().err == "3 steps to go.\n"


def test_in_a_pipe_progress_is_a_few_lines_of_public_counts_alone(monkeypatch, capsys):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    for steps, counts in ((3, [0, 1, 2, 3]), (25, [0, 3, 5, 8, 10, 13, 15, 18, 20, 23, 25]), (0, [])):
        with Progress("trial", steps) as progress:
            for step in range(steps):
                progress.show({"step": step, "hyperparameters": {"C": 1.0}, "score": 0.123})
        assert capsys.readouterr().err.splitlines() == [f"trial: {count} of {steps} steps" for count in counts]


def test_the_ends_of_a_narrow_interval_differ_on_the_screen():
    assert interval_in_words((0.73256, 0.73341)) == "0.7326 to 0.7334"
    assert interval_in_words((0.8669, 0.8971)) == "0.867 to 0.897"
    assert interval_in_words((20.001, 20.004)) == "20 to 20"
    assert interval_in_words(None) == "–"


def test_a_score_is_better_than_a_constant_answer_only_where_its_whole_interval_is():
    unclear = "cannot tell whether it is better"
    for interval, if_greater, if_smaller in (
        ((0.7, 0.8), "better", "no better"), ((0.5, 0.6), "no better", None), ((0.5, 0.7), unclear, unclear),
        ((0.5, 0.59), None, "better"),
    ):  # fmt: skip
        for greater, word in ((True, if_greater), (False, if_smaller)):
            told = beside_constant(interval, 0.6, greater_is_better=greater)
            assert word is None or told == f"{word} than always giving the same answer"


SPEND = Spend("score", "discrete noise", 10**12, 0, 10**12, sensitivity=0.01, noise_scale=0.01)
PROOF, OF_RECORDS = Evidence(Standing.STANDARD, ""), PrivacyUnit.VALIDATION_RECORD
GUARANTEE = PrivacyGuarantee(1.0, 0.0, OF_RECORDS, NeighboringRelation.REPLACE_ONE, (), PROOF)
RELEASE = Release({}, GUARANTEE, (SPEND,), "trial", "1", "private_grid", "people")


def figure(value, noise):
    return {"value": value, "noise_interval": [value - noise, value + noise], "sampling_interval": None}


COMPARED = [(0.75, "better"), (0.713, "cannot tell whether it is better"), (0.65, "no better")]


@pytest.mark.parametrize(("accuracy", "word"), COMPARED)
def test_a_report_compares_its_accuracy_with_the_constant_answer_of_its_own_counts(accuracy, word):
    """.287 are positive here, whatever share of the public rows is."""
    metrics = {"auc": figure(0.7, 0.02), "accuracy": figure(accuracy, 0.02), "positive_share": figure(0.287, 0.01)}
    classes = [{"records_share": figure(share, 0.01)} for share in (0.1, 0.713, 0.187)]
    several = {"metrics": {"cohen_kappa": figure(0.3, 0.1), "accuracy": metrics["accuracy"]}, "classes": classes}
    for report, other in (({"metrics": metrics}, "AUC"), (several, "Cohen's kappa")):
        first, numbers = verdict(replace(RELEASE, value=report, facts={"score": "accuracy"}))
        assert first == f"{word} than always giving the same answer"
        said = f": accuracy {accuracy:.3f}, always the same answer 0.713 on the same records, a difference of "
        assert numbers.startswith(said)
        first, numbers = verdict(replace(RELEASE, value=report, facts={"score": "brier"}))
        assert (first, numbers.split()[1]) == ("better than always giving the same answer", other.split()[0])
        assert "accuracy" not in numbers  # one baseline, not two that could disagree


def test_the_score_of_a_choice_has_no_verdict_where_a_report_has_one():
    value, facts = {"score": 0.8, "interval": [0.75, 0.85]}, {"score_range": 1.0, "baseline": 0.684}
    entry = Entry("trial/evaluation", "1", "evaluation", 1.0, 0.0, 0.0, (), "2026-01-02", None, None, ZERO_TOTAL)
    alone = Account.opened(PrivacyBudget.of("people", epsilon=1.0, delta=0.0))
    release = replace(RELEASE, value=value, facts=facts)
    for account, word in ((alone, "verdict"), (replace(alone, entries=(entry,)), "report")):
        document = release_document(release, account=account)
        told = {fact.name: fact.text for fact in (*document.answers, *document.facts)}
        assert {"verdict", "report"} & set(told) == {word}
    assert told["report"].startswith("dpbo show trial/evaluation:1 has the figures to quote; the score above")
    without = release_document(replace(release, value={"hyperparameters": {"C": 1.0}}), account=account)
    assert "score" not in {fact.name: fact.text for fact in without.facts}["report"]
    assert document.next_step == "dpbo show trial/evaluation:1 prints the report on the model"


def test_a_score_is_compared_with_the_public_rows_and_says_so_on_the_line():
    value = {"score": 0.8, "interval": [0.75, 0.85]}
    release = replace(RELEASE, value=value, facts={"score_range": 1.0, "baseline": 0.684})
    where = "on the public records; it may differ on the sensitive ones"
    assert "".join(verdict(release)) == f"better than always giving the same answer (0.6840 {where})"
    noisy = replace(release, value={"score": 0.8})
    answers = {fact.name: fact.text for fact in release_document(noisy).answers}
    assert answers["same answer for all"] == f"0.6840 {where}"


def test_a_fact_of_a_release_stands_in_all_its_forms(monkeypatch, capsys):
    """One file says what a release shows: a planted fact is on the screen, the certificate and both pages."""
    planted = Fact("planted", "in every form", "strong")
    monkeypatch.setattr("dpbo.tasks.reporting.release_document.report_facts", lambda *_: iter([planted]))
    release = replace(
        RELEASE, value={"score": 0.8, "interval": [0.75, 0.85]}, release_id="0123", released_at="2026-01-02"
    )
    print_document(document_of(StudyResult(release, replayed=False), None, look="dpbo ui"))
    account = Account.opened(PrivacyBudget.of("people", epsilon=1.0, delta=0.0))
    forms = [capsys.readouterr().out, page(release, [])]
    monkeypatch.setattr("dpbo.tasks.reporting.mlflow_run.metrics", lambda *_: [])
    forms.append(run_note(release, account, "0", (), None))
    monkeypatch.setattr("dpbo.flows.run_end.current_flow_run", lambda: "a run")
    monkeypatch.setattr("dpbo.flows.run_end._has_event", lambda _: True)
    monkeypatch.setattr(
        "prefect.artifacts.create_markdown_artifact", lambda **artifact: forms.append(artifact["markdown"])
    )
    announce(release, account, None, "")
    assert len(forms) == 4
    for form in forms:
        assert "planted" in form
        assert "in every form" in form
        assert "0.750 to 0.850" in form.replace("\\", "")


@pytest.mark.parametrize(("chosen", "at_an_end"), [(1e-4, True), (10.0, True), (0.5, False)])
def test_a_choice_at_the_end_of_its_range_is_said(chosen, at_an_end, capsys):
    space = {"lambda": {"low": 1e-4, "high": 10.0, "log": True, "integer": False}, "kind": {"values": ["a", "b"]}}
    value = {"hyperparameters": {"lambda": chosen, "kind": "a"}, "score": 0.8}
    result = StudyResult(replace(RELEASE, value=value, facts={"space": space}), replayed=False)
    print_document(document_of(result, None, look="dpbo ui"))
    said = (
        f"range lambda = {chosen:.4g} is at the end of the range; a wider range may be better (a new edition spends"
    )
    assert (said in " ".join(capsys.readouterr().out.split())) is at_an_end


def test_methods_are_listed_when_asked_for_and_the_studys_own_always(tables, capsys):
    tables["study"]["method"] = "exact_gp"
    spec = StudySpec.from_dict({**tables, "method": {}})
    print_every_method(spec, advise_study(spec))
    printed = capsys.readouterr().out
    assert len(re.findall(r"^ \w+ +(?:good|poor|useless|refused|if alike) ", printed, re.M)) == len(METHODS) + len(
        EXCHANGES
    )
    assert re.search(r"^ exact_gp +refused ", printed, re.M)
    print_advice(spec, advise_study(spec))
    printed = capsys.readouterr().out
    assert "exact_gp: cannot run" in printed
    assert printed.count("public: ") == printed.count("public: good if the two populations are alike") == 1


def test_the_newest_entries_are_shown_and_json_has_all(tmp_path, capsys):
    """A ledger of 1,119 releases printed as many lines; JSON stays whole."""
    book = PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}")
    book.set_budget(PrivacyBudget.of("people", epsilon=5.0, delta=0.0))
    spend = Spend("score", "discrete noise", 10**10, 0, 10**8, sensitivity=0.01, noise_scale=1.0)
    plan = PrivacyPlan(replace(GUARANTEE, epsilon=0.01), (spend,))
    for n in range(25):
        key = QueryKey(f"{n:064d}", "people", f"trial{n:02d}", "1", "lipschitz")
        book.reserve(Charge(key, plan), noise=OPERATING_SYSTEM)
    accounts = book.accounts()
    print_accounts(accounts)
    printed = capsys.readouterr().out
    assert "the newest 20 of 25 entries; --json lists all" in printed
    assert "trial04" not in printed
    assert all(f"trial{n:02d}" in printed for n in range(5, 25))
    assert len(account_json(*accounts)["entries"]) == 25


def test_on_a_terminal_each_released_step_is_a_line_with_its_interval(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("DPBO_PLAIN", raising=False)
    step = {"step": 3, "hyperparameters": {"lambda": 0.00123}, "score": 0.7}
    with Progress("trial", 3) as progress:
        progress.show(step, deviation=0.01)
        progress.show(step | {"step": 4, "score": None})
        progress.show(step | {"step": 5})
    lines = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", capsys.readouterr().err).replace("\r", "\n").split("\n")
    shown = [" ".join(line.split()) for line in lines if line.startswith("     ")]
    assert shown == [
        "3 lambda = 0.00123 0.7000 0.6836 to 0.7164",
        "4 lambda = 0.00123 no score",
        "5 lambda = 0.00123 0.7000",
    ]


def test_the_noise_of_each_step_is_known_beforehand(tables):
    study = StudySpec.from_dict(tables)
    resolved = resolve(study)
    made = {spend.what: spend.noise_scale for spend in resolved.plan.spends}
    assert resolved.step_deviations == {t: made[f"score of step {t}"] for t in range(1, 6)}
    tables["study"]["method"] = "private_grid"
    assert resolve(StudySpec.from_dict(tables)).step_deviations == {}
