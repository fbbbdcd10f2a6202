"""The short forms of the campaigns that `make audit` runs in full."""

import ast
import itertools
import math
from importlib import import_module
from importlib.metadata import distributions, version
from pathlib import Path

import numpy as np
import pytest
from audit import __main__ as audit_page
from audit import bounds, distinguish, laws, supply, timing, verdict
from dp_accounting import get_epsilon_gaussian
from of_features import merged, parts

from dpbo_core.methods import EXCHANGES, METHODS
from dpbo_core.study import StudySpec

TESTS = Path(__file__).parents[1]


def repr_of(pair):
    return f"{pair.kind}, {pair.name}"


def test_timing_is_measured_for_every_method_with_something_to_hide(tables):
    found = {(item.method, item.quantity) for item in timing.measure(StudySpec.from_dict(tables), 2)}
    assert ("lipschitz", "exact score") in found
    assert ("lipschitz", "λ") not in found  # its path is public
    assert ("lipschitz, a path", "λ") in found
    assert ("private_trajectory", "size of the noise") in found


def test_a_section_replaces_itself_and_leaves_the_others():
    page = audit_page.whole({"Kills": "ten\n\n| a |", "Leaks": "none"})
    told = audit_page.parsed(page)
    assert told == {"Kills": "ten\n\n| a |", "Leaks": "none"}
    again = audit_page.whole(told | {"Leaks": "one"})
    assert audit_page.parsed(again) == {"Kills": "ten\n\n| a |", "Leaks": "one"}
    assert audit_page.whole(audit_page.parsed(again)) == again
    assert again.index("## Kills") < again.index("## Leaks")


def test_what_a_campaign_takes_of_a_test_is_there():
    """It is imported where a campaign runs, which `make test` does not."""
    campaigns = [path for name in ("audit", "observer") for path in (TESTS / name).rglob("*.py")]
    imports = [
        node
        for path in campaigns
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("test_")
    ]
    assert len(imports) > 5
    for node in imports:
        module = import_module(node.module)
        assert [item.name for item in node.names if not hasattr(module, item.name)] == []


def test_every_method_and_exchange_is_told_apart_and_every_fault_is_planted():
    honest = {kind for kind, _ in distinguish.jobs(faulty=False)}
    told_apart = {*distinguish.honest()}
    missing = sorted({*METHODS, *EXCHANGES} - told_apart)
    assert missing == [], (
        "a pair of worlds each in `studies` of audit/distinguish.py, or in a feature's `worst_pairs`"
    )
    assert honest == {*METHODS, *EXCHANGES} == told_apart
    assert honest == {kind for kind, pairs in distinguish.honest().items() if any(pair.runs[1] for pair in pairs)}
    faults = {name for _, name in distinguish.jobs(faulty=True)}
    assert {
        "half the sensitivity",
        "sensitivity of a mean on a sum",
        "the whole budget at each step",
        "no noise where the winner is clear",
        *itertools.chain(*parts("FAULTS_OF_PAIRS")),
    } <= faults
    assert len(distinguish.jobs(faulty=False)) <= bounds.N_ROWS  # of which the false alarms are shared out


QUICK = {  # one each of what the sum, the whole search and the whole table are drawn by in the short run
    "private_trajectory": "with a final choice",
    **merged("QUICK"),
}


@pytest.mark.parametrize(("kind", "name"), QUICK.items())
def test_an_honest_method_is_not_accused_and_one_with_little_noise_is(kind, name):
    """Each pair at a fifth of its ε, a few hundred runs. False failures of all kinds together: below 1e-6.

    Honest rows: 17, each accused with probability at most 2e-8. Faulty rows: ℓ > 0 on V in at least 0.42 of the
    runs and on V′ in at most 0.04 (1,000 runs, or the law), so that one is missed with probability below 1e-9.
    """
    honest, faulty = distinguish.quick(kind, name)
    assert not honest.broken, honest
    assert faulty.broken, faulty


@pytest.mark.parametrize("pair", [pair for pairs in distinguish.honest().values() for pair in pairs], ids=repr_of)
def test_what_a_pair_loses_is_most_of_the_guarantee_and_within_it(pair):
    """Computed, not run: so that 0.6 can be proved, and the planted fault (noise ÷ 1.5) is above the guarantee."""
    exact = pair.law.epsilon()
    if exact is not None:  # densities that adapt have no such law
        assert 0.7 * pair.epsilon < exact <= pair.epsilon * (1 + 1e-9)
        assert pair.law.epsilon(distinguish.WEAKER) > 1.1 * pair.epsilon


def test_the_gaussian_curve_is_the_one_of_the_theorem():
    for mu, delta in ((0.2, 1e-5), (1.0, 1e-6), (3.0, 0.01)):
        assert math.isclose(bounds.gaussian_epsilon(mu, delta), get_epsilon_gaussian(1.0 / mu, delta), rel_tol=1e-9)
    assert bounds.gaussian_delta(1.0, -0.5) > 1.0 - math.exp(-0.5)  # of a loss that is always above ε


