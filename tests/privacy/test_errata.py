"""docs/evidence/errata.md and docs/reading_with_the_papers.md say what the code does."""

import re
from pathlib import Path

import lists
import numpy as np
import pytest
import reading
import write_pages
from write_pages import stale

from dpbo_core.search.kernels import Matern52
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


def test_every_test_that_is_named_exists_and_what_is_proved_names_one():
    named = set(re.findall(r"`(?:tests/[\w/]+::)?(test_\w+)`", ERRATA + READING))
    proved = [row for row in READING.splitlines() if "| proved" in row]
    assert len(proved) >= 2
    assert all("`test_" in row for row in proved)
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert len(named) >= 3
    for name in named:
        assert f"def {name}(" in tests, name


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
