"""`dpbo report`: every dataset and study in a manager's words, from the ledger alone."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser

import pytest
from months import ASKER
from months import released as made_at
from test_evaluation import in_an_interval
from test_paired_difference import clinic, weak
from test_show import every_kind  # noqa: F401  a fixture

from dpbo.tasks.reporting.document import interval
from dpbo.tasks.reporting.overview import (
    COMPARE_HINT,
    FIRST,
    NO,
    NOT_COMPARED,
    UNSURE,
    YES,
    Quotable,
    change,
    overview,
    quotable,
)
from dpbo.tasks.reporting.overview_page import overview_page, trend_picture
from dpbo.tasks.reporting.release_document import BETTER_TEXT, next_step
from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.report import BETTER, WORSE
from dpbo_core.report.evaluation import evaluate_study, run_and_evaluate
from dpbo_core.study import StudySpec
from dpbo_core.study.tuning import run_study

NOW = datetime(2026, 6, 10, tzinfo=UTC)
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def months(here, tables):
    """A ledger with a study of three months, the last two evaluated, and one with a hostile name."""
    ledger = PrivacyLedger(f"sqlite:///{here / 'mlruns' / 'ledger.db'}")
    tables["study"]["method"], tables["budget"]["epsilon"] = "private_grid", 8.0

    for month in (3, 4, 5):
        tables["study"]["edition"] = f"2026-{month:02}"
        if month > 3:
            tables["evaluation"] = {"epsilon": 0.5}
        made_at(ledger, tables, datetime(2026, month, 10, tzinfo=UTC))
    del tables["evaluation"]
    tables["study"] = {"name": HOSTILE, "edition": '"><img src=x onerror=alert(1)>', "method": "private_grid"}
    tables["privacy"]["dataset"] = "<b>ward</b> & co"
    made_at(ledger, tables, NOW - timedelta(days=1))
    ledger.set_budget(PrivacyBudget.of("nothing yet", epsilon=2.0, delta=0.0))
    return ledger


class Page(HTMLParser):
    """The page's text, the tags it is made of, and everything that it would fetch or run."""

    def __init__(self, text):
        super().__init__()
        self.text, self.tags, self.links, self.pictures = "", set(), [], 0
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.pictures += tag == "svg" and dict(attrs)["role"] == "img" and bool(dict(attrs)["aria-label"])
        assert not any(name.startswith("on") for name, _ in attrs)
        self.links += [value for name, value in attrs if name in ("src", "href", "xlink:href", "action")]

    def handle_data(self, data):
        self.text += data


def test_the_page_answers_six_questions_from_the_ledger_alone(dpbo, months, here, monkeypatch):
    kept = [path.read_bytes() for path in sorted((here / "mlruns").iterdir())]
    monkeypatch.setattr("dpbo_core.study.spec.read_study", None)  # no study and no table is read
    code, out, err = dpbo("report", "--html", "site")
    assert (code, err, "site/index.html" in out) == (0, "", True)
    assert [path.name for path in (here / "site").iterdir()] == ["index.html"]
    assert kept == [path.read_bytes() for path in sorted((here / "mlruns").iterdir())]
    page = Page((here / "site" / "index.html").read_text())
    for question in ("Ship it?", "Better than last time?", "Which number do I quote?", "When does the budget end?",
                     "Who asked, who set the budget?", "What did it cost?"):  # fmt: skip
        assert page.text.count(question) == 2  # of two studies
    told = {one["name"]: one for one in json.loads(dpbo("report", "--json")[1])["datasets"]}
    people = told["people"]
    (study,) = people["studies"]
    quoted = study["quoted"]
    for said in (Quotable(**quoted).quoted, interval(quoted["interval"]), study["change"].partition(": ")[2],
                 study["why"][1:12], people["ends"], study["cost"], people["approved"], ASKER):  # fmt: skip
        assert said in page.text
    assert people["approved"] == f"of ε = 8, δ = 1e-05, set by {ASKER} on 2026-03-10"
    assert f"Asked by {ASKER}. Budget {people['approved']}." in page.text
    unnamed = "of ε = 2, δ = 0, set on "  # as in a ledger of an earlier version
    assert told["nothing yet"]["approved"].startswith(unnamed)
    assert (study["ship"], study["why"].partition(":")[0]) == (FIRST, f"{BETTER_TEXT}; {NOT_COMPARED}")
    assert study["next_step"] == COMPARE_HINT
    assert study["cost"] == "ε 1.5 for edition 2026-05 (private_grid 1, evaluation 0.5); 5 charges so far"
    assert told["nothing yet"]["studies"] == []
    assert "Dataset nothing yet" in page.text
    assert page.pictures == 3 + 2  # a bar for each dataset, a trend for each study
    assert dpbo("report", "--html", "mlruns/ledger.db")[0] == 2