def test_a_choice_beside_a_gaussian_loses_what_a_sum_over_both_says():
    """Against δ(ε) by a plain integral over (choice, y); and with almost no choice it is the Gaussian's."""
    law, y = laws.GaussianAndChoice(0.7, 0.5, 1e-5), np.linspace(-12.0, 12.0, 400_001)
    here, there = (np.exp(-((y - sign * 0.35) ** 2) / 2.0) / math.sqrt(2.0 * math.pi) for sign in (1.0, -1.0))
    p = 1.0 - math.exp(-0.25) / 2.0
    gaps = [
        np.maximum(one * here - math.exp(law.epsilon()) * other * there, 0.0)
        for one, other in ((p, 1.0 - p), (1.0 - p, p))
    ]
    assert math.isclose(float(sum(gaps).sum() * (y[1] - y[0])), 1e-5, rel_tol=1e-6)
    alone = laws.Gaussian(0.7, 1e-5)
    assert math.isclose(laws.GaussianAndChoice(0.7, 1e-9, 1e-5).epsilon(), alone.epsilon(), rel_tol=1e-6)
    assert math.isclose(laws.weaker_than(law, law.separation(1.5)), 1.5, rel_tol=1e-9)


def test_the_law_of_the_best_of_two_is_that_of_its_trials():
    """f′(F)·m summed over all outcomes is 1; and the mean of K is the one asked for."""
    law = laws.BestOfTwo((1.0, 2.0), 1.0, 1.0, 8.0)
    assert math.isclose(1.0 / law.gamma, 8.0, rel_tol=1e-9)  # η = 1 is geometric
    q = np.linspace(-40.0, 60.0, 400_001)
    weights = [np.exp(law.log_density(np.full(q.shape, i), q)) for i in (0, 1)]
    total = sum(weights).sum() * (q[1] - q[0])
    rng = np.random.default_rng(5)
    trials = rng.geometric(1.0 / 8.0, 10_000)
    best = [max(rng.integers(0, 2, k) + 1.0 + rng.laplace(size=k)) for k in trials]
    middle = float(np.median(best))
    assert abs(sum(w[q <= middle].sum() for w in weights) * (q[1] - q[0]) / total - 0.5) < 0.027  # 5.4 deviations


def test_the_bound_of_a_coin_is_its_own():
    """10,000 tosses on each side: under log 3 honestly, above it where the coin is worse."""
    rng = np.random.default_rng(2)

    def tosses(p):
        return (rng.random(10_000) < p).astype(float)

    assert 0.85 < bounds.by_events(tosses(0.25), tosses(0.75), level=1e-4) <= math.log(3.0)
    assert bounds.by_events(tosses(0.2), tosses(0.8), level=1e-4) > math.log(3.0)
    assert bounds.by_events(tosses(0.5), tosses(0.5), level=1e-4) <= 0.0


def test_the_bound_of_two_gaussians_is_theirs():
    rng = np.random.default_rng(3)
    here, there = rng.normal(0.4, 1.0, 20_000), rng.normal(-0.4, 1.0, 20_000)
    assert 0.7 < bounds.separation(here, there, level=1e-4) <= 0.8
    assert bounds.separation(here, here, level=1e-4) <= 0.0


def test_clopper_and_pearson_fail_as_seldom_as_they_say():
    """Every count of a coin of 0.3, weighed by its probability: no sampling."""
    from scipy.stats import binom

    hits = np.arange(51)
    weights = binom.pmf(hits, 50, 0.3)
    assert 0.2e-2 < weights[bounds.at_least(hits, 50, 1e-2) > 0.3].sum() <= 1e-2
    assert 0.2e-2 < weights[bounds.at_most(hits, 50, 1e-2) < 0.3].sum() <= 1e-2


def test_a_row_that_proves_little_is_called_blind():
    row = distinguish.Row("m", "c", 9, 1.0, 0.0, None, 0.59)
    assert (row.verdict, row.broken) == ("blind", False)
    assert distinguish.Row("m", "c", 9, 1.0, 0.0, None, 0.6).verdict == "under"
    assert distinguish.Row("m", "c", 9, 1.0, 0.0, None, 1.01).verdict == "above"


