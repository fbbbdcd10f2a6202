"""Two models compared by AUC: exact sums, their sensitivity by enumeration, intervals, and the way from files."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score
from test_paired_difference import NOISELESS, M, clinic, compared, ledger  # noqa: F401  a fixture

from dpbo_core.data.people import person_identifier
from dpbo_core.errors import CertificateFalse
from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.accounting.certificate import read_certificate, recompute
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.models.scores.roc_auc import RocAuc
from dpbo_core.models.scoring.persons import Persons
from dpbo_core.report.certified import CERTIFIED
from dpbo_core.report.comparison import OpenComparison
from dpbo_core.report.difference import NoisedPairs, classes_factor
from dpbo_core.report.evaluated_model import ComparedModel
from dpbo_core.report.histogram_cells import PersonCells
from dpbo_core.report.ranked_pairs import PairCounter, moved_by_a_unit, person_weight
from dpbo_core.study import StudySpec
from dpbo_core.study.final_training import FinalModel
from dpbo_core.study.query import QueryContext
from dpbo_core.study.run import Run
from dpbo_core.study.tuning import run_study

B = RocAuc.n_cells
RANKED = {"score": "roc_auc"}


def counter(n_units, *, weight=1, of_persons=False):
    side = ComparedModel(None, None, RocAuc())
    return PairCounter(None, challenger=side, champion=side, n_units=n_units, weight=weight, of_persons=of_persons)


def code(record):
    """A record's code: None, or its class and its cells under both models."""
    return 0 if record is None else 1 + (record[0] * B + record[1]) * B + record[2]


def of_records(records):
    return counter(len(records))._of_codes(np.array([code(one) for one in records], dtype=np.int64))


def of_people(people, n, weight):
    """The sums of persons by name, each a list of records."""
    names = [person_identifier(name) for name, records in people.items() for _ in records]
    codes = np.array([code(one) for records in people.values() for one in records], dtype=np.int64)
    cells = PersonCells.of(Persons.of(names), codes)
    return counter(n, weight=weight, of_persons=True).persons_table(cells, n)


