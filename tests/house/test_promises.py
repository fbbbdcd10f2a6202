"""Every promise has one planted fault that can still be planted, and a fast test that is there to catch it.

That it is caught says `make planted`.
"""

import ast
import re
from collections import Counter
from functools import cache

from planted import PROMISES, ROOT, faults

FAULTS = faults()
PROMISED = "".join(page.read_text(encoding="utf-8") for page in PROMISES)
LINES = re.findall(r"^\| ([a-z0-9-]+) \|(.+)\|$", PROMISED, re.MULTILINE)


@cache
def functions(file):
    return {node.name: node for node in ast.parse((ROOT / file).read_text(encoding="utf-8")).body
            if isinstance(node, ast.FunctionDef)}  # fmt: skip


def test_every_promise_has_one_fault_and_every_fault_a_promise():
    lines = Counter(name for name, _ in LINES if name != "id")
    assert lines == Counter(fault.promise for fault in FAULTS), "every promise has one fault, in faults.toml"
    assert set(lines.values()) == {1}
    assert len(lines) >= 100


SHORT_NAMES = {"README": "README.md", "SECURITY": "SECURITY.md", "TM": "docs/evidence/threat_model.md",
               "ε": "docs/explanation/what_epsilon_means.md"}  # fmt: skip


def test_a_line_names_a_heading_where_the_promise_is_made():
    titles = {
        short: re.findall(r"^#+ (.+)$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
        for short, page in SHORT_NAMES.items()
    }
    named = re.findall(rf"\b({'|'.join(SHORT_NAMES)}), \*([^*]+)\*", PROMISED)
    assert len(named) >= 100
    assert [(short, part) for short, part in named if not any(part in title for title in titles[short])] == []


def test_a_line_names_the_tests_that_catch_its_fault():
    catchers = {name: set(re.findall(r"`(test_\w+)`", line)) for name, line in LINES}
    for fault in FAULTS:
        assert catchers[fault.promise] == {re.split(r"::|\[", test)[1] for test in fault.tests}, fault.promise


def test_a_fault_can_be_planted_and_is_caught_by_a_fast_test():
    for fault in FAULTS:
        text = fault.plant((ROOT / fault.file).read_text(encoding="utf-8"))
        if fault.file.endswith(".py"):
            ast.parse(text, fault.promise)
        for test in fault.tests:
            file, _, name = test.partition("::")
            function = functions(file)[name.partition("[")[0]]
            assert not any(ast.unparse(mark) == "pytest.mark.slow" for mark in function.decorator_list), test