def test_the_bill_of_materials_lists_what_is_installed_and_is_the_same_twice():
    made = supply.bill(installed := [*distributions()])
    assert supply.bill(installed[:20]) == supply.bill(installed[19::-1])
    assert (made["bomFormat"], made["specVersion"], made["metadata"]["component"]["name"]) == (
        "CycloneDX",
        "1.6",
        "dpbo",
    )
    names = {part["name"]: part["version"] for part in made["components"]}
    assert names["opendp"] == version("opendp")
    assert {"numpy", "scikit-learn", "skops", "prefect", "mlflow"} <= set(names)
    assert all(part["purl"] == f"pkg:pypi/{part['name']}@{part['version']}" for part in made["components"])
    assert {*made["dependencies"][0]["dependsOn"]} == {part["bom-ref"] for part in made["components"]}


def test_every_dependency_is_locked_to_one_version():
    lock = (Path(__file__).parents[2] / "requirements.lock").read_text().splitlines()
    pinned = [line for line in lock if line and not line.startswith(("#", " "))]
    assert len(pinned) > 100
    assert all("==" in line and "://" not in line for line in pinned)


def test_a_row_that_is_not_what_it_must_be_fails_the_audit():
    head, rule = "| method | case | the guarantee |", "|---|---|---|"
    text = f"{head}\n{rule}\n| a | b | %s |\n\nPlanted faults; every row.\n\n{head}\n{rule}\n| a | c | %s |"
    assert verdict.broken("neighbours", text % ("under", "above")) == []
    assert verdict.broken("neighbours", text % ("above", "above")) == [["a", "b", "above"]]
    assert verdict.broken("neighbours", text % ("blind", "above")) == [["a", "b", "blind"]]
    assert verdict.broken("neighbours", text % ("under", "under")) == [["a", "c", "under"]]
    kills = "| store | kills | x | y | z |\n|---|---|---|---|---|\n| SQLite | 60 | 0 | %s | 0 |"
    assert verdict.broken("kills", kills % 0) == []
    assert verdict.broken("kills", kills % 1)
    planted = "Flows made to leak.\n\n| on | there |\n|---|---|\n| a | %s |"
    leaks = f"| on | found | again |\n|---|---|---|\n| a | 0 | %s |\n\n{planted}"
    assert verdict.broken("leaks", leaks % (0, 3)) == []
    assert verdict.broken("leaks", leaks % (1, 3))
    assert verdict.broken("leaks", leaks % (0, 0))
    boards = "| board | worlds | mean | read |\n|---|---|---|---|\n| ours | 8 | %s | %s |"
    learned = f"{boards}\n\nPlanted faults; every row.\n\n{boards % (0.68, '80 of 80')}"
    assert verdict.broken("boards", learned % (0.543, "41 of 80")) == []
    assert len(verdict.broken("boards", learned % (0.57, "41 of 80"))) == 1
    assert len(verdict.broken("boards", learned % (0.543, "57 of 80"))) == 1
    assert len(verdict.broken("boards", f"{boards}\n\nPlanted faults;\n\n{boards}" % ((0.5, "0 of 80") * 2))) == 1
    replays = "| m | pairs | found | share |\n|---|---|---|---|\n| a | 9 | 0 | %s |"
    assert verdict.broken("replays", replays % "1.000") == []
    assert verdict.broken("replays", replays % "1.001")


INTRUSION = """| attack | before | now | shown by |
|---|---|---|---|
| {0} | x | {1} | y |

| what listens | who | the way | tried | got in |
|---|---|---|---|---|
| dpbo serve | web page | forms | 10 | {2} |

Planted faults; every row must find something.

| what listens | who | the way | tried | got in |
|---|---|---|---|---|
| prefect | second user | every route | 10 | {3} |
"""


MUST_NOT = (  # an attack, what must be, what must not
    ("local uid runs code", "0 of 25 ways", "0 of 11 ways"),
    ("local uid runs code", "0 of 25 ways; 3 not run", "1 of 25 ways"),
    ("ε from one file by renaming", "× 1", "× 2"), ("operator reads a record", "no", "yes"),
    ("paid release readable", "9 of 9", "8 of 9 (not: a picture)"), ("tampering noticed", "3 of 3", "0 of 3"),
    ("silent PostgreSQL", "12.1 s", "15.2 s"), ("silent PostgreSQL", "5.0 s", "inf s"),
    ("K through a worker", "0", "1"),
    ("outbound connections", "0", "1"), ("a canary in a core", "0", "2"),
)  # fmt: skip


def test_what_an_intruder_must_not_get():
    def broken(*cells):
        return [row[0] for row in verdict.broken("intrusion", INTRUSION.format(*cells))]

    for attack, met, missed in MUST_NOT:
        assert broken(attack, met, 0, 3) == []
        assert broken(attack, missed, 0, 3) == [attack]
    assert broken(attack, met, 1, 3) == ["dpbo serve"]
    assert broken(attack, met, "not run: no Chromium on this machine", 3) == []
    assert broken(attack, met, "not run: tired", 3) == ["dpbo serve"]
    assert broken(attack, met, 0, 0) == ["prefect"]
    assert broken("something else", met, 0, 3) == ["something else"]
