"""docs/printed_numbers.md: page, data and code agree; single runs made again are those that were kept."""

import json

import pytest

from benchmarks.papers import kharkovskii, page, wang
from benchmarks.papers.cells import DIGITS, STATE, Cell, Known


def cells():
    return {cell.key: cell for cell in [*kharkovskii.cells(), *wang.cells()]}


def test_the_page_is_what_the_data_say_and_the_data_are_what_the_code_asks():
    known, wanted = Known.read(), cells()
    assert page.PAGE.read_text() == page.page(known)
    assert set(known.kept) <= set(wanted)
    for key, entry in known.kept.items():
        assert len(entry["runs"]) == wanted[key].runs, key
    changed = Known(json.loads(STATE.read_text()))
    changed.kept["kharkovskii/synthetic/rows"]["runs"][0] += 1.0
    assert page.PAGE.read_text() != page.page(changed)


def test_all_that_needs_no_outside_data_is_run_and_what_is_not_run_says_so():
    known, own = Known.read(), page._split(list(cells().values()))[0]
    assert all(map(known.has, own))
    assert f"**{len(own)} of {len(own)}**" in page.PAGE.read_text()
    nothing = page.page(Known())
    assert nothing.count(page.NOT_RUN) > 200


@pytest.mark.parametrize("key", [
    "kharkovskii/synthetic/rows",
    "kharkovskii/synthetic/e^1.1/r=10",
    "kharkovskii/synthetic/e^1.1/sound",
    "kharkovskii/branin/e^1.1/r=10",
    "kharkovskii/property/rows",
])  # fmt: skip
def test_a_run_made_again_is_the_one_that_was_kept(key):
    run, kept = cells()[key].run, Known.read().kept[key]["runs"]
    for number in (0, 7):
        assert round(float(run(number)[-1]), DIGITS) == pytest.approx(kept[number], abs=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("key", ["wang/table2/C = 4, β = 50/0.03", "wang/table1/uniform/0.03/equal"])
def test_a_search_made_again_is_the_one_that_was_kept(key):
    """Its landscape is trained first, where no cache has it."""
    run, kept = cells()[key].run, Known.read().kept[key]["runs"]
    assert [round(float(run(number)), DIGITS) for number in range(5)] == pytest.approx(kept[:5], abs=2e-5)


def test_an_interrupted_run_goes_on_where_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.papers.cells.STATE", tmp_path / "state.json")
    asked = []
    one = Cell("one", lambda i: asked.append(i) or float(i), 3)
    Known().work_out(one)
    again = Known.read()
    assert again.has(one)
    assert not again.has(Cell("one", one.run, 4))
    assert not again.has(Cell("two", one.run, 3))
    assert again.mean("one") == (1.0, pytest.approx(3**-0.5))
    assert again.mean("two") is None
    again.work_out(Cell("two", lambda i: [9.0, 2.0 * i], 3))
    assert again.kept["two"] == {"runs": [0.0, 2.0, 4.0], "curve": [9.0, 2.0]}
    assert again.excess("two", "one") == (1.0, pytest.approx(3**-0.5))
    assert asked == [0, 1, 2]
