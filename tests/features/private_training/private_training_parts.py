"""What private training adds to the suites that test all methods alike."""

import math
import os
from functools import partial
from unittest.mock import patch

from scipy.optimize import brentq

from dpbo.features.private_training import dp_hypo
from dpbo.features.private_training.dp_hypo import DpHypo
from dpbo.features.private_training.union import BASES
from dpbo_core.study import StudySpec
from dpbo_core.study.resolve import resolve

WITHOUT_PERSONS_MEANS = "dp_hypo"  # a method with no proof where each person's mean counts once


# Telling neighbours apart

QUICK = {"dp_hypo": "uniform, η = 0"}  # the pair of the short run
QUICK_RUNS = {"dp_hypo": 150}
FAULTS_OF_PAIRS = {"K revealed"}


def worst_pairs(epsilon):
    from worst_trials import trials_case

    adaptive = DpHypo(sampler="gaussian_process", lower=0.98, upper=1.02, shape=-0.5)
    return {
        "dp_hypo": (
            trials_case("uniform, η = 1", DpHypo(), 3 * epsilon, mean=48, gap=3, runs=(75_000, 0)),
            trials_case("uniform, η = 0", DpHypo(shape=0.0), 2 * epsilon, mean=16, gap=2, runs=(40_000, 60_000)),
            trials_case("adaptive, η = −0.5", adaptive, 2.5 * epsilon, mean=6, gap=1, runs=(15_000, 24_000)),
        )
    }


def planted_pairs(epsilon):
    from worst_trials import trials_case

    return (trials_case("K revealed", DpHypo(), 3 * epsilon, mean=8, gap=0, runs=(0, 30_000), reveals=True),)


# Campaigns of `make audit`


def intrusion_row(team):
    """How many workers count the evaluations of the method that hides them."""
    from test_dp_hypo import study

    from dpbo.flows.private_flow import workers
    from dpbo.flows.stores import DASK_SETTING

    with team() as folder, patch.dict(os.environ, {DASK_SETTING: "tls://127.0.0.1:1"}):
        spec = StudySpec.from_dict(study(folder))
        with workers(spec, str(folder), resolve(spec).method) as made:
            seen = 0 if made is None else made.n_processes
    return "K through a worker's counters", "exact", f"{seen}", "test_workers.py"


def fuzzed_study(study, n):
    """The study of files with both sets sensitive, n records each."""
    study["study"]["method"] = "dp_hypo"
    labels = {"labels": [0, 1], "bounds": {"*": [-3.0, 3.0]}}
    study["data"] |= {"sensitive": "training", "n_training": n} | labels
    return study


# Tables without a header line


def train_privately(study):
    """The study as one whose training set is sensitive, as its [data] says."""
    study["study"]["method"], study["space"] = "dp_hypo", {"learning_rate": {"values": [8.0, 20.0]}}
    study["method"] = {"base": "noisy_gradient_descent"}
    del study["evaluation"]
    return study


# What an observer sees


def observed(study, way):
    from observer.ways import TUNE

    return {"dp_hypo": way(study("dp_hypo", trains=True), TUNE)}


FITS_NO_KERNEL = {"dp_hypo": {"sampler": "gaussian_process", "lower": 0.99, "upper": 1.01}}
NEEDS_NO_KERNEL = {"dp_hypo": {}}


# The contract of every method

ADAPTIVE = {"sampler": "gaussian_process", "lower": 0.999, "upper": 1.002}
VARIANTS = {
    "hypo": DpHypo(),
    "hypo, logarithmic": DpHypo(shape=0.0),
    "hypo, adaptive": DpHypo(**ADAPTIVE),
    "hypo, informed": DpHypo(prior=tuple(range(1, 13))),
    "hypo, informed and adaptive": DpHypo(prior=tuple(range(1, 13)), **ADAPTIVE),
}
QUICK_VARIANT = "hypo"


# Library calls that are made to fail

SENSITIVE = {"sensitive": "training", "n_training": 24, "labels": ["no", "yes"], "bounds": {"*": [-3.0, 3.0]}}
RATES = {"learning_rate": {"low": 1.0, "high": 4.0, "points": 2}}
LAMBDAS = {"lambda": {"low": 0.1, "high": 1.0, "points": 2}}
AXES = {
    "noisy_gradient_descent": RATES | {"epochs": {"values": [2]}},
    "dp_sgd": RATES | {"epochs": {"values": [1]}},
    "output_perturbation": LAMBDAS,
    "objective_perturbation": LAMBDAS,
}


def both_sensitive(study, base, accepts=(), **options):
    return study(
        study={"method": "dp_hypo", "accepts": list(accepts)},
        privacy={"epsilon": 8.0, "dataset": "both"},
        data=SENSITIVE,
        model={"score": "accuracy"},
        space=AXES[base],
        search={"steps": 4},
        method={"base": base, **options},
    )


