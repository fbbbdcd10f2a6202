"""docs/evidence/printed_numbers.md: page, data and code agree; single runs made again are those that were kept."""

import json
import math

import pytest

from benchmarks.papers import adaptive, kharkovskii, page, wang
from benchmarks.papers.cells import DIGITS, STATE, Results
from dpbo.features.private_training.dp_hypo import DpHypo


def cells():
    return {cell.key: cell for cell in [*kharkovskii.cells(), *wang.cells()]}


def test_the_page_is_what_the_data_say_and_the_data_are_what_the_code_asks():
    known, wanted = Results.read(), cells()
    assert page.PAGE.read_text() == page.page(known)
    assert set(known.cells) <= set(wanted)
    assert all(known.has(wanted[key]) for key in known.cells)
    changed = Results(json.loads(STATE.read_text()))
    changed.cells["kharkovskii/synthetic/rows"]["runs"][0] += 1.0
    assert page.PAGE.read_text() != page.page(changed)


def test_the_columns_that_are_lifted_are_the_papers():
    for name, (_, _, r, printed) in kharkovskii.SETTINGS.items():
        low, high = kharkovskii.implied(name)
        assert low <= kharkovskii.sigma_min(name) < high
        assert [kharkovskii.lifted(name, log_epsilon, r) for log_epsilon in printed] == [False, True, True]
    for number, (name, log_epsilon, dims, _) in kharkovskii.NUMBERED.items():
        kept = [r for r in dims if not kharkovskii.lifted(name, log_epsilon, r)]
        assert max(kept) == kharkovskii.LARGEST[number]


def test_whether_too_large_an_r_hurts_is_what_was_seen():
    known, seen = Results.read(), {"synthetic": [], "loans": [], "property": []}
    for number, (of, log_epsilon, dims, _) in kharkovskii.NUMBERED.items():
        over = kharkovskii.key(of, log_epsilon, kharkovskii.LARGEST[number])
        lifted = [r for r in dims if kharkovskii.lifted(of, log_epsilon, r)]
        seen[of] += [known.excess(kharkovskii.key(of, log_epsilon, r), over) for r in lifted]
    assert all(0.055 < loss < 0.105 and loss > 2.0 * error for loss, error in seen["synthetic"])
    assert [loss > 2.0 * error for loss, error in seen["loans"]] == [False, False, True, True, False, False]
    assert all(0.01 < loss < 0.095 for loss, _ in seen["loans"])
    assert all(loss < error for loss, error in seen["property"])
    assert sum(loss < -2.0 * error for loss, error in seen["property"]) >= 3


def test_adaptive_or_uniform_is_what_the_data_say():
    known = Results.read()
    assert adaptive.PAGE.read_text() == adaptive.page(known)
    assert adaptive.PAGE.read_text().count("not tried") == len(wang.WHITE) * sum(
        gamma < wang.FEW for gamma in wang.GAMMAS
    )
    assert adaptive.page(Results()).count("not tried") > 80
    changed = Results(json.loads(STATE.read_text()))
    changed.cells["wang/white/C = 4, β = 50/0.03"]["runs"][0] += 1.0
    assert adaptive.page(changed) != adaptive.page(known)


def test_what_is_concluded_of_adaptive_trials_is_what_was_seen():
    """White box: nothing is ahead by two errors. Black box: β = 50 is, at every γ, and β = 1 nowhere."""
    known = Results.read()
    ratios = [wang.sigma("gaussian_process", g, "equal") / wang.sigma("uniform", g, "equal") for g in wang.GAMMAS]
    assert (round(min(ratios), 2), round(max(ratios), 2)) == (1.09, 1.10)

    def ahead(key, over, sign=1.0):
        found = known.excess(key, over)
        return sign * found[0] / found[1]

    for gamma in wang.GAMMAS:
        uniform = f"wang/table1/uniform/{gamma}/equal"
        papers = ahead(f"wang/table1/gaussian_process/{gamma}/equal", uniform)
        assert papers < 2.0
        assert (papers < -2.0) is (gamma in (0.003, 0.02, 0.025))
        for name in wang.WHITE if gamma >= wang.FEW else ():
            assert ahead(f"wang/white/{name}/{gamma}", uniform) < 2.0
        for name in wang.BLACK:
            if name != "uniform":
                gain = ahead(f"wang/table2/{name}/{gamma}", f"wang/table2/uniform/{gamma}", -1.0)
                assert gain > 2.0 if name == "C = 4, β = 50" else gain < 2.0
    for K in wang.FIXED:
        for task in wang.TASKS:
            (search, error), (uniform, other) = (
                known.mean(f"wang/figure1/{task}/{arm}/{K}") for arm in wang.PRINTED_1
            )
            assert search - uniform < 2.0 * math.hypot(error, other)
    black = DpHypo(sampler="gaussian_process", base_epsilon=1.0)  # whose bounds and β are those that are ahead
    assert (black.box, black.beta) == wang.BLACK["C = 4, β = 50"]
    white = DpHypo(sampler="gaussian_process")
    assert (white.box, white.beta) == (wang.ADAPTIVE, 1.0)
    assert DpHypo().sampler == "uniform"


@pytest.mark.parametrize("key", [
    "kharkovskii/synthetic/rows",
    "kharkovskii/synthetic/e^1.1/r=10",
    "kharkovskii/synthetic/e^1.1/sound",
    "kharkovskii/branin/e^1.1/r=10",
    "kharkovskii/property/rows",
])  # fmt: skip
def test_a_run_made_again_is_the_one_that_was_kept(key):
    run, kept = cells()[key].run, Results.read().cells[key]["runs"]
    for number in (0, 7):
        assert round(float(run(number)[-1]), DIGITS) == pytest.approx(kept[number], abs=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("key", ["wang/table2/C = 4, β = 50/0.03", "wang/table1/uniform/0.03/equal"])
def test_a_search_made_again_is_the_one_that_was_kept(key):
    """Its landscape is trained first, where no cache has it."""
    run, kept = cells()[key].run, Results.read().cells[key]["runs"]
    assert [round(float(run(number)), DIGITS) for number in range(5)] == pytest.approx(kept[:5], abs=2e-5)
