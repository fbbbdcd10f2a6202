"""The pages with a model of every framework, Opacus and Optuna, from top to bottom. Run by `make frameworks`."""

import pytest
from of_features import parts
from pages import blocks
from test_docs import TEXTS, folder, run_page  # noqa: F401  a fixture

PAGE = "docs/how_to/any_model.md"
PAGES = (PAGE, "docs/how_to/one_budget.md", *parts("FRAMEWORK_PAGE"))
LONGEST = 15


@pytest.mark.parametrize("page", PAGES)
def test_the_page_runs_with_every_framework(folder, monkeypatch, page):  # noqa: F811
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=":")
    run_page(page, folder, slow=True, frameworks=True)


EXAMPLES = [block for block in blocks(TEXTS[PAGE]) if block.kind == "python"]


@pytest.mark.parametrize("block", EXAMPLES, ids=lambda block: f"line {block.line}")
def test_no_example_is_long(block):
    assert len([line for line in block.body.splitlines() if line.strip()]) <= LONGEST
