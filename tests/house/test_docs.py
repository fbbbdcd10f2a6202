"""The documentation cannot rot: every transcript, line of Python and study file of every page is run."""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tomllib
from difflib import SequenceMatcher
from itertools import combinations
from pathlib import Path
from uuid import uuid4

import pytest
import yaml
from pages import PAGES, ROOT, RUN, SHOWN, blocks, commands
from prefect.events.schemas.automations import AutomationCore

from dpbo_core.methods import EXCHANGES, METHODS
from dpbo_core.study import StudySpec

NEEDS = {"health_data": "statsmodels", "compared_with": "skopt"}  # packages of the group `docs`
TEXTS = {page.relative_to(ROOT).as_posix(): page.read_text() for page in PAGES}
QUICK = [name for name, text in TEXTS.items() if any(one.runs and one.mark != "slow" for one in blocks(text))]
LONG = [name for name, text in TEXTS.items() if any(one.runs and one.mark == "slow" for one in blocks(text))]


def masked(text: str) -> str:
    """A transcript without what differs from run to run: digits, the little plot, and how lines were broken."""
    text = re.sub(r"\(the noise took it out of its\s+range\)", "", text)
    text = re.sub(r"range\s+\S+ = \S+\s+is\s+the\s+end\s[^)]*costs\s+ε\s+again\)", "", text)  # of a choice there
    text = re.sub(r"(?<=│)[ ▁▂▃▄▅▆▇█]*$|[▁▂▃▄▅▆▇█]+", "▁", text, flags=re.MULTILINE)
    text = re.sub(r"(run|sealed)\s+[0-9a-f]{8,16}", r"\1 #", text)
    text = re.sub(r"-?\d[\d.]*(e[+-]?\d+)?", "#", text)
    return " ".join(text.split()).replace("# … #", "#")  # a trajectory's last look may have a scale of its own


def command(line: str, folder: Path, *, alone: bool) -> str:
    """What a command prints; a refusal (a message on standard error) must come with its exit code.

    Args:
        alone: in a process of its own, as a shell would, and with a home of its own for Prefect.
    """
    words = shlex.split(line)
    assert words[0] == "dpbo", line
    code, out, err = (_alone if alone else _here)(words, folder)
    progress, mark, refusal = f"\n{err}".partition("\ndpbo: ")
    assert (code != 0) == bool(mark), err
    assert all(" of " in line or ": " in line for line in progress.split("\n") if line), err
    return out + (f"dpbo: {refusal}" if code else "")


def _alone(words: list[str], folder: Path) -> tuple[int, str, str]:
    run = subprocess.run(
        [sys.executable, "-c", "from dpbo.flows.cli import main; main()", *words[1:]],
        cwd=folder, env=os.environ | {"PREFECT_HOME": str(folder / "prefect"), "COLUMNS": "80"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return run.returncode, run.stdout, run.stderr


def _here(words: list[str], folder: Path) -> tuple[int, str, str]:
    from dpbo.flows.cli import main

    code, out, err = 0, io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", words)
        patch.setenv("COLUMNS", "80")
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main()
            except SystemExit as stop:
                code = stop.code or 0
    return code, out.getvalue(), err.getvalue()


def run_page(name: str, folder: Path, *, slow: bool, frameworks: bool = False) -> None:
    """A page from top to bottom, as a reader would: one folder, one Python."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    printed = None
    for block in blocks(TEXTS[name]):
        where = f"{name}:{block.line}"
        if block.mark == "file":
            (folder / block.why).write_text(block.body)
        elif block.kind == "text" and printed is not None:
            assert masked(printed) == masked(block.body), where
        wanted = block.runs and (slow or block.mark != "slow")
        if not (wanted or (frameworks and block.mark == "frameworks")):
            printed = None
        elif block.kind == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(block.body, where, "exec"), namespace)
            printed = out.getvalue()
        else:
            for line, shown in commands(block.body):
                out = command(line, folder, alone=block.mark == "slow")
                if line.startswith("dpbo plan"):  # nothing random: word for word
                    assert out.split() == shown.split(), f"{where}: run make pages"
                assert masked(out) == masked(shown), where


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


def test_a_wrong_transcript_is_caught(folder, monkeypatch):
    good = "```python\nprint('ε is', 1.5)\n```\n\n```text\nε is 1.2\n```\n"
    monkeypatch.setitem(TEXTS, "planted", good)
    run_page("planted", folder, slow=False)
    monkeypatch.setitem(TEXTS, "planted", good.replace("ε is 1.2", "δ is 1.2"))
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
    """Kinds that people know, a number of pages each that somebody can look through, and words that can be read."""
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    kinds = {title: len(pages) for entry in site for title, pages in entry.items() if isinstance(pages, list)}
    assert list(kinds) == ["Tutorials", "How to", "Reference", "Explanation", "Evidence"]
    assert (kinds["Tutorials"], kinds["How to"] <= 13, kinds["Explanation"] <= 7) == (3, True, True)
    assert len(TEXTS["README.md"].split()) <= 1_000
    assert sum(len(text.split()) for text in (*TEXTS.values(), (ROOT / "SECURITY.md").read_text())) <= 45_000


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
    from dpbo_core.study.spec import KINDS as DATA

    page = TEXTS["docs/reference/study_file.md"]
    sections = (PrivacySection, BudgetSection, *DATA, *MODELS, AxisSection, SearchSection, EvaluationSection)
    keys = {key for section in sections for key in section.model_fields}
    for key in (*keys, *SCORES, "name", "edition", "method", "accepts"):
        assert f"`{key}`" in page, key
