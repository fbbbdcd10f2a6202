"""docs/evidence/errata.md and docs/reading_with_the_papers.md say what the code does."""

import re
from pathlib import Path

import lists
import numpy as np
import pytest
import reading
import write_pages
from write_pages import stale

from dpbo_core.search.gp import Matern52
from dpbo_core.theorems import kusner_2015, srinivas_2010

ROOT = Path(__file__).parents[2]
ERRATA = (ROOT / "docs" / "evidence" / "errata.md").read_text()
READING = (ROOT / "docs" / "reading_with_the_papers.md").read_text()


@pytest.mark.parametrize("T", [20, 100])
def test_the_table_of_vacuous_scales_is_what_the_code_computes(T):
    X = np.linspace(0, 1, 64)[:, None]
    gain = srinivas_2010.information_gain_bound(
        gram=Matern52(0.3).matrix(X, X).__getitem__, n_steps=T, noise_variance=0.01
    )
    common = {"n_candidates": 64, "n_steps": T, "delta": 1e-6, "dataset_similarity": 0.99}
    first, third = (
        [f(**common, **more, calibration=c) for c in ("published", "corrected")]
        for f, more in (
            (kusner_2015.theorem_1_sensitivity, {}),
            (kusner_2015.theorem_3_sensitivity, {"noise_variance": 0.01, "information_gain": gain}),
        )
    )
    row = " | ".join(f"{number:.2f}" for number in (*first, *third))
    assert f"| {T} | {row} | 4 |" in ERRATA


def test_theorem_5s_printed_c_is_as_much_larger_on_the_readmes_study_as_the_page_says():
    """Of 285 records, at 64 candidates and δ = 1e-6; a prior standard deviation is a quarter of the range."""
    common = {"n_events": 2.0 * 64, "delta": 1e-6, "dataset_similarity": 0.99}
    ours = kusner_2015.similarity_bound(**common, score_change=1 / 285 / 0.25)
    assert f"{int(kusner_2015.similarity_bound(**common) / ours)} times larger on the README's study" in ERRATA


def test_every_test_that_is_named_exists_and_what_is_proved_names_one():
    named = set(re.findall(r"`(?:tests/[\w/]+::)?(test_\w+)`", ERRATA + READING))
    proved = [row for row in READING.splitlines() if "| proved" in row]
    assert len(proved) >= 2
    assert all("`test_" in row for row in proved)
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert len(named) >= 3
    for name in named:
        assert f"def {name}(" in tests, name


def numbers(kind, *ns):
    return [f"{kind} {n}" for n in ns]


PRINTED = {  # counted in the papers' texts
    "kusner_2015": [
        *numbers("Assumption", 1, 2),
        *numbers("Definition", *range(1, 6)),
        *numbers("Algorithm", 1, 2, 3),
        *numbers("Theorem", *range(1, 9)),
        *numbers("Corollary", *range(1, 5)),
    ],
    "kharkovskii_2020": [
        *numbers("Definition", 1, 2, 3),
        *numbers("Algorithm", 1, 2),
        *numbers("Theorem", 1, 2, 3),
        *numbers("Remark", 1, 2, 3, 4),
        "Lemma 1",
    ],
    "wang_2023": [
        *numbers("Definition", "2.1", "A.1", "A.2", "B.1"),
        *numbers("Algorithm", 2, 3),
        *numbers("Theorem", 1, 2),
        *numbers("Lemma", "A.3", "A.4", "A.5"),
        *numbers("Setting", "E.1", "E.2"),
        "Framework 1",
    ],
}


@pytest.mark.parametrize("module", PRINTED)
def test_every_numbered_statement_is_listed_where_it_is_built_and_what_is_corrected_is_on_the_page(module):
    listed = reading.NUMBERED[module]
    assert sorted(listed) == sorted(PRINTED[module])
    (paper,) = [paper for paper in reading.papers(ROOT) if paper.module == module]
    functions = {statement.name for statement in paper.statements}
    author = module.partition("_")[0].capitalize()
    sections = [part for part in re.split(r"^## ", ERRATA, flags=re.MULTILINE) if part.startswith(author)]
    assert len(sections) == 1 or not (ROOT / "features" / "outsourced").is_dir()  # make without
    for name, (what, where) in listed.items():
        places = (ROOT / "dpbo_core" / f"{where}.py", ROOT / f"{where}.py")
        features = (ROOT / "features" / name for name in ("private_training", "outsourced"))
        deleted = where.startswith(("features/", "benchmarks/")) and not all(one.is_dir() for one in features)
        assert where in functions or deleted or any(place.is_file() for place in places), name
        assert what in ("built", "corrected")
        corrected = any(re.search(rf"\b{re.escape(name)}\b", section) for section in sections)
        assert corrected or what == "built" or not sections, name


def test_generated_pages_and_lists_are_current(monkeypatch):
    assert stale() == [], "run make pages"
    monkeypatch.setattr(write_pages, "WRITERS", {"docs/tables/estimators.txt": lambda: "another text"})
    assert stale() == ["docs/tables/estimators.txt"]


def test_every_theorem_is_tested_by_name():
    for paper in reading.papers(ROOT):
        for statement in paper.statements:
            assert statement.tests, f"{paper.module}.{statement.name} has no test that calls it"


@pytest.mark.parametrize("name", lists.LISTED_IN)
def test_a_page_that_lists_has_the_marks_of_its_list(name):
    assert lists.LIST.search((ROOT / name).read_text())