def by_hand(people, n, weight, c):
    """2C, V, κP and κQ by all pairs of records of two units."""
    twice_H, classes = [0] * len(people), [0, 0]
    for (u, mine), (v, others) in itertools.product(enumerate(people), repeat=2):
        for one, other in itertools.product(mine, others):
            if u == v or None in (one, other) or one[0] == other[0]:
                continue
            up, down = (one, other) if one[0] else (other, one)
            twice_d = sum(sign * int(np.sign(up[k] - down[k])) for k, sign in ((1, 1), (2, -1)))
            twice_H[u] += twice_d * (weight // len(mine)) * (weight // len(others))
    for records in people:
        for one in records:
            if one is not None:
                classes[1 - one[0]] += weight // len(records)
    kappa = classes_factor(n)
    V = sum(one**2 for one in twice_H) // (4 * c * n * weight**2)
    return [sum(twice_H) // 2, V, kappa * weight * classes[0], kappa * weight * classes[1]]


def test_the_sums_are_those_of_all_pairs_of_records_and_of_persons():
    rng = np.random.default_rng(3)
    for _ in range(40):
        drawn = [tuple(map(int, rng.integers(0, (2, 4, 4)))) if rng.random() < 0.9 else None for _ in range(9)]
        assert of_records(drawn).tolist() == by_hand([[one] for one in drawn], 9, 1, 1)
        people = {str(u): drawn[3 * u : 3 * u + rng.integers(1, 4)] for u in range(3)}
        weight = 64
        assert of_people(people, 3, weight).tolist() == by_hand([*people.values()], 3, weight, 2)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_one_record_moves_the_four_sums_by_their_sensitivity_at_most(n):
    """All tables of n records with cells 0 to 2, as far as replacing the first one may tell them apart."""
    kinds = [None, *itertools.product((0, 1), (0, 2), (0, 1, 2))]
    rng, worst = np.random.default_rng(n), 0
    rests = [*itertools.combinations_with_replacement(kinds, n - 1)]
    for place in rng.permutation(len(rests))[:60]:
        sums = np.array([of_records([one, *rests[place]]) for one in kinds])
        worst = max(worst, int(np.abs(sums[:, None] - sums[None]).sum(axis=2).max()))
    assert worst <= moved_by_a_unit(n, 1)


def test_the_worst_tables_move_the_four_sums_nearly_as_far_as_noise_hides():
    """One record of a class, ranked above all others by one model and below by the other."""
    for n in (20, 60):
        others = [(0, 1, 1)] * (n - 1)
        up, down = of_records([(1, 2, 0), *others]), of_records([(1, 0, 2), *others])
        assert 0.9 * moved_by_a_unit(n, 1) < np.abs(up - down).sum() <= moved_by_a_unit(n, 1)
        half = [(1, 1, 1)] * (n // 2) + [(0, 1, 1)] * (n - n // 2 - 1)
        for one, other in itertools.permutations([(1, 2, 0), (1, 0, 2), (0, 2, 0), (0, 0, 2), None], 2):
            moved = np.abs(of_records([one, *half]) - of_records([other, *half])).sum()
            assert moved <= moved_by_a_unit(n, 1)


def test_one_person_moves_the_four_sums_by_their_sensitivity_at_most():
    """Random tables of persons with up to four records each; more persons than are stated count no more."""
    rng = np.random.default_rng(8)

    def person():
        return [tuple(map(int, rng.integers(0, (2, 3, 3)))) for _ in range(rng.integers(1, 5))]

    for n in (2, 3, 6, 12):
        weight = person_weight(n)
        for surplus in (0, 2):
            rest = {f"p{u}": person() for u in range(n - 1 + surplus)}
            sums = [of_people({**rest, f"new {one}": person()}, n, weight) for one in range(12)]
            sums.append(of_people(rest, n, weight))
            assert max(int(one[2] + one[3]) for one in sums) <= classes_factor(n) * n * weight**2
            apart = np.array([[int(a) - int(b) for a, b in zip(x, y, strict=True)] for x in sums for y in sums])
            assert np.abs(apart).sum(axis=1).max() <= moved_by_a_unit(n, weight)
    assert (person_weight(100), person_weight(2**20)) == (2**18, 2**9)


def noiseless(tables, folder, name):
    """The comparison of a study that is run without noise, and its release."""
    spec = StudySpec.from_dict(tables | {"study": {"name": name, "method": "private_grid"}}).replace(budget=None)
    own = PrivacyLedger(f"sqlite:///{folder / 'injected.db'}")
    own.set_budget(PrivacyBudget.without_limit(spec.privacy.dataset))
    release = run_study(spec, ledger=own, folder=folder, source=NOISELESS).release
    return compared(spec, own, folder, NOISELESS).value, FinalModel.of_release(spec, folder, release)


def test_the_difference_of_the_aucs_is_released_from_a_file_and_from_a_folder(tmp_path):
    tables = clinic(tmp_path, column=lambda frame: frame["a"], model=RANKED)
    value, final = noiseless(tables, tmp_path, "one")
    frame = pd.read_csv(tmp_path / "validation.csv")
    ours = final.predict_proba(frame)[:, 1]
    wanted = roc_auc_score(frame["ill"], ours) - roc_auc_score(frame["ill"], frame["a"])
    shown = value["difference"]
    assert shown["value"] == pytest.approx(wanted, abs=2e-3)  # values in 2¹⁶ cells
    assert shown["noise_interval"][0] < wanted < shown["noise_interval"][1]
    assert shown["interval"][0] < shown["noise_interval"][0]
    (tmp_path / "parts").mkdir()
    for place in range(2):
        half = frame.iloc[place * M // 2 : (place + 1) * M // 2]
        half.to_parquet(tmp_path / "parts" / f"{place}.parquet", index=False)
    folder = tables | {"data": {**tables["data"], "validation": "parts"}}
    assert noiseless(folder, tmp_path, "two")[0]["sums"] == value["sums"]


def test_each_person_counts_once_in_the_difference_of_the_aucs(tmp_path):
    tables = clinic(tmp_path, column=lambda frame: frame["a"], evaluation=RANKED)
    tables["privacy"] |= {"person": "who", "dataset": "people"}
    tables["data"] = {**tables["data"], "n_persons": M // 2, "ignore": ["sex", "old"]}
    del tables["data"]["n_validation"]
    value, final = noiseless(tables, tmp_path, "people")
    frame = pd.read_csv(tmp_path / "validation.csv")
    ours = final.predict_proba(frame)[:, 1]
    wanted = roc_auc_score(frame["ill"], ours) - roc_auc_score(frame["ill"], frame["a"])  # two records each
    assert value["difference"]["value"] == pytest.approx(wanted, abs=5e-3)
    frame.to_csv(tmp_path / "validation.csv", index=False)
    (tmp_path / "parts").mkdir()
    shuffled = frame.sample(frac=1.0, random_state=0)
    for place in range(2):
        shuffled.iloc[place::2].to_parquet(tmp_path / "parts" / f"{place}.parquet", index=False)
    folder = tables | {"data": {**tables["data"], "validation": "parts"}}
    assert noiseless(folder, tmp_path, "in parts")[0]["sums"] == value["sums"]


def test_a_noised_difference_of_aucs_is_one_spend_that_a_certificate_recomputes(tmp_path, ledger):  # noqa: F811
    tables = clinic(tmp_path, column=lambda frame: frame["a"], model=RANKED)
    spec = StudySpec.from_dict(tables | {"study": {"name": "clinic", "method": "private_grid"}})
    run_study(spec, ledger=ledger, folder=tmp_path)
    opened = OpenComparison.of(Run.of(spec, QueryContext(ledger, tmp_path)), None, None)
    assert "ranks differ by" in opened.power_in_words
    assert 0.02 < opened.expected_json()["detectable"] < 0.5
    found = compared(spec, ledger, tmp_path)
    (spend,) = found.spends
    assert (spend.sensitivity, spend.noise_scale) == (pytest.approx(2.0), pytest.approx(2.0))
    assert read_certificate(found.to_json(), CERTIFIED) == found
    recompute(found, CERTIFIED)
    forged = {**found.value, "sums": [one + 10**6 for one in found.value["sums"]]}
    with pytest.raises(CertificateFalse):
        recompute(replace(found, value=forged), CERTIFIED)


def test_too_few_of_a_class_say_nothing_and_a_verdict_follows_the_interval():
    kappa = classes_factor(200)
    assert NoisedPairs(200, 801.0, (40, 20, 60 * kappa, 140 * kappa)).noise_interval == (-1.0, 1.0)
    assert NoisedPairs(200, 401.0, (40, 20, 60 * kappa, 140 * kappa)).noise_interval[0] > -0.2
    clear = NoisedPairs(2000, 2000.0, (160_000, 300, 600 * 500, 1400 * 500))
    low, high = clear.interval
    assert 0.0 < low < 160_000 / (2 * 600 * 1400) < high < 0.3
    assert clear.mean == pytest.approx(160_000 / (2 * 600 * 1400))
    assert replace(clear, of_persons=True).interval[0] < low
    swapped = replace(clear, drawn=(-160_000, *clear.drawn[1:]))
    assert swapped.interval == pytest.approx((-high, -low), abs=1e-4)


@pytest.mark.slow
def test_intervals_of_an_auc_difference_hold_the_truth():
    """300 draws of three laws: of 90%, fewer than 80% would be missed by chance with probability below 1e-7."""
    rng, n, scale = np.random.default_rng(5), 400, 801.0
    for kind in ("alike", "rare", "few"):

        def drawn(size, kind=kind):
            x = rng.normal(size=size)
            y = (x + rng.normal(size=size) > (2.0 if kind == "few" else 0.5)).astype(int)
            a, b = (x + 0.25 * rng.normal(size=size) for _ in "ab")
            a = np.where(rng.random(size) < 0.01, -3.0 * x, a) if kind == "rare" else a
            cells = [np.clip((one + 8.0) * 4096, 0, B - 1).astype(int) for one in (a, b)]
            return 1 + (y * B + cells[0]) * B + cells[1]

        C, _, P, Q = counter(4)._of_codes(drawn(300_000)).tolist()
        truth, inside = C / (2.0 * P * Q), 0
        for _ in range(300):
            z = rng.geometric(-np.expm1(-1.0 / scale), size=(4, 2))
            sums = counter(n)._of_codes(drawn(n)) + z[:, 0] - z[:, 1]
            low, high = NoisedPairs(n, scale, tuple(map(int, sums))).interval
            inside += low <= truth <= high
        assert inside >= 240
