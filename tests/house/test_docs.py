"""The documentation cannot rot: every transcript, line of Python and study file of every page is run."""

import json
import re
import tomllib
from difflib import SequenceMatcher
from itertools import combinations
from pathlib import Path
from uuid import uuid4

import pytest
import yaml
from page_runs import contradictions, masked, printed_blocks
from pages import PAGES, ROOT, RUN, SHOWN, blocks, commands
from plain_english import REPLACED, refused_phrases
from prefect.events.schemas.automations import AutomationCore
from test_architecture import SOURCES

from benchmarks import __main__ as performance
from dpbo_core.methods import EXCHANGES, METHODS
from dpbo_core.study import StudySpec

NEEDS = {"health_data": "statsmodels"}  # packages of the group `docs`
TEXTS = {page.relative_to(ROOT).as_posix(): page.read_text() for page in PAGES}
QUICK = [name for name, text in TEXTS.items() if any(one.runs and one.mark != "slow" for one in blocks(text))]
LONG = [name for name, text in TEXTS.items() if any(one.runs and one.mark == "slow" for one in blocks(text))]


def run_page(name: str, folder: Path, *, slow: bool, frameworks: bool = False) -> None:
    """Compare what every block of a page prints with what the page shows."""
    for block, today in printed_blocks(name, TEXTS[name], folder, slow=slow, frameworks=frameworks):
        where = f"{name}:{block.line}"
        if block.kind == "text":
            assert masked(today) == masked(block.body), where
            continue
        for (line, out), (_, shown) in zip(commands(today), commands(block.body), strict=True):
            if line.startswith("dpbo plan"):  # nothing random: word for word
                assert out.split() == shown.split(), f"{where}: run make pages"
            assert masked(out) == masked(shown), f"{where}: run make docs-write"


NUMBER = re.compile(r"(?<![\w.:/-])\d*\.\d+(?![\w.:/]|-\d)")


