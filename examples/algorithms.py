"""The three algorithms of Kusner et al. (2015) as published, as corrected, and where nothing is assumed.

Each runs on bundled public data, so that the exact score may stand beside the released one. Nothing is charged to
your own ledger. `python examples/algorithms.py 3` runs examples/algorithm_3.toml and its hinge.
"""

import sys
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from dpbo import PrivacyBudget, PrivacyLedger, plan_study, run_study
from dpbo_core.mechanisms.noise import InjectedNoise
from dpbo_core.study.spec import read_study
from dpbo_core.theorems.feldman_cousins_1998 import bounded_laplace_interval

FOLDER = Path("examples")
STUDIES = {"1": ["algorithm_1"], "2": ["algorithm_2"], "3": ["algorithm_3", "algorithm_3_hinge"]}
RANGE = {"cap_at_range": True, "score_center": 0.5, "score_spread": 0.25}
FORMS = {  # what each changes in [method] of the study, which is the corrected form
    "lipschitz": {
        "as published": {"calibration": "published"},
        "corrected path": {},
        "all of Λ": {"evaluate": "all"},
    },
    "noisy_gp": {
        "as published": {"calibration": "published"},
        "corrected": {},
        "unassuming": RANGE,
    },
    "exact_gp": {
        "as published": {"calibration": "published"},
        "corrected": {},
        "unassuming": RANGE | {"rate_constant": 1e3, "decay_constant": 0.01},
    },
}
HEADER = f"{'':14}{'Δ':>8}{'noise':>9}{'released':>10}   {'90% interval':16}{'exact':>6}"


def released(spec, *, public, source=None):
    """The release of a study in a ledger of its own, its dataset declared public or under the study's cap."""
    with TemporaryDirectory() as folder, warnings.catch_warnings(action="ignore"):  # much of it is noise, and shown
        ledger = PrivacyLedger(f"sqlite:///{folder}/ledger.db")
        if public:
            ledger.set_budget(PrivacyBudget.without_limit(spec.privacy.dataset))
            spec = spec.replace(budget=None)
        return run_study(spec, ledger=ledger, source=source).release


def line(name, spec):
    """One form: its sensitivity, its noise, what it releases, and what it would release without noise."""
    refuted = plan_study(spec).guarantee.evidence.refuted  # then no ε is proved, and public data alone may be used
    release = released(spec, public=refuted)
    exact = released(spec, public=True, source=InjectedNoise(np.random.default_rng(0), 0.0))
    score, spend = release.value["score"], release.spends[-1]
    low, high = bounded_laplace_interval(score, spend.noise_scale, release.facts["score_range"])
    return (
        f"{name:14}{spend.sensitivity:8.3g}{spend.noise_scale:9.3g}{score:10.3f}   "
        f"{f'{low:.3f} to {high:.3f}':16}{exact.value['score']:6.3f}"
    )


def table(study):
    """A study's forms side by side, as text."""
    spec = read_study(FOLDER / f"{study}.toml")
    forms = FORMS[spec.method].items()
    lines = [line(name, spec.replace(options={**spec.options, **changes})) for name, changes in forms]
    return "\n".join([f"{study}, {spec.model.estimator}, ε = {spec.privacy.epsilon:g}", HEADER, *lines])


if __name__ == "__main__":
    print("\n\n".join(table(study) for number in sys.argv[1:] or STUDIES for study in STUDIES[number]))
