"""The bundled sets: sizes without scikit-learn, and an exact interleaved split."""

import subprocess
import sys
from decimal import ROUND_CEILING, Decimal
from pathlib import Path

import numpy as np
import pytest
from sklearn import datasets

from dpbo_core.data import bundled
from dpbo_core.errors import StudyInvalid

SETS = ["breast_cancer", "digits", "iris", "wine"]


def chosen(n: int, share: str) -> list[int]:
    """The rule with decimals: record i where ⌈(i+1)s⌉ > ⌈is⌉."""
    up = [int((i * Decimal(share)).to_integral_value(ROUND_CEILING)) for i in range(n + 1)]
    return [i for i in range(n) if up[i + 1] > up[i]]


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("share", ["0.5", "0.1", "0.3", "0.07", "0.9"])
def test_the_halves_are_the_set_interleaved(name: str, share: str) -> None:
    bunch = getattr(datasets, f"load_{name}")()
    training, validation = bundled.load(name, float(share))
    held = chosen(len(bunch.target), share)
    kept = sorted(set(range(len(bunch.target))) - set(held))
    assert validation.n_records == len(held) == bundled.validation_size(name, float(share))
    for table, records in ((training, kept), (validation, held)):
        assert tuple(table.columns) == (*map(str, bunch.feature_names), "target")
        values = np.column_stack([table.columns[feature] for feature in bunch.feature_names])
        assert np.array_equal(values, bunch.data[records])
        assert np.array_equal(table.columns["target"], bunch.target[records])
        assert not table.broken.any()


@pytest.mark.parametrize(
    ("name", "opening"),
    [
        ("breast-cancer", "there is no bundled data set 'breast-cancer', did you mean 'breast_cancer'?"),
        ("zzz", "there is no bundled data set 'zzz'. Usual cause"),
    ],
)
def test_an_unknown_name(name: str, opening: str) -> None:
    for call in (lambda: bundled.n_records(name), lambda: bundled.load(name, 0.5)):
        with pytest.raises(StudyInvalid) as caught:
            call()
        assert str(caught.value).startswith(opening)
        assert "use one of breast_cancer, digits, iris, screening, two_scanners, wine" in str(caught.value)


@pytest.mark.parametrize("share", [0.0, 1.5, 0.9999, float("nan")])
def test_a_share_that_leaves_a_half_empty(share: float) -> None:
    with pytest.raises(StudyInvalid, match="leaves one half of iris empty"):
        bundled.load("iris", share)


def test_sizes_are_known_without_the_heavy_libraries() -> None:
    code = (
        "import sys; from dpbo_core.data import bundled;"
        "assert bundled.validation_size('breast_cancer', 0.5) == 285;"
        "print([name for name in ('sklearn', 'pandas', 'pyarrow', 'scipy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_second_scanner_sees_two_fifths_of_the_ink() -> None:
    """The digits, record by record; the public half is as it was."""
    for share in (0.5, 0.75):
        digits, scanned = (bundled.load(name, share) for name in ("digits", "two_scanners"))
        for column in digits[0].columns:
            assert np.array_equal(scanned[0].columns[column], digits[0].columns[column])
            factor = 1.0 if column == "target" else 0.4
            assert np.array_equal(scanned[1].columns[column], factor * digits[1].columns[column])
    assert bundled.n_records("two_scanners") == bundled.n_records("digits")
    assert bundled.public_facts("two_scanners") == bundled.public_facts("digits")


def test_the_simulated_screening_is_the_same_for_ever() -> None:
    """Its numbers are NumPy's legacy generator's, which never change; twelve markers tell, the others do not."""
    public, patients = bundled.load("screening", 0.99625)
    assert (public.n_records, patients.n_records) == (150, 40_000)
    assert patients.columns["marker_0"][:3].tolist() == [0.001, -0.466, 0.646]
    ill = patients.columns["target"] == 1.0
    gap = [
        patients.columns[f"marker_{j}"][ill].mean() - patients.columns[f"marker_{j}"][~ill].mean()
        for j in range(80)
    ]
    assert min(gap[:12]) > 0.3
    assert max(map(abs, gap[12:])) < 0.1


@pytest.mark.slow
def test_the_private_choice_of_the_first_example_earns_its_price() -> None:
    """By the exact scores: what the public scans choose loses a quarter of the records to the best; the ε is 1."""
    from dpbo_core import read_study
    from dpbo_core.methods.public import Public
    from dpbo_core.study import data_split

    folder = Path(__file__).parents[2] / "examples"
    tuned, alone = (read_study(folder / f"{name}.toml") for name in ("two_scanners", "public_scans_alone"))
    assert alone.replace(name=tuned.name, method="auto") == tuned
    assert alone.method == "public"
    public = data_split.public_half(tuned, folder)
    problem, objective = public.problem, data_split.sensitive_half(tuned, folder, public)
    scores = [
        objective.evaluate(problem.train(i)).expose() * problem.score_per_step
        for i in range(len(problem.candidates))
    ]
    assert max(scores) == pytest.approx(0.783, abs=0.02)
    assert scores[Public().choice(problem)] < max(scores) - 0.15