@pytest.mark.parametrize("name", [*TEXTS, "docs/tables/first_screens.txt"])
def test_a_printed_number_has_at_most_four_significant_digits(name):
    shown = [one for one in blocks(TEXTS[name]) if one.kind in ("console", "text")] if name in TEXTS else []
    texts = [one.body for one in shown] if name in TEXTS else [(ROOT / name).read_text()]
    numbers = [number for text in texts for number in NUMBER.findall(text)]
    assert [number for number in numbers if len(number.replace(".", "").lstrip("0")) > 4] == []


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for name in ("DPBO_LEDGER_URL", "MLFLOW_TRACKING_URI", "DPBO_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", QUICK)
def test_a_page_runs_from_top_to_bottom(name, folder):
    run_page(name, folder, slow=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_a_page_runs_with_what_takes_minutes(name, folder):
    package = NEEDS.get(Path(name).stem)
    if package is not None:
        pytest.importorskip(package, reason="of the dependency group `docs`")
    run_page(name, folder, slow=True)


def test_an_automation_is_one_that_prefect_takes():
    (shown,) = (block.body for block in blocks(TEXTS["docs/how_to/schedule.md"]) if block.kind == "yaml")
    automation = AutomationCore.model_validate(yaml.safe_load(shown.replace("ID", str(uuid4()))))
    assert automation.trigger.expect == {"dpbo.run.refused"}
    assert automation.actions[0].type == "send-notification"


BLOCKS = [(f"{name}:{block.line}", block) for name, text in TEXTS.items() for block in blocks(text)]


def test_every_block_is_run_or_says_why_not():
    for where, block in BLOCKS:
        assert block.kind in (*RUN, *SHOWN), where
        assert block.mark in ("", "file") or len(block.why) > 10, where
        if block.kind not in RUN:
            assert not re.search(r"^(\$|>>>) ", block.body, re.MULTILINE), f"{where} looks as if it were run"


def test_every_study_of_a_page_is_one():
    """A whole study can be read; a part of one is a part of something that can."""
    for where, block in BLOCKS:
        if block.kind == "toml":
            tables = tomllib.loads(block.body)
            assert tables, where
            if {"study", "privacy", "data", "model", "space"} <= tables.keys():
                assert StudySpec.from_dict(tables).privacy.epsilon > 0, where


def test_every_link_leads_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
            assert "://" in target or (page.parent / target).exists(), (page.name, target)


def test_no_page_contradicts_its_own_release():
    assert {name: found for name, text in TEXTS.items() if (found := contradictions(text))} == {}
    page = "```console\n$ dpbo tune s.toml\n\n  C  0.25\n```\n```text\nreplayed: True\n{'C': 0.3}\n```\n"
    assert contradictions(page.replace("0.25", "0.3")) == []
    assert contradictions(page.replace("0.25", "0.29")) == []
    assert len(contradictions(page.replace("0.25", "4"))) == 1


def test_a_wrong_transcript_is_caught(folder, monkeypatch):
    good = "```python\nprint('ε is', 1.5)\n```\n\n```text\nε is 1.2\n```\n"
    monkeypatch.setitem(TEXTS, "planted", good)
    run_page("planted", folder, slow=False)
    monkeypatch.setitem(TEXTS, "planted", good.replace("ε is 1.2", "δ is 1.2"))
    with pytest.raises(AssertionError, match="planted"):
        run_page("planted", folder, slow=False)
    monkeypatch.setitem(
        TEXTS, "planted", good.replace("'ε is', 1.5", "'ε is', 1.5, 'of 3'").replace("1.2", "1.2 of 4")
    )
    with pytest.raises(AssertionError, match="planted"):
        run_page("planted", folder, slow=False)


def test_every_page_is_in_the_site_and_every_picture_is_made_by_a_script():
    site = (ROOT / "mkdocs.yml").read_text()
    scripts = "\n".join(
        path.read_text()
        for part in ("benchmarks", "tests/audit", "tasks", "examples")
        for path in (ROOT / part).rglob("*.py")
    )
    for page in (ROOT / "docs").rglob("*.md"):
        assert f": {page.relative_to(ROOT / 'docs').as_posix()}\n" in site, page.name
    for picture in (ROOT / "docs").rglob("*.png"):
        assert picture.stem in scripts, picture.name


def test_the_pages_are_few_and_short():
    """Sections that people know, a number of pages each that somebody can look through, and few words."""
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    kinds = {title: pages for entry in site for title, pages in entry.items() if isinstance(pages, list)}
    assert list(kinds) == ["Tutorials", "Use cases", "How to", "Operate", "Reference", "Explanation", "Develop"]
    limits = {"Tutorials": 3, "Use cases": 3, "How to": 15, "Explanation": 8}
    assert all(len(kinds[title]) <= most for title, most in limits.items())
    develop = {path for entry in kinds["Develop"] for path in entry.values()}
    of_contributors = {name.removeprefix("docs/") for name in TEXTS if "/adding_" in name or "/evidence/" in name}
    assert of_contributors - develop == {"evidence/threat_model.md"}
    assert words("README.md") <= 800
    assert words("docs/evidence/threat_model.md") <= 2_000
    assert words(*(name for name in TEXTS if "/adding_" in name)) <= 2_500
    assert words(*(name for name in TEXTS if name.startswith("docs/"))) <= 33_000


def words(*names):
    """The number of words of pages, with their code and tables."""
    return sum(len(TEXTS[name].split()) for name in names)


def test_pages_are_written_in_plain_english():
    assert {name: found for name, text in TEXTS.items() if (found := refused_phrases(text))} == {}
    assert refused_phrases("A new edition is another\nspend.") == {"another\nspend": REPLACED["another spend"]}


def test_the_product_is_written_in_plain_english():
    code = {path: path.read_text() for path in SOURCES}
    assert {path.name: found for path, text in code.items() if (found := refused_phrases(text))} == {}


def test_no_two_pages_have_nearly_one_name():
    """Neither `pipeline` and `pipelines` nor `first_release` and `first_releases`, and no two titles."""
    pages = list((ROOT / "docs").rglob("*.md"))
    titles = [re.search(r"^# (.+)", page.read_text(), re.M)[1].lower() for page in pages]
    for names in ([page.stem for page in pages], titles):
        near = [pair for pair in combinations(sorted(names), 2) if SequenceMatcher(None, *pair).ratio() >= 0.85]
        assert not near


def test_every_page_says_todays_version():
    today = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    older = set()
    for page in (ROOT / "docs").rglob("*"):
        if page.suffix in (".md", ".txt"):
            for section in re.split(r"^## ", page.read_text(), flags=re.M):
                if {*re.findall(r"\bdpbo[ -](\d+\.\d+\.\d+)", section)} - {today}:
                    older.add(section.splitlines()[0])
    assert older == set()


def test_where_is_what_is_there():
    """Every file and folder that CONTRIBUTING names, and each name that it says to look for in one."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for path in re.findall(r"`((?:dpbo_core|flows|tasks|tests)/[\w/.]+)`", text):
        assert (ROOT / path).exists(), path
    for name, path in re.findall(r"`(?:\w+\.)?(\w+)` in `([\w/]+\.py)`", text):
        assert re.search(rf"\b(def|class) {name}\b|^{name} = ", (ROOT / path).read_text(), re.MULTILINE), (
            name,
            path,
        )


def test_the_tables_of_seconds_are_what_the_benchmarks_write():
    """Every script has its section, with its own words above it and the figures that it found last."""
    figures, written = json.loads(performance.FIGURES.read_text()), performance.PAGE.read_text()
    assert [*performance.SCRIPTS] == [name for name in performance.SCRIPTS if figures.get(name, {}).get("rows")]
    for name in performance.SCRIPTS:
        if (ROOT / "benchmarks" / f"{name}.py").exists():  # else it went with its feature
            assert performance.page({name: figures[name]}) in written, f"run python -m benchmarks {name}"


def test_the_threat_model_speaks_of_every_method_and_exchange():
    """All are in its table; a section is a method's or an exchange's."""
    text = (ROOT / "docs" / "evidence" / "threat_model.md").read_text()
    sections = [line.removeprefix("### ").strip("`") for line in text.splitlines() if line.startswith("### ")]
    assert {*sections} <= {*METHODS, *EXCHANGES}
    assert all(f"| `{kind}` | {cls.observable} |" in text for kind, cls in {**METHODS, **EXCHANGES}.items())
    actors = "dpbo serve", "PrivateSearch", "Dask", "final model", "dashboard viewer", "orchestrator", "curator"
    assert [name for name in actors if name not in text] == []


def test_the_page_of_the_study_file_has_every_key():
    from dpbo_core.models.scores.union import SCORES
    from dpbo_core.study import AxisSection, BudgetSection, EvaluationSection, PrivacySection, SearchSection
    from dpbo_core.study.model import KINDS as MODELS
    from dpbo_core.study.spec import DATA_KINDS as DATA

    page = TEXTS["docs/reference/study_file.md"]
    sections = (PrivacySection, BudgetSection, *DATA, *MODELS, AxisSection, SearchSection, EvaluationSection)
    keys = {key for section in sections for key in section.model_fields}
    for key in (*keys, *SCORES, "name", "edition", "method", "accepts"):
        assert f"`{key}`" in page, key