def test_the_number_to_quote_is_the_evaluations_and_says_so(dpbo, months, tables):
    """Of three editions two were evaluated: the trend is theirs. A newer edition without one has its own score."""
    (report,) = (item.release for item in months.editions("trial/evaluation", edition="2026-05"))
    (people, *_) = [one for one in overview(months, NOW) if one.account.budget.dataset == "people"]
    (study,) = people.studies
    assert study.quoted == study.trend[-1] == quotable(report)
    assert study.quoted.value == report.value["metrics"]["auc"]["value"]
    assert list(study.quoted.interval) == report.value["metrics"]["auc"]["sampling_interval"]
    assert (study.quoted.name, study.quoted.source, study.quoted.covers) == (
        "AUC",
        "evaluation",
        "noise and sampling",
    )
    assert [one.edition for one in study.trend] == ["2026-04", "2026-05"]
    scored = replace(report, facts={**report.facts, "score": "accuracy"})
    assert quotable(scored).value == report.value["metrics"]["accuracy"]["value"]  # of a study that chose by it
    tables["study"] = {"name": "trial", "edition": "new", "method": "private_grid"}
    tables["privacy"]["dataset"] = "people"
    run_study(StudySpec.from_dict(tables), ledger=months)
    (people, *_) = [one for one in overview(months, NOW) if one.account.budget.dataset == "people"]
    (study,) = people.studies
    assert (study.quoted.source, study.quoted.edition, study.quoted.name) == ("private score", "new", "sigmoid")
    assert [one.edition for one in study.trend] == ["2026-03", "2026-04", "2026-05", "new"]
    assert any("no evaluation since the newest edition" in remark for remark in study.remarks)


def test_a_name_of_the_report_is_text(months, here):
    """Of a study, its edition and its dataset, in the page and in its pictures; nothing is fetched or run."""
    text = overview_page(overview(months, NOW), NOW)
    page = Page(text)
    assert not {"script", "img", "b", "link", "iframe", "object", "style"} & page.tags - {"style"}
    assert HOSTILE in page.text
    assert "<b>ward</b> & co" in page.text
    assert all(link.startswith("#s") for link in page.links)
    assert "default-src 'none'" in text
    assert "://" not in text


def test_a_comparison_with_the_model_in_use_says_whether_to_ship(tmp_path):
    """It decides, whatever is evaluated after it; the number to quote stays one of the model alone."""
    tables = clinic(tmp_path, column=weak)
    tables["study"]["accepts"], tables["budget"] = ["rowwise_predictions"], {"epsilon": 20.0}
    ledger = PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}")
    tuned, compared = run_and_evaluate(StudySpec.from_dict(tables), ledger=ledger, folder=tmp_path)
    tables["evaluation"] = {"epsilon": 1.0}
    for report in (None, "a report after it"):
        if report is not None:
            report = evaluate_study(StudySpec.from_dict(tables), ledger=ledger, folder=tmp_path).release
        ((study,),) = (one.studies for one in overview(ledger, NOW))
        difference = compared.release.value["difference"]
        word = difference["verdict"]
        assert study.ship == {BETTER: YES, WORSE: NO}.get(word, UNSURE)
        than = " whether it is better" * (word == UNSURE)
        beside = f"{word}{than} than the model in use on {compared.release.released_at[:10]}"
        assert study.why.startswith(f"{beside}: by {difference['value']:.4f} (")
        assert in_an_interval(difference["interval"]) in study.why
        assert study.next_step == next_step(compared.release)
        assert study.quoted == quotable(report or tuned.release)


def numbers(*values, better=True, width=0.01):
    return [
        Quotable("AUC", one, (one - width, one + width), "noise alone", "evaluation", str(n), "2026-01-01", better)
        for n, one in enumerate(values)
    ]


def test_an_edition_is_better_only_where_intervals_are_apart():
    assert change(numbers(0.80, 0.83)).startswith("better: +0.0300")
    assert change(numbers(0.83, 0.80)).startswith("worse: -0.0300")
    assert change(numbers(0.80, 0.83, better=False)).startswith("worse")
    assert change(numbers(0.83, 0.80, better=False)).startswith("better")
    assert change(numbers(0.80, 0.81)).startswith("cannot tell: +0.0100")
    assert change(numbers(0.80)).startswith("first number")
    assert change([]) == ""
    picture = trend_picture(numbers(0.80, 0.83, width=0.02))
    assert picture.count("<circle") == 2
    assert "edition 1: 0.8300 (0.810 to 0.850)" in picture


def test_a_score_at_the_end_of_its_range_is_quoted_as_at_least():
    of = ("noise alone", "evaluation", "1", "2026-01-01")
    told = [Quotable("accuracy", value, (0.97, 1.0), *of).quoted for value in (1.0, 0.98)]
    assert told == ["0.970 or more", "0.9800"]
    assert Quotable("mean absolute error", 1.0, (0.97, 1.0), *of, greater_is_better=False).quoted == "1.0000"


def test_everything_that_was_released_is_reported(dpbo, every_kind):  # noqa: F811
    ledger, ids = every_kind
    code, out, err = dpbo("report", "--html", "site", "--json")
    (dataset,) = json.loads(out)["datasets"]
    assert (code, err, dataset["spent_share"], dataset["ends"]) == (0, "", None, None)
    assert len(dataset["studies"]) == sum(map(len, ids.values())) == len(ledger.study_names())
    assert all(study["released"] and study["why"] for study in dataset["studies"])


def test_an_empty_ledger_is_refused_and_nothing_is_made(dpbo, here):
    for _ in range(2):
        code, out, err = dpbo("report", "--html", "site")
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "the ledger here is empty" in err
        assert "dpbo tune" in err
        assert not (here / "site").exists()
        PrivacyLedger(f"sqlite:///{here / 'mlruns' / 'ledger.db'}")