def failing_studies(study):
    private = partial(both_sensitive, study)
    adaptive = {"sampler": "gaussian_process", "lower": 0.9, "upper": 1.1}
    return {
        "dp_hypo, public": study(study={"method": "dp_hypo"}),
        "dp_hypo, noisy_gradient_descent": private("noisy_gradient_descent", **adaptive),
        "dp_hypo, dp_sgd": private("dp_sgd", stopping="poisson"),
        "dp_hypo, output_perturbation": private("output_perturbation", **adaptive),
        "dp_hypo, objective_perturbation": private("objective_perturbation", hide_duration=True),
        "dp_hypo, one training": private("noisy_gradient_descent", stopping="one"),
        "dp_hypo, disjoint people": private("dp_sgd", ["disjoint_people"], people="disjoint"),
    }


def failing_evaluations(study):
    asked = both_sensitive(study, "noisy_gradient_descent", stopping="one")
    return {"evaluation, private training": asked | {"evaluation": {"epsilon": 1.0}}}


# The rules of the house

ALIKE_FILES = {"union": "the closed union of its room"}
NAMED = {"features/private_training": BASES}  # names that stand in one file of this room alone
PLANTED_NAMES = [
    ("features/private_training/dp_hypo.py", 'DEFAULT = "noisy_gradient_descent"', "noisy_gradient_descent")
]


# What a plan prints, and pays


N_STEPS = 30  # the mean number of trials of a geometric law


def best_of(epsilon, c, C):
    """The exact pure ε of the best of a geometric number of ε-DP trials, by the places where its parts meet."""
    gamma, e = 1.0 / N_STEPS, math.exp(epsilon)
    g_kink = (1.0 - c) / (C - c) if c < C else 1.0
    places = [0.0, 1.0, 1.0 / (1.0 + e), max(g_kink / e, 1.0 - e * (1.0 - g_kink))]
    if c < C:
        places.append((C - 1.0) / (C - c))
    worst = 0.0
    for r in places:
        g = min(e * r, 1.0 - (1.0 - r) / e)
        better, other = max(c * r, 1.0 - C * (1.0 - r)), min(C * g, 1.0 - c * (1.0 - g))
        worst = max(worst, (gamma + (1.0 - gamma) * other) / (gamma + (1.0 - gamma) * better))
    return epsilon + math.log(C / c) + 2.0 * math.log(worst)


def trials(noise_of, method):
    """The quality's ε at which the whole costs 1: exactly, or as published (2 + η)(ε + log C/c) = 1."""
    c, C = (method.lower, method.upper) if method.sampler == "gaussian_process" else (1.0, 1.0)
    each = 1.0 / (2 + method.eta) - math.log(C / c)
    if method.calibration == "corrected":
        each = brentq(lambda epsilon: best_of(epsilon, c, C) - 1.0, 1e-9, 1.0, xtol=1e-15)
    return [(noise_of, noise_of / each)]


def standings(sensitivity):
    """(method, standing, its draws' prices): `sensitivity` is the score's, at ε = 1."""
    adaptive = {"sampler": "gaussian_process", "lower": 0.9, "upper": 1.1}
    prices = partial(trials, sensitivity)
    return [
        (DpHypo(), "corrected", prices),
        (DpHypo(**adaptive), "corrected", prices),
        (DpHypo(calibration="published"), "printed", prices),
        (DpHypo(**adaptive, calibration="published"), "printed", prices),
    ]


LABELS_ELSEWHERE = [
    dp_hypo.ONE_EVIDENCE.note,
]

RANGED = {  # a method of every range that a study's score may have
    "adaptive": DpHypo(sampler="gaussian_process", lower=0.9, upper=1.1, inverse_temperature=9e5)
}
FAILURE_ROOMS = {
    "features.private_training": (
        ("release", "sealed"), "every point of Λ was checked at the study's sizes before the charge"
    ),
}  # fmt: skip


# Lists of the pages

LISTED_IN = "docs/how_to/private_training.md"


def bases():
    """Each private base algorithm: which models, which hyperparameters, and whether it is pure."""
    from lists import table

    rows = []
    for base in BASES.values():
        if base.private:
            defaults = {
                name: "" if axis.default is None else f" ({axis.default:g})" for name, axis in base.axes.items()
            }
            axes = ", ".join(f"`{name}`{default}" for name, default in defaults.items())
            models = ", ".join(f"`{model}`" for model in base.models) or "any"
            rows.append((f"`{base.name}`", models, axes, "0" if base.pure else "> 0"))
    return table(("`base`", "models", "axes of `[space]`, with their defaults", "δ"), rows)


LISTS = {"bases": bases}
ADDED = {"base": ("adding_a_part", "A private base algorithm")}
CLAIMS = {("the training set is sensitive too", 1): lambda _: DpHypo.trains_privately}
OPENS_SENSITIVE = tuple(
    f"features/private_training/{name}.py" for name in ("hypo_search", "trial_price", "trial_search")
)

# a trainer's own code and model: pickled for a process that is confined, or loaded once the ledger has its digest
PICKLES = tuple(
    f"features/private_training/{name}.py" for name in ("private_trials", "trial_child", "trial_process")
)
PICKLES += ("features/private_training/trial_plan.py",)
